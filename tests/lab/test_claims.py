"""What the project claims of its rules, measured: matching survives an adversary, exact matching uses the budget."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import sparingly as sp

T = 100_000


@pytest.mark.parametrize("adversary", ["contexts", "budget"])
def test_adversaries_ruin_greedy_and_not_matching(adversary):
    """Greedy ≥ 0.2 T on the worse labelling; the paper's rule ≤ 300 and the exact one ≤ 100 on both."""
    learner = sp.UCB1(arms=2, contexts=2)
    regret = {}
    for rule in (sp.Greedy(), sp.PaperMatching(), sp.ExactMatching()):
        for good in (0, 1):
            problem, budget = sp.problems.greedy_trap(adversary, good_arm=good)
            r = sp.simulate(problem, learner, rule, budget, rounds=T, runs=20)
            assert r.refused.sum() == 0
            regret[type(rule).__name__, good] = r.final_regret()[0]
    assert max(regret["Greedy", 0], regret["Greedy", 1]) >= 0.2 * T
    assert max(regret["PaperMatching", 0], regret["PaperMatching", 1]) <= 300
    assert max(regret["ExactMatching", 0], regret["ExactMatching", 1]) <= 100


def test_exact_matching_uses_the_budget():
    """Ten arms, a tenth of the feedback: at most 0.15 × the regret of the paper's rule and of greedy."""
    problem, learner = sp.problems.Arms([0.6] + [0.5] * 9), sp.UCB1(arms=10)
    exact, paper, greedy = (
        sp.simulate(problem, learner, rule, 10_000, rounds=T, runs=20).final_regret()[0]
        for rule in (sp.ExactMatching(), sp.PaperMatching(), sp.Greedy())
    )
    assert exact <= 0.15 * paper
    assert exact <= 0.15 * greedy


def test_asking_always_is_the_reference():
    """With a budget for every round, exact matching is UCB1: nothing is lost."""
    problem, learner = sp.problems.Arms([0.6] + [0.5] * 9), sp.UCB1(arms=10)
    always = sp.simulate(problem, learner, sp.Always(), sp.budgets.Linear(1), rounds=T, runs=20)
    exact = sp.simulate(problem, learner, sp.ExactMatching(), sp.budgets.Linear(10), rounds=T, runs=20)
    assert (exact.regret == always.regret).all()


ROOT = sp.budgets.Polynomial(0.5, scale=100)


def test_a_hundredth_of_the_rewards_is_enough_for_episodes():
    """Four random MDPs, a million episodes: regret ≤ 1.1 × that of asking always, with at most 3 % of the rewards."""
    learner, regret = sp.UCBVI(4, 2, 4, scale=0.05), {}
    for seed in range(4):
        problem = sp.problems.random_mdp(4, 2, 4, seed=seed)
        for rule, budget in ((sp.Always(), math.inf), (sp.ExactMatching(), ROOT), (sp.BalancedMatching(), ROOT)):
            r = sp.simulate(problem, learner, rule, budget, rounds=10**6, runs=2)
            name = type(rule).__name__
            regret[name] = regret.get(name, 0.0) + r.final_regret()[0]
            assert r.refused.sum() == 0
            assert name == "Always" or (r.asked[:, -1] <= 0.03 * 4 * 10**6).all()
    assert regret["ExactMatching"] <= 1.1 * regret["Always"]
    assert regret["BalancedMatching"] <= 1.1 * regret["Always"]


@pytest.mark.parametrize(
    "make", [partial(sp.UCBVI, scale=0.05), partial(sp.ULCVI, scale=0.005)], ids=["UCBVI", "ULCVI"]
)
def test_one_ask_an_episode_loses_nothing(make):
    """B(t) = t against B(t) = H·t, the remark after the paper's theorem on ULCVI: within 5 %, if always explored."""
    problem, learner = sp.problems.random_mdp(4, 2, 4, seed=0), make(4, 2, 4, ties="first")
    rule = sp.ExactMatching(explore="always")
    once, always = (
        sp.simulate(problem, learner, rule, sp.budgets.Linear(rate), rounds=200_000, runs=6) for rate in (1, 4)
    )
    assert once.final_regret()[0] <= 1.05 * always.final_regret()[0]
    assert once.asked[:, -1].max() <= 200_000 < always.asked[:, -1].min()


def test_sparse_rewards_need_a_sparse_budget():
    """Rewards in 5 % of 200 cells, one ask every 20 episodes: within 15 % of asking always, without knowing |L_R|.

    BalancedMatching too does better than the paper's rule that knows it.
    """
    problem = sp.problems.random_mdp(20, 2, 5, sparsity=0.05)
    assert problem.rewarding == 10
    learner = sp.UCBVI(20, 2, 5, scale=0.2, rewarding=10)
    always, exact, balanced, paper = (
        sp.simulate(problem, learner, rule, budget, rounds=200_000, runs=2).final_regret()[0]
        for rule, budget in (
            (sp.Always(), math.inf),
            (sp.ExactMatching(), sp.budgets.Linear(0.05)),
            (sp.BalancedMatching(), sp.budgets.Linear(0.05)),
            (sp.PaperMatching(), sp.budgets.Linear(0.05)),
        )
    )
    assert exact <= 1.15 * always
    assert balanced <= 1.3 * always
    assert max(exact, balanced) <= 0.9 * paper


def test_the_papers_constants_learn_in_the_end():
    """UCBVI with scale 1: a regret that is visibly concave in two million episodes."""
    problem = sp.problems.random_mdp(4, 2, 4, seed=0)
    r = sp.simulate(
        problem, sp.UCBVI(4, 2, 4), sp.Always(), math.inf, rounds=2 * 10**6, runs=2, checkpoints=10, spacing="linear"
    )
    slope = np.diff(r.regret.mean(axis=0), prepend=0.0)
    assert (np.diff(slope) < 0).all()
    assert slope[-1] < 0.2 * slope[0]
