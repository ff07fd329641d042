"""The paper's formulas, written out once more for the claims that hold real runs against them, number by number.

Nothing here calls the functions that agents and simulations run on: that is the point. n is how often a cell was asked
about, M how many cells there are, C what asking about each of them once costs, t the round, B the budget so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NEAR = 1e-7  # where two sides are as equal as this, rounding may decide


# Arms: Algorithm 3, with E1 to E3.


def ucb_index(average: float, n: int, cells: int, t: int) -> float:
    """UCB_t = rbar + sqrt(3 log(Mt) / (2 (n ∨ 1))) (Section 5.1, E3)."""
    return average + math.sqrt(3.0 * math.log(cells * t) / (2.0 * max(n, 1)))


def moss_index(average: float, n: int, arms: int, t: int, alpha: float = 1.35) -> float:
    """MOSS-anytime (Degenne and Perchet, 2016): rbar + sqrt((1 + α)/2 · max(0, log(t/(A n)))/n); unknown arms first."""
    if n == 0:
        return math.inf
    return average + math.sqrt(0.5 * (1.0 + alpha) * max(0.0, math.log(t / (arms * n))) / n)


def arm_width(n: int, cells: int, t: int) -> float:
    """CI_t = 2 b^r = sqrt(6 log(Mt)/(n ∨ 1)) (Section 5.1, E3)."""
    return math.sqrt(6.0 * math.log(cells * t) / max(n, 1))


def cbm_ucb_asks(n: int, cells: int, total: float, t: int, budget: float) -> bool | None:
    """Algorithm 3, line 5: CI_t ≥ 4 sqrt(6 log(Mt)·C/B)."""
    if budget == 0.0:
        return False
    return at_least(arm_width(n, cells, t), 4.0 * math.sqrt(6.0 * math.log(cells * t) * total / budget))


def exact_asks(n: int, total: float, budget: float) -> bool | None:
    """R1 (docs/paper.md): (n + 1)·C ≤ B."""
    return at_least(budget, (n + 1) * total)


def at_least(left: float, right: float) -> bool:
    """left ≥ right, equality up to rounding included."""
    return left >= right * (1.0 - 1e-12)


def decided(left: float, right: float) -> bool | None:
    """Whether left > right; None where rounding may decide."""
    return None if abs(left - right) <= NEAR * (1.0 + abs(right)) else left > right


# Features: Algorithm 4, with E4, and R2.


@dataclass
class Rows:
    """V = λI + Σ x xᵀ and Σ x R, and what Algorithm 4 makes of them by solving linear equations from the start."""

    dim: int
    ridge: float
    V: Floats = field(init=False)
    sums: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.V, self.sums = self.ridge * np.eye(self.dim), np.zeros(self.dim)

    def see(self, x: Floats, reward: float) -> None:
        self.V += np.outer(x, x)
        self.sums += x * reward

    def estimates(self, X: Floats) -> Floats:
        """⟨x, θ̂⟩ for every row."""
        return np.asarray(X @ np.linalg.solve(self.V, self.sums))

    def norms(self, X: Floats) -> Floats:
        """‖x‖ in V⁻¹ for every row."""
        return np.asarray(np.sqrt(np.einsum("ad,da->a", X, np.linalg.solve(self.V, X.T))))

    @property
    def log_det(self) -> float:
        return float(np.linalg.slogdet(self.V)[1])


def radius(rounds: int, dim: int, noise: float, delta: float, ridge: float, length: float, norm: float) -> float:
    """l_t = max(1, σ sqrt(2d log((1 + tL²/λ)/δ)) + sqrt(λ)·D) (Section 5.2)."""
    inside = math.log((1.0 + rounds * length**2 / ridge) / delta)
    return max(1.0, noise * math.sqrt(2.0 * dim * inside) + math.sqrt(ridge) * norm)


def determinant_radius(rows: Rows, noise: float, delta: float, norm: float) -> float:
    """Abbasi-Yadkori et al. (2011), Theorem 2: σ sqrt(2 log(sqrt(det V/λ^d)/δ)) + sqrt(λ)·D, at least 1."""
    half = 0.5 * (rows.log_det - rows.dim * math.log(rows.ridge))
    return max(1.0, noise * math.sqrt(2.0 * (half - math.log(delta))) + math.sqrt(rows.ridge) * norm)


def cbm_oful_asks(width: float, dim: int, ridge: float, length: float, budget: float) -> bool | None:
    """Algorithm 4, line 7, with E4: min(‖x‖, 1) ≥ v_B/sqrt(B), v_B = sqrt(2d log(1 + BL²/(dλ)))."""
    if budget == 0.0:
        return False
    return decided(min(width, 1.0), math.sqrt(2.0 * dim * math.log1p(budget * length**2 / (dim * ridge)) / budget))


def exact_oful_asks(rows: Rows, width: float, length: float, left: float) -> bool | None:
    """R2 (docs/paper.md): ask if N(‖x‖) ≤ left, N(ε) the largest n with n·log(1+ε²) ≤ what n asks can still add."""
    gain, n = math.log1p(width**2), math.floor(left)
    trace, d = float(np.trace(rows.V)), rows.dim
    if n < 0:
        return False
    most = d * math.log((trace + (n + 1) * length**2) / d) - rows.log_det
    return decided((n + 1) * gain, most)  # N(ε) ≤ n just if n + 1 asks break the inequality


def exact_costs_asks(
    rows: Rows, width: float, length: float, left: float, price: float, cheapest: float
) -> bool | None:
    """R2 with costs (docs/paper.md): ask if K(ρ) ≤ left, ρ = log(1+ε²)/c, K the most with ρK ≤ potential(K/c_min)."""
    if left <= 0.0:
        return False
    potential = rows.dim * math.log((float(np.trace(rows.V)) + left / cheapest * length**2) / rows.dim) - rows.log_det
    return decided(math.log1p(width**2) / price * left, potential)


# Episodes: Algorithms 5 and 6 and Appendix E; Appendix F for ULCVI. With E5, E6, E8 and E10.


@dataclass
class Episodes:
    """What was seen of an MDP, kept as counts, and the plans that UCBVI and ULCVI must make of it.

    Steps are counted from 0: the cut H − h + 1 of the paper is H − h here. `scale` multiplies every bonus.
    """

    states: int
    actions: int
    horizon: int
    delta: float
    scale: float
    episode: int = 1  # t, of the next plan
    visits: Floats = field(init=False)
    asked: Floats = field(init=False)
    sums: Floats = field(init=False)
    squares: Floats = field(init=False)
    after: Floats = field(init=False)

    def __post_init__(self) -> None:
        shape = self.horizon, self.states, self.actions
        self.visits, self.asked, self.sums, self.squares = (np.zeros(shape) for _ in range(4))
        self.after = np.zeros((*shape, self.states))

    def see(self, states: Any, actions: Any, asks: Any, rewards: Any) -> None:
        for h, (s, a) in enumerate(zip(states, actions, strict=True)):
            self.visits[h, s, a] += 1
            if h + 1 < self.horizon:
                self.after[h, s, a, states[h + 1]] += 1
            if asks[h]:
                self.asked[h, s, a] += 1
                self.sums[h, s, a] += rewards[h]
                self.squares[h, s, a] += rewards[h] ** 2
        self.episode += 1

    @property
    def average(self) -> Floats:
        """E10: the mean of the answers so far."""
        return np.asarray(self.sums / np.maximum(self.asked, 1))

    @property
    def variance(self) -> Floats:
        """The unbiased variance of the answers (Appendix E)."""
        n = self.asked
        return np.where(n >= 2, (self.squares - n * self.average**2) / np.maximum(n - 1, 1), 0.0).clip(0.0)

    def log_term(self, constant: float, episode: int) -> float:
        """L_t = log(constant · S²AH t²(t+1)/δ), the constant 12 for UCBVI and 16 for ULCVI."""
        sizes = self.states**2 * self.actions * self.horizon
        return math.log(constant * sizes * episode**2 * (episode + 1) / self.delta)

    def reward_bonus(self, L: float) -> Floats:
        """b^r = sqrt(2 Var L/(n^q ∨ 1)) + 5L/(n^q ∨ 1)."""
        n = np.maximum(self.asked, 1)
        return np.asarray(np.sqrt(2.0 * self.variance * L / n) + 5.0 * L / n)

    def width(self, L: float) -> Floats:
        """CI^R = 2 b^r."""
        return 2.0 * self.reward_bonus(L)

    def threshold(self, L: float, rewarding: int, budget: float) -> float:
        """Algorithm 5 (E6): L·(6 sqrt(|L_R|/B) + 4SAH(log(1+B)+1)/B)."""
        cells = self.states * self.actions * self.horizon
        return L * (6.0 * math.sqrt(rewarding / budget) + 4.0 * cells * (math.log1p(budget) + 1.0) / budget)

    def ucbvi(self) -> tuple[Floats, Floats, Floats]:
        """Truncated value iteration (Algorithm 6) with b^p = sqrt(2H²L/(n ∨ 1)) + 5HL/(n ∨ 1): V, 0, Q."""
        H, n, L = self.horizon, np.maximum(self.visits, 1), self.log_term(12.0, self.episode)
        bonus = np.sqrt(2.0 * H**2 * L / n) + 5.0 * H * L / n
        V, Q = np.zeros((H + 1, self.states)), np.zeros_like(self.visits)
        for h in reversed(range(H)):
            here = self.average[h] + self.scale * (self.reward_bonus(L)[h] + bonus[h])
            Q[h] = here + self.after[h] @ V[h + 1] / n[h]
            V[h] = np.minimum(Q[h].max(axis=1), H - h)
        return V[:H], np.zeros((H, self.states)), Q

    def ulcvi(self) -> tuple[Floats, Floats, Floats]:
        """Values from both sides, with b^p = sqrt(2 Var(V_up) L/(n ∨ 1)) + 44H²SL/(n ∨ 1) + E[V_up − V_low]/(16H)."""
        H, S, n, L = self.horizon, self.states, np.maximum(self.visits, 1), self.log_term(16.0, self.episode)
        up, low, Q = np.zeros((H + 1, S)), np.zeros((H + 1, S)), np.zeros_like(self.visits)
        for h in reversed(range(H)):
            P = self.after[h] / n[h][..., np.newaxis]
            above, below = P @ up[h + 1], P @ low[h + 1]
            spread = (P * (up[h + 1] - above[..., np.newaxis]) ** 2).sum(axis=2)
            bonus = np.sqrt(2.0 * spread * L / n[h]) + 44.0 * H**2 * S * L / n[h] + (above - below) / (16.0 * H)
            bonus = self.scale * (self.reward_bonus(L)[h] + bonus)
            Q[h] = self.average[h] + bonus + above
            under = self.average[h] - bonus + below
            up[h] = np.minimum(Q[h].max(axis=1), H - h)
            low[h] = np.maximum(np.take_along_axis(under, Q[h].argmax(axis=1)[:, np.newaxis], axis=1)[:, 0], 0.0)
        return up[:H], low[:H], Q
