"""UCBVI (Azar, Osband & Munos, 2017) with the paper's bonuses: optimism about rewards and transitions.

Q_h(s,a) = rbar + b^r + b^p + E[V_{h+1}], V_h = min(max_a Q_h, H−h+1), with L = log(12 S²AH t²(t+1)/δ),
b^r = sqrt(2 Var L/(n^q ∨ 1)) + 5L/(n^q ∨ 1) and b^p = sqrt(2H² L/(n ∨ 1)) + 5HL/(n ∨ 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparingly.compiling import inlined
from sparingly.learners.episodic import UCBVI_CODE, EpisodicLearner


@inlined
def model_root(visits: int, horizon: int) -> float:
    """What sqrt(L) is multiplied with in b^p (E8: n ∨ 1)."""
    return horizon * math.sqrt(2.0 / max(visits, 1))


@inlined
def model_linear(visits: int, horizon: int) -> float:
    """What L is multiplied with in b^p."""
    return 5.0 * horizon / max(visits, 1)


@dataclass(frozen=True)
class UCBVI(EpisodicLearner):
    """Optimistic value iteration for episodes of `horizon` steps; rewards lie in [0, 1]. The one to start with.

    `delta` is the probability of being wrong. `scale` multiplies the bonuses: 1 is the paper's and takes 10⁵ to 10⁸
    episodes on small problems, 0.01 to 0.1 serves practice; it never touches the budget. `rewarding` is how many of the
    S·A·H cells can have a reward at all, None for all: PaperMatching uses it. `costs` is what asking costs, (S, A) or
    (H, S, A); None: 1 each. `ties` is "first" or "random".

    >>> UCBVI(states=4, actions=2, horizon=4).cells
    32
    """

    @property
    def code(self) -> int:
        return UCBVI_CODE

    @property
    def log_constant(self) -> float:
        return 12.0 * self.states**2 * self.actions * self.horizon / self.delta
