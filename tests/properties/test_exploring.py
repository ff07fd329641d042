"""What exploring only where one can ask is worth, and what happens to asks that nobody answers, or late.

Each figure is a mean over fixed seeds, far from its bar: what would be caught is a rule that explores in vain, plays
what nobody answers about, or lets one context starve the others.
"""

from __future__ import annotations

import numpy as np
import pytest

import sparingly as sp

RULES = [sp.BalancedMatching(), sp.ExactMatching(), sp.Always()]


def final(problem, learner, rule, budget, rounds, runs=20):
    result = sp.simulate(problem, learner, rule, budget, rounds=rounds, runs=runs, seed=1, checkpoints=1)
    assert rule.__class__ is sp.Always or result.refused.sum() == 0
    return float(result.regret[:, -1].mean())


def played(agent, means, rounds, late=0, silent=(), seed=0):
    """The expected reward of each round; answers come `late`, and never for the arms that are `silent`."""
    random, coming, earned = np.random.default_rng(seed), [], []
    for t in range(rounds):
        while coming and coming[0][0] <= t:
            _, number, reward = coming.pop(0)
            agent.observe(number, reward)
        d = agent.decide()
        earned.append(means[d.action])
        if d.ask and d.action not in silent:
            coming.append((t + late, d.id, float(random.random() < means[d.action])))
    return np.array(earned)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("ties", ["first", "random"])
@pytest.mark.parametrize("learner", [sp.UCB1, sp.MOSS])
def test_an_arm_that_nobody_answers_about_is_left_alone(learner, ties, rule):
    for seed in range(3):
        agent = sp.Agent(learner(3, ties=ties), rule, budget=300, seed=seed)
        earned = played(agent, [0.1, 0.5, 0.7], 5_000, silent={0}, seed=seed)
        assert earned[-1_000:].mean() >= 0.95 * 0.7
        assert agent.asked[0, 0] > agent.answered[0, 0] == 0


@pytest.mark.parametrize("rule", RULES[:2], ids=repr)
@pytest.mark.parametrize(("late", "least"), [(0, 0.78), (200, 0.75), (500, 0.70)])
def test_late_answers_cost_little(rule, late, least):
    agents = (sp.Agent(sp.UCB1(3), rule, budget=100, seed=seed) for seed in range(20))
    earned = [played(agent, [0.3, 0.5, 0.8], 2_000, late, seed=seed).mean() for seed, agent in enumerate(agents)]
    assert np.mean(earned) >= least


def test_pending_asks_narrow_what_is_explored_but_not_what_is_known():
    agent = sp.Agent(sp.UCB1(2, ties="first"), sp.Always(), budget=10, seed=0)
    asks = [agent.decide() for _ in range(8)]
    assert np.bincount([d.action for d in asks]).tolist() == [4, 4]  # alike, though nothing was answered
    assert np.isnan(agent.means).all()
    before = agent.indices()
    agent.observe(asks[0].id, 1.0)
    # The mean rests on answers; the bonus, and the weight of the 1 that counts as one answer more, on asks.
    assert agent.indices()[0] == pytest.approx(before[0] + 4 / 5)


def test_out_of_budget_the_best_estimate_is_played():
    ten = sp.problems.Arms([0.6] + [0.5] * 9)
    asked = final(ten, sp.UCB1(10), sp.Always(), 10_000, 100_000)
    always = final(ten, sp.UCB1(10), sp.Always(explore="always"), 10_000, 100_000)
    assert asked < 700 < 9_000 < always
    assert final(ten, sp.UCB1(10, scale=0.3), sp.BalancedMatching(), 10_000, 100_000, runs=40) <= 150


@pytest.mark.parametrize("adversary", ["contexts", "budget"])
@pytest.mark.parametrize("ties", ["first", "random"])
def test_the_papers_traps_do_not_catch_it(adversary, ties):
    trap, budget = sp.problems.greedy_trap(adversary)
    assert final(trap, sp.UCB1(2, 2, ties=ties), sp.BalancedMatching(), budget, 20_000) <= 100


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_contexts_that_come_late_are_not_starved(scale):
    random, rounds = np.random.default_rng(0), 100_000
    early, late = random.integers(25, size=rounds), 25 + random.integers(25, size=rounds)
    contexts = sp.contexts.Given(np.where(np.arange(rounds) < rounds // 4, early, late))
    problem = sp.problems.ContextualArms(random.random((50, 5)), contexts)
    learner = sp.UCB1(5, 50, scale=scale)
    ours, exact = (final(problem, learner, rule, 20_000, rounds) for rule in RULES[:2])
    assert ours <= 2.2 * exact


@pytest.mark.slow
def test_episodes_explore_rewards_only_where_one_can_ask():
    """UCBVI with its own bonus, twenty asks a cell: at most half of the regret, on average over three sizes."""
    ratios = []
    for S, A, H in ((4, 2, 4), (6, 3, 4), (8, 3, 5)):
        problems, learner = [sp.problems.random_mdp(S, A, H, seed=seed) for seed in range(4)], sp.UCBVI(S, A, H)
        asked, always = (
            sum(final(p, learner, sp.ExactMatching(explore=e), 20 * learner.cells, 500_000, runs=1) for p in problems)
            for e in ("asked", "always")
        )
        ratios.append(asked / always)
    assert np.mean(ratios) <= 0.5


@pytest.mark.parametrize("rule", [*RULES, sp.PaperMatching(), sp.Greedy(), sp.Never()], ids=repr)
@pytest.mark.parametrize("contexts", [1, 4])
def test_decisions_say_why(rule, contexts):
    agent, random = sp.Agent(sp.UCB1(3, contexts), rule, sp.budgets.Linear(0.2), seed=0), np.random.default_rng(0)
    for _ in range(300):
        refused = agent.ledger.refused
        d = agent.decide(int(random.integers(contexts)))
        assert d.ask == ("Not asked" not in d.reason)
        assert ("Explored" in d.reason) == d.ask or rule.explore == "always"
        assert ("cannot pay" in d.reason) == (agent.ledger.refused > refused or (not d.ask and rule == sp.Greedy()))
        if d.ask:
            agent.observe(d.id, float(random.random() < 0.5))
