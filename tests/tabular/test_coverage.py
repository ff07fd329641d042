"""What the interval of each learner for arms promises, over 2,000 runs in which asks are skipped to make it fail."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sparingly as sp
from sparingly.numba_support import from_python
from sparingly.tabular.learners import LEARNERS

RUNS, ROUNDS, ARMS = 2_000, 60, 6


def ends(learner: Any, estimates: Any, rounds: int) -> np.ndarray:
    """The intervals (…, 2) that rules see: the learner's own, or its index and the mirror image of it."""
    functions, numbers = learner.functions, learner.parameters
    level = from_python(functions["level"])(numbers, max(rounds, 1))
    found = []
    for estimate in estimates:
        if "bounds" in functions:
            found.append(from_python(functions["bounds"])(numbers, estimate, level))
        else:
            high = from_python(functions["index"])(numbers, estimate, level)
            found.append((2 * estimate.average - high if estimate.average < math.inf else -math.inf, high))
    return np.array(found)


def wrong_runs(learner: Any, explore: str, from_prior: bool, at_the_end: bool) -> tuple[int, int]:
    """In how many runs an interval was ever wrong, or is at the end; and in how many cells it is at the end."""
    random, ever, cells = np.random.default_rng(3), 0, 0
    for _ in range(RUNS):
        truth = random.random(ARMS) if from_prior else random.choice([0.02, 0.1, 0.5, 0.9], ARMS)
        agent = sp.Agent(learner, sp.Always(explore=explore), budget=1e6, seed=0)
        family, wrong = agent._family, np.zeros(ARMS, dtype=bool)
        for t in range(1, ROUNDS + 1):
            arm = int(random.integers(ARMS)) if t > ARMS else t - 1
            family._open(0, False)
            _, ending, _ = family._close(0, arm, not wrong[arm], False)  # skipped where it is wrong already
            if ending == 1:
                family.learn(family._ticket(0, arm), float(random.random() < truth[arm]))
            looked = slice(None) if at_the_end else slice(arm, arm + 1)  # without an answer intervals only grow
            if not at_the_end or t == ROUNDS:
                found = ends(learner, family.memory.estimates[looked], t)
                now = (found[:, 0] > truth[looked] + 1e-12) | (found[:, 1] < truth[looked] - 1e-12)
                wrong[looked] |= now
        ever += bool(wrong.any())
        cells += int(now.sum())
    return ever, cells


def kl_ucb_bound(rounds: int) -> float:
    """Garivier and Cappé (2011), Theorem 10: e·⌈δ log t⌉·exp(−δ) for each side, with δ = log t + 3 log log t."""
    delta = math.log(rounds) + 3 * math.log(math.log(rounds))
    return math.e * math.ceil(delta * math.log(rounds)) * math.exp(-delta)


UNION = math.pi**2 / (3 * ARMS**2)  # Σ over t, arms and counts n ≤ t of Hoeffding's 2·(Mt)^-3
PROMISES: dict[str, tuple[Any, float, bool]] = {  # the learner; how often it may be wrong; whether at all times at once
    "UCB1": (sp.UCB1(ARMS), UNION, True),
    "EpsilonGreedy": (sp.EpsilonGreedy(ARMS), UNION, True),
    "BettingUCB": (sp.BettingUCB(ARMS, delta=0.05), 0.05, True),
    "KLUCB": (sp.KLUCB(ARMS, c=3.0), 2 * ARMS * kl_ucb_bound(ROUNDS), False),
    "Thompson": (sp.Thompson(ARMS), 0.25, False),  # of cells, if the truth is drawn from the prior: Chebyshev
}
NO_INTERVAL = {"MOSS"}  # its bonus is 0 once n > t/A: it is an index, and rules use UCB1's interval for widths


def test_every_learner_has_its_promise():
    assert PROMISES.keys() | NO_INTERVAL == {learner.__name__ for learner in LEARNERS}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISES)
def test_intervals_hold_however_asks_are_skipped(name):
    """More misses than a true rate as promised would have with a probability of 1e-7 are an alarm."""
    learner, promised, at_once = PROMISES[name]
    bayes = name == "Thompson"
    runs, cells = wrong_runs(learner, "always", from_prior=bayes, at_the_end=not at_once)
    found, size = (cells, RUNS * ARMS) if bayes else (runs, RUNS)
    assert found <= stats.binom.isf(1e-7, size, min(promised, 1.0))
    narrow = dataclasses.replace(learner, scale=0.4 if bayes else 0.25)
    runs, cells = wrong_runs(narrow, "always", from_prior=bayes, at_the_end=not at_once)
    assert (cells if bayes else runs) > stats.binom.isf(1e-7, size, min(promised, 1.0)), "this test cannot fail"


@pytest.mark.slow
def test_bets_hold_where_a_rule_explores_by_asks_too():
    """There the mean that is compared has one answer more; the interval has not."""
    runs, _ = wrong_runs(sp.BettingUCB(ARMS, delta=0.05), "asked", from_prior=False, at_the_end=False)
    assert runs <= stats.binom.isf(1e-7, RUNS, 0.05)
