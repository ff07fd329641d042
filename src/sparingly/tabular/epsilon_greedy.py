"""ε-greedy: the best mean, but any arm with probability ε. What one would write oneself, as a baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparingly.numba_support import apart
from sparingly.randomness import Stream, uniform
from sparingly.tabular.learner import TabularLearner
from sparingly.validation import number


@apart
def level(learner: EpsilonGreedy, rounds: int) -> float:
    """That of UCB1, for the interval that rules see: the learner itself has none."""
    return learner.scale * math.sqrt(1.5 * math.log(max(learner.contexts * learner.arms * rounds, 2)))


@apart
def index(learner: EpsilonGreedy, estimate: Any, level: float) -> float:
    """The mean; +∞ for an arm that was never tried."""
    return float(estimate.average)


@apart
def bounds(learner: EpsilonGreedy, estimate: Any, level: float) -> tuple[float, float]:
    """UCB1's interval; of an arm that was never tried, everything."""
    if estimate.average == math.inf:
        return -math.inf, math.inf
    return float(estimate.average - level * estimate.shrink), float(estimate.average + level * estimate.shrink)


@apart
def sample(learner: EpsilonGreedy, estimate: Any, level: float, random: Stream) -> float:
    """The mean: only the arm as a whole is drawn, by `roams`."""
    return float(estimate.average)


@apart
def roams(learner: EpsilonGreedy, random: Stream) -> bool:
    """Whether any arm is played in this round."""
    return bool(uniform(random) < learner.epsilon)


@dataclass(frozen=True)
class EpsilonGreedy(TabularLearner, level=level, index=index, bounds=bounds, sample=sample, roams=roams):
    """Play the arm with the best mean, or any arm with probability `epsilon`. Each arm is tried once first.

    A baseline: it explores as much after a million rounds as at the start.

    >>> EpsilonGreedy(arms=3).epsilon
    0.1
    """

    summary = "The best mean, or now and then any action: a baseline."

    epsilon: float = 0.1

    unknown = math.inf
    hopeful = False

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.epsilon, "epsilon", least=0.0, most=1.0)
