"""UCBVI (Azar, Osband & Munos, 2017) with the paper's bonuses: optimism about rewards and transitions.

Q_h(s,a) = rbar + b^r + b^p + E[V_{h+1}], V_h = min(max_a Q_h, H−h+1), with L = log(12 S²AH t²(t+1)/δ),
b^r = sqrt(2 Var L/(n^q ∨ 1)) + 5L/(n^q ∨ 1) and b^p = sqrt(2H² L/(n ∨ 1)) + 5HL/(n ∨ 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparingly.episodic.learner import EpisodicLearner
from sparingly.numba_support import inlined


@inlined
def model_bonus(learner: UCBVI, visits: int) -> tuple[float, float]:
    """What sqrt(L) and L are multiplied with in b^p (E8: n ∨ 1)."""
    n = max(visits, 1)
    return learner.horizon * math.sqrt(2.0 / n), 5.0 * learner.horizon / n


@dataclass(frozen=True)
class UCBVI(EpisodicLearner, model_bonus=model_bonus):
    """Optimistic value iteration for episodes of `horizon` steps; rewards lie in [0, 1]. The one to start with.

    >>> UCBVI(states=4, actions=2, horizon=4).cells
    32
    """

    summary = "Optimistic value iteration: the one to start with for episodes."

    @property
    def log_constant(self) -> float:
        return 12.0 * self.states**2 * self.actions * self.horizon / self.delta
