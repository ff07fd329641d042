"""What a sensible person would write instead: an estimate, a counter, and one of three ways to ask.

*Until spent*: UCB1 or LinUCB as long as the counter allows, then the best estimate. *At random*: ask with probability
budget/rounds, explore in those rounds, take the best estimate in the others. *ε-greedy*: a random action now and then,
while the counter allows. Nobody explores in a round that cannot be asked about. Nothing of sparingly is used here.
"""

from __future__ import annotations

import math
import random as dice
from typing import Any, Protocol

import numpy as np


class Way(Protocol):
    """How to ask."""

    asks_best: bool  # whether it asks when it takes the best estimate; when it explores, it always does

    def next(self, random: dice.Random) -> str:
        """What to do in a round that can be asked about: "optimistic", "anything" or "best"."""


class UntilSpent:
    """Explore and ask, as long as there is something to spend."""

    asks_best = False

    def next(self, random: dice.Random) -> str:
        return "optimistic"


class AtRandom:
    """Explore and ask with a fixed probability."""

    asks_best = False

    def __init__(self, share: float) -> None:
        self.share = share

    def next(self, random: dice.Random) -> str:
        return "optimistic" if random.random() < self.share else "best"


class EpsilonGreedy:
    """A random action with probability ε, else the best; ask about both."""

    asks_best = True

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def next(self, random: dice.Random) -> str:
        return "anything" if random.random() < self.epsilon else "best"


class ArmEstimates:
    """Means of cells, and UCB1's index with bonus scale·sqrt(1.5 log(Mt)/n), n counting asks."""

    def __init__(self, contexts: int, arms: int, scale: float, random: dice.Random) -> None:
        self.arms, self.scale, self.random, self.cells = arms, scale, random, contexts * arms
        self.asks, self.answers = ([[0] * arms for _ in range(contexts)] for _ in range(2))
        self.sums = [[0.0] * arms for _ in range(contexts)]
        self.means = [[0.0] * arms for _ in range(contexts)]
        self.leaders: list[list[int]] = [list(range(arms)) for _ in range(contexts)]

    def optimistic(self, context: int, round: int) -> int:
        """The arm with the highest index; those that were never asked about come first, in any order."""
        asks, means = self.asks[context], self.means[context]
        fresh = [arm for arm, n in enumerate(asks) if n == 0]
        if fresh:
            return self.random.choice(fresh)
        level = self.scale * math.sqrt(1.5 * math.log(max(self.cells * round, 2)))
        return max(range(self.arms), key=lambda arm: means[arm] + level / math.sqrt(asks[arm]))

    def best(self, context: int, round: int) -> int:
        """The arm with the best mean; one without an answer counts as 0."""
        leaders = self.leaders[context]
        return leaders[0] if len(leaders) == 1 else self.random.choice(leaders)

    def anything(self, context: int, round: int) -> int:
        return self.random.randrange(self.arms)

    def ask(self, context: int, action: int) -> tuple[int, int]:
        """Count an ask; what is needed to learn from its answer."""
        self.asks[context][action] += 1
        return context, action

    def learn(self, ticket: tuple[int, int], reward: float) -> None:
        context, action = ticket
        self.answers[context][action] += 1
        self.sums[context][action] += reward
        means = self.means[context]
        means[action] = self.sums[context][action] / self.answers[context][action]
        top = max(means)
        self.leaders[context] = [arm for arm, mean in enumerate(means) if mean == top]


class RidgeEstimates:
    """Ridge regression with λ = 1, and LinUCB's index with the radius of Abbasi-Yadkori et al. (2011), scaled."""

    def __init__(self, dim: int, noise: float, delta: float, scale: float, random: dice.Random) -> None:
        self.noise, self.doubt, self.scale, self.random = noise, -2.0 * math.log(delta), scale, random
        self.inverse, self.sums, self.theta, self.log_det = np.eye(dim), np.zeros(dim), np.zeros(dim), 0.0

    def optimistic(self, rows: np.ndarray, round: int) -> int:
        radius = max(1.0, self.noise * math.sqrt(self.log_det + self.doubt) + 1.0)
        norms = np.sqrt(np.einsum("ad,ad->a", rows @ self.inverse, rows))
        return self.highest(rows @ self.theta + self.scale * radius * norms)

    def best(self, rows: np.ndarray, round: int) -> int:
        return self.highest(rows @ self.theta)

    def anything(self, rows: np.ndarray, round: int) -> int:
        return self.random.randrange(len(rows))

    def highest(self, values: np.ndarray) -> int:
        """The place of the highest value, any of them if there are several."""
        top = np.flatnonzero(values >= values.max() - 1e-12)
        return int(top[0]) if len(top) == 1 else int(self.random.choice(top.tolist()))

    def ask(self, rows: np.ndarray, action: int) -> np.ndarray:
        return np.array(rows[action])

    def learn(self, ticket: np.ndarray, reward: float) -> None:
        y = self.inverse @ ticket
        square = float(ticket @ y)
        self.inverse -= np.outer(y, y / (1.0 + square))
        self.log_det += math.log1p(square)
        self.sums += reward * ticket
        self.theta = self.inverse @ self.sums


class Baseline:
    """An estimate, a counter and a way to ask."""

    def __init__(self, estimates: Any, way: Way, costs: np.ndarray, random: dice.Random) -> None:
        self.estimates, self.way, self.random = estimates, way, random
        self.costs, self.per_context = costs.tolist(), costs.ndim == 2
        self.least, self.spent, self.round = float(costs.min()), 0.0, 0
        self.refused = 0  # a counter refuses nothing: it is looked at first

    def decide(self, context: Any, budget: float) -> tuple[int, bool, Any]:
        """The action, whether to ask about it, and what is needed to learn from the answer."""
        self.round += 1
        if self.spent + self.least > budget:
            return self.estimates.best(context, self.round), False, None
        wish = self.way.next(self.random)
        action = getattr(self.estimates, wish)(context, self.round)
        if wish != "best" or self.way.asks_best:
            cost = self.costs[context][action] if self.per_context else self.costs[action]
            if self.spent + cost <= budget:
                self.spent += cost
                return action, True, self.estimates.ask(context, action)
        return (action if wish == "best" else self.estimates.best(context, self.round)), False, None

    def learn(self, ticket: Any, reward: float) -> None:
        self.estimates.learn(ticket, reward)
