"""Learners and rules of one's own, in every setting, in plain Python and compiled: all paths agree, saving works."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import sparingly as sp
from sparingly.episodic.learner import EpisodicLearner
from sparingly.linear.learner import LinearLearner
from sparingly.saving import dumps, loads
from sparingly.tabular.learner import TabularLearner
from tests.conftest import interpreted, same

pytestmark = pytest.mark.slow  # each pair is compiled anew

# Rules.


@sp.compiled
def limit(rule, question):
    """Exact matching with a share of the budget."""
    units = question.units
    return int(rule.share * units.granted) // units.total_cost - 1


@sp.compiled
def within(rule, question):
    return question.asked <= limit(rule, question)


@sp.compiled
def wide(rule, question):
    return question.width > rule.share and question.spent + question.cost <= question.budget


@dataclass(frozen=True)
class Share(sp.Rule, tabular=within, linear=wide, episodic=within, limit=limit):
    """Compiled, with a limit on counts: the simulator of arms may skip."""

    share: float = 0.5


@dataclass(frozen=True)
class Wide(sp.Rule, tabular=wide, linear=wide, episodic=wide):
    """Compiled, and by widths."""

    share: float = 0.5


@dataclass(frozen=True)
class PlainShare:
    """The same as Share for cells, in plain Python."""

    share: float = 0.5

    def asks(self, question):
        return question.asked <= int(self.share * question.units.granted) // question.units.total_cost - 1


@dataclass(frozen=True)
class PlainWide:
    """The same as Wide, in plain Python."""

    share: float = 0.5

    def asks(self, question):
        return question.width > self.share and question.spent + question.cost <= question.budget


# Learners for arms.


@sp.compiled
def level(learner, rounds):
    return learner.scale * math.sqrt(learner.breadth * math.log(max(rounds, 2)))


@sp.compiled
def index(learner, estimate, level):
    return estimate.average + level * estimate.shrink


@sp.compiled
def ceiling(learner, level, now, rounds):
    return math.sqrt(level * level + learner.scale**2 * learner.breadth * rounds / now) * (1.0 + 1e-12)


@sp.compiled
def earned(learner, answers, ahead, level):
    return level * math.sqrt(answers)


@dataclass(frozen=True)
class Root(TabularLearner, level=level, index=index, ceiling=ceiling, earned=earned):
    """Compiled, with what lets the simulator skip."""

    breadth: float = 1.5
    straight = True


@dataclass(frozen=True)
class Unbounded(TabularLearner, level=level, index=index):
    """Compiled, and every round is played."""

    breadth: float = 1.5


@dataclass(frozen=True)
class PlainRoot:
    """The same as Root, in plain Python."""

    arms: int
    contexts: int = 1
    costs: Any = None
    breadth: float = 1.5

    def start(self):
        return {"n": np.zeros((self.contexts, self.arms)), "total": np.zeros((self.contexts, self.arms))}

    def choose(self, state, context, round, random):
        n = state["n"][context]
        average = np.divide(state["total"][context], n, out=np.zeros(self.arms), where=n > 0)
        shrink = 1.0 / np.sqrt(np.maximum(n, 1))
        return int(np.argmax(average + math.sqrt(self.breadth * math.log(max(round, 2))) * shrink))

    def learn(self, state, context, action, reward):
        state["n"][context, action] += 1
        state["total"][context, action] += reward


# Learners for features.


@sp.compiled
def radius(learner, rounds, log_det):
    return learner.reach


@dataclass(frozen=True)
class Constant(LinearLearner, radius=radius):
    """Compiled: a radius that never changes."""

    dim: int
    reach: float = 1.0
    ridge: float = 1.0
    length: float = 1.0
    scale: float = 1.0
    ties: str = "first"
    costs: Any = None


@dataclass(frozen=True)
class Ridge:
    """Greedy ridge regression in plain Python."""

    dim: int
    costs: Any = None

    def start(self):
        return {"V": np.eye(self.dim), "b": np.zeros(self.dim)}

    def choose(self, state, features, round, random):
        return int(np.argmax(features @ np.linalg.solve(state["V"], state["b"])))

    def learn(self, state, row, reward):
        state["V"] += np.outer(row, row)
        state["b"] += row * reward


# Learners for episodes.


@sp.compiled
def model_bonus(learner, visits):
    return learner.horizon / math.sqrt(max(visits, 1)), 0.0


@dataclass(frozen=True)
class Bold(EpisodicLearner, model_bonus=model_bonus):
    """Compiled: UCBVI with another bonus."""

    @property
    def log_constant(self):
        return 2.0


@dataclass(frozen=True)
class Random:
    """Random policies in plain Python, that remember what they have seen."""

    states: int
    actions: int
    horizon: int
    costs: Any = None

    def start(self):
        return {"paid": np.zeros((self.horizon, self.states, self.actions)), "steps": np.zeros(1)}

    def plan(self, state, episode, random):
        noise = random.random((self.horizon, self.states, self.actions)) / episode
        return np.argmax(state["paid"] + noise, axis=2)

    def visit(self, state, states, actions):
        state["steps"] += len(states)

    def learn(self, state, step, visited, action, reward):
        state["paid"][step, visited, action] += reward


ARMS = sp.problems.ContextualArms([[0.2, 0.5, 0.6], [0.7, 0.1, 0.3]])
ONE = sp.problems.Arms([0.6, 0.5, 0.5, 0.4])
FEATURES = sp.problems.Linear([0.5, -0.3, 0.2], arms=sp.features.Sphere(4))
EPISODES = sp.problems.random_mdp(3, 2, 3, seed=1)


NAMES = {"contexts": ARMS, "arms": ONE, "features": FEATURES, "episodes": EPISODES}


def ours(problem):
    """A learner of the library for a problem."""
    if problem is FEATURES:
        return sp.OFUL(3)
    return sp.UCBVI(3, 2, 3, scale=0.1) if problem is EPISODES else sp.UCB1(problem.shape[1], problem.shape[0])


def own(problem, compiled):
    """A learner of one's own for a problem."""
    if problem is FEATURES:
        return Constant(3) if compiled else Ridge(3)
    if problem is EPISODES:
        return Bold(3, 2, 3) if compiled else Random(3, 2, 3)
    return (Root if compiled else PlainRoot)(problem.shape[1], problem.shape[0])


