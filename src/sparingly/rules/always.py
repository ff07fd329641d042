"""Always: ask in every round, as far as the ledger lets it."""

from __future__ import annotations

from dataclasses import dataclass

from sparingly.ledger import UNLIMITED
from sparingly.numba_support import inlined
from sparingly.protocol import Question
from sparingly.rules.rule import Rule


@inlined
def asks(rule: Always, question: Question) -> bool:
    """The ledger alone limits it."""
    return True


@inlined
def limit(rule: Always, question: Question) -> int:
    """No count is too large."""
    return UNLIMITED


@inlined
def bar(rule: Always, question: Question) -> float:
    """No width is too small."""
    return 0.0


@dataclass(frozen=True)
class Always(Rule, tabular=asks, linear=asks, episodic=asks, limit=limit, bar=bar):
    """Ask in every round, as far as the ledger lets it: the unbudgeted reference."""

    summary = "Ask in every round that the budget allows."
