"""Budgets: each schedule's values, tapes in blocks, and bad parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sparingly as sp
from sparingly.budgets import as_budget
from sparingly.ledger import UNIT, budget_in_units
from tests.conftest import BUDGETS

ALL = [*BUDGETS, sp.budgets.WhenContext(1, amount=0.5), sp.budgets.Fixed(math.inf)]


def read(budget, sizes, contexts):
    """A tape read in blocks of these sizes, one number a round."""
    tape, values, first = budget.tape(np.random.default_rng(7)), [], 1
    for size in sizes:
        block = tape.take(first, size, contexts[first - 1 : first - 1 + size])
        values.append(np.broadcast_to(block, (size,)))
        first += size
    return np.concatenate(values)


@pytest.mark.parametrize("budget", ALL, ids=repr)
def test_tape_does_not_depend_on_blocks(budget):
    contexts = np.random.default_rng(1).integers(0, 2, 400)
    whole = read(budget, [400], contexts)
    np.testing.assert_array_equal(whole, read(budget, [1, 9, 90, 250, 50], contexts))
    assert (np.diff(whole) >= 0).all()
    if isinstance(budget, sp.budgets.Schedule):
        expected = [budget(t) for t in range(1, 401)]
        np.testing.assert_array_equal(whole, budget_in_units(expected))


class Doubling(sp.budgets.Schedule):
    """A schedule of one's own: it needs nothing but a value for each round."""

    def __call__(self, round):
        return 2 ** (round // 100)


def test_a_schedule_of_ones_own():
    assert (read(Doubling(), [250, 150], np.zeros(400, dtype=int)) / UNIT)[[0, 98, 99, 399]].tolist() == [1, 1, 2, 16]
    agent = sp.Agent(sp.UCB1(2), budget=Doubling(), seed=0)
    assert agent.ledger.granted == 1


def test_values_of_the_schedules():
    assert sp.budgets.Linear(0.25)(8) == 2
    assert sp.budgets.Polynomial(0.5, scale=3)(16) == 12
    assert [sp.budgets.Late(7, start=5)(t) for t in (4, 5)] == [0, 7]
    # B0 (1 + ⌊t/N⌋): the first replenishment is in round N
    assert [sp.budgets.Periodic(2, every=3)(t) for t in (1, 2, 3, 5, 6)] == [2, 2, 4, 4, 6]
    assert [sp.budgets.Sequence([0, 1, 4])(t) for t in (1, 2, 3, 9)] == [0, 1, 4, 4]


def test_bernoulli_grows_at_its_rate():
    """Binomial(100,000, 0.3): six standard deviations are 870; a false alarm has probability below 1e-8."""
    final = read(sp.budgets.Bernoulli(0.3), [100_000], np.zeros(100_000, dtype=int))[-1] / UNIT
    assert abs(final - 30_000) < 870


def test_when_context_counts_its_context():
    contexts = np.array([0, 1, 1, 0, 1])
    assert (read(sp.budgets.WhenContext(1), [5], contexts) / UNIT).tolist() == [0, 1, 2, 2, 3]


@pytest.mark.parametrize(
    "make",
    [
        lambda: sp.budgets.Linear(-1),
        lambda: sp.budgets.Linear(math.nan),
        lambda: sp.budgets.Linear("1"),
        lambda: sp.budgets.Polynomial(-0.5),
        lambda: sp.budgets.Fixed(-1),
        lambda: sp.budgets.Fixed(True),
        lambda: sp.budgets.Late(5, start=0),
        lambda: sp.budgets.Periodic(5, every=0),
        lambda: sp.budgets.Periodic(5, every=2.5),
        lambda: sp.budgets.Bernoulli(1.5),
        lambda: sp.budgets.Sequence([]),
        lambda: sp.budgets.Sequence([1, 2, 1.5]),
        lambda: sp.budgets.Sequence([1, math.nan]),
        lambda: sp.budgets.Sequence([[1, 2]]),
        lambda: sp.budgets.Sequence(["a"]),
        lambda: as_budget("much"),
    ],
)
def test_bad_parameters(make):
    with pytest.raises(sp.InvalidInput):
        make()


def test_shrinking_sequence_says_where():
    with pytest.raises(sp.InvalidInput, match=r"B\(3\) = 1 < B\(2\) = 2"):
        sp.budgets.Sequence([1, 2, 1])


def test_a_sequence_is_a_copy():
    values = np.array([1.0, 2.0])
    budget = sp.budgets.Sequence(values)
    values[:] = 0
    assert budget(2) == 2
