"""One model for all steps: the planner against a plain transcription, budgets step by step, what an agent remembers."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparingly as sp
from sparingly.saving import _checksum, dumps, loads
from tests.conftest import interpreted

S, A, H = 6, 2, 9
PLAIN = {"imagined_visits": 0.0, "imagined_answers": 0.0, "imagined_if_random": 0.0}
SETTINGS = {
    "plan": {},
    "sweep": {"discount": 0.9},
    "by action": {"by": "action", "known_after": None},
    "theory": {"by": "action", "known_after": None, "scale": 1.0, "slack": 1.0, **PLAIN},
}
RULES = [sp.ExactMatching(), sp.BalancedMatching(), sp.ExactMatching(explore="always"), sp.PaperMatching()]


def learner(**more) -> sp.StationaryUCBVI:
    return sp.StationaryUCBVI(S, A, H, **({"discount": None} | more))


class Slope:
    """Right is uphill and slips, left slides down; the top ends the episode and pays, most other steps pay a little."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def step(self, state: int, action: int) -> tuple[int, float, bool]:
        after = state + 1 if action and self.random.random() < 0.8 else max(state - 1, 0)
        return min(after, S - 1), 1.0 if after == S - 1 else 0.01 * (after % 2), after == S - 1


def walk(agent: sp.Agent, steps: int, seed: int = 0, late: float = 0.0, env: int = 0):
    """Let an agent play; each step is yielded once it is answered, or will not be."""
    world, s, h = Slope(seed), 0, 0
    for _ in range(steps):
        a = agent.act(s, env=env)
        after, reward, ended = world.step(s, a)
        h += 1
        cut = not ended and h == H
        d = agent.reached(after, terminated=ended, truncated=cut, env=env)
        if d.ask and world.random.random() >= late:
            agent.observe(d, reward)
        yield s, a, after, ended, d, reward
        s, h = (0, 0) if ended or cut else (after, h)


def digest(steps: int = 120) -> list:
    """What some agents have done and know: equal with the compiler and without."""
    made = []
    for name, more in SETTINGS.items():
        for rule in RULES[:2]:
            agent = sp.Agent(learner(**more), rule, budget=40, seed=1)
            path = [(int(a), bool(d.ask)) for _, a, _, _, d, _ in walk(agent, steps)]
            made.append([name, path, agent.values[0].ravel().tolist(), agent.best_guess().ravel().tolist()])
    return made


@pytest.mark.slow
def test_compiled_and_interpreted_are_the_same():
    assert json.loads(json.dumps(digest())) == interpreted("tests.episodic.test_stationary")


# The planner.


class Book:
    """All that was seen, as lists."""

    def __init__(self, made: sp.StationaryUCBVI) -> None:
        self.made, self.after, self.answers = made, defaultdict(list), defaultdict(list)
        self.asked = defaultdict(int)

    def see(self, s, a, after, ended, d, reward, answered):
        self.after[s, a].append((after, ended))
        self.asked[s, a, after, ended] += d.ask
        if answered:
            self.answers[s, a, after, ended].append(reward)

    def reward(self, key: tuple, rest: list, steps: int) -> tuple[float, float]:
        """Mean and bonus of what these answers tell."""
        answers, n = self.answers[key], self.asked[key]
        mean = np.mean(answers) if answers else np.mean(rest) if rest else 0.0
        if len(answers) >= 2 and np.ptp(answers) == 0.0:
            return mean, 0.0
        L = math.log(self.made.log_constant * steps**2 * (steps + 1))
        variance = np.var(answers, ddof=1) if len(answers) > 1 else 0.0
        bonus = self.made.scale * math.sqrt(2 * variance * L / n) + self.made.slack * 5 * L / n if n else math.inf
        share = self.made.imagined_answers / (n + self.made.imagined_answers) if n else 1.0
        return mean, min(bonus + share * (1.0 - mean), 1.0 - mean)

    def plan(self, steps: int, met: dict) -> np.ndarray:
        """V_k for k = 0 … H, of all states; `met` says after how many steps a cell was brought in line."""
        L, made = math.log(self.made.log_constant * (steps + 1) ** 2 * (steps + 2)), self.made
        V = np.zeros((H + 1, S))
        for k in range(1, H + 1):
            for s in range(S):
                worth = {}
                for a in range(A):
                    rest = [x for key, xs in self.answers.items() if key[:2] == (s, a) for x in xs]
                    worth[a] = [
                        sum(self.reward((s, a, *to), rest, met[s, a])) + (0.0 if to[1] else V[k - 1, to[0]])
                        for to in self.after[s, a]
                    ]
                best = max((max(values) for values in worth.values() if values), default=0.0)
                Q = [float(k)] * A
                for a, values in worth.items():
                    if values:
                        n, mean = len(values), np.mean(values)
                        bonus = max(
                            made.scale * math.sqrt(8 * np.var(values) * L / n), made.slack * 28 / 3 * (k - 1) * L / n
                        )
                        Q[a] = min(k, mean + made.imagined_visits / (n + made.imagined_visits) * (best - mean) + bonus)
                V[k, s] = max(Q)
        return V


