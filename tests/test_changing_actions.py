"""Adding and retiring actions and contexts: what callers see. `properties/test_changing_actions.py` has the budget."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import sparingly as sp
from sparingly.ledger import MOST_COST
from sparingly.saving import dumps, loads
from sparingly.testing import Scripted
from tests.conftest import LEARNERS, RULES
from tests.test_agent import fingerprint

WORTH = {"small": 0.2, "large": 0.5, "huge": 0.9}


def play(agent: sp.Agent, rounds: int, contexts=("mobile", "web"), worth=WORTH) -> dict:
    """Decide, answer what is asked about by its worth; how often each action was played."""
    played: dict = {}
    for i in range(rounds):
        d = agent.decide(contexts[i % len(contexts)] if contexts else None)
        played[d.action] = played.get(d.action, 0) + 1
        if d.ask:
            agent.observe(d, worth.get(d.action, 0.5))
    return played


def shop(rule=None, **options) -> sp.Agent:
    learner = sp.UCB1(2, contexts=2, scale=0.3)
    given = {"budget": 400, "actions": ["small", "large"], "contexts": ["mobile", "web"], "seed": 1} | options
    return sp.Agent(learner, rule, **given)


def test_a_better_action_that_was_added_is_found_and_what_was_learnt_is_kept():
    agent = shop()
    play(agent, 400)
    means, asked = agent.means, agent.asked
    assert agent.add_action("huge") == "huge"
    np.testing.assert_array_equal(agent.means[:, :2], means)
    np.testing.assert_array_equal(agent.asked[:, :2], asked)
    assert agent.actions == ["small", "large", "huge"]
    played = play(agent, 600)
    assert played["huge"] > 400
    assert agent.learner.arms == 3


@pytest.mark.parametrize("learner", LEARNERS.values())
@pytest.mark.parametrize("rule", RULES["tabular"], ids=repr)
@pytest.mark.parametrize("ties", ["first", "random"])
def test_a_retired_action_is_never_played_nor_asked_about(learner, rule, ties):
    agent = sp.Agent(learner(3, contexts=2, ties=ties), rule, budget=40, seed=2)
    for i in range(60):
        d = agent.decide(i % 2)
        if d.ask:
            agent.observe(d, [0.1, 0.9, 0.5][d.index])
    agent.retire_action(1)  # the best one
    agent.retire_action(0)  # the first one
    asked = agent.asked
    assert agent.add_action() == 3
    for i in range(200):
        agent.grant(0.5)
        d = agent.decide(i % 2)
        assert d.index in (2, 3)
        if d.ask and i % 3:
            agent.observe(d, 0.0)
    np.testing.assert_array_equal(agent.asked[:, :2], asked[:, :2])
    assert agent.retired_actions == [0, 1]
    assert np.isnan(agent.indices(0)[:2]).all()
    assert not np.isnan(agent.indices(0)[2:]).any()


def test_answers_about_a_retired_action_are_taken_in_when_they_come():
    agent = sp.Agent(sp.UCB1(3), budget=30, seed=0)
    late = [agent.decide() for _ in range(9)]
    gone = [d for d in late if d.index == 0]
    assert len(gone) > 1
    agent.retire_action(0)
    agent.withdraw(gone[0])
    for d in gone[1:]:
        agent.observe(d, 1.0)
    assert agent.answered[0, 0] == agent.asked[0, 0] == len(gone) - 1
    assert agent.means[0, 0] == 1.0
    assert agent.ledger.spent == 8
    assert {agent.decide().index for _ in range(50)} == {1, 2}


def test_a_retired_action_returns_with_what_was_learnt():
    agent = shop()
    play(agent, 400)
    means = agent.means
    agent.retire_action("large")
    assert set(play(agent, 50)) == {"small"}
    assert agent.add_action("large") == "large"
    assert agent.retired_actions == []
    assert agent.actions == ["small", "large"]
    np.testing.assert_array_equal(agent.means[:, 1], means[:, 1])
    assert play(agent, 400)["large"] > 300


def test_contexts_come_and_go():
    agent = shop()
    play(agent, 100)
    assert agent.add_context("tv") == "tv"
    assert agent.decide("tv").ask
    agent.retire_context("mobile")
    assert agent.retired_contexts == ["mobile"]
    with pytest.raises(sp.InvalidInput, match=r"'mobile' was retired; add_context\('mobile'\) brings it back"):
        agent.decide("mobile")
    agent.add_context("mobile")
    agent.decide("mobile")
    numbered = sp.Agent(sp.UCB1(2, contexts=2), budget=5)
    numbered.retire_context(0)
    with pytest.raises(sp.InvalidInput, match="context 0 was retired"):
        numbered.decide(0)


def test_what_asking_costs():
    agent = sp.Agent(sp.UCB1(2, contexts=2), budget=50, costs=[1, 1])
    agent.add_action(cost=3)
    agent.add_action(cost=[2, 4])
    assert (agent._family.prices / 1e6).tolist() == [[1, 1, 3, 2], [1, 1, 3, 4]]
    with pytest.raises(sp.InvalidInput, match="contexts differ in what asking costs: say what"):
        agent.add_context()
    agent.add_context(cost=[1, 2, 3, 4])
    with pytest.raises(sp.InvalidInput, match="a number, or 4 of them"):
        agent.add_context(cost=[1, 2])
    named = sp.Agent(sp.UCB1(2, costs=[0.5, 2]), budget=50)
    named.add_action(cost=0.25)
    assert named.learner.costs == ((0.5, 2.0, 0.25),)
    same = sp.Agent(sp.UCB1(2), budget=50, costs=[2, 2])
    same.add_action()
    assert (same._family.prices == 2_000_000).all()


def test_features_have_rows_for_actions_and_a_name_for_each_may_be_added():
    row = [0.6, 0.8]
    plain = sp.Agent(sp.OFUL(dim=2), budget=20, seed=0)
    plain.decide([row] * 3)
    assert plain.decide([row] * 4).index < 4  # as many rows as you like: nothing to add
    for call in (plain.add_action, plain.add_context, lambda: plain.retire_action(0)):
        with pytest.raises(sp.InvalidInput, match="actions are the rows of the features"):
            call()
    named = sp.Agent(sp.OFUL(dim=2), budget=20, seed=0, actions=["a", "b"])
    named.decide([row] * 2)
    assert named.add_action("c") == "c"
    named.decide([row] * 3)
    named.retire_action("a")
    assert named.actions == ["b", "c"]
    assert {named.decide([row] * 2).action for _ in range(30)} == {"b", "c"}
    with pytest.raises(sp.InvalidInput, match="each has its own cost"):
        sp.Agent(sp.OFUL(dim=2), budget=20, actions=["a", "b"], costs=[1, 2]).add_action("c")


def test_episodes_and_learners_in_plain_python_say_why_not():
    episodes = sp.Agent(sp.UCBVI(2, 2, 2), budget=9)
    with pytest.raises(sp.InvalidInput, match=r"actions of UCBVI are fixed.*make a new agent"):
        episodes.add_action()
    with pytest.raises(sp.InvalidInput, match="fixed"):
        episodes.retire_action(0)
    scripted = sp.Agent(Scripted(arms=2), budget=9)
    with pytest.raises(sp.InvalidInput, match="in plain Python"):
        scripted.add_action()


WRONG = {
    "no name": (lambda a: a.add_action(), "give the new one a name"),
    "taken": (lambda a: a.add_action("small"), "different names"),
    "no text": (lambda a: a.add_action(2.5), "text or a whole number"),
    "unknown": (lambda a: a.retire_action("tiny"), "action must be 'small' or 'large'"),
    "unknown context": (lambda a: a.retire_context("tv"), "context must be 'mobile' or 'web'"),
    "bad cost": (lambda a: a.add_action("x", cost=-1), "finite number ≥ 0"),
    "text for a cost": (lambda a: a.add_action("x", cost="much"), "cost must be numbers"),
    "too dear": (lambda a: a.add_action("x", cost=MOST_COST), "at most"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused_changes_nothing(case):
    call, message = WRONG[case]
    agent = shop()
    play(agent, 30)
    before, text = fingerprint(agent), dumps(agent)
    with pytest.raises(sp.InvalidInput, match=message):
        call(agent)
    assert fingerprint(agent) == before
    assert dumps(agent) == text


def test_one_action_and_one_context_remain():
    agent = shop()
    agent.retire_action("small")
    with pytest.raises(sp.InvalidInput, match="the last of the actions: add another one first"):
        agent.retire_action("large")
    with pytest.raises(sp.InvalidInput, match="is retired already"):
        agent.retire_action("small")
    with pytest.raises(sp.InvalidInput, match="leave `cost` out"):
        agent.add_action("small", cost=2)
    agent.retire_context(1)
    with pytest.raises(sp.InvalidInput, match="the last of the contexts"):
        agent.retire_context("mobile")
    unnamed = sp.Agent(sp.UCB1(2), budget=1)
    with pytest.raises(sp.InvalidInput, match="actions have no names here"):
        unnamed.add_action("x")


@pytest.mark.parametrize("rule", RULES["tabular"], ids=repr)
@pytest.mark.parametrize("copied", ["saved", "deepcopy", "pickle"])
def test_a_changed_agent_goes_on_from_a_file_or_a_copy(rule, copied):
    agent = shop(rule)
    play(agent, 100)
    agent.decide("web")
    agent.add_action("huge", cost=2)
    agent.retire_action("small")
    agent.add_context("tv")
    play(agent, 60, ("web", "tv"))
    agent.retire_context("mobile")
    agent.grant(7)
    copies = {
        "saved": lambda a: loads(dumps(a)),
        "deepcopy": copy.deepcopy,
        "pickle": lambda a: pickle.loads(pickle.dumps(a)),
    }
    other = copies[copied](agent)
    assert other.retired_actions == ["small"]
    assert [agent.decide(c) for c in ("web", "tv") * 40] == [other.decide(c) for c in ("web", "tv") * 40]
    other.add_action("small")
    assert agent.retired_actions == ["small"]


SCRIPT = """
import sparingly as sp
for rule in (sp.ExactMatching(), sp.BalancedMatching(), sp.Greedy(policies=3)):
    agent = sp.Agent(sp.UCB1(2, contexts=2), rule, budget=60, seed=1)
    for i in range(240):
        if i == 40: agent.add_action(cost=2)
        if i == 80: agent.retire_action(0)
        if i == 120: agent.add_context(cost=1)
        if i == 160: agent.add_action(0)
        if i % 5 == 0: agent.grant(1)
        d = agent.decide(i % agent.learner.contexts)
        if d.ask and i % 3: agent.observe(d, (i * 7 % 10) / 10)
        print(d)
