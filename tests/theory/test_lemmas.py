"""The paper's lemmas as functions: against exact computation, by enumeration and by simulation, and with flaws."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import sparingly as sp
from sparingly.episodic.learner import log_term
from sparingly.lab.claims import CLAIMS, Runner
from sparingly.lab.claims.lemmas import ask_once, counted, observed, potential, some_policy
from sparingly.linear.oful import determinant_radius
from sparingly.rules.intervals import reward_width, variance_of
from sparingly.theory import lemmas

plain = {f: getattr(f, "py_func", f) for f in (reward_width, variance_of, determinant_radius)}
MEANS = st.floats(0.01, 0.99)


# What asks can tell about two problems


@given(MEANS, MEANS)
def test_the_kl_of_bernoulli_laws_is_the_sum_over_outcomes(x, y):
    expected = stats.entropy([x, 1 - x], [y, 1 - y])
    assert lemmas.bernoulli_kl(x, y) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert lemmas.bernoulli_kl(x, y) >= 2 * (x - y) ** 2 - 1e-15  # Pinsker, in Lemma 8
    assert lemmas.bernoulli_kl(x, 0) == math.inf and lemmas.bernoulli_kl(0, x) == pytest.approx(-math.log(1 - x))


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_the_kl_of_normal_laws_is_an_integral(noise):
    """With the 1/2 that Proposition 4 leaves out in one line, and not without."""
    x = np.linspace(-30, 30, 600_001)
    p, q = (stats.norm.pdf(x, mean, noise) for mean in (0.3, 1.1))
    integral = float((p * (stats.norm.logpdf(x, 0.3, noise) - stats.norm.logpdf(x, 1.1, noise))).sum() * (x[1] - x[0]))
    assert lemmas.gaussian_kl(0.3, 1.1, noise) == pytest.approx(integral, rel=1e-6)
    assert q.sum() * (x[1] - x[0]) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("gap", [0.05, 0.24])
def test_kl_splits_into_asks_even_where_rounds_are_skipped(seed, gap):
    """Lemma 7, by enumeration of all histories; counting plays in place of asks would be far off."""
    means, others = np.array([0.5, 0.5, 0.5]), np.array([0.5 + gap, 0.5, 0.5])
    policy = functools.partial(ask_once, arms=3) if seed is None else some_policy(np.random.SeedSequence(seed), 3)
    found = observed(policy, means, others, rounds=4)
    each = [lemmas.bernoulli_kl(x, y) for x, y in zip(means, others, strict=True)]
    told = lemmas.information(found["asks"], each)
    assert found["kl"] == pytest.approx(told, rel=1e-10)
    assert lemmas.information(found["plays"], each) > 1.2 * told
    assert lemmas.bernoulli_kl(found["plays"][0] / 4, found["others"][0] / 4) <= told
    moved = abs(found["plays"][0] - found["others"][0])
    assert (
        moved <= lemmas.largest_shift(4, found["asks"][0], each[0]) <= lemmas.bernoulli_shift(4, found["asks"][0], gap)
    )


@given(st.floats(1e-4, 0.2499))
def test_lemma_8_bounds_the_kl_of_a_half(gap):
    assert lemmas.bernoulli_kl(0.5, 0.5 + gap) <= 8 * gap**2 * math.log(4 / 3) * (1 + 1e-12)
    assert lemmas.bernoulli_shift(7, 3, gap) == pytest.approx(2 * gap * 7 * math.sqrt(math.log(4 / 3) * 3))


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=8), st.data())
def test_bretagnolle_and_huber(weights, data):
    """For every event of two laws on a few outcomes."""
    other = data.draw(st.lists(st.floats(0.01, 1), min_size=len(weights), max_size=len(weights)))
    p, q = np.array(weights) / sum(weights), np.array(other) / sum(other)
    least = np.minimum(p, q).sum()  # of P(E) + P'(not E), over all events E
    assert least >= lemmas.sum_of_errors(float(max(stats.entropy(p, q), 0.0))) * (1 - 1e-9)


@given(st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)), min_size=2, max_size=80), st.floats(1.01, 1.99))
def test_some_arm_is_small_in_both(pairs, alpha):
    x, y = np.array(pairs).T
    i = lemmas.pigeonhole(x, y, alpha)
    beta = 3 * alpha / (alpha - 1)
    assert x[i] <= alpha * x.mean() * (1 + 1e-9) and y[i] <= beta * y.mean() * (1 + 1e-9)


def test_the_pigeonhole_needs_its_beta():
    """With β = 4 in place of 15 there are 40 arms of which none fits: the factor is no decoration."""
    x, y = np.repeat([1.0, 0.0], [31, 9]), np.repeat([0.0, 1.0], [31, 9])
    fits = (x <= 1.25 * x.mean()) & (y <= 4.0 * y.mean())
    assert not fits.any()
    assert lemmas.pigeonhole(x, y) == 31


# How often cells and directions can be wide


@given(st.lists(st.integers(0, 4), max_size=200))
def test_sums_over_counts(cells):
    roots, inverses = counted(np.array(cells, dtype=int), 5)
    assert roots <= lemmas.sum_of_roots(len(cells), 5) * (1 + 1e-12)
    assert inverses <= lemmas.sum_of_inverses(len(cells), 5) * (1 + 1e-12)


def test_sums_over_counts_are_tight():
    """With all cells in turn: 2 sqrt(Mn) for n → ∞; one cell alone reaches log n."""
    roots, _ = counted(np.arange(200_000) % 5, 5)
    assert roots >= 0.99 * lemmas.sum_of_roots(200_000, 5)
    _, inverses = counted(np.zeros(10_000, dtype=int), 1)
    assert inverses >= 0.9 * lemmas.sum_of_inverses(10_000, 1)


@pytest.mark.parametrize("rewarding", [0, 1, 6])
def test_the_widths_of_what_is_asked_about(rewarding):
    """Lemma 18 with the widths that the code computes, for the worst answers: 0 and 1 in turn."""
    cells, L, N = 6, log_term(sp.UCBVI(1, 1, 6).log_constant, 1), 3_000
    total = 0.0
    for cell in range(cells):
        for n in range(N // cells):
            ones = n // 2 if cell < rewarding else 0
            squares = ones * (n - ones) / max(n, 1)
            total += plain[reward_width](plain[variance_of](squares, n), n, L)
    assert total <= lemmas.sum_of_reward_widths(N, cells, rewarding, L)
    assert total >= 0.2 * lemmas.sum_of_reward_widths(N, cells, rewarding, L)


@given(st.integers(1, 6), st.integers(0, 60), st.floats(0.2, 5), st.floats(0.2, 3), st.integers(0, 99))
def test_the_elliptical_potential(dim, asks, ridge, length, seed):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(asks, dim)) * random.choice([0.1, 1, 10], size=dim)
    rows *= length / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), length)
    total = potential(rows, ridge)
    between = 2 * (np.linalg.slogdet(ridge * np.eye(dim) + rows.T @ rows)[1] - dim * math.log(ridge))
    assert total <= between * (1 + 1e-9) + 1e-9
    assert between <= lemmas.sum_of_norms(asks, dim, ridge, length) * (1 + 1e-9) + 1e-9


def test_the_elliptical_potential_is_tight():
    """Orthogonal rows in turn make det V as large as its trace allows; half of the bound is reached."""
    rows = np.eye(4)[np.arange(4_000) % 4]
    assert potential(rows, 1.0) >= 0.5 * lemmas.sum_of_norms(4_000, 4)


@given(st.integers(1, 5), st.integers(0, 99), st.floats(0.1, 5))
def test_nothing_in_an_ellipsoid_is_farther(dim, seed, radius):
    """Lemma 33: no point of the boundary is farther, and one point is as far."""
    random = np.random.default_rng(seed)
    root = random.normal(size=(dim, dim)) + 3 * np.eye(dim)
    A, x = root.T @ root, random.normal(size=dim)
    bound = lemmas.farthest(A, x, radius)
    points = random.normal(size=(200, dim))
    points *= radius / np.sqrt(np.einsum("ni,ij,nj->n", points, A, points))[:, None]
    assert (points @ x).max() <= bound * (1 + 1e-9)
    best = np.linalg.solve(A, x)
    assert radius * (x @ best) / math.sqrt(best @ A @ best) == pytest.approx(bound)


# Concentration


def poisson_like(runs, rate, rounds=400):
    """Martingale differences 1 − p with chance p, else −p: (Σ X, Σ E X²), the law on which Freedman is least loose."""
    p = rate / rounds
    return np.random.default_rng(0).binomial(rounds, p, runs) - rate, rounds * p * (1 - p)


def beyond(count, runs, delta):
    """Whether a share δ of runs explains so many: false with a probability of at most 1e-7 if it does."""
    return stats.binom.sf(count - 1, runs, delta) < 1e-7


@pytest.mark.parametrize("delta", [0.3, 0.05, 0.001])
def test_freedman(delta):
    """A fixed seed; a false alarm has a probability of 1e-7. A third of the bound would be left too often."""
    sums, variance = poisson_like(20_000, rate=1.0)
    bound = lemmas.freedman(variance, eta=1.0, delta=delta)
    assert not beyond((sums > bound).sum(), 20_000, delta)
    assert beyond((sums > bound / 3).sum(), 20_000, delta) or delta == 0.3
    assert lemmas.freedman(100.0, 0.1, delta) == pytest.approx(10 + 10 * math.log(1 / delta))


@given(st.floats(0, 1e4), st.floats(0.05, 50), st.floats(0.001, 0.9))
def test_lemma_27_is_freedman_solved(expected, most, delta):
    """Where Freedman's bound holds with the second moment 4C·E, so does the lemma, and with equality at the edge."""
    eta = 1 / (4 * most * (2 * most + 1))
    seen = expected - lemmas.freedman(4 * most * expected, eta, delta)  # as few as Freedman allows
    if seen >= 0:
        assert lemmas.expected_from_seen(seen, most, delta) == pytest.approx(expected, rel=1e-9)
    seen = expected + lemmas.freedman(4 * most * expected, 1 / (4 * most), delta)  # as many
    assert lemmas.seen_from_expected(expected, most, delta) == pytest.approx(seen, rel=1e-9)


