"""The checker that ships: it passes what is sound and names what is not."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import sparingly as sp
from sparingly.testing import check_learner, check_rule
from tests.test_own_parts import PlainShare, Random, Ridge


@pytest.mark.slow
@pytest.mark.parametrize("rule", [sp.ExactMatching(), sp.PaperMatching(), sp.Greedy(), sp.Never()], ids=repr)
def test_our_rules_pass(rule):
    check_rule(rule)


@pytest.mark.parametrize("learner", [sp.UCB1(3, 2, ties="random"), sp.MOSS(2), sp.UCB1(1), sp.OFUL(3)], ids=repr)
def test_our_learners_pass(learner):
    check_learner(learner)


@pytest.mark.slow
def test_rules_that_need_the_ledger_are_named():
    for rule in (sp.Always(), sp.Matching(0.5)):
        with pytest.raises(sp.ContractBroken, match="the ledger refused"):
            check_rule(rule)
        check_rule(rule, guarded=True)


@dataclasses.dataclass(frozen=True)
class TooGenerous:
    def asks(self, question):
        return (question.asked + 1) * question.total_cost <= question.budget + 1


def test_a_mutant_of_r1_is_caught():
    with pytest.raises(sp.ContractBroken, match="the ledger refused"):
        check_rule(TooGenerous())


@dataclasses.dataclass(frozen=True)
class Sound:
    """A learner of one's own that keeps the contract: Thompson sampling."""

    arms: int
    contexts: int = 1
    costs: object = None

    def start(self):
        return {"wins": np.ones((self.contexts, self.arms)), "losses": np.ones((self.contexts, self.arms))}

    def choose(self, state, context, round, random):
        return int(np.argmax(random.beta(state["wins"][context], state["losses"][context])))

    def learn(self, state, context, action, reward):
        state["wins"][context, action] += reward
        state["losses"][context, action] += 1 - reward


class Forgetful(Sound):
    """Keeps part of what it knows outside its state, so that a saved one differs."""

    heard: dict = {}  # noqa: RUF012  # the fault on purpose

    def choose(self, state, context, round, random):
        return self.heard.get(id(state), 0) % self.arms

    def learn(self, state, context, action, reward):
        self.heard[id(state)] = self.heard.get(id(state), 0) + 1


class Meddling(Sound):
    """Changes its state while choosing."""

    def choose(self, state, context, round, random):
        state["wins"] += 1
        return 0


class Unseeded(Sound):
    """Uses randomness of its own."""

    def choose(self, state, context, round, random):
        return int(np.random.default_rng().integers(self.arms))


class Wild(Sound):
    """Names arms that do not exist."""

    def choose(self, state, context, round, random):
        return self.arms


class Shapeless(Sound):
    """Its state is no dict of arrays."""

    def start(self):
        return {"wins": [1, 2, 3]}


class LateMeddling(Sound):
    """Changes its state while choosing, but not in the first rounds."""

    def choose(self, state, context, round, random):
        if round > 50:
            state["wins"] += 1
        return 0


class Raises(Sound):
    """Fails while learning."""

    def learn(self, state, context, action, reward):
        raise RuntimeError("no")


@dataclasses.dataclass(frozen=True)
class BarelyTooGenerous:
    def asks(self, question):
        return (question.asked + 1) * question.total_cost <= question.budget + 0.01


def test_a_mutant_by_a_hundredth_is_caught():
    with pytest.raises(sp.ContractBroken, match="the ledger refused"):
        check_rule(BarelyTooGenerous())


def test_a_sound_learner_passes():
    check_learner(Sound(arms=3, contexts=2))


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (Forgetful(arms=3), "decides differently|different decisions"),
        (Meddling(arms=3), "must not change the state"),
        (Unseeded(arms=3), "same seed gave different decisions"),
        (Wild(arms=3), r"must return an arm in 0 … 2, not 3"),
        (Shapeless(arms=3), "dict of numpy arrays"),
        (LateMeddling(arms=3), "must not change the state"),
        (Raises(arms=3), "RuntimeError: no"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Sound) else "",
)
def test_learners_that_break_the_contract_are_named(learner, message):
    with pytest.raises(sp.ContractBroken, match=message):
        check_learner(learner)


@pytest.mark.parametrize("rule", [sp.ExactMatching(), sp.Never(), PlainShare()], ids=repr)
def test_rules_that_are_safe_pass_in_episodes_and_with_features(rule):
    settings = ("episodic",) if isinstance(rule, PlainShare) else ("linear", "episodic")
    check_rule(rule, rounds=40, settings=settings)


@pytest.mark.parametrize("setting", ["linear", "episodic"])
def test_a_rule_that_needs_the_ledger_is_named_in_every_setting(setting):
    with pytest.raises(sp.ContractBroken, match="the ledger refused"):
        check_rule(sp.Always(), rounds=40, settings=(setting,))
    check_rule(sp.Always(), rounds=40, guarded=True, settings=(setting,))


@pytest.mark.parametrize("learner", [Ridge(3), Random(3, 2, 3), sp.ULCVI(3, 2, 2)], ids=lambda x: type(x).__name__)
def test_learners_for_features_and_episodes_pass(learner):
    check_learner(learner, rounds=30)


def test_learners_for_features_and_episodes_that_break_a_promise_are_told():
    counter = itertools.count()

    class Moody(Ridge):
        def choose(self, state, features, round, random):
            return next(counter) % len(features)

    class Listing(Random):
        def start(self):
            return {"paid": [0]}

    with pytest.raises(sp.ContractBroken, match="the same seed gave different decisions"):
        check_learner(Moody(3), rounds=31)
    with pytest.raises(sp.ContractBroken, match="a dict of numpy arrays"):
        check_learner(Listing(3, 2, 3), rounds=30)
