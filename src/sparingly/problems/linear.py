"""Linear rewards: an action with features x is worth ⟨x, θ⟩ plus normal noise. Fixed, drawn or adversarial features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly import budgets, features
from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units
from sparingly.linear.logistic import chance_of
from sparingly.numba_support import compiled
from sparingly.problems.adversarial import Scenario
from sparingly.randomness import bits_at, normal, to_unit
from sparingly.validation import number, table, whole
from sparingly.vectors import dot

Floats = NDArray[np.float64]


class TrueLinear(NamedTuple):
    """The truth of one run."""

    theta: Floats  # (d,)
    noise: float
    key: np.uint64
    yes_or_no: bool  # answers are 1 or 0


@compiled
def worth(X: Floats, a: int, truth: TrueLinear) -> float:
    """What row a is worth in expectation: ⟨x_a, θ⟩, or the probability of a yes."""
    score = dot(X[a], truth.theta)
    return chance_of(score) if truth.yes_or_no else score


@compiled
def loss(X: Floats, a: int, truth: TrueLinear) -> float:
    """What row a of X loses against the best row."""
    mine = worth(X, a, truth)
    best = mine
    for other in range(X.shape[0]):
        best = max(best, worth(X, other, truth))
    return best - mine


@compiled
def answer_of(X: Floats, a: int, truth: TrueLinear, k: int) -> float:
    """The k-th answer of a run."""
    value = worth(X, a, truth)
    if truth.yes_or_no:
        return 1.0 if to_unit(bits_at(truth.key, k)) < value else 0.0
    return noisy(value, truth.noise, truth.key, k)


@compiled
def noisy(value: float, noise: float, key: np.uint64, k: int) -> float:
    """The k-th answer of a run: the value plus normal noise."""
    z, _ = normal(bits_at(key, k))
    return value + noise * z


class Linear:
    """A linear bandit: `theta` (d,), and `arms` as features (A, d), a set for each round, or a source of features.

    A reward is ⟨x, θ⟩ plus normal noise of deviation `noise`. With `yes_or_no` it is 1 with probability
    1/(1 + exp(−⟨x, θ⟩)), else 0. `costs` (A,) is what asking about each action costs.

    >>> Linear([0.6, 0.8], arms=[[1, 0], [0, 1]], noise=0.1)
    Linear(dim=2, arms=Fixed(2 actions), noise=0.1)
    """

    def __init__(
        self, theta: ArrayLike, arms: Any, noise: float = 0.1, costs: ArrayLike | None = None, yes_or_no: bool = False
    ) -> None:
        self.theta: Floats = table(theta, "theta", "(d,)")
        if self.theta.ndim != 1 or self.theta.size == 0 or not np.isfinite(self.theta).all():
            raise InvalidInput(f"theta must be finite numbers of shape (d,), not shape {self.theta.shape}")
        self.arms = features.as_features(arms)
        if isinstance(self.arms, features.Features):
            self.arms.check(self.dim)
        self.noise, self.yes_or_no = number(noise, "noise", least=0.0), bool(yes_or_no)
        self.costs = None if costs is None else table(costs, "costs", "(A,)")
        if self.costs is not None and self.costs.ndim != 1:
            raise InvalidInput(f"costs must have shape (A,), not {self.costs.shape}")
        cost_in_units(0.0 if self.costs is None else self.costs)  # refuses negative and infinite ones

    @property
    def dim(self) -> int:
        """d."""
        return self.theta.size

    def __repr__(self) -> str:
        noise = "yes_or_no=True" if self.yes_or_no else f"noise={self.noise:g}"
        return f"Linear(dim={self.dim}, arms={self.arms!r}, {noise})"

    def truth(self, key: np.uint64) -> TrueLinear:
        """As one run meets it."""
        return TrueLinear(self.theta, self.noise, key, self.yes_or_no)


def linear_trap(good_arm: int = 1) -> Scenario:
    """The paper's counterexample to greedy as a linear bandit in d = 4: one coordinate for each context and arm."""
    whole(good_arm, "good_arm", least=0, most=1)
    basis = np.eye(4)
    theta = [0.5, 0.5, float(good_arm == 0), float(good_arm == 1)]
    return Scenario(Linear(theta, features.WhenBudgetGrows(basis[:2], basis[2:]), noise=0.0), budgets.Bernoulli(0.5))
