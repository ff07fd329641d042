"""BettingUCB: index = the upper end of an interval that holds at all times at once, whatever was asked when.

Somebody who doubts that a mean is m bets on the answers. The capital Π (q/m)^R·((1 − q)/(1 − m))^(1 − R) never grows in
expectation, for any q and any rewards R in [0, 1] with this mean. Mixed over q by Beta(½, ½), it is at least
exp(n·kl(rbar, m))/(2·sqrt(n)), and by Ville's inequality it ever reaches 1/α with a probability of at most α. So the
means with n·kl(rbar, m) ≤ log(2·sqrt(n)/α) have the true one among them at every n, but for α. `theory.sequences` has
it too, with others to compare; α is delta/M for each of the M cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparingly.numba_support import apart
from sparingly.tabular.klucb import largest_mean
from sparingly.tabular.learner import TabularLearner
from sparingly.validation import probability


@apart
def level(learner: BettingUCB, rounds: int) -> float:
    """scale²·log(2M/delta): it does not grow with time."""
    return float(learner.scale * learner.scale * math.log(2.0 * learner.contexts * learner.arms / learner.delta))


@apart
def offset(learner: BettingUCB, answers: float) -> float:
    """n, of answers only: the interval rests on nothing else."""
    return float(answers)


@apart
def budget(learner: BettingUCB, n: float, level: float) -> float:
    """How far kl(rbar, m) may go: (level + scale²·log(n)/2)/n."""
    return float((level + 0.5 * learner.scale * learner.scale * math.log(max(n, 1.0))) / max(n, 1.0))


@apart
def index(learner: BettingUCB, estimate: Any, level: float) -> float:
    """The largest mean with n·kl(rbar, m) ≤ log(2·sqrt(n)·M/delta); +∞ if it was never tried, −∞ for a retired one."""
    if not 0.0 <= estimate.average <= 1.0:
        return float(estimate.average)
    return largest_mean(estimate.average, budget(learner, 1.0 / (estimate.shrink * estimate.shrink), level))


@apart
def bounds(learner: BettingUCB, estimate: Any, level: float) -> tuple[float, float]:
    """All means that the answers do not rule out. With `forget` as the index has it, and without a proof."""
    if estimate.average == -math.inf:
        return 0.0, -math.inf
    n, mean = estimate.offset, estimate.average
    if learner.forget == 0.0 and n > 0.0:
        mean = min(estimate.total / n, 1.0)
    if n == 0.0 or not 0.0 <= mean <= 1.0:
        return 0.0, 1.0
    most = budget(learner, n, level)
    return 1.0 - largest_mean(1.0 - mean, most), largest_mean(mean, most)


@apart
def ceiling(learner: BettingUCB, level: float, now: int, rounds: int) -> float:
    """The level stays as it is."""
    return level


@apart
def earned(learner: BettingUCB, answers: int, ahead: int, level: float) -> float:
    """An index is no less than its mean."""
    return 0.0


@dataclass(frozen=True)
class BettingUCB(
    TabularLearner, level=level, offset=offset, index=index, bounds=bounds, ceiling=ceiling, earned=earned
):
    """UCB with an interval made by bets, on `arms` arms in each of `contexts` contexts. Rewards lie in [0, 1].

    At `scale` 1 the intervals of all cells hold in all rounds at once but for a probability of `delta`, whichever asks
    a rule has left out. They rest on answers only, and need no more memory than a mean.

    >>> BettingUCB(arms=3, delta=0.01).delta
    0.01
    """

    summary = "UCB with intervals that hold at all times at once."

    delta: float = 0.05

    unknown = math.inf
    answers_only = True

    def __post_init__(self) -> None:
        super().__post_init__()
        probability(self.delta, "delta")
