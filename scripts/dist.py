"""Builds a wheel and a source archive in dist/, and tries both in environments of their own, without a compiler.

`make dist` runs it. It ends with an error if one of them cannot be installed, or does not do what the README promises.
The notes of the release, dist/release-notes.md, are the newest section of CHANGELOG.md that has any text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
SMOKE = """
import resource, sys, time
began = time.perf_counter()
import sparingly as sp
imported = time.perf_counter()
agent = sp.Agent(sp.UCB1(2), budget=10, seed=0, actions=["small", "large"])
d = agent.decide()
agent.observe(d, 1)
decided = time.perf_counter()
agent.save("agent.json")
assert sp.Agent.load("agent.json").decide() == agent.decide()
assert str(sp.__file__).startswith(sys.prefix), sp.__file__
try:
    agent.plot()
except sp.MissingExtra as error:
    assert "sparingly[lab]" in str(error), error
else:
    raise AssertionError("matplotlib should not be here")
from importlib.metadata import metadata
from importlib.resources import files
about = metadata("sparingly")
assert about["Description-Content-Type"] == "text/markdown" and about["Requires-Python"], about
assert {"lab", "serve", "client", "gym"} <= set(about.get_all("Provides-Extra"))
for part in ("py.typed", "serve/page/index.html", "serve/page/page.js"):
    assert files("sparingly").joinpath(part).is_file(), part
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"import {imported - began:.2f} s, first decide and observe {1000 * (decided - imported):.0f} ms, "
      f"peak memory {memory:.0f} MB")
"""


def run(*command: object, **options: object) -> str:
    """What a command prints; if it fails, this program ends with what it said."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)  # noqa: S603  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return str(done.stdout)


def megabytes(folder: Path) -> float:
    """How much the files of a folder take."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def try_out(archive: Path) -> None:
    """Install an archive with nothing but its dependencies, and let it decide."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        venv.create(home / "env", with_pip=True)
        python = home / "env" / "bin" / "python"
        before, began = megabytes(home / "env"), time.perf_counter()
        no_compiler = os.environ | {"CC": "/bin/false", "CXX": "/bin/false"}
        no_compiler.pop("PYTHONPATH", None)
        only = ["--only-binary", "numpy,numba,llvmlite", "-c", ROOT / "constraints.txt"]
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *only, archive, env=no_compiler)
        seconds = time.perf_counter() - began
        settings = no_compiler | {"NUMBA_CACHE_DIR": str(home / "cache")}
        said = run(python, "-c", SMOKE, cwd=home, env=settings).strip()
        size = megabytes(home / "env") - before
        print(
            f"{archive.name}: {archive.stat().st_size / 1e6:.1f} MB; installs in {seconds:.0f} s, {size:.0f} MB. {said}"
        )


def release_notes() -> str:
    """The newest section of the changelog that says anything."""
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return next("# " + section for section in sections if "\n- " in section)


def main() -> None:
    """Build, try, and write the notes."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    archives = sorted(DIST.glob("*.whl")) + sorted(DIST.glob("*.tar.gz"))
    assert len(archives) == 2, archives
    for archive in archives:
        try_out(archive)
    (DIST / "release-notes.md").write_text(release_notes(), encoding="utf-8")
    print(
        f"Both work. They are in {DIST.name}/, with release-notes.md; to publish: twine upload dist/*.whl dist/*.tar.gz"
    )


if __name__ == "__main__":
    main()
