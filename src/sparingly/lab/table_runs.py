"""Agents on real data: `run_on_table` runs one through the rounds of a table, under a budget, and keeps account.

A reward that was not asked for never reaches the learner; it is looked up after the run, to score it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.agent import Agent
from sparingly.budgets import Sequence
from sparingly.checks import number, whole
from sparingly.ledger import Ledger
from sparingly.problems.real import Table
from sparingly.protocol import QueryRule
from sparingly.randomness import seed_sequence
from sparingly.rules import Always, Rule

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class Uniform:
    """Ask in rounds drawn uniformly at random before the first one, as many as the budget pays for: the plain way.

    It is `Always` under a budget that pays for one more ask in each of those rounds, so the same code decides. The
    ledger refuses all other rounds; those refusals mean nothing. Where asks have different costs, the money comes in
    those rounds in portions of the dearest one, the last of them being what is left: in a drawn round any action can
    be asked about, and what a cheaper one leaves over pays for asks in the rounds that follow.
    """


@dataclass(frozen=True)
class Trajectory:
    """One run: what was done in each of T rounds, what it was worth, and what was asked."""

    rows: Integers  #: (T,) of the data
    actions: Integers  #: (T,)
    asked: Booleans  #: (T,)
    rewards: Floats  #: (T,) what the actions were worth, asked for or not
    ledger: Ledger

    @property
    def reward(self) -> float:
        """The mean reward of a round."""
        return float(self.rewards.mean())

    @property
    def asks(self) -> int:
        """How often it asked."""
        return int(self.asked.sum())


def agent_for(
    learner: Any, rule: Rule | QueryRule | Uniform, budget: float, rounds: int, seeds: np.random.SeedSequence
) -> Agent:
    """A fresh agent; `Uniform` draws its rounds here, before any of them."""
    draw, inside = seeds.spawn(2)
    if not isinstance(rule, Uniform):
        return Agent(learner, rule, budget, seed=inside)
    dearest = 1.0 if learner.costs is None else float(np.max(learner.costs))
    most = number(budget, "budget", least=0.0)
    portions = rounds if most >= rounds * dearest else math.ceil(most / dearest)
    paid = np.zeros(rounds)
    paid[np.random.default_rng(draw).choice(rounds, portions, replace=False)] = 1.0
    return Agent(learner, Always(), Sequence(np.minimum(np.cumsum(paid) * dearest, most)), seed=inside)


def order_of(size: int, rounds: int, seeds: np.random.SeedSequence) -> Integers:
    """The rows of a run: each at most once if there are enough of them, drawn with replacement otherwise."""
    return np.random.default_rng(seeds).choice(size, rounds, replace=rounds > size).astype(np.int64)


def run_on_table(
    table: Table,
    learner: Any,
    rule: Rule | QueryRule | Uniform,
    budget: float,
    rounds: int | None = None,
    seed: int | np.random.SeedSequence = 0,
) -> Trajectory:
    """Run an agent through rounds drawn from a table. The same seed draws the same rounds, whatever the rule.

    >>> import numpy as np, sparingly as sp
    >>> from sparingly.problems.real import Table
    >>> table = Table("coins", ("a", "b"), contexts=np.zeros(400, dtype=int), rewards=np.tile([0.2, 0.8], (400, 1)))
    >>> p = run_on_table(table, sp.UCB1(arms=2), sp.ExactMatching(), budget=20)
    >>> p.asks <= 20, p.ledger.refused, p.rewards.shape
    (True, 0, (400,))
    """
    rounds = whole(rounds or table.rounds or len(table), "rounds")
    for_rows, for_agent = seed_sequence(seed).spawn(2)
    rows = order_of(len(table), rounds, for_rows)
    agent = agent_for(learner, rule, budget, rounds, for_agent)
    actions, asked = np.zeros(rounds, dtype=np.int64), np.zeros(rounds, dtype=np.bool_)
    for t, row in enumerate(rows.tolist()):
        decision = agent.decide(table.context(row))
        actions[t], asked[t] = decision.action, decision.ask
        if decision.ask:
            agent.observe(decision.id, table.reveal(row, decision.action))
    return Trajectory(rows, actions, asked, table.rewards[rows, actions], agent.ledger)
