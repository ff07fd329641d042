"""Matching(α, β): the generic form, for an optimistic learner whose regret is of the order α T^β."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparingly.ledger import UNIT, UNLIMITED
from sparingly.numba_support import inlined
from sparingly.protocol import Question
from sparingly.rules.intervals import at_or_above, wide_enough
from sparingly.rules.rule import Rule
from sparingly.validation import number


@inlined
def asks(rule: Matching, question: Question) -> bool:
    """sqrt(6 log(Mt)/(n^q ∨ 1)) ≥ α sqrt(log(Mt))·B^(β−1)."""
    return question.asked <= limit(rule, question)


@inlined
def limit(rule: Matching, question: Question) -> int:
    """The same as a limit on counts: n^q ∨ 1 ≤ 6 B^(2−2β)/α²; equality means ask, in spite of rounding."""
    granted = question.units.granted
    if granted >= UNLIMITED:
        return UNLIMITED
    if granted == 0:
        return -1
    bound = 6.0 * (granted / UNIT) ** (2.0 - 2.0 * rule.beta) / (rule.alpha * rule.alpha)
    if bound >= UNLIMITED:
        return UNLIMITED
    return int(bound * (1.0 + 1e-12)) if bound >= 1.0 - 1e-12 else -1


@inlined
def asks_row(rule: Matching, question: Question) -> bool:
    """‖x‖ ≥ α B^(β−1) in V⁻¹: the radius cancels."""
    return at_or_above(question.row.norm, bar(rule, question))


@inlined
def bar(rule: Matching, question: Question) -> float:
    """α B^(β−1)."""
    granted = question.units.granted
    if granted == 0:
        return math.inf
    return 0.0 if granted >= UNLIMITED else float(rule.alpha * (granted / UNIT) ** (rule.beta - 1.0))


@inlined
def asks_step(rule: Matching, question: Question) -> bool:
    """CI^R ≥ α L·B^(β−1); what is free, always."""
    return question.units.cost == 0 or wide_enough(question, bar(rule, question))


@dataclass(frozen=True)
class Matching(Rule, tabular=asks, linear=asks_row, episodic=asks_step, limit=limit, bar=bar):
    """The generic form for an optimistic learner whose regret is of the order α T^β: ask if CI ≥ α_t B(t)^(β−1).

    α_t = α sqrt(log(Mt)), the logarithmic factor of the interval itself; with OFUL it is α times the radius, so that
    an action is asked about if ‖x‖ ≥ α B(t)^(β−1) in V⁻¹; with UCBVI and ULCVI it is α L_t. Whether it stays within the
    budget depends on α; the ledger keeps it there and counts the refusals. PaperMatching is α = 4 sqrt(6C), β = 1/2.
    """

    summary = "Ask if the interval is wider than α·B^(β−1)."

    alpha: float
    beta: float = 0.5

    @classmethod
    def examples(cls) -> tuple[Matching, ...]:
        return (cls(alpha=1.0, beta=0.5),)

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.alpha, "alpha", least=0.0, above=True)
        number(self.beta, "beta", least=0.0, most=1.0)
