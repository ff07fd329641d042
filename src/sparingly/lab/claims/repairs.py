"""Corrections of bounds and constants: the exponent named after Proposition 1 (E11), a repair of the lemma of E7."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from sparingly.budgets import Fixed
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Check, Evidence, Form, Panel, claim
from sparingly.lab.claims.panels import curve, mean_of_runs, means, name
from sparingly.lab.claims.runner import Runner
from sparingly.lab.claims.worst_case import of_arms, worst_regrets
from sparingly.lab.paper_policies import ExactMatching
from sparingly.theory import lower, repair


def _as(form: Form, checks: Sequence[Check]) -> list[Check]:
    """Checks of the paper's own wording, or of the corrected one."""
    return [dataclasses.replace(check, form=form) for check in checks]


@claim(
    "corrections/e11",
    "With a budget B = T^β the lower bound of Proposition 1, which upper bounds match, is of the order "
    "sqrt(A)·T^(1−β).",
    source="after Proposition 1; E11",
    judged="The slope of the logarithm of the bound over that of T (exact), and of the worst regret of exact matching, "
    "which must be at most that power, as stated, or that power from both sides, as corrected, up to one logarithm.",
    correction="The order is sqrt(A)·T^(1−β/2), as in the examples of budget profiles.",
    quick={"arms": 5, "power": 0.5, "horizons": (16_000, 128_000, 1_024_000), "runs": 1_200},
    full={"horizons": (16_000, 64_000, 256_000, 1_024_000, 4_096_000)},
)
def e11(runner: Runner, arms: int, power: float, horizons: Sequence[int], runs: int) -> Evidence:
    T = np.asarray(horizons, dtype=np.float64)
    bound = np.array([float(lower.unit_costs(t, arms, float(t) ** power)) for t in horizons])
    slope = float(np.polyfit(np.log(T), np.log(bound), 1)[0])
    rule = ExactMatching()
    samples = [
        worst_regrets(runner, of_arms(arms), rule, Fixed(float(t) ** power), t, runs, place)
        for place, t in enumerate(horizons)
    ]
    stated, corrected = 1.0 - power, 1.0 - power / 2.0
    checks = [
        statistics.exact("Proposition 1: slope, over 1 − β", slope / stated, "≤", 1.0 + 1e-9, "stated"),
        statistics.exact("Proposition 1: slope, off 1 − β/2", abs(slope - corrected), "≤", 1e-9, "corrected"),
        *_as("stated", statistics.growth(f"{name(rule)}: regret grows", T, samples, stated, from_below=False)),
        *_as("corrected", statistics.growth(f"{name(rule)}: regret grows", T, samples, corrected)),
    ]
    measured = means(name(rule), T, samples)
    last = measured.y[-1]
    lines = (
        measured,
        curve("T^(1−β), as stated", T, 0.5 * last * (T / T[-1]) ** stated, role="fit"),
        curve("T^(1−β/2)", T, 0.5 * last * (T / T[-1]) ** corrected, role="fit"),
        curve("Proposition 1", T, bound, role="lower"),
    )
    title = f"Worst regret with B = T^{power:g}"
    return Evidence(tuple(checks), (Panel(title, "T", f"regret: {mean_of_runs([runs])}", lines),))


def _overspends(sizes: Sequence[int], each: float, per_cell: int, fraction: float) -> dict[tuple[int, int, float], int]:
    """By how many asks the rule would overspend, if it would: for M cells, |L_R| of them with rewards, and B."""
    found = {}
    for M in sizes:
        for rewarding in sorted({1, 2, M // 2, M} - {0} if M > 1 else {1}):
            for step in range(1, math.ceil(per_cell * M / fraction) + 1):
                B = step * fraction
                over = repair.most_asks(B, M, rewarding, each) - math.floor(B)
                if over > 0:
                    found[M, rewarding, B] = over
    return found


@claim(
    "corrections/e7",
    "CBM-UCBVI's and CBM-ULCVI's threshold, with 4·SAH(log(1+B)+1)/B, never lets more be asked for than B.",
    source="Lemmas 16 and 22; E7",
    judged="Exact: for all SAH up to 39, and 60, 100 and 200, with one, two, half and all cells rewarding and B up to "
    "4·SAH, a cell is asked about until its interval falls below the threshold, with the largest variance. As stated "
    "the asks beyond ⌊B⌋ must be 0; as corrected, with 12 in place of 4, too. Where 4 fails for whole budgets is "
    "compared with what the documents say: SAH = 2 … 12, B = 2·SAH − 1, |L_R| = 1, by one ask.",
    correction="With 12 in place of 4 it holds, for all budgets (docs/paper.md has the proof), and Theorems 4 and 5 "
    "stay as they are.",
    quick={"sizes": (*range(1, 40), 60, 100, 200), "per_cell": 4},
    full={"per_cell": 40},
)
def e7(runner: Runner, sizes: Sequence[int], per_cell: int) -> Evidence:
    stated, repaired = (_overspends(sizes, each, per_cell, 1.0) for each in (4.0, repair.REPAIRED))
    parts = _overspends([M for M in sizes if M <= 14], 4.0, 3, 0.25)
    safe = _overspends([M for M in sizes if M <= 14], repair.REPAIRED, 3, 0.25)
    named = {(M, 1, 2.0 * M - 1.0): 1 for M in range(2, 13)}
    checks = (
        statistics.exact("4, whole budgets: the most asks beyond B", max(stated.values(), default=0), "=", 0, "stated"),
        statistics.exact("12, whole budgets: the most asks beyond B", max(repaired.values(), default=0), "=", 0,
                         "corrected"),
        statistics.exact("12, B in quarters: the most asks beyond ⌊B⌋", max(safe.values(), default=0), "=", 0,
                         "corrected"),
        statistics.exact("4, whole budgets: cases other than those that are named", len(stated.items() ^ named.items()),
                         "=", 0),
        statistics.exact("4, B in quarters: the most asks beyond ⌊B⌋", max(parts.values(), default=0), "≤", 2),
    )  # fmt: skip
    budgets = np.arange(1, 61)
    lines = [
        curve(f"{each:g}·SAH", budgets, [repair.most_asks(float(B), 5, 1, each) for B in budgets])
        for each in (4.0, repair.REPAIRED)
    ]
    lines.append(curve("budget", budgets, budgets, role="budget"))
    panel = Panel("The most asks, SAH = 5, |L_R| = 1", "budget B", "asks", tuple(lines), False, False, chance=False)
    return Evidence(checks, (panel,))
