"""u_t: where contexts come from. Drawn at random, given, dependent on the budget, or picked by an adversary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.errors import InvalidInput
from sparingly.history import History
from sparingly.validation import table, whole

Integers = NDArray[np.int64]


class ContextTape(Protocol):
    """u_t for blocks of consecutive rounds read in order."""

    def take(self, first: int, count: int, grew: NDArray[np.bool_]) -> Integers:
        """u_first, …, or a single number if all are equal."""
        ...


@dataclass(frozen=True)
class Contexts:
    """What every source of contexts has in common."""

    def tape(self, random: np.random.Generator, contexts: int) -> ContextTape:
        """The contexts of one run, in 0 … contexts − 1."""
        raise InvalidInput(f"{type(self).__name__} depends on the run and cannot be listed in advance")

    def check(self, contexts: int) -> None:
        """Refuse a source that does not fit a problem with so many contexts."""

    def possible(self, contexts: int) -> NDArray[np.bool_]:
        """Which contexts can come up at all, (contexts,)."""
        return np.ones(contexts, dtype=np.bool_)

    @property
    def watches_budget(self) -> bool:
        """Whether these contexts must be drawn after the budget."""
        return False


@dataclass(frozen=True)
class Tape:
    """A tape from a function of the first round, the number of rounds, and whether the budget grew in each."""

    next: Callable[[int, int, NDArray[np.bool_]], Any]

    def take(self, first: int, count: int, grew: NDArray[np.bool_]) -> Any:
        return self.next(first, count, grew)


class Iid(Contexts):
    """Independent draws, uniform or with the given probabilities."""

    probabilities: NDArray[np.float64] | None

    __eq__ = object.__eq__  # by identity: arrays are not compared
    __hash__ = object.__hash__

    def __init__(self, probabilities: ArrayLike | None = None) -> None:
        array = None if probabilities is None else table(probabilities, "probabilities", "(S,)")
        if array is not None and (array.ndim != 1 or not (array >= 0).all() or abs(array.sum() - 1) > 1e-9):
            raise InvalidInput(f"probabilities must be a list of numbers ≥ 0 that add up to 1, not {probabilities!r}")
        object.__setattr__(self, "probabilities", array)

    def check(self, contexts: int) -> None:
        if self.probabilities is not None and self.probabilities.size != contexts:
            raise InvalidInput(f"{self.probabilities.size} probabilities for {contexts} contexts")

    def possible(self, contexts: int) -> NDArray[np.bool_]:
        return np.ones(contexts, dtype=np.bool_) if self.probabilities is None else self.probabilities > 0.0

    def tape(self, random: np.random.Generator, contexts: int) -> ContextTape:
        if contexts == 1:
            return Tape(lambda first, count, grew: np.zeros(1, dtype=np.int64))
        if self.probabilities is None:
            return Tape(lambda first, count, grew: (random.random(count) * contexts).astype(np.int64))
        edges = np.cumsum(self.probabilities)[:-1]
        return Tape(lambda first, count, grew: np.searchsorted(edges, random.random(count), side="right"))

    def __repr__(self) -> str:
        return f"Iid({'' if self.probabilities is None else self.probabilities.tolist()})"


class Given(Contexts):
    """The contexts as given, over and over again if the run is longer."""

    values: Integers

    __eq__ = object.__eq__  # by identity: arrays are not compared
    __hash__ = object.__hash__

    def __init__(self, values: ArrayLike) -> None:
        try:
            array = np.array(values)
        except ValueError as error:
            raise InvalidInput(f"given contexts must be a list of whole numbers: {error}") from None
        if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer) or (array < 0).any():
            raise InvalidInput("given contexts must be a non-empty list of whole numbers ≥ 0")
        object.__setattr__(self, "values", array.astype(np.int64))

    def check(self, contexts: int) -> None:
        if self.values.max() >= contexts:
            raise InvalidInput(f"context {self.values.max()} is given, but the problem has 0 … {contexts - 1} only")

    def possible(self, contexts: int) -> NDArray[np.bool_]:
        return np.bincount(self.values, minlength=contexts) > 0

    def tape(self, random: np.random.Generator, contexts: int) -> ContextTape:
        return Tape(lambda first, count, grew: self.values[np.arange(first - 1, first - 1 + count) % self.values.size])

    def __repr__(self) -> str:
        return f"Given({self.values.size} values)"


@dataclass(frozen=True)
class WhenBudgetGrows(Contexts):
    """Context `grows` in rounds in which the budget grows, `still` in the others.

    The paper's adversarial contexts against greedy: what is never affordable is never learned.
    """

    grows: int = 0
    still: int = 1

    def check(self, contexts: int) -> None:
        for name in ("grows", "still"):
            whole(getattr(self, name), name, least=0, most=contexts - 1)

    def tape(self, random: np.random.Generator, contexts: int) -> ContextTape:
        return Tape(lambda first, count, grew: np.where(grew, self.grows, self.still).astype(np.int64))

    @property
    def watches_budget(self) -> bool:
        return True


@dataclass(frozen=True)
class Adaptive(Contexts):
    """An adversary: `callback(history)` picks the context, knowing all earlier rounds.

    It also knows whether the budget grows in this round, if the budget was decided ahead.
    """

    callback: Callable[[History], int]

    @property
    def watches_budget(self) -> bool:
        return True


def as_contexts(contexts: Any) -> Contexts:
    """None means uniform draws; a list means exactly these."""
    if contexts is None:
        return Iid()
    return contexts if isinstance(contexts, Contexts) else Given(contexts)


__all__ = ["Adaptive", "Contexts", "Given", "Iid", "WhenBudgetGrows", "as_contexts"]
