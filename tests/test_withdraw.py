"""Asks that are taken back unseen, and decisions lived through from a record: the budget and the counts stay exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparingly as sp
from sparingly.errors import InvalidInput, NotAwaited
from sparingly.linear import round as linear
from sparingly.saving import dumps, loads

CONTEXTS = [[[0.6, 0.8], [1.0, 0.0], [0.0, 0.5]], [[0.1, -0.9], [0.3, 0.3], [0.0, 1.0]]]
MAKERS = {
    "UCB1": lambda: sp.UCB1(3, contexts=2, costs=[1.0, 2.0, 0.5]),
    "MOSS": lambda: sp.MOSS(3, contexts=2),
    "OFUL": lambda: sp.OFUL(2),
    "OFUL with costs": lambda: sp.OFUL(2, costs=[1.0, 2.0, 0.5]),
}
SAFE = [sp.ExactMatching(), sp.Greedy()]


def context_of(learner, u):
    return CONTEXTS[u] if isinstance(learner, sp.OFUL) else u


def cost_of(learner, action):
    return 1.0 if learner.costs is None else np.ravel(learner.costs)[action]


@pytest.mark.parametrize("rule", SAFE, ids=str)
@pytest.mark.parametrize("name", MAKERS)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["decide", "withdraw", "observe", "grant"]), st.integers(0, 1), st.integers(0, 50)),
        max_size=60,
    )
)
def test_the_ledger_is_the_sum_of_the_asks_that_were_not_taken_back(name, rule, steps):
    learner = MAKERS[name]()
    agent = sp.Agent(learner, rule, budget=20, seed=1)
    costs, waiting = {}, []
    for kind, u, pick in steps:
        if kind == "decide":
            d = agent.decide(context_of(learner, u))
            if d.ask:
                costs[d.id] = cost_of(learner, d.action)
                waiting.append(d.id)
        elif kind == "grant":
            agent.grant(pick / 10)
        elif waiting:
            chosen = waiting.pop(pick % len(waiting))
            if kind == "withdraw":
                agent.withdraw(chosen)
                del costs[chosen]
            else:
                agent.observe(chosen, 0.5)
        assert agent.ledger.spent == pytest.approx(sum(costs.values()), abs=1e-9)
        assert agent.ledger.spent <= agent.ledger.granted
    assert agent.ledger.refused == 0
    assert dumps(loads(dumps(agent))) == dumps(agent)


@pytest.mark.parametrize("name", ["UCB1", "MOSS"])
def test_taking_back_undoes_an_ask_about_an_arm(name):
    one = sp.Agent(MAKERS[name](), budget=40, seed=0)
    d = one.decide(1)
    one.withdraw(d.id)
    assert one.asked.sum() == 0
    assert one.ledger.spent == 0.0
    assert one.awaited == ()
    with pytest.raises(NotAwaited):
        one.observe(d.id, 0.5)
    with pytest.raises(NotAwaited):
        one.withdraw(d.id)


def test_taking_back_undoes_an_ask_about_features():
    """V, its inverse and its determinant are those of the asks that are left, to the last digits."""
    random = np.random.default_rng(0)
    agent = sp.Agent(sp.OFUL(4, length=2.0), sp.Always(), budget=1_000, seed=0)
    left = []
    for _ in range(200):
        features = random.normal(size=(3, 4))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        d = agent.decide(features)
        if random.random() < 0.5:
            agent.withdraw(d.id)
        else:
            left.append(features[d.action])
    V = np.eye(4) + np.array(left).T @ np.array(left)
    before = dumps(agent)
    agent.predict(np.eye(4))
    assert dumps(agent) == before  # looking changes nothing
    linear.freshen_now(agent._family.words)  # as the next decision would
    asked = agent._family.memory.asked
    np.testing.assert_allclose(asked.inverse, np.linalg.inv(V), rtol=0, atol=1e-12)
    assert asked.sizes["log_det"][0] == pytest.approx(np.linalg.slogdet(V)[1], abs=1e-11)
    assert agent.ledger.spent == len(left)


@pytest.mark.parametrize("rule", [*SAFE, sp.PaperMatching(), sp.Always()], ids=str)
@pytest.mark.parametrize("name", ["UCB1", "MOSS", "OFUL"])
def test_replaying_the_record_gives_the_same_agent(name, rule):
    learner = MAKERS[name]()
    one, other = (sp.Agent(learner, rule, budget=60, seed=3) for _ in range(2))
    for t in range(300):
        context = context_of(learner, t % 2)
        d = one.decide(context)
        assert other.replay(context, d.action, d.ask) == d
        if d.ask and t % 3:
            for agent in (one, other):
                agent.observe(d.id, (t % 5) / 4)
    assert dumps(one) == dumps(other)


@pytest.mark.parametrize("name", MAKERS)
def test_what_was_recorded_counts_where_this_machine_would_have_decided_otherwise(name):
    learner = MAKERS[name]()
    agent = sp.Agent(learner, budget=60, seed=0)
    context = context_of(learner, 0)
    first = sp.Agent(learner, budget=60, seed=0).decide(context)
    assert first.ask
    other = (first.action + 1) % 3
    d = agent.replay(context, other, True)
    assert (d.action, d.ask) == (other, True)
    assert agent.ledger.spent == cost_of(learner, other)
    assert agent.awaited == (d.id,)
    agent.observe(d.id, 0.5)
    d = agent.replay(context, 0, False)
    assert agent.ledger.spent == cost_of(learner, other)
    assert agent.awaited == ()


def test_the_threshold_is_what_the_next_decision_is_held_against():
    for name in ("UCB1", "OFUL"):
        learner = MAKERS[name]()
        agent = sp.Agent(learner, rule=sp.ExactMatching(), budget=50, seed=0)
        for t in range(120):
            before = agent.threshold
            d = agent.decide(context_of(learner, t % 2))
            if d.ask:
                assert d.width >= before * (1 - 1e-9)
                agent.observe(d.id, 0.5)
            elif not np.isinf(d.threshold):
                assert d.threshold == pytest.approx(before)


def test_predictions_are_the_ridge_estimate_with_its_interval():
    agent = sp.Agent(sp.OFUL(2), sp.Always(), budget=100, seed=0)
    rows, rewards = [], []
    for t in range(30):
        d = agent.decide(CONTEXTS[t % 2])
        rows.append(CONTEXTS[t % 2][d.action])
        rewards.append((t % 4) / 3)
        agent.observe(d.id, rewards[-1])
    X = np.array(rows)
    inverse = np.linalg.inv(np.eye(2) + X.T @ X)
    values, halves, widths = agent.predict(CONTEXTS[0])
    F = np.array(CONTEXTS[0])
    np.testing.assert_allclose(values, F @ inverse @ X.T @ np.array(rewards), atol=1e-12)
    norms = np.sqrt(np.einsum("ij,jk,ik->i", F, inverse, F))
    np.testing.assert_allclose(halves, agent.radius * norms, atol=1e-12)
    np.testing.assert_allclose(widths, 2 * agent.radius * norms, atol=1e-12)
    with pytest.raises(InvalidInput, match="OFUL"):
        sp.Agent(sp.UCB1(2), budget=1).predict(F)


def test_episodes_cannot_be_taken_back():
    agent = sp.Agent(sp.UCBVI(2, 2, 2), sp.Always(), budget=10, seed=0)
    policy = agent.plan()
    agent.decide_episode([0, 0], policy[range(2), [0, 0]])
    with pytest.raises(InvalidInput, match="episode"):
        agent.withdraw((1, 0))
    with pytest.raises(InvalidInput, match="episode"):
        _ = agent.threshold
    assert agent.ledger.spent == 2


def bar_of(agent):
    """ε of exact matching at the next decision."""
    return agent.threshold / (2 * agent.radius)


def potential_bar(dim, asks, left):
    """log(1 + ε²) ≤ d·log(1 + b/d)/(k + 1): what no withdrawals can lift the bar above, λ = L = 1."""
    return dim * np.log1p(asks / dim) / left


@pytest.mark.parametrize("seed", range(12))
def test_withdrawals_keep_the_budget_and_lift_the_bar_by_little(seed):
    """Against an attacker who asks in all directions, then takes back what it learnt most from, again and again.

    After each withdrawal log(1 + ε²) has risen by at most log(1 + w²)/(k + 2), and is at most b/(k + 1) times what it
    can be without any. The bar does rise, so both say something; and an ask is never refused.
    """
    random, dim, budget = np.random.default_rng(seed), 3, 30 + seed
    agent = sp.Agent(sp.OFUL(dim, radius="simple"), sp.ExactMatching(explore="always"), budget=budget, seed=0)
    V, pending, rose, b = np.eye(dim), {}, 0, budget + 1
    for t in range(400):
        if t % 40 < 20 or len(pending) < 2:
            x = np.eye(dim)[[t % dim]] if random.random() < 0.5 else random.normal(size=(1, dim))
            x /= np.linalg.norm(x) * (1.0 if seed % 2 else random.uniform(1, 2))
            d = agent.decide(x)
            if d.ask:
                pending[d.id] = x[0]
                V += np.outer(x[0], x[0])
        else:
            before, k = bar_of(agent), budget - len(pending)
            chosen = max(pending, key=lambda i: pending[i] @ np.linalg.solve(V, pending[i])) if t % 3 else min(pending)
            agent.withdraw(chosen)
            x = pending.pop(chosen)
            V -= np.outer(x, x)
            w2 = float(x @ np.linalg.solve(V, x))
            after = bar_of(agent)
            rose += after > before * (1 + 1e-9)
            assert np.log1p(after**2) <= (np.log1p(before**2) + np.log1p(w2) / (k + 2)) * (1 + 1e-6)
        left = budget - len(pending)
        assert np.log1p(bar_of(agent) ** 2) <= potential_bar(dim, b, left + 1) * (1 + 1e-6)
        assert agent.ledger.spent == len(pending) <= budget
    assert agent.ledger.refused == 0
    assert rose > 20


@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 99)), max_size=80),
    grants=st.floats(0, 3),
)
def test_withdrawals_never_overspend_with_costs(steps, grants):
    """Whatever is taken back: no ask is refused, which would mean that the rule had wanted one beyond the budget."""
    agent = sp.Agent(sp.OFUL(2, costs=[1.0, 2.5, 0.5]), sp.ExactMatching(), budget=15, seed=1)
    pending = []
    for ask, u, pick in steps:
        if ask or not pending:
            d = agent.decide(CONTEXTS[u % 2])
            pending += [d.id] if d.ask else []
        else:
            agent.withdraw(pending.pop(pick % len(pending)))
        agent.grant(grants / 10)
        assert agent.ledger.spent <= agent.ledger.granted
    assert agent.ledger.refused == 0
