"""CBM-UCBVI and CBM-ULCVI with a constant that keeps them within the budget: 12 in place of 4 before SAH (E7).

With 12 the lemma "the budget constraint is satisfied" holds, and Theorems 4 and 5 hold as they are stated, since they
charge 36 = 3 · 12 for this term. The proof is in docs/paper.md; `most_asks` is what an adversary can get.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from sparingly.errors import InvalidInput
from sparingly.ledger import budget_in_units
from sparingly.numba_support import compiled, from_python
from sparingly.protocol import Question
from sparingly.rules.intervals import EQUAL, reward_width, wide_enough
from sparingly.rules.paper import paper_episode_bar
from sparingly.rules.rule import Rule
from sparingly.validation import number, whole

REPAIRED = 12.0


@compiled
def asks(rule: RepairedMatching, question: Question) -> bool:
    """CI^R ≥ L·(6 sqrt(|L_R|/B) + each·SAH(log(1+B)+1)/B); what is free, always."""
    if question.units.cost == 0:
        return True
    bar = paper_episode_bar(question.step.rewarding, question.cells, question.units.granted, rule.each)
    return wide_enough(question, bar)


@dataclass(frozen=True)
class RepairedMatching(Rule, episodic=asks):
    """PaperMatching for episodes with 12 in place of 4 before SAH: it never tries to spend more than B(t).

    It is no rule of the library's registry: an agent that uses it is loaded with `types=[RepairedMatching]`.

    >>> import sparingly as sp
    >>> agent = sp.Agent(sp.UCBVI(1, 1, 5, rewarding=1), RepairedMatching(), budget=9)
    """

    summary = "The paper's rule for episodes, with a constant that keeps it within the budget."

    unit_costs_only = ("episodic",)

    each: float = REPAIRED
    _: KW_ONLY
    explore: str = "always"

    def __post_init__(self) -> None:
        number(self.each, "each", least=0.0)
        super().__post_init__()


def episode_bar(budget: float, cells: int, rewarding: int, each: float = REPAIRED) -> float:
    """6 sqrt(|L_R|/B) + each·SAH(log(1+B)+1)/B: CI^R/L must be at least this for a step to be asked about.

    >>> round(episode_bar(9, cells=5, rewarding=1, each=4), 2), round(episode_bar(9, cells=5, rewarding=1), 2)
    (9.34, 24.02)
    """
    M, granted = whole(cells, "cells"), int(budget_in_units([number(budget, "budget", least=0.0)])[0])
    R = whole(rewarding, "rewarding", least=0, most=M)
    return float(from_python(paper_episode_bar)(float(R), M, granted, number(each, "each", least=0.0)))


def most_asks(budget: float, cells: int, rewarding: int, each: float = REPAIRED, log_term: float = 1.0) -> int:
    """The most asks that anyone can make the rule want under a budget B that is there from the start.

    Each cell is asked about until its CI^R falls below the bar, with answers of 0 and 1 in turn in the `rewarding`
    cells, which is the largest variance, and none elsewhere. A budget that comes later allows no more.

    >>> most_asks(9, cells=5, rewarding=1, each=4), most_asks(9, cells=5, rewarding=1)
    (10, 0)
    """
    bar, L = episode_bar(budget, cells, rewarding, each), number(log_term, "log_term", least=1.0)
    if not bar > 0.0:
        raise InvalidInput("without a threshold everything is asked about; give a finite budget")
    noisy, quiet = (_asks_of_a_cell(bar, L, varies) for varies in (True, False))
    return rewarding * noisy + (cells - rewarding) * quiet


def largest_variance(answers: int) -> float:
    """Of the unbiased variances that so many answers in [0, 1] can have: n/(4(n − 1)) for even n; 0 for n < 2."""
    ones = answers // 2
    return ones * (answers - ones) / (answers * (answers - 1)) if answers >= 2 else 0.0


def _asks_of_a_cell(bar: float, log_term: float, varies: bool) -> int:
    """How often in a row CI^R/L is at least the bar."""
    width, n = from_python(reward_width), 0
    while width(largest_variance(n) if varies else 0.0, n, log_term) >= log_term * bar * EQUAL:
        n += 1
    return n
