"""Arms and contextual arms: expected rewards per cell, a distribution around them, a source of contexts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.contexts import Contexts, as_contexts
from sparingly.errors import InvalidInput
from sparingly.problems.rewards import Rewards, as_rewards, draw
from sparingly.tabular.learner import full_costs
from sparingly.validation import table

Floats = NDArray[np.float64]


class ContextualArms:
    """A bandit in each of S contexts: `means` has shape (S, A).

    `contexts` says where contexts come from (None: uniform draws; a list: exactly these, repeated); `costs` is
    what asking costs, (A,) or (S, A); `rewards` is "bernoulli", "beta", "normal", "fixed" or a `Rewards`.

    >>> ContextualArms([[0.2, 0.8], [0.6, 0.4]]).gaps.round(1).tolist()
    [[0.6, 0.0], [0.0, 0.2]]
    """

    def __init__(
        self,
        means: ArrayLike,
        contexts: Contexts | ArrayLike | None = None,
        costs: ArrayLike | None = None,
        rewards: str | Rewards = "bernoulli",
    ) -> None:
        parameters = _table(means)
        self.rewards = as_rewards(rewards)
        self.contexts = as_contexts(contexts)
        self.contexts.check(parameters.shape[0])
        self.costs: Any = None if costs is None else full_costs(costs, *parameters.shape)
        self.parameters = parameters
        self.means: Floats = self.rewards.means(parameters)

    @property
    def shape(self) -> tuple[int, int]:
        """(S, A): contexts and arms."""
        return self.means.shape[0], self.means.shape[1]

    @property
    def gaps(self) -> Floats:
        """What each cell loses against the best arm of its context, (S, A)."""
        return np.asarray(self.means.max(axis=1, keepdims=True) - self.means)

    def draw(self, context: int, action: int, key: np.uint64, k: int) -> float:
        """The k-th answer of a cell. Override it for answers of another kind (simulated on the slower path)."""
        return float(draw(self.rewards.code, self.parameters[context, action], self.rewards.spread, key, k))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} contexts, {self.shape[1]} arms, {self.rewards})"


class Arms(ContextualArms):
    """A multi-armed bandit: `means` has shape (A,).

    >>> Arms([0.5, 0.6]).shape
    (1, 2)
    """

    def __init__(self, means: ArrayLike, costs: ArrayLike | None = None, rewards: str | Rewards = "bernoulli") -> None:
        array = table(means, "means", "(A,)")
        if array.ndim != 1:
            raise InvalidInput(f"means must have shape (A,), not {array.shape}; use ContextualArms for (S, A)")
        super().__init__(array[np.newaxis, :], costs=costs, rewards=rewards)


def _table(means: ArrayLike) -> Floats:
    array = table(means, "means", "(S, A)")
    if array.ndim != 2 or array.size == 0:
        raise InvalidInput(f"means must have shape (S, A), not {array.shape}")
    if not ((array >= 0.0) & (array <= 1.0)).all():
        raise InvalidInput("every mean must lie in [0, 1]")
    return array