def pairs():
    """Rules of one's own with learners of ours, the other way round, and both; compiled and in plain Python."""
    for name, problem in NAMES.items():
        yield name, own(problem, True), Wide()
        yield name, own(problem, True), PlainWide()
        yield name, ours(problem), PlainWide()
        yield name, own(problem, False), sp.ExactMatching()
        yield name, own(problem, False), sp.Greedy(policies=2)
        yield name, own(problem, False), Wide()
    yield "arms", sp.UCB1(4), Share()
    yield "arms", Root(4), sp.Greedy(policies=2)


PAIRS = [
    pytest.param(NAMES[name], learner, rule, id=f"{name}-{type(learner).__name__}-{type(rule).__name__}")
    for name, learner, rule in pairs()
]


def run(problem, learner, rule, **options):
    made = {"rounds": 250, "runs": 2, "seed": 4, "checkpoints": range(1, 251)} | options
    return sp.simulate(problem, learner, rule, sp.budgets.Bernoulli(0.5, 2.0), **made)


@pytest.mark.parametrize(("problem", "learner", "rule"), PAIRS)
def test_every_path_and_saving(problem, learner, rule):
    """One test for both, since what is compiled for a pair lasts for one process."""
    fast = run(problem, learner, rule)
    same(fast, run(problem, learner, rule, path="plain"))
    same(fast, run(problem, learner, rule, path="agent"))
    assert (fast.spent <= fast.budget).all()
    assert fast.asked[:, -1].min() > 0
    agent = sp.Agent(learner, rule, budget=40, seed=1)
    play(agent, problem, np.random.default_rng(0), 30)
    loaded = loads(dumps(agent), (type(learner), type(rule)))
    first, second = (play(a, problem, np.random.default_rng(1), 30) for a in (agent, loaded))
    assert first == second
    assert dumps(agent) == dumps(loaded)


def test_compiled_and_plain_python_are_the_same_rule():
    options = {"rounds": 3_000, "checkpoints": [10, 3_000]}
    for compiled, plain in ((Wide(0.4), PlainWide(0.4)), (Share(0.3), PlainShare(0.3))):
        same(run(ONE, sp.UCB1(4), compiled, **options), run(ONE, sp.UCB1(4), plain, **options))


def test_compiled_and_plain_python_are_the_same_learner():
    rule = sp.ExactMatching(explore="always")  # PlainRoot has no `exploit`
    plain = run(ONE, PlainRoot(4), rule)
    for kind in (Root, Unbounded):
        same(run(ONE, kind(4, ties="first"), rule), plain)


def test_a_learner_of_ones_own_can_be_skipped_over():
    """Three million rounds in a moment, and equal to the plain loop."""
    options = {"rounds": 3_000_000, "runs": 1, "checkpoints": [1_000, 3_000_000]}
    fast = sp.simulate(ONE, Root(4), Share(), 2_000, **options)
    same(fast, sp.simulate(ONE, Root(4), Share(), 2_000, path="plain", **options))


