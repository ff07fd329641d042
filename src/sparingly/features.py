"""X_t: where the features of the actions come from in linear problems. Fixed, drawn, given, or adversarial.

A source opens a *tape* for each run, read in blocks: an array (rounds, A, d), or (1, A, d) if it never changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.contexts import Adaptive, Tape
from sparingly.errors import InvalidInput
from sparingly.validation import table, whole

Floats = NDArray[np.float64]


class FeatureTape(Protocol):
    """X_t for blocks of consecutive rounds read in order."""

    def take(self, first: int, count: int, grew: NDArray[np.bool_]) -> Floats:
        """X_first, …: (count, A, d), or (1, A, d) if all are equal."""
        ...


@dataclass(frozen=True)
class Features:
    """What every source of features has in common: `arms` actions a round."""

    arms: int

    def __post_init__(self) -> None:
        whole(self.arms, "arms")

    def draw(self, random: np.random.Generator, first: int, count: int, grew: NDArray[np.bool_], dim: int) -> Floats:
        """The features of the next rounds, (count, A, d) or (1, A, d)."""
        raise NotImplementedError  # each source below has its own

    def check(self, dim: int) -> None:
        """Refuse a source that does not fit the dimension."""

    def tape(self, random: np.random.Generator, dim: int) -> FeatureTape:
        """The features of one run."""
        return Tape(lambda first, count, grew: self.draw(random, first, count, grew, dim))

    @property
    def watches_budget(self) -> bool:
        """Whether the features must be drawn after the budget."""
        return False


def unit_rows(values: Floats) -> Floats:
    """Each row scaled to length 1."""
    return np.asarray(values / np.linalg.norm(values, axis=-1, keepdims=True))


@dataclass(frozen=True)
class Sphere(Features):
    """Independent directions, uniform on the unit sphere."""

    def draw(self, random: np.random.Generator, first: int, count: int, grew: NDArray[np.bool_], dim: int) -> Floats:
        return unit_rows(random.normal(size=(count, self.arms, dim)))


@dataclass(frozen=True)
class Gaussian(Features):
    """Independent normal features with deviation 1/sqrt(d) in each coordinate, cut to length 1."""

    def draw(self, random: np.random.Generator, first: int, count: int, grew: NDArray[np.bool_], dim: int) -> Floats:
        values = random.normal(size=(count, self.arms, dim)) / np.sqrt(dim)
        return np.asarray(values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1.0))


class FromArrays(Features):
    """Features from arrays (…, d) that were given."""

    columns: int  # d

    __eq__ = object.__eq__  # by identity: arrays are not compared
    __hash__ = object.__hash__

    def _take(self, arms: int, **arrays: Floats) -> None:
        for name, value in {"arms": arms, **arrays, "columns": next(iter(arrays.values())).shape[-1]}.items():
            object.__setattr__(self, name, value)

    def check(self, dim: int) -> None:
        if self.columns != dim:
            raise InvalidInput(f"the features have {self.columns} columns, but theta has {dim} entries")


class Rows(FromArrays):
    """Each action's features are a row of a given matrix (N, d), drawn uniformly."""

    matrix: Floats

    def __init__(self, matrix: ArrayLike, arms: int) -> None:
        self._take(whole(arms, "arms"), matrix=_finite(matrix, 2, "(rows, dim)"))

    def draw(self, random: np.random.Generator, first: int, count: int, grew: NDArray[np.bool_], dim: int) -> Floats:
        places = (random.random((count, self.arms)) * self.matrix.shape[0]).astype(np.int64)
        return np.asarray(self.matrix[places])

    def __repr__(self) -> str:
        return f"Rows({self.matrix.shape[0]} rows, arms={self.arms})"


class Fixed(FromArrays):
    """The same features (A, d) in every round."""

    matrix: Floats

    def __init__(self, matrix: ArrayLike) -> None:
        array = _finite(matrix, 2, "(actions, dim)")
        self._take(array.shape[0], matrix=array)

    def draw(self, random: np.random.Generator, first: int, count: int, grew: NDArray[np.bool_], dim: int) -> Floats:
        return self.matrix[np.newaxis]

    def __repr__(self) -> str:
        return f"Fixed({self.matrix.shape[0]} actions)"


class Given(FromArrays):
    """Features (N, A, d) as given, over and over again if the run is longer."""

    values: Floats

    def __init__(self, values: ArrayLike) -> None:
        array = _finite(values, 3, "(rounds, actions, dim)")
        self._take(array.shape[1], values=array)

    def draw(self, random: np.random.Generator, first: int, count: int, grew: NDArray[np.bool_], dim: int) -> Floats:
        return np.asarray(self.values[np.arange(first - 1, first - 1 + count) % self.values.shape[0]])

    def __repr__(self) -> str:
        return f"Given({self.values.shape[0]} rounds of {self.arms} actions)"


class WhenBudgetGrows(FromArrays):
    """The features `grows` (A, d) in rounds in which the budget grows, `still` in the others: the paper's adversary."""

    grows: Floats
    still: Floats

    def __init__(self, grows: ArrayLike, still: ArrayLike) -> None:
        first, second = _finite(grows, 2, "(actions, dim)"), _finite(still, 2, "(actions, dim)")
        if first.shape != second.shape:
            raise InvalidInput(f"both sets of features must have one shape, not {first.shape} and {second.shape}")
        self._take(first.shape[0], grows=first, still=second)

    def draw(self, random: np.random.Generator, first: int, count: int, grew: NDArray[np.bool_], dim: int) -> Floats:
        return np.where(grew[:, np.newaxis, np.newaxis], self.grows, self.still)

    @property
    def watches_budget(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"WhenBudgetGrows({self.arms} actions)"


@dataclass(frozen=True)
class HalfSpaces(Features):
    """Random directions in the first half of the coordinates while the budget grows, in the second half otherwise."""

    def check(self, dim: int) -> None:
        if dim < 2:
            raise InvalidInput(f"half-spaces need dim ≥ 2, not {dim}")

    def draw(self, random: np.random.Generator, first: int, count: int, grew: NDArray[np.bool_], dim: int) -> Floats:
        values = random.normal(size=(count, self.arms, dim))
        in_first = (np.arange(dim) < dim // 2)[np.newaxis, :]
        shown = np.where(grew[:, np.newaxis], in_first, ~in_first)
        return unit_rows(values * shown[:, np.newaxis, :])

    @property
    def watches_budget(self) -> bool:
        return True


def as_features(features: Any) -> Any:
    """An array (A, d) means a fixed set, (N, A, d) one set a round."""
    if isinstance(features, Features | Adaptive):
        return features
    return Given(features) if table(features, "arms", "(A, d) or (rounds, A, d)").ndim == 3 else Fixed(features)


def _finite(values: ArrayLike, dimensions: int, shape: str) -> Floats:
    array = table(values, "features", shape)
    if array.ndim != dimensions or array.size == 0 or not np.isfinite(array).all():
        raise InvalidInput(f"features must be finite numbers of shape {shape}, not shape {array.shape}")
    return array


__all__ = ["Features", "Fixed", "Gaussian", "Given", "HalfSpaces", "Rows", "Sphere", "WhenBudgetGrows", "as_features"]
