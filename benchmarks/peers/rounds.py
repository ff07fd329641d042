"""The same rounds for everybody: a candidate sees inputs, acts, asks or not, and is told what it has asked for.

Nothing else of the answers reaches it. What it did is scored afterwards, and its asks are held against the budget.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sparingly.lab.table_runs import order_of
from sparingly.problems.real import Table
from sparingly.randomness import seed_sequence


@dataclass(frozen=True)
class Facts:
    """What a candidate may know before the first round."""

    actions: int
    size: int  # of a vector of inputs
    per_action: bool  # inputs are (actions, size), a vector for each action; otherwise (size,), one for all
    rounds: int
    share: float  # of the rounds in which it may ask
    always: bool  # it is the reference that asks in every round

    @property
    def budget(self) -> int:
        """Asks in all."""
        return self.rounds if self.always else round(self.share * self.rounds)


class Policy(Protocol):
    """A candidate in one run."""

    def decide(self, inputs: np.ndarray) -> tuple[int, bool]:
        """What to do, and whether it would ask."""

    def learn(self, answer: float) -> None:
        """The answer for the last decision: the reward of what was done, or the label."""


Make = Callable[[Facts, Mapping[str, Any], np.random.SeedSequence], Policy]


@dataclass(frozen=True)
class Candidate:
    """A package with a learner, a way to ask and settings."""

    name: str
    module: str  # of its package
    make: Make
    says: str  # its settings, for the table
    learner: str  # candidates of the same learner share the reference that asks always
    feedback: str = "reward"  # what an ask tells: "reward" of what was done, or the full "label"
    asking: str = (
        "own"  # "own": as the package does it; "capped": but a counter stops it; "uniform": rounds drawn ahead
    )
    budget: str = "at once"  # how its rule takes the budget: "at once", "growing" with the rounds, or "none"
    warm: int = 0  # labels at the start that we ask for in its place; they are part of the budget
    grid: tuple[Mapping[str, Any], ...] = ({},)  # settings tried in pilot runs
    aim: str = "reward"  # of the pilot: the most "reward", or as many "labels" as the budget allows
    fits: Callable[[Table], bool] = lambda table: True


@dataclass(frozen=True)
class Trial:
    """One run of a candidate: T rounds, what was done and asked in them, and what it was worth."""

    rows: np.ndarray  # (T,)
    actions: np.ndarray  # (T,)
    asked: np.ndarray  # (T,)
    rewards: np.ndarray  # (T,)
    budget: int
    warm: int
    seconds: float

    @property
    def asks(self) -> int:
        """How often it asked."""
        return int(self.asked.sum())

    @property
    def over(self) -> int:
        """Asks beyond the whole budget. Asks are never taken back: the worst moment is the last one."""
        return max(self.asks - self.budget, 0)

    @property
    def ahead(self) -> float:
        """Asks beyond what a budget that grows evenly with the rounds had granted, at the worst moment.

        What we asked for at the start in place of the candidate's rule counts as granted then.
        """
        rounds = self.rows.size
        rate = (self.budget - self.warm) / (rounds - self.warm)
        granted = self.warm + rate * np.maximum(np.arange(1, rounds + 1) - self.warm, 0)
        return max(float((np.cumsum(self.asked) - granted).max()), 0.0)


def is_labelled(table: Table) -> bool:
    """Whether one action is right in every round, and its name would tell everything."""
    return table.shared is not None and bool((np.sort(table.rewards, axis=1) == np.eye(len(table.actions))[-1]).all())


def run(
    table: Table, candidate: Candidate, share: float, rounds: int, seed: int, setting: Mapping[str, Any] | None = None,
    always: bool = False,
) -> Trial:  # fmt: skip
    """One candidate through the rounds. The same seed draws the same rounds for all, as in `lab.table_runs`."""
    for_rows, for_policy = seed_sequence(seed).spawn(2)
    rows = order_of(len(table), rounds, for_rows)
    inputs = table.features if table.features is not None else table.shared
    facts = Facts(len(table.actions), inputs.shape[-1], inputs.ndim == 3, rounds, share, always)
    policy = candidate.make(facts, candidate.grid[0] if setting is None else setting, for_policy)
    drawn = np.zeros(rounds, dtype=bool)
    drawn[np.random.default_rng([seed, 2]).choice(rounds, facts.budget, replace=False)] = True
    actions, asked, spent = np.zeros(rounds, dtype=np.int64), np.zeros(rounds, dtype=bool), 0
    start = time.perf_counter()
    for t, row in enumerate(rows.tolist()):
        action, ask = policy.decide(inputs[row])
        if always:
            ask = True
        elif candidate.asking == "uniform":
            ask = bool(drawn[t])
        elif candidate.asking == "capped":
            ask = ask and spent < facts.budget
        actions[t], asked[t] = action, ask
        if ask:
            spent += 1
            policy.learn(answer(table, row, action, candidate.feedback))
    seconds = time.perf_counter() - start
    getattr(policy, "close", lambda: None)()
    return Trial(rows, actions, asked, table.rewards[rows, actions], facts.budget, candidate.warm, seconds)


def answer(table: Table, row: int, action: int, feedback: str) -> float:
    """What an ask tells."""
    return table.reveal(row, action) if feedback == "reward" else int(table.rewards[row].argmax())


def present(candidates: Iterable[Candidate]) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates whose package can be imported, and for each package that cannot, why."""
    found, missing = [], {}
    for candidate in candidates:
        try:
            importlib.import_module(candidate.module)
        except Exception as error:  # a package that is broken is missing, whatever it raises
            missing[candidate.module] = f"{type(error).__name__}: {error}"
        else:
            found.append(candidate)
    return found, missing


def whole_seed(seeds: np.random.SeedSequence) -> int:
    """A seed for packages that want a positive number of 31 bits."""
    return int(seeds.generate_state(1)[0]) % (2**31 - 2) + 1
