"""What the tabular learners of this library have in common: their shape, their costs, how they break ties.

The mathematics of each is in its own file (ucb1.py, moss.py): a *level* that grows with time, computed once a
round, and an *index* per arm made of that level and of what the arm's answers have earned.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeGuard

import numpy as np

from sparingly.checks import choice, number, table, whole
from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units

UCB1_CODE, MOSS_CODE, CUSTOM_CODE = 0, 1, 2  # which formulas the compiled round uses
TIES = {"first": 0, "random": 1}  # the lowest index, or each of the best with equal probability


@dataclass(frozen=True)
class TabularLearner:
    """One estimate per cell: `arms` actions in each of `contexts` contexts.

    `costs` is what asking costs, per arm (A,) or per cell (S, A); None means 1 each. `scale` multiplies the
    exploration bonus (1 is the paper's) and never touches the budget. `ties` is "first" or "random".
    """

    arms: int
    contexts: int = 1
    _: KW_ONLY
    costs: Any = None
    scale: float = 1.0
    ties: str = "first"

    def __post_init__(self) -> None:
        for name in ("arms", "contexts"):
            object.__setattr__(self, name, whole(getattr(self, name), name))
        check_scale(self.scale)
        choice(self.ties, "ties", TIES)
        if self.costs is not None:
            table_of_costs = full_costs(self.costs, self.contexts, self.arms)
            object.__setattr__(self, "costs", tuple(map(tuple, table_of_costs.tolist())))

    @property
    def code(self) -> int:
        """Which compiled formulas serve this learner."""
        raise InvalidInput(f"{type(self).__name__} names no code; a learner of your own needs no base class")

    @property
    def parameters(self) -> tuple[float, float]:
        """(scale, α): the numbers that the formulas take."""
        return (float(self.scale), 0.0)


def full_costs(costs: Any, contexts: int, arms: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Costs of asking for every cell, (S, A), from None, (A,) or (S, A)."""
    if costs is None:
        return np.ones((contexts, arms))
    values = table(costs, "costs", f"({arms},) or ({contexts}, {arms})")
    if values.shape not in ((arms,), (contexts, arms)):
        raise InvalidInput(f"costs must have shape ({arms},) or ({contexts}, {arms}), not {values.shape}")
    cost_in_units(values)  # refuses negative, NaN, infinite and too large ones
    return np.ascontiguousarray(np.broadcast_to(values, (contexts, arms)))


def check_scale(scale: Any) -> None:
    """A factor of the exploration bonus; squares of it must neither vanish nor overflow."""
    if number(scale, "scale", least=0.0, most=1e100) < 1e-100 and scale != 0:
        raise InvalidInput(f"scale must be 0 or at least 1e-100, not {scale!r}")


def built_in(learner: object) -> TypeGuard[TabularLearner]:
    """Whether a learner is one of ours; a subclass with `choose` of its own is the user's."""
    return isinstance(learner, TabularLearner) and not hasattr(learner, "choose")
