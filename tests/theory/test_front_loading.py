"""Front-loading: the same plays arm by arm as the original, with all asks in the first B rounds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparingly as sp
from sparingly.theory import FrontLoaded, play

RULES = [sp.ExactMatching(), sp.PaperMatching(), sp.Greedy(), sp.Always(), sp.Never(), sp.Matching(2.0)]
LEARNERS = [sp.UCB1(arms=3), sp.MOSS(arms=3), sp.UCB1(arms=3, scale=0.2, ties="random")]
PROBLEM = sp.problems.Arms([0.3, 0.6, 0.5])


def both(learner, rule, budget, rounds, seed, problem=PROBLEM):
    agent = sp.Agent(learner, rule=rule, budget=budget, seed=seed)
    moved = play(FrontLoaded(agent, rounds), problem, rounds, seed=seed)
    return play(agent, problem, rounds, seed=seed), moved


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("budget", [0, 1, 7.9, 48, 150])
def test_the_same_plays_with_all_asks_in_front(learner, rule, budget):
    for seed in range(3):
        original, moved = both(learner, rule, budget, 150, seed)
        np.testing.assert_array_equal(moved.plays, original.plays)
        assert moved.regret == original.regret
        assert original.asks.sum() <= int(budget)
        np.testing.assert_array_equal(moved.asks, np.arange(150) < int(budget))


def test_the_original_does_not_front_load_by_itself():
    """The tests above are about something: paper and exact matching ask late, or less than they may."""
    for rule in (sp.ExactMatching(), sp.PaperMatching()):
        original, moved = both(sp.UCB1(arms=3), rule, 96, 400, seed=0)
        assert (original.asks != moved.asks).any()


def test_greedy_is_front_loaded_already():
    original, moved = both(sp.UCB1(arms=3), sp.Greedy(), 30, 100, seed=4)
    np.testing.assert_array_equal(original.asks, moved.asks)
    agent = sp.Agent(sp.UCB1(arms=3), rule=sp.Greedy(), budget=30, seed=4)
    policy, random = FrontLoaded(agent, 100), np.random.default_rng(0)
    for _ in range(100):
        ours, theirs = policy.decide(), agent.decide()
        assert (ours.action, ours.ask) == (theirs.action, theirs.ask)
        if ours.ask:
            reward = float(random.random() < 0.5)
            policy.observe(ours.id, reward)
            agent.observe(theirs.id, reward)


@settings(max_examples=60)
@given(
    means=st.lists(st.floats(0, 1), min_size=1, max_size=5),
    budget=st.integers(0, 80),
    rounds=st.integers(1, 80),
    seed=st.integers(0, 2**32),
    rule=st.sampled_from(RULES),
    moss=st.booleans(),
)
def test_any_policy_can_be_front_loaded(means, budget, rounds, seed, rule, moss):
    learner = (sp.MOSS if moss else sp.UCB1)(arms=len(means), ties="random")
    original, moved = both(learner, rule, budget, rounds, seed, sp.problems.Arms(means))
    np.testing.assert_array_equal(moved.plays, original.plays)
    np.testing.assert_array_equal(moved.asks, np.arange(rounds) < budget)


class Forgetful(FrontLoaded):
    """A mutant: what the agent played without asking is lost when the next ask comes."""

    def _run_ahead(self):
        asked = super()._run_ahead()
        if asked is not None:
            self._later.clear()
        return asked


class Lazy(FrontLoaded):
    """A mutant: asks only where the agent does, so that fewer than B rounds are asked about."""

    def decide(self):
        decision = super().decide()
        if self._inner is None:
            self._awaited = None
            return decision._replace(ask=False)
        return decision


@pytest.mark.parametrize("mutant", [Forgetful, Lazy])
def test_mutants_are_caught(mutant):
    """Exact matching declines an arm between two asks about others, and does not spend all: most seeds tell."""
    caught = 0
    for seed in range(10):
        agent = sp.Agent(sp.UCB1(arms=3), rule=sp.ExactMatching(), budget=100, seed=seed)
        try:
            moved = play(mutant(agent, 300), PROBLEM, 300, seed=seed)
        except IndexError:  # nothing left to play
            caught += 1
            continue
        original = play(agent, PROBLEM, 300, seed=seed)
        caught += (moved.plays != original.plays).any() or (moved.asks != (np.arange(300) < 100)).any()
    assert caught >= 5


def test_linear_rewards_with_a_fixed_set_of_actions():
    """As in the proof of the linear lower bound: the k-th ask has the k-th noise, and the plays are the same."""
    features = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    theta, rounds = np.array([0.3, 0.7]), 200

    def run(policy, decide):
        noise, plays, asks = np.random.default_rng(3).normal(size=rounds), Counter(), []
        for _ in range(rounds):
            d = decide(policy)
            plays[d.action] += 1
            if d.ask:
                policy.observe(d.id, float(features[d.action] @ theta + 0.1 * noise[sum(asks)]))
            asks.append(d.ask)
        return plays, asks

    agent = sp.Agent(sp.OFUL(2), rule=sp.ExactMatching(), budget=40, seed=0)
    policy = FrontLoaded(agent, rounds, context=features)
    moved, front = run(policy, lambda p: p.decide())
    original, asks = run(agent, lambda p: p.decide(context=features))
    assert moved == original
    assert front == [True] * 40 + [False] * 160
    assert asks != front


def test_the_given_agent_stays_as_it_is():
    agent = sp.Agent(sp.UCB1(arms=3), budget=20, seed=0)
    play(FrontLoaded(agent, 50), PROBLEM, 50)
    assert agent.decisions == 0
    assert agent.ledger.spent == 0


def test_no_limit_means_to_ask_always():
    original, moved = both(sp.UCB1(arms=3), sp.ExactMatching(), np.inf, 40, seed=0)
    assert moved.asks.all()
    np.testing.assert_array_equal(original.plays, moved.plays)


def fresh(**options):
    return sp.Agent(sp.UCB1(arms=3), **({"budget": 5, "seed": 0} | options))


def used():
    agent = fresh()
    agent.decide()
    return agent


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (lambda: "agent", "needs an Agent"),
        (used, "fresh agent"),
        (lambda: sp.Agent(sp.UCB1(arms=3, contexts=2), budget=5), "without contexts"),
        (lambda: sp.Agent(sp.UCBVI(2, 2, 2), budget=5), "shows its states"),
        (lambda: fresh(budget=sp.budgets.Linear(0.5)), "fixed budget"),
        (lambda: fresh(costs=[1, 2, 1]), "unit costs"),
        (lambda: sp.Agent(sp.OFUL(2, costs=[1, 2]), budget=5), "unit costs"),
    ],
)
def test_what_the_proposition_does_not_cover_is_refused(agent, message):
    with pytest.raises(sp.InvalidInput, match=message):
        FrontLoaded(agent(), 10)


def test_a_fixed_schedule_is_a_fixed_budget():
    assert FrontLoaded(fresh(budget=sp.budgets.Fixed(4)), 10).asks == 4


def test_misuse_is_named_and_changes_nothing():
    policy = FrontLoaded(fresh(), 6)
    with pytest.raises(sp.NotAwaited):
        policy.observe(1, 0.5)
    d = policy.decide()
    with pytest.raises(sp.InvalidInput, match="awaits its answer"):
        policy.decide()
    with pytest.raises(sp.NotAwaited):
        policy.observe(2, 0.5)
    with pytest.raises(sp.InvalidInput, match="reward"):
        policy.observe(d.id, 1.5)
    policy.observe(d.id, 0.5)
    with pytest.raises(sp.NotAwaited):
        policy.observe(d.id, 0.5)
    for _ in range(5):
        d = policy.decide()
        if d.ask:
            policy.observe(d.id, 0.5)
    assert policy.decisions == 6
    with pytest.raises(sp.InvalidInput, match="all 6 rounds"):
        policy.decide()
    granted = FrontLoaded(fresh(), 6)
    granted.agent.grant(1)
    with pytest.raises(sp.InvalidInput, match="granted more"):
        granted.decide()
    with pytest.raises(sp.InvalidInput, match="features"):
        FrontLoaded(sp.Agent(sp.OFUL(2), budget=5), 10)
    with pytest.raises(sp.InvalidInput, match="rounds"):
        FrontLoaded(fresh(), 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: play("agent", PROBLEM, 10),
        lambda: play(sp.Agent(sp.OFUL(2), budget=5), PROBLEM, 10),
        lambda: play(fresh(), sp.problems.Arms([0.5, 0.5]), 10),
        lambda: play(fresh(), sp.problems.ContextualArms([[0.5, 0.5, 0.1]] * 2), 10),
        lambda: play(fresh(), PROBLEM, 0),
        lambda: play(FrontLoaded(fresh(), 5), PROBLEM, 10),
    ],
)
def test_play_refuses_what_does_not_fit(call):
    with pytest.raises(sp.InvalidInput):
        call()
