"""What a run of a simulation leaves behind, and how a checkpoint is written into it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.ledger import Account
from sparingly.numba_support import inlined

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Record(NamedTuple):
    """The state of a run at certain rounds, the checkpoints (K,), and the plays of each cell (M,)."""

    rounds: Integers
    regret: Floats
    asked: Integers
    spent: Integers  # in millionths
    budget: Integers  # in millionths
    plays: Integers


def new_record(checkpoints: Integers, cells: int) -> Record:
    """An empty record."""
    asked, spent, budget = (np.zeros(checkpoints.size, dtype=np.int64) for _ in range(3))
    return Record(checkpoints, np.zeros(checkpoints.size), asked, spent, budget, np.zeros(cells, dtype=np.int64))


@inlined
def is_due(record: Record, mark: int, t: int) -> bool:
    """Whether round t is the checkpoint number `mark`."""
    return bool(mark < record.rounds.size and t == record.rounds[mark])


@inlined
def write(record: Record, mark: int, regret: float, asked: int, account: Account) -> None:
    """Write down where the run stands at a checkpoint."""
    record.regret[mark] = regret
    record.asked[mark] = asked
    record.spent[mark] = account[0].spent
    record.budget[mark] = account[0].granted


is_due_now = getattr(is_due, "py_func", is_due)  # the same, for use from Python
write_now = getattr(write, "py_func", write)
