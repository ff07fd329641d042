"""How arms and contextual arms are simulated: the loop of skip.py on tapes of contexts and budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly import budgets
from sparingly.budgets import Budget
from sparingly.contexts import Contexts
from sparingly.errors import InvalidInput
from sparingly.problems.arms import ContextualArms
from sparingly.protocol import Problem
from sparingly.randomness import keys
from sparingly.simulation.record import Record
from sparingly.simulation.simulator import RoundSimulator, check_block, check_number
from sparingly.simulation.tapes import Tapes
from sparingly.tabular import skip as loop
from sparingly.tabular.family import TabularFamily, make_memory
from sparingly.tabular.learner import full_costs
from sparingly.tabular.memory import open_memory
from sparingly.validation import table

BLOCK = 2**14  # rounds of tape in memory at a time
LONG_BLOCK = 2**24  # rounds between two reports of progress where no tape is needed

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class TabularSimulator(RoundSimulator):
    """A simulation of arms or contextual arms."""

    about = "arms"
    problems = Problem

    def __init__(self, problem: Any, learner: Any, rule: Any, budget: Budget, marks: Integers, skip: bool) -> None:
        super().__init__(problem, learner, rule, budget, marks, skip)
        if not TabularFamily.takes(learner):
            raise InvalidInput(f"{type(learner).__name__} is not for arms; use UCB1 or MOSS")
        means = table(problem.means, "means", "(S, A)")
        if means.ndim != 2 or not isinstance(problem.contexts, Contexts):
            raise InvalidInput(f"{problem!r} needs means of shape (S, A) and contexts such as contexts.Iid()")
        contexts_there, arms_there = means.shape
        made_for = (getattr(learner, "contexts", None), getattr(learner, "arms", None))
        if made_for != (contexts_there, arms_there):
            raise InvalidInput(
                f"the problem has {contexts_there} contexts and {arms_there} arms, the learner is made for "
                f"{made_for[0]} and {made_for[1]}; "
                f"use {type(learner).__name__}(arms={arms_there}, contexts={contexts_there})"
            )
        ours, theirs = (full_costs(part.costs, contexts_there, arms_there) for part in (learner, problem))
        if problem.costs is not None and learner.costs is not None and not np.array_equal(ours, theirs):
            raise InvalidInput("the problem and the learner name different costs of asking; leave one of them out")
        self.costs: Floats = ours if problem.costs is None else theirs
        self.source = problem.contexts
        self.gaps: Floats = np.asarray(means.max(axis=1, keepdims=True) - means).ravel()
        self.check()
        self.pair = TabularFamily.make_pair(learner, rule)
        functions = getattr(learner, "functions", {}).keys()  # what is drawn or fades in every round cannot be skipped
        plain = getattr(learner, "forget", 0.0) == 0.0 and getattr(learner, "prior_weight", 0.0) == 0.0
        steady = plain and "sample" not in functions
        known = steady and (self.pair.own is None or {"ceiling", "earned"} <= functions)
        foreseen = {"limit"} if contexts_there > 1 else {"limit", "streak"}
        self.skip = skip and known and not foreseen.isdisjoint(getattr(rule, "functions", ()))

    @property
    def shape(self) -> tuple[int, int]:
        return self.costs.shape[0], self.costs.shape[1]

    @property
    def compiled(self) -> bool:
        ours = isinstance(self.problem, ContextualArms) and type(self.problem).draw is ContextualArms.draw
        return ours and super().compiled

    def start(self, seeds: np.random.SeedSequence) -> Any:
        """The memory of one run."""
        return make_memory(self.pair, self.learner, self.costs, keys(seeds, 1)[0])

    def noise_keys(self, seeds: np.random.SeedSequence) -> NDArray[np.uint64]:
        return keys(seeds, self.costs.size)

    def run_compiled(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        world_seed, noise_seed, learner_seed = seeds.spawn(3)
        words, own, answers = self.start(learner_seed), self.pair.own, self.problem.rewards
        truth = loop.TrueArms(
            answers.code, answers.spread, self.problem.parameters.ravel(), self.noise_keys(noise_seed), self.gaps
        )
        record, leads, mark = self.new_record(), loop.new_leads(self.shape[0]), 0
        run_block = self.pair.code(loop.run_block)
        for block in self.blocks(rounds, Tapes(self, world_seed)):
            mark = run_block(words, own, truth, record, mark, leads, block, self.skip)
            report(block.length)
        return record, int(open_memory(words, own).account["refused"][0])

    def blocks(self, rounds: int, tapes: Tapes) -> Iterator[loop.Block]:
        """Blocks until all rounds are covered; without contexts a formula needs no tape, however many rounds."""
        nothing = np.zeros(1, dtype=np.int64)
        by_formula = self.shape[0] == 1 and self.budget.formula[0] != budgets.TAPED
        size = LONG_BLOCK if by_formula else BLOCK
        for first in range(1, rounds + 1, size):
            count = min(size, rounds - first + 1)
            if by_formula:
                yield loop.Block(first, count, nothing, *self.budget.formula, nothing)
            else:
                context, budget = tapes.take(first, count)
                context = check_block(context, count, self.shape[0])
                yield loop.Block(first, count, context, budgets.TAPED, 0.0, 0.0, budget)

    def check_context(self, context: Any) -> int:
        return check_number(context, self.shape[0], "context")

    def cell(self, context: Any, action: int) -> tuple[int, int]:
        return int(context), action

    def loss(self, context: Any, action: int) -> float:
        return 0.0  # the regret is made from the counts of plays, as in the compiled loop

    def regret(self, record: Record, losses: float) -> float:
        return float(sum(record.plays[cell] * self.gaps[cell] for cell in range(self.gaps.size)))

    def answer(self, context: Any, action: int, keys: NDArray[np.uint64], asked: Integers) -> float:
        key = keys.reshape(self.shape)[context, action]
        return float(self.problem.draw(int(context), action, key, int(asked[context, action])))
