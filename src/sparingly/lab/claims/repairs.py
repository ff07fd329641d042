"""Corrections that concern bounds: the exponent named after Proposition 1 (E11)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from sparingly.budgets import Fixed
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Check, Evidence, Form, Panel, claim
from sparingly.lab.claims.panels import curve, mean_of_runs, means, name
from sparingly.lab.claims.runner import Runner
from sparingly.lab.claims.worst_case import of_arms, worst_regrets
from sparingly.lab.paper_policies import ExactMatching
from sparingly.theory import lower


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
