"""Thompson sampling and ε-greedy: what is drawn has the right law, alike compiled and interpreted, with any rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import sparingly as sp
from sparingly.numba_support import from_python
from sparingly.tabular import thompson
from sparingly.tabular.learner import ESTIMATE

ALARM = 1e-7  # the probability of a false alarm of each test of a law


def samples(learner: sp.Thompson, total: float, answers: int, count: int = 20_000) -> np.ndarray:
    """Draws for an arm with these answers."""
    estimate, stream = np.zeros(1, dtype=ESTIMATE), np.array([7], dtype=np.uint64)
    estimate["average"], estimate["offset"], estimate["total"] = total / max(answers, 1), answers, total
    draw = from_python(thompson.sample)
    return np.array([draw(learner.parameters, estimate[0], 0.0, stream) for _ in range(count)])


@pytest.mark.parametrize(("total", "answers"), [(0.0, 0), (3.0, 4), (0.0, 30), (61.5, 100)])
def test_beliefs_are_beta(total, answers):
    learner = sp.Thompson(2, a=2.0, b=0.5)
    law = stats.beta(2 + total, 0.5 + answers - total)
    assert stats.kstest(samples(learner, total, answers), law.cdf).pvalue > ALARM
    wrong = stats.beta(1 + total, 1.5 + answers - total)  # another prior is noticed
    assert answers > 10 or stats.kstest(samples(learner, total, answers), wrong.cdf).pvalue < ALARM


@pytest.mark.parametrize(("total", "answers"), [(0.0, 0), (3.0, 4), (61.5, 100)])
def test_with_a_noise_beliefs_are_normal(total, answers):
    """The prior is one answer of ½; `scale` stretches the deviation."""
    law = stats.norm((total + 0.5) / (answers + 1), 0.5 * 0.3 / math.sqrt(answers + 1))
    drawn = samples(sp.Thompson(2, noise=0.3, scale=0.5), total, answers)
    assert stats.kstest(drawn, law.cdf).pvalue > ALARM
    assert stats.kstest(samples(sp.Thompson(2, noise=0.3), total, answers), law.cdf).pvalue < ALARM


def test_the_index_stands_for_an_upper_bound():
    """The belief's mean and two deviations: 97 or 98 of a hundred draws are below."""
    agent = sp.Agent(sp.Thompson(1), sp.Always(), budget=100, seed=0)
    for reward in [1.0] * 30 + [0.0] * 20:
        agent.observe(agent.decide().id, reward)
    drawn = samples(sp.Thompson(1), 30.0, 50)
    assert 0.96 < (drawn < agent.indices()[0]).mean() < 0.99


def plain_thompson(means: list[float], rounds: int, seed: int) -> float:
    """The regret of Thompson sampling written down anew with numpy."""
    random, wins, losses, regret = np.random.default_rng(seed), np.ones(len(means)), np.ones(len(means)), 0.0
    for _ in range(rounds):
        a = int(np.argmax(random.beta(wins, losses)))
        won = random.random() < means[a]
        wins[a] += won
        losses[a] += not won
        regret += max(means) - means[a]
    return regret


def test_it_agrees_with_an_independent_implementation():
    """Mean regret over 200 runs each: two means of one law differ by less than 5.3 standard errors but for 1e-7."""
    means = [0.5, 0.6, 0.7]
    ours = sp.simulate(
        sp.problems.Arms(means), sp.Thompson(3), sp.Always(), np.inf, rounds=1_000, runs=200, checkpoints=1, seed=1
    ).regret[:, -1]
    theirs = np.array([plain_thompson(means, 1_000, seed) for seed in range(200)])
    error = math.hypot(ours.std(ddof=1), theirs.std(ddof=1)) / math.sqrt(200)
    assert abs(ours.mean() - theirs.mean()) < 5.3 * error
    assert 5.3 * error < 0.45 * theirs.mean()  # so half as much again would be noticed


@pytest.mark.parametrize("learner", [sp.Thompson(3), sp.EpsilonGreedy(3), sp.KLUCB(3)], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("rule", [sp.BalancedMatching(), sp.ExactMatching(), sp.Greedy()], ids=str)
def test_an_arm_that_nobody_answers_about_is_not_played_for_ever(learner, rule):
    agent, plays = sp.Agent(learner, rule, budget=300, seed=3), []
    for _ in range(3_000):
        d = agent.decide()
        plays.append(d.action)
        if d.ask and d.action != 0:
            agent.observe(d.id, float(agent._family.memory.random[0] % np.uint64(10) < (0, 7, 3)[d.action]))
    assert agent.ledger.spent <= 300 and agent.ledger.refused == 0
    if not isinstance(rule, sp.Greedy):  # Algorithm 1 plays past policies
        rest = 0.06 if isinstance(learner, sp.EpsilonGreedy) else 0.01  # it explores for as long as it may ask
        assert np.mean(np.array(plays[-500:]) == 0) < rest


def test_epsilon_greedy_explores_as_often_as_it_says():
    """Both arms are alike to the eye: arm 0 has the better mean, and is left in ε/2 of the rounds."""
    r = sp.simulate(
        sp.problems.Arms([1.0, 0.0], rewards="fixed"), sp.EpsilonGreedy(2, epsilon=0.3), sp.Always(), np.inf,
        rounds=100_000, runs=1, seed=0,
    )  # fmt: skip
    assert r.plays[0, 0, 1] / 100_000 == pytest.approx(0.15, abs=0.0065)  # 5.7 deviations: a false alarm is below 1e-7


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sp.Thompson(2, a=0.0), "a, a pseudo-count"),
        (lambda: sp.Thompson(2, b=math.nan), "b, a pseudo-count"),
        (lambda: sp.Thompson(2, noise=-1.0), "noise"),
        (lambda: sp.EpsilonGreedy(2, epsilon=1.5), "epsilon"),
        (lambda: sp.KLUCB(2, c=-1.0), "c must"),
    ],
)
def test_parameters_are_checked(make, said):
    with pytest.raises(sp.InvalidInput, match=said):
        make()
