"""How linear rewards are simulated: the compiled loops of linear.py on tapes of features and budgets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly import features
from sparingly.budgets import Budget, Fixed
from sparingly.engine import linear as engine
from sparingly.engine.plan import Plan, Record, Tapes
from sparingly.errors import InvalidInput
from sparingly.families import linear
from sparingly.learners.oful import OFUL
from sparingly.ledger import REFUSED
from sparingly.problems.linear import Linear, loss, noisy, worth
from sparingly.randomness import keys
from sparingly.rules import GREEDY, Never

BLOCK_NUMBERS = 2**17  # numbers of tape in memory at a time

Integers = NDArray[np.int64]


class LinearPlan(Plan):
    """A simulation of a linear bandit."""

    family = "linear bandits"

    def __init__(self, problem: Linear, learner: Any, rule: Any, budget: Budget, marks: Integers, skip: bool) -> None:
        if not isinstance(learner, OFUL):
            raise InvalidInput(f"a linear problem needs OFUL(dim={problem.dim}, …), not {learner!r}")
        if learner.dim != problem.dim:
            raise InvalidInput(
                f"theta has {problem.dim} entries, the learner dim={learner.dim}; use OFUL(dim={problem.dim})"
            )
        if problem.costs is not None:
            if learner.costs is not None and not np.array_equal(learner.costs, problem.costs):
                raise InvalidInput("the problem and the learner name different costs of asking; leave one of them out")
            learner = dataclasses.replace(learner, costs=problem.costs.tolist())
        super().__init__(problem, learner, rule, budget, marks, skip)
        self.source, self.costs = problem.arms, None
        self.check_parts()

    @property
    def shape(self) -> tuple[int, int]:
        return 1, int(getattr(self.source, "arms", 1))

    @property
    def compiled(self) -> bool:
        return not self.adaptive

    def load(self) -> None:
        smallest = Linear([1.0], arms=[[1.0]])
        plan = LinearPlan(smallest, OFUL(1), Never(), Fixed(0), np.ones(1, dtype=np.int64), True)
        plan.run_compiled(1, np.random.SeedSequence(0), lambda rounds: None)

    def noise_keys(self, seeds: np.random.SeedSequence) -> NDArray[np.uint64]:
        return keys(seeds, 1)

    def run_compiled(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        world_seed, noise_seed, learner_seed = seeds.spawn(3)
        words = linear.remember(self.learner, self.rule, keys(learner_seed, 1)[0], together=True)
        world = engine.World(self.problem.theta, self.problem.noise, self.noise_keys(noise_seed)[0])
        record, losses, mark = self.new_record(), np.zeros(2), 0
        kept = (
            self.shape[1] if self.skip and isinstance(self.source, features.Fixed) and self.rule.code != GREEDY else 0
        )
        fixed = engine.FixedSet(np.zeros(kept), np.zeros(kept), np.zeros(kept))
        tapes = Tapes(self, world_seed)
        size = max(1, BLOCK_NUMBERS // (self.shape[1] * self.problem.dim))
        for first in range(1, rounds + 1, size):
            X, budget = tapes.take(first, min(size, rounds - first + 1))
            X = np.ascontiguousarray(X)
            if first == 1 and kept:
                engine.begin(words, X[0], fixed, self.problem.theta)
            mark = engine.run_block(words, world, record, mark, X, fixed, budget, first, losses)
            report(budget.size)
        return record, int(linear.open_memory(words).account[REFUSED])

    def open_tape(self, random: np.random.Generator) -> Any:
        return self.source.tape(random, self.problem.dim)

    def check_context(self, context: Any) -> Any:
        return np.ascontiguousarray(context, dtype=np.float64)  # the agent checks shape, length and numbers

    def cell(self, context: Any, action: int) -> tuple[int, int]:
        return 0, min(action, self.shape[1] - 1)

    def loss(self, context: Any, action: int) -> float:
        return float(loss(context, action, self.problem.theta))

    def regret(self, record: Record, losses: float) -> float:
        return losses

    def answer(self, context: Any, action: int, keys: NDArray[np.uint64], asked: Integers) -> float:
        value = worth(context, action, self.problem.theta)
        return float(noisy(value, self.problem.noise, keys[0], int(asked.sum())))
