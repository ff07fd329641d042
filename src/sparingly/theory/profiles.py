"""The paper's examples of budgets: Σ_{t ≤ T} sqrt(A/B(t)) in closed form, and how it grows.

Up to logarithms, this sum is the regret of matching, and of greedy if nothing is adversarial. Each function takes the
parameters of the budget of the same name in `sparingly.budgets`; rounds may be an array.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.theory.lower import as_rounds
from sparingly.validation import number, whole

Floats = NDArray[np.float64]


class Profile(NamedTuple):
    """A bound on the sum, and its exponents: the bound grows like T^rounds · amount^amount · every^every."""

    bound: Floats
    rounds: float  #: the exponent of T
    amount: float  #: of the rate, the scale or the amount of the budget
    every: float = 0.0  #: of the period


def linear(rounds: ArrayLike, arms: int, rate: float) -> Profile:
    """B(t) = ε t: the sum is at most 2 sqrt(A T/ε).

    >>> linear(100, arms=4, rate=0.25).bound.tolist()
    80.0
    """
    scale = math.sqrt(whole(arms, "arms") / number(rate, "rate", least=0.0, above=True))
    return Profile(np.asarray(2.0 * scale * np.sqrt(as_rounds(rounds))), 0.5, -0.5)


def polynomial(rounds: ArrayLike, arms: int, power: float, scale: float = 1.0) -> Profile:
    """B(t) = scale · t^c with 0 ≤ c ≤ 1: the sum is at most sqrt(A/scale) · T^(1 − c/2)/(1 − c/2), its order."""
    exponent = 1.0 - number(power, "power", least=0.0, most=1.0) / 2.0
    factor = math.sqrt(whole(arms, "arms") / number(scale, "scale", least=0.0, above=True))
    return Profile(np.asarray(factor * as_rounds(rounds) ** exponent / exponent), exponent, -0.5)


def fixed(rounds: ArrayLike, arms: int, amount: float) -> Profile:
    """B(t) = B0: the sum is T sqrt(A/B0), linear in T."""
    factor = math.sqrt(whole(arms, "arms") / number(amount, "amount", least=0.0, above=True))
    return Profile(np.asarray(factor * as_rounds(rounds)), 1.0, -0.5)


def late(rounds: ArrayLike, arms: int, amount: float, start: int) -> Profile:
    """B(t) = 0 before round `start`, B0 from then on: Σ min(sqrt(A/B(t)), 1), where a round without budget counts as 1.

    With start = T − B0 + 1 that is at least T − B0: linear in T, whatever B0 = o(T) is.

    >>> late([10, 20], arms=4, amount=16, start=11).bound.tolist()
    [10.0, 15.0]
    """
    T, first = as_rounds(rounds), float(whole(start, "start"))
    each = min(1.0, math.sqrt(whole(arms, "arms") / number(amount, "amount", least=0.0, above=True)))
    before = np.minimum(T, first - 1.0)
    return Profile(np.asarray(before + each * (T - before)), 1.0, 0.0)


def periodic(rounds: ArrayLike, arms: int, amount: float, every: int) -> Profile:
    """B(t) = B0(1 + ⌊t/N⌋): the sum is at most sqrt(A/B0) · min(2N sqrt(⌈T/N⌉), T).

    Each value s of 1 + ⌊t/N⌋ lasts for at most N rounds, the first for N − 1, so the sum is at most
    N sqrt(A/B0) Σ_{s ≤ ⌈T/N⌉} 1/sqrt(s); and no B(t) is below B0. For T ≥ N it is of the order sqrt(ATN/B0).
    """
    T, N = as_rounds(rounds), float(whole(every, "every"))
    factor = math.sqrt(whole(arms, "arms") / number(amount, "amount", least=0.0, above=True))
    return Profile(np.asarray(factor * np.minimum(2.0 * N * np.sqrt(np.ceil(T / N)), T)), 0.5, -0.5, 0.5)