def play(agent, problem, random, rounds):
    """Some rounds with late answers: what was decided."""
    seen = []
    for _ in range(rounds):
        if problem is EPISODES:
            policy = agent.plan()
            states = random.integers(3, size=3)
            asks = agent.decide_episode(states, policy[np.arange(3), states])
            seen += [policy.tolist(), asks.tolist()]
        else:
            context = (
                random.uniform(-0.5, 0.5, (4, 3)) if problem is FEATURES else int(random.integers(problem.shape[0]))
            )
            d = agent.decide(context)
            seen.append((d.action, d.ask, repr(d.width), repr(d.threshold)))
        while agent.awaited and random.random() < 0.5:
            agent.observe(agent.awaited[int(random.integers(len(agent.awaited)))], float(random.random()))
    return seen


def digest():
    """Trajectories of the compiled parts, for the comparison with the compiler off."""
    found = {}
    for name in ("arms", "features", "episodes"):
        r = run(NAMES[name], own(NAMES[name], True), Wide(), rounds=40, checkpoints=range(1, 41))
        found[name] = [*r.regret.ravel(), *r.asked.ravel().tolist(), *r.plays.ravel().tolist()]
    return found


def test_compiled_and_interpreted_runs_are_identical():
    assert interpreted("tests.test_own_parts") == digest()


@dataclass(frozen=True)
class OnlyArms(sp.Rule, tabular=wide):
    """Has no function for features, nor for episodes."""

    share: float = 0.5


@pytest.mark.parametrize(
    ("learner", "problem", "setting"), [(sp.OFUL(3), FEATURES, "features"), (sp.UCBVI(3, 2, 3), EPISODES, "episodes")]
)
def test_a_rule_without_a_setting_is_refused_there(learner, problem, setting):
    with pytest.raises(sp.InvalidInput, match=f"OnlyArms is for arms, not for {setting}"):
        sp.Agent(learner, OnlyArms(), budget=1)
    with pytest.raises(sp.InvalidInput, match=f"OnlyArms is for arms, not for {setting}"):
        sp.simulate(problem, learner, OnlyArms(), 1, rounds=5)
    with pytest.raises(sp.InvalidInput, match="OnlyArms is for arms"):
        OnlyArms().asks(sp.Question(1, 0, 1.0, 1.0, 1.0, 1.0, 0.0, 1, step=()))
    assert sp.Agent(sp.UCB1(2), OnlyArms(), budget=1, seed=0).decide().ask


def test_a_function_that_no_rule_has_is_refused():
    with pytest.raises(sp.InvalidInput, match="a rule has no function tabula"):

        class Misspelt(sp.Rule, tabula=wide):
            pass


class Fails:
    """A rule that breaks down."""

    def __init__(self, explore="asked"):
        self.explore = explore

    def asks(self, question):
        raise RuntimeError("out of order")


@pytest.mark.parametrize(
    ("learner", "rule", "call"),
    [
        (sp.OFUL(3), Fails(), lambda agent: agent.decide(np.eye(3))),
        (sp.UCBVI(3, 2, 3), Fails(), lambda agent: agent.plan()),  # which asks the rule where exploring would help
        (sp.UCBVI(3, 2, 3), Fails("always"), lambda agent: agent.decide_episode([0, 0, 0], [0, 0, 0])),
    ],
    ids=["features", "plans", "episodes"],
)
def test_a_rule_that_fails_changes_nothing(learner, rule, call):
    agent = sp.Agent(learner, rule, budget=9, seed=0)
    if rule.explore == "always":
        agent.plan()
    before = agent._family.words.copy()
    with pytest.raises(RuntimeError, match="out of order"):
        call(agent)
    np.testing.assert_array_equal(agent._family.words, before)
    assert agent.awaited == ()


def test_a_learner_that_answers_nonsense_is_told():
    class Wrong(Ridge):
        def choose(self, state, features, round, random):
            return 7

    class Lost(Random):
        def plan(self, state, episode, random):
            return np.zeros((1, 1), dtype=int)

    with pytest.raises(sp.ContractBroken, match="a row in 0 … 3, not 7"):
        sp.Agent(Wrong(3), budget=1, seed=0).decide(np.zeros((4, 3)))
    with pytest.raises(sp.ContractBroken, match=r"a policy \(3, 3\)"):
        sp.Agent(Lost(3, 2, 3), budget=1, seed=0).plan()