@pytest.mark.parametrize(
    "more",
    [{}, {"scale": 0.3, "slack": 1e-3, "imagined_visits": 0.5, "imagined_answers": 1.0}],
    ids=["default", "wide"],
)
def test_the_planner_is_the_formula(more):
    """Values equal the transcription whenever a plan is due: bonuses, imagined visits, ends, caps, known rewards."""
    agent = sp.Agent(learner(**more), sp.ExactMatching(), budget=math.inf, seed=3)
    book, met, plans = Book(agent.learner), {}, 0
    world, s, h = Slope(5), 0, 0
    for steps in range(150):
        before = int(agent._family.memory.head["plans"][0])
        a = agent.act(s)
        if int(agent._family.memory.head["plans"][0]) > before:
            plans += 1
            V = book.plan(steps, met)
            np.testing.assert_allclose(agent.values[0][::-1], V[1:], atol=1e-9)
        after, reward, ended = world.step(s, a)
        h += 1
        cut = not ended and h == H
        d = agent.reached(after, terminated=ended, truncated=cut)
        answered = d.ask and world.random.random() < 0.8
        if answered:
            agent.observe(d, reward)
        book.see(s, a, after, ended, d, reward, answered)
        met[s, a] = steps + 2
        s, h = (0, 0) if ended or cut else (after, h)
    assert plans > 20


def test_sweeping_comes_to_the_values_that_are_equal_to_their_own_backups():
    """After many steps nothing waits, and V = max_a Q up to the precision of a sweep."""
    agent = sp.Agent(learner(discount=0.9), sp.ExactMatching(), budget=math.inf, seed=3)
    for _ in walk(agent, 3_000):
        pass
    m = agent._family.memory
    assert m.head["waiting"][0] == 0
    words = agent._family.words.copy()
    from sparingly.episodic.stationary.planning import back_up
    from sparingly.numba_support import from_python

    again = agent._family.open_memory(words, None)
    for place in range(int(again.head["places"][0])):
        value = float(again.values[0, place])
        getattr(from_python(back_up), "py_func", back_up)  # compiled for this test alone
        from_python(back_up)(again, place)
        assert abs(float(again.values[0, place]) - value) < 2e-3


def test_a_plan_is_made_when_a_count_has_doubled():
    agent = sp.Agent(learner(known_after=1), sp.Never(), seed=0)
    plans = []
    for *_, d, _ in walk(agent, 400):
        assert not d.ask
        plans.append(int(agent._family.memory.head["plans"][0]))
    visits = agent.visits
    assert plans[-1] <= sum(1 + int(math.log2(n)) for n in visits.ravel() if n) + 1
    assert plans[-1] - plans[300] < plans[100]


@pytest.mark.parametrize("discount", [None, 0.95])
def test_it_learns(discount):
    """The best guess goes uphill, from a fifth of the rewards."""
    for seed in range(3):
        made = sp.StationaryUCBVI(S, A, 40, discount=discount)
        agent = sp.Agent(made, sp.BalancedMatching(), budget=100, seed=seed)
        for _ in walk(agent, 500, seed):
            pass
        policy, last = agent.best_guess(), 40
        assert [policy[last - S + 1 + s, s] for s in range(S - 1)] == [1] * (S - 1)  # with just enough steps to go
        assert agent.ledger.spent <= 100


