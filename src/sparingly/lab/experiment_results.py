"""The results of experiments: a table on the screen, a Parquet file, a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow
import pyarrow.parquet
from matplotlib.figure import Figure
from rich.markup import escape
from rich.table import Table

from sparingly.simulation.simulate import Simulation

Results = Mapping[str, Simulation]

# Okabe & Ito's colours, safe for colour-blind readers; dashes and markers tell curves apart in black and white.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def table(title: str, results: Results) -> Table:
    """Regret, asks and refusals at the end of the runs."""
    first = next(iter(results.values()))
    runs = first.regret.shape[0]
    view = Table(
        title=escape(title), caption=f"{first.rounds[-1]:,} rounds, {runs} runs; ± is a 95 % interval of the mean"
    )
    view.add_column("rule")
    for name in ("regret", "±", "asked", "spent", "budget", "refused"):
        view.add_column(name, justify="right")
    for label, result in results.items():
        mean, half = result.final_regret()
        last = [float(x[:, -1].mean()) for x in (result.asked, result.spent, result.budget)]
        view.add_row(
            escape(label), f"{mean:,.1f}", f"{half:,.1f}", *(f"{x:,.0f}" for x in last), f"{result.refused.sum():,}"
        )
    return view


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown: names on the left, numbers on the right.

    >>> print(markdown(("rule", "asks"), [("Never", "0")]))
    | rule | asks |
    |---|---:|
    | Never | 0 |
    """
    rule = "|---|" + "---:|" * (len(heads) - 1)
    return "\n".join([f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)])


def write_parquet(path: Path, results: Mapping[str, Results]) -> None:
    """Write one row for each checkpoint of each run of each policy of each experiment."""
    import pandas

    frames = [
        result.frame().assign(experiment=title, policy=label)
        for title, policies in results.items()
        for label, result in policies.items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pandas(pandas.concat(frames), preserve_index=False), path)


def figure(results: Mapping[str, Results]) -> Figure:
    """One column for each experiment: regret with its band on top, asks against the budget below."""
    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        fig = Figure(figsize=(5.4 * len(results), 7.2), layout="constrained")
        axes = fig.subplots(2, len(results), squeeze=False)
        for column, (title, policies) in enumerate(results.items()):
            _draw_regret(axes[0, column], title, policies)
            _draw_asks(axes[1, column], policies)
    return fig


def style(place: int, marks: int) -> dict[str, Any]:
    """The style of the `place`-th curve, which has `marks` points: colour, dashes and a few markers."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": DASHES[place % len(DASHES)],
        "marker": MARKERS[place % len(MARKERS)],
        "markevery": (place * 3, max(marks // 8, 1)),
        "markersize": 5,
    }


def _draw_regret(axis: Any, title: str, policies: Results) -> None:
    for place, (label, result) in enumerate(policies.items()):
        mean = result.regret.mean(axis=0)
        axis.plot(result.rounds, mean, label=label, **style(place, result.rounds.size))
        if result.regret.shape[0] > 1:
            low, high = np.quantile(result.regret, (0.1, 0.9), axis=0)
            axis.fill_between(result.rounds, low, high, color=COLOURS[place % len(COLOURS)], alpha=0.15, linewidth=0)
    axis.set_title(title, parse_math=False)
    axis.set_xscale("log")
    axis.set_yscale("symlog", linthresh=10)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("regret: mean, and 10–90 % of runs")
    axis.legend(frameon=False)
    axis.grid(alpha=0.25)


def _draw_asks(axis: Any, policies: Results) -> None:
    first = next(iter(policies.values()))
    budget = first.budget.mean(axis=0)
    if np.isfinite(budget).all():
        axis.plot(first.rounds, budget, color="0.35", linewidth=3, alpha=0.6, label="budget B(t)")
    for place, (label, result) in enumerate(policies.items()):
        axis.plot(result.rounds, result.spent.mean(axis=0), label=label, **style(place, result.rounds.size))
    axis.set_xscale("log")
    axis.set_yscale("symlog", linthresh=10)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("round")
    axis.set_ylabel("spent on asking (mean)")
    axis.legend(frameon=False)
    axis.grid(alpha=0.25)


def write_figure(path: Path, results: Mapping[str, Results]) -> None:
    """Save the figure in the format that the suffix of the path names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure(results).savefig(path, dpi=150)
