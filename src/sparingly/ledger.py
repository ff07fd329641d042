"""The hard budget: what was granted, what was spent, how often spending was refused. Pure, no I/O.

Amounts are kept as whole millionths, so that sums are exact: costs are rounded up to the next millionth,
budgets down, so that rounding can neither overspend nor refuse. Costs below a millionth are refused: rescale them
and the budget. A budget of infinity means no limit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.errors import InvalidInput
from sparingly.interpreter import soon
from sparingly.numba_support import compiled, inlined, record
from sparingly.protocol import Question, Units
from sparingly.validation import number

UNIT = 1_000_000  # one unit of budget, in millionths
UNLIMITED = 2**62  # what an infinite budget is in millionths; spending stops counting there
MOST_BUDGET = 4e12  # the largest finite budget
ROUNDING = 4.5e-16  # two units in the last place: 0.29 · 100 is meant to be 29
MOST_COST = 1e9  # the costs of all cells together stay below this, so that 16·C fits into 64 bits with room

ACCOUNT = record(granted=np.int64, spent=np.int64, refused=np.int64)  # the first two in millionths

Account = NDArray[Any]  # (1,) of ACCOUNT


def open_account() -> Account:
    """Nothing granted, nothing spent."""
    return np.zeros(1, dtype=ACCOUNT)


@compiled
def can_pay(account: Account, cost: int) -> bool:
    """Whether `cost` can still be paid: spent + cost ≤ B(t)."""
    return bool(account[0].granted >= UNLIMITED or account[0].spent + cost <= account[0].granted)


@compiled
def spend(account: Account, cost: int, times: int) -> None:
    """Count `times` payments that were checked before. Without a limit the sum stops at UNLIMITED."""
    if cost > 0:
        room = (UNLIMITED - account[0].spent) // cost
        account[0].spent = account[0].spent + times * cost if times <= room else UNLIMITED


@compiled
def refund(account: Account, cost: int) -> None:
    """Take one payment back; a sum that has stopped counting stays where it is."""
    if account[0].spent < UNLIMITED:
        account[0].spent -= cost


@compiled
def charge(account: Account, cost: int) -> bool:
    """Pay `cost` if the budget allows it; otherwise change nothing but the count of refusals."""
    if not can_pay(account, cost):
        account[0].refused += 1
        return False
    spend(account, cost, 1)
    return True


@inlined
def question_of(
    round: int, asked: int, width: float, cells: int, cost: int, total_cost: int, granted: int, spent: int,
    row: Any, step: Any, score: float, pace: Any, counts: Any, recalled: float = -1.0,
) -> Question:  # fmt: skip
    """A Question from amounts in millionths, which it has as people count them too."""
    return Question(
        round,
        asked,
        width,
        cost / UNIT,
        total_cost / UNIT,
        granted / UNIT if granted < UNLIMITED else math.inf,
        spent / UNIT if spent < UNLIMITED else math.inf,
        cells,
        Units(cost, total_cost, granted, spent),
        row,
        step,
        score,
        pace,
        counts,
        recalled,
    )


@inlined
def without_arrays(q: Question) -> Question:
    """The same Question without its arrays, which compiled code cannot return to Python."""
    return Question(
        q.round, q.asked, q.width, q.cost, q.total_cost, q.budget, q.spent, q.cells, q.units, q.row, None, q.score,
        None, None, q.recalled,
    )  # fmt: skip


def budget_in_units(amounts: ArrayLike) -> NDArray[np.int64]:
    """Budgets as whole millionths, rounded down; what is too large to count is no limit."""
    scaled = np.floor(np.asarray(amounts, dtype=np.float64) * UNIT * (1.0 + ROUNDING))
    if np.isnan(scaled).any() or (scaled < 0).any():
        raise InvalidInput(f"a budget must be a number ≥ 0, not {amounts!r}")
    return np.where(scaled < UNLIMITED, scaled, UNLIMITED).astype(np.int64)


def cost_in_units(costs: ArrayLike) -> NDArray[np.int64]:
    """Costs of asking as whole millionths, rounded up."""
    values = np.asarray(costs, dtype=np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise InvalidInput(f"a cost of asking must be a finite number ≥ 0, not {costs!r}")
    if values.sum() > MOST_COST:
        raise InvalidInput(f"the costs of asking add up to {values.sum():g}; at most {MOST_COST:g} is supported")
    if ((values > 0) & (values * UNIT < 1.0 - 1e-9)).any():
        raise InvalidInput(
            f"costs are counted in millionths, and {values[values > 0].min():g} is less; rescale costs and budget"
        )
    return np.ceil(values * UNIT * (1.0 - ROUNDING)).astype(np.int64)


def in_amounts(units: Any) -> Any:
    """Millionths as ordinary numbers (scalars or arrays)."""
    if isinstance(units, np.ndarray):
        return np.where(units >= UNLIMITED, np.inf, units / UNIT)
    return math.inf if units >= UNLIMITED else int(units) / UNIT


class Ledger:
    """The account of one agent. Budgets only grow; nothing is ever spent that was not granted.

    >>> ledger = Ledger(budget=2)
    >>> ledger.charge(1), ledger.charge(1), ledger.charge(1)
    (True, True, False)
    >>> ledger.spent, ledger.left, ledger.refused
    (2.0, 0.0, 1)
    """

    def __init__(self, budget: float = 0.0, account: Account | None = None) -> None:
        self.attach(open_account() if account is None else account)
        if account is None:
            self.grant_to(budget)

    def attach(self, account: Account) -> None:
        """Use this account from now on: the memory that holds it may have moved."""
        self.account = account
        self._granted, self._spent, self._refused = (account[name] for name in ("granted", "spent", "refused"))

    @property
    def granted_units(self) -> int:
        """B(t) in millionths. Setting it is for those who check it themselves."""
        return int(self._granted[0])

    @granted_units.setter
    def granted_units(self, units: int) -> None:
        self._granted[0] = units

    @property
    def spent_units(self) -> int:
        """What was spent, in millionths. Setting it is for those who check it themselves."""
        return int(self._spent[0])

    @spent_units.setter
    def spent_units(self, units: int) -> None:
        self._spent[0] = units

    @property
    def granted(self) -> float:
        """Everything that was ever granted: B(t)."""
        return float(in_amounts(self.granted_units))

    @property
    def spent(self) -> float:
        """Everything that was paid for asking."""
        return float(in_amounts(self.spent_units))

    @property
    def left(self) -> float:
        """What can still be spent."""
        if self.granted_units >= UNLIMITED:
            return math.inf
        return float(in_amounts(self.granted_units - self.spent_units))

    @property
    def refused(self) -> int:
        """How often a rule wanted to ask and the budget did not allow it."""
        return int(self._refused[0])

    def charge(self, cost: float) -> bool:
        """Pay for one ask, or refuse and count the refusal."""
        return bool(soon(charge)(self.account, int(cost_in_units(cost))))

    def grant(self, amount: float) -> None:
        """Add to the budget."""
        self.granted_units = min(UNLIMITED, self.granted_units + _one_budget(amount, "a grant"))

    def grant_to(self, total: float) -> None:
        """Raise the budget to `total`, everything granted before included. It can never shrink."""
        units = _one_budget(total, "a budget")
        if units < self.granted_units:
            raise InvalidInput(f"a budget only grows: it is {self.granted:g} already and cannot become {total:g}")
        self.granted_units = units

    def __getstate__(self) -> dict[str, Any]:
        return {"account": self.account}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.attach(state["account"])

    def __repr__(self) -> str:
        return f"Ledger(granted={self.granted:g}, spent={self.spent:g}, refused={self.refused})"


def _one_budget(amount: object, what: str) -> int:
    value = number(amount, what, least=0.0, infinite=True)
    if MOST_BUDGET < value < math.inf:
        raise InvalidInput(f"{what} must be at most {MOST_BUDGET:g}, or math.inf for no limit; not {value:g}")
    return int(budget_in_units(value))
