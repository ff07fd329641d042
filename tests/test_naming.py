"""Agents as people use them: names, scales of rewards, batches, budgets by the clock, threads, what they show."""

from __future__ import annotations

import copy
import math
import threading
import warnings

import numpy as np
import pytest

import sparingly as sp
from sparingly import budgets
from sparingly.naming import Names, Scale
from sparingly.saving import dumps, loads

SIZES, PLACES = ["small", "large"], ["mobile", "web", "shop"]


def named(**more):
    return sp.Agent(sp.UCB1(2, contexts=3), budget=30, seed=0, actions=SIZES, contexts=PLACES, rewards=(1, 5), **more)


def test_names_go_in_and_come_out():
    agent = named()
    d = agent.decide("web")
    assert d.action == SIZES[d.index] and agent.asked[1, d.index] == 1
    assert (agent.actions, agent.contexts, agent.rewards) == (SIZES, PLACES, (1.0, 5.0))
    assert agent.decide(2).action in SIZES and agent.asked[2].sum() == 1  # a number will do


def test_names_change_no_decision():
    """With and without names the same numbers: only what people see differs."""
    plain, agent = sp.Agent(sp.UCB1(2, contexts=3), budget=30, seed=0), named()
    for t in range(60):
        a, b = plain.decide(t % 3), agent.decide(PLACES[t % 3])
        assert (a.id, a.action, a.ask, a.width, a.why) == (b.id, b.index, b.ask, b.width, b.why)
        if a.ask:
            plain.observe(a.id, 0.25 * (t % 5))
            agent.observe(b, 1 + t % 5)
    assert np.array_equal(1 + 4 * plain.means, agent.means, equal_nan=True)


@pytest.mark.parametrize("context", ["Web", "", 3, -1, True, 1.0, None, ["web"]])
def test_an_unknown_context_is_refused(context):
    agent = named()
    with pytest.raises(sp.InvalidInput, match="context must be"):
        agent.decide(context)
    assert agent.decisions == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"actions": ["one"]}, "has 2 actions, but 1 names"),
        ({"actions": ["same", "same"]}, "different names"),
        ({"actions": "ab"}, "a list of names"),
        ({"actions": 3}, "a list of names"),
        ({"actions": [1.5, 2.5]}, "a text or a whole number"),
        ({"actions": ["", "b"]}, "a text or a whole number"),
        ({"actions": [True, False]}, "a text or a whole number"),
        ({"contexts": ["a", "b"]}, "has 1 contexts, but 2 names"),
        ({"rewards": (5, 1)}, "low < high"),
        ({"rewards": (1, math.inf)}, "finite"),
        ({"rewards": 5}, r"\(low, high\)"),
        ({"rewards": (0, 1, 2)}, r"\(low, high\)"),
    ],
)
def test_names_that_do_not_fit_are_refused(options, says):
    with pytest.raises(sp.InvalidInput, match=says):
        sp.Agent(sp.UCB1(2), budget=1, **options)


def test_numbers_as_names_are_names_only():
    names = Names([10, 20, 30], "action")
    assert (names.index(20), names.index(np.int64(30))) == (1, 2)
    with pytest.raises(sp.InvalidInput, match="must be 10 or 20 or 30, not 0"):
        names.index(0)


def test_features_with_named_actions():
    agent = sp.Agent(sp.OFUL(2), budget=5, seed=0, actions=["a", "b"])
    assert agent.decide(np.eye(2)).action in ("a", "b")
    assert sp.Agent(sp.OFUL(2), budget=5).decide(np.eye(2)[[0, 1, 1]]).index < 3  # without names, any number of rows
    with pytest.raises(sp.InvalidInput, match="3 rows, but there are 2 actions"):
        agent.decide(np.eye(2)[[0, 1, 1]])
    with pytest.raises(sp.InvalidInput, match="leave `contexts` out"):
        sp.Agent(sp.OFUL(2), budget=5, contexts=["x"])
    with pytest.raises(sp.InvalidInput, match="leave `actions` out"):
        sp.Agent(sp.UCBVI(2, 2, 2), budget=5, actions=["x", "y"])


def test_an_agent_needs_a_budget():
    with pytest.raises(sp.InvalidInput, match="budget=100"):
        sp.Agent(sp.UCB1(3))
    assert sp.Agent(sp.UCB1(3), budget=0).ledger.granted == 0
    assert not sp.Agent(sp.UCB1(3), sp.Never()).decide().ask


@pytest.mark.parametrize(
    ("reward", "value"),
    [(True, 1.0), (np.True_, 1.0), (False, 0.0), (np.float32(0.5), 0.5), (np.array(0.25), 0.25), (1, 1.0)],
)
def test_rewards_as_people_have_them_at_hand(reward, value):
    agent = sp.Agent(sp.UCB1(2), budget=1, seed=0)
    d = agent.decide()
    agent.observe(d, reward)
    assert agent.means[0, d.action] == value


@pytest.mark.parametrize("reward", [0.99, 5.01, math.nan, None, "4", [4], np.array([4.0])])
def test_a_reward_off_the_scale_is_refused(reward):
    agent = named()
    d = agent.decide("web")
    with pytest.raises(sp.InvalidInput, match="a reward must be a finite number ≥ 1 and ≤ 5"):
        agent.observe(d, reward)
    assert agent.awaited == (d.id,)


def test_the_ends_of_a_scale_are_zero_and_one_exactly():
    for low, high in ((0.1, 0.7), (-3.0, 1e9), (1.0, 5.0)):
        scale = Scale(low, high)
        assert (scale.to_unit(low), scale.to_unit(high)) == (0.0, 1.0)


