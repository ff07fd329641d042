"""How many questions do I need to ask? Reward against budget on real data, for several rules, with intervals.

On a table every run draws rounds from it; on a log every run replays a resample of it. All rules meet the same rounds.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sparingly.checks import number, probability, whole
from sparingly.compiling import notice
from sparingly.engine.progress import Progress
from sparingly.errors import InvalidInput
from sparingly.lab import catalogue
from sparingly.lab.logged import horizon, replay
from sparingly.lab.playing import Play, Uniform, play
from sparingly.problems.real import DataWarning, Logged, Table
from sparingly.rules import Always, Never

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PARTS = 20  # of a run, for which asks are counted
GOAL = 0.95  # of what asking always earns
REDRAWS = 2_000  # of the runs, for the interval of the budget that is needed
RULES = ("ExactMatching", "Greedy", "uniform")


@dataclass(frozen=True)
class Curve:
    """One rule at every budget."""

    reward: Floats  #: (budgets, runs) mean reward a round
    asks: Floats  #: (budgets, runs)
    when: Floats  #: (budgets, PARTS) mean asks in each part of a run
    by_action: Floats  #: (budgets, A) mean asks
    by_context: Floats  #: (budgets, S)


@dataclass(frozen=True)
class Need:
    """The smallest budget that reaches the goal, interpolated, with its interval; infinite if none tried does."""

    budget: float
    low: float
    high: float


@dataclass(frozen=True)
class Plan:
    """What `plan` returns: for each rule a curve, and what asking always and never earn in the same rounds."""

    data: Table | Logged
    learner: Any
    budgets: tuple[float, ...]
    rounds: int
    runs: int
    seed: int
    level: float
    curves: dict[str, Curve]
    always: Floats  #: (runs,)
    never: Floats  #: (runs,)
    notes: tuple[str, ...] = field(default=())

    @property
    def logged(self) -> bool:
        """Whether it rests on a log, of which each run replays a resample."""
        return isinstance(self.data, Logged)

    def interval(self, values: Floats) -> tuple[float, float, float]:
        """Mean and interval of one number a run.

        On a table: Student's interval of the mean over runs, given the rows. On a log the runs are resamples of it
        (bootstrap), and their spread is the uncertainty that the log leaves: mean ± z·standard deviation.
        """
        mean = float(values.mean())
        if values.size < 2:
            return mean, -math.inf, math.inf
        spread = float(values.std(ddof=1))
        if self.logged:
            half = float(stats.norm.ppf(0.5 + self.level / 2.0)) * spread
        else:
            half = float(stats.t.ppf(0.5 + self.level / 2.0, values.size - 1)) * spread / math.sqrt(values.size)
        return mean, mean - half, mean + half

    def share(self, rule: str, place: int, of: str = "reward") -> float:
        """How much of what asking always earns, or gains over asking never, the rule reaches at a budget."""
        base = 0.0 if of == "reward" else float(self.never.mean())
        gain = float(self.always.mean()) - base
        return (float(self.curves[rule].reward[place].mean()) - base) / gain if gain > 0 else math.nan

    def need(self, rule: str, of: str = "reward", goal: float = GOAL) -> Need:
        """The smallest budget that reaches the goal; its interval is from resampled runs, on a log from single ones."""
        random = np.random.default_rng(self.seed)
        size = 1 if self.logged else self.runs
        every = np.arange(self.runs)
        draws = [every, *(random.integers(self.runs, size=size) for _ in range(REDRAWS if self.runs > 1 else 0))]
        found = np.array([self._crossing(rule, of, goal, chosen) for chosen in draws])
        tail = (1.0 - self.level) / 2.0
        low, high = np.quantile(found[1:], (tail, 1.0 - tail), method="nearest") if self.runs > 1 else (0.0, math.inf)
        return Need(float(found[0]), float(low), float(high))

    def _crossing(self, rule: str, of: str, goal: float, runs: Integers) -> float:
        base = 0.0 if of == "reward" else float(self.never[runs].mean())
        target = base + goal * (float(self.always[runs].mean()) - base)
        means = self.curves[rule].reward[:, runs].mean(axis=1)
        reached = np.flatnonzero(means >= target)
        if reached.size == 0:
            return math.inf
        place = int(reached[0])
        if place == 0:
            return self.budgets[0]
        share = (target - means[place - 1]) / (means[place] - means[place - 1])
        before, after = math.log(max(self.budgets[place - 1], 1.0)), math.log(max(self.budgets[place], 1.0))
        return math.exp(before + share * (after - before))

    def better(self, rule: str, other: str, place: int) -> float:
        """The p-value of a paired t-test that the rule earns more than the other; NaN where there is nothing to test.

        That is on a log, whose resamples overlap, and if all differences are equal.
        """
        difference = self.curves[rule].reward[place] - self.curves[other].reward[place]
        if self.logged or self.runs < 2 or difference.std() < 1e-9:
            return math.nan
        error = float(difference.std(ddof=1)) / math.sqrt(self.runs)
        return float(stats.t.sf(float(difference.mean()) / error, self.runs - 1))


def plan(
    data: Table | Logged,
    budgets: Sequence[float],
    rules: Sequence[str] = RULES,
    learner: Any = None,
    rounds: int | None = None,
    runs: int = 20,
    seed: int = 0,
    level: float = 0.95,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Plan:
    """Play or replay the data with each rule under each budget, with all feedback and with none.

    `rules` are names of the catalogue, with parameters if need be ("Matching(alpha=1)"), or "uniform". `learner` is one
    of the library's; by default the one that the data suggests. Results depend on the seed alone, never on `jobs`.
    """
    amounts = tuple(sorted({number(b, "a budget", least=0.0) for b in budgets}))
    if not amounts or not rules:
        raise InvalidInput("give at least one budget and one rule")
    workers = (os.cpu_count() or 1) if jobs is None else whole(jobs, "jobs", most=4096)
    runs, seed = whole(runs, "runs", most=10**5), whole(seed, "seed", least=0)
    made = {str(rule): rule_from(str(rule)) for rule in rules}
    learner = data.learner() if learner is None else learner
    length = whole(rounds or (horizon(data) if isinstance(data, Logged) else data.rounds or len(data)), "rounds")
    cases = [("always", Always(), float(length)), ("never", Never(), 0.0)]
    cases += [(name, rule, amount) for name, rule in made.items() for amount in amounts]
    seeds = np.random.SeedSequence(seed).generate_state(runs, np.uint64).tolist()
    probability(level, "level")
    work = [(data, learner, rule, budget, length, s) for _, rule, budget in cases for s in seeds]
    records, notes = _all(work, workers, Progress(len(work), "planning", progress))
    grouped = [records[i * runs : (i + 1) * runs] for i in range(len(cases))]
    rewards = [np.array([record.reward for record in group]) for group in grouped]
    curves = {name: _curve(grouped[2 + i * len(amounts) : 2 + (i + 1) * len(amounts)]) for i, name in enumerate(made)}
    return Plan(data, learner, amounts, length, runs, seed, level, curves, rewards[0], rewards[1], notes)


@dataclass(frozen=True)
class _Record:
    """What is kept of one run."""

    reward: float
    asks: int
    when: Integers
    by_action: Integers
    by_context: Integers
    notes: tuple[str, ...]


def _one(data: Table | Logged, learner: Any, rule: Any, budget: float, rounds: int, seed: int) -> _Record:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        if isinstance(data, Logged):
            rows = np.random.default_rng([seed, 1]).integers(len(data), size=len(data))  # a resample: bootstrap
            done: Play = replay(data, learner, rule, budget, rounds, seed, rows)[0]
        else:
            done = play(data, learner, rule, budget, rounds, seed)
    contexts = data.contexts[done.rows] if data.contexts is not None else np.zeros(done.rows.size, dtype=np.int64)
    return _Record(
        done.reward,
        done.asks,
        np.bincount(np.flatnonzero(done.asked) * PARTS // done.rows.size, minlength=PARTS),
        np.bincount(done.actions[done.asked], minlength=len(data.actions)),
        np.bincount(contexts[done.asked], minlength=data.groups),
        tuple(str(warning.message) for warning in caught),
    )


def _all(work: list[Any], workers: int, bar: Progress) -> tuple[list[_Record], tuple[str, ...]]:
    """Every run, in order, on so many processes; and what they warned of, once."""
    records: list[_Record] = []
    try:
        if workers == 1:
            with notice("the agent"):
                for item in work:
                    records.append(_one(*item))
                    bar.add(1)
        else:
            from joblib import Parallel, delayed  # processes: agents are driven from Python

            for record in Parallel(workers, return_as="generator")(delayed(_one)(*item) for item in work):
                records.append(record)
                bar.add(1)
    finally:
        bar.close()
    return records, tuple(dict.fromkeys(note for record in records for note in record.notes))


def _curve(groups: list[list[_Record]]) -> Curve:
    def means(name: str) -> Floats:
        return np.array([np.mean([getattr(record, name) for record in group], axis=0) for group in groups])

    return Curve(
        np.array([[record.reward for record in group] for group in groups]),
        np.array([[record.asks for record in group] for group in groups], dtype=np.float64),
        means("when"), means("by_action"), means("by_context"),
    )  # fmt: skip


def rule_from(text: str) -> Any:
    """A rule by its name: "uniform", or one of the catalogue, with parameters if need be.

    >>> rule_from("Matching(alpha=1, beta=0.5)"), rule_from("uniform")
    (Matching(alpha=1, beta=0.5), Uniform())
    """
    if text.lower() == "uniform":
        return Uniform()
    if text not in catalogue.RULES and "(" not in text:
        raise InvalidInput(f"there is no rule {text!r}; choose among {', '.join(catalogue.RULES)} and uniform")
    return catalogue.build(catalogue.RULES, "rule", entry(text))


def learner_from(text: str, data: Table | Logged) -> Any:
    """A learner by its name, of the size that the data asks for: "OFUL(scale=0.3)"."""
    sizes = {"arms": len(data.actions), "contexts": data.groups, "dim": data.dim}
    described = entry(text)
    if (described["type"] == "OFUL") != (data.dim > 0):
        has = "features, use OFUL" if data.dim else "contexts, use UCB1 or MOSS"
        raise InvalidInput(f"{text} does not fit: {data.name} has {has}")
    return catalogue.build(catalogue.LEARNERS, "learner", described, **sizes)


def entry(text: str) -> dict[str, Any]:
    """A name with parameters in parentheses, as an entry of the catalogue.

    >>> entry("OFUL(scale=0.3, radius=simple)")
    {'type': 'OFUL', 'scale': 0.3, 'radius': 'simple'}
    """
    name, _, inside = text.strip().partition("(")
    result: dict[str, Any] = {"type": name.strip()}
    for part in filter(None, (part.strip() for part in inside.rstrip(") ").split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise InvalidInput(f"{text!r}: parameters are written name=value, not {part!r}")
        result[key] = _value(value)
    return result


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
