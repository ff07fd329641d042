"""UCB1 (Auer et al., 2002) with the bonus of the paper: index = mean + sqrt(3 log(Mt) / (2 (n ∨ 1))).

With contexts there is one estimate per (u, a) and M = S·A; t counts all rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparingly.numba_support import inlined
from sparingly.tabular.learner import TabularLearner

TINY = 1e-12  # far above the rounding error of a level


@inlined
def level(learner: UCB1, rounds: int) -> float:
    """scale · sqrt(3 log(Mt)/2); Mt = 1 is read as 2, a single arm needs no bonus of zero."""
    return learner.scale * math.sqrt(1.5 * math.log(max(learner.contexts * learner.arms * rounds, 2)))


@inlined
def index(learner: UCB1, estimate: Any, level: float) -> float:
    """UCB_t(a) = rbar(a) + b^r_t(a)."""
    return float(estimate.average + level * estimate.shrink)


@inlined
def ceiling(learner: UCB1, level: float, now: int, rounds: int) -> float:
    """The logarithm stays below its tangent."""
    growth = learner.scale * learner.scale * rounds / now
    return math.sqrt(level * level + 1.5 * growth) * (1.0 + TINY)


@inlined
def earned(learner: UCB1, answers: int, ahead: int, level: float) -> float:
    """n·bonus(n) = level·sqrt(n) grows with n."""
    return level * math.sqrt(answers)


@dataclass(frozen=True)
class UCB1(TabularLearner, level=level, index=index, ceiling=ceiling, earned=earned):
    """UCB1 on `arms` arms in each of `contexts` contexts, with one estimate for each pair. Rewards lie in [0, 1].

    >>> UCB1(arms=3).arms
    3
    """

    summary = "Optimism for each action, with or without contexts."

    straight = True
