"""Distributions of answers on [0, 1]: Bernoulli, Beta, truncated normal, fixed.

Each turns a cell's parameter and the k-th random bits of that cell into the k-th answer, compiled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparingly.numba_support import apart, compiled
from sparingly.randomness import SHIFT_11, beta, bits_at, normal
from sparingly.validation import choice, number

FIXED, BERNOULLI, BETA, NORMAL = range(4)
Floats = NDArray[np.float64]


@compiled
def edge(center: float) -> np.uint64:
    """The number that 53 random bits stay below with probability `center`: the least whole number ≥ center·2**53."""
    return np.uint64(math.ceil(center * 9007199254740992.0))


@compiled
def coin(edge: np.uint64, key: np.uint64, k: int) -> bool:
    """The k-th answer of a Bernoulli cell: a uniform number below its mean, in whole numbers."""
    return bool(bits_at(key, k) >> SHIFT_11 < edge)


@compiled
def draw(kind: int, center: float, spread: float, key: np.uint64, k: int) -> float:
    """The k-th answer of a cell with this key."""
    if kind == BERNOULLI:
        return 1.0 if coin(edge(center), key, k) else 0.0
    if kind == FIXED or (kind == BETA and (center <= 0.0 or center >= 1.0)):
        return center
    return shaped(kind, center, spread, bits_at(key, k))


@apart
def shaped(kind: int, center: float, spread: float, bits: np.uint64) -> float:
    """An answer that takes several random numbers."""
    if kind == BETA:
        return beta(bits, center * spread, (1.0 - center) * spread)
    x = -1.0
    while not 0.0 <= x <= 1.0:  # the centre lies in [0, 1], the deviation in (0, 1]: over a third of the draws fit
        z, bits = normal(bits)
        x = center + spread * z
    return x


@dataclass(frozen=True)
class Rewards:
    """A family of distributions, one member for each cell's parameter."""

    @property
    def code(self) -> int:
        raise NotImplementedError  # each distribution below names its own

    @property
    def spread(self) -> float:
        """The second parameter, where there is one."""
        return 0.0

    def means(self, parameters: Floats) -> Floats:
        """The expected answer of each cell; for all but the truncated normal that is the parameter itself."""
        return parameters


@dataclass(frozen=True)
class Fixed(Rewards):
    """Always exactly the mean."""

    @property
    def code(self) -> int:
        return FIXED


@dataclass(frozen=True)
class Bernoulli(Rewards):
    """1 with the mean as its probability, else 0."""

    @property
    def code(self) -> int:
        return BERNOULLI


@dataclass(frozen=True)
class Beta(Rewards):
    """Beta with the given mean m: Beta(m·κ, (1−m)·κ). The larger the concentration κ, the less noise."""

    concentration: float = 10.0

    def __post_init__(self) -> None:
        number(self.concentration, "concentration", least=0.0, above=True)

    @property
    def code(self) -> int:
        return BETA

    @property
    def spread(self) -> float:
        return float(self.concentration)


@dataclass(frozen=True)
class TruncatedNormal(Rewards):
    """Normal around the cell's parameter, cut off outside [0, 1]; the expected answer is moved by the cut."""

    deviation: float = 0.1

    def __post_init__(self) -> None:
        number(self.deviation, "deviation", least=0.0, above=True, most=1.0)

    @property
    def code(self) -> int:
        return NORMAL

    @property
    def spread(self) -> float:
        return float(self.deviation)

    def means(self, parameters: Floats) -> Floats:
        """m + σ (φ(a) − φ(b)) / (Φ(b) − Φ(a)) with a = −m/σ, b = (1−m)/σ."""

        def one(m: float) -> float:
            a, b = -m / self.deviation, (1.0 - m) / self.deviation
            density = (math.exp(-a * a / 2.0) - math.exp(-b * b / 2.0)) / math.sqrt(2.0 * math.pi)
            mass = 0.5 * (math.erf(b / math.sqrt(2.0)) - math.erf(a / math.sqrt(2.0)))
            return m + self.deviation * density / mass

        return np.array([one(m) for m in parameters.ravel()]).reshape(parameters.shape)


BY_NAME: dict[str, type[Rewards]] = {"bernoulli": Bernoulli, "beta": Beta, "normal": TruncatedNormal, "fixed": Fixed}


def as_rewards(rewards: str | Rewards) -> Rewards:
    """A distribution by name or as an object."""
    if isinstance(rewards, Rewards):
        return rewards
    return BY_NAME[choice(rewards, "rewards", BY_NAME)]()
