"""The ledger: exact sums, hard limits, budgets that only grow."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparingly import InvalidInput, Ledger
from sparingly.ledger import UNIT, budget_in_units, cost_in_units, in_amounts


def test_tenths_add_up_exactly():
    ledger = Ledger(budget=0.3)  # in floating point 0.1 + 0.1 + 0.1 > 0.3
    assert [ledger.charge(0.1) for _ in range(4)] == [True, True, True, False]
    assert (ledger.spent, ledger.left, ledger.refused) == (0.3, 0.0, 1)


def test_free_asks_need_no_budget():
    ledger = Ledger(budget=0)
    assert ledger.charge(0.0)
    assert not ledger.charge(1e-6)


def test_infinite_budget():
    ledger = Ledger(budget=math.inf)
    assert all(ledger.charge(1e9) for _ in range(10_000))  # more than 64 bits of millionths
    assert ledger.granted == ledger.left == math.inf
    ledger.grant(5)
    assert ledger.granted == math.inf


def test_a_cost_just_above_one_is_rounded_up():
    ledger = Ledger(budget=1000)
    assert sum(ledger.charge(1.0000000009) for _ in range(1000)) == 999


def test_a_budget_just_below_one_is_rounded_down():
    ledger = Ledger(budget=0.9999991)
    assert (ledger.granted, ledger.charge(1.0)) == (0.999999, False)


@pytest.mark.parametrize("amount", [5e12, 10**400])
def test_finite_budgets_have_an_upper_limit(amount):
    with pytest.raises(InvalidInput):
        Ledger(budget=5).grant(amount)


@pytest.mark.parametrize("amount", [-1, math.nan, "3", None, True, -1e-9])
def test_bad_amounts_change_nothing(amount):
    ledger = Ledger(budget=5)
    for call in (ledger.grant, ledger.grant_to):
        with pytest.raises(InvalidInput, match="≥ 0"):
            call(amount)
    assert repr(ledger) == "Ledger(granted=5, spent=0, refused=0)"


def test_a_budget_never_shrinks():
    ledger = Ledger(budget=5)
    with pytest.raises(InvalidInput, match="only grows"):
        ledger.grant_to(4.5)
    assert ledger.granted == 5
    ledger.grant_to(6)
    assert ledger.granted == 6


@pytest.mark.parametrize("cost", [-1, math.nan, math.inf, 1e10, 1e-7, 1e-300])
def test_bad_costs(cost):
    with pytest.raises(InvalidInput, match="cost"):
        cost_in_units(cost)


COSTS = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))


@given(st.lists(st.tuples(st.floats(0, 1e6), COSTS), max_size=60))
def test_never_overspends_in_exact_arithmetic(steps):
    """Costs are rounded up and budgets down, so the true sum of costs stays within the true budget."""
    ledger, granted, spent = Ledger(), Fraction(0), Fraction(0)
    for grant, cost in steps:
        ledger.grant(grant)
        granted += Fraction(grant)
        if ledger.charge(cost):
            spent += Fraction(cost)
        # a value within two units in the last place of a millionth is taken for that millionth
        assert spent <= granted * (1 + Fraction(1, 10**15))
        assert 0 <= ledger.spent <= ledger.granted


@given(st.integers(0, 10**12))
def test_units_round_trip(millionths):
    assert int(budget_in_units(millionths / UNIT)) == millionths
    assert int(cost_in_units(min(millionths / UNIT, 1e9))) == min(millionths, 10**15)
    assert in_amounts(millionths) == millionths / UNIT
