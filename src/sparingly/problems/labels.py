"""Labels as a problem: one input for all classes, of which each is right with the probability of a softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly import features
from sparingly.contexts import Adaptive
from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units
from sparingly.numba_support import apart, compiled
from sparingly.randomness import bits_at, to_unit
from sparingly.validation import choice, table
from sparingly.vectors import dot

Floats = NDArray[np.float64]

TELLS = ("label", "reward")


@apart
def write_chances(weights: Floats, x: Floats, chances: Floats) -> None:
    """P(k | x) = exp⟨x, w_k⟩/Σ_j exp⟨x, w_j⟩."""
    top, total = -math.inf, 0.0
    for k in range(chances.size):
        chances[k] = dot(weights[k], x)
        top = max(top, chances[k])
    for k in range(chances.size):
        chances[k] = math.exp(chances[k] - top)
        total += chances[k]
    for k in range(chances.size):
        chances[k] /= total


@compiled
def loss_of(weights: Floats, x: Floats, a: int, chances: Floats) -> float:
    """By how much class a is less likely to be right than the likeliest one."""
    write_chances(weights, x, chances)
    best = chances[0]
    for k in range(chances.size):
        best = max(best, chances[k])
    return float(best - chances[a])


@compiled
def right_class(weights: Floats, x: Floats, key: np.uint64, k: int, chances: Floats) -> int:
    """The class that is right in the k-th answer of a run."""
    write_chances(weights, x, chances)
    left = to_unit(bits_at(key, k))
    for c in range(chances.size - 1):
        left -= chances[c]
        if left < 0.0:
            return c
    return int(chances.size - 1)


class Labels:
    """Classification: `weights` (K, d), and `inputs` (N, d), in turn, or a source of features with one row a round.

    Class k is right with probability exp⟨x, w_k⟩/Σ_j exp⟨x, w_j⟩; a round is worth 1 if the class that was played is.
    `tells` is what an answer says: the "label" that is right, or the "reward" of the class that was played. `costs`
    (K,) is what asking costs where each class is played.

    >>> Labels([[4, 0], [0, 4]], inputs=[[1, 0], [0, 1]])
    Labels(dim=2, classes=2, inputs=Given(2 rounds of 1 actions), tells='label')
    """

    def __init__(self, weights: ArrayLike, inputs: Any, tells: str = "label", costs: ArrayLike | None = None) -> None:
        self.weights: Floats = np.ascontiguousarray(table(weights, "weights", "(K, d)"))
        if self.weights.ndim != 2 or self.weights.shape[0] < 2 or not np.isfinite(self.weights).all():
            raise InvalidInput(f"weights must be finite numbers of shape (K, d), K ≥ 2, not {self.weights.shape}")
        self.inputs = inputs if isinstance(inputs, features.Features | Adaptive) else one_row_each(inputs)
        if isinstance(self.inputs, features.Features):
            self.inputs.check(self.dim)
            if self.inputs.arms != 1:
                raise InvalidInput(f"all classes share one input, but {self.inputs!r} has {self.inputs.arms} rows")
        self.tells = choice(tells, "tells", TELLS)
        self.costs = None if costs is None else table(costs, "costs", "(K,)")
        if self.costs is not None and self.costs.shape != (self.classes,):
            raise InvalidInput(f"costs must have shape ({self.classes},), one for each class, not {self.costs.shape}")
        cost_in_units(0.0 if self.costs is None else self.costs)  # refuses negative and infinite ones

    @property
    def dim(self) -> int:
        """d."""
        return int(self.weights.shape[1])

    @property
    def classes(self) -> int:
        """K."""
        return int(self.weights.shape[0])

    def __repr__(self) -> str:
        return f"Labels(dim={self.dim}, classes={self.classes}, inputs={self.inputs!r}, tells={self.tells!r})"


def one_row_each(inputs: Any) -> features.Features:
    """Inputs (N, d) as features of one row, in turn."""
    rows = table(inputs, "inputs", "(N, d)")
    if rows.ndim != 2:
        raise InvalidInput(f"inputs must have shape (N, d), an input for each round, not {rows.shape}")
    return features.Given(rows[:, np.newaxis])
