"""The lower bounds: on the worst instance of each family, all our policies lose at least that much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparingly.budgets import Budget, Fixed, Polynomial
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Check, Evidence, claim
from sparingly.lab.claims.panels import Floats, curve, name, regrets, spending
from sparingly.lab.claims.runner import Runner
from sparingly.lab.paper_policies import MOSS, OFUL, UCB1, Always, ExactMatching, Never
from sparingly.problems import hard_arms, hard_costs, hard_linear, hard_varying
from sparingly.rules import BalancedMatching, Greedy, PaperMatching
from sparingly.theory import lower

JUDGED = (
    "Every policy plays every instance of the family; the largest mean regret must lie above the bound, and that of a "
    "learner without a budget, as a control, below it on every instance. As multiples of the bound: the least of them "
    "says how close to the bound a policy comes."
)
IN_EXPECTATION = (
    JUDGED
    + " One policy keeps the budget only in expectation: a coin decides whether it has twice the budget, or none."
)


def _tabular(arms: int) -> list[tuple[str, Any, Any]]:
    """The policies for arms: two learners, with rules that ask in different ways or not at all."""
    rules = (ExactMatching(), PaperMatching(), Greedy())
    listed: list[tuple[str, Any, Any]] = [(f"UCB1 · {name(rule)}", UCB1(arms), rule) for rule in rules]
    best = Always(explore="asked")  # asks while it can, then plays the best estimate: close to the best there is
    return [
        *listed,
        ("UCB1 · Always, then the best estimate", UCB1(arms), best),
        ("UCB1 · BalancedMatching", UCB1(arms), BalancedMatching()),
        ("MOSS · ExactMatching", MOSS(arms), ExactMatching()),
        ("UCB1 · Never", UCB1(arms), Never()),
    ]


def _by_a_coin(
    runner: Runner, family: Sequence[Any], arms: int, doubled: Budget, bar: Floats, rounds: int, runs: int
) -> Check:
    """A policy that spends B on average: twice B in half of the runs, nothing in the others.

    Just half of the runs have it, rather than each with probability ½: the mean is the same, and varies less.
    """
    finals = []
    for place, problem in enumerate(family):
        both = [
            runner.simulate(
                problem, UCB1(arms), rule, budget, rounds=rounds, runs=runs // 2, stream=100 + 2 * place + k,
                checkpoints=1,
            ).regret[:, -1]
            for k, (rule, budget) in enumerate(((Always(explore="asked"), doubled), (Never(), Fixed(0.0))))
        ]  # fmt: skip
        finals.append(np.concatenate(both))
    says = "UCB1 · twice the budget or none, by a coin: regret on the worst instance"
    return statistics.above_somewhere(says, finals, float(bar[-1]))


def judged_on_the_worst(
    runner: Runner, family: Sequence[Any], policies: Sequence[tuple[str, Any, Any]], control: Any, budget: Budget,
    bar: Floats, rounds: int, runs: int, doubled: Budget | None = None,
) -> Evidence:  # fmt: skip
    """One check for each policy on the instance that is worst for it; `bar` is the lower bound for 1, …, T, (T,).

    With twice the budget given too, a policy that keeps it in expectation plays as well.

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
    if doubled is not None:
        checks.append(_by_a_coin(runner, family, control.arms, doubled, bar, rounds, runs))
    free = [
        runner.simulate(
            problem, control, Always(), Fixed(math.inf), rounds=rounds, runs=min(runs, 40), stream=place, checkpoints=1
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
    judged=IN_EXPECTATION,
    quick={"arms": 2, "budget": 8, "rounds": 3_000_000, "runs": 400},
    full={"arms": 4, "budget": 16, "rounds": 10_000_000, "runs": 400},
)
def unit_costs(runner: Runner, arms: int, budget: int, rounds: int, runs: int) -> Evidence:
    bar = lower.unit_costs(np.arange(1, rounds + 1), arms, budget)
    return judged_on_the_worst(
        runner, hard_arms(arms, budget), _tabular(arms), MOSS(arms), Fixed(budget), bar, rounds, runs, Fixed(2 * budget)
    )


@claim(
    "lower/arm-costs",
    "With costs c(a) and a budget B, some bandit costs any policy at least min(T sqrt(Σc/(B(1+log A))), T)/140.",
    source="Proposition 2 (lower bound, arm-dependent costs)",
    judged=IN_EXPECTATION,
    quick={"costs": (6.0, 3.0, 2.0, 1.0), "budget": 16, "rounds": 3_000_000, "runs": 140},
    full={"costs": (12.0, 6.0, 4.0, 3.0, 2.0, 1.0), "budget": 30, "rounds": 10_000_000, "runs": 100},
)
def arm_costs(runner: Runner, costs: Sequence[float], budget: int, rounds: int, runs: int) -> Evidence:
    A, bar = len(costs), lower.arm_costs(np.arange(1, rounds + 1), costs, budget)
    return judged_on_the_worst(
        runner, hard_costs(costs, budget), _tabular(A), MOSS(A), Fixed(budget), bar, rounds, runs, Fixed(2 * budget)
    )


@claim(
    "lower/varying-budget",
    "Under a budget B(t) that grows, some bandit costs any policy at least "
    "Σ min(sqrt(Σc/(B(t)(1+log A))), 1)/(140(1+log T)).",
    source="Corollary 3 (lower bound, varying budget)",
    judged=IN_EXPECTATION + " What is lost is counted up to the round that the instances are made for, and must exceed "
    "the bound for T by then.",
    quick={"costs": (1.0, 1.0), "power": 1.8, "final": 40, "rounds": 10_000_000, "runs": 200},
    full={"costs": (2.0, 1.0), "rounds": 20_000_000, "runs": 100},
)
def varying_budget(
    runner: Runner, costs: Sequence[float], power: float, final: int, rounds: int, runs: int
) -> Evidence:
    """A budget B(t) = final·(t/T)^power. Close to power 2 all horizons are alike, and the bound is closest."""
    budget, A = Polynomial(power, scale=final / float(rounds) ** power), len(costs)
    granted = final * (np.arange(1, rounds + 1) / rounds) ** power
    family, horizon = hard_varying(costs, granted)
    bar = lower.varying_budget(granted, costs)
    doubled = Polynomial(power, scale=2.0 * final / float(rounds) ** power)
    reached = np.minimum(bar[:horizon], bar[-1])
    reached[-1] = bar[-1]  # the bound for T, which the proof shows to be lost by the round that the family is made for
    return judged_on_the_worst(runner, family, _tabular(A), MOSS(A), budget, reached, horizon, runs, doubled)


@claim(
    "lower/linear",
    "With at most B asks, some linear bandit on [−1, 1]^d costs any policy at least dT/(80 sqrt B).",
    source="Proposition 4 (lower bound, linear bandits)",
    judged=JUDGED,
    quick={"dim": 2, "budget": 4, "rounds": 10_000, "runs": 400},
    full={"dim": 3, "budget": 9, "rounds": 30_000, "runs": 400},
)
def linear(runner: Runner, dim: int, budget: int, rounds: int, runs: int) -> Evidence:
    bar = lower.linear(rounds, dim, budget) * np.arange(1, rounds + 1) / rounds  # for T < B it would say nothing
    learner = OFUL(dim, noise=1.0, length=float(np.sqrt(dim)), norm=float(np.sqrt(dim / budget)))
    rules = (ExactMatching(), PaperMatching(), Greedy(), BalancedMatching(), Never())
    policies = [(f"OFUL · {name(rule)}", learner, rule) for rule in rules]
    return judged_on_the_worst(runner, hard_linear(dim, budget), policies, learner, Fixed(budget), bar, rounds, runs)
