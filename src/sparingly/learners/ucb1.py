"""UCB1 (Auer et al., 2002) with the bonus of the paper: index = mean + sqrt(3 log(Mt) / (2 (n ∨ 1))).

With contexts there is one estimate per (u, a) and M = S·A; t counts all rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparingly.compiling import compiled
from sparingly.learners.base import UCB1_CODE, TabularLearner


@compiled
def level(rounds: int, cells: int, scale: float) -> float:
    """scale · sqrt(3 log(Mt)/2); Mt = 1 is read as 2, a single arm needs no bonus of zero."""
    return scale * math.sqrt(1.5 * math.log(max(cells * rounds, 2)))


@compiled
def index(mean: float, shrink: float, level: float) -> float:
    """UCB_t(a) = rbar(a) + b^r_t(a), with shrink = 1/sqrt(n ∨ 1)."""
    return mean + level * shrink


@dataclass(frozen=True)
class UCB1(TabularLearner):
    """UCB1 on `arms` arms in each of `contexts` contexts, one estimate for each pair. Rewards lie in [0, 1].

    `costs` is what asking costs, per arm (A,) or per cell (S, A); None: 1 each. `scale` multiplies the bonus (1 is the
    paper's, 0.1 to 0.3 serves practice) and never touches the budget. `ties` is "first" or "random".

    >>> UCB1(arms=3).arms
    3
    """

    @property
    def code(self) -> int:
        return UCB1_CODE
