"""Estimates from logged data: unbiased where the truth is known, honest where the log says little."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import sparingly as sp
from sparingly.errors import InvalidInput
from sparingly.lab.off_policy import combined, evaluate, horizon, replay
from sparingly.lab.table_runs import Uniform
from sparingly.problems import real

MEANS = np.array([[0.2, 0.5, 0.7], [0.8, 0.3, 0.4]])  # the best: 0.7 and 0.8


def log_of(rows=6_000, seed=0, chances=((1 / 3, 1 / 3, 1 / 3), (1 / 3, 1 / 3, 1 / 3)), means=MEANS, **changed):
    """A log of a policy that takes each action with the given chance in each of two contexts."""
    random, chances = np.random.default_rng(seed), np.asarray(chances)
    contexts = random.integers(2, size=rows)
    taken = (random.random(rows)[:, None] > chances.cumsum(axis=1)[contexts]).sum(axis=1)
    parts = {
        "contexts": contexts, "taken": taken, "propensity": chances[contexts, taken],
        "reward": (random.random(rows) < means[contexts, taken]).astype(float),
    }  # fmt: skip
    return real.Logged("made up", ("a", "b", "c"), **(parts | changed))


SKEWED = ((0.5, 0.3, 0.2), (0.2, 0.2, 0.6))
LEARNER = sp.UCB1(arms=3, contexts=2, scale=0.1)


class Oracle:
    """Takes the same action always: a policy whose value is known."""

    arms, contexts, costs = 3, 2, None

    def __init__(self, actions):
        self.actions = actions

    def start(self):
        return {}

    def choose(self, state, context, round, random):
        return self.actions[context]

    def learn(self, state, context, action, reward):
        pass


@pytest.mark.parametrize("actions", [(2, 0), (0, 1)])
def test_estimates_of_a_known_policy_are_unbiased(actions):
    """Over 60 logs the mean of each kind of estimate is tested at 1e-6 (4.9 standard errors, if means are normal)."""
    truth = (MEANS[0, actions[0]] + MEANS[1, actions[1]]) / 2
    results = [evaluate(log_of(2_000, seed, SKEWED), Oracle(actions), sp.Never(), 0, seed) for seed in range(60)]
    for method in ("replay", "ips", "snips", "dr"):
        values = np.array([result[method].value for result in results])
        assert abs(values.mean() - truth) < 4.9 * values.std(ddof=1) / np.sqrt(values.size), method
        assert values.std() < 0.1, method


def test_wrong_propensities_are_noticed():
    """The test above can fail: a log that claims to be uniform and is not has estimates that are far off."""
    honest = log_of(20_000, chances=SKEWED)
    with pytest.warns(real.DataWarning, match="propensities do not add up"):
        lying = log_of(20_000, chances=SKEWED, propensity=np.full(20_000, 1 / 3))
    right = evaluate(honest, Oracle((2, 0)), sp.Never(), 0)["ips"].value
    with pytest.warns(real.DataWarning, match=r"ended after 1,\d+ of 3,160 rounds"):
        wrong = evaluate(lying, Oracle((2, 0)), sp.Never(), 0)["ips"].value
    assert abs(right - 0.75) < 0.05 < 0.2 < abs(wrong - 0.75)


def test_intervals_hold_the_truth():
    """At level 1 − 1e-8 all 40 intervals hold it; at level 0.2 at most 24 of 40 do (binomial, 1e-6)."""
    sure, rough = (
        [evaluate(log_of(2_000, s, SKEWED), Oracle((2, 0)), sp.Never(), 0, s, level) for s in range(40)]
        for level in (1 - 1e-8, 0.2)
    )
    for method in ("ips", "snips", "dr", "replay"):
        assert all(e[method].low <= 0.75 <= e[method].high for e in sure), method
        assert sum(e[method].low <= 0.75 <= e[method].high for e in rough) <= 24, method


def test_halving_a_log_again_and_again_gives_one_estimate_that_holds_the_truth():
    """The mean of five; no shorter than one of them would be, as their halves overlap. 40 logs at level 1 − 1e-8."""
    for s in range(40):
        log = log_of(2_000, s, SKEWED)
        parts = [evaluate(log, Oracle((2, 0)), sp.Never(), 0, seed, 1 - 1e-8) for seed in range(5)]
        for method in ("ips", "snips", "dr"):
            whole = combined(parts)[method]
            assert whole.value == pytest.approx(np.mean([part[method].value for part in parts]))
            assert whole.low <= 0.75 <= whole.high
            assert whole.high - whole.low >= min(part[method].high - part[method].low for part in parts)
    assert combined(parts[:1])["dr"].high == pytest.approx(parts[0]["dr"].high)


def test_doubly_robust_is_tighter_than_inverse_propensity():
    result = evaluate(log_of(), LEARNER, sp.ExactMatching(), 300)
    assert result["dr"].high - result["dr"].low < result["ips"].high - result["ips"].low


def test_what_was_learned_under_the_budget_is_what_is_evaluated():
    poor, rich = (evaluate(log_of(12_000), LEARNER, sp.ExactMatching(), b)["dr"].value for b in (0, 600))
    assert poor < 0.6 < 0.72 < rich


RULES = [sp.ExactMatching(), sp.Greedy(), sp.Always(), sp.Never(), Uniform()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_rewards_not_asked_for_do_not_reach_the_learner(rule):
    """With NaN in the place of every reward that was not asked for, the same is done."""
    log = log_of()
    first, _ = replay(log, LEARNER, rule, 50, seed=3)
    assert first.asks == first.ledger.spent <= 50
    assert (first.actions == log.taken[first.rows]).all() and np.unique(first.rows).size == first.rows.size
    mined = copy.copy(log)
    hidden = np.full(len(log), np.nan)
    hidden[first.rows[first.asked]] = log.reward[first.rows[first.asked]]
    object.__setattr__(mined, "reward", hidden)
    second, _ = replay(mined, LEARNER, rule, 50, seed=3)
    assert np.array_equal(first.rows, second.rows) and np.array_equal(first.asked, second.asked)


def test_a_replay_is_as_long_as_the_log_allows():
    log = log_of(chances=SKEWED)
    assert horizon(log) == int(1_200 - 3 * np.sqrt(1_200))
    played, agent = replay(log, LEARNER, sp.ExactMatching(), 100, seed=1)
    assert played.rows.size == horizon(log) == agent.decisions  # what was not counted has not happened


def test_features_work_too():
    random = np.random.default_rng(0)
    x = random.normal(size=(3_000, 3))
    taken = random.integers(2, size=3_000)
    reward = (taken == (x[:, 0] > 0)).astype(float)
    log = real.Logged(
        "lines", ("left", "right"), shared=real.whiten(x), taken=taken, reward=reward, propensity=np.full(3_000, 0.5)
    )
    result = evaluate(log, log.learner(), sp.ExactMatching(), 100)
    assert result["dr"].value > 0.8 and result["ips"].low < result["dr"].value < result["ips"].high


def test_small_samples_get_a_warning():
    rough = pytest.warns(real.DataWarning, match="the action that the policy takes")
    short = pytest.warns(real.DataWarning, match=r"the replay found \d+ rounds")
    with rough, short:
        evaluate(log_of(300), Oracle((2, 0)), sp.Never(), 0)
    with pytest.warns(real.DataWarning, match=r"the replay found \d+ rounds"):
        replay(log_of(200), LEARNER, sp.Never(), 0, rounds=150)


def test_the_open_bandit_sample_says_little_and_that_is_said():
    with pytest.warns(real.DataWarning, match="have a reward above 0"):
        result = evaluate(real.open_bandit("men"), sp.UCB1(arms=34, contexts=3, scale=0.1), sp.ExactMatching(), 100)
    assert result.replay.asks <= 100 and result["ips"].effective < 300


def test_levels_are_checked():
    with pytest.raises(InvalidInput, match="level"):
        evaluate(log_of(), LEARNER, sp.Never(), 0, level=1.5)
