"""What the learners for linear rewards have in common: which parameters and functions they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sparingly.parameters import Parametric


class LinearLearner(Parametric):
    """A learner that plays the row x with the largest ⟨x, θ̂⟩ + scale·l·‖x‖ in V⁻¹. A dataclass with these parameters:

    `dim` is d, `ridge` is λ, `length` bounds every ‖x‖, `scale` multiplies the bonus, `ties` is "first" or "random",
    `costs` (A,) is what asking about each action costs, None for 1 each. The class names one compiled function:

    - `radius(learner, rounds, log_det)`: l, given the rounds before this one and log det V of the answers so far.
    """

    role: ClassVar[str] = "learner"
    setting: ClassVar[str] = "linear"
    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    dim: int
    ridge: float
    length: float
    scale: float
    ties: str
    costs: Any

    def __init_subclass__(cls, **functions: Callable[..., Any]) -> None:
        super().__init_subclass__()
        if functions:
            cls.functions = functions
