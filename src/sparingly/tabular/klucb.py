"""KL-UCB (Garivier & Cappé, 2011): index = the largest mean q that n answers do not rule out, n·kl(rbar, q) ≤ level.

kl(p, q) = p log(p/q) + (1 − p) log((1 − p)/(1 − q)); the level is log t + c·log log t. For yes/no answers no learner
has less regret in the long run: it comes down to the bound of Lai and Robbins. Any rewards in [0, 1] are allowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparingly.numba_support import apart
from sparingly.tabular.learner import TabularLearner
from sparingly.validation import number

TINY = 1e-12  # far above the rounding error of a level
CLOSE = 1e-13  # Newton's steps end when they are this small


@apart
def level(learner: KLUCB, rounds: int) -> float:
    """scale² · (log t + c·log log t), never less than 0."""
    log = math.log(max(rounds, 1))
    return float(learner.scale * learner.scale * (log + learner.c * math.log(max(log, 1.0))))


@apart
def largest_mean(p: float, budget: float) -> float:
    """The largest q in [p, 1] with kl(p, q) ≤ budget.

    Newton's method from above: kl is convex in q and grows beyond p, so each step stays above the root. It starts at
    the lower of two upper bounds: Pinsker's kl ≥ 2(q − p)², and kl ≥ p·log p + (1 − p)·log((1 − p)/(1 − q)).
    """
    if budget <= 0.0 or p >= 1.0:
        return p
    if p <= 0.0:
        return -math.expm1(-budget)
    rest = 1.0 - p
    known = p * math.log(p) + rest * math.log(rest)
    power = (p * math.log(p) - budget) / rest
    q = min(p + math.sqrt(0.5 * budget), p * math.exp(power) - math.expm1(power))  # 1 − (1 − p)·exp(power)
    if q >= 1.0 or q <= p:  # as close to the end as numbers go
        return min(q, 1.0) if q > p else p
    for _ in range(50):
        excess = known - p * math.log(q) - rest * math.log(1.0 - q) - budget
        step = excess * q * (1.0 - q) / (q - p) if q > p else 0.0
        q = max(q - step, p)
        if step <= CLOSE:
            break
    return q


@apart
def index(learner: KLUCB, estimate: Any, level: float) -> float:
    """The largest q with n·kl(rbar, q) ≤ level; +∞ for an arm that was never tried, −∞ for a retired one."""
    if not 0.0 <= estimate.average <= 1.0:  # never tried, or retired
        return float(estimate.average)
    return largest_mean(estimate.average, level * estimate.shrink * estimate.shrink)


@apart
def bounds(learner: KLUCB, estimate: Any, level: float) -> tuple[float, float]:
    """All means that the answers do not rule out: from below as from above, with 1 − rbar in the place of rbar."""
    if not 0.0 <= estimate.average <= 1.0:
        return 0.0, float(estimate.average)
    budget = level * estimate.shrink * estimate.shrink
    return 1.0 - largest_mean(1.0 - estimate.average, budget), largest_mean(estimate.average, budget)


@apart
def ceiling(learner: KLUCB, level_now: float, now: int, rounds: int) -> float:
    """The level itself, that much later."""
    return level(learner, now + rounds) * (1.0 + TINY)


@apart
def earned(learner: KLUCB, answers: int, ahead: int, level: float) -> float:
    """An index is no less than its mean."""
    return 0.0


@dataclass(frozen=True)
class KLUCB(TabularLearner, level=level, index=index, bounds=bounds, ceiling=ceiling, earned=earned):
    """KL-UCB on `arms` arms, with a separate bandit in each of `contexts` contexts. Made for yes/no rewards.

    `c` is the factor of log log t in the level: 3 in the authors' theorem, 0 in practice.

    >>> KLUCB(arms=3, c=3.0).c
    3.0
    """

    summary = "KL-UCB: the tightest index for yes/no answers."

    c: float = 0.0

    unknown = math.inf
    per_context = True

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.c, "c", least=0.0, most=1e6)