def test_lemma_27_in_simulation():
    """In 20,000 runs of Poisson counts, δ = 0.3; false alarm 1e-7."""
    sums, _ = poisson_like(20_000, rate=3.0)
    seen, delta = sums + 3.0, 0.3
    assert not beyond((seen > lemmas.seen_from_expected(3.0, 1.0, delta)).sum(), 20_000, delta)
    assert not beyond(sum(lemmas.expected_from_seen(s, 1.0, delta) < 3.0 for s in seen), 20_000, delta)
    assert beyond((seen > lemmas.seen_from_expected(3.0, 1.0, delta) / 3).sum(), 20_000, delta)


@pytest.mark.parametrize(("mean", "n", "delta"), [(0.05, 40, 0.3), (0.05, 40, 0.02), (0.5, 400, 0.02)])
def test_empirical_bernstein_and_bennett(mean, n, delta):
    """20,000 averages of n answers, false alarm 1e-7; of the last ones, a quarter of the bound would miss too many."""
    draws = np.random.default_rng(1).random((20_000, n)) < mean
    off, variance = mean - draws.mean(axis=1), draws.var(axis=1, ddof=1)
    bars, share = lemmas.empirical_bernstein(variance, n, delta), float(lemmas.bennett(mean, n, delta))
    assert not beyond((off > bars).sum(), 20_000, delta)
    assert not beyond((abs(off) > share).sum(), 20_000, delta)
    if n == 400:
        assert beyond((off > bars / 4).sum(), 20_000, delta)
        assert beyond((abs(off) > share / 4).sum(), 20_000, delta)


