"""The rules: their limits on counts against the conditions of the paper, the corrections, and their parameters."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sparingly as sp
from sparingly.ledger import UNIT, UNLIMITED
from sparingly.numba_support import from_python
from sparingly.protocol import Units
from sparingly.tabular.round import cell_width as width


def ask(rule: sp.QueryRule, asked: int, budget: float, total: float, cost: float = 1.0, t: int = 9, M: int = 4) -> bool:
    return rule.asks(sp.Question(t, asked, width(asked, t, M), cost, total, budget, 0.0, M))


@given(st.integers(0, 300), st.integers(0, 20_000), st.integers(1, 50), st.integers(1, 10**6), st.integers(2, 100))
def test_paper_matching_is_its_interval_form(asked, budget, total, t, M):
    """E1 and E3: CI = sqrt(6 log(Mt)/(n ∨ 1)) ≥ 4 sqrt(6 log(Mt) C/B); rounding may only decide exact equality."""
    ci = math.sqrt(6 * math.log(M * t) / max(asked, 1))
    bar = 4 * math.sqrt(6 * math.log(M * t) * total / budget) if budget else math.inf
    assume(abs(ci - bar) > 1e-9 * ci or 16 * total * max(asked, 1) == budget)
    expected = ci >= bar or 16 * total * max(asked, 1) == budget
    assert ask(sp.PaperMatching(), asked, budget, total, t=t, M=M) == expected


def test_e1_the_count_form_of_the_paper_is_not_its_interval_form():
    """The paper's "alternatively n ≤ B/(4C)" would ask where the interval form does not."""
    assert not ask(sp.PaperMatching(), asked=20, budget=100, total=1)
    assert 20 <= 100 / 4


def test_e2_the_better_rule_of_the_papers_remark_overspends():
    """n ≤ B/C + c asks every cell twice too often: two arms of cost 1 under B = 2 are asked 2·3 = 6 times."""
    asks = sum(n <= 2 / 2 + 1 for _ in range(2) for n in range(10))
    assert asks > 2
    assert sum(ask(sp.ExactMatching(), n, budget=2, total=2) for _ in range(2) for n in range(10)) == 2


@given(st.integers(0, 10**6), st.integers(0, 10**9), st.integers(1, 10**4))
def test_exact_matching_is_r1(asked, budget, total):
    assert ask(sp.ExactMatching(), asked, budget, total) == ((asked + 1) * total <= budget)
    exactly = (asked + 1) * total
    assert ask(sp.ExactMatching(), asked, exactly, total) and not ask(sp.ExactMatching(), asked, exactly - 1e-6, total)


@given(st.integers(0, 300), st.integers(0, 20_000), st.integers(1, 50))
def test_generic_matching_contains_the_papers(asked, budget, total):
    generic = sp.Matching(alpha=4 * math.sqrt(6 * total), beta=0.5)
    assert ask(generic, asked, budget, total) == ask(sp.PaperMatching(), asked, budget, total)


@given(st.integers(0, 300), st.floats(0.01, 1e5), st.floats(0.1, 50), st.floats(0, 1))
def test_generic_matching_is_its_interval_form(asked, budget, alpha, beta):
    t, M = 9, 4
    budget = math.floor(budget * UNIT + 1e-3) / UNIT
    ci = math.sqrt(6 * math.log(M * t) / max(asked, 1))
    bar = alpha * math.sqrt(math.log(M * t)) * budget ** (beta - 1)
    assume(abs(ci - bar) > 1e-6 * ci)
    assert ask(sp.Matching(alpha, beta), asked, budget, 1.0) == (ci >= bar)


@pytest.mark.parametrize(("alpha", "beta", "budget"), [(0.5, 0.5, 16), (2.0, 0.25, 81), (1.0, 1.0, 5)])
def test_generic_matching_with_features_is_its_bar(alpha, beta, budget):
    """‖x‖ ≥ α B^(β−1), as a threshold on the widths 2·l·‖x‖."""
    agent = sp.Agent(sp.OFUL(2), sp.Matching(alpha, beta), budget=budget, seed=0)
    assert agent.threshold == pytest.approx(2 * agent.radius * alpha * budget ** (beta - 1))


def limit(rule: sp.Rule, granted: int, total: int) -> int:
    """The limit on counts of a rule, for amounts in millionths."""
    question = sp.Question(9, 0, 1.0, 1.0, 1.0, 1.0, 0.0, 4, Units(UNIT, total, granted, 0))
    return from_python(rule.functions["limit"])(rule.parameters, question)


LIMITED = [sp.ExactMatching(), sp.PaperMatching(), sp.Matching(2.0, 0.3)]


@given(st.sampled_from(LIMITED), st.integers(0, 10**15), st.integers(0, 10**12), st.integers(1, 10**9))
def test_limits_never_fall_as_the_budget_grows(rule, granted, more, total):
    """The simulator's bisection rests on it."""
    assert limit(rule, granted, total) <= limit(rule, granted + more, total)


def test_no_budget_means_no_ask_and_free_asks_are_free():
    for rule in (sp.PaperMatching(), sp.ExactMatching(), sp.Matching(0.1), sp.Matching(0.1, beta=1.0)):
        assert not ask(rule, 0, budget=0, total=4)
    assert ask(sp.ExactMatching(), 10**6, budget=0, total=4, cost=0.0)
    assert ask(sp.PaperMatching(), 10**6, budget=0, total=0, cost=0.0)
    assert not ask(sp.Greedy(), 0, budget=0.5, total=4)
    assert ask(sp.Greedy(), 0, budget=1, total=4)


def test_infinite_budgets_ask_always():
    for rule in (sp.PaperMatching(), sp.ExactMatching(), sp.Matching(5.0, beta=0.9)):
        assert ask(rule, 10**9, budget=math.inf, total=4)
    assert limit(sp.Matching(1.0), UNLIMITED, 1) == UNLIMITED


@pytest.mark.parametrize(
    "make",
    [
        lambda: sp.Matching(0),
        lambda: sp.Matching(math.inf),
        lambda: sp.Matching(math.nan),
        lambda: sp.Matching("a"),
        lambda: sp.Matching(1, beta=1.1),
        lambda: sp.Greedy(policies=0),
        lambda: sp.Greedy(policies=1.5),
        lambda: sp.Greedy(policies=True),
    ],
)
def test_bad_parameters(make):
    with pytest.raises(sp.InvalidInput):
        make()


@pytest.mark.parametrize(("budget", "costs"), [(40, None), (1, None), (2, None), (0, [0, 1]), (3, [0, 1])])
def test_the_threshold_says_when_asking_stops(budget, costs):
    agent = sp.Agent(sp.UCB1(arms=2, costs=costs), rule=sp.ExactMatching(), budget=budget, seed=0)
    for _ in range(200):
        d = agent.decide()
        assert d.ask == (d.width >= d.threshold)
        if d.ask:
            agent.observe(d.id, 0.5)
