"""B(t): how the budget grows. Schedules, random ones, those that depend on contexts, adaptive adversaries.

A budget opens a *tape* for each run, and the tape is read in blocks of rounds as millionths (see ledger.py).
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.errors import InvalidInput
from sparingly.history import History
from sparingly.interpreter import soon
from sparingly.ledger import ROUNDING, UNIT, UNLIMITED, Ledger, budget_in_units
from sparingly.numba_support import compiled
from sparingly.validation import number, table, whole

Integers = NDArray[np.int64]


TAPED, LINEAR, POLYNOMIAL, LATE, PERIODIC = range(5)  # how B(t) is known: from a tape, or by a formula


@compiled
def amount(formula: int, a: float, b: float, t: float) -> float:
    """B(t) of the schedules that have a formula."""
    if formula == LINEAR:
        return a * t
    if formula == POLYNOMIAL:
        return a * float(t**b)
    if formula == LATE:
        return a if t >= b else 0.0
    return a * (1.0 + math.floor(t / b))  # PERIODIC


_amount = soon(amount)  # for calls from Python


@compiled
def units_at(formula: int, a: float, b: float, t: int) -> int:
    """B(t) in millionths, rounded down as `budget_in_units` does."""
    scaled = amount(formula, a, b, float(t)) * UNIT * (1.0 + ROUNDING)
    return int(scaled) if scaled < UNLIMITED else UNLIMITED


@compiled
def write_down(formula: int, a: float, b: float, first: int, tape: Integers) -> None:
    """B(first), B(first + 1), … in millionths."""
    for j in range(tape.size):
        tape[j] = units_at(formula, a, b, first + j)


class BudgetTape(Protocol):
    """B(t) in millionths, for blocks of consecutive rounds read in order."""

    def take(self, first: int, count: int, contexts: Integers) -> Integers:
        """B(first), …, B(first + count − 1)."""
        ...


@dataclass(frozen=True)
class Budget:
    """What every budget has in common."""

    def tape(self, random: np.random.Generator) -> BudgetTape:
        """What this budget will be in one run."""
        raise InvalidInput(f"{type(self).__name__} depends on the run and cannot be listed in advance")

    @property
    def formula(self) -> tuple[int, float, float]:
        """The formula of B(t) and its parameters, or TAPED."""
        return (TAPED, 0.0, 0.0)

    @property
    def watches_contexts(self) -> bool:
        """Whether this budget must be drawn after the contexts."""
        return False


@dataclass(frozen=True)
class Schedule(Budget):
    """A budget that is a function of the round alone. To add one, write `__call__`."""

    def __call__(self, round: int) -> float:
        """B(round), for rounds ≥ 1."""
        return float(_amount(*self.formula, float(round)))

    def tape(self, random: np.random.Generator) -> BudgetTape:
        return _ScheduleTape(self)

    def follow(self, ledger: Ledger, round: int, before: int) -> int:
        """Let a ledger grow to B(round), grants on top of it kept; `before` and the result: B so far, in millionths."""
        units = int(budget_in_units(self(round)))
        if units < before:
            raise InvalidInput(f"a budget only grows, but {self!r} falls to {self(round):g} in round {round}")
        ledger.granted_units = min(ledger.granted_units + units - before, UNLIMITED)
        return units


@dataclass(frozen=True)
class _ScheduleTape:
    schedule: Schedule

    def take(self, first: int, count: int, contexts: Integers) -> Integers:
        if self.schedule.formula[0] == TAPED:
            return budget_in_units([self.schedule(t) for t in range(first, first + count)])
        tape = np.empty(count, dtype=np.int64)
        write_down(*self.schedule.formula, first, tape)
        return tape


@dataclass(frozen=True)
class ByClock(Budget):
    """Grows evenly with time: by `amount` every `every` seconds, a day by default.

    It is for agents only, because simulations have no clock. `start` is the moment from which it grows, in seconds
    since 1970; by default the moment at which the agent is made. It uses the clock of this machine. If that is set
    back, nothing grows until it has caught up.

    >>> ByClock(50, start=0.0).at(86_400.0)
    50.0
    """

    amount: float
    every: float = 86_400.0
    start: float | None = None

    def __post_init__(self) -> None:
        number(self.amount, "amount", least=0.0, most=1e12)
        number(self.every, "every, in seconds,", least=1e-6, most=1e12)
        if self.start is not None:
            number(self.start, "start, in seconds since 1970,")

    def started(self) -> ByClock:
        """The same, growing from now on unless its start was given."""
        return self if self.start is not None else dataclasses.replace(self, start=time.time())

    def at(self, now: float) -> float:
        """B at a moment, in seconds since 1970."""
        assert self.start is not None, "it has not started"
        return self.amount * max(now - self.start, 0.0) / self.every

    def follow(self, ledger: Ledger, round: int, before: int) -> int:
        """Let a ledger grow to B of now, grants on top of it kept; `before` and the result: B so far, in millionths."""
        units = max(int(budget_in_units(self.at(time.time()))), before)
        ledger.granted_units = min(ledger.granted_units + units - before, UNLIMITED)
        return units

    def tape(self, random: np.random.Generator) -> BudgetTape:
        raise InvalidInput("a simulation has no clock: give it budgets.Linear(rate), so much for each round")


@dataclass(frozen=True)
class Linear(Schedule):
    """B(t) = rate · t.

    >>> Linear(0.1)(50)
    5.0
    """

    rate: float

    def __post_init__(self) -> None:
        number(self.rate, "rate", least=0.0)

    @property
    def formula(self) -> tuple[int, float, float]:
        return (LINEAR, float(self.rate), 0.0)


@dataclass(frozen=True)
class Polynomial(Schedule):
    """B(t) = scale · t^power."""

    power: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        number(self.power, "power", least=0.0, most=16.0)
        number(self.scale, "scale", least=0.0, most=1e12)

    @property
    def formula(self) -> tuple[int, float, float]:
        return (POLYNOMIAL, float(self.scale), float(self.power))


@dataclass(frozen=True)
class Fixed(Schedule):
    """B(t) = amount, from the first round on; math.inf for no limit."""

    amount: float

    def __post_init__(self) -> None:
        number(self.amount, "amount", least=0.0, infinite=True)

    @property
    def formula(self) -> tuple[int, float, float]:
        return (LATE, float(self.amount), 0.0)  # late by nothing


@dataclass(frozen=True)
class Late(Schedule):
    """Nothing before round `start`, then `amount`."""

    amount: float
    start: int

    def __post_init__(self) -> None:
        number(self.amount, "amount", least=0.0, infinite=True)
        whole(self.start, "start")

    @property
    def formula(self) -> tuple[int, float, float]:
        return (LATE, float(self.amount), float(self.start))


@dataclass(frozen=True)
class Periodic(Schedule):
    """B(t) = amount · (1 + ⌊t/every⌋): replenished every so many rounds."""

    amount: float
    every: int

    def __post_init__(self) -> None:
        number(self.amount, "amount", least=0.0, infinite=True)
        whole(self.every, "every")

    @property
    def formula(self) -> tuple[int, float, float]:
        return (PERIODIC, float(self.amount), float(self.every))


class Sequence(Schedule):
    """B(1), B(2), … as given; the last value holds for all later rounds.

    >>> Sequence([1, 1, 5])(2), Sequence([1, 1, 5])(100)
    (1.0, 5.0)
    """

    values: NDArray[np.float64]

    __eq__ = object.__eq__  # by identity: arrays are not compared
    __hash__ = object.__hash__

    def __init__(self, values: ArrayLike) -> None:
        array = table(values, "a sequence of budgets", "(rounds,)")  # a copy: the caller's array may change later
        if array.ndim != 1 or array.size == 0:
            raise InvalidInput(f"a sequence of budgets must be a non-empty list of numbers, not shape {array.shape}")
        budget_in_units(array)  # refuses NaN and negative ones
        if (np.diff(array) < 0).any():
            t = int(np.argmax(np.diff(array) < 0)) + 2
            raise InvalidInput(f"a budget only grows, but B({t}) = {array[t - 1]:g} < B({t - 1}) = {array[t - 2]:g}")
        array.setflags(write=False)
        object.__setattr__(self, "values", array)

    def __call__(self, round: int) -> float:
        return float(self.values[min(round, self.values.size) - 1])

    def tape(self, random: np.random.Generator) -> BudgetTape:
        return _SequenceTape(budget_in_units(self.values))

    def __repr__(self) -> str:
        return f"Sequence({self.values.size} values up to {self.values[-1]:g})"


@dataclass(frozen=True)
class _SequenceTape:
    units: Integers

    def take(self, first: int, count: int, contexts: Integers) -> Integers:
        return self.units[np.minimum(np.arange(first - 1, first - 1 + count), self.units.size - 1)]


@dataclass(frozen=True)
class Bernoulli(Budget):
    """B grows by `amount` in each round with probability p."""

    p: float
    amount: float = 1.0

    def __post_init__(self) -> None:
        number(self.p, "p", least=0.0, most=1.0)
        number(self.amount, "amount", least=0.0, infinite=True)

    def tape(self, random: np.random.Generator) -> BudgetTape:
        return _GrowingTape(self.amount, lambda contexts, count: random.random(count) < self.p)


@dataclass(frozen=True)
class WhenContext(Budget):
    """B grows by `amount` whenever `context` comes up: the paper's adversarial budget against greedy."""

    context: int = 0
    amount: float = 1.0

    def __post_init__(self) -> None:
        whole(self.context, "context", least=0)
        number(self.amount, "amount", least=0.0, infinite=True)

    def tape(self, random: np.random.Generator) -> BudgetTape:
        return _GrowingTape(self.amount, lambda contexts, count: np.broadcast_to(contexts == self.context, (count,)))

    @property
    def watches_contexts(self) -> bool:
        return True