"""


def test_compiled_and_in_plain_python_alike():
    """Also while the compiler is at work: where the switch falls makes no difference."""
    ways = ({"NUMBA_DISABLE_JIT": "1"}, {"SPARINGLY_COMPILE": "first"}, {"SPARINGLY_COMPILE": "behind"})
    run = [
        subprocess.run([sys.executable, "-c", SCRIPT], env=os.environ | way, capture_output=True, text=True, check=True)
        for way in ways
    ]
    assert run[0].stdout == run[1].stdout == run[2].stdout
    assert run[0].stdout.count("Decision") == 720


def test_a_file_that_does_not_add_up_is_refused():
    agent = shop()
    play(agent, 30)
    agent.add_action("huge")
    body = agent._family.parts()
    for name, value in {"sunk": -1, "before": body["before"] + 100}.items():
        with pytest.raises(sp.UnreadableFile, match="before the last change of actions"):
            agent._restore(body | {name: value}, {}, 0)


def test_another_rule_goes_on_with_what_was_learnt():
    agent = sp.Agent(sp.UCB1(3), sp.Greedy(), budget=60, seed=0)
    for _ in range(100):
        d = agent.decide()
        if d.ask:
            agent.observe(d, [0.1, 0.9, 0.5][d.index])
    asked, means = agent.asked, agent.means
    agent.change_rule(sp.ExactMatching())
    np.testing.assert_array_equal(agent.asked, asked)
    np.testing.assert_array_equal(agent.means, means)
    assert agent.rule == sp.ExactMatching()
    agent.grant(300)
    assert sum(agent.decide().index == 1 for _ in range(200)) > 100  # the others are asked about as well
    assert loads(dumps(agent)).decide() == agent.decide()
    with pytest.raises(sp.InvalidInput, match="is not a rule"):
        agent.change_rule(sp.Greedy)
    with pytest.raises(sp.InvalidInput, match="the rule is fixed"):
        sp.Agent(sp.OFUL(dim=2), budget=9).change_rule(sp.ExactMatching())
