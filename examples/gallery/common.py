"""What the programs of the gallery share: their options, the style of their figures, and where their results go."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from sparingly.lab.experiment_results import markdown, styles

Floats = NDArray[np.float64]

STYLE = {"font.size": 11, "axes.spines.top": False, "axes.spines.right": False, "text.parse_math": False}
BUDGET: dict[str, Any] = {"color": "0.35", "alpha": 0.5, "linewidth": 4, "label": "the budget", "zorder": 1.5}
BLOCKS = 25  # points of a curve


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    rounds: int
    runs: int
    seed: int
    out: Path

    def marks(self) -> NDArray[np.int64]:
        """The ends of the blocks of rounds that become the points of a curve."""
        return np.unique(np.linspace(0, self.rounds, BLOCKS + 1).round().astype(np.int64)[1:])

    def blocks(self, values: Floats) -> Floats:
        """The mean of values (rounds,) over each block of rounds."""
        marks = self.marks()
        sizes = np.diff(marks, prepend=0)
        means: Floats = np.add.reduceat(values, marks - sizes) / sizes
        return means

    @property
    def repeated(self) -> str:
        """How often everything was run, in words."""
        return "one run" if self.runs == 1 else f"{self.runs} runs"

    def head(self, rounds: str) -> str:
        """What a table is of."""
        return f"{self.rounds:,} {rounds}, {self.repeated}, seed {self.seed}"


def options(text: str, rounds: int, runs: int, quick: tuple[int, int]) -> Options:
    """Read the command line: `rounds` and `runs` are the defaults, `quick` those of --quick."""
    name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=_positive, help=f"how long a run is (default {rounds:,})")
    parser.add_argument("--runs", type=_positive, help=f"how many runs, each with its own luck (default {runs})")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same results (default 0)")
    parser.add_argument("--out", type=Path, default=Path("results", "gallery", name), help="a folder for the results")
    parser.add_argument("--quick", action="store_true", help="some seconds only: {} rounds, {} runs".format(*quick))
    given = parser.parse_args()
    rounds, runs = quick if given.quick else (rounds, runs)
    return Options(given.rounds or rounds, given.runs or runs, given.seed, given.out)


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError(text)
    return value


@contextmanager
def page(width: float, height: float, *ratios: float) -> Iterator[tuple[Figure, Sequence[Axes]]]:
    """A figure with panels side by side, so wide each, to be drawn inside the `with`."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(1, len(ratios), width_ratios=ratios, squeeze=False)[0]


def curves(
    axis: Axes, frame: pandas.DataFrame, x: str, y: str, without: Collection[str] = (), thin: bool = False
) -> None:
    """The mean over runs of column `y` with its 95 % interval, for each strategy; `thin`: the line only."""
    names = list(frame["strategy"].unique())
    for name, look in zip(names, styles(names, frame[x].nunique()), strict=True):
        if name in without:
            continue
        values = frame[frame["strategy"] == name].pivot(index=x, columns="run", values=y)
        if thin:
            axis.plot(values.index, values.mean(axis=1), color=look["color"], linewidth=1)
            continue
        axis.plot(values.index, values.mean(axis=1), label=str(name), linewidth=1.8, **look)
        mean, half = mean_and_half(values.to_numpy().T)
        axis.fill_between(values.index, mean - half, mean + half, color=look["color"], alpha=0.15, linewidth=0)
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.grid(alpha=0.25)


def budget_line(axis: Axes, rounds: ArrayLike, budget: ArrayLike) -> None:
    """What may be spent: thick and grey, behind everything."""
    axis.plot(rounds, budget, **BUDGET)
    axis.set_ylim(0.0, 1.06 * float(np.max(budget)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend for all panels, below them."""
    known = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(known.values()), list(known), loc="outside lower center", ncols=min(len(known), 4), frameon=False,
        handlelength=3.2,
    )  # fmt: skip


def mean_and_half(values: Floats) -> tuple[Floats, Floats]:
    """The mean over runs of values (runs, …), and half of Student's 95 % interval: 0 where there is one run only."""
    runs, mean = len(values), values.mean(axis=0)
    if runs < 2:
        return mean, np.zeros_like(mean)
    return mean, stats.t.ppf(0.975, runs - 1) * values.std(axis=0, ddof=1) / math.sqrt(runs)


def interval(values: ArrayLike, digits: int = 4, sign: str = "") -> str:
    """Mean and interval as text; with `sign` "+" it is a difference."""
    mean, half = mean_and_half(np.asarray(values, dtype=np.float64))
    return f"{mean:{sign}.{digits}f}".replace("-", "−") + (f" ± {half:.{digits}f}" if half > 0.0 else "")


def percent(share: float, digits: int = 1) -> str:
    """A share as text."""
    return f"{100 * share:.{digits}f} %".replace("-", "−")


def leave(
    options: Options,
    figure: Figure,
    data: pandas.DataFrame,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    **more: pandas.DataFrame,
) -> None:
    """Write figure.png, data.parquet and `more` tables to the folder; print what there is to read."""
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "figure.png", dpi=150, facecolor="white")
    for name, frame in ({"data": data} | more).items():
        frame.to_parquet(options.out / f"{name}.parquet", index=False)
    print(markdown(heads, rows), flush=True)
    print(f"The figure and the data are in {options.out}", file=sys.stderr)
