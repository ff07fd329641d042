"""Run an agent on a table of real data, under a budget, and record what it did.

A reward that the agent did not ask for never reaches the learner. It is looked up after the run, to score it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.agent import Agent
from sparingly.budgets import Sequence
from sparingly.ledger import Ledger
from sparingly.problems.real import Table
from sparingly.protocol import QueryRule
from sparingly.randomness import seed_sequence
from sparingly.rules import Always, Rule
from sparingly.validation import number, whole

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class Uniform:
    """The baseline: ask in rounds drawn uniformly at random in advance, as many as the budget pays for.

    It runs as `Always` under a budget that grows by one ask in each drawn round, so the same code decides. The ledger
    refuses all other rounds; ignore those refusals. If costs differ by action, the budget grows in each drawn round by
    the cost of the most expensive ask, the last time by what is left. So any action can be asked about in a drawn
    round, and what a cheaper ask leaves over pays for asks in later rounds.
    """


@dataclass(frozen=True)
class Trajectory:
    """One run of T rounds: the rows it met, the actions it took, what they were worth, and which it asked about."""

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
    """Make a fresh agent. `Uniform` draws its rounds here, before the first one."""
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
    """Draw the rows of a run: without replacement if there are enough of them, with replacement otherwise."""
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
