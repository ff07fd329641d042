"""Runs all worlds and judges BalancedMatching: `python -m benchmarks.worlds [--quick] [--only ID,…]` (`make worlds`).

Leaves runs.parquet, losses.csv, judgement.json, table.md and figure.png in the folder; with --document also in
docs/worlds.md and the README. Exits with 1 if a criterion fails. What was run is kept; an interrupted suite goes on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

import pandas
from rich.console import Console
from rich.table import Table

import sparingly as sp
from benchmarks.documents import put_between
from benchmarks.worlds import losses as losing
from benchmarks.worlds import report
from benchmarks.worlds.candidates import EVERYBODY
from benchmarks.worlds.figure import draw
from benchmarks.worlds.judging import Criterion, judge
from benchmarks.worlds.measuring import Store, measure, tasks_for
from benchmarks.worlds.suite import WORLDS

ROOT = Path(__file__).parents[2]


def options(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worlds", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look, with few seeds")
    parser.add_argument("--only", default="", help="these worlds, by their ids or how ids begin")
    parser.add_argument("--again", default="", help="run only these candidates, and take what is kept of the others")
    parser.add_argument("--list", action="store_true", help="list the worlds, and run nothing")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=Path("results/worlds"))
    parser.add_argument("--document", action="store_true", help="put tables into docs/worlds.md and the README")
    chosen = parser.parse_args(words)
    starts = tuple(word for word in chosen.only.split(",") if word)
    chosen.ids = [key for key in WORLDS if not starts or key.startswith(starts)]
    chosen.names = [name for name in chosen.again.split(",") if name]
    if not chosen.ids or set(chosen.names) - set(EVERYBODY):
        parser.error(f"there are the worlds {', '.join(WORLDS)} and the candidates {', '.join(EVERYBODY)}")
    if chosen.document and (chosen.quick or chosen.only or chosen.names):
        parser.error("the document shows the whole suite, run with one version of the code")
    return chosen


def listing() -> Table:
    """All worlds."""
    view = Table(title=f"{len(WORLDS)} worlds")
    for column in ("id", "tag", "setting", "what it is", "budget", "rounds"):
        view.add_column(column)
    for w in WORLDS.values():
        view.add_row(w.id, w.tag, w.setting, w.says, f"{report.amount(w.amount)} {w.shape}", f"{w.rounds:,}")
    return view


def about(runs: pandas.DataFrame, command: str) -> str:
    """How the tables were made."""
    seeds = runs.groupby("world")["seed"].nunique()
    spread = f"{seeds.min()} to {seeds.max()}" if seeds.min() < seeds.max() else f"{seeds.min()}"
    return f"`{command}`, sparingly {sp.__version__}: {seeds.size} worlds, {spread} seeds each."


def write(out: Path, runs: pandas.DataFrame, criteria: list[Criterion], losses: pandas.DataFrame, text: str) -> None:
    """Everything as files."""
    out.mkdir(parents=True, exist_ok=True)
    runs.to_parquet(out / "runs.parquet", index=False)
    losses.to_csv(out / "losses.csv", index=False)
    (out / "judgement.json").write_text(json.dumps([c.row() for c in criteria], indent=1, ensure_ascii=False))
    (out / "table.md").write_text(text, encoding="utf-8")


def main() -> int:
    chosen, screen = options(), Console()
    screen = screen if screen.is_terminal else Console(width=140)  # in a file the table has room
    if chosen.list:
        screen.print(listing())
        return 0
    start, tasks = time.monotonic(), tasks_for(chosen.ids, chosen.quick)
    runs = measure(tasks, Store(chosen.out / "parts"), chosen.jobs, chosen.names or None)
    losses, worlds = losing.of_all(runs), [WORLDS[key] for key in chosen.ids]
    criteria = judge(losses, WORLDS, whole=not chosen.only)
    command = " ".join(["python -m benchmarks.worlds", *(["--quick"] if chosen.quick else [])])
    text = report.written(losses, worlds, criteria, about(runs, command))
    write(chosen.out, runs, criteria, losses, text)
    draw(losses, worlds, chosen.out / "figure.png")
    screen.print(report.on_screen(losses, worlds))
    for criterion in criteria:
        verdict = "[green]holds[/]" if criterion.holds else "[bold red]fails[/]"
        screen.print(f"{verdict}  {criterion.says}: {criterion.found}")
    screen.print(f"{time.monotonic() - start:.0f} s; files in {chosen.out}")
    if chosen.document:
        put_between(ROOT / "docs" / "worlds.md", report.BEGIN, report.END, text)
        put_between(ROOT / "README.md", report.BEGIN, report.END, report.for_readme(losses))
        shutil.copy(chosen.out / "figure.png", ROOT / "docs" / "figures" / "worlds.png")
    return 0 if all(criterion.holds for criterion in criteria) else 1


if __name__ == "__main__":
    sys.exit(main())
