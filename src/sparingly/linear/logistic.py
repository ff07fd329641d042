"""Logistic: yes/no rewards with features per action, P(1 | x) = μ(⟨x, θ⟩) with μ(u) = 1/(1 + exp(−u)).

θ̂ maximizes Σ log P(reward | x) − λ/8·‖θ‖². V = λI + Σ 4μ′(⟨x, θ̂⟩) x xᵀ is four times the Hessian; 4μ′ is at most 1, so
that the rules' V, in which every ask counts as 1, is the larger one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.linear.learner import LinearLearner
from sparingly.numba_support import compiled, inlined

Floats = NDArray[np.float64]

STEPS = 60  # of Newton's method within its bracket, at most
STILL = 1e-12  # a step that is shorter has converged


@compiled
def chance_of(score: float) -> float:
    """μ(u) = 1/(1 + exp(−u)); no exponential overflows."""
    if score >= 0.0:
        return 1.0 / (1.0 + math.exp(-score))
    grown = math.exp(score)
    return grown / (1.0 + grown)


@inlined
def radius(learner: Logistic, rounds: int, log_det: float) -> float:
    """l = max(1, 2 sqrt(log(det V/λ^d) + 2 log(1/δ)) + sqrt(λ)·D)."""
    return max(1.0, 2.0 * math.sqrt(max(log_det - learner.first_log_det, 0.0) + learner.doubt) + learner.bias)


@inlined
def solve(learner: Logistic, start: float, factor: float, reward: float) -> float:
    """The u with u = start + factor·(reward − μ(u)).

    By Newton's method while a step is half as long as the one before; else, where μ is flat, the bracket is halved.
    """
    low, high = start + factor * (reward - 1.0), start + factor * reward
    score, moved = min(max(start, low), high), high - low
    for _ in range(STEPS):
        chance = chance_of(score)
        excess = score - start - factor * (reward - chance)
        if excess > 0.0:
            high = score
        else:
            low = score
        following = score - excess / (1.0 + factor * chance * (1.0 - chance))
        if not (low <= following <= high and abs(following - score) <= 0.5 * moved):
            following = 0.5 * (low + high)
        moved, score = abs(following - score), following
        if moved <= STILL * (1.0 + abs(score)):
            break
    return score


@inlined
def weight(learner: Logistic, score: float) -> float:
    """4μ′(u) = 4μ(1 − μ)."""
    chance = chance_of(score)
    return 4.0 * chance * (1.0 - chance)


@dataclass(frozen=True)
class Logistic(LinearLearner, radius=radius, solve=solve, weight=weight):
    """Logistic regression with optimism: each action comes with features x in ℝ^dim, its reward is 1 or 0.

    P(1 | x) = 1/(1 + exp(−⟨x, θ⟩)). Rewards between 0 and 1 will do as well. `delta`, `ridge` (λ), `length` (L), `norm`
    (D), `scale`, `ties` and `costs` are those of OFUL. The intervals rest on the curvature at the estimate: they are
    those of the delta method and not proved for few answers. `scale` 0.1 to 0.3 serves practice. The budget is as safe
    as with OFUL.

    >>> Logistic(dim=4).ridge
    1.0
    """

    summary = "Yes/no rewards: each decision brings a row of features for every action."

    dim: int
    delta: float = 0.05
    ridge: float = 1.0
    length: float = 1.0
    norm: float = 1.0
    scale: float = 1.0
    ties: str = "random"
    costs: Any = None

    derived = ("doubt", "first_log_det", "bias")
    rows, yes_or_no = 512, True

    def __post_init__(self) -> None:
        self.check()

    @staticmethod
    def expected(scores: Floats) -> Floats:
        """μ(u)."""
        chance: Floats = 0.5 * (1.0 + np.tanh(0.5 * scores))
        return chance