def test_a_batch_is_the_same_as_one_by_one():
    one, many = named(), named()
    contexts = [PLACES[t % 3] for t in range(12)]
    assert many.decide_batch(contexts) == [one.decide(context) for context in contexts]
    asked = list(one.awaited)
    rewards = [1 + i % 5 for i in range(len(asked))]
    for number, reward in zip(asked, rewards, strict=True):
        one.observe(number, reward)
    many.observe_batch(asked, rewards)
    assert dumps(one) == dumps(many)
    assert len(sp.Agent(sp.UCB1(2), budget=3).decide_batch(5)) == 5


def test_a_batch_is_taken_whole_or_not_at_all():
    agent = named()
    with pytest.raises(sp.InvalidInput, match="context must be"):
        agent.decide_batch(["web", "nowhere"])
    assert agent.decisions == 0
    first, second = agent.decide_batch(["web", "web"])
    before = dumps(agent)
    for ids, rewards in (
        ([first, second], [3, 9]), ([first, first], [3, 3]), ([first, 77], [3, 3]), ([first, second], [3]), (1, 3),
    ):  # fmt: skip
        with pytest.raises(sp.InvalidInput):
            agent.observe_batch(ids, rewards)
        assert dumps(agent) == before
    with pytest.raises(sp.InvalidInput, match="list of contexts"):
        agent.decide_batch("web")


def test_names_are_saved_copied_and_replayed():
    agent = named()
    d = agent.decide("web")
    for again in (loads(dumps(agent)), copy.deepcopy(agent)):
        assert (again.actions, again.contexts, again.rewards) == (SIZES, PLACES, (1.0, 5.0))
        again.observe(d, 5)
        assert again.means[1, d.index] == 5.0
    assert named().replay("web", d.index, d.ask) == d
    other = named().replay("web", 1 - d.index, True)
    assert (other.action, other.index) == (SIZES[1 - d.index], 1 - d.index)


def test_a_budget_by_the_clock(monkeypatch):
    """50 a day: it grows while time goes on, never shrinks, and goes on after a save."""
    now = 1_000_000.0
    monkeypatch.setattr(budgets.time, "time", lambda: now)
    agent = sp.Agent(sp.UCB1(2), sp.Always(), budget=sp.budgets.ByClock(50), seed=0)
    assert not agent.decide().ask
    now += 86_400 / 50
    assert agent.decide().ask and not agent.decide().ask
    now -= 5_000  # the clock is set back
    assert not agent.decide().ask and agent.ledger.granted == 1
    agent = loads(dumps(agent))
    agent.grant(2)
    now += 5_000 + 86_400 / 50
    assert [agent.decide().ask for _ in range(4)] == [True] * 3 + [False]
    assert agent.ledger.granted == 4
    with pytest.raises(sp.InvalidInput, match="a simulation has no clock"):
        sp.simulate(sp.problems.Arms([0.5]), sp.UCB1(1), sp.Always(), sp.budgets.ByClock(1), rounds=5, runs=1)
    for wrong in ({"amount": -1}, {"amount": 1, "every": 0}, {"amount": math.nan}, {"amount": 1, "start": math.inf}):
        with pytest.raises(sp.InvalidInput):
            sp.budgets.ByClock(**wrong)


def test_threads_share_an_agent():
    """8 threads × 20,000 decisions: every id once, every ask paid for, every answer counted."""
    agent = sp.Agent(sp.UCB1(3), budget=50_000, seed=0)
    ids: list[list[int]] = [[] for _ in range(8)]

    def work(mine: list[int]) -> None:
        for _ in range(20_000):
            d = agent.decide()
            mine.append(d.id)
            if d.ask:
                agent.observe(d, True)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for mine in ids for number in mine) == list(range(1, 160_001))
    assert agent.ledger.spent == agent.asked.sum() == agent.answered.sum() <= 50_000
    assert agent.ledger.refused == 0 and agent.awaited == ()


def test_a_decision_is_explained():
    agent = named()
    d = agent.decide("web")
    text = agent.explain(d)
    assert f"Decision 1: '{d.action}'." in text and d.reason in text
    assert "Budget: 1 of 30 spent, 29 left." in text


def test_what_a_notebook_shows():
    agent = sp.Agent(sp.UCB1(2), budget=30, seed=0, actions=["<b>", "large"])
    agent.observe(agent.decide(), 1)
    page = agent._repr_html_()
    assert "&lt;b&gt;" in page and "<b></td>" not in page and "unknown" in page and "1 of 30 spent" in page
    many = sp.Agent(sp.UCB1(10, contexts=10), budget=1)._repr_html_()
    assert "and 40 more" in many and "<th>context</th>" in many
    assert "UCBVI" in sp.Agent(sp.UCBVI(2, 2, 2), budget=1)._repr_html_()


def test_a_figure_of_what_is_known():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    agent = named()
    for context in PLACES * 4:
        d = agent.decide(context)
        if d.ask:
            agent.observe(d, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = agent.plot()
    assert [ax.get_title() for ax in axes] == PLACES
    assert [label.get_text() for label in axes[0].get_yticklabels()] == SIZES
    assert axes[0].get_xlim() == (1.0, 5.0)
    one = pyplot.subplots()[1]
    assert sp.Agent(sp.UCB1(2), budget=1).plot(one) is one
    pyplot.close("all")
    with pytest.raises(sp.InvalidInput, match="is for arms"):
        sp.Agent(sp.UCBVI(2, 2, 2), budget=1).plot()
