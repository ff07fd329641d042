"""CBM-OFUL: Theorem 3 for regret, its lemma for the budget, and how fast regret grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparingly.budgets import Bernoulli
from sparingly.budgets import Linear as Steady
from sparingly.features import HalfSpaces, Sphere
from sparingly.lab.claims import statistics
from sparingly.lab.claims.adversaries import directions_in_turn, exactly, paper_share_of_rows
from sparingly.lab.claims.arms_bounds import Setting, setting_panels, shares, within_budget
from sparingly.lab.claims.evidence import Check, Evidence, Panel, claim
from sparingly.lab.claims.panels import Floats, along, bound_line, name
from sparingly.lab.claims.runner import Runner
from sparingly.lab.claims.worst_case import JUDGED as GROWTH
from sparingly.lab.claims.worst_case import of_directions, worst_case_growth
from sparingly.lab.paper_policies import OFUL, ExactMatching
from sparingly.problems import Linear, linear_trap
from sparingly.rules import PaperMatching
from sparingly.theory import upper


def settings(dim: int, noise: float, delta: float, rounds: int) -> list[Setting]:
    """Random features, features from one half-space at a time, and the paper's counterexample to greedy."""
    theta = np.full(dim, dim**-0.5)
    learner = OFUL(dim, noise=noise, delta=delta, radius="simple")
    quiet = OFUL(4, noise=0.0, norm=1.25, delta=delta, radius="simple")
    trap = linear_trap()

    def bound(b: Floats) -> Floats:
        return upper.cbm_oful(b, dim, noise=noise, delta=delta)

    return [
        Setting(
            "features drawn at random", Linear(theta, Sphere(5), noise=noise), learner, Steady(0.5), bound, rounds // 2,
            largest=2.0,
        ),
        Setting(
            "features from half-spaces", Linear(theta, HalfSpaces(5), noise=noise), learner, Bernoulli(0.5), bound,
            rounds // 2, largest=2.0,
        ),
        Setting(
            "the counterexample to greedy", trap.problem, quiet, trap.budget,
            lambda b: upper.cbm_oful(b, 4, noise=0.0, norm=1.25, delta=delta), rounds,
            largest=1.0,
        ),
    ]  # fmt: skip


def below_in_most_runs(
    runner: Runner, where: Sequence[Setting], rule: Any, delta: float, runs: int, x_label: str = "round"
) -> tuple[list[Check], list[Panel]]:
    """Check a bound that holds in all but a share δ of the runs, for all T at once, each run with its own budget.

    Between checkpoints, regret and bound can only grow: if the regret at a checkpoint lies below the bound at the
    previous one, it was below the bound all the time between them.
    """
    checks, panels = [], []
    for place, setting in enumerate(where):
        result = runner.simulate(
            setting.problem, setting.learner, rule, setting.budget, rounds=setting.rounds, runs=runs, stream=place
        )
        bars = along(result, setting.bound)
        crossed = (result.regret > bars).any(axis=1)
        perhaps = crossed | (result.regret[:, 1:] > bars[:, :-1]).any(axis=1)
        checks += [
            statistics.chance(
                f"{setting.label}: the chance that regret exceeds the bound at some T", perhaps, "≤", delta,
                certain=crossed,
            ),
            statistics.below_for_any_law(
                f"{setting.label}: mean regret ≤ the bound", result.regret, bars, setting.largest * result.rounds
            ),
        ]  # fmt: skip
        line = bound_line("upper bound", result, bars)
        panels += setting_panels(setting.label, {name(rule): result}, line, x_label)
    return checks, panels


JUDGED = (
    "The chance that the regret of a run exceeds the bound at any T must be at most δ (between two checkpoints, regret "
    "at the later one is held against the bound at the earlier one), and the mean regret must stay below it."
)


@claim(
    "oful/regret",
    "With probability 1 − δ, CBM-OFUL loses at most 2 l_T v_T (Σ 1/sqrt(B(t)) + sqrt(T)) for all T, for any features.",
    source="Theorem 3",
    judged=JUDGED,
    quick={"dim": 4, "noise": 0.1, "delta": 0.2, "rounds": 100_000, "runs": 70},
    full={"delta": 0.1, "rounds": 300_000, "runs": 200},
)
def regret(runner: Runner, dim: int, noise: float, delta: float, rounds: int, runs: int) -> Evidence:
    checks, panels = below_in_most_runs(runner, settings(dim, noise, delta, rounds), PaperMatching(), delta, runs)
    return Evidence(tuple(checks), tuple(panels))


@claim(
    "oful/budget",
    "CBM-OFUL never spends more than B(t), for any features and budgets, and is never refused.",
    source="Lemma 12 (CBM-OFUL: the budget constraint is satisfied)",
    judged="Exact, in every run: spent ≤ B(t) at every checkpoint, and the ledger refuses nothing. With directions in "
    "turn and B = 2.51d, where v_B² = B, it must spend 39.8 % of the budget, no more and no less: the largest share "
    "that such rows make it spend. While v_B² > B it must ask nothing, though rows are four times as long (E4).",
    quick={"dim": 8, "rounds": 20_000, "runs": 10},
    full={"rounds": 200_000, "runs": 50},
)
def budget(runner: Runner, dim: int, rounds: int, runs: int) -> Evidence:
    theta, learner = np.full(dim, dim**-0.5), OFUL(dim, noise=0.1)
    checks, shown = within_budget(
        runner, Linear(theta, Sphere(10), noise=0.1), learner, PaperMatching(), rounds, runs
    )  # fmt: skip
    halves = runner.simulate(
        Linear(theta, HalfSpaces(10), noise=0.1),
        learner,
        PaperMatching(),
        Bernoulli(0.2),
        rounds=rounds,
        runs=runs,
        stream=9,
    )
    checks.append(statistics.exact("features from half-spaces: refusals by the ledger", halves.refused.sum(), "=", 0))
    shown["features from half-spaces"] = halves
    per_direction, share = paper_share_of_rows()
    in_turn = directions_in_turn(OFUL, dim, per_direction * dim, 10)
    early = directions_in_turn(OFUL, dim, 0.5 * dim, 10, length=4.0)  # v_B² > B: nothing is asked (E4)
    checks += exactly(runner, PaperMatching(), in_turn, share, 10)
    checks += exactly(runner, PaperMatching(), early, 0.0, 11)
    return Evidence(tuple(checks), (shares(shown),))


@claim(
    "oful/rate",
    "With a budget εt, the worst regret of CBM-OFUL grows like sqrt(T) up to logarithms.",
    source="Theorem 3, Proposition 4",
    judged=GROWTH,
    quick={"dim": 2, "share": 1.0, "horizons": (2_000, 8_000, 32_000), "runs": 1_300},
    full={"horizons": (2_000, 8_000, 32_000, 128_000)},
)
def rate(runner: Runner, dim: int, share: float, horizons: Sequence[int], runs: int) -> Evidence:
    cases, rules = [(Steady(share), T) for T in horizons], (PaperMatching(), ExactMatching())
    checks, panel = worst_case_growth(runner, of_directions(dim), rules, "T", horizons, cases, 0.5, runs)
    return Evidence(tuple(checks), (panel,))
