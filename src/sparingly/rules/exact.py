"""ExactMatching, our own: ask if the budget could still bring everything to this same precision.

With cells that is R1: (n^q + 1)·C ≤ B(t). With features it is R2, in terms of what asks can still add to log det V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparingly.ledger import UNLIMITED
from sparingly.numba_support import compiled, inlined
from sparingly.protocol import Question
from sparingly.rules.rule import Rule


@inlined
def asks(rule: ExactMatching, question: Question) -> bool:
    """R1. What is free adds nothing to the sum Σ c·n^q ≤ B, so it is always asked about."""
    return question.asked <= limit(rule, question) or question.units.cost == 0


@inlined
def limit(rule: ExactMatching, question: Question) -> int:
    """The largest n^q with (n^q + 1)·C ≤ B."""
    units = question.units
    if units.granted >= UNLIMITED or units.total_cost == 0:
        return UNLIMITED
    return int(units.granted // units.total_cost - 1)


@inlined
def signal(rule: ExactMatching, question: Question) -> float:
    """Nothing but the limit can change."""
    return float(limit(rule, question))


@inlined
def asks_row(rule: ExactMatching, question: Question) -> bool:
    """R2: strictly above its bar; what is free uses up no potential."""
    return bool(question.row.norm > bar(rule, question) or question.units.cost == 0)


@inlined
def bar(rule: ExactMatching, question: Question) -> float:
    """The ε above which an ask is safe."""
    row, units = question.row, question.units
    if units.granted >= UNLIMITED:
        return 0.0
    left = units.granted - units.spent
    return exact_bar(row.dim, row.length, row.log_det, row.trace, left, units.cost, row.cheapest, row.dearest)


@compiled
def potential(d: int, length: float, log_det: float, trace: float, asks: float) -> float:
    """The most that `asks` further asks can add to log det V: d log((tr V + n L²)/d) − log det V."""
    return d * math.log((trace + asks * length * length) / d) - log_det


@compiled
def exact_bar(
    d: int, length: float, log_det: float, trace: float, left: int, price: int, cheapest: int, dearest: int
) -> float:
    """R2: the ε above which an ask is safe: if every later ask were as wide, the rest of the budget would pay.

    Equal prices: N(ε) ≤ k with k = ⌊left/price⌋ means that k + 1 asks of width ε would exceed the potential:
    (k + 1) log(1 + ε²) > potential(k + 1), an inequality that is solved for ε. Other prices: an ask of price c has the
    rate ρ = log(1 + ε²)/c, and K units can go into asks of rate ≥ ρ only if ρK ≤ potential(K/cheapest); so ask if
    ρ·left exceeds potential(left/cheapest). What is free is always asked for. With nothing left the bar is as high as
    any width can be; rounding aside, no action is above it.
    """
    if price == 0:
        return 0.0
    reach = length * (1.0 + 1e-9)  # by so much a feature may be longer than it should
    slack = 1e-11 * (d + abs(log_det))  # far above the rounding errors of the potential
    if cheapest == dearest:
        asks = float(left // price + 1)
        square = math.expm1((potential(d, reach, log_det, trace, asks) + slack) / asks)
    elif left <= 0:
        return math.inf
    else:
        asks = left / cheapest
        square = math.expm1((potential(d, reach, log_det, trace, asks) + slack) * price / left)
    return math.sqrt(max(square, 0.0))


@compiled
def least_asks(d: int, length: float, ridge: float, ratio: float = 1.0) -> float:
    """The least b with b·log(1 + L²/λ) ≥ d·log(1 + b·ratio·L²/(dλ)): with fewer asks R2 promises nothing.

    `ratio` is that of the dearest price to the cheapest one; b then counts asks at the dearest.
    """
    square = length * length / ridge
    low, high = 0.0, 1.0
    while d * math.log1p(high * ratio * square / d) > high * math.log1p(square):
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = 0.5 * (low + high)
        if d * math.log1p(middle * ratio * square / d) > middle * math.log1p(square):
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True)
class ExactMatching(Rule, tabular=asks, linear=asks_row, episodic=asks, limit=limit, bar=bar, signal=signal):
    """Ask if the budget could still pay for bringing every cell to this same precision: (n^q + 1)·C ≤ B(t).

    Safe for any adversary: no cell is ever asked for more than B/C times, so Σ c·n^q ≤ B. With OFUL: ask if the rest
    of the budget could pay for all asks that can still be as wide as this one (`exact_bar`). With UCBVI and ULCVI the
    cells are the S·A·H of (h, s, a).
    """

    summary = "Ask if the budget could still bring every cell to this precision."
