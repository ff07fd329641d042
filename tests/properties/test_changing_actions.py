"""Actions and contexts come and go while an agent lives, and the budget stays as hard as it was.

Hypothesis plays the adversary: it grants, chooses contexts and arms, answers, withdraws, adds, retires and brings back.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparingly as sp
from sparingly.saving import dumps, loads

COSTS = st.sampled_from([1.0, 1.0, 1.0, 0.0, 0.3, 2.0, 7.0])
STEPS = st.sampled_from(
    ["decide"] * 12 + ["grant", "grant", "add", "retire", "add", "return", "withdraw", "reload", "rule"]
)
RULES = [sp.ExactMatching(), sp.BalancedMatching(), sp.BalancedMatching(reserve=0.6), sp.PaperMatching(), sp.Greedy()]


def force(agent: sp.Agent, context: int, action: int) -> None:
    """Let the learner choose this action next, in a round that is worth an ask: the adversary decides."""
    estimates, live = agent._family.memory.estimates, agent._family.memory.counts["cost"] >= 0
    estimates["average"][live], estimates["shrink"] = 0.0, 1.0
    estimates["average"][context * agent.learner.arms + action] = 0.5


def share(agent: sp.Agent) -> Fraction:
    """w, from Σ c·max(w, n⁰) = B − sunk over the live cells, found another way: by bisection over whole parts."""
    m, live = agent._family.memory, agent._family.memory.counts["cost"] > 0
    costs, before = m.counts["cost"][live].tolist(), m.before[live].tolist()
    rest, points = agent.ledger.granted_units - int(m.shares["sunk"][0]), sorted(set(before))
    for point, after in zip(points, [*points[1:], None], strict=True):
        paid = sum(c * max(point, n) for c, n in zip(costs, before, strict=True))
        w = point + Fraction(rest - paid, sum(c for c, n in zip(costs, before, strict=True) if n <= point))
        if after is None or w <= after:
            return w
    return Fraction(0)


class Attack:
    """One life of an agent, with the invariants checked after every step."""

    def __init__(self, data: st.DataObject, rule: sp.Rule) -> None:
        self.data, self.rule = data, rule
        arms, contexts = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
        costs = [[data.draw(COSTS) for _ in range(arms)] for _ in range(contexts)]
        first = data.draw(st.sampled_from([rule, rule, sp.Greedy()]))
        self.agent = sp.Agent(sp.UCB1(arms, contexts), first, budget=data.draw(st.integers(0, 30)), seed=0, costs=costs)

    def live(self, what: str) -> list[int]:
        size = self.agent.asked.shape[0 if what == "contexts" else 1]
        return [i for i in range(size) if i not in self.agent._family.retired[what]]

    def decide(self) -> None:
        u, a = (self.data.draw(st.sampled_from(self.live(what))) for what in ("contexts", "actions"))
        agent, m = self.agent, self.agent._family.memory
        force(agent, u, a)
        costs, asked, live = m.counts["cost"].copy(), m.counts["asked"].copy(), m.counts["cost"] >= 0
        left, cell = agent.ledger.granted_units - agent.ledger.spent_units, u * agent.learner.arms + a
        d = agent.decide(u)
        assert d.index not in agent._family.retired["actions"]
        if isinstance(agent.rule, sp.ExactMatching):  # ask just if the rest could bring all live cells this far
            filling = (costs[live] * np.maximum(asked[cell] + 1 - asked[live], 0)).sum()
            assert d.ask == (filling <= left or costs[cell] == 0)
        if isinstance(agent.rule, sp.BalancedMatching) and m.before.size and costs[cell] > 0 and not d.ask:
            w, reserve = share(agent), agent.rule.reserve
            assert asked[cell] >= math.floor(min(reserve * w, w - 1 / reserve) - Fraction(1, 1000))
        if d.ask and self.data.draw(st.booleans()):
            agent.observe(d, self.data.draw(st.sampled_from([0.0, 0.5, 1.0])))

    def grant(self) -> None:
        self.agent.grant(self.data.draw(st.sampled_from([0.5, 1.0, 5.0, 40.0])))

    def add(self) -> None:
        what = self.data.draw(st.sampled_from(["action", "context"]))
        if self.agent.asked.size < 12:
            getattr(self.agent, f"add_{what}")(cost=self.data.draw(COSTS))

    def retire(self) -> None:
        what = self.data.draw(st.sampled_from(["action", "context"]))
        if len(self.live(f"{what}s")) > 1:
            level = math.floor(share(self.agent)) if self.agent._family.memory.before.size else None
            getattr(self.agent, f"retire_{what}")(self.data.draw(st.sampled_from(self.live(f"{what}s"))))
            if level is not None and isinstance(self.agent.rule, sp.ExactMatching) and self.costs().any():
                assert share(self.agent) >= level  # what others give up takes nothing from anyone

    def costs(self) -> np.ndarray:
        costs = self.agent._family.memory.counts["cost"]
        return costs[costs > 0]

    def bring_back(self) -> None:
        what = self.data.draw(st.sampled_from(["action", "context"]))
        gone = getattr(self.agent, f"retired_{what}s")
        if gone:
            getattr(self.agent, f"add_{what}")(self.data.draw(st.sampled_from(gone)))

    def withdraw(self) -> None:
        if self.agent.awaited:
            self.agent.withdraw(self.data.draw(st.sampled_from(self.agent.awaited)))

    def change_rule(self) -> None:
        """Once the agent may have asked by the rule that looks at nothing but what is left."""
        if isinstance(self.agent.rule, sp.Greedy):
            self.agent.change_rule(self.rule)

    def reload(self) -> None:
        self.agent = loads(dumps(self.agent))

    def check(self) -> None:
        ledger, family = self.agent.ledger, self.agent._family
        assert ledger.spent_units == (family.prices * family.asked()).sum()
        assert ledger.spent_units <= ledger.granted_units
        assert ledger.refused == 0, self.rule


@pytest.mark.parametrize("rule", RULES, ids=repr)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_the_budget_holds_and_nothing_is_refused(data, rule):
    attack = Attack(data, rule)
    for _ in range(data.draw(st.integers(1, 60))):
        step = data.draw(STEPS)
        getattr(attack, {"return": "bring_back", "rule": "change_rule"}.get(step, step))()
        attack.check()


def test_an_added_action_gets_its_share_before_those_that_are_ahead():
    agent = sp.Agent(sp.UCB1(2), sp.ExactMatching(), budget=100, seed=0)
    for _ in range(200):
        agent.decide()
    assert agent.asked.tolist() == [[50, 50]]
    agent.add_action()
    agent.grant(30)
    for _ in range(200):
        agent.decide()
    assert agent.asked.tolist() == [[50, 50, 30]]
    agent.grant(80)  # 20 for the new one to catch up, the rest in equal shares
    for _ in range(400):
        agent.decide()
    assert agent.asked.tolist() == [[70, 70, 70]]
    assert agent.ledger.refused == 0


def test_what_a_retired_action_would_have_cost_is_left_to_the_others():
    agent = sp.Agent(sp.UCB1(3), sp.ExactMatching(), budget=90, seed=0)
    for _ in range(30):
        agent.decide()
    spent = int(agent.asked[0, 2])
    agent.retire_action(2)
    for _ in range(400):
        agent.decide()
    assert agent.asked[0, :2].sum() == 2 * ((90 - spent) // 2)


def test_large_budgets_are_shared_out_exactly():
    """In whole millionths, up to the largest amounts: no sum overflows, nothing is rounded up."""
    agent = sp.Agent(sp.UCB1(2), sp.ExactMatching(), budget=4e12, seed=0, costs=[1e8, 3e8])
    for _ in range(25_000):
        agent.decide()
    assert agent.ledger.spent == agent.asked[0] @ [1e8, 3e8]
    agent.add_action(cost=1e-6)
    for _ in range(100):
        agent.decide()
    assert agent.asked[0, 2] > 0
    assert agent.ledger.refused == 0
    m = agent._family.memory
    assert 0 <= int(m.shares["paid"][0]) <= agent.ledger.granted_units
