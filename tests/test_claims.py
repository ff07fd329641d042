"""What the project claims of its rules, measured: matching survives an adversary, exact matching uses the budget."""

from __future__ import annotations

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