def test_optimism_with_the_constants_of_the_theorem():
    """V from above is never below V*, at every step of every run; with tiny bonuses it is."""

    def truth() -> np.ndarray:
        V = np.zeros((H + 1, S))
        for k in range(1, H + 1):
            for s in range(S - 1):
                Q = []
                for up in (0.0, 0.8):
                    value = 0.0
                    for p, after in ((up, s + 1), (1 - up, max(s - 1, 0))):
                        ended = after == S - 1
                        value += p * (1.0 if ended else 0.01 * (after % 2) + V[k - 1, after])
                    Q.append(value)
                V[k, s] = max(Q)
        return V[:0:-1]

    best = truth()
    for scale, holds in ((1.0, True), (1e-9, False)):
        below = False
        for seed in range(3):
            made = learner(by="action", known_after=None, scale=scale, slack=scale, **PLAIN)
            agent = sp.Agent(made, sp.ExactMatching(explore="always"), budget=math.inf, seed=seed)
            for _ in walk(agent, 400, seed):
                below |= bool((agent.values[0][:, : S - 1] < best[:, : S - 1] - 1e-9).any())
        assert below != holds


# Asking.


SAFE = (sp.ExactMatching(), sp.BalancedMatching(), sp.BalancedMatching(reserve=1.0), sp.ExactMatching(explore="always"))


class Adversary:
    """Two environments at once: what is reached, when it ends, how the budget grows and who answers is drawn."""

    def __init__(self, data: st.DataObject, rules: tuple) -> None:
        self.draw, self.where = data.draw, [None, None]
        price = st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=A, max_size=A)
        costs = self.draw(st.one_of(st.none(), st.lists(price, min_size=3, max_size=3)))
        self.prices = np.ones((3, A)) if costs is None else np.array(costs)
        more = self.draw(st.sampled_from(list(SETTINGS.values())))
        made = sp.StationaryUCBVI(3, A, 4, costs=costs, **({"discount": None} | more))
        rule = self.draw(st.sampled_from(rules if costs is None or (self.prices % 1 == 0).all() else SAFE))
        self.agent = sp.Agent(made, rule, budget=self.draw(st.integers(0, 12)), seed=0)

    def step(self) -> None:
        """Act, perhaps twice, and reach something; perhaps the program is saved and loaded in between."""
        env = self.draw(st.integers(0, 1))
        s = self.draw(st.integers(0, 2)) if self.where[env] is None else self.where[env]
        action = self.agent.act(s, env=env)
        if self.draw(st.integers(0, 4)) == 0:
            self.agent = loads(dumps(self.agent))
            assert self.agent.act(s, env=env) == action
        after, ended, cut = self.draw(st.integers(0, 2)), self.draw(st.booleans()), self.draw(st.booleans())
        self.agent.reached(after, ended, cut, env=env)
        self.where[env] = None if ended or cut else after

    def answer(self) -> None:
        """Answer some of what is awaited, in any order; the rest later, or never."""
        for number in self.draw(st.permutations(self.agent.awaited[-4:])):
            if self.draw(st.booleans()):
                self.agent.observe(number, self.draw(st.sampled_from([0.0, 0.5, 1.0])))

    def play(self) -> None:
        for _ in range(self.draw(st.integers(1, 60))):
            self.step()
            self.answer()
            if self.draw(st.booleans()):
                self.agent.grant(self.draw(st.sampled_from([0.25, 1.0, 7.0])))
            assert self.agent.ledger.spent <= self.agent.ledger.granted
            assert self.agent.ledger.spent == pytest.approx((self.agent.asked * self.prices).sum())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_adversary_breaks_the_budget(data):
    """Early and late ends, late and missing answers, saved in the middle of a step: no overspending, no refusal."""
    adversary = Adversary(data, SAFE)
    adversary.play()
    assert adversary.agent.ledger.refused == 0


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_no_rule_overspends_step_by_step(data):
    """Rules that are not safe are refused by the ledger, at worst."""
    Adversary(data, (sp.Always(), sp.PaperMatching(), sp.Never())).play()


def test_no_cell_is_starved():
    """Exact matching, without known rewards: each cell is asked about as often as it came and its share pays for."""
    agent = sp.Agent(learner(known_after=None), sp.ExactMatching(), budget=7 * S * A + 3, seed=0)
    for _ in walk(agent, 500):
        pass
    np.testing.assert_array_equal(agent.asked, np.minimum(agent.visits, 7))
    assert (agent.visits > 7).any()


def test_what_is_known_is_audited_when_its_visits_have_doubled():
    agent = sp.Agent(sp.StationaryUCBVI(1, 1, 5), sp.ExactMatching(), budget=100, seed=0)
    asked = []
    for n in range(1, 65):
        agent.act(0)
        d = agent.reached(0)
        if d.ask:
            asked.append(n)
            agent.observe(d, 0.5)
    assert asked == [1, 2, 4, 8, 16, 32, 64]


