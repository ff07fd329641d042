"""What the learners for linear rewards have in common: which parameters and functions they have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units
from sparingly.parameters import Parametric
from sparingly.tabular.learner import TIES, check_scale
from sparingly.validation import choice, number, table, whole

Floats = NDArray[np.float64]


class LinearLearner(Parametric):
    """A learner that plays the row x with the largest ⟨x, θ̂⟩ + scale·l·‖x‖ in V⁻¹. A dataclass with these parameters:

    `dim` is d, `ridge` is λ, `length` bounds every ‖x‖, `scale` multiplies the bonus, `ties` is "first" or "random",
    `costs` (A,) is what asking about each action costs, None for 1 each. The class names one compiled function:

    - `radius(learner, rounds, log_det)`: l, given the rounds before this one and log det V of the answers so far.

    Two more are for a mean reward μ(⟨x, θ⟩) other than ⟨x, θ⟩. Then `rows` of the last answers are kept, each with its
    *pull* p: θ̂ = 4/λ·Σ p x over all rows that there ever were. V sums up weight·x xᵀ.

    - `solve(learner, start, factor, reward)`: the u with u = start + factor·(reward − μ(u)).
    - `weight(learner, score)`: 4μ′(u), at most 1.
    """

    role: ClassVar[str] = "learner"
    setting: ClassVar[str] = "linear"
    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    rows: ClassVar[int] = 0  # of the last answers that are kept
    yes_or_no: ClassVar[bool] = False  # whether rewards lie in [0, 1]
    draws: ClassVar[bool] = False  # whether it draws a θ in each round and trusts it, in place of a bonus

    dim: int
    delta: float
    norm: float
    ridge: float
    length: float
    scale: float
    ties: str
    costs: Any

    def __init_subclass__(cls, **functions: Callable[..., Any]) -> None:
        super().__init_subclass__()
        if functions:
            cls.functions = functions

    def check(self) -> None:
        """Refuse parameters that are none."""
        object.__setattr__(self, "dim", whole(self.dim, "dim", most=4096))
        number(self.norm, "norm", least=0.0)
        for name in ("ridge", "length"):
            number(getattr(self, name), name, least=0.0, above=True)
        if not 0.0 < number(self.delta, "delta") < 1.0:
            raise InvalidInput(f"delta must lie in (0, 1), not {self.delta!r}")
        if not 1e-6 <= self.length * self.length / self.ridge <= 1e8:
            raise InvalidInput(
                f"length²/ridge must lie between 1e-6 and 1e8, beyond that rounding errors dominate; it is "
                f"{self.length * self.length / self.ridge:g}. Rescale the features, or change the ridge"
            )
        check_scale(self.scale)
        choice(self.ties, "ties", TIES)
        if self.costs is not None:
            costs = table(self.costs, "costs", "(A,)")
            if costs.ndim != 1 or costs.size == 0:
                raise InvalidInput(f"costs must have shape (A,), one for each action, not {costs.shape}")
            cost_in_units(costs)
            object.__setattr__(self, "costs", tuple(costs.tolist()))

    @staticmethod
    def expected(scores: Floats) -> Floats:
        """μ(u): what a row is worth whose ⟨x, θ⟩ is u."""
        return scores

    @property
    def doubt(self) -> float:
        """2 log(1/δ)."""
        return -2.0 * math.log(self.delta)

    @property
    def first_log_det(self) -> float:
        """d log λ."""
        return self.dim * math.log(self.ridge)

    @property
    def bias(self) -> float:
        """sqrt(λ)·D."""
        return math.sqrt(self.ridge) * self.norm
