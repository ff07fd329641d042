"""Draws choosing.png for docs/choosing.md: what rules lose at each budget, where nobody plays against them and where
somebody does.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.ticker
import numpy as np
from matplotlib.figure import Figure

import sparingly as sp
from sparingly.lab.styles import looks

ROUNDS, DIM, NOISE = 20_000, 8, 0.5
BUDGETS = (30, 100, 300, 1_000, 3_000, 10_000)
RULES = {
    "Greedy": sp.Greedy(),
    "PaperMatching": sp.PaperMatching(),
    "ExactMatching": sp.ExactMatching(),
    "BalancedMatching": sp.BalancedMatching(),
    "until spent, then the best mean": sp.Always(),
}


def at_once(amount: float) -> sp.budgets.Budget:
    return sp.budgets.Fixed(amount)


def now_and_then(amount: float) -> sp.budgets.Budget:
    """One unit in some rounds, so many in the mean; the adversary sees which."""
    return sp.budgets.Bernoulli(amount / ROUNDS)


def cases() -> list[tuple[str, Any, Any, Any, int]]:
    """Title, problem, learner, budget and runs of each panel: benign on the left, adversarial on the right."""
    theta = np.random.default_rng(0).normal(size=DIM)
    theta /= np.linalg.norm(theta)
    ten, two = sp.UCB1(10, scale=0.3), sp.UCB1(2, 2, scale=0.3)
    oful = sp.OFUL(DIM, noise=NOISE, scale=0.3)
    alike = sp.problems.Linear(theta, arms=sp.features.Sphere(10), noise=NOISE)
    halves = sp.problems.Linear(theta, arms=sp.features.HalfSpaces(10), noise=NOISE)
    trap = sp.problems.greedy_trap("contexts").problem
    return [
        ("ten arms, rounds are alike (UCB1)", sp.problems.Arms([0.4] * 9 + [0.6]), ten, at_once, 200),
        ("two contexts that watch the budget (UCB1)", trap, two, now_and_then, 200),
        ("eight features, rounds are alike (OFUL)", alike, oful, at_once, 10),
        ("eight features that watch the budget (OFUL)", halves, oful, now_and_then, 10),
    ]


def losses(problem: Any, learner: Any, rule: Any, budget: Any, runs: int) -> tuple[float, float]:
    """Reward lost in a round, in the mean over all rounds and runs, and the half-width of its 95 % interval."""
    result = sp.simulate(problem, learner, rule, budget, rounds=ROUNDS, runs=runs, checkpoints=1)
    mean, half = result.final_regret()
    return mean / ROUNDS, half / ROUNDS


def draw(axis: Any, title: str, problem: Any, learner: Any, budget: Any, runs: int) -> None:
    """One panel: a line for each rule, between asking nothing and asking always."""
    for (label, rule), look in zip(RULES.items(), looks(list(RULES)), strict=True):
        points = [losses(problem, learner, rule, budget(amount), runs) for amount in BUDGETS]
        mean, half = np.array(points).T
        axis.plot(BUDGETS, mean, label=label, linewidth=2, markersize=5, **look)
        axis.fill_between(BUDGETS, np.maximum(mean - half, mean / 10), mean + half, color=look["color"], alpha=0.15)
    ends = (
        ("asking nothing", sp.Never(), 0.0, -1, "right"),
        ("asking always, no limit", sp.Always(), math.inf, 0, "left"),
    )
    for words, rule, amount, place, side in ends:
        level, _ = losses(problem, learner, rule, amount, runs)
        axis.axhline(level, color="0.4", linewidth=1, linestyle=":")
        where = {"xytext": (0, 3), "textcoords": "offset points", "ha": side}
        axis.annotate(words, (BUDGETS[place], level), fontsize=8.5, color="0.3", **where)
    axis.set(xscale="log", yscale="log", title=title, xlim=(BUDGETS[0] * 0.9, BUDGETS[-1] * 1.1))
    axis.set_ylim(top=axis.get_ylim()[1] * 1.25)  # room for the words
    axis.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:,.0f}"))
    axis.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda y, _: f"{y:g}"))
    axis.grid(alpha=0.25)


def main() -> None:
    """Write the figure beside this file."""
    plain = {"font.size": 10, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False}
    with matplotlib.rc_context(plain):
        page = Figure(figsize=(11, 7.6), layout="constrained")
        axes = page.subplots(2, 2, sharex=True)
        for axis, case in zip(axes.ravel(), cases(), strict=True):
            draw(axis, *case)
        for axis in axes[:, 0]:
            axis.set_ylabel("reward lost a round: mean, 95 % interval")
        for axis in axes[1]:
            axis.set_xlabel("asks granted in 20,000 rounds")
        page.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False)
        page.savefig(Path(__file__).with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()
