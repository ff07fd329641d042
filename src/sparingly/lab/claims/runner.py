"""Runs the simulations of claims: one seed, one mode, and one place that all policies pass through."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparingly.errors import BudgetWarning
from sparingly.simulation.simulate import Simulation, simulate

Policy = tuple[Any, Any]  # learner, rule
MARKS = 40  # checkpoints of a simulation whose curve is judged or drawn


def _as_is(learner: Any, rule: Any) -> Policy:
    return learner, rule


@dataclass
class Runner:
    """Runs simulations for a claim. `change` may replace learners and rules, to test whether the claim notices."""

    mode: str = "quick"
    seed: int = 0
    jobs: int | None = 1
    change: Callable[[Any, Any], Policy] = _as_is
    tell: Callable[[str], None] = field(default=lambda what: None)

    def simulate(
        self, problem: Any, learner: Any, rule: Any, budget: Any, *, rounds: int, runs: int, stream: int = 0,
        checkpoints: int | Sequence[int] = MARKS,
    ) -> Simulation:  # fmt: skip
        """Like `sparingly.simulate`; `stream` numbers independent repetitions with the same seed."""
        learner, rule = self.change(learner, rule)
        self.tell(f"{type(rule).__name__}, {rounds:,} rounds × {runs:,} runs")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # claims look at budgets that are too small, too
            return simulate(
                problem, learner, rule, budget, rounds=rounds, runs=runs, seed=self.seeds(stream), jobs=self.jobs,
                progress=False, checkpoints=checkpoints,
            )  # fmt: skip

    def seeds(self, stream: int) -> np.random.SeedSequence:
        """The seeds of one repetition."""
        return np.random.SeedSequence([self.seed, stream])
