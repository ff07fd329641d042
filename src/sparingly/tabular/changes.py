"""Adds and retires actions and contexts while an agent lives: its memory is laid out anew, with all that it has learnt.

A retired cell keeps its number and its counts: answers may still come, and it may return.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput
from sparingly.family import Pair
from sparingly.ledger import UNIT, cost_in_units
from sparingly.tabular.memory import ESTIMATE_WORDS, Memory, Words, open_memory, remember
from sparingly.validation import shown, table

Integers = NDArray[np.int64]

UNTRIED = -1e300  # the average of an action in policies from before it was added: played if there is no other


class Cells(NamedTuple):
    """What an agent chooses from: what asking costs in each cell, and which contexts and actions are live."""

    prices: Integers  # (S, A), in millionths
    contexts: NDArray[np.bool_]  # (S,)
    actions: NDArray[np.bool_]  # (A,)

    @classmethod
    def of(cls, costs: Integers) -> Cells:
        """From the costs (S, A) of a memory, in which retired cells are negative. At least one cell is live."""
        u, a = np.argwhere(costs >= 0)[0]
        return cls(np.where(costs >= 0, costs, -1 - costs), costs[:, a] >= 0, costs[u] >= 0)

    @property
    def costs(self) -> Integers:
        """As a memory has them."""
        live = self.contexts[:, None] & self.actions
        return np.where(live, self.prices, -1 - self.prices)

    def live(self, what: str) -> NDArray[np.bool_]:
        """Which contexts, or which actions, are live."""
        return self.contexts if what == "contexts" else self.actions

    def more(self, what: str, price: Integers) -> Cells:
        """With one context or action more, and what asking costs there."""
        axis = 0 if what == "contexts" else 1
        prices = np.append(self.prices, np.expand_dims(price, axis), axis=axis)
        return self.with_flags(what, np.append(self.live(what), True))._replace(prices=prices)

    def with_live(self, what: str, number: int, live: bool) -> Cells:
        """With one of them retired, or brought back."""
        flags = self.live(what).copy()
        flags[number] = live
        return self.with_flags(what, flags)

    def with_flags(self, what: str, flags: NDArray[np.bool_]) -> Cells:
        """With these contexts, or actions, live."""
        return self._replace(contexts=flags) if what == "contexts" else self._replace(actions=flags)


def price_in_cells(cells: Cells, what: str, cost: Any) -> Integers:
    """What asking costs about a new action, (S,), or in a new context, (A,): as given, or as about the others."""
    across = cells.prices if what == "contexts" else cells.prices.T
    if cost is not None:
        values, size = table(cost, "cost", f"(), or ({across.shape[1]},)"), across.shape[1]
        if values.shape not in ((), (size,)):
            raise InvalidInput(f"cost must be a number, or {size} of them, not {shown(cost)}")
        return np.broadcast_to(cost_in_units(values), (size,))
    if (across != across[0]).any():
        raise InvalidInput(f"{what} differ in what asking costs: say what it costs here, as in cost=2")
    first: Integers = across[0]
    return first


def resized(learner: Any, cells: Cells) -> Any:
    """The learner for so many cells; where it has costs, with theirs."""
    contexts, arms = cells.prices.shape
    if (contexts, arms) == (learner.contexts, learner.arms):
        return learner
    costs = None if learner.costs is None else cells.prices / UNIT
    return dataclasses.replace(learner, contexts=contexts, arms=arms, costs=costs)


def laid_out_anew(old: Memory, pair: Pair, learner: Any, cells: Cells) -> Words:
    """A memory for these cells with all that the old one has learnt; the budget still has to be shared out.

    A rule that keeps a pace begins a new one: the rounds of before say little about those to come.
    """
    cost_in_units(cells.prices / UNIT)  # refuses what adds up to too much
    words = remember(pair, learner, np.zeros(cells.prices.shape), old.random[0], changed=True)
    m, size = open_memory(words, None), (old.levels.size, int(old.head["arms"][0]))
    m.account[:] = old.account
    m.head["decisions"], m.head["live"] = old.head["decisions"], cells.actions.sum()
    m.clock[: old.clock.size] = old.clock
    for name in ("asked", "answered", "taught"):
        grown(m.counts[name], cells)[: size[0], : size[1]] = old.counts[name].reshape(size)
    grown(m.estimates["total"], cells)[: size[0], : size[1]] = old.estimates["total"].reshape(size)
    if m.faded.size:
        for name in m.faded.dtype.names:
            grown(m.faded[name], cells)[: size[0], : size[1]] = old.faded[name].reshape(size)
        m.visits[: size[0]] = old.visits
    m.counts["cost"] = cells.costs.ravel()
    if m.reservoir.since.size == old.reservoir.since.size:  # with another rule there are no past policies yet
        m.reservoir.seen[:], m.reservoir.since[:] = old.reservoir.seen, old.reservoir.since
        for policy, past in zip(m.reservoir.policies, old.reservoir.policies, strict=True):
            carry_over(policy, past, cells, size)
    return words


def grown(values: Any, cells: Cells) -> Any:
    """One number for each cell, as a table (S, A): a view."""
    table = values.view()
    table.shape = cells.prices.shape
    return table


def carry_over(policy: Words, past: Words, cells: Cells, size: tuple[int, int]) -> None:
    """A past policy of Greedy: what was added is not played where there is anything else, what was retired never."""
    shape = cells.prices.shape
    new, old = policy.view(np.float64), past.view(np.float64)
    end, before = ESTIMATE_WORDS * shape[0] * shape[1], ESTIMATE_WORDS * size[0] * size[1]
    table = new[:end].reshape(*shape, ESTIMATE_WORDS)
    table[..., 0] = UNTRIED
    table[: size[0], : size[1]] = old[:before].reshape(*size, ESTIMATE_WORDS)
    live = cells.costs >= 0
    table[..., 0][live & np.isneginf(table[..., 0])] = UNTRIED  # what has returned
    table[..., 0][~live] = -np.inf
    new[end : end + size[0]] = old[before:]
