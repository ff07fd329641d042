"""Records what a newcomer meets: clone, install, first decision, first figure, in an environment of its own.

`make first-run` runs it. It writes docs/first_run.txt, and a recording for asciinema beside it, docs/first_run.cast.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIRST = """import time
began = time.perf_counter()
import sparingly as sp
agent = sp.Agent(sp.UCB1(2), budget=100, actions=["small", "large"])
for i in range(300):
    d = agent.decide()
    if d.ask:
        agent.observe(d, reward=d.action == "large")
    if i == 0:
        print(f"the first decision and its answer after {time.perf_counter() - began:.2f} s, import included")
print(d.action, "after", agent.decisions, "decisions;", agent.ledger)
agent.save("agent.json")
"""
FIGURE = """import sparingly as sp
agent = sp.Agent.load("agent.json")
agent.plot().figure.savefig("agent.png")
"""
STEPS = (  # what is said, and what is typed
    ("Get it", "git clone --quiet SOURCE sparingly"),
    ("An environment of its own", "python3 -m venv env"),
    ("Install the library", "env/bin/pip install --quiet ./sparingly"),
    (
        "The first decisions, with nothing compiled yet; the end waits for what is being compiled, and keeps it",
        "env/bin/python first.py",
    ),
    ("What a figure needs", "env/bin/pip install --quiet './sparingly[lab]'"),
    ("The first figure", "env/bin/python figure.py"),
    ("How large it all is, in MB", "du -sm env"),
)


class Recorder:
    """What happens, as plain text and as an asciicast: an event with its time for each piece of output."""

    def __init__(self) -> None:
        self.began, self.text = time.perf_counter(), ""
        self.events: list[list[object]] = []

    def say(self, text: str) -> None:
        """Show a piece of output."""
        self.text += text
        self.events.append([round(time.perf_counter() - self.began, 3), "o", text.replace("\n", "\r\n")])
        print(text, end="", flush=True)

    def run(self, said: str, typed: str, command: str, home: Path) -> None:
        """Run one step, and say how long it took."""
        self.say(f"# {said}\n$ {typed}\n")
        settings = os.environ | {"NUMBA_CACHE_DIR": str(home / "cache"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        settings.pop("PYTHONPATH", None)
        began = time.perf_counter()
        words = ["/bin/sh", "-c", command]
        done = subprocess.run(words, cwd=home, env=settings, capture_output=True, text=True)  # noqa: S603
        self.say(f"{done.stdout}{done.stderr if done.returncode else ''}# {time.perf_counter() - began:.1f} s\n\n")
        if done.returncode:
            sys.exit(f"{typed} failed")


def main() -> None:
    """Record all steps."""
    recorder = Recorder()
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    recorder.say(
        f"# Recorded by `make first-run`: Python {platform.python_version()}, {os.cpu_count()} cores, {load:.1f} jobs "
        "waiting for each of them.\n# Downloads are as fast as your network.\n\n"
    )
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "first.py").write_text(FIRST)
        (home / "figure.py").write_text(FIGURE)
        recorder.say("$ cat first.py\n" + FIRST + "\n$ cat figure.py\n" + FIGURE + "\n")
        for said, typed in STEPS:
            pinned = f" -c {ROOT / 'constraints.txt'} " if "pip install" in typed else " "
            command = typed.replace(" --quiet ", f" --quiet{pinned}").replace("SOURCE", str(ROOT))
            recorder.run(said, typed.replace("SOURCE", "…/sparingly"), command, home)
        if not (home / "agent.png").stat().st_size:
            sys.exit("there is no figure")
    header = {"version": 2, "width": 120, "height": 40, "title": "sparingly: the first run"}
    (ROOT / "docs" / "first_run.txt").write_text(recorder.text, encoding="utf-8")
    lines = [json.dumps(header), *(json.dumps(event, ensure_ascii=False) for event in recorder.events)]
    (ROOT / "docs" / "first_run.cast").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
