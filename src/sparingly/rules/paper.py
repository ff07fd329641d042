"""PaperMatching: confidence-budget matching with the paper's intervals and thresholds, corrected in docs/paper.md."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from sparingly.ledger import UNIT, UNLIMITED
from sparingly.numba_support import compiled, inlined
from sparingly.protocol import Question
from sparingly.rules.intervals import at_or_above, wide_enough
from sparingly.rules.rule import Rule


@inlined
def asks(rule: PaperMatching, question: Question) -> bool:
    """CBM-UCB: sqrt(6 log(Mt)/(n^q ∨ 1)) ≥ 4 sqrt(6 log(Mt)·C/B). The factor sqrt(6 log(Mt)) cancels."""
    return question.asked <= limit(rule, question)


@inlined
def limit(rule: PaperMatching, question: Question) -> int:
    """The same as a limit on counts: n^q ∨ 1 ≤ B/(16 C)."""
    units = question.units
    if units.granted >= UNLIMITED or units.total_cost == 0:
        return UNLIMITED
    most = units.granted // (16 * units.total_cost)
    return most if most >= 1 else -1


@inlined
def asks_row(rule: PaperMatching, question: Question) -> bool:
    """CBM-OFUL (E4): ask if min(‖x‖, 1) ≥ v_B/sqrt(B); equality means ask, in spite of rounding."""
    return at_or_above(question.row.norm, bar(rule, question))


@inlined
def bar(rule: PaperMatching, question: Question) -> float:
    """v_B/sqrt(B)."""
    row = question.row
    return paper_bar(row.dim, row.ridge, row.length, question.units.granted)


@compiled
def paper_bar(d: int, ridge: float, length: float, granted: int) -> float:
    """v_B/sqrt(B) with v_B = sqrt(2d log(1 + BL²/(dλ))) (E4); nothing is asked if v_B² > B."""
    budget = granted / UNIT
    if granted >= UNLIMITED:
        return 0.0
    square = 2.0 * d * math.log1p(budget * length * length / (d * ridge))
    if granted == 0 or square > budget:
        return math.inf
    return math.sqrt(square / budget)


@inlined
def asks_step(rule: PaperMatching, question: Question) -> bool:
    """CBM-UCBVI and CBM-ULCVI (E6): ask if CI^R ≥ L·(6 sqrt(|L_R|/B) + 4SAH(log(1+B)+1)/B); what is free, always."""
    if question.units.cost == 0:
        return True
    return wide_enough(question, paper_episode_bar(question.step.rewarding, question.cells, question.units.granted))


@compiled
def paper_episode_bar(rewarding: float, cells: int, granted: int, each: float = 4.0) -> float:
    """6 sqrt(|L_R|/B) + 4SAH(log(1+B)+1)/B (E6); `each` is the 4, with which the rule may overspend (E7)."""
    if granted == 0:
        return math.inf
    if granted >= UNLIMITED:
        return 0.0
    budget = granted / UNIT
    return 6.0 * math.sqrt(rewarding / budget) + each * cells * (math.log1p(budget) + 1.0) / budget


@dataclass(frozen=True)
class PaperMatching(Rule, tabular=asks, linear=asks_row, episodic=asks_step, limit=limit, bar=bar):
    """Confidence-budget matching as in the paper: ask if CI ≥ 4 sqrt(6 log(Mt)·C/B(t)) (CBM-UCB).

    With OFUL: ask if min(‖x‖, 1) ≥ v_B/sqrt(B) in V⁻¹ (CBM-OFUL, as corrected in docs/paper.md). With UCBVI and
    ULCVI: ask if CI^R ≥ L·(6 sqrt(|L_R|/B) + 4SAH(log(1+B)+1)/B), which the ledger has to guard: see docs/paper.md, E7.
    """

    summary = "The paper's rule, for comparison."

    unit_costs_only = ("linear", "episodic")

    _: KW_ONLY
    explore: str = "always"