def test_the_reward_bonus_is_wider_than_empirical_bernstein():
    """Lemma 13: b^r = CI^R/2 with L = log(2t/δ') covers it at δ'/t, for all n ≥ 2 and variances up to 1/2."""
    for n, variance, L in itertools.product([2, 3, 10, 1_000], [0.0, 0.01, 0.5], [2.5, 10.0, 40.0]):
        delta = 2 * math.exp(-L)
        half = plain[reward_width](variance, n, L) / 2
        assert half >= lemmas.empirical_bernstein(variance, n, delta) * (1 - 1e-12)


def test_self_normalized_sums_and_the_radius():
    """Theorem 6, over all rounds at once: at most a share δ of 2,000 runs of 50 rounds leaves it, false alarm 1e-7.

    OFUL's radius is the same plus sqrt(λ)·D; the paper's sqrt(d log(…)) would be smaller than it for d = 1.
    """
    random, delta, left = np.random.default_rng(0), 0.3, 0
    for _ in range(2_000):
        V, S, outside = np.eye(2), np.zeros(2), False
        for x, eta in zip(random.normal(size=(50, 2)), random.normal(size=50), strict=True):
            x /= max(np.linalg.norm(x), 1.0)
            V, S = V + np.outer(x, x), S + eta * x
            bound = lemmas.self_normalized(np.linalg.slogdet(V)[1], 1.0, delta)
            outside |= math.sqrt(S @ np.linalg.solve(V, S)) > bound
        left += outside
    assert not beyond(left, 2_000, delta)
    assert left > 20
    for ratio in (0.0, 3.0, 40.0):
        mine = lemmas.self_normalized(ratio, 0.7, delta) + 1.5
        assert plain[determinant_radius](ratio, 0.7, 2 * math.log(1 / delta), 0.0, 1.5) == pytest.approx(mine)
    t, d = 5, 1
    stated = math.sqrt(d * math.log((1 + t) / 0.01))
    assert stated < lemmas.self_normalized(d * math.log(1 + t / d), 1.0, 0.01) <= math.sqrt(2) * stated


