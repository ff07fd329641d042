"""Runs the comparison: `python -m benchmarks.peers [--quick] [--out DIR]` (or `make bench-peers`, after `make peers`).

Leaves runs.parquet, speed.parquet, table.md and figure.png in the folder; with --document also in docs/peers.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import pandas

from benchmarks.documents import put_between
from benchmarks.peers import measuring, report
from benchmarks.peers.figure import draw
from benchmarks.peers.labellers import WARM
from benchmarks.peers.measuring import Study

ROOT = Path(__file__).parents[2]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look: 1,000 rounds, two seeds, 5 %% only")
    parser.add_argument("--out", type=Path, default=Path("results/peers"))
    parser.add_argument("--data", default="phishing,image_segments,digits,movielens")
    parser.add_argument("--budgets", default="0.01,0.05,0.1", help="shares of the rounds")
    parser.add_argument("--rounds", type=int, default=4_000)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--turns", type=int, default=5, help="of each candidate when speed is measured; 0: do not")
    parser.add_argument("--peers", default="", help="only these packages, by the names that are imported")
    parser.add_argument("--jobs", type=int, default=1, help="processes for the runs; speed is measured with one")
    parser.add_argument("--again", action="store_true", help="no runs: write tables and figure of what is in --out")
    parser.add_argument("--document", action="store_true", help="put tables and figure into docs/peers.md")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds, chosen.seeds, chosen.budgets, chosen.turns = 1_000, 2, "0.05", min(chosen.turns, 2)
    chosen.shares = tuple(sorted(float(share) for share in chosen.budgets.split(",")))
    if min(chosen.shares) * chosen.rounds < 2 * WARM or max(chosen.shares) >= 1.0 or chosen.seeds < 2:
        parser.error(f"budgets must be shares below 1 that allow {2 * WARM} asks or more, and seeds 2 or more")
    return chosen


def command(words: list[str]) -> str:
    """The command as a reader can repeat it: where its results went is of this machine only.

    >>> command(["--jobs", "2", "--out", "somewhere"])
    'python -m benchmarks.peers --jobs 2'
    """
    kept = [word for i, word in enumerate(words) if word != "--out" and words[max(i - 1, 0)] != "--out"]
    return " ".join(["python -m benchmarks.peers", *kept])


def measured(chosen: argparse.Namespace) -> None:
    """Run everything and keep the results."""
    candidates, missing = measuring.taking_part([name for name in chosen.peers.split(",") if name])
    for package, why in missing.items():
        print(f"{package} is left out ({why}): make peers installs it")
    study = Study(tuple(chosen.data.split(",")), chosen.shares, chosen.rounds, chosen.seeds, chosen.jobs)
    settings = measuring.pilot(study, candidates)
    runs, failures = measuring.measure(study, candidates, settings)
    chosen.out.mkdir(parents=True, exist_ok=True)
    runs.to_parquet(chosen.out / "runs.parquet")
    speed_rounds = min(3_000, study.rounds)
    speed = measuring.speed(candidates, settings, chosen.turns, speed_rounds) if chosen.turns else {}
    times = pandas.DataFrame([{"candidate": n, "best": t.best, "spread": t.spread} for n, t in speed.items()])
    times.to_parquet(chosen.out / "speed.parquet")
    about = {
        "command": command(sys.argv[1:]),
        "rounds": study.rounds,
        "seeds": study.seeds,
        "turns": chosen.turns,
        "speed_rounds": speed_rounds,
        "missing": missing | failures,
    }
    (chosen.out / "about.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def main() -> None:
    chosen = options()
    if not chosen.again:
        measured(chosen)
    text = report.written(chosen.out)
    (chosen.out / "table.md").write_text(text, encoding="utf-8")
    draw(pandas.read_parquet(chosen.out / "runs.parquet"), chosen.out / "figure.png")
    print(text)
    if chosen.document:
        put_between(ROOT / "docs" / "peers.md", report.BEGIN, report.END, text)
        shutil.copy(chosen.out / "figure.png", ROOT / "docs" / "figures" / "peers.png")


if __name__ == "__main__":
    main()
