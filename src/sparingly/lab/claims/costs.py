"""Prices that differ, with features: what exact matching promises then, and where it promises nothing."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from sparingly.agent import Agent
from sparingly.errors import BudgetWarning
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Check, Evidence, Panel, claim
from sparingly.lab.claims.panels import curve, regrets
from sparingly.lab.claims.runner import Runner
from sparingly.lab.paper_policies import OFUL, UCB1, ExactMatching, Never
from sparingly.problems import Arms, Linear
from sparingly.rules import BalancedMatching
from sparingly.theory import upper


def declined_over_bar(learner: Any, rule: Any, grants: float, rounds: int, seed: int) -> tuple[float, int]:
    """The largest log(1 + ‖x‖²) of a declined row, over what the bound allows for its price; and the refusals.

    An adversary shows one row after the other, each unit vector and random ones, at prices of its choice.
    """
    agent, random = Agent(learner, rule=rule, budget=0, seed=seed), np.random.default_rng(seed)
    d, costs, worst = learner.dim, np.asarray(learner.costs), 0.0
    ratio, V = 1.0 / (d * costs.min()), np.eye(d)
    for t in range(rounds):
        agent.grant(grants)
        shown = random.normal(size=(costs.size, d)) if t % 2 else np.eye(d)[random.integers(d, size=costs.size)]
        shown /= np.linalg.norm(shown, axis=1, keepdims=True)
        decision, B = agent.decide(shown), agent.ledger.granted
        x, price = shown[decision.action], costs[decision.action]
        if decision.ask:
            agent.observe(decision.id, 0.0)
            V += np.outer(x, x)
        else:
            rate = d * math.log1p(B * ratio) / B
            worst = max(worst, math.log1p(float(x @ np.linalg.solve(V, x))) / (price * rate))
    return worst, agent.ledger.refused


@claim(
    "ours/oful-costs",
    "With features and prices that differ, exact matching is safe, and never declines a row of price c unless "
    "log(1 + ‖x‖²) ≤ c·d·log(1 + B/(c_min·d))/B: with 50 directions, one of price 200 and 49 of price 1, that promises "
    "nothing up to B = 111,000, and where the dear action comes first nothing is asked up to there.",
    source="R2 with costs, docs/paper.md",
    judged="Exact: under adversarial rows and prices, log(1 + ‖x‖²) of a declined row over the bound, and no refusals. "
    "On the 50 directions no ask below `least_budget` and some above it; the loss of exact matching there is that of "
    "asking nothing; and over paired runs the loss of balanced matching, whose free part asks, and of UCB1 with exact "
    "matching, must be at most a twentieth of that.",
    quick={"dim": 50, "dear": 200.0, "rounds": 20_000, "runs": 3, "hostile": 1_500},
    full={"rounds": 200_000, "hostile": 20_000},
)
def oful_costs(runner: Runner, dim: int, dear: float, rounds: int, runs: int, hostile: int) -> Evidence:
    costs = np.append(dear, np.ones(dim - 1))
    theta = 0.9 * np.eye(dim)[1]
    problem, learner = Linear(theta, np.eye(dim), noise=0.1, costs=costs), OFUL(dim, noise=0.1, costs=costs)
    least, checks = upper.least_budget(dim, costs), list[Check]()
    some, rule = runner.change(OFUL(4, noise=0.1, costs=[1.0, 3.0, 20.0]), ExactMatching())
    ratio, refused = declined_over_bar(some, rule, 2.0, hostile, runner.seed)
    checks += [
        statistics.exact("adversarial rows: log(1 + ‖x‖²) of a declined row, over the bound", ratio, "≤", 1.0 + 1e-6),
        statistics.exact("adversarial rows: refusals", refused, "=", 0),
    ]

    def run(rule: Any, budget: float, learner: Any = learner, problem: Any = problem) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            return runner.simulate(problem, learner, rule, budget, rounds=rounds, runs=runs)

    budgets = (20_000.0, 100_000.0, 0.999 * least, 1.001 * least)
    exact = [run(ExactMatching(), budget) for budget in budgets]
    never = run(Never(), budgets[1])
    checks += [
        statistics.exact(f"exact matching, B = {B:,.0f}: asks", result.asked[:, -1].max(), "=", 0)
        for B, result in zip(budgets[:3], exact, strict=False)
    ]
    checks.append(statistics.exact(f"exact matching, B = {budgets[3]:,.0f}: asks", exact[3].asked[:, -1].min(), "≥", 1))
    lost = exact[1].regret[:, -1]
    checks.append(statistics.exact("exact matching, B = 100,000: loss over that of asking nothing",
                                   float((lost / never.regret[:, -1]).min()), "≥", 1.0))  # fmt: skip
    shown = {"OFUL, ExactMatching": exact[1], "OFUL, BalancedMatching": run(BalancedMatching(), budgets[1])}
    shown["UCB1, ExactMatching"] = run(ExactMatching(), budgets[1], UCB1(dim, costs=costs), Arms(theta, costs=costs))
    for label in list(shown)[1:]:
        share = shown[label].regret[:, -1] / lost
        checks.append(statistics.exact(f"{label}, B = 100,000: largest loss, over that", share.max(), "≤", 0.05))
    ends = np.geomspace(10.0, 10.0 * least, 60)
    bars = [dear * dim * math.log1p(B / dim) / B for B in ends]
    lines = (
        curve("price 200, over log 2", ends, np.array(bars) / math.log(2.0)),
        curve("price 1, over log 2", ends, np.array(bars) / dear / math.log(2.0)),
        curve("above this nothing is promised", ends, np.ones(ends.size), role="upper"),
    )
    panel = Panel(
        "The bar of a row, as a share of the first norm", "budget B", "log(1 + ε²)/log 2", lines, chance=False
    )
    return Evidence(tuple(checks), (regrets("One dear action of 50, B = 100,000", shown), panel))
