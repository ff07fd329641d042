"""E7: where the paper's constant lets the rule for episodes overspend, and that 12 in its place never does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparingly as sp
from sparingly.theory import repair
from sparingly.theory.repair import REPAIRED, RepairedMatching, episode_bar, largest_variance, most_asks


def test_e7_is_as_narrow_as_it_is_said_to_be():
    """Of whole budgets, only B = 2M − 1 with M = 2 … 12 cells, one of them rewarding, and by one ask only."""
    found = {
        (M, R, B): most_asks(B, M, R, each=4) - B
        for M in range(1, 40)
        for R in range(1, M + 1)
        for B in range(max(1, M // 2), 3 * M + 2)
    }
    assert {case: over for case, over in found.items() if over > 0} == {(M, 1, 2 * M - 1): 1 for M in range(2, 13)}


@given(
    st.integers(1, 300), st.data(), st.floats(0, 1e5), st.floats(REPAIRED, 40), st.floats(1, 50)
)  # fmt: skip
def test_with_12_the_worst_case_never_overspends(cells, data, budget, each, log_term):
    """The lemma that docs/paper.md proves, for any budget, |L_R| (0 too) and L ≥ 1, played greedily."""
    rewarding = data.draw(st.integers(0, cells))
    assert most_asks(budget, cells, rewarding, each, log_term) <= budget


def test_the_steps_of_the_proof():
    """CI^R/L ≤ 2/sqrt(m) + 10/m; and whoever asks at all has B ≥ 1.2·M·(log(1+B)+1), so that 2/9 + 20/(12 l) ≤ 1."""
    for n in range(1, 200):
        for L in (1.0, 3.0, 30.0):
            width = 2 * math.sqrt(2 * largest_variance(n) / (L * n)) + 10 / n
            assert width <= 2 / math.sqrt(n) + 10 / n + 1e-12
    B = np.linspace(0.01, 100, 100_000)
    logs = np.log1p(B) + 1
    may_ask = 1.2 * logs <= B
    assert (2 / 9 + 20 / (12 * logs[may_ask]) <= 1).all()
    assert not (2 / 9 + 20 / (12 * logs[~may_ask]) <= 1).all()  # without the first condition it would not follow


def test_the_theorems_charge_for_12_what_they_charge():
    """3·CI^R of a declined step, summed over H steps, is 36 L·SAH²·(log(1+B)+1)/B and half of 36 L·sqrt(|L_R|H²/B)."""
    S, A, H, R, B = 3, 2, 4, 5, 1e6
    declined = 3 * H * episode_bar(B, S * A * H, R)
    stated = 36 * (math.sqrt(R * H**2 / B) + S * A * H**2 * (math.log1p(B) + 1) / B)
    root = 18 * math.sqrt(R * H**2 / B)
    assert declined == pytest.approx(stated - root)


def played(rule, budget, episodes, cells=5, seed=0):
    """One path of so many cells, over and over, with hostile answers."""
    agent = sp.Agent(sp.UCBVI(1, 1, cells, rewarding=1), rule, budget=budget, seed=seed)
    for t in range(episodes):
        asks = agent.decide_episode([0] * cells, [0] * cells)
        agent.observe_episode(np.where(asks, [t % 2] + [0] * (cells - 1), np.nan))
    return agent


def test_the_repaired_rule_in_an_agent():
    """The paper's rule is refused where it would overspend; the repaired one asks later, and is never refused."""
    assert played(sp.PaperMatching(), 9, 4).ledger.refused >= 1
    assert played(RepairedMatching(each=4.0), 9, 4).ledger.refused >= 1
    for budget in (9, 50, 120, 400, sp.budgets.Linear(3.0)):
        ledger = played(RepairedMatching(), budget, 60).ledger
        assert ledger.refused == 0
        if budget == 400:
            assert 5 < ledger.spent <= most_asks(400, 5, 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: most_asks(math.inf, 5, 1),
        lambda: most_asks(9, 0, 1),
        lambda: most_asks(9, 5, 6),
        lambda: episode_bar(-1, 5, 1),
        lambda: RepairedMatching(each=-1.0),
        lambda: repair.episode_bar(9, 5, 1, each=math.nan),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(sp.InvalidInput):
        call()
