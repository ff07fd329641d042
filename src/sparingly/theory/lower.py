"""Lower bounds on regret: every policy loses this much on some instance of `problems.hard_instances`.

They hold even for policies that keep to the budget only in expectation; those for linear rewards need policies that
always keep to it. Rounds and budgets may be arrays, which broadcast; in `varying_budget` and `varying_linear` a budget
is an array (…, T) as in `upper`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.errors import InvalidInput
from sparingly.problems.hard_instances import asks_that_fit
from sparingly.validation import growing, number, table, whole

Floats = NDArray[np.float64]


def unit_costs(rounds: ArrayLike, arms: int, budget: ArrayLike) -> Floats:
    """Proposition for unit costs: E Reg(T) ≥ 1/140 · min(T sqrt(A/B), T), for A ≥ 2 arms and E n^q_T ≤ B.

    >>> float(unit_costs(14_000, arms=4, budget=100))
    20.0
    """
    return arm_rate(float(whole(arms, "arms", least=2)), budget) * as_rounds(rounds)


def arm_costs(rounds: ArrayLike, costs: ArrayLike, budget: ArrayLike) -> Floats:
    """Proposition for costs c(a) of asking (A,): E Reg(T) ≥ 1/140 · min(T sqrt(Σ c/(B(1 + log A))), T).

    >>> float(arm_costs(14_000, costs=[1, 1, 1, 1], budget=100).round(2))
    12.95
    """
    return arm_rate(_spread_cost(costs), budget) * as_rounds(rounds)


def varying_budget(budget: ArrayLike, costs: ArrayLike) -> Floats:
    """Corollary for a budget that grows: E Reg(T) ≥ 1/(140(1 + log T)) · Σ_t min(sqrt(Σ c/(B(t)(1 + log A))), 1).

    >>> varying_budget([0.0, 0.0], costs=[1, 1]).round(5).tolist()
    [0.00714, 0.00844]
    """
    B = growing(budget, "budget")
    T = np.arange(1.0, B.shape[-1] + 1.0)
    return np.asarray(np.cumsum(arm_rate(_spread_cost(costs), B), axis=-1) / (1.0 + np.log(T)))


def linear(rounds: ArrayLike, dim: int, budget: ArrayLike) -> Floats:
    """Proposition for linear rewards, actions {−1, 1}^d and standard normal noise: E Reg(T) ≥ dT/(80 sqrt(B)).

    Needs 1 ≤ B ≤ T, whole numbers. The instance has ‖x‖ = sqrt(d), ‖θ‖ = sqrt(d/B) and values in [−1, 1] if B ≥ d².

    >>> float(linear(8_000, dim=2, budget=100))
    20.0
    """
    d, T, B = whole(dim, "dim"), as_rounds(rounds), table(budget, "budget", "that of rounds")
    if not ((B >= 1.0) & (np.floor(B) == B)).all():
        raise InvalidInput("the linear lower bound needs a budget of whole numbers ≥ 1")
    if not (B <= T).all():
        raise InvalidInput("the linear lower bound needs B ≤ T: no more asks than rounds")
    return np.asarray(d * T / (80.0 * np.sqrt(B)))


def varying_linear(budget: ArrayLike, dim: int) -> Floats:
    """The same for a budget that grows, as after Corollary 3: E Reg(T) ≥ 1/(80(1 + log T)) · Σ_t d/sqrt(b(t)).

    b(t) = max(min(⌊B(t)⌋, t), 1): nobody asks more than once a round, and who may not ask at all may do no more than
    who may ask once. For policies that never make more than B(t) asks in t rounds. The proof: `linear` holds for every
    horizon t with b(t); some instance costs its largest value, which is at least its average weighted by 1/t.

    >>> varying_linear([1.0, 1.0], dim=8).round(4).tolist()
    [0.1, 0.1181]
    """
    d, b = whole(dim, "dim"), asks_that_fit(growing(budget, "budget"))
    T = np.arange(1.0, b.shape[-1] + 1.0)
    return np.asarray(np.cumsum(d / np.sqrt(b), axis=-1) / (80.0 * (1.0 + np.log(T))))


def arm_rate(cost: float, budget: ArrayLike) -> Floats:
    """1/140 · min(sqrt(cost/B), 1): the least loss of a round; with a budget of 0 nothing is learned."""
    B = table(budget, "budget", "numbers")
    if not (B >= 0.0).all():
        raise InvalidInput("budget must be numbers ≥ 0")
    with np.errstate(divide="ignore", over="ignore"):
        ratio = np.sqrt(cost / B) if cost > 0.0 else np.zeros_like(B)
    return np.asarray(np.minimum(ratio, 1.0) / 140.0)


def _spread_cost(costs: ArrayLike) -> float:
    """Σ c/(1 + log A)."""
    values = table(costs, "costs", "(A,)")
    if values.ndim != 1 or values.size < 2:
        raise InvalidInput(f"costs must have shape (A,) for A ≥ 2 arms, not {values.shape}")
    for cost in values:
        number(float(cost), "a cost", least=0.0)
    return float(values.sum()) / (1.0 + math.log(values.size))


def as_rounds(rounds: ArrayLike) -> Floats:
    """Check one or several horizons."""
    T = table(rounds, "rounds", "numbers")
    if not ((T >= 1.0) & (np.floor(T) == T) & np.isfinite(T)).all():
        raise InvalidInput("rounds must be whole numbers ≥ 1")
    return T