def test_an_audit_notices_that_a_reward_is_not_what_it_seemed():
    agent = sp.Agent(sp.StationaryUCBVI(1, 1, 5), sp.ExactMatching(), budget=10, seed=0)
    asked = 0
    for n in range(1, 40):
        agent.act(0)
        d = agent.reached(0)
        asked += d.ask
        if d.ask:
            agent.observe(d, 0.0 if n <= 2 else 1.0)
    assert asked == 10  # from the audit on, every step, to the last of the budget
    assert agent.means[0, 0] == pytest.approx(0.8)


def ask_at(agent: sp.Agent, state: int, rewards: list[float]) -> list[bool]:
    """Stay in a state for an episode and answer what is asked: at which steps that was."""
    asked = []
    for n, reward in enumerate(rewards, start=1):
        agent.act(state)
        d = agent.reached(state, truncated=n == len(rewards))
        asked.append(d.ask)
        if d.ask:
            agent.observe(d, reward)
    return asked


@pytest.mark.parametrize(("doubt", "more"), [(1.0, 1), (0.5, 1), (0.1, 4), (0.01, 10)])
def test_it_takes_more_equal_answers_once_any_have_differed(doubt, more):
    """One reward in two is random: n equal answers, so that ½·0.7^(n−1) ≤ doubt. The known is asked about again."""
    agent = sp.Agent(sp.StationaryUCBVI(2, 1, 50, doubt=doubt), sp.ExactMatching(), budget=math.inf, seed=0)
    assert ask_at(agent, 0, [0.5] * 3) == [True, True, False]
    assert ask_at(agent, 1, [0.0, 1.0]) == [True, True]
    assert ask_at(agent, 0, [0.5] * 12).index(False) == more
    ask_at(agent, 0, [0.5] * 40)
    assert agent.asked[0, 0] < 20  # known again, and audited


def test_what_seemed_known_is_tried_again_where_rewards_are_random():
    """Twice nothing from the second action; then answers about the first one differ, and bonuses come back."""
    for random, fewest, most in ((False, 2, 2), (True, 4, 60)):
        made = sp.StationaryUCBVI(1, 2, 1, discount=None, imagined_answers=3.0, imagined_if_random=3.0)
        agent = sp.Agent(made, sp.ExactMatching(), budget=math.inf, seed=1)
        tried = [0, 0]
        for _ in range(60):
            a = agent.act(0)
            tried[a] += 1
            d = agent.reached(0, truncated=True)
            if d.ask:
                agent.observe(d, 0.0 if a else 0.6 - 0.2 * (random and tried[0] >= 4))
        assert fewest <= tried[1] <= most, tried


@pytest.mark.parametrize("alike", [True, False])
def test_the_best_guess_pools_random_rewards_with_one_outcome(alike):
    """Both actions reach the goal, the first more often. Answers about the second are luckier, by chance or not."""
    agent = sp.Agent(sp.StationaryUCBVI(2, 2, 1, discount=None), sp.ExactMatching(), budget=math.inf, seed=0)
    paid = ([0.0, 1.0, 1.0, 0.0] * 5, [1.0, 0.0, 1.0, 1.0] * 5 if alike else [1.0] * 19 + [0.5])
    for a in (0, 1):
        for n in range(20):
            agent.act(0)
            agent._family.memory.lanes["action"][0] = a
            hit = n < (20, 18)[a]
            d = agent.reached(1, terminated=hit, truncated=not hit)
            if d.ask:
                agent.observe(d, paid[a][n] if hit else 0.0)
    assert agent.means[0, 1] > agent.means[0, 0]
    assert (agent.best_guess()[0, 0] == 0) == alike


@pytest.mark.parametrize("by", ["outcome", "action"])
def test_rewards_by_outcome_are_told_apart(by):
    """A cell that pays where it ends and not where it goes on: by outcome both are known after two asks each."""
    agent = sp.Agent(sp.StationaryUCBVI(2, 1, 5, by=by), sp.ExactMatching(), budget=200, seed=0)
    asked = 0
    for n in range(64):
        agent.act(0)
        ended = n % 2 == 1
        d = agent.reached(1, terminated=ended, truncated=not ended)
        asked += d.ask
        if d.ask:
            agent.observe(d, float(ended))
    assert asked == (12 if by == "outcome" else 64)


