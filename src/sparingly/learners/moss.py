"""MOSS-anytime (Degenne & Perchet, 2016): index = mean + sqrt((1+α)/2 · max(0, log(t/(A n))) / n).

An arm without an answer comes first. With contexts, each context is a bandit of its own with its own clock t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparingly.checks import number
from sparingly.compiling import compiled
from sparingly.learners.base import MOSS_CODE, TabularLearner


@compiled
def level(rounds: int, arms: int, scale: float, alpha: float) -> float:
    """scale² (1+α)/2 · log(t/A)."""
    return scale * scale * 0.5 * (1.0 + alpha) * math.log(rounds / arms)


@compiled
def offset(answers: int, scale: float, alpha: float) -> float:
    """scale² (1+α)/2 · log n, the part of the level that n answers have used up."""
    return scale * scale * 0.5 * (1.0 + alpha) * math.log(max(answers, 1))


@compiled
def index(mean: float, shrink: float, offset: float, level: float) -> float:
    """mean + sqrt(max(0, level − offset))/sqrt(n); the mean of an arm without an answer is +∞."""
    return mean + math.sqrt(max(0.0, level - offset)) * shrink


@dataclass(frozen=True)
class MOSS(TabularLearner):
    """MOSS-anytime on `arms` arms, a bandit of its own in each of `contexts` contexts. Rewards lie in [0, 1].

    `alpha` widens the bonus; 1.35 is the authors' choice.
    `costs` is what asking costs, per arm (A,) or per cell (S, A); None: 1 each. `scale` multiplies the bonus (1 is the
    paper's, 0.1 to 0.3 serves practice) and never touches the budget. `ties` is "first" or "random".

    >>> MOSS(arms=3, contexts=2).alpha
    1.35
    """

    alpha: float = 1.35

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.alpha, "alpha", least=0.0, most=1e6)

    @property
    def code(self) -> int:
        return MOSS_CODE

    @property
    def parameters(self) -> tuple[float, float]:
        return (float(self.scale), float(self.alpha))
