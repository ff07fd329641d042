"""KL-UCB: the index solves its equation, agrees with an independent implementation, and has little regret."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

import sparingly as sp
from sparingly.numba_support import from_python
from sparingly.tabular.klucb import largest_mean
from tests.tabular.test_learners import independent


def kl(p: float, q: float) -> float:
    """Of two coins, with 0·log 0 = 0."""
    return sum(x * math.log(x / y) for x, y in ((p, q), (1 - p, 1 - q)) if x > 0)


@given(
    p=st.one_of(st.sampled_from([0.0, 1e-300, 1e-20, 1e-9, 0.5, 1 - 1e-9, 1.0]), st.floats(0, 1)),
    budget=st.one_of(st.sampled_from([0.0, 1e-300, 1e-20]), st.floats(0, 50)),
)
def test_the_index_is_the_largest_mean_within_the_budget(p, budget):
    q = from_python(largest_mean)(p, budget)
    assert q == getattr(largest_mean, "py_func", largest_mean)(p, budget)  # and plain Python raises nothing
    assert p <= q <= 1
    if p < 1 and kl(p, 1 - 1e-15) > budget:
        root = brentq(lambda x: kl(p, x) - budget, p, 1 - 1e-15, xtol=1e-15)
        assert q == pytest.approx(root, rel=1e-6, abs=1e-9)
    else:
        assert q >= 1 - 1e-9


def test_the_index_of_an_agent_by_hand():
    """n·kl(mean, q) = scale²·(log t + c·log log t), with the clock of the context."""
    agent = sp.Agent(sp.KLUCB(2, contexts=2, scale=0.7, c=3.0), sp.Always(explore="always"), budget=100, seed=0)
    rewards = {(0, 0): [1.0, 0.0, 0.5], (0, 1): [0.0] * 4, (1, 1): [1.0]}
    for cell, answers in rewards.items():
        for reward in answers:
            agent._family.count_ask(*cell)
            agent._family.learn(cell, reward)
    for _ in range(19):
        agent.decide(0)  # answers stay out, and nothing but the clock moves
    t = 20
    for arm in (0, 1):
        answers, q = rewards[0, arm], agent.indices(0)[arm]
        level = 0.49 * (math.log(t) + 3 * math.log(math.log(t)))
        assert len(answers) * kl(float(np.mean(answers)), q) == pytest.approx(level, rel=1e-9)
    assert agent.indices(1)[0] == math.inf and agent.indices(1)[1] == 1.0


@pytest.mark.filterwarnings("ignore")
def test_it_agrees_with_smpybandits():
    """The same rewards, 500 rounds: the same indices, as far as its tolerance of 1e-4 goes."""
    random, peer = np.random.default_rng(0), independent("klUCB")(4, c=1.0, tolerance=1e-9)
    peer.startGame()
    agent = sp.Agent(sp.KLUCB(arms=4), rule=sp.Always(explore="always"), budget=np.inf, seed=0)
    for t in range(500):
        if t >= 4:
            peer.t = t + 1  # it counts finished rounds; the paper's t is the round to come
            peer.computeAllIndex()
            np.testing.assert_allclose(agent.indices(), peer.index, atol=1e-6)
            peer.t = t
        d = agent.decide()
        reward = float(random.random() < 0.2 + 0.2 * d.action)
        agent.observe(d.id, reward)
        peer.getReward(d.action, reward)


@pytest.mark.parametrize(("learner", "runs"), [(sp.KLUCB(4), 40), (sp.Thompson(4), 16)], ids=["KLUCB", "Thompson"])
def test_regret_grows_as_slowly_as_lai_and_robbins_allow(learner, runs):
    """From 10⁵ to 10⁶ rounds: at most 1.5 times Σ gap/kl for each log t. UCB1 has ten times that.

    The bound of the mean is 5 standard errors above it: a false alarm has a probability below 1e-6.
    """
    means = [0.2, 0.1, 0.1, 0.1]
    least = sum((0.2 - m) / kl(m, 0.2) for m in means[1:])
    r = sp.simulate(
        sp.problems.Arms(means), learner, sp.Always(explore="always"), np.inf,
        rounds=10**6, runs=runs, checkpoints=[10**5, 10**6], seed=2,
    )  # fmt: skip
    slopes = (r.regret[:, 1] - r.regret[:, 0]) / math.log(10)
    assert slopes.mean() + 5 * slopes.std(ddof=1) / math.sqrt(runs) < 2.0 * least
    assert slopes.mean() < 1.5 * least
    ucb = sp.simulate(
        sp.problems.Arms(means), sp.UCB1(4), sp.Always(explore="always"), np.inf,
        rounds=10**6, runs=4, checkpoints=[10**5, 10**6], seed=2,
    )  # fmt: skip
    assert np.diff(ucb.regret, axis=1).mean() / math.log(10) > 5 * least


def test_a_sure_start_is_not_a_settled_context():
    """One answer, a 1: the index is 1 and nothing above, but below there is room, down to exp(−level/n).

    With the index mirrored about the mean, as for UCB1, nothing would be left to learn, and no free ask would be made.
    """
    agent = sp.Agent(sp.KLUCB(2, contexts=2, ties="first"), sp.BalancedMatching(), budget=100, seed=0)
    for cell, reward in (((0, 0), 1.0), ((0, 1), 0.0)):
        agent._family.count_ask(*cell)
        agent._family.learn(cell, reward)
    agent.decide(1)
    t = 2  # the second round of context 0
    for _ in range(t):
        rival, n = agent.indices(0)[1], agent.asked[0, 0]
        d = agent.decide(0)
    assert d.action == 0
    low = math.exp(-math.log(t) / n)  # n·kl(1, low) = log t
    assert agent._family.memory.pace.state[0].score == pytest.approx((rival - low) * t / (n + 1) ** 2, rel=1e-9)


def test_with_contexts_it_needs_no_more_asks_than_ucb1():
    """Ten contexts, four arms: the default rule loses less than with UCB1 at the scale that serves that best."""
    means = np.random.default_rng(0).uniform(0.1, 0.9, (10, 4))
    problem, budget = sp.problems.ContextualArms(means), sp.budgets.Linear(0.05)
    lost = [
        sp.simulate(
            problem, learner, sp.BalancedMatching(), budget, rounds=10_000, runs=12, checkpoints=1
        ).regret.mean()
        for learner in (sp.KLUCB(4, 10, scale=0.5), sp.UCB1(4, 10, scale=0.3))
    ]
    assert lost[0] < lost[1]
