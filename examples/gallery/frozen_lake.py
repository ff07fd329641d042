"""FrozenLake, a game of Gymnasium, learnt with 1 % of its rewards: how well each rule plays, and where it asks.

Cross a slippery lake without falling into a hole. Only the step onto the goal is rewarded, and a learner must pay for
each reward it wants to see: it may see one in a hundred. Compared: which ones to look at.

    python examples/gallery/frozen_lake.py [--quick] [--rounds EPISODES] [--runs N] [--seed N] [--out FOLDER]
"""

from __future__ import annotations

import functools
import math
import sys

import gymnasium
import matplotlib
import numpy as np
import pandas
from common import Options, curves, interval, leave, legend, options, page, percent
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

import sparingly as sp
import sparingly.gym

HORIZON, SCALE = (
    20,
    0.0005,
)  # steps of an episode; of the learner's bonuses (docs/frozen_lake.md says how it was chosen)
SHARE = 0.15  # asks an episode: 1 % of the 13 to 18 rewards that it has
ARROWS = "←↓→↑"  # the actions 0 … 3
BEST, FREE = "the best policy there is", "every reward, no budget"


def strategies(episodes: int) -> dict[str, tuple[sp.rules.Rule, float]]:
    """Which rewards to look at, and how many it may be."""
    budget = round(SHARE * episodes)
    return {
        FREE: (sp.Always(), math.inf),
        "Always, until it is spent": (sp.Always(), budget),
        "ExactMatching": (sp.ExactMatching(), budget),
        "BalancedMatching": (sp.BalancedMatching(), budget),
        "Greedy": (sp.Greedy(), budget),
    }


def measure(lake: sp.gym.Game, options: Options) -> pandas.DataFrame:
    """All strategies, all runs. FrozenLake knows its own transitions, so that it can be simulated fast, and solved."""
    learner = sp.UCBVI(states=lake.states, actions=lake.actions, horizon=HORIZON, scale=SCALE)
    best, marks, frames = lake.optimal_values[0, 0], options.marks(), []
    for name, (rule, budget) in strategies(options.rounds).items():
        print(f"simulating: {name}", file=sys.stderr, flush=True)
        r = sp.simulate(
            lake,
            learner,
            rule,
            budget,
            options.rounds,
            options.runs,
            seed=options.seed,
            checkpoints=marks,
            progress=True,
        )
        lost = np.diff(r.regret, prepend=0.0, axis=1) / np.diff(marks, prepend=0)  # an episode, in each block
        frames.append(
            r.frame()[["run", "round", "asked", "spent", "budget"]]
            .rename(columns={"round": "episode", "budget": "granted"})
            .assign(strategy=name, wins=(best - lost).ravel())
            .assign(rewards=np.repeat(r.plays[:, :, :-1].sum(axis=(1, 2, 3)), marks.size))  # all that there were
        )
    return pandas.concat(frames, ignore_index=True)


def learn(options: Options) -> pandas.DataFrame:
    """The game itself, of which the learner has no model: for each square, what it does there and what it asked."""
    env, rule = gymnasium.make("FrozenLake-v1"), sp.ExactMatching()
    learner, budget = functools.partial(sp.UCBVI, scale=SCALE), strategies(options.rounds)["ExactMatching"][1]
    result = sp.gym.learn(env, learner, rule, budget, options.rounds, HORIZON, seed=options.seed, progress=True)
    asked, visits = result.agent.asked[:, :-1].sum(axis=(0, 2)), result.agent.visits[:, :-1].sum(axis=2)
    usual = [  # the policy may change with the step: its usual action
        int(np.argmax(np.bincount(result.policy[:, s], weights=visits[:, s], minlength=4))) for s in range(asked.size)
    ]
    letters = [letter.decode() for row in env.unwrapped.desc for letter in row]
    return pandas.DataFrame({"square": letters, "asked": asked, "rewards": visits.sum(axis=0), "action": usual})


def draw_map(axis: Axes, squares: pandas.DataFrame) -> None:
    """Each square of the lake with the learnt policy's usual move, and how many of its rewards were asked for."""
    tint = matplotlib.colors.Normalize(*squares.loc[squares["square"].isin(["S", "F"]), "asked"].agg(["min", "max"]))
    for s, (letter, asked, rewards, action) in enumerate(squares.itertuples(index=False)):
        column, row = s % 4, s // 4
        ice = matplotlib.colormaps["Blues"](0.1 + 0.45 * float(tint(asked)))
        face = {"H": "#37474f", "G": "#f9c846"}.get(letter, ice)
        axis.add_patch(Rectangle((column, row), 1, 1, facecolor=face, edgecolor="white", linewidth=3))
        if letter in "HG":
            word, ink = ("hole", "white") if letter == "H" else ("goal", "black")
            axis.text(column + 0.5, row + 0.5, word, ha="center", va="center", color=ink)
        else:
            axis.text(column + 0.5, row + 0.36, ARROWS[action], ha="center", va="center", fontsize=20)
            axis.text(column + 0.5, row + 0.76, f"{asked} of\n{rewards:,}", ha="center", va="center", fontsize=9)
    axis.text(0.06, 0.16, "start", fontsize=9, color="0.25")
    axis.set(xlim=(0, 4), ylim=(4, 0), aspect="equal", xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    axis.set_title("where ExactMatching asks: asked, of all rewards", fontsize=11)


def main() -> None:
    """Measure, draw, and print the table."""
    given = options(__doc__ or "", rounds=20_000, runs=20, quick=(10_000, 4))
    lake = sp.gym.problem("FrozenLake-v1", horizon=HORIZON)
    data, squares, best = measure(lake, given), learn(given), float(lake.optimal_values[0, 0])
    with page(10.5, 5.2, 1.25, 1) as (figure, (left, right)):
        left.axhline(best, color="0.35", linewidth=3, alpha=0.6, label=BEST)
        curves(left, data, "episode", "wins")
        left.set(
            xlabel="episode",
            ylabel="share of episodes that reach the goal",
            ylim=(0, 0.22),
            yticks=np.arange(0, 0.21, 0.05),
        )
        left.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        left.set_title(f"learning the lake (95 % intervals, {given.repeated})", fontsize=11)
        draw_map(right, squares)
        legend(figure, [left])
    rows = []
    for name, part in data.groupby("strategy", sort=False):
        ends = part[part["episode"] == given.rounds]
        late = part[part["episode"] > 0.9 * given.rounds].groupby("run")["wins"].mean()
        asked = (f"{ends['spent'].mean():,.0f}", percent((ends["spent"] / ends["rewards"]).mean(), 2))
        rows.append((str(name), *asked, interval(late, 3), percent(late.mean() / best, 0)))
    heads = (given.head("episodes"), "asked", "of all rewards", "wins in the last tenth", "of the best")
    leave(given, figure, data, heads, rows, squares=squares)


if __name__ == "__main__":
    main()
