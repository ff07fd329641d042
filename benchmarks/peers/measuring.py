"""Everybody through the same rounds: pilot runs that choose settings, references that ask always, runs, and speed.

A candidate that fails is reported, and the others go on.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import pandas
from joblib import Parallel, delayed

from benchmarks.peers.candidates import everybody
from benchmarks.peers.ours import OURS
from benchmarks.peers.rounds import Candidate, Trial, present, run
from benchmarks.timing import Timing, timings
from sparingly.problems.real import Table, built_in
from sparingly.simulation.progress import Progress

PILOTS = (10**6, 10**6 + 1)  # seeds of the pilot runs, which no other run has
SPEED_DATA, SPEED_SHARE = "image_segments", 0.1

Settings = dict[tuple[str, str, float], Mapping[str, Any]]  # by candidate, data and share


@dataclass(frozen=True)
class Task:
    """One run, or with `always` the reference."""

    candidate: str
    data: str
    share: float
    seed: int
    setting: Mapping[str, Any]
    always: bool = False


@dataclass(frozen=True)
class Study:
    """What is to be measured."""

    data: tuple[str, ...]
    shares: tuple[float, ...]
    rounds: int
    seeds: int
    jobs: int = 1


@lru_cache(maxsize=4)
def table_of(name: str) -> Table:
    """A data set, read once in each process."""
    table = built_in(name)
    assert isinstance(table, Table)
    return table


@lru_cache(maxsize=1)
def by_name() -> dict[str, Candidate]:
    """Candidates by name: functions made on the spot do not travel between processes, names do."""
    return {candidate.name: candidate for candidate in everybody()}


def attempt(task: Task, rounds: int) -> Trial | str:
    """One run, or why it failed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peers, about versions and convergence
        try:
            table, candidate = table_of(task.data), by_name()[task.candidate]
            return run(table, candidate, task.share, rounds, task.seed, task.setting, task.always)
        except Exception as error:  # one that fails must not stop the others
            return f"{type(error).__name__}: {error}"


def done(tasks: Sequence[Task], study: Study, label: str) -> Iterator[tuple[Task, Trial | str]]:
    """All runs, in order, with progress."""
    bar = Progress(len(tasks), label, show=True)
    work = (delayed(attempt)(task, study.rounds) for task in tasks)
    for task, result in zip(tasks, Parallel(study.jobs, return_as="generator")(work), strict=True):
        bar.add(1)
        yield task, result
    bar.close()


def fitting(study: Study, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, str, float]]:
    """Who meets what."""
    for data in study.data:
        for candidate in candidates:
            if candidate.fits(table_of(data)):
                yield from ((candidate, data, share) for share in study.shares)


def pilot(study: Study, candidates: Sequence[Candidate]) -> Settings:
    """For each data set and budget the best of a candidate's settings, found with seeds of their own."""
    tasks = [
        Task(candidate.name, data, share, seed, setting)
        for candidate, data, share in fitting(study, candidates)
        if len(candidate.grid) > 1
        for setting in candidate.grid
        for seed in PILOTS
    ]
    scores: dict[tuple[str, str, float], dict[str, float]] = {}
    for task, trial in done(tasks, study, "pilot runs"):
        key, setting = (task.candidate, task.data, task.share), json.dumps(task.setting)
        worth = -math.inf if isinstance(trial, str) else worth_of(trial, by_name()[task.candidate].aim)
        scores.setdefault(key, {}).setdefault(setting, 0.0)
        scores[key][setting] += worth
    best = {key: json.loads(max(found, key=lambda s, found=found: found[s])) for key, found in scores.items()}
    return {
        (c.name, data, share): best.get((c.name, data, share), c.grid[0])
        for c, data, share in fitting(study, candidates)
    }


def worth_of(trial: Trial, aim: str) -> float:
    """What a pilot run looks for: reward, or as many labels as the budget has."""
    if aim == "reward":
        return float(trial.rewards.mean())
    return -abs(math.log(max(trial.asks, 1) / trial.budget))


