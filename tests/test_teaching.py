"""Answers that cost nothing: what is taught counts as an answer everywhere but in the ledger."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparingly as sp
from sparingly.saving import dumps, loads
from tests.conftest import LEARNERS, RULES, same


def by_label(agent: sp.Agent, right: list[int]) -> tuple[int, int]:
    """Decide in contexts 0, 1, …, answer with the right action; rewards earned, and asks."""
    won = asks = 0
    for u, label in enumerate(right):
        d = agent.decide(u % 2)
        won += d.index == label
        if d.ask:
            asks += 1
            agent.observe(d, label=label)
    return won, asks


def test_a_label_teaches_all_actions_for_the_price_of_one_ask():
    agent = sp.Agent(sp.UCB1(4, contexts=2, ties="first"), sp.Always(), budget=10, seed=0)
    d = agent.decide(1)
    agent.observe(d, label=2)
    assert agent.ledger.spent == 1
    np.testing.assert_array_equal(agent.means[1], [0, 0, 1, 0])
    np.testing.assert_array_equal(agent.answered[1] + agent.taught[1], [1, 1, 1, 1])
    assert agent.asked.sum() == agent.answered.sum() == 1 and agent.taught.sum() == 3
    assert np.isnan(agent.means[0]).all()
    with pytest.raises(sp.NotAwaited):
        agent.observe(d, label=2)


def test_labels_save_asks():
    """Eight actions, two contexts, 6 asks: labels find both right actions with every seed, single rewards do not."""
    right, plain_won = [3 if i % 2 else 6 for i in range(400)], []
    for seed in range(8):
        agent, plain = (sp.Agent(sp.UCB1(8, contexts=2, scale=0.3), budget=6, seed=seed) for _ in range(2))
        assert by_label(agent, right)[0] > 380
        won = 0
        for u, label in enumerate(right):
            d = plain.decide(u % 2)
            won += d.index == label
            if d.ask:
                plain.observe(d, reward=d.index == label)
        plain_won.append(won)
    assert np.mean(plain_won) < 300


def test_rewards_of_all_or_of_some():
    agent = sp.Agent(sp.UCB1(3), sp.Always(), budget=10, actions=["tiny", "small", "large"], rewards=(1, 5), seed=0)
    agent.observe(agent.decide(), rewards=[1, 3, 5])
    np.testing.assert_allclose(agent.means, [[1, 3, 5]])
    d = agent.decide()
    agent.observe(d, rewards={d.action: 2, "small": 4} if d.action != "small" else {"small": 4})
    assert agent.taught.sum() + agent.answered.sum() >= 4
    d = agent.decide()
    before = dumps(agent)
    for given_, said in (
        ({"rewards": [1, 2]}, "one for each of the 3"),
        ({"rewards": {"huge": 2}}, "huge"),
        ({"rewards": [None, None, None]}, "must have that of the action"),
        ({"rewards": "123"}, "one for each"),
        ({"label": 7}, "7"),
        ({"label": "tiny", "reward": 2}, "one of reward, label and rewards"),
        ({"rewards": [1, 2, 9]}, "9"),
        ({}, "None"),
    ):
        with pytest.raises(sp.InvalidInput, match=said):
            agent.observe(d, **given_)
        assert dumps(agent) == before
    agent.observe(d, label="large")


@pytest.mark.parametrize("rule", RULES["tabular"], ids=repr)
@given(data=st.data())
def test_what_is_taught_never_costs_and_rules_never_overspend(rule, data):
    """Asks, lessons and labels in any order and with any costs: spend ≤ budget, and no safe rule is refused."""
    costs = data.draw(st.sampled_from([None, [0.5, 1.0, 3.0], [0.0, 1.0, 2.0]]))
    agent = sp.Agent(sp.UCB1(3, contexts=2, costs=costs), rule, budget=data.draw(st.integers(0, 30)), seed=0)
    safe = isinstance(rule, sp.ExactMatching | sp.BalancedMatching | sp.PaperMatching)
    for what, u, a in data.draw(st.lists(st.tuples(st.sampled_from("dtlg"), st.integers(0, 1), st.integers(0, 2)))):
        if what == "t":
            spent = agent.ledger.spent
            agent.teach(a, 0.5, context=u)
            assert agent.ledger.spent == spent
        elif what == "g":
            agent.grant(a)
        else:
            for _ in range(5):
                d = agent.decide(u)
                if d.ask and what == "l":
                    agent.observe(d, label=a)
        assert agent.ledger.spent <= agent.ledger.granted
        assert not safe or agent.ledger.refused == 0
    assert (agent.answered <= agent.asked).all()


@pytest.mark.parametrize("learner", LEARNERS.values())
def test_what_was_taught_is_saved_and_weighs_as_an_answer(learner):
    """An agent that was taught ten answers decides like one that has asked for them, and goes on alike when loaded."""

    def made():
        return sp.Agent(learner(2, contexts=2, ties="first"), sp.Never(), budget=0, seed=4)

    taught, asked = made(), made()
    for i in range(10):
        taught.teach(i % 2, float(i % 3 == 0), context=0)
        asked._family.count_ask(0, i % 2)
        asked._family.learn((0, i % 2), float(i % 3 == 0))
    np.testing.assert_array_equal(taught.indices(0), asked.indices(0))
    np.testing.assert_array_equal(taught.means, asked.means)
    again = loads(dumps(taught))
    assert [again.decide(0) for _ in range(20)] == [taught.decide(0) for _ in range(20)]
    np.testing.assert_array_equal(again.taught, [[5, 5], [0, 0]])


def test_exact_matching_asks_less_about_what_it_was_taught():
    """(n + 1)·C ≤ B with n = asks and lessons: two of the five that the budget would pay for are known already."""
    agent = sp.Agent(sp.UCB1(1), sp.ExactMatching(), budget=5, seed=0)
    agent.fit([0, 0], [1.0, 0.0])
    assert sum(agent.decide().ask for _ in range(10)) == 3


def test_a_log_is_a_warm_start_all_or_nothing():
    log = pandas.DataFrame({"page": ["web", "mobile"] * 50, "shown": ["b", "a"] * 50, "liked": [1, 0] * 50})
    agent = sp.Agent(sp.UCB1(2, contexts=2), budget=0, actions=["a", "b"], contexts=["mobile", "web"], seed=0)
    agent.fit(log.shown, log.liked, log.page)
    np.testing.assert_array_equal(agent.taught, [[50, 0], [0, 50]])
    assert [agent.decide(u).action for u in ("web", "mobile")] == ["b", "b"]  # a: never, b: at least untried
    before = dumps(agent)
    for columns in ((["a", "z"], [1, 0], ["web", "web"]), (["a"], [1, 0]), (["a", "b"], [1, 2], ["web", "web"])):
        with pytest.raises(sp.InvalidInput):
            agent.fit(*columns)
    assert dumps(agent) == before


def test_features_are_taught_by_rows():
    rows, theta = np.random.default_rng(0).normal(size=(200, 5, 4)), np.array([0.5, -0.5, 0.5, -0.5])
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    agent = sp.Agent(sp.OFUL(4), sp.ExactMatching(), budget=0, seed=0)
    actions = [i % 5 for i in range(200)]
    agent.fit(actions, [float(x[a] @ theta) for x, a in zip(rows, actions, strict=True)], rows)
    assert np.abs(agent.theta - theta).max() < 0.05
    again = loads(dumps(agent))
    np.testing.assert_array_equal(again.theta, agent.theta)
    V = np.eye(4) + sum(np.outer(x[a], x[a]) for x, a in zip(rows, actions, strict=True))
    wide = agent.predict(rows[0])[2] / (2 * agent.radius)
    np.testing.assert_allclose(wide, np.sqrt(np.einsum("ai,ij,aj->a", rows[0], np.linalg.inv(V), rows[0])), rtol=1e-9)
    with pytest.raises(sp.InvalidInput, match="number of a row"):
        agent.teach(5, 1.0, rows[0])
    agent.grant(10)
    with pytest.raises(sp.InvalidInput, match=r"agent\.teach"):
        agent.observe(next(d for d in map(agent.decide, rows) if d.ask), label=1)


def test_not_for_episodes():
    with pytest.raises(sp.InvalidInput, match="whole episodes"):
        sp.Agent(sp.UCBVI(2, 2, 2), budget=1).teach(0, 1.0, 0)


def test_a_log_whose_choices_depended_on_more_is_weighted_by_its_propensities():
    """Half of the users are regulars, who like everything and mostly saw a: without propensities a looks better."""
    random, n = np.random.default_rng(0), 4_000
    regular = random.random(n) < 0.5
    chance = np.where(regular, 0.9, 0.1)  # of a
    shown = np.where(random.random(n) < chance, "a", "b")
    liked = (random.random(n) < np.where(regular, 0.8, 0.1) + np.where(shown == "b", 0.1, 0.0)).astype(float)
    propensities = np.where(shown == "a", chance, 1 - chance)
    naive, weighted = (sp.Agent(sp.UCB1(2), budget=0, actions=["a", "b"], seed=0) for _ in range(2))
    naive.fit(shown, liked)
    weighted.fit(shown, liked, propensities=propensities)
    assert naive.means[0, 0] > 0.65 and naive.means[0, 1] < 0.35
    # The truth is 0.45 and 0.55. A mean of the weighted rows is off by at most 0.11 but for a probability of 1e-7.
    np.testing.assert_allclose(weighted.means[0], [0.45, 0.55], atol=0.11)
    for a, name in enumerate("ab"):
        w, r = 1 / propensities[shown == name], liked[shown == name]
        assert weighted.means[0, a] == pytest.approx((w * r).sum() / w.sum(), rel=1e-9)
        assert weighted.taught[0, a] == int(w.sum() ** 2 / (w**2).sum() * (1 + 1e-12)) < naive.taught[0, a]
    assert weighted.ledger.spent == 0
    before = dumps(weighted)
    for bad in ([0.5], [0.0, 1.0], [0.5, 1.5], ["x", 0.5]):
        with pytest.raises(sp.InvalidInput, match="propensit"):
            weighted.fit(["a", "b"], [1.0, 0.0], propensities=bad)
    with pytest.raises(sp.InvalidInput, match="for arms"):
        sp.Agent(sp.OFUL(2), budget=0).fit([0], [1.0], [np.eye(2)], propensities=[0.5])
    assert dumps(weighted) == before


@pytest.mark.parametrize("explore", ["always", "asked"])
@pytest.mark.parametrize("learner", LEARNERS.values())
def test_a_prior_counts_as_answers_to_the_learner_but_not_to_rules(learner, explore):
    """Five answers of 0.4 in each cell, taught or as a prior: the same indices, but the asks of the rule."""
    given_ = learner(2, contexts=2, prior=0.4, prior_weight=5.0)
    taught = sp.Agent(learner(2, contexts=2), sp.ExactMatching(explore=explore), budget=20, seed=0)
    prior = sp.Agent(given_, sp.ExactMatching(explore=explore), budget=20, seed=0)
    for _ in range(5):
        for u in range(2):
            for a in range(2):
                taught.teach(a, 0.4, context=u)
    for agent in (prior, taught):
        for answer in (1.0, 0.0, 1.0):
            agent._family.count_ask(0, 1)
            agent._family.learn((0, 1), answer)
    np.testing.assert_allclose(prior.indices(0), taught.indices(0), rtol=1e-12)
    np.testing.assert_allclose(prior.indices(1), taught.indices(1), rtol=1e-12)
    assert prior.taught.sum() == 0 and np.isnan(prior.means[1]).all()
    assert prior.decide(1).ask and not taught.decide(1).ask  # 5 asks for each of 4 cells; five lessons are enough
    assert loads(dumps(prior)).learner == given_
    options = {"rounds": 300, "runs": 1, "seed": 3, "checkpoints": range(1, 301)}
    problem, budget = sp.problems.ContextualArms([[0.3, 0.5], [0.9, 0.1]]), sp.budgets.Linear(0.3)
    runs = [sp.simulate(problem, given_, sp.BalancedMatching(), budget, path=p, **options) for p in ("fast", "agent")]
    same(*runs)


def test_a_prior_is_checked():
    for wrong in ({"prior": 1.5}, {"prior": "x"}, {"prior_weight": -1.0}, {"prior_weight": np.inf}):
        with pytest.raises(sp.InvalidInput, match="prior"):
            sp.KLUCB(2, **wrong)
