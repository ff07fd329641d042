"""Problems, contexts, and the paper's counterexamples."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sparingly as sp


@pytest.mark.parametrize(
    "make",
    [
        lambda: sp.problems.Arms([]),
        lambda: sp.problems.Arms([[0.5]]),
        lambda: sp.problems.Arms([0.5, 1.1]),
        lambda: sp.problems.Arms([0.5, -0.1]),
        lambda: sp.problems.Arms([0.5, math.nan]),
        lambda: sp.problems.Arms(["a"]),
        lambda: sp.problems.Arms([0.5], rewards="poisson"),
        lambda: sp.problems.Arms([0.5], costs=[1, 2]),
        lambda: sp.problems.ContextualArms([0.5, 0.5]),
        lambda: sp.problems.ContextualArms([[0.5], [0.5]], contexts=[0, 2]),
        lambda: sp.problems.ContextualArms([[0.5], [0.5]], contexts=[]),
        lambda: sp.problems.ContextualArms([[0.5], [0.5]], contexts=[0.5]),
        lambda: sp.problems.ContextualArms([[0.5], [0.5]], contexts=sp.contexts.Iid([1.0])),
        lambda: sp.problems.ContextualArms([[0.5], [0.5]], contexts=sp.contexts.WhenBudgetGrows(still=2)),
        lambda: sp.contexts.Iid([0.5, 0.6]),
        lambda: sp.problems.Beta(0),
        lambda: sp.problems.TruncatedNormal(2),
        lambda: sp.problems.greedy_trap("weather"),
        lambda: sp.problems.greedy_trap(good_arm=2),
    ],
)
def test_bad_parameters(make):
    with pytest.raises(sp.InvalidInput):
        make()


def taken(source, contexts, rounds, grew=None, first=1):
    tape = source.tape(np.random.default_rng(0), contexts)
    grew = np.zeros(rounds, dtype=bool) if grew is None else grew
    return np.broadcast_to(tape.take(first, rounds, grew), (rounds,))


def test_contexts():
    assert taken(sp.contexts.Given([2, 0, 1]), 3, 7).tolist() == [2, 0, 1, 2, 0, 1, 2]
    assert taken(sp.contexts.Given([2, 0, 1]), 3, 4, first=5).tolist() == [0, 1, 2, 0]
    grew = np.array([True, False, False, True])
    assert taken(sp.contexts.WhenBudgetGrows(grows=1, still=0), 2, 4, grew).tolist() == [1, 0, 0, 1]
    assert taken(sp.contexts.Iid(), 1, 5).tolist() == [0] * 5
    for source, law in ((sp.contexts.Iid(), [1 / 3] * 3), (sp.contexts.Iid([0.7, 0.0, 0.3]), [0.7, 0.0, 0.3])):
        counts = np.bincount(taken(source, 3, 90_000), minlength=3)
        # Binomial with deviation at most 141: six of them, a false alarm below 1e-8.
        assert (abs(counts - 90_000 * np.array(law)) < 850).all()


@pytest.mark.parametrize("adversary", ["contexts", "budget"])
def test_the_counterexamples_are_the_papers(adversary):
    """E B(t) = t/2, and the budget grows in exactly the rounds with context 0."""
    problem, budget = sp.problems.greedy_trap(adversary)
    r = sp.simulate(problem, sp.UCB1(2, 2), sp.Greedy(), budget, rounds=20_000, runs=3)
    np.testing.assert_array_equal(r.budget[:, -1], r.plays[:, 0].sum(axis=1))
    assert (abs(r.budget[:, -1] - 10_000) < 430).all()  # six deviations of Binomial(20000, 1/2)
    np.testing.assert_array_equal(r.asked, r.budget)  # greedy spends each unit at once


@pytest.mark.parametrize("ties", ["first", "random"])
@pytest.mark.parametrize("make", [sp.UCB1, sp.MOSS])
def test_the_worse_labelling_is_worse(make, ties):
    learner = make(2, 2, ties=ties)
    worse = sp.problems.worse_labelling(learner)
    regret = {}
    for good in (0, 1):
        problem, budget = sp.problems.greedy_trap(good_arm=good)
        regret[good] = sp.simulate(problem, learner, sp.Greedy(), budget, rounds=20_000, runs=10).final_regret()[0]
    assert regret[worse] >= 0.2 * 20_000
    assert regret[worse] >= 0.9 * max(regret.values())
