"""What rules compare: the interval of a cell of an episode, and bars that rounding must not miss."""

from __future__ import annotations

import math

from sparingly.numba_support import compiled, inlined
from sparingly.protocol import Question

EQUAL = 1.0 - 1e-12  # equality means ask, in spite of rounding


@compiled
def reward_width(variance: float, asked: int, log_term: float) -> float:
    """CI^R = 2 b^r = 2 sqrt(2 Var L/(n^q ∨ 1)) + 10 L/(n^q ∨ 1)."""
    n = max(asked, 1)
    return 2.0 * math.sqrt(2.0 * variance * log_term / n) + 10.0 * log_term / n


@compiled
def variance_of(squares: float, n: int) -> float:
    """The unbiased variance from the sum of squared deviations of n answers; 0 for fewer than two."""
    return squares / (n - 1) if n >= 2 else 0.0


@inlined
def at_or_above(width: float, bar: float) -> bool:
    """Whether a width reaches the bar."""
    return width >= bar * EQUAL


@inlined
def wide_enough(question: Question, bar: float) -> bool:
    """Whether CI^R of a cell of an episode is at least L times the bar."""
    if bar == 0.0:
        return True
    return bar < math.inf and question.width >= question.step.log_term * bar * EQUAL
