"""Our own rule, exact matching, against the paper's: no refusals, a smaller bound, less regret.

For episodes balanced matching takes part, with its defaults. Arms and features: balanced_matching.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparingly.budgets import Fixed, Polynomial, Schedule
from sparingly.budgets import Linear as Steady
from sparingly.lab.claims import linear_bounds, statistics
from sparingly.lab.claims.arms_bounds import Setting, below_bound
from sparingly.lab.claims.arms_bounds import settings as tabular_settings
from sparingly.lab.claims.evidence import Check, Evidence, Panel, claim
from sparingly.lab.claims.panels import mean_of_runs, means, regrets, spending
from sparingly.lab.claims.runner import Runner
from sparingly.lab.claims.worst_case import Family, of_arms, of_directions, pilot, regrets_at_gap, worst_gap
from sparingly.lab.paper_policies import UCBVI, Always, ExactMatching
from sparingly.problems import random_mdp
from sparingly.rules import BalancedMatching, Greedy, PaperMatching
from sparingly.theory import upper

JUDGED = (
    "In every setting no refusals (exact), and mean regret below our bound at every checkpoint, whatever the law of "
    "regret. Under each budget, the regret for the gap that is worst for our rule, over the regret for the gap that is "
    "worst for the paper's, must be below 1; the gaps are found by a pilot, and the runs are independent."
)
BOTH = {"ExactMatching": ExactMatching(), "PaperMatching": PaperMatching()}


def _worst_cases(
    runner: Runner, family: Family, label: str, schedule: Schedule, rounds: int, runs: int
) -> tuple[Check, Panel]:
    """Compare the worst regret of our rule with the paper's, on fresh runs; plot the pilots over the gap."""
    lines, measured, few = [], {}, max(runs // 4, 8)
    for place, (rule_name, rule) in enumerate(BOTH.items()):
        tried = pilot(runner, family, rule, schedule, rounds, few, 50 + place)
        lines.append(means(rule_name, list(tried), list(tried.values())))
        gap = worst_gap(tried.items())
        measured[rule_name] = regrets_at_gap(runner, family, gap, rule, schedule, rounds, runs, 50 + place)
    ours, paper = measured["ExactMatching"], measured["PaperMatching"]
    check = statistics.ratio(f"{label}: worst regret, ours over the paper's", ours, paper, "≤", 1.0, paired=False)
    return check, Panel(f"Regret over the gap, {label}", "gap", f"regret: {mean_of_runs([few])}", tuple(lines))


@claim(
    "ours/exact-arms",
    "R1, ask if (n + 1)·C ≤ B: never refused, a bound with a smaller constant, and less worst-case regret than "
    "CBM-UCB.",
    source="R1, docs/paper.md",
    judged=JUDGED,
    quick={
        "rounds": 1_000_000, "adversarial_rounds": 100_000, "runs": 200, "arms": 5, "horizon": 100_000, "repeats": 300,
    },
    full={"rounds": 10_000_000, "adversarial_rounds": 400_000, "horizon": 1_000_000},
)  # fmt: skip
def exact_arms(
    runner: Runner, rounds: int, adversarial_rounds: int, runs: int, arms: int, horizon: int, repeats: int,
) -> Evidence:  # fmt: skip
    checks, panels = _below_ours(runner, rounds, adversarial_rounds, runs)
    schedules = {
        "B = t/10": Steady(0.1),
        "B = 10 sqrt(t)": Polynomial(0.5, scale=10),
        "B = T/100": Fixed(horizon / 100),
    }
    for label, schedule in schedules.items():
        check, panel = _worst_cases(runner, of_arms(arms), label, schedule, horizon, repeats)
        checks.append(check)
        panels.append(panel)
    note = (
        "Worst-case regret is not regret on every problem: where the gap is large, the paper's rule, which stops "
        "asking early, "
        "may stop exploring early too, and be lucky. The figures show both over the gap."
    )
    return Evidence(tuple(checks), tuple(panels), note)


def _below_ours(runner: Runner, rounds: int, adversarial: int, runs: int) -> tuple[list[Check], list[Panel]]:
    """Exact matching in the settings of Theorem 2, below its own bound."""
    costs = np.linspace(0.5, 2.0, 10)
    bounds = (
        lambda b: upper.exact_arms(b, 2),
        lambda b: upper.exact_arms(b, 10, total_cost=float(costs.sum())),
        lambda b: upper.exact_arms(b, 2, contexts=2),
        lambda b: upper.exact_arms(b, 2, contexts=2),
    )
    found = tabular_settings(rounds, adversarial)
    where = [setting._replace(bound=bound) for setting, bound in zip(found, bounds, strict=True)]
    return below_bound(runner, where, ExactMatching(), runs)


@claim(
    "ours/exact-linear",
    "R2, ask if the budget could pay for all asks that can still be as wide: never refused, less worst-case regret "
    "than CBM-OFUL.",
    source="R2, docs/paper.md",
    judged=JUDGED,
    quick={
        "dim": 8, "noise": 0.1, "delta": 0.1, "rounds": 20_000, "runs": 60, "small_dim": 2, "horizon": 20_000,
        "repeats": 200,
    },
    full={"dim": 16, "rounds": 100_000, "runs": 120, "horizon": 100_000},
)  # fmt: skip
def exact_linear(
    runner: Runner, dim: int, noise: float, delta: float, rounds: int, runs: int, small_dim: int, horizon: int,
    repeats: int,
) -> Evidence:  # fmt: skip
    bounds = (
        lambda b: upper.exact_oful(b, dim, noise=noise, delta=delta),
        lambda b: upper.exact_oful(b, dim, noise=noise, delta=delta),
        lambda b: upper.exact_oful(b, 4, noise=0.0, norm=1.25, delta=delta),
    )
    found = linear_bounds.settings(dim, noise, delta, rounds)
    where: list[Setting] = [setting._replace(bound=bound) for setting, bound in zip(found, bounds, strict=True)]
    checks, panels = below_bound(runner, where, ExactMatching(), runs)
    for label, schedule in {"B = t/10": Steady(0.1), "B = 10 sqrt(t)": Polynomial(0.5, scale=10)}.items():
        check, panel = _worst_cases(runner, of_directions(small_dim), label, schedule, horizon, repeats)
        checks.append(check)
        panels.append(panel)
    return Evidence(tuple(checks), tuple(panels))


@claim(
    "ours/exact-episodes",
    "Exact and balanced matching for episodes: never refused, and less regret than CBM-UCBVI and greedy.",
    source="R1 for episodes, docs/paper.md",
    judged="No refusals (exact); regret less than the paper's rule's and than greedy's, over paired runs.",
    quick={"sizes": (4, 2, 4), "scale": 0.05, "budget": 100.0, "rounds": 100_000, "runs": 40},
    full={"rounds": 1_000_000},
)
def exact_episodes(
    runner: Runner, sizes: Sequence[int], scale: float, budget: float, rounds: int, runs: int
) -> Evidence:
    S, A, H = sizes
    problem, learner = random_mdp(S, A, H, seed=runner.seed), UCBVI(S, A, H, scale=scale)
    schedule = Polynomial(0.5, scale=budget)
    rules = {**BOTH, "BalancedMatching": BalancedMatching(), "Greedy": Greedy(policies=32)}  # fewer differ by luck
    shown = {
        label: runner.simulate(problem, learner, rule, schedule, rounds=rounds, runs=runs)
        for label, rule in rules.items()
    }
    always = runner.simulate(problem, learner, Always(), Fixed(math.inf), rounds=rounds, runs=runs)
    checks = []
    for label in ("ExactMatching", "BalancedMatching"):
        mine = shown[label].regret[:, -1]
        checks.append(statistics.exact(f"{label}: refusals", shown[label].refused.sum(), "=", 0))
        checks += [
            statistics.ratio(f"{label}: regret over that of {other}", mine, shown[other].regret[:, -1], "≤", 1.0)
            for other in ("PaperMatching", "Greedy")
        ]
    panels = (
        regrets(f"Budget {budget:g}·sqrt(t)", {**shown, "Always, no limit": always}, x_label="episode"),
        spending(shown, "episode"),
    )
    return Evidence(tuple(checks), panels, "Bonuses are scaled so that learning shows in so few episodes.")


@claim(
    "ours/sparse-rewards",
    "Where rewards are sparse and |L_R| unknown, exact and balanced matching lose less than CBM-UCBVI which knows it.",
    source="after Theorem 4; docs/paper.md",
    judged="Regret over paired runs, with one ask every SAH/|L_R| episodes, against the paper's rule told |L_R|; "
    "no refusals (exact).",
    quick={"sizes": (6, 2, 4), "sparsity": 0.1, "scale": 0.2, "rounds": 100_000, "runs": 12},
    full={"sizes": (10, 2, 5), "rounds": 1_000_000, "runs": 12},
)
def sparse_rewards(
    runner: Runner, sizes: Sequence[int], sparsity: float, scale: float, rounds: int, runs: int
) -> Evidence:
    S, A, H = sizes
    problem = random_mdp(S, A, H, sparsity=sparsity, seed=runner.seed + 1)
    known = UCBVI(S, A, H, scale=scale, rewarding=problem.rewarding)
    plain, share = UCBVI(S, A, H, scale=scale), Steady(problem.rewarding / problem.cells)
    told = "PaperMatching, |L_R| known"
    policies: dict[str, tuple[Any, Any]] = {
        "ExactMatching": (plain, ExactMatching()),
        "BalancedMatching": (plain, BalancedMatching()),
        told: (known, PaperMatching()),
    }
    shown = {
        label: runner.simulate(problem, learner, rule, share, rounds=rounds, runs=runs)
        for label, (learner, rule) in policies.items()
    }
    checks = []
    for label in ("ExactMatching", "BalancedMatching"):
        checks += [
            statistics.exact(f"{label}: refusals", shown[label].refused.sum(), "=", 0),
            statistics.ratio(
                f"{label}: regret over the paper's", shown[label].regret[:, -1], shown[told].regret[:, -1], "≤", 1.0
            ),
        ]
    title = f"{problem.rewarding} of {problem.cells} cells have a reward"
    return Evidence(tuple(checks), (regrets(title, shown, x_label="episode"), spending(shown, "episode")))
