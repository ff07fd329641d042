"""Always: ask in every round, as far as the ledger lets it."""

from __future__ import annotations

from dataclasses import dataclass

from sparingly.ledger import UNLIMITED
from sparingly.rules.rule import Rule


@dataclass(frozen=True)
class Always(Rule, tabular=True, linear=True, episodic=True, limit=UNLIMITED, bar=0.0, signal=0.0):
    """Ask in every round, until the ledger refuses. With an unlimited budget it is the reference."""

    summary = "Ask in every round that the budget allows."
