"""OFUL (Abbasi-Yadkori, Pál & Szepesvári, 2011): optimism in an ellipsoid around the ridge estimate of θ.

V = λI + Σ x xᵀ, θ̂ = V⁻¹ Σ x R, index = ⟨x, θ̂⟩ + l·‖x‖ in V⁻¹.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparingly.linear.learner import LinearLearner
from sparingly.numba_support import compiled, inlined
from sparingly.validation import choice, number


@compiled
def simple_radius(d: int, rounds: int, noise: float, delta: float, ridge: float, L: float, D: float) -> float:
    """l_t = max(1, σ sqrt(2d log((1 + tL²/λ)/δ)) + sqrt(λ)·D)."""
    return max(
        1.0, noise * math.sqrt(2.0 * d * math.log((1.0 + rounds * L * L / ridge) / delta)) + math.sqrt(ridge) * D
    )


@compiled
def determinant_radius(log_det: float, noise: float, doubt: float, start: float, bias: float) -> float:
    """max(1, σ sqrt(log(det V/λ^d) + 2 log(1/δ)) + sqrt(λ)·D): tighter, and as valid (their Theorem 2).

    What does not change from round to round is given: doubt = 2 log(1/δ), start = d log λ, bias = sqrt(λ)·D.
    """
    return max(1.0, noise * math.sqrt(max(log_det - start, 0.0) + doubt) + bias)


@inlined
def radius(learner: OFUL, rounds: int, log_det: float) -> float:
    """l: how far θ may be from θ̂, in the norm of V. The paper's l_{t−1} counts the rounds before this one."""
    if learner.by_determinant > 0.0:
        return determinant_radius(log_det, learner.noise, learner.doubt, learner.first_log_det, learner.bias)
    return simple_radius(learner.dim, rounds, learner.noise, learner.delta, learner.ridge, learner.length, learner.norm)


@dataclass(frozen=True)
class OFUL(LinearLearner, radius=radius):
    """Optimism for linear rewards: an action has features x in ℝ^dim, and its reward is ⟨x, θ⟩ plus noise.

    `noise` is σ (sub-Gaussian), `delta` the probability that the intervals may fail with, and `ridge` is λ. `length`
    bounds every ‖x‖ (L), `norm` bounds ‖θ‖ (D). `radius` is "determinant" (tighter) or "simple" (the paper's). `scale`
    multiplies the exploration bonus and does not affect the budget. `costs` (A,) is the cost of asking about each
    action; None means 1.

    >>> OFUL(dim=4).radius
    'determinant'
    """

    summary = "Linear rewards: each decision brings a row of features for every action."

    dim: int
    noise: float = 0.1
    delta: float = 0.05
    ridge: float = 1.0
    length: float = 1.0
    norm: float = 1.0
    radius: str = "determinant"
    scale: float = 1.0
    ties: str = "random"
    costs: Any = None

    derived = ("by_determinant", "doubt", "first_log_det", "bias")

    def __post_init__(self) -> None:
        self.check()
        number(self.noise, "noise", least=0.0)
        choice(self.radius, "radius", ("simple", "determinant"))

    @property
    def by_determinant(self) -> float:
        """1 for the radius "determinant", else 0."""
        return float(self.radius == "determinant")
