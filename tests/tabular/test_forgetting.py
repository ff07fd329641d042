"""Learners that forget: sums by hand from all of the history, the budget under attack, every path, changes."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparingly as sp
from sparingly.rules.balanced import reserve_of
from sparingly.saving import dumps, loads
from tests.conftest import BUDGETS, LEARNERS, RULES, interpreted, same

FORGET = st.sampled_from([1e-6, 0.01, 0.2, 0.5])
UNIT = 1_000_000


@dataclasses.dataclass(frozen=True)
class HalfOfTheBudget:
    """Exact matching with half of the budget, in plain Python."""

    def asks(self, question):
        return 2 * (question.asked + 1) * question.total_cost <= question.budget


class Diary:
    """Everything that happened, and the faded sums as a fold over all of it."""

    def __init__(self, forget: float) -> None:
        self.forget, self.now = forget, 0
        self.asks: list[tuple[int, int, int]] = []  # round, context, action
        self.heard: list[tuple[int, int, int, float]] = []
        self.grants: list[tuple[int, float]] = []

    def weight(self, since: int) -> float:
        return (1.0 - self.forget) ** (self.now - since)

    def asked(self, u: int, a: int) -> float:
        return sum(self.weight(t) for t, *cell in self.asks if cell == [u, a])

    def answers(self, u: int, a: int) -> tuple[float, float]:
        found = [(self.weight(t), r) for t, *cell, r in self.heard if cell == [u, a]]
        return sum(w for w, _ in found), sum(w * r for w, r in found)

    @property
    def granted(self) -> float:
        """The budget with the same discount: what came long ago counts little."""
        return sum(self.weight(t) * amount for t, amount in self.grants)


def play(agent: sp.Agent, diary: Diary, u: int, a: int) -> tuple[int, bool]:
    """One round in which the adversary has chosen the action, and every round is worth an ask: its id, and whether."""
    family = agent._family
    family._open(u, False)
    question = family._question(u * agent.learner.arms + a)
    if family.pair.paced:
        question = question._replace(pace=family.memory.pace, counts=family.memory.counts)
    _, ending, _ = family._close(u, a, bool(family.asks(question)), False)
    number, diary.now = int(family.made[0]), int(family.memory.clock[0])
    if ending == 1:
        agent._awaited[number] = family._ticket(u, a)
        diary.asks.append((diary.now, u, a))
    return number, ending == 1


@pytest.mark.parametrize("explore", ["asked", "always"])
@settings(max_examples=40)
@given(data=st.data(), forget=FORGET)
def test_sums_by_hand(explore, data, forget):
    """Means and indices from the whole history, with answers that come late, never, for free, or are taken back."""
    agent = sp.Agent(sp.UCB1(2, contexts=2, forget=forget), sp.Always(explore=explore), budget=1e6, seed=0)
    diary, waiting = Diary(forget), []
    for _ in range(data.draw(st.integers(1, 40))):
        what, u, a = (data.draw(st.sampled_from(c)) for c in ("ppppowt", (0, 1), (0, 1)))
        reward = data.draw(st.sampled_from([0.0, 0.3, 1.0]))
        if what == "p":
            number, _ = play(agent, diary, u, a)
            waiting.append((number, (diary.now, u, a)))
        elif what == "t":
            agent.teach(a, reward, context=u)
            diary.heard.append((diary.now, u, a, reward))
            diary.asks.append((diary.now, u, a))  # an answer for free counts as an ask, but for the ledger
        elif waiting:
            number, ask = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            if what == "o":
                agent.observe(number, reward)
                diary.heard.append((*ask, reward))
            else:
                agent.withdraw(number)
                diary.asks.remove(ask)
    diary.now += 1
    lived = sum(diary.weight(t) for t in range(1, diary.now + 1))
    for u in range(2):
        for a, index in enumerate(agent.indices(u)):
            heard, total = diary.answers(u, a)
            n = diary.asked(u, a) if explore == "asked" else heard
            assert agent.means[u, a] == pytest.approx(total / heard if heard else math.nan, rel=1e-6, nan_ok=True)
            mean = total / heard if heard else 0.0
            if explore == "asked":
                mean += (1.0 - mean) / (n + 1)
            bonus = math.sqrt(1.5 * math.log(4 * max(round(lived), 1)) / max(n, 1.0))
            assert index == pytest.approx(mean + bonus, rel=2e-2 if lived % 1 else 1e-9)  # rounds are rounded
            exact = math.sqrt(1.5 * math.log(4 * agent_rounds(agent)) / max(n, 1.0))
            assert index == pytest.approx(mean + exact, rel=1e-6)


def agent_rounds(agent: sp.Agent) -> int:
    """(1 − γ^t)/(1 − γ) rounds are remembered in the next one, rounded."""
    forget, t = agent.learner.forget, int(agent._family.memory.clock[0]) + 1
    return int((1.0 - (1.0 - forget) ** t) / forget + 0.5) if forget > 1e-5 else t


def test_an_answer_weighs_the_same_whenever_it_comes():
    """Answers at once, and the same answers ten rounds later in reverse order."""
    agents = [sp.Agent(sp.UCB1(2, ties="first", forget=0.1), sp.Always(), budget=100, seed=0) for _ in range(2)]
    diary, kept = Diary(0.1), []
    for t in range(12):
        for agent in agents:
            number, _ = play(agent, diary, 0, t % 2)
        agents[0].observe(number, (t % 3) / 2)
        kept.append((number, (t % 3) / 2))
    for number, reward in reversed(kept):
        agents[1].observe(number, reward)
    np.testing.assert_allclose(agents[0].means, agents[1].means, rtol=1e-12)
    np.testing.assert_allclose(agents[0].indices(), agents[1].indices(), rtol=1e-12)
    label = agents[0].decide()
    agents[0].observe(label, label=1)  # the others learn from a label as of the same round
    weights = agents[0]._family.memory.faded["heard"]
    assert weights.sum() > 2.0 and agents[0].taught.sum() == 1


COSTS = st.sampled_from([1.0, 1.0, 1.0, 0.0, 0.3, 2.0, 7.0])
STEPS = st.sampled_from(["play"] * 14 + ["grant", "grant", "withdraw", "answer", "teach", "reload", "add", "retire"])
SAFE = [sp.ExactMatching(), sp.BalancedMatching(), sp.BalancedMatching(reserve=0.6), HalfOfTheBudget(), sp.Greedy()]


class Attack:
    """One life of an agent whose contexts, actions, budget and answers an adversary chooses."""

    def __init__(self, data: st.DataObject, rule: sp.QueryRule, changing: bool) -> None:
        self.data, self.rule, self.changing, self.changed = data, rule, changing, False
        arms, contexts, forget = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2)), data.draw(FORGET)
        costs = [[data.draw(COSTS) for _ in range(arms)] for _ in range(contexts)]
        budget = data.draw(st.integers(0, 30))
        self.agent = sp.Agent(sp.UCB1(arms, contexts, forget=forget), rule, budget=budget, seed=0, costs=costs)
        self.diary = Diary(forget)
        self.diary.grants.append((0, float(budget)))
        self.exact = True  # as long as no lessons and withdrawals blur what the rule should have done

    def step(self) -> None:
        agent, data = self.agent, self.data
        what = data.draw(STEPS)
        if what == "play":
            self.play()
        elif what == "grant":
            amount = data.draw(st.sampled_from([0.5, 1.0, 5.0, 40.0]))
            agent.grant(amount)
            self.diary.grants.append((self.diary.now, amount))
        elif what == "reload":
            self.agent = loads(dumps(agent), (HalfOfTheBudget,))
        elif what == "teach":
            agent.teach(self.live("actions")[0], 1.0, context=self.live("contexts")[0])
            self.exact = False
        elif what in ("add", "retire") and self.changing and not isinstance(self.rule, HalfOfTheBudget):
            self.change(what)
        elif what in ("withdraw", "answer") and agent.awaited:
            number = data.draw(st.sampled_from(agent.awaited))
            if what == "answer":
                agent.observe(number, 0.5)
            else:
                since, u, a = agent._awaited[number][2], *agent._awaited[number][:2]
                agent.withdraw(number)
                self.diary.asks.remove((since, u, a))
                self.changed = True

    def live(self, what: str) -> list[int]:
        size = self.agent.asked.shape[0 if what == "contexts" else 1]
        return [i for i in range(size) if i not in self.agent._family.retired[what]]

    def change(self, what: str) -> None:
        agent, which = self.agent, self.data.draw(st.sampled_from(["action", "context"]))
        if what == "add" and agent.asked.size < 12:
            getattr(agent, f"add_{which}")(cost=self.data.draw(COSTS))
        elif what == "retire" and len(self.live(f"{which}s")) > 1:
            getattr(agent, f"retire_{which}")(self.data.draw(st.sampled_from(self.live(f"{which}s"))))
        self.changed = True

    def play(self) -> None:
        agent, diary = self.agent, self.diary
        u, a = (self.data.draw(st.sampled_from(self.live(what))) for what in ("contexts", "actions"))
        costs = agent._family.memory.counts["cost"].reshape(agent.asked.shape)
        left = agent.ledger.granted_units - agent.ledger.spent_units
        diary.now = int(agent._family.memory.clock[0]) + 1
        asked = np.array([[diary.asked(v, b) for b in range(costs.shape[1])] for v in range(costs.shape[0])])
        _, ask = play(agent, diary, u, a)
        live, n = costs > 0, asked[u, a]
        total, slack = costs[live].sum(), 3e-6 * ((costs * asked)[live].sum() + costs[live].sum()) + 2
        if costs[u, a] > 0 and self.exact and isinstance(self.rule, sp.ExactMatching):
            filling = (costs[live] * np.maximum(n + 1 - asked[live], 0)).sum()
            assert ask or filling > left - slack  # what is left could bring all live cells this far
            assert not ask or filling <= left + 1e-3
        if costs[u, a] > 0 and not ask and self.exact and not self.changed:
            promised = int(diary.granted * UNIT)
            if isinstance(self.rule, sp.ExactMatching):
                assert (n + 1) * total > promised - slack
            elif isinstance(self.rule, sp.BalancedMatching):
                share = self.rule.reserve
                assert (n + 1) * total > reserve_of(promised, share, math.ceil(total / share)) - slack
        assert agent.ledger.spent <= agent.ledger.granted


@pytest.mark.parametrize("changing", [False, True], ids=["", "changing"])
@pytest.mark.parametrize("rule", SAFE, ids=str)
@settings(max_examples=120)
@given(data=st.data())
def test_the_budget_holds_and_safe_rules_are_never_refused(data, rule, changing):
    """And exact matching asks just if what is left could bring every cell to this precision."""
    attack = Attack(data, rule, changing)
    for _ in range(data.draw(st.integers(1, 60))):
        attack.step()
        assert attack.agent.ledger.refused == 0


def test_the_free_part_leaves_the_reserve():
    """Of 20 asks half are reserved: the first arm gets no more than 10, and then the other one its share."""
    agent = sp.Agent(sp.UCB1(2, forget=1e-6), sp.BalancedMatching(reserve=0.5), budget=20, seed=0)
    diary = Diary(1e-6)
    assert sum(play(agent, diary, 0, 0)[1] for _ in range(30)) == 10
    assert sum(play(agent, diary, 0, 1)[1] for _ in range(30)) in (4, 5)  # the fifth is a matter of rounding
    assert agent.ledger.refused == 0


@pytest.mark.slow
@pytest.mark.parametrize("rule", [sp.ExactMatching(), sp.BalancedMatching(), sp.BalancedMatching(reserve=0.9)], ids=str)
@pytest.mark.parametrize("forget", [1e-6, 1e-3, 0.02])
def test_long_lives_with_bursts(rule, forget):
    """30,000 rounds: budgets that come in bursts, contexts that are asked about most or least, cells of many costs."""
    random = np.random.default_rng(5)
    costs = random.choice([0.1, 0.7, 1.0, 3.0], (4, 3))
    agent = sp.Agent(sp.UCB1(3, contexts=4, forget=forget, costs=costs), rule, budget=0, seed=0)
    diary = Diary(forget)
    for t in range(30_000):
        if random.random() < 0.002:
            agent.grant(float(random.choice([0.1, 30.0, 500.0])))
        per_context = agent.asked.sum(axis=1)
        u = int(np.argmin(per_context) if random.random() < 0.5 else random.integers(4))
        play(agent, diary, u, int(random.integers(3) if t % 100 else np.argmax(costs[u])))
        diary.asks.clear()
        agent._awaited.clear()
    assert agent.ledger.refused == 0 and agent.ledger.spent > 100


FORGETFUL = {name: (lambda *a, _c=kind, **k: _c(*a, forget=0.03, **k)) for name, kind in LEARNERS.items()}
WORLDS = {
    "arms": sp.problems.Arms([0.3, 0.5, 0.6], costs=[0.1, 0.7, 2.0]),
    "contexts": sp.problems.ContextualArms([[0.3, 0.5], [0.9, 0.1], [0.5, 0.5]], rewards="beta"),
}


@pytest.mark.parametrize("learner", FORGETFUL)
def test_every_path_is_one(learner):
    for rule in RULES["tabular"]:
        for number, budget in enumerate(BUDGETS[::3]):
            for problem in WORLDS.values():
                contexts, arms = problem.shape
                made = FORGETFUL[learner](arms, contexts, ties="random")
                options = {"rounds": 200, "runs": 1, "seed": number, "checkpoints": range(1, 201)}
                fast = sp.simulate(problem, made, rule, budget, path="fast", **options)
                same(fast, sp.simulate(problem, made, rule, budget, path="agent", **options))


def digest() -> dict[str, list[float]]:
    """Trajectories of every learner that forgets, with every rule."""
    found = {}
    for name, make in FORGETFUL.items():
        for rule in RULES["tabular"]:
            for world, problem in WORLDS.items():
                contexts, arms = problem.shape
                r = sp.simulate(
                    problem, make(arms, contexts), rule, sp.budgets.Bernoulli(0.4), rounds=60, runs=1, seed=1,
                    checkpoints=range(1, 61),
                )  # fmt: skip
                found[f"{name} {rule} {world}"] = [*r.regret[0], *r.asked[0].tolist(), *r.plays.ravel().tolist()]
    return found


def test_compiled_and_interpreted_runs_are_identical():
    assert interpreted("tests.tabular.test_forgetting") == digest()


@pytest.mark.parametrize("learner", FORGETFUL)
@pytest.mark.parametrize("rule", [sp.BalancedMatching(), sp.Greedy(policies=2)], ids=str)
def test_a_saved_agent_goes_on_as_it_would_have(learner, rule):
    def on(agent: sp.Agent, rounds: int, seed: int) -> list:
        random, seen = np.random.default_rng(seed), []
        for _ in range(rounds):
            d = agent.decide(int(random.integers(2)))
            seen.append(d)
            while agent.awaited and random.random() < 0.5:
                agent.observe(int(random.choice(agent.awaited)), float(random.random()))
        return seen

    agent = sp.Agent(FORGETFUL[learner](3, contexts=2), rule, budget=sp.budgets.Linear(0.4), seed=1)
    on(agent, 80, 0)
    while not agent.awaited:
        agent.decide(0)
    again = loads(dumps(agent))
    assert on(again, 80, 1) == on(agent, 80, 1)
    assert dumps(again) == dumps(agent)


def test_a_file_that_remembers_too_much_is_refused():
    agent = sp.Agent(sp.UCB1(2, forget=0.1), sp.Always(), budget=10, seed=0)
    for _ in range(5):
        agent.decide()
    for change in (lambda m: m.faded["asked"].fill(9.0), lambda m: m.purse["since"].fill(99)):
        wrong = loads(dumps(agent))
        change(wrong._family.memory)
        with pytest.raises(sp.SparinglyError, match="does not add up"):
            loads(dumps(wrong, check=False))
    plain = json.loads(dumps(agent, check=False))
    assert plain["learner"]["forget"] == 0.1 and {"faded", "visits", "purse"} <= plain["memory"].keys()


def test_set_aside_answers_keep_their_round():
    """As the service does it: what is awaited is kept elsewhere, and comes back with its note."""
    agents = [sp.Agent(sp.UCB1(2, ties="first", forget=0.2), sp.Always(), budget=100, seed=0) for _ in range(2)]
    for agent in agents:
        first = agent.decide()
        note = agent.set_aside(first.id) if agent is agents[1] else 0.0
        for _ in range(6):
            agent.decide()
        if agent is agents[1]:
            agent.expect(first.id, 0, first.index, note)
        agent.observe(first.id, 1.0)
        agent.teach(first.index, 0.0)
    np.testing.assert_allclose(agents[0].means[0, 0], 0.8**6 / (1 + 0.8**6))
    np.testing.assert_array_equal(agents[0].means, agents[1].means)


def rounds_to_recover(learner, rule, seed: int, change: int = 20_000) -> tuple[float, float, int]:
    """What was earned before the best of three actions becomes the worst, and when 9 of 10 rounds play the new one."""
    agent, random = sp.Agent(learner, rule, budget=sp.budgets.Linear(0.2), seed=seed), np.random.default_rng(seed)
    earned, right, means = 0.0, [], [0.8, 0.5, 0.2]
    for t in range(2 * change):
        if t == change:
            means, before = means[::-1], earned
        d = agent.decide()
        earned += means[d.action]
        if t >= change:
            right.append(means[d.action] == 0.8)
        if d.ask:
            agent.observe(d, float(random.random() < means[d.action]))
    assert agent.ledger.refused == 0 and agent.ledger.spent <= 0.2 * 2 * change
    share = np.convolve(right, np.full(100, 0.01), "valid")
    return before / change, agent.ledger.spent, int(np.argmax(share >= 0.9)) if share.max() >= 0.9 else change


@pytest.mark.slow
@pytest.mark.parametrize("rule", [sp.ExactMatching(), sp.BalancedMatching()], ids=str)
@pytest.mark.parametrize(
    "learner",
    [sp.UCB1(3, scale=0.3), sp.MOSS(3, scale=0.3), sp.KLUCB(3, scale=0.5), sp.Thompson(3), sp.EpsilonGreedy(3)],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_after_a_change_it_recovers_in_a_tenth_of_the_rounds(learner, rule):
    """The sum over 4 seeds; before the change, after 20,000 rounds, it earns 0.9 of what the plain learner does."""
    plain, faded = (
        np.array([rounds_to_recover(made, rule, seed) for seed in range(4)])
        for made in (learner, dataclasses.replace(learner, forget=0.01))
    )
    assert faded[:, 2].sum() <= plain[:, 2].sum() / 10
    assert faded[:, 0].mean() >= 0.9 * plain[:, 0].mean()


@pytest.mark.parametrize("forget", [-0.1, 0.9, 1e-9, math.nan, "x", True])
def test_forget_is_checked(forget):
    with pytest.raises(sp.InvalidInput, match="forget must be"):
        sp.UCB1(2, forget=forget)
