"""What UCBVI and ULCVI have in common: sizes, confidence, the reward bonus, the costs of asking.

Both plan with an optimistic model before every episode. Their bonuses have the form root·sqrt(L) + linear·L, where L
grows with the number of episodes, and root and linear change only when a cell is visited or answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units
from sparingly.numba_support import compiled, inlined
from sparingly.parameters import Parametric, describe
from sparingly.tabular.learner import TIES, check_scale
from sparingly.validation import choice, number, table, whole

Floats = NDArray[np.float64]

MOST_CELLS = 10**8


@compiled
def log_term(constant: float, t: int) -> float:
    """L_t = log(constant · t²(t+1)); the constant is 12 S²AH/δ for UCBVI, 16 S²AH/δ for ULCVI."""
    return math.log(constant * t * t * (t + 1.0))


@inlined
def reward_root(variance: float, n: int) -> float:
    """What sqrt(L) is multiplied with in b^r = sqrt(2 Var L/(n ∨ 1)) + 5L/(n ∨ 1)."""
    return math.sqrt(2.0 * variance / max(n, 1))


@inlined
def reward_linear(n: int) -> float:
    """What L is multiplied with in b^r."""
    return 5.0 / max(n, 1)


class EpisodeSizes:
    """What has H steps, S states and A actions: learners and problems."""

    states: int
    actions: int
    horizon: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        return self.horizon, self.states, self.actions

    @property
    def cells(self) -> int:
        """S·A·H."""
        return self.horizon * self.states * self.actions


PARAMETERS = """`delta` is the probability of being wrong. `scale` multiplies the exploration bonuses: 1 is the paper's,
so wide that small problems take 10⁵ to 10⁸ episodes, and 0.01 to 0.1 serves practice. Cells of which nothing is known
stay as promising as can be, and the budget is never touched. `rewarding` is |L_R|, how many of the S·A·H cells can have
a reward at all, None for all: PaperMatching uses it. `costs` is what asking costs, (S, A) or (H, S, A); None: 1 each.
`ties` is "random" or "first"."""


@dataclass(frozen=True)
class EpisodicLearner(EpisodeSizes, Parametric):
    """A learner for episodes of `horizon` steps with `states` and `actions`; rewards lie in [0, 1].

    The class says what stands before t²(t+1) in L_t (`log_constant`), and names a compiled function:

    - `model_bonus(learner, visits)`: what sqrt(L) and L are multiplied with in the part of b^p that needs no V.
    """

    role: ClassVar[str] = "learner"
    setting: ClassVar[str] = "episodic"
    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    two_sided: ClassVar[bool] = False  # whether values are bounded from below too, and b^p has parts that depend on V

    states: int
    actions: int
    horizon: int
    _: KW_ONLY
    delta: float = 0.05
    scale: float = 1.0
    rewarding: int | None = None
    ties: str = "random"
    costs: Any = None

    def __init_subclass__(cls, **functions: Callable[..., Any]) -> None:
        super().__init_subclass__()
        describe(cls, PARAMETERS)
        if functions:
            cls.functions = functions

    def __post_init__(self) -> None:
        for name in ("states", "actions", "horizon"):
            object.__setattr__(self, name, whole(getattr(self, name), name, most=10**6))
        if self.cells > MOST_CELLS:
            raise InvalidInput(f"states · actions · horizon is {self.cells:,}; at most {MOST_CELLS:,} is supported")
        if not 0.0 < number(self.delta, "delta") < 1.0:
            raise InvalidInput(f"delta must lie in (0, 1), not {self.delta!r}")
        if number(self.delta, "delta") < 1e-100:
            raise InvalidInput(f"delta must be at least 1e-100, not {self.delta!r}")
        check_scale(self.scale)
        choice(self.ties, "ties", TIES)
        if self.rewarding is not None:
            whole(self.rewarding, "rewarding, the number of cells with a reward,", most=self.cells)
        if self.costs is not None:
            object.__setattr__(self, "costs", as_tuples(episode_costs(self.costs, *self.shape).tolist()))

    @property
    def first_scale(self) -> float:
        """The scale where nothing is known yet: raised, if need be, until 5L covers all that a reward can be.

        With the paper's scale that is so by itself; a small scale must not make the unknown look bad.
        """
        return max(float(self.scale), 1.0 / (5.0 * math.log(2.0 * self.log_constant)))

    @property
    def log_constant(self) -> float:
        """What stands before t²(t+1) in L_t."""
        raise InvalidInput(f"{type(self).__name__} must say what its log_constant is")


describe(EpisodicLearner, PARAMETERS)


def episode_costs(costs: Any, horizon: int, states: int, actions: int) -> Floats:
    """Costs of asking for every cell, (H, S, A), from None, (S, A) or (H, S, A)."""
    shape = (horizon, states, actions)
    if costs is None:
        return np.ones(shape)
    values = table(costs, "costs", f"{shape[1:]} or {shape}")
    if values.shape not in (shape[1:], shape):
        raise InvalidInput(f"costs must have shape {shape[1:]} or {shape}, not {values.shape}")
    full: Floats = np.ascontiguousarray(np.broadcast_to(values, shape))
    cost_in_units(full)  # refuses negative, NaN, infinite and too large ones
    return full


def as_tuples(values: Any) -> Any:
    """Nested lists as nested tuples, which can be compared and hashed."""
    return tuple(as_tuples(v) for v in values) if isinstance(values, list) else values
