"""What the learners for arms have in common: their shape, their costs, how they break ties, which functions they name.

The mathematics of each is in its own file (ucb1.py, moss.py): a *level* that grows with time, computed once a
round, and an *index* for each arm, made of that level and of what the arm's answers have earned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units
from sparingly.numba_support import record
from sparingly.parameters import Parametric, describe
from sparingly.validation import choice, number, table, whole

TIES = {"first": 0, "random": 1}  # the lowest index, or each of the best with equal probability

NO_OFFSET = 0.0  # of learners whose index needs the count of answers only as 1/sqrt(n ∨ 1)

ESTIMATE = record(  # of one cell, as its index needs it; n counts its answers or, where a rule exploits, its asks
    average=np.float64,  # the mean of the answers; without any, what the learner says of an unknown arm
    shrink=np.float64,  # 1/sqrt(n ∨ 1)
    offset=np.float64,  # what the learner makes of n
    total=np.float64,  # the sum of the answers
)


PARAMETERS = """`costs` is what asking costs, per arm (A,) or per cell (S, A); None: 1 each. `scale` multiplies the
bonus (1 is the paper's, 0.1 to 0.3 serves practice) and never touches the budget. `ties` is "random" or "first":
equal indices are drawn from, or the lowest number wins. `forget` is for worlds that change: the share of what is known
that is forgotten in each round of the agent, so that 0.001 remembers about a thousand rounds; 0 forgets nothing.
`prior_weight` answers of `prior` count as if every cell had had them: a first guess, which rules do not count."""


@dataclass(frozen=True)
class TabularLearner(Parametric):
    """One estimate per cell: `arms` actions in each of `contexts` contexts. Rewards lie in [0, 1].

    The class names compiled functions; each takes the learner's parameters first:

    - `level(learner, rounds)`: what exploration has grown to after so many rounds; it never falls.
    - `index(learner, estimate, level)`: of one arm, from its `ESTIMATE`; it grows with the average and with the level.
    - `offset(learner, answers)`, optional: any number that depends on the count of answers, kept for the index.

    `bounds(learner, estimate, level)`, optional, is the interval (low, high) by which rules compare rounds; without it
    that is the index and its mirror image below the average.

    A learner that chooses at random names one or two more; the index is then what rules and people see:

    - `sample(learner, estimate, level, random)`: drawn for each arm in each round; the arm with the largest is played.
    - `roams(learner, random)`, optional: whether any arm is played in this round, all alike.

    Two more let the simulator skip what is certain; without them it plays every round:

    - `ceiling(learner, level, now, rounds)`: no less than the level will be after so many more rounds.
    - `earned(learner, answers, ahead, level)`: no more than n·(index − average) for n = answers … answers + ahead.
    """

    role: ClassVar[str] = "learner"
    setting: ClassVar[str] = "tabular"
    functions: ClassVar[dict[str, Any]] = {}
    unknown: ClassVar[float] = 0.0  # the average of an arm without answers
    per_context: ClassVar[bool] = False  # whether `rounds` counts those of the context, rather than all
    hopeful: ClassVar[bool] = True  # whether its average has one answer more, a 1, where a rule explores by asks
    straight: ClassVar[bool] = False  # whether the index is a linear function of the level
    answers_only: ClassVar[bool] = (
        False  # whether `offset` gets the count of answers also where a rule explores by asks
    )

    arms: int
    contexts: int = 1
    _: KW_ONLY
    costs: Any = None
    scale: float = 1.0
    ties: str = "random"
    forget: float = 0.0
    prior: float = 0.5
    prior_weight: float = 0.0

    def __init_subclass__(cls, **functions: Callable[..., Any]) -> None:
        super().__init_subclass__()
        describe(cls, PARAMETERS)
        if functions:
            cls.functions = {"offset": NO_OFFSET} | functions

    def __post_init__(self) -> None:
        for name in ("arms", "contexts"):
            object.__setattr__(self, name, whole(getattr(self, name), name))
        check_scale(self.scale)
        choice(self.ties, "ties", TIES)
        check_forget(self.forget)
        number(self.prior, "prior, what an arm is thought to be worth,", least=0.0, most=1.0)
        number(self.prior_weight, "prior_weight, a number of answers,", least=0.0, most=1e9)
        if self.costs is not None:
            table_of_costs = full_costs(self.costs, self.contexts, self.arms)
            object.__setattr__(self, "costs", tuple(map(tuple, table_of_costs.tolist())))


describe(TabularLearner, PARAMETERS)


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


def check_forget(forget: Any) -> None:
    """The share of what is known that is forgotten in each round."""
    if 0.0 < number(forget, "forget", least=0.0, most=0.5) < 1e-6:
        raise InvalidInput(f"forget must be 0 or at least 1e-6, not {forget!r}: 1/forget rounds are remembered")
