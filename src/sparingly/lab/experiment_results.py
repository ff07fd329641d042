"""The results of experiments: a table on the screen, a Parquet file, a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow
import pyarrow.parquet
from matplotlib.figure import Figure
from rich.markup import escape
from rich.table import Table

from sparingly.lab.styles import looks
from sparingly.simulation.simulate import Simulation

Results = Mapping[str, Simulation]


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


def styles(labels: Sequence[str], points: int) -> list[dict[str, Any]]:
    """The styles of the curves of a figure, which have so many points each: colour, dashes and a few markers."""
    sparse = max(points // 8, 1)
    return [{**look, "markevery": (place * 3, sparse), "markersize": 5} for place, look in enumerate(looks(labels))]


def _with_styles(policies: Results) -> Iterator[tuple[tuple[str, Simulation], dict[str, Any]]]:
    points = next(iter(policies.values())).rounds.size
    return zip(policies.items(), styles(list(policies), points), strict=True)


def _draw_regret(axis: Any, title: str, policies: Results) -> None:
    for (label, result), look in _with_styles(policies):
        mean = result.regret.mean(axis=0)
        axis.plot(result.rounds, mean, label=label, **look)
        if result.regret.shape[0] > 1:
            low, high = np.quantile(result.regret, (0.1, 0.9), axis=0)
            axis.fill_between(result.rounds, low, high, color=look["color"], alpha=0.15, linewidth=0)
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
    for (label, result), look in _with_styles(policies):
        axis.plot(result.rounds, result.spent.mean(axis=0), label=label, **look)
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
