"""Round by round on an Agent: who picks the context and raises the budget, adversaries that react included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparingly import budgets
from sparingly.agent import Agent
from sparingly.history import History
from sparingly.simulation.tapes import Tapes

if TYPE_CHECKING:
    from sparingly.simulation.simulator import Simulator

Integers = NDArray[np.int64]


class World:
    """Picks the context and raises the agent's budget, round by round, asking the adversaries there are."""

    def __init__(
        self, simulator: Simulator, seeds: np.random.SeedSequence, agent: Agent, plays: Integers, asked: Integers
    ) -> None:
        self.simulator, self.tapes, self.agent = simulator, Tapes(simulator, seeds), agent
        self.plays, self.asked = plays, asked
        self.last: tuple[Any, Any, Any] | None = None
        self.memories: tuple[dict[str, Any], dict[str, Any]] = ({}, {})  # of the two adversaries, for this run

    def next_context(self, t: int) -> Any:
        """Let round t begin: its context; the agent's ledger then knows B(t)."""
        simulator, tapes, unknown = self.simulator, self.tapes, np.zeros(1, dtype=np.int64)
        if not simulator.adaptive:
            context, budget = tapes.take(t, 1)
            self._grant_units(int(budget[0]))
            return context[0]
        before = tapes.granted
        if tapes.contexts is None and tapes.budget is not None and not simulator.budget.watches_contexts:
            self._grant_units(int(tapes.budget.take(t, 1, unknown)[0]))
        if tapes.contexts is None:
            history = self._history(t, None, tapes.granted > before, 0, tapes.context_random)
            context = simulator.check_context(simulator.source.callback(history))
        else:
            context = tapes.contexts.take(t, 1, unknown > 0)[0]
        if tapes.budget is None:
            assert isinstance(simulator.budget, budgets.Adaptive)
            self.agent.ledger.grant_to(
                simulator.budget.callback(self._history(t, context, False, 1, tapes.budget_random))
            )
            tapes.granted = self.agent.ledger.granted_units
        elif simulator.budget.watches_contexts:
            self._grant_units(int(tapes.budget.take(t, 1, np.array([context]))[0]))
        return context

    def _grant_units(self, units: int) -> None:
        self.agent.ledger.granted_units = self.tapes.granted = units

    def _history(self, t: int, context: Any, grew: bool, who: int, random: np.random.Generator) -> History:
        ledger = self.agent.ledger
        return History(
            round=t, context=context, granted=ledger.granted, grew=grew, spent=ledger.spent, plays=self.plays.copy(),
            asked=self.asked.copy(), last=self.last, random=random, memory=self.memories[who],
        )  # fmt: skip
