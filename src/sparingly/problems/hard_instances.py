"""The instances of the paper's lower bounds: whatever a policy does, one problem of the family costs it that much.

A lower bound says "for every policy there is an instance"; the proofs find it in a family that does not depend on the
policy, and that is what these functions give. The bounds themselves are in `theory.lower`.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units
from sparingly.problems.arms import Arms
from sparingly.problems.linear import Linear
from sparingly.validation import growing, number, table, whole

Floats = NDArray[np.float64]

SMALL, LARGE = 1 / 35, 1 / 5  # the proofs' gaps under a tiny budget: with several suspects, with one


class HardFamily(NamedTuple):
    """Problems, one of which is hard for any given policy, and the round in which that shows."""

    problems: list[Arms] | list[Linear]
    horizon: int  #: t_m: regret is to be compared with the lower bound at this round


def hidden_arm(arms: int, budget: float, arm: int = 0) -> Arms:
    """One arm pays 1 with probability 1/2 + ε, the others with 1/2: ε = 1/35 · min(sqrt(A/B), 1).

    >>> hidden_arm(4, budget=100, arm=2).gaps.round(4).tolist()
    [[0.0057, 0.0057, 0.0, 0.0057]]
    """
    A = whole(arms, "arms", least=2)
    k = whole(arm, "arm", least=0, most=A - 1)
    return _shifted(A, k, _gap(SMALL, float(A), _amount(budget)))


def hard_arms(arms: int, budget: float) -> list[Arms]:
    """The family for unit costs and a fixed budget: each of the A arms hidden in turn.

    >>> len(hard_arms(4, budget=100))
    4
    """
    return [hidden_arm(arms, budget, k) for k in range(whole(arms, "arms", least=2))]


def hard_costs(costs: ArrayLike, budget: float) -> list[Arms]:
    """The family for costs of asking c (A,) and a fixed budget, the arms in the order given.

    With the arms sorted by falling cost, c(1) ≥ … ≥ c(A): for each i ≥ 2 with c(i) > 0 and each k ≤ i, arm k is better
    by ε = 1/35 · min(sqrt(i c(i)/B), 1), since the first i arms cost c(i) at least. For i = 1, if c(1) > 0, arm 1 is
    better, or worse, by ε = 1/5 · min(sqrt(c(1)/B), 1). All costs positive: A(A+1)/2 + 1 problems.

    >>> [problem.means.round(3).tolist() for problem in hard_costs([1, 4], budget=100)]
    [[[0.5, 0.54]], [[0.5, 0.46]], [[0.5, 0.504]], [[0.504, 0.5]]]
    """
    prices, B = _costs(costs), _amount(budget)
    order = np.argsort(-prices, kind="stable")
    dearest = float(prices[order[0]])
    family = []
    if dearest > 0.0:
        gap = _gap(LARGE, dearest, B)
        family = [_shifted(prices.size, int(order[0]), shift, prices) for shift in (gap, -gap)]
    for i in range(2, prices.size + 1):
        price = float(prices[order[i - 1]])
        if price > 0.0:
            family += [_shifted(prices.size, int(k), _gap(SMALL, i * price, B), prices) for k in order[:i]]
    if not family:
        raise InvalidInput("costs must not all be 0: what is free to ask about is not hard")
    return family


def hard_varying(costs: ArrayLike, budget: ArrayLike) -> HardFamily:
    """The family for costs (A,) and a budget B(1), …, B(T) that grows: that of `hard_costs` for the hardest horizon.

    t_m is the first t at which t · min(sqrt(Σ c/(B(t)(1 + log A))), 1) is largest, and the family is made for B(t_m).

    >>> hard_varying([1, 1], budget=[0, 0, 0, 100, 100]).horizon
    3
    """
    prices, B = _costs(costs), growing(budget, "budget")
    if B.ndim != 1:
        raise InvalidInput(f"budget must have shape (T,), not {B.shape}")
    spread = float(prices.sum()) / (1.0 + math.log(prices.size))
    t = np.arange(1.0, B.size + 1.0)
    with np.errstate(divide="ignore", over="ignore"):
        losses = t * np.minimum(np.sqrt(spread / B), 1.0) if spread > 0.0 else np.zeros_like(B)
    hardest = int(np.argmax(losses))
    return HardFamily(hard_costs(prices, float(B[hardest])), hardest + 1)


def hypercube(dim: int, budget: int, signs: ArrayLike | None = None, noise: float = 1.0) -> Linear:
    """The instance of the linear lower bound: all of {−1, 1}^dim as actions, θ = ±1/sqrt(B) in each coordinate."""
    whole(dim, "dim (there are 2^dim actions)", most=16)
    whole(budget, "budget")
    pattern = np.ones(dim) if signs is None else np.sign(table(signs, "signs", f"({dim},)"))
    if pattern.shape != (dim,) or (pattern == 0).any():
        raise InvalidInput(f"signs must be {dim} numbers other than 0")
    return Linear(pattern / np.sqrt(budget), list(itertools.product((-1.0, 1.0), repeat=dim)), noise=noise)


def hard_linear(dim: int, budget: int) -> list[Linear]:
    """The family for linear rewards with standard normal noise: a `hypercube` for each of the 2^dim sign patterns.

    >>> len(hard_linear(3, budget=100))
    8
    """
    d = whole(dim, "dim (there are 2^dim problems with 2^dim actions each)", most=10)
    return [hypercube(d, budget, signs) for signs in itertools.product((-1.0, 1.0), repeat=d)]


def hard_varying_linear(dim: int, budget: ArrayLike) -> HardFamily:
    """The family for linear rewards and a budget B(1), …, B(T) that grows: that of `hard_linear` for the worst horizon.

    t_m is the first t at which t/sqrt(b(t)) is largest, b(t) = max(min(⌊B(t)⌋, t), 1). The family is made for b(t_m).

    >>> hard_varying_linear(2, budget=[4, 4, 4, 4, 4, 4, 100]).horizon
    6
    """
    B = growing(budget, "budget")
    if B.ndim != 1:
        raise InvalidInput(f"budget must have shape (T,), not {B.shape}")
    asks = asks_that_fit(B)
    hardest = int(np.argmax(np.arange(1.0, B.size + 1.0) / np.sqrt(asks)))
    return HardFamily(hard_linear(dim, int(asks[hardest])), hardest + 1)


def asks_that_fit(budget: Floats) -> Floats:
    """b(t) = max(min(⌊B(t)⌋, t), 1), for B(1), …, B(T) along the last axis: at most one ask a round, and at least one.

    A lower bound for one ask holds for those who may not ask at all.
    """
    rounds = np.arange(1.0, budget.shape[-1] + 1.0)
    return np.asarray(np.maximum(np.floor(np.minimum(budget, rounds)), 1.0))


def _gap(most: float, price: float, budget: float) -> float:
    """most · min(sqrt(price/B), 1)."""
    return most if budget <= price else most * math.sqrt(price / budget)


def _shifted(arms: int, arm: int, shift: float, costs: Floats | None = None) -> Arms:
    """All arms pay 1/2, but for one."""
    means = np.full(arms, 0.5)
    means[arm] += shift
    return Arms(means, costs=costs)


def _amount(budget: float) -> float:
    """A fixed budget; without a limit there is no hard instance."""
    return number(budget, "budget", least=0.0)


def _costs(costs: ArrayLike) -> Floats:
    """Costs of at least two arms."""
    prices = table(costs, "costs", "(A,)")
    if prices.ndim != 1 or prices.size < 2:
        raise InvalidInput(f"costs must have shape (A,) for A ≥ 2 arms, not {prices.shape}")
    cost_in_units(prices)  # refuses negative, NaN, infinite and too large ones
    return prices
