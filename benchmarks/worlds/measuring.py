"""Everybody through all worlds, on several processes. What was run is kept, and an interrupted suite goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
from joblib import Parallel, delayed
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.worlds.candidates import run, taking_part
from benchmarks.worlds.suite import WORLDS
from benchmarks.worlds.world import World
from sparingly.lab.reproduce import code_digest

ROUNDS = {"arms": 10**6, "contexts": 10**6, "features": 400_000, "episodes": 400_000, "table": 80_000}  # of all seeds
LEAST, MOST = 20, 100  # seeds
QUICK = 10  # a look has so many times fewer seeds, but LOOK at least
LOOK = 4
CODE = ("baselines", "candidates", "episodes", "playing", "scenarios", "world")  # what results depend on

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """A candidate in a world, with seeds 0, 1, …"""

    world: str
    candidate: str
    seeds: int


def recipe(world: World) -> str:
    """All that makes a world, but for what is said about it."""
    arguments = getattr(world.make, "keywords", {})
    name = getattr(world.make, "func", world.make).__name__
    return repr((name, arguments, world.setting, world.learner, world.budget, world.rounds, world.answers))


def fingerprint(world: World) -> str:
    """A hash of the world and of all code that its results depend on."""
    hasher = hashlib.sha256(f"{code_digest()} {recipe(world)}".encode())
    for name in CODE:
        hasher.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return hasher.hexdigest()


@dataclass(frozen=True)
class Store:
    """A folder with a file for each candidate in each world."""

    folder: Path

    def path(self, task: Task) -> Path:
        return self.folder / f"{task.world}.{task.candidate}.json"

    def find(self, task: Task, stale: bool = False) -> Rows | None:
        """The rows of a task, if they are there with all seeds, and of this very code unless `stale`."""
        try:
            kept = json.loads(self.path(task).read_text(encoding="utf-8"))
            fresh = stale or kept["fingerprint"] == fingerprint(WORLDS[task.world])
            return kept["rows"][: task.seeds] if fresh and len(kept["rows"]) >= task.seeds else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, task: Task, rows: Rows, mark: str) -> None:
        """Write atomically: a file is complete, or there is none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.path(task).with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps({"fingerprint": mark, "rows": rows}), encoding="utf-8")
        draft.replace(self.path(task))


def seeds_for(world: World, quick: bool = False) -> int:
    """How many seeds a world gets: the longer it lasts, the fewer."""
    count = min(max(ROUNDS[world.setting] // world.rounds, LEAST), MOST)
    return max(count // QUICK, LOOK) if quick else count


def tasks_for(ids: Sequence[str], quick: bool = False) -> list[Task]:
    """Everybody in these worlds."""
    return [Task(key, name, seeds_for(WORLDS[key], quick)) for key in ids for name in taking_part(WORLDS[key])]


def done(task: Task) -> tuple[Task, Rows]:
    """All runs of a task."""
    world = WORLDS[task.world]
    return task, [run(world, task.candidate, seed).row() | {"seed": seed} for seed in range(task.seeds)]


def measure(
    tasks: Sequence[Task], store: Store, jobs: int, again: Sequence[str] | None = None, show: bool = True
) -> pandas.DataFrame:
    """A row for every run. With `again` only these candidates are run, and of the others what is kept counts."""
    marks = {key: fingerprint(WORLDS[key]) for key in dict.fromkeys(task.world for task in tasks)}

    def wanted(task: Task) -> bool:
        if again is None:
            return store.find(task) is None
        return task.candidate in again or store.find(task, stale=True) is None

    todo = [task for task in tasks if wanted(task)]
    results = {task: store.find(task, stale=again is not None) for task in tasks}
    work = Parallel(jobs, return_as="generator_unordered", batch_size=1)(delayed(done)(task) for task in todo)
    for task, rows in with_progress(work, len(todo), show, lambda result: result[0].world):
        store.keep(task, rows, marks[task.world])
        results[task] = rows
    return pandas.DataFrame(
        [{"world": t.world, "candidate": t.candidate} | row for t, rows in results.items() for row in rows or []]
    )


def with_progress(items: Iterator[Any], total: int, show: bool, name: Callable[[Any], str]) -> Iterator[Any]:
    """The same, with a bar."""
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), disable=not show) as bar:
        place = bar.add_task("worlds", total=total)
        for item in items:
            bar.update(place, advance=1, description=name(item))
            yield item
