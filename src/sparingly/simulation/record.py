"""What a run of a simulation leaves behind, and how a checkpoint is written into it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.ledger import Account
from sparingly.numba_support import inlined, record

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

SO_FAR = record(  # of a run, as its loop counts along
    mark=np.int64,  # the next place in the record
    asked=np.int64,
    regret=np.float64,
)


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


@inlined
def note(record: Record, so_far: Any, t: int, account: Account) -> None:
    """Write down where the run stands after round t, (1,) of SO_FAR, if that is the next checkpoint."""
    run = so_far[0]
    if is_due(record, run.mark, t):
        write(record, run.mark, run.regret, run.asked, account)
        run.mark += 1


is_due_now = getattr(is_due, "py_func", is_due)  # the same, for use from Python
write_now = getattr(write, "py_func", write)
