"""How linear rewards are simulated: the loop of fixed_set.py on tapes of features and budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly import features
from sparingly.budgets import Budget, Schedule, WhenContext
from sparingly.errors import InvalidInput
from sparingly.linear import fixed_set as loop
from sparingly.linear.family import LinearFamily, make_memory, stand_in
from sparingly.linear.memory import open_memory
from sparingly.linear.round import longest
from sparingly.problems.linear import Linear, answer_of, loss
from sparingly.randomness import keys
from sparingly.rules import ExactMatching
from sparingly.rules.exact import least_asks
from sparingly.simulation.record import SO_FAR, Record
from sparingly.simulation.simulator import RoundSimulator, with_costs
from sparingly.simulation.tapes import Tapes
from sparingly.validation import table

BLOCK_NUMBERS = 2**17  # numbers of tape in memory at a time

Integers = NDArray[np.int64]


class LinearSimulator(RoundSimulator):
    """A simulation of a linear bandit."""

    about = "linear bandits"
    problems = Linear

    def __init__(self, problem: Linear, learner: Any, rule: Any, budget: Budget, marks: Integers, skip: bool) -> None:
        if not LinearFamily.takes(learner):
            raise InvalidInput(f"a linear problem needs OFUL(dim={problem.dim}, …), not {learner!r}")
        if learner.dim != problem.dim:
            raise InvalidInput(
                f"theta has {problem.dim} entries, the learner dim={learner.dim}; use OFUL(dim={problem.dim})"
            )
        if getattr(learner, "yes_or_no", False) and not problem.yes_or_no:
            raise InvalidInput(f"{type(learner).__name__} is for yes or no; write problems.Linear(…, yes_or_no=True)")
        learner = with_costs(learner, problem.costs)
        super().__init__(problem, learner, rule, budget, marks, skip)
        self.source, self.costs, self.length = problem.arms, None, float(getattr(learner, "length", 1.0))
        prices = 1 if learner.costs is None else len(learner.costs)
        if prices > 1 and isinstance(self.source, features.Features) and prices != self.source.arms:
            raise InvalidInput(f"costs are given for {prices} actions, but the problem has {self.source.arms}")
        if isinstance(budget, WhenContext):
            raise InvalidInput("WhenContext counts contexts that are numbers; linear problems have features instead")
        self.free = learner.costs is not None and min(learner.costs) == 0.0
        self.check()
        self.pair = LinearFamily.make_pair(learner, rule)

    def doubt(self, rounds: int) -> str | None:
        """Prices that differ, under exact matching and a budget that ends before dear actions are sure to be asked."""
        prices = {cost for cost in self.learner.costs or () if cost > 0.0}
        if len(prices) < 2 or not isinstance(self.rule, ExactMatching) or not isinstance(self.budget, Schedule):
            return None
        dearest, end, learner = max(prices), self.budget(rounds), stand_in(self.learner)
        ratio = dearest / min(prices)
        needed = dearest * float(least_asks(learner.dim, learner.length, learner.ridge, ratio))
        if end >= needed:
            return None
        return (
            f"ExactMatching may never ask about actions that cost {dearest:g}: with features it promises that only "
            f"from a budget of {needed:,.0f} on, and here the budget ends at {end:,g}. Give that much, or use "
            f"BalancedMatching(), whose free part asks about expensive actions too (docs/paper.md, costs)"
        )

    @property
    def shape(self) -> tuple[int, int]:
        return 1, int(getattr(self.source, "arms", 1))

    def start(self, seeds: np.random.SeedSequence) -> Any:
        """The memory of one run."""
        return make_memory(self.pair, self.learner, keys(seeds, 1)[0], together=not self.free)

    def noise_keys(self, seeds: np.random.SeedSequence) -> NDArray[np.uint64]:
        return keys(seeds, 1)

    def run_compiled(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        world_seed, noise_seed, learner_seed = seeds.spawn(3)
        words, own, run_block = self.start(learner_seed), self.pair.own, self.pair.code(loop.run_block)
        truth = self.problem.truth(self.noise_keys(noise_seed)[0])
        record, so_far = self.new_record(), np.zeros(1, dtype=SO_FAR)
        keeps = self.skip and isinstance(self.source, features.Fixed) and not self.free and not self.pair.paced
        keeps = keeps and self.learner.rows == 0 and not self.learner.draws
        kept = self.shape[1] if keeps else 0
        fixed = loop.FixedSet(np.zeros(kept), np.zeros(kept), np.zeros(kept), np.full(1, -1))
        tapes = Tapes(self, world_seed)
        size = max(1, BLOCK_NUMBERS // (self.shape[1] * self.problem.dim))
        for first in range(1, rounds + 1, size):
            X, budget = tapes.take(first, min(size, rounds - first + 1))
            X = self.check_block(X)
            if first == 1 and kept:
                loop.begin(words, X[0], fixed, truth)
            run_block(words, own, truth, record, so_far, X, fixed, budget, first)
            report(budget.size)
        return record, int(open_memory(words, own).account["refused"][0])

    def check_block(self, X: Any) -> NDArray[np.float64]:
        """Features as they were drawn, if they fit the problem and the learner's length."""
        block = np.ascontiguousarray(X, dtype=np.float64)
        expected = (self.shape[1], self.problem.dim)
        if block.ndim != 3 or block.shape[1:] != expected:
            raise InvalidInput(f"{self.source!r} gave features of shape {block.shape[1:]}, not {expected}")
        length = longest(block.reshape(-1, self.problem.dim))
        if not length <= self.length * (1.0 + 1e-9):
            raise InvalidInput(
                f"a row of the features has length {length:g}, the learner expects at most {self.length:g}; "
                f"use OFUL(dim={self.problem.dim}, length={length:g}, …)"
            )
        return block

    def open_tape(self, random: np.random.Generator) -> Any:
        return self.source.tape(random, self.problem.dim)

    def check_context(self, context: Any) -> Any:
        return table(context, "features", f"(actions, {self.problem.dim})")  # the agent checks the rest

    def cell(self, context: Any, action: int) -> tuple[int, int]:
        return 0, min(action, self.shape[1] - 1)

    def loss(self, context: Any, action: int) -> float:
        return float(loss(context, action, self.problem.truth(np.uint64(0))))

    def regret(self, record: Record, losses: float) -> float:
        return losses

    def answer(self, context: Any, action: int, keys: NDArray[np.uint64], asked: Integers) -> float:
        return float(answer_of(context, action, self.problem.truth(keys[0]), int(asked.sum())))
