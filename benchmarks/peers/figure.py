"""The figure of the comparison: mean reward at each budget, a row for each candidate, a panel for each data set."""

from __future__ import annotations

from pathlib import Path

import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.peers.ours import OURS
from benchmarks.peers.report import TOLD, in_order, percent
from sparingly.lab.styles import RULE_COLOURS, rule_of

OTHERS = "0.3"  # the colour of what is not ours
MARKS, DASHES, SIZES, ALPHAS = "osD", (":", "--", "-"), (20, 38, 60), (0.5, 0.75, 1.0)  # from the least budget up


def colour(name: str) -> str:
    """Ours have the colour of their rule; that of the default rule is not named."""
    return RULE_COLOURS[rule_of(name) or "BalancedMatching"] if name.startswith("sparingly") else OTHERS


def draw(runs: pandas.DataFrame, path: Path) -> None:
    """Write the figure; of more than three budgets the first three are shown."""
    order, names = in_order(runs), list(dict.fromkeys(runs["data"]))
    rows = {c.name: place + (c.feedback == "label") for place, c in enumerate(order)}  # a gap between the groups
    figure = Figure(figsize=(3.6 + 2.6 * len(names), 1.8 + 0.27 * len(rows)), layout="constrained")
    axes = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axis, data in zip(axes, names, strict=True):
        panel(axis, data, runs[runs["data"] == data], rows)
    axes[0].set_yticks(list(rows.values()), list(rows), fontsize=9)
    axes[0].set_ylim(max(rows.values()) + 0.8, -1.3)
    for label in axes[0].get_yticklabels():
        label.set_color(colour(label.get_text()))
    for kind in dict.fromkeys(c.feedback for c in order):
        above = min(rows[c.name] for c in order if c.feedback == kind) - 0.8
        place = {"xycoords": ("axes fraction", "data"), "fontsize": 8, "style": "italic", "va": "center"}
        axes[0].annotate(f"an ask tells {TOLD[kind]}", (0.03, above), **place)
    marks = [
        Line2D([], [], color="0.3", marker=mark, linestyle=dash, label=f"budget: {percent(share)} of the rounds")
        for share, mark, dash in zip(sorted(runs["share"].unique()), MARKS, DASHES, strict=False)
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=3, frameon=False, title=f"upright lines: {OURS}")
    figure.savefig(path, dpi=130)


def panel(axis: Axes, data: str, runs: pandas.DataFrame, rows: dict[str, int]) -> None:
    """One data set."""
    for share, mark, dash, size, alpha in zip(
        sorted(runs["share"].unique()), MARKS, DASHES, SIZES, ALPHAS, strict=False
    ):
        means = runs[runs["share"] == share].groupby("candidate")["reward"].mean()
        colours = [colour(name) for name in means.index]
        axis.scatter(
            means, [rows[name] for name in means.index], s=size, c=colours, marker=mark, alpha=alpha, linewidths=0,
            zorder=3,
        )  # fmt: skip
        axis.axvline(means[OURS], color=colour(OURS), linestyle=dash, linewidth=1, alpha=0.6)
    axis.set_title(data, parse_math=False)
    axis.set_xlabel("mean reward a round")
    axis.grid(alpha=0.25)
