"""Linear rewards: an action with features x is worth ⟨x, θ⟩ plus normal noise. Fixed, drawn or adversarial features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly import budgets, features
from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units
from sparingly.numba_support import compiled
from sparingly.problems.adversarial import Scenario
from sparingly.randomness import bits_at, normal
from sparingly.validation import number, table, whole
from sparingly.vectors import dot

Floats = NDArray[np.float64]


@compiled
def worth(X: Floats, a: int, theta: Floats) -> float:
    """⟨x_a, θ⟩."""
    return dot(X[a], theta)


@compiled
def loss(X: Floats, a: int, theta: Floats) -> float:
    """What row a of X loses against the best row."""
    mine = worth(X, a, theta)
    best = mine
    for other in range(X.shape[0]):
        best = max(best, worth(X, other, theta))
    return best - mine


@compiled
def noisy(value: float, noise: float, key: np.uint64, k: int) -> float:
    """The k-th answer of a run: the value plus normal noise."""
    z, _ = normal(bits_at(key, k))
    return value + noise * z


class Linear:
    """A linear bandit: `theta` (d,), and `arms` as features (A, d), a set for each round, or a source of features.

    A reward is ⟨x, θ⟩ plus normal noise of deviation `noise`; `costs` (A,) is what asking about each action costs.

    >>> Linear([0.6, 0.8], arms=[[1, 0], [0, 1]], noise=0.1)
    Linear(dim=2, arms=Fixed(2 actions), noise=0.1)
    """

    def __init__(self, theta: ArrayLike, arms: Any, noise: float = 0.1, costs: ArrayLike | None = None) -> None:
        self.theta: Floats = table(theta, "theta", "(d,)")
        if self.theta.ndim != 1 or self.theta.size == 0 or not np.isfinite(self.theta).all():
            raise InvalidInput(f"theta must be finite numbers of shape (d,), not shape {self.theta.shape}")
        self.arms = features.as_features(arms)
        if isinstance(self.arms, features.Features):
            self.arms.check(self.dim)
        self.noise = number(noise, "noise", least=0.0)
        self.costs = None if costs is None else table(costs, "costs", "(A,)")
        if self.costs is not None and self.costs.ndim != 1:
            raise InvalidInput(f"costs must have shape (A,), not {self.costs.shape}")
        cost_in_units(0.0 if self.costs is None else self.costs)  # refuses negative and infinite ones

    @property
    def dim(self) -> int:
        """d."""
        return self.theta.size

    def __repr__(self) -> str:
        return f"Linear(dim={self.dim}, arms={self.arms!r}, noise={self.noise:g})"


def linear_trap(good_arm: int = 1) -> Scenario:
    """The paper's counterexample to greedy as a linear bandit in d = 4: one coordinate for each context and arm."""
    whole(good_arm, "good_arm", least=0, most=1)
    basis = np.eye(4)
    theta = [0.5, 0.5, float(good_arm == 0), float(good_arm == 1)]
    return Scenario(Linear(theta, features.WhenBudgetGrows(basis[:2], basis[2:]), noise=0.0), budgets.Bernoulli(0.5))
