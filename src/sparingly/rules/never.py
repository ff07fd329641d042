"""Never: ask nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparingly.numba_support import inlined
from sparingly.protocol import Question
from sparingly.rules.rule import Rule


@inlined
def asks(rule: Never, question: Question) -> bool:
    """Not even for free."""
    return False


@inlined
def limit(rule: Never, question: Question) -> int:
    """Not a single time."""
    return -1


@inlined
def bar(rule: Never, question: Question) -> float:
    """No width is large enough."""
    return math.inf


@dataclass(frozen=True)
class Never(Rule, tabular=asks, linear=asks, episodic=asks, limit=limit, bar=bar):
    """Ask nothing."""

    summary = "Ask nothing."
