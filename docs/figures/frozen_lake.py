"""Draws frozen_lake.png for the guide docs/frozen_lake.md: how rules learn the lake, and where the asks go."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib
import matplotlib.ticker
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import sparingly as sp
import sparingly.gym
from sparingly.lab.results import COLOURS, DASHES

HORIZON, EPISODES, BUDGET, SCALE, RUNS = 20, 20_000, 3_000, 0.0005, 20
CASES = {
    "every reward asked for": (sp.Always(), math.inf),
    "1 % of them: ExactMatching": (sp.ExactMatching(), BUDGET),
    "1 %: AdaptiveMatching": (sp.AdaptiveMatching(), BUDGET),
    "1 %: Always, until it is spent": (sp.Always(), BUDGET),
    "1 %: Greedy": (sp.Greedy(), BUDGET),
}
ARROWS = "←↓→↑"  # the actions 0 … 3


def draw_success(axis: Any) -> None:
    """How often each rule reaches the goal, in blocks of episodes."""
    lake = sp.gym.problem("FrozenLake-v1", horizon=HORIZON)
    learner = sp.UCBVI(states=17, actions=4, horizon=HORIZON, scale=SCALE)
    best, marks = lake.optimal_values[0, 0], np.arange(500, EPISODES + 1, 500)
    axis.axhline(best, color="0.35", linewidth=3, alpha=0.6)
    axis.text(EPISODES, best + 0.003, "the best policy there is", ha="right", va="bottom", color="0.35")
    order = (6, 1, 2, 0, 4)
    for (label, (rule, budget)), colour in zip(CASES.items(), order, strict=True):
        r = sp.simulate(lake, learner, rule, budget, rounds=EPISODES, runs=RUNS, checkpoints=marks)
        success = best - np.diff(r.regret, prepend=0.0, axis=1) / 500
        low, high = np.quantile(success, (0.1, 0.9), axis=0)
        style = {"color": COLOURS[colour], "linestyle": DASHES[colour] if colour < 5 else "-"}
        axis.plot(marks, success.mean(axis=0), label=label, linewidth=2, clip_on=False, **style)
        axis.fill_between(marks, low, high, color=COLOURS[colour], alpha=0.12, linewidth=0)
    axis.set(
        xlabel="episode",
        ylabel="share of episodes that reach the goal",
        ylim=(0, 0.22),
        yticks=np.arange(0, 0.21, 0.05),
        xlim=(0, EPISODES),
    )
    axis.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:,.0f}"))
    axis.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0, symbol=" %"))
    axis.set_title("learning the lake: mean, and 10–90 % of 20 runs")
    axis.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.53))
    axis.grid(alpha=0.25)


def draw_asks(axis: Any) -> None:
    """Each square of the lake: what the learnt policy does there, and how many of its rewards were asked for."""
    env = gymnasium.make("FrozenLake-v1")
    learner = functools.partial(sp.UCBVI, scale=SCALE)
    result = sp.gym.learn(env, learner, sp.ExactMatching(), BUDGET, EPISODES, HORIZON)
    asked, visits = result.agent.asked, result.agent.visits
    letters = [square.decode() for row in env.unwrapped.desc for square in row]
    for s, letter in enumerate(letters):
        column, row = s % 4, s // 4
        ice, n = letter in "SF", int(asked[:, s].sum())
        face = {"H": "#37474f", "G": "#E69F00"}.get(letter, matplotlib.colormaps["Blues"](0.08 + 0.5 * n / 160))
        axis.add_patch(Rectangle((column, row), 1, 1, facecolor=face, edgecolor="white", linewidth=3))
        if ice:
            at = visits[:, s].sum(axis=1)  # the policy may change with the step: show its usual action
            usual = int(np.argmax(np.bincount(result.policy[:, s], weights=at, minlength=4)))
            axis.text(column + 0.5, row + 0.36, ARROWS[usual], ha="center", va="center", fontsize=22)
            axis.text(column + 0.5, row + 0.76, f"{n} of\n{at.sum():,}", ha="center", va="center", fontsize=9)
        else:
            name = {"H": "hole", "G": "goal"}[letter]
            axis.text(column + 0.5, row + 0.5, name, ha="center", va="center", color="white", fontsize=11)
    axis.text(0.06, 0.16, "start", fontsize=9, color="0.25")
    axis.set(xlim=(0, 4), ylim=(4, 0), aspect="equal", xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    axis.set_title("where ExactMatching asks: asked for, of all rewards")


def main() -> None:
    """Write the figure beside this file."""
    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        page = Figure(figsize=(11.5, 4.9), layout="constrained")
        left, right = page.subplots(1, 2, width_ratios=(1.35, 1))
        draw_success(left)
        draw_asks(right)
        page.savefig(Path(__file__).with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()
