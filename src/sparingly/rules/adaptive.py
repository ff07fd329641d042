"""AdaptiveMatching, our own, for episodes: exact matching that puts the budget where noise and visits are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from sparingly.ledger import UNLIMITED
from sparingly.numba_support import apart, compiled
from sparingly.protocol import Question
from sparingly.rules.intervals import reward_width, variance_of
from sparingly.rules.rule import Rule
from sparingly.validation import number


@compiled
def asks_needed(variance: float, goal: float, log_term: float) -> float:
    """The least whole number of asks that bring CI^R down to `goal`: `reward_width` solved for 1/sqrt(n^q)."""
    noise = 2.0 * math.sqrt(2.0 * variance * log_term)
    x = 2.0 * goal / (noise + math.sqrt(noise * noise + 40.0 * log_term * goal))
    return math.ceil((1.0 - 1e-12) / (x * x))


@apart
def asks_step(rule: AdaptiveMatching, question: Question) -> bool:
    """Whether the budget could bring every cell to the CI^R that this one has after an ask.

    Each cell has a guaranteed share of the budget, κ asks; up to there it asks without further ado. Beyond it the
    sum over all cells is made, but only when the answer may be yes: what a declined cell needed is remembered.
    """
    units, step, n = question.units, question.step, question.asked
    if units.granted >= UNLIMITED or units.cost == 0:
        return True
    share = rule.share * units.granted / units.total_cost  # κ = share·B/C
    payable = units.spent + units.cost <= units.granted
    if not payable or n + 1 <= share:
        return bool(payable)
    if units.granted < step.notes[step.cell].needed:
        return False
    rest, goal = 0.0, reward_width(step.variance, n + 1, step.log_term)
    for other in range(question.cells):
        if other != step.cell:
            cell = step.counts[other]
            spread = variance_of(step.notes[other].squares, cell.answered)
            useful = min(asks_needed(spread, goal, step.log_term), 2.0 * cell.visits + 1.0)
            missing = max(useful, share) - cell.asked
            if missing > 0.0:
                rest += missing * cell.cost
    if rest <= float(units.granted - units.spent - units.cost):
        return True
    step.notes[step.cell].needed = float(units.spent + units.cost) + rest
    return False


@dataclass(frozen=True)
class AdaptiveMatching(Rule, episodic=asks_step):
    """For UCBVI and ULCVI: exact matching that puts the budget where noise and visits are. No |L_R| has to be known.

    `share` of the budget is exact matching's: every cell may be asked about κ = share·B/C times, whatever happens.
    Beyond κ, ask about a cell if the budget could still pay for bringing every other cell to the CI^R that this one
    would then have: cells whose answers did not vary need fewer asks for that. But to no more than 2·visits + 1
    asks, since a cell that is hardly visited can hardly be asked about; and to no fewer than κ. What a declined cell
    would have needed is remembered, and it waits until the budget has grown to that. Safe for any adversary: the
    proof is in docs/paper.md.
    """

    summary = "Episodes only: exact matching that puts the budget where noise and visits are."

    explore: ClassVar[str] = "always"  # type: ignore[misc]  # no parameter: a plan cannot sum up over all cells for each

    share: float = 0.5

    def __post_init__(self) -> None:
        number(self.share, "share", least=0.0, most=1.0)
