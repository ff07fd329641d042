"""What a world is: a problem for each seed, a learner, a budget, a number of rounds, and how answers come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import sparingly as sp
from sparingly.problems.real import Table

TAGS = {
    "friendly": "rounds are alike, nobody plays against you",
    "uneven": "rare contexts, costs that differ, an arm without answers",
    "drifting": "after a quarter of the time, other rounds come",
    "adversarial": "the paper's proofs, contexts that react",
}
SETTINGS = ("arms", "contexts", "features", "episodes", "table")
SHAPES = {
    "Fixed": "at once", "Linear": "evenly", "Periodic": "periodic", "Late": "late", "Bernoulli": "random",
    "WhenContext": "by context",
}  # fmt: skip


@dataclass(frozen=True)
class Answers:
    """How answers come: after so many rounds, and not at all for one arm, or for a share of the asks."""

    late: int = 0
    silent_arm: int | None = None
    silent_share: float = 0.0


PROMPT = Answers()


@dataclass(frozen=True)
class World:
    """One world of the suite. `make` draws the problem of a seed; its id never changes its meaning."""

    id: str
    tag: str
    setting: str
    says: str
    make: Callable[[np.random.Generator], Any]
    learner: Any  # None: the learner that a table comes with
    budget: sp.budgets.Budget
    rounds: int
    answers: Answers = PROMPT

    def problem(self, seed: int) -> Any:
        """The problem that all candidates meet with this seed."""
        return self.make(np.random.default_rng([seed, 2]))

    def learner_of(self, problem: Any) -> Any:
        """The learner of all rules in this world."""
        if isinstance(problem, Table):
            return sp.OFUL(problem.dim, noise=0.25, scale=0.3, ties="random")
        return self.learner

    @property
    def shape(self) -> str:
        """How the budget grows, in words."""
        return SHAPES[type(self.budget).__name__]

    @property
    def amount(self) -> float:
        """The budget at the end; of a random one, what is expected."""
        if isinstance(self.budget, sp.budgets.Schedule):
            return self.budget(self.rounds)
        assert isinstance(self.budget, sp.budgets.Bernoulli | sp.budgets.WhenContext)
        share = self.budget.p if isinstance(self.budget, sp.budgets.Bernoulli) else 0.5  # one of two contexts
        return share * self.budget.amount * self.rounds

    @property
    def prompt(self) -> bool:
        """Whether every answer comes at once."""
        return self.answers == PROMPT


def unknowns(problem: Any) -> int:
    """How many numbers there are to learn: cells, or dimensions."""
    if isinstance(problem, Table | sp.problems.Linear):
        return int(problem.dim)
    return int(np.prod(problem.shape))


def prices(problem: Any) -> np.ndarray:
    """What asking costs, (A,), (S, A) or (H, S, A)."""
    if isinstance(problem, Table):
        return np.ones(len(problem.actions))
    if isinstance(problem, sp.problems.Linear):
        return np.ones(problem.arms.arms) if problem.costs is None else problem.costs
    return np.ones(problem.shape) if problem.costs is None else problem.costs
