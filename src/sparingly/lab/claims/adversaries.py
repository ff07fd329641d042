"""Adversaries that make a rule spend as much as it ever will, and checks of how much that is.

A rule that spends a tenth of its budget keeps within it whatever its constants are. Here cells, or directions, come in
turn, under a budget at which the rule spends the largest share of it: then a rule that asks once too often is refused.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sparingly.budgets import Fixed
from sparingly.features import Given
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Check
from sparingly.lab.claims.panels import Floats
from sparingly.lab.claims.runner import Runner
from sparingly.problems import ContextualArms, Episodic, Linear

NEARLY = 0.95  # of the budget: so much counts as nearly spent


class Drive(NamedTuple):
    """A problem that drives spending up, the learner that meets it, its budget, and for how many rounds."""

    label: str
    problem: Any
    learner: Any
    budget: float
    rounds: int


def cells_in_turn(make: Any, costs: Floats, budget: float, turns: int, arms: int = 1) -> Drive:
    """Contexts in turn, with `arms` arms that are alike in each; costs (S,) of asking about one of them."""
    contexts, rounds = costs.size, costs.size * turns
    prices = np.repeat(costs[:, np.newaxis], arms, axis=1)
    problem = ContextualArms(np.full((contexts, arms), 0.5), contexts=np.arange(rounds) % contexts)
    learner = make(arms, contexts=contexts, costs=prices)
    return Drive(f"{costs.size} cells in turn, B = {budget:g}", problem, learner, budget, rounds)


def directions_in_turn(
    make: Any, dim: int, budget: float, turns: int, length: float = 1.0, arms: int = 1, costs: Any = None
) -> Drive:
    """The axes in turn, each for all `arms` actions alike; with costs, only the cheapest action has a row but 0."""
    rounds = dim * turns
    rows = np.zeros((rounds, arms if costs is None else len(costs), dim))
    axes = np.arange(rounds) % dim
    if costs is None:
        rows[np.arange(rounds), :, axes] = length
    else:
        rows[np.arange(rounds), int(np.argmin(costs)), axes] = length
    learner = make(dim, length=length, costs=costs)
    label = f"{dim} directions in turn, B = {budget:.4g}"
    return Drive(label, Linear(np.zeros(dim), Given(rows), noise=0.1), learner, budget, rounds)


def steps_in_turn(
    make: Any, states: int, horizon: int, budget: float, episodes: int, rewarding: int | None = None
) -> Drive:
    """One action, so that the path is given: first states at random, and every cell visited; rewards are certain."""
    P = np.full((horizon, states, 1, states), 1.0 / states)
    problem = Episodic(P, np.ones((horizon, states, 1)))
    learner = make(states, 1, horizon, rewarding=rewarding)
    return Drive(f"{states * horizon} cells of episodes, B = {budget:g}", problem, learner, budget, episodes)


def spent_most(runner: Runner, rule: Any, drive: Drive, runs: int, stream: int) -> tuple[Floats, list[Check]]:
    """The largest share of the budget that each run has spent, and that nothing was refused or overspent."""
    result = runner.simulate(
        drive.problem, drive.learner, rule, Fixed(drive.budget), rounds=drive.rounds, runs=runs, stream=stream
    )
    shares = np.asarray((result.spent / result.budget).max(axis=1))
    label = f"{drive.label}: {type(rule).__name__}"
    return shares, [
        statistics.exact(f"{label}: refusals by the ledger", result.refused.sum(), "=", 0),
        statistics.exact(f"{label}: spent beyond the budget", (result.spent - result.budget).max(), "≤", 0.0),
    ]


def nearly_all(runner: Runner, rule: Any, drive: Drive, stream: int, runs: int = 4) -> list[Check]:
    """In every run the rule must come within 5 % of the whole budget, and never further."""
    shares, checks = spent_most(runner, rule, drive, runs, stream)
    says = f"{drive.label}: {type(rule).__name__}: the largest share of the budget that is spent"
    return [*checks, statistics.exact(says, float(shares.min()), "≥", NEARLY)]


def exactly(runner: Runner, rule: Any, drive: Drive, share: float, stream: int, runs: int = 4) -> list[Check]:
    """In every run the rule must spend this share of the budget at most, and no less, up to 1 %."""
    shares, checks = spent_most(runner, rule, drive, runs, stream)
    says = f"{drive.label}: {type(rule).__name__}: the largest share of the budget that is spent"
    if share == 0.0:
        return [*checks, statistics.exact(says, float(shares.max()), "=", 0.0)]
    return [
        *checks,
        statistics.exact(f"{says}, at least", float(shares.min()), "≥", 0.99 * share),
        statistics.exact(f"{says}, at most", float(shares.max()), "≤", 1.01 * share),
    ]


def paper_share_of_rows() -> tuple[float, float]:
    """b = B/d at which CBM-OFUL, with axes in turn, spends the largest share of B, and this share.

    It asks about no direction before v_B² = 2d log(1 + B/d) ≤ B (E4), that is from b = 2 log(1 + b) = 2.513 on. There
    each direction is asked about once, for its norm is then 1, and the share is 1/b. Later ⌊b/(2 log(1 + b))⌋ asks
    about each make a smaller one. Rows that are shortened until they lie just at the bar would bring it to a half,
    but only as B grows beyond all that can be simulated.
    """
    b = 2.5
    for _ in range(100):
        b = 2.0 * math.log1p(b)
    return b * (1.0 + 1e-6), 1.0 / b  # budgets are rounded down to millionths


def paper_share_of_steps(cells: int, rewarding: int, budget: float) -> float:
    """The share that CBM-UCBVI spends of B if rewards are certain: 10/(n ∨ 1) ≥ 6 sqrt(|L_R|/B) + 4M(log(1+B)+1)/B."""
    bar = 6.0 * math.sqrt(rewarding / budget) + 4.0 * cells * (math.log1p(budget) + 1.0) / budget
    asks = math.floor(10.0 / bar + 1e-9) + 1 if bar <= 10.0 else 0
    return cells * asks / budget
