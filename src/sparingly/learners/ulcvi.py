"""ULCVI (after Dann et al., 2019): values bounded from above and from below, a bonus from the variance of V.

b^p = sqrt(2 Var(V_up) L/(n ∨ 1)) + 44H²S L/(n ∨ 1) + E[V_up − V_low]/(16H), L = log(16 S²AH t²(t+1)/δ), variance and
expectation under the estimated transitions; V_low follows the optimistic policy with the bonuses subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparingly.compiling import inlined
from sparingly.learners.episodic import ULCVI_CODE, EpisodicLearner


@inlined
def model_linear(visits: int, horizon: int, states: int) -> float:
    """What L is multiplied with in b^p; the other two parts depend on V, and are in the induction."""
    return 44.0 * horizon * horizon * states / max(visits, 1)


@dataclass(frozen=True)
class ULCVI(EpisodicLearner):
    """Value iteration between an upper and a lower bound: regret of the optimal order, with larger constants.

    The parameters are those of `UCBVI`; a useful `scale` is ten times smaller.

    >>> ULCVI(states=4, actions=2, horizon=4, scale=0.05).rewarding is None
    True
    """

    @property
    def code(self) -> int:
        return ULCVI_CODE

    @property
    def log_constant(self) -> float:
        return 16.0 * self.states**2 * self.actions * self.horizon / self.delta
