"""The mind of an agent for linear rewards."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.checks import number
from sparingly.errors import InvalidInput, UnreadableFile
from sparingly.families import linear
from sparingly.learners.oful import OFUL, STALE, Ellipsoid
from sparingly.ledger import GRANTED, SPENT, Account
from sparingly.minds.base import Outcome, fill, refuse_for_episodes_only
from sparingly.protocol import QueryRule
from sparingly.randomness import keys
from sparingly.rules import PAPER, Rule
from sparingly.rules import built_in as our_rule

LEARNED = ("theta", "sum", "past_theta", "past_inverse", "past_radius")  # what a linear agent has learned, by name
COUNTERS = [linear.POLICIES, linear.DECISIONS, linear.CLOCK]


class LinearMind:
    """Linear rewards: a context is an array of features (A, d), a ticket the row that was played and what it cost."""

    def __init__(self, learner: OFUL, rule: Rule | QueryRule, costs: Any, seeds: np.random.SeedSequence) -> None:
        if not our_rule(rule):
            raise InvalidInput(f"OFUL works with the rules of this library only, not with {rule!r}")
        refuse_for_episodes_only(rule)
        if costs is not None:
            learner = dataclasses.replace(learner, costs=costs)
        if rule.code == PAPER and learner.costs is not None and set(learner.costs) != {1.0}:
            raise InvalidInput(
                "PaperMatching is proved for unit costs only with OFUL; use ExactMatching() for other costs"
            )
        self.learner = learner
        self.words = linear.remember(learner, rule, keys(seeds, 1)[0])
        linear.decide(self.words.copy(), np.zeros((max(1, len(learner.costs or [])), learner.dim)))  # loads the code
        self.attach()

    def attach(self) -> None:
        """Name the parts of the memory (again, after a copy)."""
        self.memory = linear.open_memory(self.words)
        self.account: Account = self.memory.account

    @property
    def decisions(self) -> int:
        return int(self.words[linear.DECISIONS])

    def check(self, context: Any) -> NDArray[np.float64]:
        """A non-empty array (A, d) of finite numbers, no row longer than L."""
        try:
            features = np.ascontiguousarray(context, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(
                f"features must be numbers of shape (actions, {self.learner.dim}), not {context!r}"
            ) from None
        if features.ndim != 2 or features.shape[0] == 0 or features.shape[1] != self.learner.dim:
            raise InvalidInput(f"features must have shape (actions, {self.learner.dim}), not {features.shape}")
        prices = self.memory.price.size
        if prices not in (1, features.shape[0]):
            raise InvalidInput(f"costs are given for {prices} actions, features for {features.shape[0]}")
        longest = linear.longest(features)
        if not longest <= self.learner.length * (1.0 + 1e-9):  # NaN and infinity fail too
            raise InvalidInput(
                f"every row of the features must be finite and no longer than length={self.learner.length:g}; "
                f"one has {longest:g}. Rescale the features, or give OFUL a larger length"
            )
        return features

    def decide(self, context: NDArray[np.float64]) -> Outcome:
        action, ask, width, threshold = linear.decide(self.words, context)
        return action, ask, width, threshold, self._ticket(context, action) if ask else None

    def _ticket(self, context: NDArray[np.float64], action: int) -> NDArray[np.float64]:
        """The features of an action, and its price in millionths behind them, (d + 1,)."""
        prices = self.memory.price
        return np.append(context[action], float(prices[action if prices.size > 1 else 0]))

    def count_ask(self, context: NDArray[np.float64], action: int) -> NDArray[np.float64]:
        """Count an ask that was decided elsewhere; its ticket."""
        ticket = self._ticket(context, action)
        linear.count_ask(self.words, ticket[:-1], int(ticket[-1]))
        return ticket

    def take_back(self, ticket: NDArray[np.float64]) -> None:
        """Undo an ask that nobody has seen."""
        linear.take_back(self.words, ticket[:-1], int(ticket[-1]))

    def learn(self, ticket: NDArray[np.float64], reward: float) -> None:
        linear.learn(self.words, ticket[:-1], reward)

    def threshold(self) -> float:
        """The width at which the next decision will not be asked about."""
        return float(linear.threshold_now(self._fresh()))

    def _fresh(self) -> NDArray[np.int64]:
        """The memory with the rule's inverse up to date; a copy, if it is not: looking changes nothing."""
        if not np.isinf(self.memory.asked.numbers[STALE]):
            return self.words
        words = self.words.copy()
        linear.freshen_now(words)
        return words

    def predict(self, features: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """For each row: the estimate, how far the truth may be from it, the width as the rule sees it; (A,) each."""
        radius, m = linear.radius_now(self.words), linear.open_memory(self._fresh())
        near, wide = (
            np.sqrt(np.maximum(((features @ e.inverse) * features).sum(axis=1), 0.0)) for e in (m.known, m.asked)
        )
        return features @ self.memory.theta, radius * near, 2.0 * radius * wide

    def check_reward(self, reward: object) -> float:
        return number(reward, "a reward", least=-1e12, most=1e12)

    def parts(self) -> dict[str, Any]:
        m = self.memory
        named = {name: getattr(m, name) for name in ("account", "random", "price", *LEARNED)}
        ellipsoids = {f"{which}_{name}": part for which, e in self._ellipsoids() for name, part in e._asdict().items()}
        return named | ellipsoids | {"counters": m.head[COUNTERS]}

    def restore(self, parts: dict[str, Any]) -> None:
        m = self.memory
        for name in ("account", "random", "price", *LEARNED):
            fill(getattr(m, name), parts[name])
        for which, e in self._ellipsoids():
            for name, part in e._asdict().items():
                fill(part, parts[f"{which}_{name}"])
        m.head[COUNTERS] = parts["counters"]

    def _ellipsoids(self) -> tuple[tuple[str, Ellipsoid], ...]:
        return (("known", self.memory.known), ("asked", self.memory.asked))

    def check_sums(self, tickets: list[Any]) -> None:
        if not 0 <= self.account[SPENT] <= self.account[GRANTED]:
            raise UnreadableFile("the ledger does not add up")
        for x in tickets:
            if x.shape != (self.learner.dim + 1,) or not np.isfinite(x).all():
                raise UnreadableFile(f"the features of an awaited decision are not {self.learner.dim} finite numbers")
            if x[-1] not in self.memory.price:
                raise UnreadableFile("an awaited decision has a price that no action has")
