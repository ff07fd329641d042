"""What the tabular learners of this library have in common: their shape, their costs, how they break ties.

The mathematics of each is in its own file (ucb1.py, moss.py): a *level* that grows with time, computed once a
round, and an *index* per arm made of that level and of what the arm's answers have earned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units

UCB1_CODE, MOSS_CODE, CUSTOM_CODE = 0, 1, 2  # which formulas the compiled round uses
TIES = {"first": 0, "random": 1}  # the lowest index, or each of the best with equal probability


@dataclass(frozen=True, kw_only=True)
class TabularOptions:
    """Options shared by the tabular learners.

    `costs` is what asking costs, per arm (A,) or per cell (S, A); None means 1 each. `scale` multiplies the
    exploration bonus (1 is the paper's) and never touches the budget. `ties` is "first" or "random".
    """

    costs: Any = None
    scale: float = 1.0
    ties: str = "first"


@dataclass(frozen=True)
class TabularLearner(TabularOptions):
    """One estimate per cell: `arms` actions in each of `contexts` contexts."""

    arms: int
    contexts: int = 1

    def __post_init__(self) -> None:
        for name in ("arms", "contexts"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise InvalidInput(f"{name} must be a whole number ≥ 1, not {count!r}")
            object.__setattr__(self, name, int(count))
        if not (0.0 <= self.scale < math.inf):
            raise InvalidInput(f"scale must be a finite number ≥ 0, not {self.scale!r}")
        if self.ties not in TIES:
            raise InvalidInput(f"ties must be 'first' or 'random', not {self.ties!r}")
        if self.costs is not None:
            object.__setattr__(self, "costs", full_costs(self.costs, self.contexts, self.arms).tolist())

    @property
    def code(self) -> int:
        """Which compiled formulas serve this learner."""
        raise NotImplementedError  # each learner names its own

    @property
    def parameters(self) -> tuple[float, float]:
        """(scale, α): the numbers that the formulas take."""
        return (float(self.scale), 0.0)


def full_costs(costs: Any, contexts: int, arms: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Costs of asking for every cell, (S, A), from None, (A,) or (S, A)."""
    if costs is None:
        return np.ones((contexts, arms))
    try:
        values = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"costs must be numbers of shape ({arms},) or ({contexts}, {arms}): {error}") from None
    if values.shape not in ((arms,), (contexts, arms)):
        raise InvalidInput(f"costs must have shape ({arms},) or ({contexts}, {arms}), not {values.shape}")
    cost_in_units(values)  # refuses negative, NaN, infinite and too large ones
    return np.ascontiguousarray(np.broadcast_to(values, (contexts, arms)))
