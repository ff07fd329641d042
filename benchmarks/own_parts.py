"""Learners and rules of one's own against built-in ones, in `simulate`: `python -m benchmarks.own_parts`.

Ten arms, 100,000 rounds, asking always and under a budget. Compiled functions run in the compiled loop; with the bounds
that let the simulator skip rounds they cost what ours cost, without them every round is played.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import sparingly as sp
from benchmarks.timing import race, report
from sparingly.tabular.learner import TabularLearner

ROUNDS, PLAIN_ROUNDS = 100_000, 2_000
PROBLEM = sp.problems.Arms([0.6] + [0.5] * 9)


@sp.compiled
def limit(rule, question):
    """Exact matching with a share of the budget."""
    units = question.units
    return 2**62 if units.granted >= 2**62 else int(rule.share * units.granted) // units.total_cost - 1


@sp.compiled
def asks(rule, question):
    """Within the limit."""
    return question.asked <= limit(rule, question)


@sp.compiled
def level(learner, rounds):
    """As UCB1's."""
    return learner.scale * math.sqrt(1.5 * math.log(max(learner.arms * rounds, 2)))


@sp.compiled
def index(learner, estimate, level):
    """Mean and bonus."""
    return estimate.average + level * estimate.shrink


@sp.compiled
def ceiling(learner, level, now, rounds):
    """The logarithm stays below its tangent."""
    return math.sqrt(level * level + 1.5 * learner.scale**2 * rounds / now) * (1.0 + 1e-12)


@sp.compiled
def earned(learner, answers, ahead, level):
    """n times the bonus grows with n."""
    return level * math.sqrt(answers)


@dataclass(frozen=True)
class Share(sp.Rule, tabular=asks, limit=limit):
    """A rule of one's own with a limit on counts."""

    share: float = 1.0


@dataclass(frozen=True)
class Unlimited(sp.Rule, tabular=asks):
    """The same, without a limit that the simulator could skip by."""

    share: float = 1.0


@dataclass(frozen=True)
class Skipping(TabularLearner, level=level, index=index, ceiling=ceiling, earned=earned):
    """A learner of one's own with the bounds for the skip."""

    straight = True


@dataclass(frozen=True)
class Playing(TabularLearner, level=level, index=index):
    """The same without them."""


@dataclass(frozen=True)
class PlainShare:
    """The rule in plain Python."""

    def asks(self, question):
        return (question.asked + 1) * question.total_cost <= question.budget


def candidate(learner: object, rule: object, budget: float, rounds: int = ROUNDS) -> tuple:
    """A call and its rounds, after a first one that compiles."""

    def run() -> sp.Simulation:
        return sp.simulate(PROBLEM, learner, rule, budget, rounds=rounds, runs=1, checkpoints=1, jobs=1)

    run()
    return run, rounds


def main() -> None:
    """Both budgets."""
    ours = "UCB1, ExactMatching"
    for title, budget in (("no limit", np.inf), ("10,000 asks", 10_000)):
        timings = race(
            {
                ours: candidate(sp.UCB1(10), sp.ExactMatching(), budget),
                "own rule, compiled, with a limit": candidate(sp.UCB1(10), Share(), budget),
                "own rule, compiled, without": candidate(sp.UCB1(10), Unlimited(), budget),
                "own learner, compiled, with bounds": candidate(Skipping(10), sp.ExactMatching(), budget),
                "own learner, compiled, without": candidate(Playing(10), sp.ExactMatching(), budget),
                "own rule, plain Python": candidate(sp.UCB1(10), PlainShare(), budget, PLAIN_ROUNDS),
            },
            turns=9,
        )
        report(f"Ten arms, {title}", timings, ours)


if __name__ == "__main__":
    main()
