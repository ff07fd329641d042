"""BettingUCB: index and interval by hand, and what it needs of answers that stay out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sparingly as sp
from sparingly.numba_support import from_python
from sparingly.theory import sequences


def kl(p: float, q: float) -> float:
    return sum(x * math.log(x / y) for x, y in ((p, q), (1 - p, 1 - q)) if x > 0)


def interval(agent: sp.Agent, context: int, arm: int) -> tuple[float, float]:
    """As rules see it."""
    learner, m = agent.learner, agent._family.memory
    level = from_python(learner.functions["level"])(learner.parameters, 1)
    estimate = m.estimates[context * learner.arms + arm]
    return from_python(learner.functions["bounds"])(learner.parameters, estimate, level)


def fed(rewards: list[float], silent: int = 0, explore: str = "asked", **options: float) -> sp.Agent:
    """One arm of three with these answers, and some asks that nobody has answered."""
    agent = sp.Agent(sp.BettingUCB(3, contexts=2, **options), sp.Always(explore=explore), budget=1e4, seed=0)
    for reward in rewards:
        agent._family.count_ask(1, 2)
        agent._family.learn((1, 2), reward)
    for _ in range(silent):
        agent._family.count_ask(1, 2)
    return agent


@pytest.mark.parametrize("silent", [0, 7])
@pytest.mark.parametrize("rewards", [[1.0] * 3, [0.0] * 5, [0.2, 0.9, 1.0, 0.0, 0.4] * 4])
def test_the_interval_rests_on_answers_only(rewards, silent):
    """All m with n·kl(mean, m) ≤ log(2·sqrt(n)·M/delta), whatever is pending."""
    low, high = interval(fed(rewards, silent, delta=0.1), 1, 2)
    n, mean = len(rewards), float(np.mean(rewards))
    expected = sequences.mixture(rewards, 0.1 / 6)
    assert (low, high) == pytest.approx((expected[0][-1], expected[1][-1]), rel=1e-9, abs=1e-12)
    if 0 < high < 1:
        assert n * kl(mean, high) == pytest.approx(math.log(2 * math.sqrt(n) * 6 / 0.1), rel=1e-6)


def test_the_index_shrinks_with_asks_and_its_scale():
    rewards = [0.0, 1.0, 0.0, 0.5]
    always = fed(rewards, explore="always", scale=0.5)
    high = always.indices(1)[2]
    assert 4 * kl(0.375, high) == pytest.approx(0.25 * math.log(2 * math.sqrt(4) * 6 / 0.05), rel=1e-6)
    asked = fed(rewards, silent=2)
    mean = (6 * 0.375 + 1) / 7  # one answer more, a 1
    assert 6 * kl(mean, asked.indices(1)[2]) == pytest.approx(math.log(2 * math.sqrt(6) * 6 / 0.05), rel=1e-6)
    assert asked.indices(0)[0] == math.inf and interval(asked, 0, 0) == (0.0, 1.0)
    assert fed(rewards, 60).indices(1)[2] < fed(rewards, 6).indices(1)[2]


def test_delta_is_a_probability():
    for delta in (0.0, 1.0, -1.0, "x"):
        with pytest.raises(sp.InvalidInput, match="delta"):
            sp.BettingUCB(2, delta=delta)
