"""The lemmas that the paper's proofs rest on, each as a function that gives its bound.

Lower bounds rest on what asks can tell about two problems (`information` and after), upper bounds on how often a cell
can be wide (`sum_of_roots` and after) and on concentration (`freedman` and after). `tests/theory/test_lemmas.py` holds
each against exact computation or simulation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.errors import InvalidInput
from sparingly.validation import number, probability, table, whole

Floats = NDArray[np.float64]


# What asks can tell about two problems


def bernoulli_kl(mean: float, other: float) -> float:
    """kl(x, y) = x log(x/y) + (1 − x) log((1 − x)/(1 − y)), of two Bernoulli laws.

    >>> bernoulli_kl(0.5, 0.5), round(bernoulli_kl(0.5, 0.75), 4)
    (0.0, 0.1438)
    """
    x, y = (number(value, "a mean", least=0.0, most=1.0) for value in (mean, other))
    parts = ((x, y), (1.0 - x, 1.0 - y))
    if any(a > 0.0 and b == 0.0 for a, b in parts):
        return math.inf
    return math.fsum(a * math.log(a / b) for a, b in parts if a > 0.0)


def gaussian_kl(mean: float, other: float, noise: float = 1.0) -> float:
    """(μ − μ′)²/(2σ²), of two normal laws with the same deviation σ.

    Proposition 4 writes it without the 2 for one round, and with it in the sum, which is what its bound rests on.
    """
    gap = number(mean, "a mean") - number(other, "a mean")
    return gap * gap / (2.0 * number(noise, "noise", least=0.0, above=True) ** 2)


def information(asks: ArrayLike, divergences: ArrayLike) -> float:
    """Lemma 7: KL between the laws of all that is observed on two bandits is Σ_a E n^q_T(a)·KL(ν_a, ν'_a).

    The expectation is that on the first bandit. What is not asked about tells nothing, so only asks count. For every Z
    in [0, 1] that the observations determine, it is at least `bernoulli_kl(E Z, E' Z)`.

    >>> information([10, 3], [0.5, 0.0])
    5.0
    """
    expected, each = table(asks, "asks", "(A,)"), table(divergences, "divergences", "(A,)")
    if expected.shape != each.shape or not ((expected >= 0.0) & (each >= 0.0)).all():
        raise InvalidInput(f"asks and divergences must be numbers ≥ 0 of one shape, not {expected.shape}, {each.shape}")
    return float(np.where(expected > 0.0, expected * np.where(expected > 0.0, each, 0.0), 0.0).sum())


def largest_shift(rounds: int, asks: float, divergence: float) -> float:
    """Lemma 8: if only arm k differs, E n_T(k) differs by at most T sqrt(½·E n^q_T(k)·KL(ν_k, ν'_k)).

    >>> largest_shift(100, asks=2, divergence=0.01)
    10.0
    """
    T, n = whole(rounds, "rounds"), number(asks, "asks", least=0.0)
    return T * math.sqrt(0.5 * n * number(divergence, "divergence", least=0.0, infinite=True)) if n > 0.0 else 0.0


def bernoulli_shift(rounds: int, asks: float, gap: float) -> float:
    """Lemma 8 for means of 1/2 and 1/2 + ε with ε < 1/4: 2εT sqrt(log(4/3)·E n^q_T(k)).

    It is `largest_shift` with KL ≤ 8ε² log(4/3).
    """
    if not 0.0 < number(gap, "gap") < 0.25:
        raise InvalidInput(f"gap must lie in (0, 1/4), not {gap!r}")
    return largest_shift(rounds, asks, 8.0 * gap * gap * math.log(4.0 / 3.0))


def sum_of_errors(divergence: float) -> float:
    """Bretagnolle and Huber, in Proposition 4: P(E) + P'(not E) ≥ ½ exp(−KL(P, P')) for every event E."""
    return 0.5 * math.exp(-number(divergence, "divergence", least=0.0, infinite=True))


def pigeonhole(first: ArrayLike, second: ArrayLike, alpha: float = 1.25) -> int:
    """Lemma 9: an index i with x_i ≤ αX/n and y_i ≤ βY/n, where X = Σ x, Y = Σ y and β = 3α/(α − 1).

    It exists for all x, y ≥ 0 of length n ≥ 2 and 1 < α < 2. Propositions 1 and 2 have α = 5/4, so β = 15: some arm is
    played in few rounds and asked about in few of them.

    >>> pigeonhole([8, 1, 1], [0, 9, 1])
    1
    """
    x, y = table(first, "first", "(n,)"), table(second, "second", "(n,)")
    if x.ndim != 1 or x.size < 2 or x.shape != y.shape or not ((x >= 0.0) & (y >= 0.0)).all():
        raise InvalidInput("first and second must be numbers ≥ 0 of the same shape (n,) with n ≥ 2")
    if not 1.0 < number(alpha, "alpha") < 2.0:
        raise InvalidInput(f"alpha must lie in (1, 2), not {alpha!r}")
    beta, slack = 3.0 * alpha / (alpha - 1.0), 1.0 + 1e-12
    fits = (x <= slack * alpha * x.mean()) & (y <= slack * beta * y.mean())
    assert fits.any(), "Lemma 9"
    return int(np.argmax(fits))


# How often cells and directions can be wide


def sum_of_roots(asks: float, cells: int) -> float:
    """In Theorems 2 and 4: Σ 1/sqrt(n^q ∨ 1) over `asks` rounds that are asked about is at most M + 2 sqrt(M·asks).

    n^q is the count before the round, of whatever cell was played in it; M is the number of cells.

    >>> sum_of_roots(100, cells=4)
    44.0
    """
    M, N = whole(cells, "cells"), number(asks, "asks", least=0.0)
    return M + 2.0 * math.sqrt(M * N)


def sum_of_inverses(asks: float, cells: int) -> float:
    """In Theorem 4: Σ 1/(n^q ∨ 1) over such rounds is at most M(2 + log(asks ∨ 1)).

    >>> sum_of_inverses(1, cells=4)
    8.0
    """
    return whole(cells, "cells") * (2.0 + math.log(max(number(asks, "asks", least=0.0), 1.0)))


def sum_of_reward_widths(asks: float, cells: int, rewarding: int, log_term: float) -> float:
    """Lemma 18, the part that is asked about: Σ CI^R ≤ L·(6 sqrt(|L_R|·asks) + 10 M log(asks) + 23 M), M = S·A·H.

    CI^R = 2 sqrt(2 Var L/(n^q ∨ 1)) + 10 L/(n^q ∨ 1), Var ≤ 1, and Var = 0 outside of the |L_R| rewarding cells.
    """
    M, L = whole(cells, "cells"), number(log_term, "log_term", least=1.0)
    R, N = whole(rewarding, "rewarding", least=0, most=M), number(asks, "asks", least=0.0)
    return L * (6.0 * math.sqrt(R * N) + 10.0 * M * math.log(max(N, 1.0)) + 23.0 * M)


def sum_of_norms(asks: int, dim: int, ridge: float = 1.0, length: float = 1.0) -> float:
    """Lemma 30, the elliptical potential: Σ min(‖x_i‖², 1) ≤ 2d log(1 + nL²/(dλ)) over n asks, norms in V_{i−1}⁻¹.

    V_0 = λI, and no row is longer than L. What is in between, 2 log(det V_n/det V_0), needs the rows themselves.

    >>> round(sum_of_norms(100, dim=2), 2)
    15.73
    """
    d, n = whole(dim, "dim"), whole(asks, "asks", least=0)
    lam, L = (number(x, name, least=0.0, above=True) for x, name in ((ridge, "ridge"), (length, "length")))
    return 2.0 * d * math.log1p(n * L * L / (d * lam))


def farthest(matrix: ArrayLike, direction: ArrayLike, radius: float) -> float:
    """Lemma 33: the largest ⟨x, θ − θ̄⟩ over ‖θ − θ̄‖ ≤ α in the norm of A is α·‖x‖ in A⁻¹.

    >>> farthest([[4.0, 0.0], [0.0, 1.0]], [1.0, 0.0], radius=3.0)
    1.5
    """
    A, x = table(matrix, "matrix", "(d, d)"), table(direction, "direction", "(d,)")
    if A.shape != (x.size, x.size):
        raise InvalidInput(f"matrix must have shape ({x.size}, {x.size}), not {A.shape}")
    return number(radius, "radius", least=0.0) * math.sqrt(float(x @ np.linalg.solve(A, x)))


# Concentration


def freedman(variance: float, eta: float, delta: float) -> float:
    """Lemma 29: Σ X_t ≤ η·Σ E(X_t² | past) + log(1/δ)/η with probability 1 − δ, for |X_t| ≤ R and 0 < η ≤ 1/R.

    X are martingale differences, `variance` is the sum of their conditional second moments.

    >>> round(freedman(variance=100, eta=0.1, delta=0.05), 2)
    39.96
    """
    rate = number(eta, "eta", least=0.0, above=True)
    return rate * number(variance, "variance", least=0.0) - math.log(probability(delta, "delta")) / rate


def expected_from_seen(seen: float, most: float, delta: float) -> float:
    """Lemma 27, first part: Σ E(Y_t | past) ≤ (1 + 1/(2C))·Σ Y_t + 2(2C + 1)² log(1/δ) for 0 ≤ Y_t ≤ C = `most`.

    It is `freedman` for E(Y_t | past) − Y_t with η = 1/(4C(2C + 1)), whose second moment is at most 4C·E(Y_t | past).
    """
    C = number(most, "most", least=0.0, above=True)
    doubt = -math.log(probability(delta, "delta"))
    return (1.0 + 0.5 / C) * number(seen, "seen", least=0.0) + 2.0 * (2.0 * C + 1.0) ** 2 * doubt


def seen_from_expected(expected: float, most: float, delta: float) -> float:
    """Lemma 27, second part: Σ Y_t ≤ 2·Σ E(Y_t | past) + 4C log(1/δ) for 0 ≤ Y_t ≤ C = `most`.

    It is `freedman` with η = 1/(4C).
    """
    C = number(most, "most", least=0.0, above=True)
    return 2.0 * number(expected, "expected", least=0.0) - 4.0 * C * math.log(probability(delta, "delta"))


def empirical_bernstein(variance: ArrayLike, answers: ArrayLike, delta: float) -> Floats:
    """Maurer and Pontil's Theorem 4, in Lemma 13: how far a mean is above the average of n ≥ 2 answers in [0, 1].

    With probability 1 − δ at most sqrt(2 Var log(2/δ)/n) + 7 log(2/δ)/(3(n − 1)), Var the unbiased variance of the
    answers. It is one-sided; Lemma 13 takes it for both sides, which triples δ/2 and not δ: 3δ/2 in all.
    """
    n, doubt = table(answers, "answers", "numbers"), math.log(2.0 / probability(delta, "delta"))
    if not (n >= 2.0).all():
        raise InvalidInput("answers must be at least 2: one has no variance")
    return np.asarray(np.sqrt(2.0 * table(variance, "variance", "numbers") * doubt / n) + 7.0 * doubt / (3.0 * (n - 1)))


def bennett(chance: ArrayLike, visits: ArrayLike, delta: float) -> Floats:
    """In Lemma 13: how far an observed share of n ≥ 1 visits is off from its `chance` P, with probability 1 − δ.

    At most sqrt(2P log(2/δ)/n) + 2 log(2/δ)/(3n). The lemma has 4 in place of 2.
    """
    n, doubt = table(visits, "visits", "numbers"), math.log(2.0 / probability(delta, "delta"))
    return np.asarray(np.sqrt(2.0 * table(chance, "chance", "numbers") * doubt / n) + 2.0 * doubt / (3.0 * n))


def self_normalized(log_det_ratio: float, noise: float, delta: float) -> float:
    """Theorem 6: ‖Σ η_s x_s‖ in V_t⁻¹ is at most σ sqrt(log(det V_t/det V) + 2 log(1/δ)) for all t, with chance 1 − δ.

    It is OFUL's radius "determinant" without the bias sqrt(λ)·D and without its floor of 1. In Theorem 7, rounds that
    were not asked about count as x = 0. That theorem writes sqrt(d log((1 + tL²/λ)/δ)), which for d = 1 is less than
    its proof gives; Algorithm 4, and the code, have sqrt(2d log((1 + tL²/λ)/δ)).
    """
    doubt, ratio = -2.0 * math.log(probability(delta, "delta")), number(log_det_ratio, "log_det_ratio", least=0.0)
    return number(noise, "noise", least=0.0) * math.sqrt(ratio + doubt)


# Values of episodes


class Variance(NamedTuple):
    """The two sides of the law of total variance, for each state at the first step, (S,)."""

    steps: Floats  #: E Σ_h Var(V_{h+1} | s_h, a_h)
    total: Floats  #: E (Σ_h r(s_h, a_h) − V_1)²


def total_variance(transitions: ArrayLike, means: ArrayLike, policy: ArrayLike) -> Variance:
    """Lemma 32: E Σ_h Var_{P_h(·|s_h, a_h)}(V_{h+1}) = E (Σ_h r(s_h, a_h) − V_1)², computed on both sides.

    `transitions` (H, S, A, S), `means` (H, S, A), `policy` (H, S). The right side is the variance of the sum of
    expected rewards along the path, from the recursion of its second moment. Both are at most H² for means in [0, 1].

    >>> total_variance([[[[0.5, 0.5]]] * 2] * 2, [[[0.0], [0.0]], [[0.0], [1.0]]], [[0, 0], [0, 0]]).steps.tolist()
    [0.25, 0.25]
    """
    P, r, a = table(transitions, "transitions", "(H, S, A, S)"), table(means, "means", "(H, S, A)"), np.asarray(policy)
    if P.ndim != 4 or r.shape != P.shape[:3] or a.shape != P.shape[:2] or P.shape[3] != P.shape[1]:
        raise InvalidInput(f"shapes must be (H, S, A, S), (H, S, A), (H, S), not {P.shape}, {r.shape}, {a.shape}")
    H, S = a.shape
    V, squares, steps, every = np.zeros(S), np.zeros(S), np.zeros(S), np.arange(S)
    for h in reversed(range(H)):
        mine, reward = P[h, every, a[h]], r[h, every, a[h]]
        ahead = mine @ V
        steps = mine @ (V * V) - ahead**2 + mine @ steps
        squares = reward**2 + 2.0 * reward * ahead + mine @ squares  # of the rest of the path, E (Σ r)²
        V = reward + ahead
    return Variance(steps, squares - V * V)


def sum_of_deviations(rounds: int, states: int, actions: int, horizon: int, delta: float) -> float:
    """Lemma 25: Σ_t Σ_h sd(V^π_{h+1})/sqrt(n ∨ 1) ≤ 3 sqrt(SAH³T l) + 4H² sqrt(SA l log(4HT(T+1)/δ)), l = log(TH + 1).

    For all T at once, with probability 1 − δ/4: the variances sum up to at most twice their expectation, but for a
    logarithm (Lemma 27), and that is at most H²T (Lemma 32); the 1/(n ∨ 1) sum up as in `sum_of_inverses`.
    """
    T, S, A, H = whole(rounds, "rounds"), whole(states, "states"), whole(actions, "actions"), whole(horizon, "horizon")
    logarithm, doubt = math.log(T * H + 1.0), math.log(4.0 * H * T * (T + 1.0) / probability(delta, "delta"))
    return 3.0 * math.sqrt(S * A * H**3 * T * logarithm) + 4.0 * H**2 * math.sqrt(S * A * logarithm * doubt)


def transition_difference(
    expected: float, states: int, horizon: int, visits: float, log_term: float, alpha: float,
    first: float = 2.0, second: float = 2.0,
) -> float:  # fmt: skip
    """Lemma 28: |(P̄ − P)Y| ≤ E Y/α + H·S·L·(C₂ + α C₁/4)/(n ∨ 1) for 0 ≤ Y ≤ H, `expected` = E Y under P.

    If |P̄(s') − P(s')| ≤ sqrt(C₁ L P(s')/(n ∨ 1)) + C₂ L/(n ∨ 1) for every s'; C₁ = `first`, C₂ = `second`.
    """
    S, H, n = whole(states, "states"), whole(horizon, "horizon"), max(number(visits, "visits", least=0.0), 1.0)
    L, a = number(log_term, "log_term", least=0.0), number(alpha, "alpha", least=0.0, above=True)
    return number(expected, "expected", least=0.0) / a + H * S * L * (second + a * first / 4.0) / n


def deviation_difference(gap: float, horizon: int, visits: float, log_term: float, alpha: float) -> float:
    """Lemma 26: sqrt(2L/(n ∨ 1))·|sd_P̄(V̄) − sd_P(V*)| ≤ E_P̄(V̄ − V*)/α + (5H + Hα/2)·L/(n ∨ 1).

    If V̄ ≥ V*, both in [0, H], `gap` = E_P̄(V̄ − V*), and |sd_P(V*) − sd_P̄(V*)| ≤ sqrt(12 H² L/(n ∨ 1)). It uses Lemma
    31: |sd(V) − sd(V')| ≤ sd(V − V').
    """
    H, n = whole(horizon, "horizon"), max(number(visits, "visits", least=0.0), 1.0)
    L, a = number(log_term, "log_term", least=0.0), number(alpha, "alpha", least=0.0, above=True)
    return number(gap, "gap", least=0.0) / a + (5.0 * H + 0.5 * H * a) * L / n
