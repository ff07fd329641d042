"""The baselines of episodes: value iteration on what was seen, a counter, and the same three ways to ask.

Transitions are seen for free, rewards only if they are asked for. While it asks, UCBVI's bonuses are added.
"""

from __future__ import annotations

import math
import random as dice
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sparingly as sp
from benchmarks.worlds.baselines import EpsilonGreedy, Way
from sparingly.problems.episodic import Truth, step

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@sp.compiled
def plan(
    visits: Integers, after: Floats, asks: Integers, sums: Floats, squares: Floats, ties: Floats, log: float,
    scale: float, policy: Integers, V: Floats,
) -> None:  # fmt: skip
    """Value iteration; scale > 0 adds bonuses, and what is unknown is then as good as can be, else worth nothing."""
    H, S, A = visits.shape
    for h in range(H - 1, -1, -1):
        for s in range(S):
            best = -1.0
            for a in range(A):
                n, k = visits[h, s, a], max(asks[h, s, a], 1)
                mean = sums[h, s, a] / k
                ahead = 0.0
                for other in range(S):
                    weight = after[h, s, a, other] / n if n > 0 else 1.0 / S
                    ahead += weight * V[h + 1, other]
                q = mean + ahead
                if scale > 0.0:
                    spread = max(squares[h, s, a] - k * mean * mean, 0.0) / max(k - 1, 1)
                    width = scale * (math.sqrt(2.0 * spread * log / k) + 5.0 * log / k)
                    reward = 1.0 if asks[h, s, a] == 0 else min(1.0, mean + width)
                    width = scale * H * (math.sqrt(2.0 * log / max(n, 1)) + 5.0 * log / max(n, 1))
                    q = float(H - h) if n == 0 else min(float(H - h), reward + ahead + width)
                q += 1e-9 * ties[h, s, a]
                if q > best:
                    best, policy[h, s] = q, a
            V[h, s] = best


@sp.compiled
def worth(P: Floats, R: Floats, policy: Integers, epsilon: float, V: Floats) -> None:
    """The true values of a policy that takes a random action with probability ε."""
    H, S, A = R.shape
    for h in range(H - 1, -1, -1):
        for s in range(S):
            V[h, s] = 0.0
            for a in range(A):
                chance = epsilon / A + (1.0 - epsilon if policy[h, s] == a else 0.0)
                if chance > 0.0:
                    q = R[h, s, a]
                    for other in range(S):
                        q += P[h, s, a, other] * V[h + 1, other]
                    V[h, s] += chance * q


@sp.compiled
def walk(
    truth: Truth, keys: Any, policy: Integers, swerves: Integers, start: int, plays: Integers, path: Integers,
    rewards: Floats,
) -> None:  # fmt: skip
    """One episode: the k-th visit of a cell goes the same way for everybody. A swerve ≥ 0 is an action of its own."""
    H, S = policy.shape
    A = plays.shape[2]
    s = start
    for h in range(H):
        a = policy[h, s] if swerves[h] < 0 else swerves[h]
        path[h, 0], path[h, 1] = s, a
        after = step(truth, (h * S + s) * A + a, keys[0], keys[1], plays[h, s, a])
        plays[h, s, a] += 1
        s, rewards[h] = after.state, after.reward


class EpisodeBaseline:
    """Counts of what was seen, a counter of what was spent, and a way to ask: about whole episodes, or not at all."""

    def __init__(self, problem: sp.problems.Episodic, learner: Any, way: Way, random: dice.Random) -> None:
        H, S, A = self.shape = problem.shape
        assert problem.costs is None, "an episode costs as many asks as it has steps"
        self.way, self.random, self.scale = way, random, float(learner.scale)
        self.ties = np.random.default_rng(random.getrandbits(64))
        self.constant = 12.0 * S * S * A * H / learner.delta
        self.visits, self.asks = (np.zeros(self.shape, dtype=np.int64) for _ in range(2))
        self.after, self.sums, self.squares = np.zeros((H, S, A, S)), np.zeros(self.shape), np.zeros(self.shape)
        self.policy, self.values = np.zeros((H, S), dtype=np.int64), np.zeros((H + 1, S))
        self.spent, self.episode = 0.0, 0

    def plan(self, budget: float) -> tuple[Integers, float, bool]:
        """The policy, how often it takes a random action instead, and whether to ask about this episode."""
        self.episode += 1
        can_pay = self.spent + self.shape[0] <= budget
        explores = can_pay and self.way.next(self.random) == "optimistic"
        asks = explores or (can_pay and self.way.asks_best)
        log = math.log(self.constant * self.episode**2 * (self.episode + 1.0))
        parts = (self.visits, self.after, self.asks, self.sums, self.squares, self.ties.random(self.shape))
        plan(*parts, log, self.scale if explores else 0.0, self.policy, self.values)
        return self.policy, self.way.epsilon if asks and isinstance(self.way, EpsilonGreedy) else 0.0, asks

    def swerves(self, epsilon: float) -> Integers:
        """At each step a random action with probability ε, or −1."""
        H, _, A = self.shape
        if epsilon == 0.0:
            return np.full(H, -1)
        return np.array([self.random.randrange(A) if self.random.random() < epsilon else -1 for _ in range(H)])

    def live(self, path: Integers, rewards: Floats, asks: bool) -> None:
        """Take in an episode, with its rewards if they were asked for."""
        steps = np.arange(self.shape[0])
        cells = (steps, path[:, 0], path[:, 1])
        self.visits[cells] += 1
        self.after[steps[:-1], path[:-1, 0], path[:-1, 1], path[1:, 0]] += 1.0
        if asks:
            self.spent += steps.size
            self.asks[cells] += 1
            self.sums[cells] += rewards
            self.squares[cells] += rewards * rewards
