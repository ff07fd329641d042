"""Confidence sequences: intervals for a mean of rewards in [0, 1] that hold after every answer at once.

Each holds at all n = 1, 2, … but for a probability of `alpha`, also if an adversary who knows the past decides when to
ask and when to stop.

`empirical_bernstein` and `hedged_capital` are Theorems 2 and 3 of Waudby-Smith and Ramdas (2023), "Estimating means of
bounded random variables by betting"; `mixture` is what the learner `BettingUCB` uses, and needs n and the sum only.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.errors import InvalidInput
from sparingly.numba_support import from_python
from sparingly.tabular.klucb import largest_mean
from sparingly.validation import probability, table, whole

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]  # the lower and the upper ends, (n,) each


def _answers(values: ArrayLike) -> Floats:
    array = table(values, "the answers", "(n,)")
    if array.ndim != 1 or array.size == 0 or not ((array >= 0.0) & (array <= 1.0)).all():
        raise InvalidInput(
            f"the answers must be a list of numbers in [0, 1], not of shape {array.shape} or outside of it"
        )
    return array


def _before(values: Floats, first: float) -> Floats:
    """What was known before each answer."""
    return np.concatenate([[first], values[:-1]])


def plug_in(values: Floats, alpha: float) -> tuple[Floats, Floats]:
    """The mean before each answer, one answer of ½ included, and the bet λ = sqrt(2 log(2/α)/(σ² t log(1 + t)))."""
    t = np.arange(1.0, values.size + 1.0)
    means = (0.5 + np.cumsum(values)) / (t + 1.0)
    variances = (0.25 + np.cumsum((values - means) ** 2)) / (t + 1.0)
    bets = np.sqrt(2.0 * math.log(2.0 / alpha) / (_before(variances, 0.25) * t * np.log1p(t)))
    return _before(means, 0.5), bets


def empirical_bernstein(values: ArrayLike, alpha: float = 0.05, most: float = 0.5) -> Ends:
    """The predictable plug-in empirical-Bernstein sequence (Theorem 2): narrow where answers hardly vary.

    Parameters:
    - `values`: the answers in the order in which they came, (n,).
    - `alpha`: how probable it may be that the mean is ever outside.
    - `most`: the largest bet.

    Returns: the lower and the upper ends, (n,) each, clipped to [0, 1].
    """
    array, alpha = _answers(values), probability(alpha, "alpha")
    means, bets = plug_in(array, alpha)
    bets = np.minimum(bets, most)
    psi = -np.log1p(-bets) - bets  # 4·ψ_E: the 4 of v = 4(X − mean)² cancels
    total = np.cumsum(bets)
    center = np.cumsum(bets * array) / total
    margin = (math.log(2.0 / alpha) + np.cumsum((array - means) ** 2 * psi)) / total
    return np.clip(center - margin, 0.0, 1.0), np.clip(center + margin, 0.0, 1.0)


def hedged_capital(values: ArrayLike, alpha: float = 0.05, grid: int = 1000, share: float = 0.5) -> Ends:
    """The hedged capital sequence (Theorem 3): all means against which neither of two gamblers has become rich.

    One bets that the mean is larger, one that it is smaller, each with half of the money and with at most `share` of
    what could be lost. Takes O(grid) for each answer; the ends are rounded outwards to the grid.

    Returns: the lower and the upper ends, (n,) each.
    """
    array, alpha = _answers(values), probability(alpha, "alpha")
    candidates = np.linspace(0.0, 1.0, whole(grid, "grid", least=2) + 1)
    _, bets = plug_in(array, alpha)
    with np.errstate(divide="ignore"):
        larger, smaller = share / candidates, share / (1.0 - candidates)
    up, down = np.zeros(candidates.size), np.zeros(candidates.size)
    low, high = np.empty(array.size), np.empty(array.size)
    for n, (value, bet) in enumerate(zip(array, bets, strict=True)):
        up += np.log1p(np.minimum(bet, larger) * (value - candidates))
        down += np.log1p(-np.minimum(bet, smaller) * (value - candidates))
        kept = np.flatnonzero(np.maximum(up, down) + math.log(0.5) < -math.log(alpha))
        inside = candidates[kept] if kept.size else candidates
        low[n], high[n] = inside[0] - 1.0 / grid, inside[-1] + 1.0 / grid
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def mixture(values: ArrayLike, alpha: float = 0.05) -> Ends:
    """All means m with n·kl(mean, m) ≤ log(2·sqrt(n)/α): capital mixed over all coins by Beta(½, ½).

    The order of the answers does not matter, only how many they are and their sum. As wide as answers of yes and no
    need; where they vary less, the others are narrower.

    Returns: the lower and the upper ends, (n,) each.
    """
    array, alpha = _answers(values), probability(alpha, "alpha")
    n = np.arange(1.0, array.size + 1.0)
    means, budgets = np.minimum(np.cumsum(array) / n, 1.0), np.log(2.0 * np.sqrt(n) / alpha) / n
    reach = from_python(largest_mean)
    pairs = [(1.0 - reach(1.0 - p, b), reach(p, b)) for p, b in zip(means.tolist(), budgets.tolist(), strict=True)]
    low, high = np.array(pairs).T
    return low, high
