"""Never: ask nothing, not even what is free."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparingly.rules.rule import Rule


@dataclass(frozen=True)
class Never(Rule, tabular=False, linear=False, episodic=False, limit=-1, bar=math.inf, signal=0.0):
    """Never ask."""

    summary = "Never ask."
