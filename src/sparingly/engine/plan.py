"""What all simulations share: tapes of contexts and budgets, and the slower path on an Agent.

What the world decides ahead is a tape, and the compiled loop of the family plays it. Adaptive adversaries, and
learners or rules written in plain Python, take the slower path: an Agent, round by round, with the same result.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly import budgets, contexts
from sparingly.agent import Agent
from sparingly.budgets import Budget
from sparingly.errors import InvalidInput
from sparingly.history import History
from sparingly.ledger import GRANTED, SPENT

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Record(NamedTuple):
    """What a run leaves behind: the state at certain rounds (K,), and the plays of each cell (M,)."""

    rounds: Integers
    regret: Floats
    asked: Integers
    spent: Integers
    budget: Integers
    plays: Integers


class Plan(ABC):
    """One simulation, checked and ready to run."""

    family: str  # as it is called in messages
    source: Any  # where contexts come from
    costs: Any  # of asking, as an Agent takes them

    def __init__(self, problem: Any, learner: Any, rule: Any, budget: Budget, marks: Integers, skip: bool) -> None:
        self.problem, self.learner, self.rule, self.budget = problem, learner, rule, budget
        self.checkpoints, self.skip = marks, skip

    def check_parts(self) -> None:
        """Refuse what is no learner or no rule, and worlds that wait for each other."""
        waits = self.source.watches_budget and not isinstance(self.source, contexts.Adaptive)
        if waits and self.budget.watches_contexts:
            raise InvalidInput("the contexts wait for the budget and the budget waits for the contexts")
        if isinstance(self.budget, budgets.WhenContext) and self.budget.context >= self.contexts:
            raise InvalidInput(f"{self.budget!r} would never grow: contexts are 0 … {self.contexts - 1}")
        Agent(self.learner, self.rule, costs=self.costs)

    @property
    def adaptive(self) -> bool:
        """Whether an adversary reacts to the run."""
        return isinstance(self.budget, budgets.Adaptive) or isinstance(self.source, contexts.Adaptive)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of the counts of plays: (S, A), or (H, S, A) for episodes."""

    @property
    def contexts(self) -> int:
        """S, the number of contexts."""
        return self.shape[0]

    @property
    @abstractmethod
    def compiled(self) -> bool:
        """Whether everything is known ahead and built in."""

    @abstractmethod
    def load(self) -> None:
        """Make sure that the compiled code is there, by a smallest run."""

    @abstractmethod
    def run_compiled(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        """One run on the compiled loop: its record, and how often the ledger refused."""

    @abstractmethod
    def check_context(self, context: Any) -> Any:
        """What an adversary picked, if it is a context of this problem."""

    @abstractmethod
    def open_tape(self, random: np.random.Generator) -> Any:
        """The contexts of one run."""

    def new_record(self) -> Record:
        """An empty record."""
        marks = self.checkpoints
        asked, spent, budget = (np.zeros(marks.size, dtype=np.int64) for _ in range(3))
        plays = np.zeros(math.prod(self.shape), dtype=np.int64)
        return Record(marks, np.zeros(marks.size), asked, spent, budget, plays)

    @abstractmethod
    def run_agent(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        """One run on an Agent: for adversaries that react, and for parts in plain Python."""


class RoundPlan(Plan):
    """A simulation in which one action is chosen in each round."""

    @abstractmethod
    def cell(self, context: Any, action: int) -> tuple[int, int]:
        """Where a play is counted."""

    @abstractmethod
    def regret(self, record: Record, losses: float) -> float:
        """The cumulative regret, from the counts of plays or from the losses added up."""

    @abstractmethod
    def loss(self, context: Any, action: int) -> float:
        """What an action loses in expectation."""

    @abstractmethod
    def answer(self, context: Any, action: int, keys: NDArray[np.uint64], asked: Integers) -> float:
        """The answer to an ask, given how often each cell was asked for before."""

    @abstractmethod
    def noise_keys(self, seeds: np.random.SeedSequence) -> NDArray[np.uint64]:
        """The randomness of the answers of one run."""

    def run_agent(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        """One run on an Agent, round by round."""
        world_seed, noise_seed, learner_seed = seeds.spawn(3)
        agent = Agent(self.learner, self.rule, budget=0.0, seed=learner_seed, costs=self.costs)
        account, noise = agent.ledger.account, self.noise_keys(noise_seed)
        record, mark, losses = self.new_record(), 0, 0.0
        plays, asked = record.plays.reshape(self.shape), np.zeros(self.shape, dtype=np.int64)
        world = World(self, world_seed, agent, plays, asked)
        for t in range(1, rounds + 1):
            context = world.next_context(t)
            decision = agent.decide(context=context)
            world.last = (context, decision.action, decision.ask)
            plays[self.cell(context, decision.action)] += 1
            losses += self.loss(context, decision.action)
            if decision.ask:
                reward = self.answer(context, decision.action, noise, asked)
                asked[self.cell(context, decision.action)] += 1
                agent.observe(decision.id, reward)
            if mark < record.rounds.size and t == record.rounds[mark]:
                record.regret[mark] = self.regret(record, losses)
                record.asked[mark], record.spent[mark] = asked.sum(), account[SPENT]
                record.budget[mark] = account[GRANTED]
                mark += 1
            report(1)
        return record, agent.ledger.refused


def with_costs(learner: Any, costs: Any) -> Any:
    """The learner with the costs of asking that its problem names, if it names any."""
    if costs is None:
        return learner
    if learner.costs is not None and not np.array_equal(learner.costs, costs):
        raise InvalidInput("the problem and the learner name different costs of asking; leave one of them out")
    return dataclasses.replace(learner, costs=costs.tolist())


def check_number(context: Any, contexts: int, what: str) -> int:
    """The context that an adversary picked, if it is one."""
    if isinstance(context, bool) or not isinstance(context, int | np.integer) or not 0 <= context < contexts:
        raise InvalidInput(f"the adversary picked {what} {context!r}; it must lie in 0 … {contexts - 1}")
    return int(context)


def check_block(contexts: Any, count: int, most: int) -> Integers:
    """The contexts of a block of rounds, if a source of one's own has made them right."""
    block = np.asarray(contexts)
    if block.shape not in ((1,), (count,)) or not np.issubdtype(block.dtype, np.integer):
        raise InvalidInput(f"contexts for {count} rounds must be so many whole numbers, or one; not {block!r}")
    if block.min() < 0 or block.max() >= most:
        raise InvalidInput(f"a context is {block.min()} or {block.max()}; they must lie in 0 … {most - 1}")
    return block.astype(np.int64, copy=False)


class Tapes:
    """The contexts and the budget of one run, block by block."""

    def __init__(self, plan: Plan, seeds: np.random.SeedSequence) -> None:
        self.context_random, self.budget_random = (np.random.default_rng(s) for s in seeds.spawn(2))
        self.plan = plan
        adaptive_source = isinstance(plan.source, contexts.Adaptive)
        adaptive_budget = isinstance(plan.budget, budgets.Adaptive)
        self.contexts = None if adaptive_source else plan.open_tape(self.context_random)
        self.budget = None if adaptive_budget else plan.budget.tape(self.budget_random)
        self.granted = 0  # B of the round before

    def take(self, first: int, count: int) -> tuple[Any, Integers]:
        """Contexts and budget of the next `count` rounds (a single context if they are all the same)."""
        assert self.contexts is not None and self.budget is not None
        unknown = np.zeros(1, dtype=np.int64)
        if self.plan.source.watches_budget:
            budget = self.budget.take(first, count, unknown)
            context = self.contexts.take(first, count, np.diff(budget, prepend=self.granted) > 0)
        else:
            context = self.contexts.take(first, count, unknown > 0)
            budget = self.budget.take(first, count, context)
        if self.plan.budget.formula[0] == budgets.TAPED and (np.diff(budget, prepend=self.granted) < 0).any():
            raise InvalidInput(f"a budget only grows, but {self.plan.budget!r} falls in or after round {first}")
        self.granted = int(budget[-1])
        return context, budget


class World:
    """Picks the context and raises the agent's budget, round by round, asking the adversaries there are."""

    def __init__(
        self, plan: Plan, seeds: np.random.SeedSequence, agent: Agent, plays: Integers, asked: Integers
    ) -> None:
        self.plan, self.tapes, self.agent = plan, Tapes(plan, seeds), agent
        self.plays, self.asked = plays, asked
        self.last: tuple[Any, Any, Any] | None = None
        self.memories: tuple[dict[str, Any], dict[str, Any]] = ({}, {})  # of the two adversaries, for this run

    def next_context(self, t: int) -> Any:
        """Let round t begin: its context; the agent's ledger then knows B(t)."""
        plan, tapes, unknown = self.plan, self.tapes, np.zeros(1, dtype=np.int64)
        if not plan.adaptive:
            context, budget = tapes.take(t, 1)
            self._grant_units(int(budget[0]))
            return context[0]
        before = tapes.granted
        if tapes.contexts is None and tapes.budget is not None and not plan.budget.watches_contexts:
            self._grant_units(int(tapes.budget.take(t, 1, unknown)[0]))
        if tapes.contexts is None:
            history = self._history(t, None, tapes.granted > before, 0, tapes.context_random)
            context = plan.check_context(plan.source.callback(history))
        else:
            context = tapes.contexts.take(t, 1, unknown > 0)[0]
        if tapes.budget is None:
            assert isinstance(plan.budget, budgets.Adaptive)
            self.agent.ledger.grant_to(plan.budget.callback(self._history(t, context, False, 1, tapes.budget_random)))
            tapes.granted = int(self.agent.ledger.account[GRANTED])
        elif plan.budget.watches_contexts:
            self._grant_units(int(tapes.budget.take(t, 1, np.array([context]))[0]))
        return context

    def _grant_units(self, units: int) -> None:
        self.agent.ledger.account[GRANTED] = self.tapes.granted = units

    def _history(self, t: int, context: Any, grew: bool, who: int, random: np.random.Generator) -> History:
        ledger = self.agent.ledger
        return History(
            round=t, context=context, granted=ledger.granted, grew=grew, spent=ledger.spent, plays=self.plays.copy(),
            asked=self.asked.copy(), last=self.last, random=random, memory=self.memories[who],
        )  # fmt: skip
