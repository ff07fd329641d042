"""Records made by hand for the tests of the report: every role, verdict and outcome, and numbers hard to draw."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sparingly.lab.claims import Check, ClaimRecord, Curve, Evidence, Panel

T = np.unique(np.geomspace(1, 100_000, 70).astype(int)).astype(float)
ALARM = 1e-6
UNBROKEN = "matchingwithoutend" * 12


def line(label: str, y: Callable[[np.ndarray], np.ndarray], role: str = "measured", x: np.ndarray = T) -> Curve:
    return Curve(label, tuple(x), tuple(np.asarray(y(x), dtype=float)), role=role)


def banded(label: str, y: Callable[[np.ndarray], np.ndarray], spread: float = 0.35, x: np.ndarray = T) -> Curve:
    mean = np.asarray(y(x), dtype=float)
    return Curve(label, tuple(x), tuple(mean), tuple(mean * (1 - spread)), tuple(mean * (1 + spread)))


def shown(says: str = "regret stays below the bound", form: str = "") -> Check:
    test = "Student's t, 20 runs, at each of 70 rounds, if means are normal"
    return Check(says, 0.51234, "≤", 1.0, 0.50111, 0.52345, "shown", test, ALARM, form)


def refuted(says: str = "the paper's rule is never refused", form: str = "stated") -> Check:
    return Check(says, 1_204.0, "=", 0.0, 1_204.0, 1_204.0, "refuted", "exact", 0.0, form)


def record(id: str, statement: str, *checks: Check, panels: tuple[Panel, ...] = (), **more: str) -> ClaimRecord:
    words = {"source": "Theorem 3, page 5", "judged": "The mean over runs against the bound.", "correction": ""} | more
    note = words.pop("note", "")
    parameters = {"rounds": 100_000, "runs": 20, "arms": [2, 10], "gap": 0.1, "budget": {"power": 0.5, "scale": 100}}
    return ClaimRecord(id, statement, mode="quick", seed=0, parameters=parameters,
                  evidence=Evidence(checks, panels, note), **words)  # fmt: skip


def regret_panel() -> Panel:
    return Panel("Regret of ten arms, 1,000 asks", "round", "regret: mean, and 10–90 % of 20 runs", (
        line("upper bound, Theorem 3", lambda t: 40 * np.sqrt(t), "upper"),
        banded("PaperMatching", lambda t: 6 * np.sqrt(t)),
        banded("ExactMatching", lambda t: 2.5 * np.sqrt(t)),
        banded("Greedy", lambda t: 0.3 * t**0.8),
        line("lower bound", lambda t: 0.2 * np.sqrt(t), "lower"),
    ))  # fmt: skip


def spending_panel() -> Panel:
    return Panel("Spent, against the budget", "round", "spent on asking (mean)", (
        line("budget B(t)", lambda t: np.minimum(t, 1_000.0), "budget"),
        line("PaperMatching", lambda t: np.minimum(0.3 * t, 170)),
        line("ExactMatching", lambda t: np.minimum(t, 998.0)),
        line("Greedy", lambda t: np.minimum(t, 1_000.0)),
    ))  # fmt: skip


def slope_panel() -> Panel:
    budgets = np.array([100.0, 316, 1000, 3162, 10000])
    points = [1630.0, 900, 520, 287, 162]
    return Panel("Worst regret over the budget", "budget B", "regret after 100,000 rounds", (
        Curve("worst of four instances", tuple(budgets), tuple(points), tuple(0.8 * p for p in points),
              tuple(1.2 * p for p in points)),
        line("fit: slope −0.50", lambda b: 16_300 / np.sqrt(b), "fit", budgets),
        line("lower bound of Proposition 2 with the constant of the corrected proof, which is 1/27 instead of 1/8",
             lambda b: 5_000 / np.sqrt(b), "lower", budgets),
    ))  # fmt: skip


def crowded_panel() -> Panel:
    curves = [
        banded(f"B(t) = t^{0.2 + 0.1 * i:.1f}", lambda t, i=i: (9 - i) * t ** (0.95 - 0.06 * i)) for i in range(8)
    ]
    return Panel("Regret for eight profiles of the budget", "round", "regret", tuple(curves))


def hard_panel() -> Panel:
    """Zeros, negative numbers, infinities, gaps and single points on axes that would be logarithmic."""
    x = (0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0)
    return Panel("Numbers that are hard to draw", "round", "regret", (
        Curve("starts at 0", x, (0.0, 0.0, 3.0, 20.0, 150.0, 900.0), (0.0, 0.0, 1.0, 10.0, 100.0, 700.0),
              (0.0, 0.0, 9.0, 40.0, 300.0, math.inf)),
        Curve("with a gap", x, (1.0, 2.0, math.nan, math.nan, 80.0, 100.0)),
        Curve("vacuous bound", x, (math.inf, math.inf, math.inf, 700.0, 2_000.0, 9_000.0), role="upper"),
        Curve("below zero", x, (-5.0, -8.0, -3.0, 1.0, 5.0, 10.0)),
        Curve("one point", (100.0,), (400.0,), role="lower"),
        Curve("never finite", x, (math.nan,) * 6),
    ))  # fmt: skip


def linear_panel() -> Panel:
    x = np.linspace(0.0, 1_000_000.0, 21)
    return Panel("Share of the budget that is used", "episodes", "share of the budget", (
        line("ExactMatching, S = 5, A = 2, H = 4", lambda t: 1 - np.exp(-t / 1e5), x=x),
        line("PaperMatching, S = 5, A = 2, H = 4", lambda t: 0.2 * (1 - np.exp(-t / 3e5)), x=x),
    ), x_log=False, y_log=False)  # fmt: skip


def formula_panel() -> Panel:
    """Nothing measured, and no seed."""
    budgets = np.geomspace(1.0, 1e6, 30)
    return Panel("Two thresholds", "budget B", "threshold", (
        line("the text's", lambda b: 2 / np.sqrt(b), x=budgets),
        line("the algorithm's", lambda b: 6 / np.sqrt(b), x=budgets),
    ), chance=False)  # fmt: skip


def narrow_panel() -> Panel:
    """Less than a decade on both axes, and labels with signs that mean something to HTML and to TeX."""
    x = np.array([200.0, 300, 400, 500, 600])
    return Panel("A <narrow> panel & a $dollar$", "x_1 < 2 & $y$", "ratio of ‖x‖ to √B", (
        line("a < b & $c_1$ #1 \"quoted\"", lambda t: 0.9 + t / 1e4, x=x),
        line("second", lambda t: 1.1 - t / 1e4, x=x),
        line("bound A", lambda t: 1.2 + 0 * t, "upper", x),
        line("bound B", lambda t: 1.15 + 0 * t, "upper", x),
    ))  # fmt: skip


def sample() -> list[ClaimRecord]:
    """Twelve and more records in no order of their groups."""
    log = Check("grows like the power 0.5, up to a logarithm", 0.497, "≤", 0.6123456, 0.4551, 0.5389, "shown",
                "least squares on 5 logarithms of means of 200 runs", ALARM)  # fmt: skip
    close = Check("the chance of a failure is at most δ", 0.043, "≤", 0.05, 0.0301, 0.0591, "open",
                  "Clopper and Pearson, 86 of 2000 runs", ALARM)  # fmt: skip
    odd = Check("a ratio whose denominator may be 0", math.nan, "≥", 2.0, -math.inf, math.inf, "open",
                "Fieller's ratio of means, 2 paired runs", ALARM)  # fmt: skip
    tiny = Check("numerically equal", 1.2e-7, "≤", 1e-6, 0.9e-7, 1.5e-7, "shown", "Student's t, 8 runs", ALARM)
    worst = Check("an adversary makes greedy lose", 49_999.25, "≥", 20_000.0, 49_998.5, math.inf, "shown",
                  "Student's t, 20 runs on each of 2 instances", ALARM)  # fmt: skip
    wrong = Check("regret is below the bound at every round", 1.31, "≤", 1.0, 1.22, 1.4, "refuted",
                  "Student's t, 20 runs", ALARM, "stated")  # fmt: skip
    return [
        record("ucb/regret", "CBM-UCB loses at most O(√(AT log T) + T√(A log T / B)) against any oblivious budget.",
               shown(), log, panels=(regret_panel(), spending_panel()),
               note="The bound is loose by a factor of 7: its constant comes from a union over all rounds."),
        record("lower/arms", "No algorithm does better than T√(A/B)/27 on every instance.",
               log, shown("the worst instance lies above the bound"), panels=(slope_panel(),),
               source="Proposition 2, page 3, and Appendix B"),
        record("greedy/adversarial-contexts", "Where contexts are adversarial, greedy loses linearly.", worst,
               panels=(hard_panel(),)),
        record("greedy/iid", "With i.i.d. contexts greedy is as good as matching.", shown(), close),
        record("oful/regret", "CBM-OFUL loses Õ(d√T + dT/√B).", shown(), panels=(regret_panel(),)),
        record("ucbvi/threshold", "CBM-UCBVI never asks for more than the budget allows.", refuted(),
               shown("never refused with the constant of the proof", "corrected"),
               panels=(linear_panel(), spending_panel(), crowded_panel()),
               correction="The threshold needs 8·√(|L|/B) in place of 6·√(|L|/B): line 7 of the proof drops a factor "
               "of √2. With it no run was ever refused."),
        record("ulcvi/regret", "CBM-ULCVI loses less where rewards are concentrated.", wrong,
               shown("with the logarithm squared", "corrected"),
               correction="The logarithm under the root is squared.", panels=(crowded_panel(),)),
        record("episodic/shared", "A policy from the past is enough for greedy.", odd, tiny),
        record("profiles/power", "For B(t) = t^p the regret grows like T^(1 − p/2).", log, panels=(crowded_panel(),)),
        record("remarks/safe", "A claim with <script>alert('x')</script> & \"quotes\" stays text.",
               shown("<b>bold</b> & 'said'"), panels=(narrow_panel(),), note="<img src=x onerror=alert(1)>"),
        record("corrections/constant", "The constant of Lemma 9 is 4.", refuted("the constant is 4"),
               shown("8 is enough", "corrected"), panels=(formula_panel(),), correction="It is 8."),
        record("ours/exact", "Exact matching spends all of the budget and is never refused.",
               Check("refusals", 0.0, "=", 0.0, 0.0, 0.0, "shown", "exact"), shown(), panels=(spending_panel(),)),
        record("extra/" + UNBROKEN, f"A word that does not end: {UNBROKEN}", shown(UNBROKEN), source=UNBROKEN,
               panels=(Panel(UNBROKEN, UNBROKEN, UNBROKEN, (line(UNBROKEN, np.sqrt),)), Panel("Empty", "x", "y", ())),
               note=UNBROKEN),
        record("extra/empty", "Nothing was measured.", panels=(
            Panel("All infinite", "x", "y", (Curve("∞", (1.0, 2.0), (math.inf, math.inf)),)),
        )),
    ]  # fmt: skip