# Values of episodes


@pytest.mark.parametrize("seed", range(5))
def test_the_law_of_total_variance_by_enumeration(seed):
    """Both sides of Lemma 32 against all 81 paths of four steps through three states."""
    random, S, A, H = np.random.default_rng(seed), 3, 2, 4
    P, r = random.dirichlet(np.ones(S), size=(H, S, A)), random.random((H, S, A))
    policy = random.integers(A, size=(H, S))
    found = lemmas.total_variance(P, r, policy)
    for start in range(S):
        sums, odds = [], []
        for path in itertools.product(range(S), repeat=H - 1):
            states, chance = (start, *path), 1.0
            for h in range(H - 1):
                chance *= P[h, states[h], policy[h, states[h]], states[h + 1]]
            sums.append(sum(r[h, s, policy[h, s]] for h, s in enumerate(states)))
            odds.append(chance)
        value = np.dot(odds, sums)
        by_hand = float(np.dot(odds, (np.array(sums) - value) ** 2))
        assert found.total[start] == pytest.approx(by_hand, abs=1e-12)
        assert found.steps[start] == pytest.approx(by_hand, abs=1e-12)


def test_the_sum_of_deviations_in_simulation():
    """Lemma 25 in 200 runs of 300 episodes with random states: no more than a share δ/4 above, false alarm 1e-7.

    Constants are generous: 2 % of the bound are reached. A bound without the root of T would be left.
    """
    random, S, A, H, T = np.random.default_rng(0), 2, 1, 6, 300
    P, r = np.full((H, S, A, S), 0.5), np.zeros((H, S, A))
    r[:, 1] = 1.0
    V = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        V[h] = r[h, :, 0] + P[h, :, 0] @ V[h + 1]
    spread = np.array(
        [[math.sqrt(P[h, s, 0] @ V[h + 1] ** 2 - (P[h, s, 0] @ V[h + 1]) ** 2) for s in range(S)] for h in range(H)]
    )
    largest, above = 0.0, 0
    for _ in range(200):
        states = random.integers(S, size=(T, H))
        total = 0.0
        for h in range(H):
            for s in range(S):
                n = np.arange((states[:, h] == s).sum())
                total += spread[h, s] * (1 / np.sqrt(np.maximum(n, 1))).sum()
        bound = lemmas.sum_of_deviations(T, S, A, H, 0.3)
        above += total > bound
        largest = max(largest, total / bound)
    assert not beyond(above, 200, 0.3 / 4)
    assert 0.02 < largest < 1
    assert lemmas.sum_of_deviations(4 * T, S, A, H, 0.3) > 1.4 * bound