@dataclass(frozen=True)
class InPython:
    """Exact matching, by hand."""

    def asks(self, question):
        return (question.asked + 1) * question.total_cost <= question.budget


def test_a_rule_in_plain_python_does_the_same():
    """Where the rule is heard at once, it goes the way of the compiled one."""
    paths = []
    for rule in (sp.ExactMatching(explore="always"), InPython()):
        agent = sp.Agent(learner(), rule, budget=math.inf if not paths else 1e9, seed=2)
        paths.append([(a, d.ask) for _, a, _, _, d, _ in walk(agent, 200)])
    assert [ask for _, ask in paths[0]].count(True) > 20
    assert len(paths[1]) == 200


def test_a_rule_that_fails_changes_nothing():
    class Breaks:
        def asks(self, question):
            raise ZeroDivisionError

    agent = sp.Agent(learner(), Breaks(), budget=5, seed=2)
    agent.act(0)
    before = agent._family.words.copy()
    with pytest.raises(ZeroDivisionError):
        agent.reached(1)
    np.testing.assert_array_equal(agent._family.words, before)


# What it remembers.


@pytest.mark.parametrize("name", SETTINGS)
def test_an_agent_goes_on_where_it_was_saved(name, tmp_path):
    """In the middle of an episode, with answers to come, in three environments: files, copies and pickles."""
    agent = sp.Agent(learner(**SETTINGS[name]), budget=sp.budgets.Linear(0.3), seed=5)
    for _ in walk(agent, 77, late=0.3):
        pass
    agent.act(3, env=2)
    agent.save(tmp_path / "agent.json")
    others = [sp.Agent.load(tmp_path / "agent.json"), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))]
    paths = []
    for one in (agent, *others):
        one.reached(2, env=2)
        for number in one.awaited[:2]:
            one.observe(number, 0.25)
        paths.append([(s, a, d) for s, a, _, _, d, _ in walk(one, 150, seed=9, env=1)])
    assert [[p[:2] for p in path] for path in paths[1:]] == [[p[:2] for p in paths[0]]] * 3
    for one in others:
        np.testing.assert_array_equal(one.values[0], agent.values[0])
        np.testing.assert_array_equal(one.asked, agent.asked)
        assert one.ledger.spent == agent.ledger.spent


@pytest.mark.parametrize("part", ["lanes", "places", "cells", "edges", "heap", "policy", "counters"])
def test_a_file_that_does_not_hold_together_is_refused(part, tmp_path):
    agent = sp.Agent(learner(discount=0.9), sp.ExactMatching(), budget=40, seed=5)
    for _ in walk(agent, 40):
        pass
    agent.save(tmp_path / "agent.json")
    body = json.loads((tmp_path / "agent.json").read_text())
    body.pop("checksum")
    data, refused = body["memory"][part]["data"], 0
    for place in range(len(data)):
        kept = data[place]
        data[place] = 10**9
        text = json.dumps(body | {"checksum": _checksum(body)})
        data[place] = kept
        (tmp_path / "other.json").write_text(text)
        try:
            other = sp.Agent.load(tmp_path / "other.json")
        except sp.UnreadableFile:
            refused += 1
        else:  # a number that may be anything: nothing breaks
            for _ in walk(other, 5, env=1):
                pass
    assert refused >= len(data) // 4 or not data


def test_memory_grows_with_what_was_seen():
    """A million states, of which ten are seen, take a word each and little more."""
    agent = sp.Agent(sp.StationaryUCBVI(1_000_000, 4, 100, discount=0.99), sp.ExactMatching(), budget=50, seed=0)
    s = 123_456
    for n in range(100):
        agent.act(s)
        s = 900_000 + n % 10
        agent.reached(s)
    assert agent._family.words.nbytes < 8_100_000
    assert agent.visits[123_456].sum() == 1
    assert agent.best_guess().strides[0] == 0  # one row stands for all steps


def test_views_are_in_the_order_of_states():
    agent = sp.Agent(learner(), sp.ExactMatching(), budget=math.inf, seed=0)
    counts, last = np.zeros((S, A), dtype=int), np.full((S, A), np.nan)
    for s, a, _, _, d, reward in walk(agent, 200):
        counts[s, a] += 1
        if d.ask and math.isnan(last[s, a]):
            last[s, a] = reward
    np.testing.assert_array_equal(agent.visits, counts)
    assert (agent.asked <= agent.visits).all()
    assert (np.isnan(agent.means) == np.isnan(last)).all()
    assert agent.widths.shape == (S, A)
    assert (agent.widths[counts > 50] < agent.widths.max()).all()
    upper, lower = agent.values
    assert upper.shape == lower.shape == (H, S)
    assert (lower <= upper).all()
    assert agent.best_guess().shape == (H, S)


