"""The instances of the lower bounds: gaps, costs, how many there are, and that no policy escapes all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sparingly as sp
from sparingly import budgets
from sparingly.problems import hard_arms, hard_costs, hard_linear, hard_varying, hard_varying_linear, hidden_arm
from sparingly.theory import lower


@pytest.mark.parametrize(("budget", "gap"), [(0, 1 / 35), (3, 1 / 35), (5, 1 / 35), (500, 1 / 350)])
def test_hard_arms(budget, gap):
    family = hard_arms(5, budget)
    assert len(family) == 5
    for k, problem in enumerate(family):
        assert problem.costs is None
        assert isinstance(problem.rewards, sp.problems.Bernoulli)
        np.testing.assert_allclose(problem.means[0], 0.5 + gap * np.eye(5)[k])
        np.testing.assert_array_equal(hidden_arm(5, budget, k).means, problem.means)


def test_hard_costs():
    costs, budget = [1.0, 4.0, 0.25], 400.0  # by falling cost: arms 1, 0, 2
    family = hard_costs(costs, budget)
    assert len(family) == 3 * 4 // 2 + 1
    for problem in family:
        np.testing.assert_array_equal(problem.costs, [costs])
    shifts = [(int(np.argmax(abs(p.means[0] - 0.5))), (p.means[0] - 0.5).sum()) for p in family]
    dearest, two, three = (
        0.2 * math.sqrt(4 / budget),
        math.sqrt(2 * 1.0 / budget) / 35,
        math.sqrt(3 * 0.25 / budget) / 35,
    )
    expected = [(1, dearest), (1, -dearest), (1, two), (0, two), (1, three), (0, three), (2, three)]
    assert [arm for arm, _ in shifts] == [arm for arm, _ in expected]
    np.testing.assert_allclose([shift for _, shift in shifts], [shift for _, shift in expected])


def test_hard_costs_at_unit_costs_hold_the_family_of_unit_costs():
    means = {tuple(p.means[0].round(12)) for p in hard_costs(np.ones(4), 100)}
    assert {tuple(p.means[0].round(12)) for p in hard_arms(4, 100)} <= means


def test_free_arms_hide_nothing():
    """What costs nothing is no reason for a small gap: only c(i) > 0 make instances, and one must be left."""
    family = hard_costs([2.0, 0.0, 0.0], 8.0)
    np.testing.assert_allclose([p.means[0, 0] for p in family], [0.6, 0.4])
    with pytest.raises(sp.InvalidInput, match="not all be 0"):
        hard_costs([0.0, 0.0], 8.0)
    np.testing.assert_allclose([p.means[0, 0] for p in hard_costs([1.0, 0.0], 0.0)], [0.7, 0.3])


def test_hard_varying():
    costs, budget = [1.0, 1.0], np.concatenate((np.zeros(60), np.full(40, 1e4)))
    family = hard_varying(costs, budget)
    assert family.horizon == 60
    assert {p.means.max() for p in family.problems} <= {0.5, 0.5 + 1 / 35, 0.7}
    growing = 0.5 * np.arange(1, 101)
    family = hard_varying(costs, growing)
    assert family.horizon == 100  # t/sqrt(t/2) grows
    for mine, fixed in zip(family.problems, hard_costs(costs, 50.0), strict=True):
        np.testing.assert_array_equal(mine.means, fixed.means)


def test_hard_linear():
    family = hard_linear(3, budget=100)
    patterns = {tuple(np.sign(p.theta)) for p in family}
    assert len(family) == len(patterns) == 8
    for problem in family:
        np.testing.assert_allclose(abs(problem.theta), 0.1)
        assert problem.noise == 1.0
        assert problem.arms.matrix.shape == (8, 3)


def test_hard_varying_linear():
    """The family of `hard_linear` for the budget of the horizon at which t/sqrt(B(t)) is largest."""
    budget = np.concatenate((np.full(40, 4.5), np.full(60, 400.0)))
    family = hard_varying_linear(2, budget)
    assert family.horizon == 40  # 40/sqrt(4), against 100/sqrt(100): more than t asks cannot be made
    for mine, fixed in zip(family.problems, hard_linear(2, 4), strict=True):
        np.testing.assert_array_equal(mine.theta, fixed.theta)
    assert hard_varying_linear(2, np.zeros(9)).horizon == 9
    np.testing.assert_allclose(abs(hard_varying_linear(2, np.zeros(9)).problems[0].theta), 1.0)


def test_no_policy_that_never_asks_escapes_the_varying_linear_bound():
    """A policy that always plays the first corner loses on the opposite signs in every coordinate, in each round."""
    budget = np.concatenate((np.full(40, 4.0), np.full(60, 400.0)))
    rounds, family = 100, hard_varying_linear(2, budget)
    runs = [
        sp.simulate(p, sp.OFUL(2, noise=1, length=2**0.5, ties="first"), sp.Never(), budgets.Sequence(budget),
                    rounds=rounds, runs=1)
        for p in family.problems
    ]  # fmt: skip
    worst = max(runs, key=lambda r: r.regret[0, -1])
    bound = lower.varying_linear(budget, 2)
    assert (worst.regret[0] >= bound[worst.rounds - 1]).all()
    assert worst.regret[0, -1] == pytest.approx(rounds * 2 * 2 / math.sqrt(4))


class Constant:
    """Plays one arm for ever."""

    contexts, costs = 1, None

    def __init__(self, arms, arm):
        self.arms, self.arm = arms, arm

    def start(self):
        return {}

    def choose(self, state, context, round, random):
        return self.arm

    def learn(self, state, context, action, reward):
        pass


@pytest.mark.parametrize("arm", [0, 1, 2])
@pytest.mark.parametrize("budget", [0, 2, 50, 10_000])
def test_no_constant_policy_escapes(arm, budget):
    """Policies that never ask have a regret that needs no statistics: some instance is above the lower bound."""
    rounds, costs = 100, [1.0, 3.0, 0.5]

    def worst(family):
        runs = [sp.simulate(p, Constant(3, arm), sp.Never(), budget, rounds=rounds, runs=1) for p in family]
        return max(r.regret[0, -1] for r in runs)

    assert worst(hard_arms(3, budget)) >= lower.unit_costs(rounds, 3, budget)
    assert worst(hard_costs(costs, budget)) >= lower.arm_costs(rounds, costs, budget)
    varying = np.full(rounds, float(budget))
    assert worst(hard_varying(costs, varying).problems) >= lower.varying_budget(varying, costs)[-1]


def test_learning_does_not_escape_either():
    """The worst mean regret of UCB1 over the family, ten runs each, is above the lower bound. Fixed seed.

    A run that learns nothing loses 3/4 of ε·T on average over the family, three times the bound.
    """
    rounds, budget = 2_000, 16
    family = hard_arms(4, budget)
    regret = [
        sp.simulate(p, sp.UCB1(arms=4), sp.ExactMatching(), budget, rounds=rounds, runs=10, seed=1).regret[:, -1].mean()
        for p in family
    ]
    assert max(regret) >= lower.unit_costs(rounds, 4, budget)


@pytest.mark.parametrize(
    "call",
    [
        lambda: hard_arms(1, 5),
        lambda: hard_arms(3, -1),
        lambda: hard_arms(3, math.inf),
        lambda: hidden_arm(3, 5, arm=3),
        lambda: hidden_arm(3, math.nan),
        lambda: hard_costs([1.0], 5),
        lambda: hard_costs([[1.0, 2.0]], 5),
        lambda: hard_costs([1.0, -2.0], 5),
        lambda: hard_varying([1.0, 1.0], [2, 1]),
        lambda: hard_varying([1.0, 1.0], np.ones((2, 3))),
        lambda: hard_varying([0.0, 0.0], np.ones(3)),
        lambda: hard_varying_linear(2, [2, 1]),
        lambda: hard_varying_linear(2, np.ones((2, 3))),
        lambda: hard_linear(11, 5),
        lambda: hard_linear(2, 0),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(sp.InvalidInput):
        call()


def test_an_experiment_file_can_name_the_instance():
    from sparingly.lab.experiment import experiment_from

    data = {
        "problem": {"type": "hidden_arm", "arms": 3, "budget": 9, "arm": 1},
        "budget": 9, "rounds": 20, "runs": 1, "learners": ["UCB1"],
    }  # fmt: skip
    assert dict(experiment_from(data, title="t").run())["ExactMatching"].refused.sum() == 0
