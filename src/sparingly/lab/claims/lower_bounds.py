"""The lower bounds: on the worst instance of each family, all our policies lose at least that much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparingly.budgets import Budget, Fixed, Polynomial
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Evidence, claim
from sparingly.lab.claims.panels import Floats, curve, name, regrets, spending
from sparingly.lab.claims.runner import Runner
from sparingly.lab.paper_policies import MOSS, OFUL, UCB1, Always, ExactMatching, Never
from sparingly.problems import hard_arms, hard_costs, hard_linear, hard_varying
from sparingly.rules import Greedy, PaperMatching
from sparingly.theory import lower

JUDGED = (
    "Every policy plays every instance of the family; the largest mean regret must lie above the bound, and that of a "
    "learner without a budget, as a control, below it on every instance. As multiples of the bound."
)


def _tabular(arms: int) -> list[tuple[str, Any, Any]]:
    """The policies for arms: two learners, with rules that ask in different ways or not at all."""
    rules = (ExactMatching(), PaperMatching(), Greedy())
    listed: list[tuple[str, Any, Any]] = [(f"UCB1 · {name(rule)}", UCB1(arms), rule) for rule in rules]
    return [*listed, ("MOSS · ExactMatching", MOSS(arms), ExactMatching()), ("UCB1 · Never", UCB1(arms), Never())]


def judged_on_the_worst(
    runner: Runner, family: Sequence[Any], policies: Sequence[tuple[str, Any, Any]], control: Any, budget: Budget,
    bar: Floats, rounds: int, runs: int,
) -> Evidence:  # fmt: skip
    """One check for each policy on the instance that is worst for it; `bar` is the lower bound for 1, …, T, (T,).

    As a control, a learner that asks in every round without a budget must stay below the bound on every instance: it is
    the budget that makes the difference.
    """
    checks, worst = [], {}
    for label, learner, rule in policies:
        results = [
            runner.simulate(problem, learner, rule, budget, rounds=rounds, runs=runs, stream=place)
            for place, problem in enumerate(family)
        ]
        finals = [result.regret[:, -1] for result in results]
        checks.append(statistics.above_somewhere(f"{label}: regret on the worst instance", finals, float(bar[-1])))
        worst[label] = max(results, key=lambda result: float(result.regret[:, -1].mean()))
    free = [
        runner.simulate(
            problem, control, Always(), Fixed(math.inf), rounds=rounds, runs=min(runs, 10), stream=place, checkpoints=1
        )
        for place, problem in enumerate(family)
    ]
    unlimited = [result.regret[:, -1] for result in free]
    checks.append(
        statistics.below_everywhere("control, no budget: regret on every instance", unlimited, float(bar[-1]))
    )
    marks = next(iter(worst.values())).rounds
    line = curve("lower bound", marks, bar[marks - 1], role="lower")
    return Evidence(tuple(checks), (regrets("Regret on the worst instance", worst, line), spending(worst)))


@claim(
    "lower/unit-costs",
    "With at most B asks, some bandit with A arms costs any policy at least min(T sqrt(A/B), T)/140.",
    source="Proposition 1 (lower bound, unit costs)",
    judged=JUDGED,
    quick={"arms": 4, "budget": 8, "rounds": 3_000_000, "runs": 100},
    full={"arms": 8, "budget": 16, "rounds": 10_000_000, "runs": 200},
)
def unit_costs(runner: Runner, arms: int, budget: int, rounds: int, runs: int) -> Evidence:
    bar = lower.unit_costs(np.arange(1, rounds + 1), arms, budget)
    return judged_on_the_worst(
        runner, hard_arms(arms, budget), _tabular(arms), MOSS(arms), Fixed(budget), bar, rounds, runs
    )


@claim(
    "lower/arm-costs",
    "With costs c(a) and a budget B, some bandit costs any policy at least min(T sqrt(Σc/(B(1+log A))), T)/140.",
    source="Proposition 2 (lower bound, arm-dependent costs)",
    judged=JUDGED,
    quick={"costs": (6.0, 3.0, 2.0, 1.0), "budget": 16, "rounds": 3_000_000, "runs": 60},
    full={"costs": (12.0, 6.0, 4.0, 3.0, 2.0, 1.0), "budget": 30, "rounds": 10_000_000, "runs": 100},
)
def arm_costs(runner: Runner, costs: Sequence[float], budget: int, rounds: int, runs: int) -> Evidence:
    A, bar = len(costs), lower.arm_costs(np.arange(1, rounds + 1), costs, budget)
    return judged_on_the_worst(
        runner, hard_costs(costs, budget), _tabular(A), MOSS(A), Fixed(budget), bar, rounds, runs
    )


@claim(
    "lower/varying-budget",
    "Under a budget B(t) that grows, some bandit costs any policy at least "
    "Σ min(sqrt(Σc/(B(t)(1+log A))), 1)/(140(1+log T)).",
    source="Corollary 3 (lower bound, varying budget)",
    judged=JUDGED,
    quick={"costs": (1.0, 1.0, 1.0, 1.0), "power": 6.0, "final": 1_000, "rounds": 10_000_000, "runs": 60},
    full={"costs": (4.0, 2.0, 1.0, 1.0), "rounds": 20_000_000, "runs": 100},
)
def varying_budget(
    runner: Runner, costs: Sequence[float], power: float, final: int, rounds: int, runs: int
) -> Evidence:
    """A budget that comes late: B(t) = final·(t/T)^power, so that the worst horizon lies well before T."""
    budget, A = Polynomial(power, scale=final / float(rounds) ** power), len(costs)
    granted = final * (np.arange(1, rounds + 1) / rounds) ** power
    family, horizon = hard_varying(costs, granted)
    bar = lower.varying_budget(granted, costs)
    evidence = judged_on_the_worst(runner, family, _tabular(A), MOSS(A), budget, bar, rounds, runs)
    check = statistics.exact("the horizon that the instances are made for, against T/2", horizon, "≤", rounds / 2)
    return Evidence((*evidence.checks, check), evidence.panels)


@claim(
    "lower/linear",
    "With at most B asks, some linear bandit on [−1, 1]^d costs any policy at least dT/(80 sqrt B).",
    source="Proposition 4 (lower bound, linear bandits)",
    judged=JUDGED,
    quick={"dim": 2, "budget": 4, "rounds": 50_000, "runs": 250},
    full={"dim": 3, "budget": 9, "rounds": 100_000, "runs": 400},
)
def linear(runner: Runner, dim: int, budget: int, rounds: int, runs: int) -> Evidence:
    bar = lower.linear(rounds, dim, budget) * np.arange(1, rounds + 1) / rounds  # for T < B it would say nothing
    learner = OFUL(dim, noise=1.0, length=float(np.sqrt(dim)), norm=float(np.sqrt(dim / budget)))
    rules = (ExactMatching(), PaperMatching(), Greedy(), Never())
    policies = [(f"OFUL · {name(rule)}", learner, rule) for rule in rules]
    return judged_on_the_worst(runner, hard_linear(dim, budget), policies, learner, Fixed(budget), bar, rounds, runs)