@given(st.integers(0, 10_000), st.floats(0.5, 100), st.integers(1, 500))
def test_transition_and_deviation_differences(seed, alpha, visits):
    """Lemmas 28, 31 and 26 on transitions that are as far off as they may be."""
    random, S, H, L = np.random.default_rng(seed), 4, 3, 2.0
    P = random.dirichlet(np.ones(S))
    signs = random.choice([-1.0, 1.0], S)
    shift = np.sqrt(2 * L * P / visits) + 2 * L / visits
    Y = random.random(S) * H
    assert abs((signs * shift) @ Y) <= lemmas.transition_difference(P @ Y, S, H, visits, L, alpha) * (1 + 1e-9)
    best = random.random(S) * H
    upper = np.minimum(best + random.random(S), H)

    def deviation(law, values):
        return math.sqrt(max(law @ values**2 - (law @ values) ** 2, 0.0))

    near = random.dirichlet(np.ones(S))
    assert abs(deviation(near, upper) - deviation(near, best)) <= deviation(near, upper - best) + 1e-9  # Lemma 31
    off = abs(deviation(near, upper) - deviation(near, best)) + math.sqrt(12 * H**2 * L / visits)
    bound = lemmas.deviation_difference(float(near @ (upper - best)), H, visits, L, alpha)
    assert math.sqrt(2 * L / visits) * off <= bound * (1 + 1e-9)


# Claims that can fail


@pytest.mark.parametrize(
    ("name", "function", "factor"),
    [
        ("lemmas/information", "information", 1.001),
        ("lemmas/information", "bernoulli_shift", 0.5),
        ("lemmas/counting", "sum_of_roots", 0.9),
        ("lemmas/counting", "sum_of_norms", 0.5),
        ("lemmas/concentration", "freedman", 0.3),
        ("lemmas/concentration", "bennett", 0.4),
    ],
)
def test_a_smaller_bound_turns_a_claim_to_fails(monkeypatch, name, function, factor):
    claim, sound = CLAIMS[name], getattr(lemmas, function)
    assert claim.evaluate(Runner()).verdict == "holds"
    monkeypatch.setattr(lemmas, function, lambda *args, **named: factor * sound(*args, **named))
    assert claim.evaluate(Runner()).verdict == "fails"


@pytest.mark.parametrize(
    "call",
    [
        lambda: lemmas.bernoulli_kl(1.5, 0.5),
        lambda: lemmas.gaussian_kl(0, 1, noise=0),
        lambda: lemmas.information([1, 2], [1]),
        lambda: lemmas.information([-1], [1]),
        lambda: lemmas.largest_shift(0, 1, 1),
        lambda: lemmas.bernoulli_shift(5, 1, 0.3),
        lambda: lemmas.pigeonhole([1], [1]),
        lambda: lemmas.pigeonhole([1, 2], [1, 2], alpha=2.5),
        lambda: lemmas.sum_of_roots(-1, 3),
        lambda: lemmas.sum_of_norms(1, 0),
        lambda: lemmas.farthest([[1.0]], [1.0, 2.0], 1.0),
        lambda: lemmas.freedman(1.0, 0.0, 0.1),
        lambda: lemmas.freedman(1.0, 1.0, 1.0),
        lambda: lemmas.empirical_bernstein(0.1, 1, 0.1),
        lambda: lemmas.total_variance([1.0], [1.0], [0]),
        lambda: lemmas.sum_of_reward_widths(10, 3, 4, 2.0),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(sp.InvalidInput):
        call()
