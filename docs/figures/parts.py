"""Draws a figure for each rule and each learner: what it asks, and what it loses, with the others in grey.

    python docs/figures/parts.py [NAME …]

Takes some seconds once the code is compiled. The pages are docs/rules/*.md and docs/learners/*.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

import sparingly as sp
from sparingly.lab.styles import COLOURS, RULE_COLOURS
from sparingly.learners import LEARNERS
from sparingly.rules import RULES

HERE = Path(__file__).parent
RATE = 0.05  # of the rounds may be asked about
Results = Mapping[str, sp.Simulation]
GAMES = {"StationaryUCBVI"}  # not for sp.simulate: it acts step by step


ARMS = {
    "UCB1": sp.UCB1(10, scale=0.3), "MOSS": sp.MOSS(10, scale=0.3), "KLUCB": sp.KLUCB(10, scale=0.5),
    "BettingUCB": sp.BettingUCB(10, scale=0.5), "Thompson": sp.Thompson(10),
    "EpsilonGreedy": sp.EpsilonGreedy(10, scale=0.3),
}  # fmt: skip


def of_rules() -> Results:
    """Every rule on the same ten arms."""
    problem, learner, budget = sp.problems.Arms([0.4] * 9 + [0.6]), sp.UCB1(10, scale=0.3), sp.budgets.Linear(RATE)
    rules = {rule.__name__: rule.examples()[0] for rule in RULES} | {"Matching": sp.Matching(alpha=20.0)}
    return {name: sp.simulate(problem, learner, rule, budget, rounds=20_000, runs=50) for name, rule in rules.items()}


def of_learners() -> dict[str, Results]:
    """For each learner, those of its setting on the same problem, with the default rule, and one that asks always."""
    arms = sp.problems.Arms([0.4] * 9 + [0.6])
    theta = np.full(8, 8**-0.5)
    rows = sp.problems.Linear(theta, arms=sp.features.Sphere(10), noise=0.5)
    clicks = sp.problems.Linear(3.0 * theta, arms=sp.features.Sphere(10), yes_or_no=True)
    labels = sp.problems.Labels(8.0 * np.random.default_rng(0).normal(size=(5, 8)), sp.features.Sphere(1))
    river = sp.problems.river_swim(states=4, horizon=8)
    cases: list[tuple[Any, int, int, dict[str, Any]]] = [
        (arms, 20_000, 50, ARMS),
        (rows, 10_000, 8, {"OFUL": sp.OFUL(8, noise=0.5, scale=0.3), "LinTS": sp.LinTS(8, noise=0.5, scale=0.5)}),
        (clicks, 10_000, 8, {"Logistic": sp.Logistic(8, scale=0.2)}),
        (labels, 4_000, 8, {"Softmax": sp.Softmax(8, 5)}),
        (river, 4_000, 4, {"UCBVI": sp.UCBVI(4, 2, 8, scale=0.05), "ULCVI": sp.ULCVI(4, 2, 8, scale=0.005)}),
    ]
    found: dict[str, Results] = {}
    for problem, rounds, runs, learners in cases:
        results = {
            name: sp.simulate(
                problem, learner, sp.BalancedMatching(), sp.budgets.Linear(RATE), rounds=rounds, runs=runs
            )
            for name, learner in learners.items()
        }
        first = next(iter(learners.values()))
        asking = sp.simulate(problem, first, sp.Always(), math.inf, rounds=rounds, runs=runs)
        shown = {**results, "asking always": asking}
        found |= dict.fromkeys(learners, shown)
    return found


def draw(name: str, results: Results, colour: str) -> Figure:
    """Left what is asked, against the budget; right what is lost."""
    plain = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    with matplotlib.rc_context(plain):
        figure = Figure(figsize=(8.4, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2)
        mine = results[name]
        left.plot(mine.rounds, mine.budget.mean(axis=0), color="0.75", linewidth=4, label="budget", zorder=1)
        for other, result in results.items():
            look: dict[str, Any] = {"color": "0.65", "linewidth": 1.0, "zorder": 2}
            if other == name:
                look = {"color": colour, "linewidth": 2.2, "zorder": 3}
            left.plot(result.rounds, result.asked.mean(axis=0), label=name if other == name else None, **look)
            right.plot(result.rounds, result.regret.mean(axis=0), **look)
        low, high = np.quantile(mine.regret, (0.1, 0.9), axis=0)
        right.fill_between(mine.rounds, low, high, color=colour, alpha=0.15, linewidth=0)
        left.set(ylabel="asked so far (mean)", ylim=(0, 1.15 * mine.budget[:, -1].mean()))
        right.set(ylabel="regret (mean, 10–90 % of runs)", ylim=(0, None))
        name_lines(right, {other: float(result.regret[:, -1].mean()) for other, result in results.items()})
        for axis in (left, right):
            axis.set_xlabel("episode" if name in ("UCBVI", "ULCVI") else "round")
            axis.xaxis.set_major_locator(MaxNLocator(4))
            axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            axis.grid(alpha=0.25)
        left.legend(frameon=False, loc="upper left")
    return figure


def draw_games(name: str, runs: int = 5, games: int = 1_000, budget: int = 300) -> Figure:
    """A learner that acts step by step, on FrozenLake: what it asks, and how often it wins."""
    import sparingly.gym

    results = [sparingly.gym.learn("FrozenLake-v1", budget=budget, episodes=games, seed=s) for s in range(runs)]
    asked = np.mean([r.asked.cumsum() for r in results], axis=0)
    wins = np.mean([r.returns.reshape(-1, 50).mean(axis=1) for r in results], axis=0)
    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(8.4, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.axhline(budget, color="0.75", linewidth=4, label="budget", zorder=1)
        left.plot(np.arange(1, games + 1), asked, color=COLOURS[-1], linewidth=2.2, label=name)
        right.plot(np.arange(25, games, 50), wins, color=COLOURS[-1], linewidth=2.2)
        left.set(xlabel="game", ylabel="asked so far (mean)", ylim=(0, 1.3 * budget))
        right.set(xlabel="game", ylabel="share of games won", ylim=(0, 1))
        for axis in (left, right):
            axis.grid(alpha=0.25)
        left.legend(frameon=False, loc="upper left")
    return figure


def name_lines(axis: Any, ends: Mapping[str, float]) -> None:
    """Name the lines at their right ends, from the lowest up, with room between the names."""
    room, last = 0.065 * axis.get_ylim()[1], -1.0
    for name, end in sorted(ends.items(), key=lambda pair: pair[1]):
        last = max(end, last + room)
        axis.annotate(
            name, (1.01, last), xycoords=("axes fraction", "data"), va="center", fontsize=7.5, color="0.35",
            annotation_clip=False,
        )  # fmt: skip


def main(names: list[str]) -> None:
    """Write part_NAME.png for these, or for all."""
    rules, learners = [rule.__name__ for rule in RULES], [learner.__name__ for learner in LEARNERS]
    chosen = names or [*rules, *learners]
    if unknown := set(chosen) - {*rules, *learners}:
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join([*rules, *learners])}")
    by_rule = of_rules() if set(chosen) & set(rules) else {}
    by_learner = of_learners() if set(chosen) & set(learners) - GAMES else {}
    for name in chosen:
        if name in GAMES:
            draw_games(name).savefig(HERE / f"part_{name}.png", dpi=120)
            continue
        results, colour = (by_rule, RULE_COLOURS[name]) if name in rules else (by_learner[name], COLOURS[-1])
        draw(name, results, colour).savefig(HERE / f"part_{name}.png", dpi=120)


if __name__ == "__main__":
    main(sys.argv[1:])
