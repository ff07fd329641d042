"""ULCVI (after Dann et al., 2019): values bounded from above and from below, a bonus from the variance of V.

b^p = sqrt(2 Var(V_up) L/(n ∨ 1)) + 44H²S L/(n ∨ 1) + E[V_up − V_low]/(16H), L = log(16 S²AH t²(t+1)/δ), variance and
expectation under the estimated transitions; V_low follows the optimistic policy with the bonuses subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparingly.episodic.learner import EpisodicLearner
from sparingly.numba_support import inlined


@inlined
def model_bonus(learner: ULCVI, visits: int) -> tuple[float, float]:
    """What sqrt(L) and L are multiplied with in b^p; the other two parts depend on V, and are in value_iteration.py."""
    return 0.0, 44.0 * learner.horizon * learner.horizon * learner.states / max(visits, 1)


@dataclass(frozen=True)
class ULCVI(EpisodicLearner, model_bonus=model_bonus):
    """Value iteration between an upper and a lower bound: regret of the optimal order, with larger constants.

    A useful `scale` is ten times smaller than with `UCBVI`.

    >>> ULCVI(states=4, actions=2, horizon=4, scale=0.05).rewarding is None
    True
    """

    summary = "Values bounded from above and below: the optimal order for episodes, with larger constants."

    two_sided = True

    @property
    def log_constant(self) -> float:
        return 16.0 * self.states**2 * self.actions * self.horizon / self.delta
