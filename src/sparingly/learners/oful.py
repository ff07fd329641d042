"""OFUL (Abbasi-Yadkori, Pál & Szepesvári, 2011): optimism in an ellipsoid around the ridge estimate of θ.

V = λI + Σ x xᵀ, θ̂ = V⁻¹ Σ x R, index = ⟨x, θ̂⟩ + l·‖x‖ in V⁻¹. The inverse is kept by rank-one updates and
made afresh from V now and then; V itself is summed with compensation, so that a million updates lose no digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.checks import choice, number, table, whole
from sparingly.compiling import apart, inlined
from sparingly.errors import InvalidInput
from sparingly.learners.base import TIES, check_scale
from sparingly.ledger import cost_in_units
from sparingly.vectors import dot, multiply

Floats = NDArray[np.float64]

LOG_DET, TRACE, STRETCH, STALE = 0, 1, 2, 3  # places in an ellipsoid's numbers
REFRESH = 64  # rank-one updates of the inverse before it is made afresh (or the dimension, if that is larger)
SIMPLE, DETERMINANT = 0, 1  # the two radii
RADII = {"simple": SIMPLE, "determinant": DETERMINANT}


class Ellipsoid(NamedTuple):
    """V = λI + Σ x xᵀ with its inverse, determinant and trace."""

    V: Floats  # (d, d) its lower triangle
    rest: Floats  # (d, d) what rounding has cut off that so far
    inverse: Floats  # (d, d)
    numbers: Floats  # (4,) log det V, tr V, a bound on the largest eigenvalue of the inverse, updates since refreshed


@apart
def reset(e: Ellipsoid, ridge: float) -> None:
    """V = λI."""
    d = e.V.shape[0]
    for i in range(d):
        for j in range(d):
            e.V[i, j] = ridge if i == j else 0.0
            e.inverse[i, j] = 1.0 / ridge if i == j else 0.0
            e.rest[i, j] = 0.0
    e.numbers[LOG_DET] = d * math.log(ridge)
    e.numbers[TRACE] = d * ridge
    e.numbers[STRETCH] = 1.0 / ridge
    e.numbers[STALE] = 0.0


@apart
def add(e: Ellipsoid, x: Floats, y: Floats, work: Floats) -> None:
    """V += x xᵀ (Sherman–Morrison for the inverse); y is room for V⁻¹x, `work` for a triangle."""
    d = x.size
    multiply(e.inverse, x, y)
    square = max(dot(x, y), 0.0)  # ‖x‖² in V⁻¹
    factor = 1.0 / (1.0 + square)
    for i in range(d):
        scaled = factor * y[i]
        for j in range(d):
            e.inverse[i, j] -= scaled * y[j]
        for j in range(i + 1):
            sum_up(e, i, j, x[i] * x[j])
    e.numbers[LOG_DET] += math.log1p(square)
    e.numbers[TRACE] += dot(x, x)
    e.numbers[STALE] += 1.0
    if e.numbers[STALE] >= max(REFRESH, d) or square > 1e3:  # a wide x takes digits from the inverse
        refresh(e, work)


@apart
def remove(e: Ellipsoid, x: Floats) -> None:
    """V −= x xᵀ, for an x that was added before; `freshen` makes the inverse afresh once it is needed."""
    for i in range(x.size):
        for j in range(i + 1):
            sum_up(e, i, j, -x[i] * x[j])
    e.numbers[STRETCH] = math.inf  # the ellipsoid grows: what bounded it no longer does
    e.numbers[STALE] = math.inf


@inlined
def freshen(e: Ellipsoid, work: Floats) -> None:
    """Make the inverse afresh if something was removed since."""
    if e.numbers[STALE] == math.inf:
        refresh(e, work)


@inlined
def sum_up(e: Ellipsoid, i: int, j: int, term: float) -> None:
    """V[i, j] += term, a compensated sum (Knuth's): what the addition cuts off is remembered."""
    before = e.V[i, j]
    total = before + term
    added = total - before
    e.rest[i, j] += (before - (total - added)) + (term - added)
    e.V[i, j] = total


@apart
def refresh(e: Ellipsoid, L: Floats) -> None:
    """The inverse and the determinant anew from V, by Cholesky's decomposition V = L Lᵀ."""
    d = e.V.shape[0]
    log_det = trace = 0.0
    for i in range(d):
        trace += e.V[i, i] + e.rest[i, i]
        for j in range(i + 1):
            value = e.V[i, j] + e.rest[i, j]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            L[i, j] = math.sqrt(value) if i == j else value / L[j, j]
        log_det += 2.0 * math.log(L[i, i])
    for i in range(d):  # L⁻¹ in place of L
        L[i, i] = 1.0 / L[i, i]
        for j in range(i):
            value = 0.0
            for k in range(j, i):
                value -= L[i, k] * L[k, j]
            L[i, j] = value * L[i, i]
    stretch = 0.0
    for i in range(d):  # V⁻¹ = L⁻ᵀ L⁻¹
        for j in range(i + 1):
            value = 0.0
            for k in range(i, d):
                value += L[k, i] * L[k, j]
            e.inverse[i, j] = value
            e.inverse[j, i] = value
    for i in range(d):  # no eigenvalue exceeds the largest sum of a row (Gershgorin)
        row = 0.0
        for j in range(d):
            row += abs(e.inverse[i, j])
        stretch = max(stretch, row)
    e.numbers[LOG_DET], e.numbers[TRACE], e.numbers[STALE] = log_det, trace, 0.0
    e.numbers[STRETCH] = min(e.numbers[STRETCH], stretch * (1.0 + 1e-9))


@inlined
def simple_radius(d: int, rounds: int, noise: float, delta: float, ridge: float, L: float, D: float) -> float:
    """l_t = max(1, σ sqrt(2d log((1 + tL²/λ)/δ)) + sqrt(λ)·D)."""
    return max(
        1.0, noise * math.sqrt(2.0 * d * math.log((1.0 + rounds * L * L / ridge) / delta)) + math.sqrt(ridge) * D
    )


@inlined
def determinant_radius(log_det: float, noise: float, doubt: float, start: float, bias: float) -> float:
    """max(1, σ sqrt(log(det V/λ^d) + 2 log(1/δ)) + sqrt(λ)·D): tighter, and as valid (their Theorem 2).

    What does not change from round to round is given: doubt = 2 log(1/δ), start = d log λ, bias = sqrt(λ)·D.
    """
    return max(1.0, noise * math.sqrt(max(log_det - start, 0.0) + doubt) + bias)


@dataclass(frozen=True)
class OFUL:
    """Optimism for linear rewards: each action comes with features x in ℝ^dim, its reward is ⟨x, θ⟩ plus noise.

    `noise` is σ (sub-Gaussian), `delta` the probability of being wrong, `ridge` is λ, `length` bounds every ‖x‖ (L),
    `norm` bounds ‖θ‖ (D). `radius` is "determinant" (tighter) or "simple" (the paper's). `scale` multiplies the
    exploration bonus and never touches the budget. `costs` (A,) is what asking about each action costs; None: 1.

    >>> OFUL(dim=4).radius
    'determinant'
    """

    dim: int
    noise: float = 0.1
    delta: float = 0.05
    ridge: float = 1.0
    length: float = 1.0
    norm: float = 1.0
    radius: str = "determinant"
    scale: float = 1.0
    ties: str = "first"
    costs: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", whole(self.dim, "dim", most=4096))
        for name in ("noise", "norm"):
            number(getattr(self, name), name, least=0.0)
        for name in ("ridge", "length"):
            number(getattr(self, name), name, least=0.0, above=True)
        if not 0.0 < number(self.delta, "delta") < 1.0:
            raise InvalidInput(f"delta must lie in (0, 1), not {self.delta!r}")
        if not 1e-6 <= self.length * self.length / self.ridge <= 1e8:
            raise InvalidInput(
                f"length²/ridge must lie between 1e-6 and 1e8, or the numbers lose their meaning; it is "
                f"{self.length * self.length / self.ridge:g}. Rescale the features, or change the ridge"
            )
        check_scale(self.scale)
        choice(self.radius, "radius", RADII)
        choice(self.ties, "ties", TIES)
        if self.costs is not None:
            costs = table(self.costs, "costs", "(A,)")
            if costs.ndim != 1 or costs.size == 0:
                raise InvalidInput(f"costs must have shape (A,), one for each action, not {costs.shape}")
            cost_in_units(costs)
            object.__setattr__(self, "costs", tuple(costs.tolist()))
