"""UCB1 and MOSS-anytime: their indices against the published formulas and against an independent implementation."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparingly as sp
from sparingly.numba_support import from_python
from sparingly.tabular import moss, ucb1
from sparingly.tabular import round as arms


def feed(agent: sp.Agent, answers: list[tuple[int, int, float]]) -> None:
    """Give answers to cells (context, arm), as if they had been asked for."""
    for context, arm, reward in answers:
        arms.count_ask(agent._family.words, None, context, arm)
        arms.learn(agent._family.words, None, context, arm, reward)
        agent._family.memory.clock[[0, 1 + context]] += 1


ANSWERS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.floats(0, 1)), max_size=40)


@pytest.mark.parametrize(("explore", "ones"), [("always", 0), ("asked", 1)])
@given(answers=ANSWERS, scale=st.floats(0.01, 3))
def test_ucb1_is_the_papers_formula(explore, ones, answers, scale):
    """But for the average: where a rule explores by asks, it is as if one answer more had been a 1."""
    rule = sp.ExactMatching(explore=explore)
    agent = sp.Agent(sp.UCB1(arms=3, contexts=2, scale=scale), rule, budget=0, seed=0)
    feed(agent, answers)
    t, M = len(answers) + 1, 6
    for context in range(2):
        for arm, value in enumerate(agent.indices(context)):
            rewards = [r for u, a, r in answers if (u, a) == (context, arm)]
            mean = (sum(rewards) + ones) / max(len(rewards) + ones, 1)
            bonus = np.sqrt(3 * np.log(M * t) / (2 * max(len(rewards), 1)))
            assert value == pytest.approx(mean + scale * bonus, rel=1e-12)


@given(ANSWERS)
def test_moss_is_one_bandit_per_context(answers):
    agent = sp.Agent(sp.MOSS(arms=3, contexts=2), budget=0, seed=0)
    feed(agent, answers)
    for context in range(2):
        t = sum(u == context for u, _, _ in answers) + 1
        for arm, value in enumerate(agent.indices(context)):
            rewards = [r for u, a, r in answers if (u, a) == (context, arm)]
            if rewards:
                n = len(rewards)
                bonus = np.sqrt(1.175 * max(0.0, np.log(t / (3 * n))) / n)
                assert value == pytest.approx((sum(rewards) + 1) / (n + 1) + bonus, rel=1e-12)
            else:
                assert value == np.inf


def independent(name: str) -> type:
    """A policy of SMPyBandits, without the package's own imports (they need versions of SciPy long gone)."""
    spec = importlib.util.find_spec("SMPyBandits")
    assert spec is not None and spec.origin is not None, "SMPyBandits is missing: run the tests by `make test`"
    folder = Path(spec.origin).parent / "Policies"
    if "smp" not in sys.modules:
        package = types.ModuleType("smp")
        package.__path__ = [str(folder)]
        sys.modules["smp"] = package
    return getattr(importlib.import_module(f"smp.{name}"), name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_moss_agrees_with_smpybandits(seed):
    """The same rewards, 2,000 rounds: the same indices in every round, and the same arm wherever it is unique."""
    random = np.random.default_rng(seed)
    peer = independent("MOSSAnytime")(5, alpha=1.35)
    peer.startGame()
    agent = sp.Agent(sp.MOSS(arms=5), rule=sp.Always(explore="always"), budget=np.inf, seed=0)
    for t in range(2_000):
        if t >= 5:
            peer.t = t + 1  # it counts finished rounds; the paper's t is the round to come
            peer.computeAllIndex()
            np.testing.assert_allclose(agent.indices(), peer.index, rtol=1e-9)
            peer.t = t
        d = agent.decide()
        if t >= 5:
            assert peer.index[d.action] >= peer.index.max() - 1e-9
        reward = float(random.random() < 0.4 + 0.1 * d.action)
        agent.observe(d.id, reward)
        peer.getReward(d.action, reward)


def test_level_of_a_single_arm_is_finite():
    assert from_python(ucb1.level)(sp.UCB1(1).parameters, 1) > 0
    assert np.isfinite(from_python(moss.level)(sp.MOSS(1).parameters, 1))
    agent = sp.Agent(sp.UCB1(arms=1), budget=3, seed=0)
    assert [agent.decide().ask for _ in range(5)] == [True, True, True, False, False]


def test_estimates_by_hand():
    """(Σ + ½)/(n + 1), for what is played unasked: 0.75 after one good answer, 0.85 after eight of nine, 0.5 untried.

    An arm whose asks nobody has answered comes last, also after two bad answers, 0.17.
    """
    agent = sp.Agent(sp.UCB1(4, contexts=2, ties="first"), sp.Never(), budget=0, seed=0)
    for context, arm, answers in ((0, 0, [1.0]), (0, 1, [1.0] * 8 + [0.0]), (1, 0, [0.0, 0.0]), (1, 1, [])):
        for reward in answers:
            agent._family.learn((context, arm), reward)
        if not answers:
            agent._family.count_ask(context, arm)
    assert [agent.decide(context).action for context in (0, 1)] == [1, 2]


def test_scores_by_hand():
    """(UCB of the runner-up − LCB of the arm, at most 2) · visits of the context/(n + 1)²."""
    agent, random = sp.Agent(sp.UCB1(3, contexts=2, ties="first"), budget=60, seed=0), np.random.default_rng(0)
    seen, negative = [0, 0], 0
    for _ in range(300):
        u = int(random.random() < 0.2)
        seen[u] += 1
        indices, means, n = agent.indices(u), np.nan_to_num(agent.means[u]), agent.asked[u]
        a = int(np.argmax(indices))
        average = (n[a] * means[a] + 1) / (n[a] + 1)  # with the 1 that counts as one answer more
        overlap = min(max(np.delete(indices, a)) - (2 * average - indices[a]), 2.0)
        d = agent.decide(u)
        assert agent._family.memory.pace.state[0].score == pytest.approx(overlap * seen[u] / (n[a] + 1) ** 2, rel=1e-9)
        negative += overlap < 0
        if d.ask:
            agent.observe(d.id, float(random.random() < (0.9, 0.2, 0.1)[d.action]))
    assert agent.asked.min() > 1


def test_ties_first_and_random():
    first = sp.Agent(sp.UCB1(arms=4, ties="first"), rule=sp.Never(), seed=0)
    assert {first.decide().action for _ in range(50)} == {0}
    random = sp.Agent(sp.UCB1(arms=4, ties="random"), rule=sp.Never(), seed=0)
    counts = np.bincount([random.decide().action for _ in range(8_000)], minlength=4)
    # Each count is Binomial(8000, 1/4), deviation 38.7: six of them, a false alarm below 1e-8.
    assert (abs(counts - 2_000) < 233).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sp.UCB1(0), "arms must be a whole number ≥ 1"),
        (lambda: sp.UCB1(2.0), "arms must be a whole number ≥ 1"),
        (lambda: sp.UCB1(True), "arms must be a whole number"),
        (lambda: sp.UCB1(2, contexts=0), "contexts must be"),
        (lambda: sp.UCB1(2, scale=-1), "scale must be"),
        (lambda: sp.UCB1(2, scale=np.nan), "scale must be"),
        (lambda: sp.UCB1(2, scale="x"), "scale must be"),
        (lambda: sp.UCB1(2, scale=1e-200), "scale must be"),
        (lambda: sp.UCB1(2, ties=["first"]), "ties must be"),
        (lambda: sp.UCB1(2, costs=[1, 1e-9]), "rescale"),
        (lambda: sp.UCB1(2, ties="last"), "ties must be"),
        (lambda: sp.UCB1(2, costs=[1, 2, 3]), "costs must have shape"),
        (lambda: sp.UCB1(2, costs=[1, -2]), "cost of asking"),
        (lambda: sp.UCB1(2, costs=[1, np.nan]), "cost of asking"),
        (lambda: sp.UCB1(2, costs="cheap"), "costs must be numbers"),
        (lambda: sp.MOSS(2, alpha=-1), "alpha must be"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(sp.InvalidInput, match=message):
        make()
