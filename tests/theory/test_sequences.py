"""Confidence sequences: term by term, against numbers of the published program, and the coverage that they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import betaln

import sparingly as sp
from sparingly.theory import sequences

GOLDEN = (np.arange(1, 1001) * 0.6180339887498949) % 1
DATA = {"coins": (GOLDEN < 0.6).astype(float), "narrow": 0.4 + 0.1 * GOLDEN}
# What the formulas of the package confseq (predmix_empbern_cs, hedged_cs) give for these answers, at 0.05, after 100
# and 1,000 of them. Its plug-in mean starts at 0 and not at ½, and its bets have log(1/α), so the last digits differ.
PUBLISHED = {
    "coins": {100: (0.4279, 0.7767, 0.439, 0.747), 1000: (0.5377, 0.6629, 0.536, 0.662)},
    "narrow": {100: (0.3751, 0.5253, 0.418, 0.489), 1000: (0.4422, 0.4578, 0.446, 0.455)},
}


@pytest.mark.parametrize("name", DATA)
def test_against_the_published_program(name):
    bernstein, hedged = sequences.empirical_bernstein(DATA[name]), sequences.hedged_capital(DATA[name])
    for n, published in PUBLISHED[name].items():
        ours = [ends[n - 1] for ends in (*bernstein, *hedged)]
        width = published[1] - published[0]
        np.testing.assert_allclose(ours, published, atol=max(0.025 * width, 1.5e-3))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([0.01, 0.05, 0.3]))
def test_empirical_bernstein_term_by_term(values, alpha):
    """Theorem 2 in a loop: λ_t from the past only, v = 4(X − mean)², ψ_E(λ) = (−log(1 − λ) − λ)/4."""
    low, high = sequences.empirical_bernstein(values, alpha)
    total = weighted = loss = 0.0
    mean, variance, seen, squares = 0.5, 0.25, 0.0, 0.0
    for t, x in enumerate(values, start=1):
        bet = min(math.sqrt(2 * math.log(2 / alpha) / (variance * t * math.log(1 + t))), 0.5)
        total, weighted = total + bet, weighted + bet * x
        loss += 4 * (x - mean) ** 2 * (-math.log(1 - bet) - bet) / 4
        margin = (math.log(2 / alpha) + loss) / total
        assert low[t - 1] == pytest.approx(min(max(weighted / total - margin, 0), 1), abs=1e-12)
        assert high[t - 1] == pytest.approx(min(max(weighted / total + margin, 0), 1), abs=1e-12)
        seen += x
        mean = (0.5 + seen) / (t + 1)
        squares += (x - mean) ** 2
        variance = (0.25 + squares) / (t + 1)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_the_hedged_capital_of_one_candidate(values, mean):
    """A candidate is inside just if both gamblers have less than 1/α, to the grid."""
    low, high = sequences.hedged_capital(values, 0.05, grid=500)
    richer, poorer, seen, squares, variance = 0.5, 0.5, 0.0, 0.0, 0.25
    for t, x in enumerate(values, start=1):
        bet = math.sqrt(2 * math.log(40) / (variance * t * math.log(1 + t)))
        richer *= 1 + min(bet, 0.5 / mean) * (x - mean)
        poorer *= 1 - min(bet, 0.5 / (1 - mean)) * (x - mean)
        if max(richer, poorer) < 20:
            assert low[t - 1] <= mean <= high[t - 1]
        elif not low[t - 1] - 0.01 < mean < high[t - 1] + 0.01:
            assert max(richer, poorer) > 10
        seen += x
        squares += (x - (0.5 + seen) / (t + 1)) ** 2
        variance = (0.25 + squares) / (t + 1)


@given(st.integers(1, 100_000), st.floats(0, 1))
def test_the_mixture_is_at_least_as_large_as_its_bound(n, mean):
    """log Beta(½ + S, ½ + F)/π ≥ S log(mean) + F log(1 − mean) − log(2·sqrt(n)), also between whole numbers."""
    wins = n * mean
    entropy = sum(x * math.log(x / n) for x in (wins, n - wins) if x > 0)
    assert betaln(0.5 + wins, 0.5 + n - wins) - math.log(math.pi) >= entropy - math.log(2 * math.sqrt(n)) - 1e-7 * n


def test_the_mixture_solves_its_equation():
    low, high = sequences.mixture(DATA["coins"], 0.05)
    for n in (1, 10, 1000):
        p = DATA["coins"][:n].mean()
        for q in (low[n - 1], high[n - 1]):
            if 0 < q < 1:
                kl = sum(x * math.log(x / y) for x, y in ((p, q), (1 - p, 1 - q)) if x > 0)
                assert n * kl == pytest.approx(math.log(2 * math.sqrt(n) / 0.05), rel=1e-6)


def rewards(runs: int, count: int, mean: float, seed: int) -> np.ndarray:
    """Answers of an adversary: the mean is always the same, the rest depends on how the sum stands.

    While it is near he gives coins, to get it away; once it is away, what hardly varies, to keep it there. Some rounds
    he has nobody asked.
    """
    random = np.random.default_rng(seed)
    kept, total, taken = np.empty((runs, count)), np.zeros(runs), np.zeros(runs, dtype=int)
    while taken.min() < count:
        away = abs(total - taken * mean) > 2.2 * np.sqrt(taken + 1.0)
        coin = (random.random(runs) < mean).astype(float)
        close = mean + min(mean, 1 - mean) * 0.05 * random.choice([-1.0, 1.0], runs)
        asked = (random.random(runs) < np.where(away, 0.5, 0.9)) & (taken < count)
        drawn = np.where(away, close, coin)[asked]
        kept[np.flatnonzero(asked), taken[asked]] = drawn
        total[asked] += drawn
        taken[asked] += 1
    return kept


def fixed_hoeffding(values: np.ndarray, alpha: float) -> sequences.Ends:
    """What holds at each n by itself, and not at all of them."""
    n = np.arange(1, values.size + 1)
    mean, width = np.cumsum(values) / n, np.sqrt(math.log(2 / alpha) / (2 * n))
    return mean - width, mean + width


RUNS, ALPHA = 2_000, 0.05


def misses(sequence, mean: float, count: int, **options) -> int:
    """In how many of the runs the mean is ever outside."""
    runs = rewards(RUNS, count, mean, seed=1)
    ends = (sequence(values, alpha=ALPHA, **options) for values in runs)
    return sum(bool(((low > mean) | (high < mean)).any()) for low, high in ends)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.05, 0.5])
def test_coverage_at_all_times_at_once(mean):
    """2,000 runs: more misses than 1e-7 would allow a true rate of 0.05 to have would be an alarm."""
    most = stats.binom.isf(1e-7, RUNS, ALPHA)
    assert misses(sequences.empirical_bernstein, mean, 500) <= most
    assert misses(sequences.mixture, mean, 500) <= most
    assert misses(sequences.hedged_capital, mean, 150, grid=60) <= most


@pytest.mark.slow
def test_the_coverage_test_notices_an_interval_for_one_time_only():
    assert misses(fixed_hoeffding, 0.5, 500) > stats.binom.isf(1e-7, RUNS, ALPHA)


def test_bad_input():
    for bad in ([], [[0.5]], [1.5], [math.nan], ["x"]):
        with pytest.raises(sp.InvalidInput, match="answers"):
            sequences.mixture(bad)
    for alpha in (0, 1, -1, "x"):
        with pytest.raises(sp.InvalidInput, match="alpha"):
            sequences.empirical_bernstein([0.5], alpha)
    with pytest.raises(sp.InvalidInput, match="grid"):
        sequences.hedged_capital([0.5], grid=1)
