"""The paper's two counterexamples to greedy: two contexts, two arms, and feedback only where it does not matter.

In context 0 the arms are equal and the budget grows; in context 1 one arm pays 1, the other 0, and the budget
stands still. Greedy spends each unit at once, in context 0, and never learns anything about context 1.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from sparingly import budgets, contexts
from sparingly.agent import Agent
from sparingly.errors import InvalidInput
from sparingly.problems.arms import ContextualArms
from sparingly.rules import Never


class Scenario(NamedTuple):
    """A problem together with the budget that makes it hard: `problem, budget = greedy_trap()`."""

    problem: Any
    budget: budgets.Budget


def greedy_trap(adversary: Literal["contexts", "budget"] = "contexts", good_arm: int = 1) -> Scenario:
    """The counterexample in which an adversary controls the contexts, or the budget. E B(t) = t/2 in both.

    `good_arm` is the labelling: the arm that pays in context 1. The worse one for a learner is the arm it
    does not try by itself: see `worse_labelling`.
    """
    if good_arm not in (0, 1):
        raise InvalidInput(f"good_arm must be 0 or 1, not {good_arm!r}")
    means = [[0.5, 0.5], [float(good_arm == 0), float(good_arm == 1)]]
    if adversary == "contexts":
        problem = ContextualArms(means, contexts=contexts.WhenBudgetGrows(grows=0, still=1), rewards="fixed")
        return Scenario(problem, budgets.Bernoulli(0.5))
    if adversary == "budget":
        return Scenario(ContextualArms(means, contexts=contexts.Iid(), rewards="fixed"), budgets.WhenContext(0))
    raise InvalidInput(f"the adversary controls 'contexts' or 'budget', not {adversary!r}")


def worse_labelling(learner: Any, draws: int = 400, seed: int = 0) -> int:
    """The arm to call good in context 1, so that a learner which knows nothing of it does worst.

    Found by watching what the learner plays there without any answer: it is the arm played least. With ties
    broken by lowest index that is arm 1; with random ties both are equally bad.
    """
    agent = Agent(learner, rule=Never(), budget=0, seed=seed)
    played = np.bincount([agent.decide(context=1).action for _ in range(draws)], minlength=2)
    return int(np.argmin(played))
