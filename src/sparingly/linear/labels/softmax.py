"""Softmax: multinomial logistic regression, P(k | x) = exp⟨z, w_k⟩/Σ_j exp⟨z, w_j⟩, with λ/2·Σ‖w_k‖² added to the loss.

The weights are fitted by dual coordinate ascent (Shalev-Shwartz & Zhang, 2013): at the optimum w_k = Σ p_k z/λ, where
the pull of a row is p = t − P(· | x), what was told less what was expected. One row after the other gets the pull that
is right given all others, by Newton's method in K unknowns. That needs no step size, and converges for separable data
and collinear inputs alike, since λ > 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units
from sparingly.linear.labels.learner import LabelLearner
from sparingly.numba_support import apart, inlined
from sparingly.tabular.learner import TIES, check_scale
from sparingly.validation import choice, number, table, whole
from sparingly.vectors import dot

Floats = NDArray[np.float64]

STEPS = 30  # of Newton's method for one row, at most
LONGEST = 1.0  # a step changes no score by more: far from the optimum, Newton's own steps go astray
STILL = 1e-7  # scores that change by less have converged


@apart
def chances(scores: Floats, result: Floats) -> None:
    """P(k) = exp(score k)/Σ exp(score j); no exponential overflows."""
    top = scores[0]
    for k in range(scores.size):
        top = max(top, scores[k])
    total = 0.0
    for k in range(scores.size):
        result[k] = math.exp(scores[k] - top)
        total += result[k]
    for k in range(scores.size):
        result[k] /= total


@inlined
def aim(told: int, chance: Floats, result: Floats) -> None:
    """t (K,): 1 for the class that is right. If a class is wrong, the chances of the others, given that.

    The latter is the first step of the EM algorithm, whose second is the fit to t.
    """
    wrong = -1 - told
    for k in range(chance.size):
        if told >= 0:
            result[k] = 1.0 if k == told else 0.0
        else:
            result[k] = 0.0 if k == wrong else chance[k] / max(1.0 - chance[wrong], 1e-12)


@inlined
def newton_step(factor: float, scores: Floats, start: Floats, chance: Floats, aims: Floats, step: Floats) -> float:
    """Newton's step towards u = start + factor·(t − P(u)); the largest change of a score is returned.

    The matrix I + factor·(diag P − P Pᵀ) is inverted by Sherman and Morrison's formula.
    """
    above, below = 0.0, 1.0
    for k in range(scores.size):
        step[k] = scores[k] - start[k] - factor * (aims[k] - chance[k])
        share = chance[k] / (1.0 + factor * chance[k])
        above += share * step[k]
        below -= factor * share * chance[k]
    largest, along = 0.0, factor * above / below
    for k in range(scores.size):
        step[k] = (step[k] + chance[k] * along) / (1.0 + factor * chance[k])
        largest = max(largest, abs(step[k]))
    return largest


@apart
def fit(learner: Softmax, weights: Floats, pull: Floats, z: Floats, square: float, told: int, room: Floats) -> float:
    """Fit one row: u = ⟨z, w⟩ solves u = s + ‖z‖²/λ·(t − P(u)), where s are its scores without its own pull."""
    scores, start, chance, step, aims = room[0], room[1], room[2], room[3], room[4]
    factor = square / learner.ridge
    for k in range(scores.size):
        scores[k] = dot(weights[k], z)
        start[k] = scores[k] - factor * pull[k]
    chances(scores, chance)
    aim(told, chance, aims)
    for _ in range(STEPS):
        largest = newton_step(factor, scores, start, chance, aims, step)
        if largest < STILL:
            break
        shorter = min(1.0, LONGEST / largest)
        for k in range(scores.size):
            scores[k] -= shorter * step[k]
        chances(scores, chance)
    change = 0.0
    for k in range(scores.size):
        fitted = aims[k] - chance[k]
        change = max(change, abs(fitted - pull[k]))
        share = (fitted - pull[k]) / learner.ridge
        pull[k] = fitted
        for i in range(z.size):
            weights[k, i] += share * z[i]
    return change


@dataclass(frozen=True)
class Softmax(LabelLearner, fit=fit):
    """Multinomial logistic regression: each decision brings one input x in ℝ^dim, the action is one of the classes.

    An answer names the right class, `agent.observe(d, label=k)`, and all classes learn from it. A reward of 1 or 0 will
    do too: 0 says that the class was wrong, and its likelihood is that of all others together.

    `ridge` is λ, for inputs whose entries have unit variance: inputs are multiplied by sqrt(dim)/length, where
    `length` bounds every ‖x‖. There is no intercept: put a constant among the inputs. `scale` multiplies the widths and
    never touches the budget. `costs` (K,) is what asking costs where each class is played; None: 1.

    The rules see d unknowns, not K·d: the width of an input is 2·scale·‖z‖ in V⁻¹, V = λI + Σ z zᵀ over the asks, and
    a round is worth an ask while the two best scores are less than that apart. The budget is as safe as with any
    learner. That the best class lies within such a width is a rule of thumb, and not proved.

    >>> Softmax(dim=16, classes=7).ridge
    1.0
    """

    summary = "Labels: each decision brings one input for all classes, and an answer names the right class."

    dim: int
    classes: int
    ridge: float = 1.0
    length: float = 1.0
    scale: float = 1.0
    ties: str = "random"
    costs: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", whole(self.dim, "dim", most=4096))
        object.__setattr__(self, "classes", whole(self.classes, "classes", least=2, most=1000))
        for name in ("ridge", "length"):
            number(getattr(self, name), name, least=0.0, above=True)
        if not 1e-6 <= self.dim / self.ridge <= 1e8:
            raise InvalidInput(
                f"dim/ridge must lie between 1e-6 and 1e8, beyond that rounding errors dominate; it is "
                f"{self.dim / self.ridge:g}. Change the ridge"
            )
        check_scale(self.scale)
        choice(self.ties, "ties", TIES)
        if self.costs is not None:
            costs = table(self.costs, "costs", "(K,)")
            if costs.shape != (self.classes,):
                raise InvalidInput(f"costs must have shape ({self.classes},), one for each class, not {costs.shape}")
            cost_in_units(costs)
            object.__setattr__(self, "costs", tuple(costs.tolist()))
