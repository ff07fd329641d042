"""What the world decides ahead: the contexts and the budget of one run, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparingly import budgets, contexts
from sparingly.errors import InvalidInput

if TYPE_CHECKING:
    from sparingly.simulation.simulator import Simulator

Integers = NDArray[np.int64]


class Tapes:
    """The contexts and the budget of one run, block by block."""

    def __init__(self, simulator: Simulator, seeds: np.random.SeedSequence) -> None:
        self.context_random, self.budget_random = (np.random.default_rng(s) for s in seeds.spawn(2))
        self.simulator = simulator
        adaptive_source = isinstance(simulator.source, contexts.Adaptive)
        adaptive_budget = isinstance(simulator.budget, budgets.Adaptive)
        self.contexts = None if adaptive_source else simulator.open_tape(self.context_random)
        self.budget = None if adaptive_budget else simulator.budget.tape(self.budget_random)
        self.granted = 0  # B of the round before

    def take(self, first: int, count: int) -> tuple[Any, Integers]:
        """Contexts and budget of the next `count` rounds (a single context if they are all the same)."""
        assert self.contexts is not None and self.budget is not None
        unknown = np.zeros(1, dtype=np.int64)
        if self.simulator.source.watches_budget:
            budget = self.budget.take(first, count, unknown)
            context = self.contexts.take(first, count, np.diff(budget, prepend=self.granted) > 0)
        else:
            context = self.contexts.take(first, count, unknown > 0)
            budget = self.budget.take(first, count, context)
        if self.simulator.budget.formula[0] == budgets.TAPED and (np.diff(budget, prepend=self.granted) < 0).any():
            raise InvalidInput(f"a budget only grows, but {self.simulator.budget!r} falls in or after round {first}")
        self.granted = int(budget[-1])
        return context, budget
