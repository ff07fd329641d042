"""How labels are simulated: the same rounds as an Agent's, on tapes of inputs and budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.budgets import Budget, WhenContext
from sparingly.errors import InvalidInput
from sparingly.linear.labels.family import LabelFamily
from sparingly.linear.labels.memory import Words, look, open_memory, remember
from sparingly.linear.labels.round import play_round, take_answer, told_of
from sparingly.linear.round import longest
from sparingly.numba_support import compiled
from sparingly.problems.labels import Labels, loss_of, right_class
from sparingly.randomness import keys
from sparingly.simulation.record import SO_FAR, Record, note
from sparingly.simulation.simulator import RoundSimulator, with_costs
from sparingly.simulation.tapes import Tapes
from sparingly.tabular.round import ANSWERABLE

BLOCK_NUMBERS = 2**17  # numbers of tape in memory at a time

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Truth(NamedTuple):
    """The truth of one run."""

    weights: Floats  # (K, d)
    tells_label: bool
    key: np.uint64
    chances: Floats  # (K,) room to compute in


@compiled
def run_block(
    words: Words, own: Any, truth: Truth, record: Record, so_far: Any, inputs: Floats, tape: Integers, first: int
) -> None:
    """Play the rounds of a block."""
    m, run = look(words, own), so_far[0]
    for j in range(tape.size):
        m.account[0].granted = tape[j]
        x = inputs[min(j, inputs.shape[0] - 1)]
        a, ending = play_round(m, x)
        if ending == ANSWERABLE:
            right = right_class(truth.weights, x, truth.key, run.asked, truth.chances)
            take_answer(m, right if truth.tells_label else told_of(a, 1.0 if right == a else 0.0))
            run.asked += 1
        run.regret += loss_of(truth.weights, x, a, truth.chances)
        record.plays[a] += 1
        note(record, so_far, first + j, m.account)


class LabelSimulator(RoundSimulator):
    """A simulation of labels."""

    about = "labels"
    problems = Labels

    def __init__(self, problem: Labels, learner: Any, rule: Any, budget: Budget, marks: Integers, skip: bool) -> None:
        sizes = f"dim={problem.dim}, classes={problem.classes}"
        if not LabelFamily.takes(learner):
            raise InvalidInput(f"a problem of labels needs Softmax({sizes}), not {learner!r}")
        if (learner.dim, learner.classes) != (problem.dim, problem.classes):
            raise InvalidInput(f"the problem has {sizes}, the learner is {learner!r}; use Softmax({sizes})")
        learner = with_costs(learner, problem.costs)
        super().__init__(problem, learner, rule, budget, marks, skip)
        self.source, self.costs, self.length = problem.inputs, None, float(learner.length)
        if isinstance(budget, WhenContext):
            raise InvalidInput("WhenContext counts contexts that are numbers; labels have inputs instead")
        self.check()
        self.pair = LabelFamily.make_pair(learner, rule)
        self.room = np.zeros(problem.classes)

    @property
    def shape(self) -> tuple[int, int]:
        return 1, int(self.problem.classes)

    def noise_keys(self, seeds: np.random.SeedSequence) -> NDArray[np.uint64]:
        return keys(seeds, 1)

    def run_compiled(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        world_seed, noise_seed, learner_seed = seeds.spawn(3)
        words, own, play = remember(self.pair, self.learner, keys(learner_seed, 1)[0]), self.pair.own, run_block
        key, classes = self.noise_keys(noise_seed)[0], self.problem.classes
        truth = Truth(self.problem.weights, self.problem.tells == "label", key, np.zeros(classes))
        record, so_far, tapes = self.new_record(), np.zeros(1, dtype=SO_FAR), Tapes(self, world_seed)
        size = max(1, BLOCK_NUMBERS // self.problem.dim)
        for first in range(1, rounds + 1, size):
            X, budget = tapes.take(first, min(size, rounds - first + 1))
            inputs = self.check_block(X)
            self.pair.code(play)(words, own, truth, record, so_far, inputs, budget, first)
            report(budget.size)
        return record, int(open_memory(words, own).account["refused"][0])

    def check_block(self, X: Any) -> Floats:
        """Inputs as they were drawn, if they fit the problem and the learner's length."""
        block = np.ascontiguousarray(X, dtype=np.float64)
        if block.ndim != 3 or block.shape[1:] != (1, self.problem.dim):
            raise InvalidInput(f"{self.source!r} gave inputs of shape {block.shape[1:]}, not (1, {self.problem.dim})")
        length = longest(block.reshape(-1, self.problem.dim))
        if not length <= self.length * (1.0 + 1e-9):
            raise InvalidInput(
                f"an input has length {length:g}, the learner expects at most {self.length:g}; "
                f"use Softmax(…, length={length:g})"
            )
        return block[:, 0].copy()

    def open_tape(self, random: np.random.Generator) -> Any:
        return self.source.tape(random, self.problem.dim)

    def check_context(self, context: Any) -> Any:
        return context  # the agent checks it

    def cell(self, context: Any, action: int) -> tuple[int, int]:
        return 0, action

    def loss(self, context: Any, action: int) -> float:
        return float(loss_of(self.problem.weights, self.input_of(context), action, np.zeros_like(self.room)))

    def regret(self, record: Record, losses: float) -> float:
        return losses

    def answer(self, context: Any, action: int, keys: NDArray[np.uint64], asked: Integers) -> float:
        """The number of the class that is right."""
        room = np.zeros_like(self.room)
        return float(right_class(self.problem.weights, self.input_of(context), keys[0], int(asked.sum()), room))

    def tell(self, agent: Any, decision: Any, answer: float) -> None:
        if self.problem.tells == "label":
            agent.observe(decision.id, label=int(answer))
        else:
            agent.observe(decision.id, reward=decision.action == int(answer))

    def input_of(self, context: Any) -> Floats:
        """What an adversary has picked, or the tape, as one row."""
        return np.ascontiguousarray(context, dtype=np.float64).reshape(-1)
