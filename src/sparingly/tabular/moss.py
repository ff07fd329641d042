"""MOSS-anytime (Degenne & Perchet, 2016): index = mean + sqrt((1+α)/2 · max(0, log(t/(A n))) / n).

An arm without an answer comes first. With contexts, each context is a bandit of its own with its own clock t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparingly.numba_support import inlined
from sparingly.tabular.learner import TabularLearner
from sparingly.validation import number

TINY = 1e-12  # far above the rounding error of a level


@inlined
def level(learner: MOSS, rounds: int) -> float:
    """scale² (1+α)/2 · log(t/A)."""
    return learner.scale * learner.scale * 0.5 * (1.0 + learner.alpha) * math.log(rounds / learner.arms)


@inlined
def offset(learner: MOSS, answers: int) -> float:
    """scale² (1+α)/2 · log n, the part of the level that n answers have used up."""
    return learner.scale * learner.scale * 0.5 * (1.0 + learner.alpha) * math.log(max(answers, 1))


@inlined
def index(learner: MOSS, estimate: Any, level: float) -> float:
    """mean + sqrt(max(0, level − offset))/sqrt(n); the mean of an arm without an answer is +∞."""
    return float(estimate.average + math.sqrt(max(0.0, level - estimate.offset)) * estimate.shrink)


@inlined
def ceiling(learner: MOSS, level: float, now: int, rounds: int) -> float:
    """The logarithm stays below its tangent."""
    growth = learner.scale * learner.scale * rounds / now
    return level + float(0.5 * (1.0 + learner.alpha) * growth) + TINY * (1.0 + abs(level))


@inlined
def earned(learner: MOSS, answers: int, ahead: int, level: float) -> float:
    """n·bonus(n) = sqrt(n·max(0, level − offset(n))), with the smallest n and the largest offset."""
    return math.sqrt(answers * max(0.0, level - offset(learner, answers + ahead)))


@dataclass(frozen=True)
class MOSS(TabularLearner, level=level, offset=offset, index=index, ceiling=ceiling, earned=earned):
    """MOSS-anytime on `arms` arms, with a separate bandit in each of `contexts` contexts. Rewards lie in [0, 1].

    `alpha` widens the bonus; 1.35 is the authors' choice.

    >>> MOSS(arms=3, contexts=2).alpha
    1.35
    """

    summary = "MOSS-anytime: a tighter bonus than UCB1."

    alpha: float = 1.35

    unknown = math.inf
    per_context = True

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.alpha, "alpha", least=0.0, most=1e6)
