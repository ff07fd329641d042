"""The budget profiles: how the worst regret grows with the horizon, the budget and the period."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from sparingly.budgets import Fixed, Late, Linear, Periodic, Polynomial, Schedule
from sparingly.lab.claims import statistics
from sparingly.lab.claims.arms_bounds import both_bounds
from sparingly.lab.claims.evidence import Check, Evidence, Panel, claim
from sparingly.lab.claims.panels import curve, name, regrets, spending
from sparingly.lab.claims.runner import Runner
from sparingly.lab.claims.worst_case import FACTOR, HORIZONS, JUDGED, LONGER, of_arms, worst_case_growth
from sparingly.lab.paper_policies import UCB1, ExactMatching
from sparingly.problems import Arms
from sparingly.rules import PaperMatching
from sparingly.theory import profiles as theory


def _growth(
    runner: Runner, arms: int, what: str, x: Sequence[float], cases: Sequence[tuple[Schedule, int]], exponent: float,
    runs: int, stream: int = 0, factor: float | None = None,
) -> tuple[list[Check], Panel]:  # fmt: skip
    """The worst regret of the matching rules for every (schedule, horizon), against x^exponent."""
    bounds, rules = both_bounds(x, arms, cases), (ExactMatching(), PaperMatching())
    return worst_case_growth(
        runner, of_arms(arms), rules, what, x, cases, exponent, runs, stream, factor, bounds=bounds
    )


def _evidence(*parts: tuple[list[Check], Panel]) -> Evidence:
    """Combine the checks and panels from varying one parameter after the other."""
    return Evidence(tuple(check for checks, _ in parts for check in checks), tuple(panel for _, panel in parts))


@claim(
    "profiles/linear",
    "If B(t) = εt, the regret is of the order sqrt(AT/ε).",
    source="Example 1, linear budget",
    judged=JUDGED,
    quick={
        "arms": 5, "rate": 0.1, "horizons": HORIZONS, "rounds": 1_024_000, "rates": (1 / 640, 1 / 80, 1 / 10),
        "runs": 1_100,
    },
    full={"horizons": LONGER, "rounds": 4_096_000, "rates": (1 / 2_560, 1 / 640, 1 / 160, 1 / 40, 1 / 10)},
)  # fmt: skip
def linear(
    runner: Runner, arms: int, rate: float, horizons: Sequence[int], rounds: int, rates: Sequence[float], runs: int,
) -> Evidence:  # fmt: skip
    powers = theory.linear(rounds, arms, rate)
    return _evidence(
        _growth(runner, arms, "T", horizons, [(Linear(rate), T) for T in horizons], powers.rounds, runs),
        _growth(runner, arms, "ε", rates, [(Linear(e), rounds) for e in rates], powers.amount, runs, 1, FACTOR),
    )


@claim(
    "profiles/polynomial",
    "If B(t) = t^c, the regret is of the order sqrt(A) T^(1 − c/2).",
    source="Example 1, polynomial budget",
    judged=JUDGED + " The budget is a multiple of t^c that is the same for the first horizon, whatever c is.",
    quick={"arms": 5, "powers": (0.4, 0.6), "first": 1_600, "horizons": HORIZONS, "runs": 2_000},
    full={"powers": (0.4, 0.6, 0.8), "horizons": LONGER},
)
def polynomial(
    runner: Runner, arms: int, powers: Sequence[float], first: int, horizons: Sequence[int], runs: int,
) -> Evidence:  # fmt: skip
    parts = []
    for place, c in enumerate(powers):
        scale = first / horizons[0] ** c
        cases = [(Polynomial(c, scale=scale), T) for T in horizons]
        exponent = theory.polynomial(horizons[-1], arms, c, scale).rounds
        parts.append(_growth(runner, arms, f"T, c = {c:g}", horizons, cases, exponent, runs, place))
    return _evidence(*parts)


@claim(
    "profiles/fixed",
    "If B(t) = B0, the regret is of the order sqrt(A) T/sqrt(B0): linear in T, and falling with the root of B0.",
    source="Example 1, fixed budget",
    judged=JUDGED,
    quick={
        "arms": 5, "budget": 1_600, "horizons": HORIZONS, "rounds": 1_024_000, "budgets": (1_600, 12_800, 102_400),
        "runs": 1_400,
    },
    full={"horizons": LONGER, "rounds": 4_096_000, "budgets": (1_600, 6_400, 25_600, 102_400, 409_600)},
)  # fmt: skip
def fixed(
    runner: Runner, arms: int, budget: int, horizons: Sequence[int], rounds: int, budgets: Sequence[int], runs: int,
) -> Evidence:  # fmt: skip
    powers = theory.fixed(rounds, arms, budget)
    return _evidence(
        _growth(runner, arms, "T", horizons, [(Fixed(budget), T) for T in horizons], powers.rounds, runs),
        _growth(runner, arms, "B0", budgets, [(Fixed(B), rounds) for B in budgets], powers.amount, runs, 1, FACTOR),
    )


@claim(
    "profiles/late",
    "If the budget B0 comes only after T − B0 rounds, the regret is linear in T, whatever the policy.",
    source="Example 1, fixed budget given at the end",
    judged="One arm pays 1, the others 0. Before the budget comes nothing is known, so some place of the good arm "
    "must cost "
    "at least half of the T − B0 rounds before.",
    quick={"arms": 4, "budget": 1_000, "rounds": 100_000, "runs": 40},
    full={"rounds": 1_000_000, "runs": 100},
)
def late(runner: Runner, arms: int, budget: int, rounds: int, runs: int) -> Evidence:
    start = rounds - budget + 1
    checks, shown = [], {}
    for rule, ties in itertools.product((ExactMatching(), PaperMatching()), ("first", "random")):
        results = [
            runner.simulate(
                Arms(np.eye(arms)[k]),
                UCB1(arms, ties=ties),
                rule,
                Late(budget, start),
                rounds=rounds,
                runs=runs,
                stream=k,
            )
            for k in range(arms)
        ]
        label = f"{name(rule)}, ties {ties}"
        finals = [result.regret[:, -1] for result in results]
        checks.append(
            statistics.above_somewhere(f"{label}: regret on the worst instance", finals, (rounds - budget) / 2)
        )
        shown[label] = max(results, key=lambda result: float(result.regret[:, -1].mean()))
    marks = next(iter(shown.values())).rounds
    line = curve("half of the rounds", marks, marks / 2, role="lower")
    return Evidence(tuple(checks), (regrets("Regret on the worst instance", shown, line), spending(shown)))


@claim(
    "profiles/periodic",
    "If the budget is replenished by B0 every N rounds, the regret is of the order sqrt(ATN/B0).",
    source="Example 1, periodically replenished budget",
    judged=JUDGED,
    quick={
        "arms": 5, "amount": 100, "every": 1_000, "horizons": HORIZONS, "rounds": 1_024_000,
        "periods": (1_000, 8_000, 64_000), "amounts": (16, 128, 1_024), "runs": 1_000,
    },
    full={
        "horizons": LONGER, "rounds": 4_096_000, "periods": (1_000, 4_000, 16_000, 64_000, 256_000),
        "amounts": (4, 16, 64, 256, 1_024),
    },
)  # fmt: skip
def periodic(
    runner: Runner, arms: int, amount: int, every: int, horizons: Sequence[int], rounds: int, periods: Sequence[int],
    amounts: Sequence[int], runs: int,
) -> Evidence:  # fmt: skip
    powers = theory.periodic(rounds, arms, amount, every)
    by_time = [(Periodic(amount, every), T) for T in horizons]
    by_period = [(Periodic(amount, N), rounds) for N in periods]
    by_amount = [(Periodic(B, 10 * every), rounds) for B in amounts]
    return _evidence(
        _growth(runner, arms, "T", horizons, by_time, powers.rounds, runs),
        _growth(runner, arms, "N", periods, by_period, powers.every, runs, 1, FACTOR),
        _growth(runner, arms, "B0", amounts, by_amount, powers.amount, runs, 2, FACTOR),
    )
