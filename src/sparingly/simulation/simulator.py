"""One simulation, checked and ready to run: on the compiled loop of its setting, or on an Agent.

What the world decides ahead is a tape, and the compiled loop plays it. Adaptive adversaries, and learners or rules
written in plain Python, take the slower path: an Agent, round by round, with the same result.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparingly import budgets, contexts
from sparingly.agent import Agent
from sparingly.budgets import Budget
from sparingly.errors import InvalidInput
from sparingly.family import Pair
from sparingly.settings import check_parts
from sparingly.simulation.adversary import World
from sparingly.simulation.record import Record, is_due_now, new_record, write_now

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Simulator(ABC):
    """One simulation, checked and ready to run."""

    about: ClassVar[str]  # what is simulated, as messages call it
    problems: ClassVar[type[Any]]  # of this setting
    source: Any  # where contexts come from
    costs: Any  # of asking, as an Agent takes them
    pair: Pair  # the learner and the rule, as compiled code takes them

    def __init__(self, problem: Any, learner: Any, rule: Any, budget: Budget, marks: Integers, skip: bool) -> None:
        self.problem, self.learner, self.rule, self.budget = problem, learner, rule, budget
        self.checkpoints, self.skip = marks, skip

    def check(self) -> None:
        """Refuse what is no learner or no rule, and worlds that wait for each other."""
        waits = self.source.watches_budget and not isinstance(self.source, contexts.Adaptive)
        if waits and self.budget.watches_contexts:
            raise InvalidInput("the contexts depend on the budget and the budget on the contexts")
        if isinstance(self.budget, budgets.WhenContext) and self.budget.context >= self.contexts:
            raise InvalidInput(f"{self.budget!r} would never grow: contexts are 0 … {self.contexts - 1}")
        check_parts(self.learner, self.rule, self.costs)

    def doubt(self, rounds: int) -> str | None:
        """What a user should know before so many rounds are played: a promise of the rule that cannot be kept."""
        return None

    @property
    def code(self) -> tuple[str, Any]:
        """What was compiled for: the setting, and the functions of the user's own, if there are any."""
        own = self.pair.own
        return self.about, None if own is None else tuple(part for part in own if callable(part))

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
    def compiled(self) -> bool:
        """Whether the compiled loop can play it: everything is known ahead, and no part is in plain Python."""
        return not (self.adaptive or self.pair.in_python)

    def load(self) -> None:
        """Make sure that the compiled code is there, by a run of one round."""
        self.run_compiled(1, np.random.SeedSequence(0), lambda rounds: None)

    @abstractmethod
    def run_compiled(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        """One run on the compiled loop: its record, and how often the ledger refused."""

    @abstractmethod
    def check_context(self, context: Any) -> Any:
        """What an adversary picked, if it is a context of this problem."""

    def open_tape(self, random: np.random.Generator) -> Any:
        """The contexts of one run."""
        return self.source.tape(random, self.contexts)

    def new_record(self) -> Record:
        """An empty record."""
        return new_record(self.checkpoints, math.prod(self.shape))

    @abstractmethod
    def run_agent(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        """One run on an Agent: for adversaries that react, and for parts in plain Python."""


class RoundSimulator(Simulator):
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

    def tell(self, agent: Any, decision: Any, answer: float) -> None:
        """Give an agent the answer to its ask."""
        agent.observe(decision.id, answer)

    @abstractmethod
    def noise_keys(self, seeds: np.random.SeedSequence) -> NDArray[np.uint64]:
        """The randomness of the answers of one run."""

    def run_agent(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        """One run on an Agent, round by round."""
        world_seed, noise_seed, learner_seed = seeds.spawn(3)
        agent = Agent(self.learner, self.rule, budget=0.0, seed=learner_seed, costs=self.costs)
        noise = self.noise_keys(noise_seed)
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
                self.tell(agent, decision, reward)
            if is_due_now(record, mark, t):
                write_now(record, mark, self.regret(record, losses), int(asked.sum()), agent.ledger.account)
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
        raise InvalidInput(f"contexts for {count} rounds must be {count} whole numbers, or one; not {block!r}")
    if block.min() < 0 or block.max() >= most:
        raise InvalidInput(f"a context is {block.min()} or {block.max()}; they must lie in 0 … {most - 1}")
    return block.astype(np.int64, copy=False)
