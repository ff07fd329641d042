"""Thompson sampling (Thompson, 1933): draw a mean for each arm from what is believed of it, play the largest.

Beliefs are Beta(a + n·rbar, b + n·(1 − rbar)) for yes/no rewards and rewards in [0, 1] at large, or, with a `noise`,
normal: the prior is one answer of ½ with that noise. n counts asks where a rule explores by asks, so an arm whose
answers stay out is drawn less and less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparingly.numba_support import apart
from sparingly.randomness import Stream, beta, fork, normal
from sparingly.tabular.learner import TabularLearner
from sparingly.validation import number


@apart
def level(learner: Thompson, rounds: int) -> float:
    """Beliefs do not change with time."""
    return 0.0


@apart
def offset(learner: Thompson, answers: int) -> float:
    """n."""
    return float(answers)


@apart
def belief(learner: Thompson, estimate: Any) -> tuple[float, float]:
    """Mean and standard deviation of what is believed of an arm."""
    n, total = estimate.offset, estimate.offset * estimate.average
    if learner.noise > 0.0:
        return (total + 0.5) / (n + 1.0), learner.noise / math.sqrt(n + 1.0)
    weight = learner.a + learner.b + n
    mean = (learner.a + total) / weight
    return mean, math.sqrt(mean * (1.0 - mean) / (weight + 1.0))


@apart
def index(learner: Thompson, estimate: Any, level: float) -> float:
    """What rules and people see in the place of an upper bound: the mean of the belief and two standard deviations."""
    if estimate.average < 0.0:  # retired, or unknown when a past policy was kept
        return float(estimate.average)
    mean, deviation = belief(learner, estimate)
    return float(mean + 2.0 * learner.scale * deviation)


@apart
def bounds(learner: Thompson, estimate: Any, level: float) -> tuple[float, float]:
    """Two standard deviations on either side."""
    mean, deviation = belief(learner, estimate)
    return mean - 2.0 * learner.scale * deviation, mean + 2.0 * learner.scale * deviation


@apart
def sample(learner: Thompson, estimate: Any, level: float, random: Stream) -> float:
    """A mean drawn from the belief; `scale` stretches its distance from the belief's own mean."""
    if estimate.average < 0.0:
        return float(estimate.average)
    mean, deviation = belief(learner, estimate)
    state = fork(random)
    if learner.noise > 0.0:
        return float(mean + learner.scale * deviation * normal(state)[0])
    total = estimate.offset * estimate.average
    drawn = beta(state, learner.a + total, learner.b + (estimate.offset - total))
    return float(mean + learner.scale * (drawn - mean))


@dataclass(frozen=True)
class Thompson(TabularLearner, level=level, offset=offset, index=index, bounds=bounds, sample=sample):
    """Thompson sampling on `arms` arms in each of `contexts` contexts. Rewards lie in [0, 1].

    `a` and `b` are the prior's pseudo-counts of successes and failures: Beta(a, b). With `noise`, the standard
    deviation of answers, the posterior is normal. The rules see the intervals of UCB1, so the budget is as safe as with
    any learner. No bound on its regret together with a rule is proved.

    >>> Thompson(arms=3, a=2.0).b
    1.0
    """

    summary = "Thompson sampling, with a Beta or a normal posterior."

    a: float = 1.0
    b: float = 1.0
    noise: float = 0.0

    unknown = 0.5
    hopeful = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("a", "b"):
            number(getattr(self, name), f"{name}, a pseudo-count,", least=0.0, above=True, most=1e9)
        number(self.noise, "noise", least=0.0, most=1e6)
