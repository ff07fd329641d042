"""The bound for one model for all steps, and what its proof rests on."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sparingly as sp
from sparingly.episodic.stationary.learner import transition_bonus
from sparingly.numba_support import from_python
from sparingly.theory import upper
from sparingly.theory.stationary import exact_stationary

bonus = from_python(transition_bonus)
THEOREM = sp.StationaryUCBVI(2, 2, 4, discount=None, scale=1.0, slack=1.0).parameters


def lookahead(p: np.ndarray, v: np.ndarray, logs: float, visits: int, reach: float) -> float:
    mean = float(p @ v)
    return mean + bonus(THEOREM, float(p @ (v - mean) ** 2), visits, logs, reach)


def rises(reach: float, seed: int) -> float:
    """The most by which a value ahead has fallen when V has risen, with this range in the bonus."""
    random, worst = np.random.default_rng(seed), 0.0
    for _ in range(4_000):
        n, rare = int(random.integers(1, 400)), random.random() ** 3
        p = np.array([rare, 1.0 - rare])
        v = np.array([0.0, random.random()])
        w = v + np.array([0.3 * random.random() * (1.0 - v[0]), 0.0])
        worst = max(worst, lookahead(p, v, 9.0, n, reach) - lookahead(p, w, 9.0, n, reach))
    return worst


def test_what_is_ahead_rises_with_the_values():
    """8 ≤ 28/3 is needed: with a tenth of the range in the bonus a larger V can look worse."""
    assert rises(1.0, 0) <= 1e-12
    assert rises(0.1, 0) > 1e-3


def test_the_bonus_covers_both_parts_of_the_inequality():
    """max(x, y) ≥ sqrt(2 Var L/n) + 3RL/n, wherever they meet."""
    random = np.random.default_rng(1)
    for _ in range(2_000):
        reach, n, logs = 10 * random.random(), int(random.integers(1, 10_000)), 30 * random.random()
        variance = reach**2 / 4 * random.random() ** 4
        needed = math.sqrt(2 * variance * logs / n) + 3 * reach * logs / n
        assert bonus(THEOREM, variance, n, logs, reach) >= needed * (1 - 1e-12)


def test_the_bound_grows_as_it_says():
    """K^(1/2) and H^(3/2) without a limit on asking, and a part of the order of K·H·sqrt(SA/B) with one."""
    K = np.array([1e16, 4e16])
    free = exact_stationary(math.inf, K, 3, 2, 4, delta=1e-9)
    lasting = free - 1e-9 * K * 4
    assert lasting[1] / lasting[0] == pytest.approx(2.0, rel=0.1)
    tall = exact_stationary(math.inf, K, 3, 2, 16, delta=1e-12) - 1e-12 * K * 16
    assert tall[0] / lasting[0] == pytest.approx(8.0, rel=0.2)
    little, more = (exact_stationary(B, K, 3, 2, 4, delta=1e-9)[0] - free[0] for B in (6e6, 24e6))
    assert little / more == pytest.approx(2.0, rel=0.1)


def test_one_model_is_worth_a_root_of_the_horizon_in_both_parts():
    K, B = 10**15, 1e13
    for S, A, H in ((5, 3, 20), (5, 3, 80)):
        ours = exact_stationary(B, [K], S, A, H, delta=1e-9)[0]
        assert ours < H * K
    assert ours < 36 * math.log(12 * S**2 * A * H * float(K) ** 3) * math.sqrt(S * A * H**4 * K)
    assert upper.exact_ucbvi(np.full(10, B), S, A, H)[-1] > 0


def test_regret_stays_below_the_bound():
    """In a small problem; the bound says little there, and the part for the budget has to be finite."""
    bound = exact_stationary(8.0, [50], 2, 2, 3)
    assert 0 < bound[0] <= 150
    assert exact_stationary(1.0, [50], 2, 2, 3)[0] == 150  # not one ask about every cell


@pytest.mark.parametrize("wrong", [{"budget": -1}, {"states": 0}, {"delta": 1.0}, {"episodes": ["a"]}])
def test_bad_input_is_refused(wrong):
    with pytest.raises(sp.InvalidInput):
        exact_stationary(**({"budget": 9, "episodes": [9], "states": 2, "actions": 2, "horizon": 3} | wrong))
