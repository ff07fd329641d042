"""The agent: decide, observe, grant; late and missing answers; everything wrong that a caller can do."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest

import sparingly as sp
from sparingly.protocol import Decision
from sparingly.testing import Scripted


def fingerprint(agent: sp.Agent) -> tuple:
    return agent._family.words.tobytes(), tuple(agent._awaited.items()), agent._scheduled


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


@pytest.mark.parametrize("reward", [-0.1, 1.1, math.nan, math.inf, "0.5", None, 2, 1 + 1e-9, np.array([0.5])])
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
        sp.Agent(learner, rule, budget=1)


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


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
@pytest.mark.parametrize("learner", [sp.UCB1(2), Scripted(2)], ids=["ours", "own"])
def test_a_copy_is_an_agent_of_its_own(copied, learner):
    agent = sp.Agent(learner, rule=sp.ExactMatching(), budget=4, seed=0)
    twin = copied(agent)
    twin.grant(2)
    asks = 0
    for _ in range(30):
        d = twin.decide()
        asks += d.ask
        if d.ask:
            twin.observe(d.id, 0.5)
    assert asks == twin.asked.sum() == twin.ledger.spent <= twin.ledger.granted
    if copied is not copy.copy:
        assert agent.ledger.granted == 4
        assert agent.decisions == 0


class Shy(sp.ExactMatching):
    """A rule of one's own, made from one of ours."""

    def asks(self, question):
        return question.asked == 0 and super().asks(question)


class Second(sp.UCB1):
    """A learner of one's own, made from one of ours."""

    def start(self):
        return {}

    def choose(self, state, context, round, random):
        return 1

    def learn(self, state, context, action, reward):
        pass


def test_overridden_methods_are_used():
    agent = sp.Agent(sp.UCB1(1), rule=Shy(), budget=10, seed=0)
    assert [agent.decide().ask for _ in range(4)] == [True, False, False, False]
    assert sp.Agent(Second(2), budget=10, seed=0).decide().action == 1
    r = sp.simulate(sp.problems.Arms([0.5, 0.6]), Second(2), Shy(), 10, rounds=20, runs=1)
    assert r.plays.ravel().tolist() == [0, 20]
    assert r.asked[0, -1] == 1


class Fails(Scripted):
    """Breaks down in its third round."""

    def choose(self, state, context, round, random):
        random.random()
        if round == 3:
            raise RuntimeError("out of order")
        return 0


def test_a_failing_learner_changes_nothing():
    agent = sp.Agent(Fails(2), rule=sp.Greedy(), budget=5, seed=0)
    for _ in range(2):
        agent.observe(agent.decide().id, 0.5)
    before = fingerprint(agent), agent._family.python.random.bit_generator.state
    with pytest.raises(RuntimeError, match="out of order"):
        agent.decide()
    assert (fingerprint(agent), agent._family.python.random.bit_generator.state) == before


def test_names_of_ones_own_do_not_clash():
    @dataclasses.dataclass(frozen=True)
    class Odd(Scripted):
        parameters: object = None
        ties: str = "lowest"

    @dataclasses.dataclass(frozen=True)
    class Named:
        policies: object = ("a",)

        def asks(self, question):
            return True

    assert sp.Agent(Odd(2), rule=Named(), budget=3, seed=0).decide().ask


def test_a_schedule_that_shrinks_is_an_error():
    class Falling(sp.budgets.Schedule):
        def __call__(self, round):
            return max(0, 20 - round)

    agent = sp.Agent(sp.UCB1(2), budget=Falling(), seed=0)
    agent.decide()
    with pytest.raises(sp.InvalidInput, match="only grows"):
        agent.decide()
    with pytest.raises(sp.InvalidInput, match="only grows"):
        sp.simulate(sp.problems.Arms([0.5, 0.6]), sp.UCB1(2), sp.Always(), Falling(), rounds=30, runs=1)


def test_grants_beside_a_schedule_are_kept():
    agent = sp.Agent(sp.UCB1(2), budget=sp.budgets.Linear(1), seed=0)
    agent.ledger.grant(100)
    agent.grant(10)
    for _ in range(50):
        agent.decide()
    assert agent.ledger.granted == 160


@pytest.mark.parametrize("rule", [sp.Always(), sp.ExactMatching(), sp.PaperMatching()], ids=repr)
def test_no_limit_means_no_limit(rule):
    agent = sp.Agent(sp.UCB1(1, costs=[1e9]), rule=rule, budget=math.inf, seed=0)
    assert all(agent.decide().ask for _ in range(12_000))
    r = sp.simulate(sp.problems.Arms([0.5], costs=[1e9]), sp.UCB1(1), rule, math.inf, rounds=10**6, runs=1)
    assert r.asked[0, -1] == 10**6


@pytest.mark.parametrize("seed", [-1, 1.5, "x"])
def test_bad_seeds(seed):
    with pytest.raises(sp.InvalidInput, match="seed"):
        sp.Agent(sp.UCB1(2), budget=1, seed=seed)
    with pytest.raises(sp.InvalidInput, match="seed"):
        sp.simulate(sp.problems.Arms([0.5]), sp.UCB1(1), sp.Never(), 1, seed=seed)


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
    assert agent._family.memory.clock[0] == 3
    assert agent.decisions == 10
