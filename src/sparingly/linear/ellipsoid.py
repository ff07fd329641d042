"""V = λI + Σ x xᵀ with its inverse, by rank-one updates; made afresh from V now and then.

V itself is summed with compensation, so that a million updates lose no digits.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.numba_support import apart, inlined, record
from sparingly.vectors import dot, multiply

Floats = NDArray[np.float64]

REFRESH = 64  # rank-one updates of the inverse before it is made afresh (or the dimension, if that is larger)

SIZES = record(
    log_det=np.float64,  # log det V
    tr=np.float64,  # tr V
    stretch=np.float64,  # a bound on the largest eigenvalue of the inverse
    stale=np.float64,  # updates since the inverse was made afresh; infinite if something was removed
)


class Ellipsoid(NamedTuple):
    """V = λI + Σ x xᵀ with its inverse, determinant and trace."""

    inverse: Annotated[Floats, np.float64, "dim", "dim"]  # (d, d)
    V: Annotated[Floats, np.float64, "dim", "dim"]  # (d, d) its lower triangle
    rest: Annotated[Floats, np.float64, "dim", "dim"]  # (d, d) what rounding has cut off that so far
    sizes: Annotated[Any, SIZES, 1]  # (1,)


@apart
def reset(e: Ellipsoid, ridge: float) -> None:
    """V = λI."""
    d = e.V.shape[0]
    for i in range(d):
        for j in range(d):
            e.V[i, j] = ridge if i == j else 0.0
            e.inverse[i, j] = 1.0 / ridge if i == j else 0.0
            e.rest[i, j] = 0.0
    e.sizes[0].log_det = d * math.log(ridge)
    e.sizes[0].tr = d * ridge
    e.sizes[0].stretch = 1.0 / ridge
    e.sizes[0].stale = 0.0


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
    e.sizes[0].log_det += math.log1p(square)
    e.sizes[0].tr += dot(x, x)
    e.sizes[0].stale += 1.0
    if e.sizes[0].stale >= max(REFRESH, d) or square > 1e3:  # a wide x takes digits from the inverse
        refresh(e, work)


@apart
def remove(e: Ellipsoid, x: Floats) -> None:
    """V −= x xᵀ, for an x that was added before; `freshen` makes the inverse afresh once it is needed."""
    for i in range(x.size):
        for j in range(i + 1):
            sum_up(e, i, j, -x[i] * x[j])
    e.sizes[0].stretch = math.inf  # the ellipsoid grows: what bounded it no longer does
    e.sizes[0].stale = math.inf


@inlined
def freshen(e: Ellipsoid, work: Floats) -> None:
    """Make the inverse afresh if something was removed since."""
    if e.sizes[0].stale == math.inf:
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
    e.sizes[0].log_det, e.sizes[0].tr, e.sizes[0].stale = log_det, trace, 0.0
    e.sizes[0].stretch = min(e.sizes[0].stretch, stretch * (1.0 + 1e-9))


@inlined
def norm_in(e: Ellipsoid, x: Floats, y: Floats) -> float:
    """‖x‖ in V⁻¹; y is room for V⁻¹x."""
    multiply(e.inverse, x, y)
    return math.sqrt(max(dot(x, y), 0.0))