def measure(
    study: Study, candidates: Sequence[Candidate], settings: Settings
) -> tuple[pandas.DataFrame, dict[str, str]]:
    """A row for every run, and the failures: which candidate, and why."""
    meets = list(fitting(study, candidates))
    seeds = range(study.seeds)
    always: dict[tuple[str, str, str], Task] = {}
    for c, data, share in meets:
        setting = settings[c.name, data, share]
        always.setdefault((c.learner, data, json.dumps(setting)), Task(c.name, data, 1.0, 0, setting, always=True))
    references = [
        Task(task.candidate, task.data, 1.0, seed, task.setting, always=True)
        for task in always.values()
        for seed in seeds
    ]
    unbudgeted, failures = {}, {}
    for task, trial in done(references, study, "asking always"):
        if isinstance(trial, str):
            failures[task.candidate] = trial
        else:
            learner = by_name()[task.candidate].learner
            unbudgeted[learner, task.data, json.dumps(task.setting), task.seed] = float(trial.rewards.mean())
    order = [(data, share, seed) for data in study.data for share in study.shares for seed in seeds]
    tasks = [
        Task(c.name, data, share, seed, settings[c.name, data, share])
        for place in order for c, data, share in meets for seed in (place[2],) if (data, share) == place[:2]
    ]  # fmt: skip
    rows, ours = [], None  # ours is the first of each place
    for task, trial in done(tasks, study, "runs"):
        if isinstance(trial, str):
            failures[task.candidate] = trial
            continue
        ours = trial if task.candidate == OURS else ours
        learner = by_name()[task.candidate].learner
        reference = unbudgeted.get((learner, task.data, json.dumps(task.setting), task.seed), math.nan)
        rows.append(row_of(task, trial, ours, reference))
    return pandas.DataFrame(rows), failures


def row_of(task: Task, trial: Trial, ours: Trial, always: float) -> dict[str, Any]:
    """One run in the results."""
    assert (trial.rows == ours.rows).all(), "candidates must meet the same rounds"
    either = int((trial.asked | ours.asked).sum())
    return {
        "data": task.data, "share": task.share, "budget": trial.budget, "seed": task.seed, "candidate": task.candidate,
        "setting": json.dumps(task.setting), "reward": float(trial.rewards.mean()), "always": always,
        "asks": trial.asks, "over": trial.over, "ahead": trial.ahead,
        "same_action": float((trial.actions == ours.actions).mean()),
        "same_asks": float((trial.asked & ours.asked).sum()) / either if either else math.nan,
        "seconds": trial.seconds,
    }  # fmt: skip


def speed(candidates: Sequence[Candidate], settings: Settings, turns: int, rounds: int) -> dict[str, Timing]:
    """Seconds a decision, learning included: candidates take turns, the best counts. Set-up is left out."""
    table = table_of(SPEED_DATA)
    racers: dict[str, Callable[[], float]] = {}
    for candidate in candidates:
        setting = settings.get((candidate.name, SPEED_DATA, SPEED_SHARE), candidate.grid[0])
        task = Task(candidate.name, SPEED_DATA, SPEED_SHARE, 0, setting)
        if candidate.fits(table) and not isinstance(attempt(task, rounds), str):  # the first run compiles and warms up
            racers[candidate.name] = partial(seconds_of, task, rounds)
    bar, taken = Progress(turns * len(racers), "speed", show=True), {name: [] for name in racers}
    for _ in range(turns):
        for name, call in racers.items():
            taken[name].append(call() / rounds)
            bar.add(1)
    bar.close()
    return timings(taken)


def seconds_of(task: Task, rounds: int) -> float:
    """How long the rounds took."""
    trial = attempt(task, rounds)
    assert isinstance(trial, Trial), trial
    return trial.seconds


def taking_part(only: Sequence[str] = ()) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates that are installed, ours first, and the packages that are missing, with the reason."""
    wanted = [c for c in everybody() if c.module == "sparingly" or not only or c.module in only]
    return present(wanted)