# What it refuses.


def test_steps_in_the_wrong_order_are_refused():
    agent = sp.Agent(learner(), sp.ExactMatching(), budget=90, seed=0)
    with pytest.raises(sp.InvalidInput, match=r"environment 0 has made no step: call agent\.act"):
        agent.reached(1)
    first = agent.act(0)
    assert agent.act(0) == first
    with pytest.raises(sp.InvalidInput, match="was told to act in state 0, so it cannot be in state 1"):
        agent.act(1)
    d = agent.reached(1)
    with pytest.raises(sp.InvalidInput, match="has reached state 1, so it cannot be in state 2"):
        agent.act(2)
    agent.act(1)
    agent.reached(2, truncated=True)
    agent.act(5)
    assert agent.decisions == 2
    agent.observe(d, 0.5)
    with pytest.raises(sp.NotAwaited, match="step 1 awaits no feedback"):
        agent.observe(d, 0.5)
    with pytest.raises(sp.UnknownDecision, match="no step has the id 7"):
        agent.observe(7, 0.5)
    agent.reached(1)
    with pytest.raises(sp.InvalidInput, match="a reward"):
        agent.observe(agent.decisions, 2.0)


@pytest.mark.parametrize("state", [-1, S, 1.5, "a", True])
def test_states_that_do_not_exist_are_refused(state):
    agent = sp.Agent(learner(), sp.ExactMatching(), budget=9, seed=0)
    with pytest.raises(sp.InvalidInput, match="a state must be a whole number"):
        agent.act(state)
    agent.act(0)
    with pytest.raises(sp.InvalidInput, match="a state must be a whole number"):
        agent.reached(state)
    assert agent.decisions == 0


@pytest.mark.parametrize("wrong", [{"terminated": "no"}, {"truncated": None}, {"terminated": 1}])
def test_an_end_is_true_or_false(wrong):
    agent = sp.Agent(learner(), sp.ExactMatching(), budget=9, seed=0)
    agent.act(0)
    with pytest.raises(sp.InvalidInput, match="must be True or False"):
        agent.reached(1, **wrong)
    assert agent.decisions == 0
    agent.reached(1, terminated=np.bool_(False))


def test_what_does_not_fit_is_refused():
    with pytest.raises(sp.InvalidInput, match="Greedy asks about whole episodes"):
        sp.Agent(learner(), sp.Greedy(), budget=9)
    with pytest.raises(sp.InvalidInput, match="acts step by step"):
        sp.Agent(learner(), budget=9).plan()
    with pytest.raises(sp.InvalidInput, match="`act` is not for UCBVI; agents of StationaryUCBVI have it"):
        sp.Agent(sp.UCBVI(2, 2, 2), budget=9).act(0)
    with pytest.raises(sp.InvalidInput, match="name the range with the learner's"):
        sp.Agent(learner(), budget=9, rewards=(1, 5))
    for wrong in (
        {"discount": 1.0}, {"returns": (1, 0)}, {"returns": (50, 60)},
        {"rewards": 3}, {"by": "luck"}, {"known_after": 0}, {"scale": -1},
        {"slack": -1}, {"imagined_visits": math.nan}, {"imagined_answers": -1},
        {"costs": [[1.0]]}, {"delta": 0.0}, {"ties": "last"},
    ):  # fmt: skip
        with pytest.raises(sp.InvalidInput, match=next(iter(wrong))):
            learner(**wrong)


def test_rewards_may_be_negative():
    """A task in which every step costs: nothing is better than its end."""
    made = sp.StationaryUCBVI(4, 2, 20, rewards=(-2.0, 0.0), discount=None)
    agent = sp.Agent(made, sp.ExactMatching(), budget=80, seed=0)
    s = 0
    for _ in range(150):
        a = agent.act(s)
        after = min(s + 1, 3) if a else max(s - 1, 0)
        d = agent.reached(after, terminated=after == 3)
        if d.ask:
            agent.observe(d, -1.0)
        s = 0 if after == 3 else after
    assert (agent.best_guess()[0, :3] == 1).all()
    assert agent.values[0][0, 0] == pytest.approx(-3.0, rel=0.01)
