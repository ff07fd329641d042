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
    assert all(ledger.charge(1e6) for _ in range(100))
    assert ledger.granted == ledger.left == math.inf
    ledger.grant(5)
    assert ledger.granted == math.inf


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


@pytest.mark.parametrize("cost", [-1, math.nan, math.inf, 1e10])
def test_bad_costs(cost):
    with pytest.raises(InvalidInput, match="cost"):
        cost_in_units(cost)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), max_size=60))
def test_never_overspends_in_exact_arithmetic(steps):
    """Costs are rounded up and budgets down, so the true sum of costs stays within the true budget."""
    ledger, granted, spent = Ledger(), Fraction(0), Fraction(0)
    for grant, cost in steps:
        ledger.grant(grant)
        granted += Fraction(grant)
        if ledger.charge(cost):
            spent += Fraction(cost)
        # a value within 1e-9 of a millionth is taken for that millionth
        assert spent <= granted + 2 * len(steps) * Fraction(1, 10**9)
        assert 0 <= ledger.spent <= ledger.granted


@given(st.integers(0, 10**12))
def test_units_round_trip(millionths):
    assert int(budget_in_units(millionths / UNIT)) == millionths
    assert int(cost_in_units(min(millionths / UNIT, 1e9))) == min(millionths, 10**15)
    assert in_amounts(millionths) == millionths / UNIT
