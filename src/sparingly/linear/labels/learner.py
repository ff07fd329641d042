"""What the learners of labels have in common: which parameters and functions they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sparingly.parameters import Parametric


class LabelLearner(Parametric):
    """A learner that plays the class k with the largest ⟨z, w_k⟩, with weights w_k for each class.

    A context is one input x (d,) for all K classes, and z = sqrt(d)/L·x. So inputs of length L have entries of unit
    variance. A dataclass with these parameters:

    `dim` is d, `classes` is K, `ridge` is λ, `length` bounds every ‖x‖ (L), `scale` multiplies the widths, `ties` is
    "first" or "random", `costs` (K,) is what asking costs where each class is played, None for 1 each.

    What is remembered of answers are rows, each with an input, what was told, and its *pull* p (K,): the weights are
    w_k = Σ p_k z/λ over all rows that there ever were. The class names one compiled function:

    - `fit(learner, weights, pull, z, square, told, room)`: fit the pull of one row, and the weights with it, as if all
      other pulls were right. `square` is z·z, and `told` the class that is right, or −1 − k if class k is wrong; `room`
      (5, K) is to compute in. It returns by how much a pull has changed at most.
    """

    role: ClassVar[str] = "learner"
    setting: ClassVar[str] = "linear"
    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    yes_or_no: ClassVar[bool] = True  # a reward is 1 if the class was right, or 0

    dim: int
    classes: int
    ridge: float
    length: float
    scale: float
    ties: str
    costs: Any

    def __init_subclass__(cls, **functions: Callable[..., Any]) -> None:
        super().__init_subclass__()
        if functions:
            cls.functions = functions
