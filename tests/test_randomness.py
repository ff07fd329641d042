"""Random numbers: the published SplitMix64 values, and the laws of what is made of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import sparingly as sp
from sparingly.randomness import bits_at, keys, to_unit, uniform

ALARM = 1e-7  # the probability that a test below fails although all is well


def test_published_values_of_splitmix64():
    """The first outputs for seed 1234567, as in the reference implementation of its authors."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(bits_at(np.uint64(1234567), k)) for k in range(4)] == expected


def test_stream_and_key_agree():
    stream = np.array([99], dtype=np.uint64)
    assert [uniform(stream) for _ in range(5)] == [to_unit(np.uint64(bits_at(np.uint64(99), k))) for k in range(5)]


def draws(rewards, mean, count=20_000):
    problem = sp.problems.Arms([mean], rewards=rewards)
    key = keys(np.random.SeedSequence(3), 1)[0]
    return np.array([problem.draw(0, 0, key, k) for k in range(count)]), float(problem.means[0, 0])


@pytest.mark.parametrize("concentration", [0.02, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("mean", [0.03, 0.5, 0.9])
def test_beta(mean, concentration):
    sample, _ = draws(sp.problems.Beta(concentration), mean)
    law = stats.beta(mean * concentration, (1 - mean) * concentration)
    if concentration < 1:  # much mass so close to 1 that a double cannot tell: compare the tails
        for x in (0.1, 0.5, 0.9):
            assert stats.binomtest(int((sample > x).sum()), sample.size, law.sf(x)).pvalue > ALARM
    else:
        assert stats.kstest(sample, law.cdf).pvalue > ALARM


@pytest.mark.parametrize("deviation", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("location", [0.0, 0.4, 1.0])
def test_truncated_normal(location, deviation):
    sample, mean = draws(sp.problems.TruncatedNormal(deviation), location)
    law = stats.truncnorm(-location / deviation, (1 - location) / deviation, loc=location, scale=deviation)
    assert stats.kstest(sample, law.cdf).pvalue > ALARM
    assert mean == pytest.approx(law.mean(), abs=1e-12)


@pytest.mark.parametrize("mean", [0.0, 0.2, 1.0])
def test_bernoulli(mean):
    sample, _ = draws("bernoulli", mean)
    assert set(np.unique(sample)) <= {0.0, 1.0}
    assert stats.binomtest(int(sample.sum()), sample.size, mean).pvalue > ALARM


def test_fixed_and_degenerate_beta():
    assert set(draws("fixed", 0.7, 100)[0]) == {0.7}
    assert set(draws("beta", 1.0, 100)[0]) == {1.0}


def test_cells_and_runs_are_independent():
    """No two of 400 neighbouring cells or runs share draws: correlations stay in their 1e-7 band."""
    rows = keys(np.random.SeedSequence(0), 400)
    table = np.array([[to_unit(np.uint64(bits_at(key, k))) for k in range(500)] for key in rows])
    correlations = np.corrcoef(table)[np.triu_indices(400, 1)]
    assert np.abs(correlations).max() < 0.33  # 79,800 pairs, each normal with deviation 1/sqrt(500)