class _GrowingTape:
    """Counts the rounds in which the budget grows."""

    def __init__(self, amount: float, grows: Callable[[Integers, int], NDArray[np.bool_]]) -> None:
        self.step, self.grows, self.times = int(budget_in_units(amount)), grows, 0
        self.most = UNLIMITED // self.step if self.step > 0 else UNLIMITED

    def take(self, first: int, count: int, contexts: Integers) -> Integers:
        times = self.times + np.cumsum(self.grows(contexts, count), dtype=np.int64)
        self.times = int(times[-1])
        return np.where(times <= self.most, times * self.step, UNLIMITED)


@dataclass(frozen=True)
class Adaptive(Budget):
    """An adversary: `callback(history)` gives B(t), knowing all earlier rounds and this round's context.

    >>> budget = Adaptive(lambda history: history.granted + (history.context == 0))
    """

    callback: Callable[[History], float]

    @property
    def watches_contexts(self) -> bool:
        return True


def as_budget(budget: float | Budget) -> Budget:
    """A number means a fixed budget."""
    return budget if isinstance(budget, Budget) else Fixed(budget)


__all__ = [
    "Adaptive", "Bernoulli", "Budget", "ByClock", "Fixed", "Late", "Linear", "Periodic", "Polynomial", "Schedule",
    "Sequence", "WhenContext", "as_budget",
]  # fmt: skip
