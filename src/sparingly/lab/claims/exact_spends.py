"""Exact matching spends all of the budget that an adversary makes it spend, and never more."""

from __future__ import annotations

import numpy as np

from sparingly.lab.claims.adversaries import cells_in_turn, directions_in_turn, nearly_all, steps_in_turn
from sparingly.lab.claims.evidence import Evidence, claim
from sparingly.lab.claims.runner import Runner
from sparingly.lab.paper_policies import OFUL, UCB1, UCBVI, ULCVI, ExactMatching


@claim(
    "ours/exact-spends",
    "R1 and R2 spend the whole budget on an adversary who lets cells or directions come in turn, and never more.",
    source="R1 and R2, docs/paper.md",
    judged="Exact, in every run, for arms with contexts and costs, features with and without costs, and episodes: at "
    "least 95 % of the budget is spent, spending stays within it, and the ledger refuses nothing. A rule that asks "
    "once too often is refused.",
    quick={"cells": 6, "dim": 8, "each": 40},
    full={"cells": 24, "dim": 16, "each": 100},
)
def exact_spends(runner: Runner, cells: int, dim: int, each: int) -> Evidence:
    costs, rule = 0.5 + 0.25 * np.arange(cells, dtype=np.float64), ExactMatching()
    episodes = 60 * each
    drives = (
        cells_in_turn(UCB1, np.ones(cells), float(each * cells), each + 3),
        cells_in_turn(UCB1, costs, each * float(costs.sum()), each + 3),
        directions_in_turn(OFUL, 1, float(each), 2 * each),  # where R2 has no room: one ask too many is refused
        directions_in_turn(OFUL, dim, float(each * dim), 2 * each),
        directions_in_turn(OFUL, dim, float(each * dim), 2 * each, length=4.0),
        directions_in_turn(OFUL, 1, 0.5 * each + 0.25, 4 * each, costs=(0.5, 4.0)),  # at the end 0.25 is left
        directions_in_turn(OFUL, dim, 0.5 * each * dim, 4 * each, costs=(0.5, 4.0)),
        steps_in_turn(UCBVI, 3, 2, 6.0 * each, episodes),
        steps_in_turn(ULCVI, 3, 2, 6.0 * each, episodes),
    )
    checks = [check for stream, drive in enumerate(drives) for check in nearly_all(runner, rule, drive, stream)]
    return Evidence(tuple(checks))
