"""What StationaryUCBVI loses, with exact matching and one model for all steps. docs/paper.md has the proof."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.validation import number, probability, table, whole

Floats = NDArray[np.float64]


def charged_for_budget(logs: float | Floats, budget: float, states: int, actions: int) -> Floats:
    """What the theorem charges for a step that is declined: 2 (sqrt(L/m) + 5L/m), m = ⌊B/(SA)⌋; ∞ if m is 0.

    >>> round(float(charged_for_budget(20.0, 8_000.0, 2, 1)), 4)
    0.1914
    """
    m = number(budget, "budget", least=0.0) // (whole(states, "states") * whole(actions, "actions"))
    L = np.asarray(logs, dtype=np.float64)
    return 2.0 * (np.sqrt(L / m) + 5.0 * L / m) if m >= 1 else np.full(L.shape, np.inf)


def exact_stationary(
    budget: float, episodes: ArrayLike, states: int, actions: int, horizon: int, delta: float = 0.05
) -> Floats:
    """Ours: the expected regret of K `episodes`, for rewards in [0, 1], unit costs, and a budget B at once.

    With T = KH, L = log(12 S²AH (T+1)²(T+2)/δ), N = 2 sqrt(2SAT), M = 2SA(1 + ln T) and m = ⌊B/(SA)⌋ it is at most

    e·(2.13 H sqrt(L) N + (1.17 SH² + 12.34 H) L M + 2 sqrt(L) N + 10 L M + 2T (sqrt(L/m) + 5 L/m)
    + H (2SA (1 + log₂ T) + SA + 2)) + δKH, and KH: of the order sqrt(SAH³K) + KH sqrt(SA/B), up to logarithms, where
    `upper.exact_ucbvi` has sqrt(SAH⁴K) + KH sqrt(SAH/B).

    >>> K = np.array([1.1e6, 1.3e6, 1e8, 1e12])
    >>> (exact_stationary(np.inf, K, 2, 2, 4) / (4 * K)).round(2).tolist()
    [1.0, 0.94, 0.12, 0.05]
    """
    S, A, H = whole(states, "states"), whole(actions, "actions"), whole(horizon, "horizon")
    granted = number(budget, "budget", least=0.0, infinite=True)
    K = np.atleast_1d(table(episodes, "episodes", "(K,)"))
    T, wrong = K * H, probability(delta, "delta")
    L = np.log(12.0 * S**2 * A * H / wrong * (T + 1.0) ** 2 * (T + 2.0))
    roots, sums = 2.0 * np.sqrt(2.0 * S * A * T), 2.0 * S * A * (1.0 + np.log(T))  # Σ n^(−1/2) and Σ 1/n along a run
    model = (3.0 / math.sqrt(2.0)) * H * np.sqrt(L) * roots + (7.0 / 6.0 * S * H**2 + 37.0 / 3.0 * H) * L * sums
    rewards = 2.0 * (np.sqrt(L) * roots + 5.0 * L * sums)
    fewest = granted >= S * A  # one ask about every cell
    declined = 0.0 if math.isinf(granted) else T * charged_for_budget(L, granted, S, A) if fewest else T * 1.0
    plans = H * (2.0 * S * A * (1.0 + np.log2(T)) + 1.0)
    total = math.e * (model + rewards + declined + plans + S * A * H + H) + wrong * K * H
    return np.asarray(np.minimum(total, K * H))
