"""The agent: decide, observe, grant; late and missing answers; everything wrong that a caller can do."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sparingly as sp
from sparingly.protocol import Decision


def fingerprint(agent: sp.Agent) -> tuple:
    return agent._mind.words.tobytes(), tuple(agent._awaited.items()), agent._granted_on_top


def test_the_design_example(tmp_path):
    agent = sp.Agent(sp.UCB1(arms=5), rule=sp.ExactMatching(), budget=100, seed=0)
    d = agent.decide()
    assert isinstance(d, Decision)
    assert (d.id, d.action, d.ask) == (1, 0, True)
    assert d.width >= d.threshold > 0
    agent.observe(d.id, reward=0.7)
    agent.grant(50)
    assert agent.ledger.granted == 150
    agent.save(tmp_path / "a.json")
    assert sp.Agent.load(tmp_path / "a.json").ledger.granted == 150


def test_answers_late_and_out_of_order_count_when_they_come(agent):
    asked = [agent.decide() for _ in range(6)]
    assert all(d.ask for d in asked)
    assert agent.asked.sum() == 6
    assert agent.answered.sum() == 0
    assert agent.ledger.spent == 6  # charged when asked, whether or not anyone answers
    for d in (asked[4], asked[0], asked[5]):
        agent.observe(d.id, 1.0)
    assert agent.answered.sum() == 3
    assert agent.awaited == (2, 3, 4)
    assert agent.means[0, asked[0].action] == 1.0


@pytest.mark.parametrize("reward", [-0.1, 1.1, math.nan, math.inf, "0.5", None, True, 1 + 1e-9, np.array([0.5])])
def test_bad_rewards_change_nothing(agent, reward):
    d = agent.decide()
    before = fingerprint(agent)
    with pytest.raises(sp.InvalidInput, match=r"\[0, 1\]"):
        agent.observe(d.id, reward)
    assert fingerprint(agent) == before
    agent.observe(d.id, 0.5)


@pytest.mark.parametrize("id", [0, 2, -1, 99, "1", None, 1.0, True, [1]])
def test_unknown_ids_change_nothing(agent, id):
    agent.decide()
    before = fingerprint(agent)
    with pytest.raises(sp.UnknownDecision, match="no decision has the id"):
        agent.observe(id, 0.5)
    assert fingerprint(agent) == before


def test_a_second_answer_is_refused(agent):
    d = agent.decide()
    agent.observe(d.id, 0.5)
    before = fingerprint(agent)
    with pytest.raises(sp.NotAwaited, match="answered already"):
        agent.observe(d.id, 0.5)
    assert fingerprint(agent) == before


def test_an_answer_that_was_not_asked_for_is_refused():
    agent = sp.Agent(sp.UCB1(arms=2), budget=0, seed=0)
    d = agent.decide()
    assert not d.ask
    with pytest.raises(sp.NotAwaited, match="never asked"):
        agent.observe(d.id, 0.5)


@pytest.mark.parametrize("amount", [-1, math.nan, "5", None])
def test_a_budget_cannot_shrink(agent, amount):
    before = fingerprint(agent)
    with pytest.raises(sp.InvalidInput, match="≥ 0"):
        agent.grant(amount)
    assert fingerprint(agent) == before


@pytest.mark.parametrize("context", [None, -1, 2, 0.0, "0", True, [0]])
def test_bad_contexts_change_nothing(context):
    agent = sp.Agent(sp.UCB1(arms=2, contexts=2), budget=9, seed=0)
    before = fingerprint(agent)
    with pytest.raises(sp.InvalidInput, match=r"0 … 1"):
        agent.decide(context=context)
    assert fingerprint(agent) == before


@pytest.mark.parametrize(
    ("learner", "rule"),
    [("UCB1", None), (sp.UCB1(2), "Always"), (sp.UCB1(2), sp.Always), (object(), sp.Always())],
)
def test_what_is_no_learner_or_no_rule(learner, rule):
    with pytest.raises(sp.InvalidInput, match="is not a"):
        sp.Agent(learner, rule)


def test_a_schedule_grows_with_the_decisions():
    agent = sp.Agent(sp.UCB1(arms=2), rule=sp.Always(), budget=sp.budgets.Linear(0.5), seed=0)
    assert [agent.decide().ask for _ in range(6)] == [False, True] * 3
    agent.grant(2)
    assert [agent.decide().ask for _ in range(4)] == [True, True, True, True]
    assert agent.ledger.granted == 0.5 * 10 + 2
    with pytest.raises(sp.InvalidInput, match="grant"):
        sp.Agent(sp.UCB1(arms=2), budget=sp.budgets.Bernoulli(0.5))
    before = agent.ledger.granted
    with pytest.raises(sp.InvalidInput, match="context"):
        agent.decide(context=5)
    assert agent.ledger.granted == before  # a refused call is no round


def test_costs_are_charged_per_cell():
    agent = sp.Agent(sp.UCB1(arms=2, costs=[0.25, 2]), rule=sp.Always(), budget=100, seed=0)
    for _ in range(8):
        d = agent.decide()
        agent.observe(d.id, float(d.action))
    assert agent.ledger.spent == agent.asked[0] @ [0.25, 2]


def test_same_seed_same_decisions():
    def run(seed):
        agent = sp.Agent(sp.UCB1(arms=4, ties="random"), rule=sp.Greedy(policies=2), budget=20, seed=seed)
        decisions = []
        for _ in range(100):
            decisions.append(agent.decide())
            if decisions[-1].ask:
                agent.observe(decisions[-1].id, 0.5)
        return decisions

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_the_learner_of_greedy_lives_through_asked_rounds_only():
    agent = sp.Agent(sp.UCB1(arms=2), rule=sp.Greedy(), budget=3, seed=0)
    for _ in range(10):
        d = agent.decide()
        if d.ask:
            agent.observe(d.id, 1.0)
    assert agent._mind.memory.clock[0] == 3
    assert agent.decisions == 10
