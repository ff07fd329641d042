"""The figure: a heat map of what every candidate loses in every world."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from benchmarks.worlds.candidates import OURS, label
from benchmarks.worlds.report import amount, in_order, per_unknown
from benchmarks.worlds.world import TAGS, World
from sparingly.lab.styles import RULE_COLOURS

SCALE = PowerNorm(0.5, vmin=0.0, vmax=1.0)  # small losses differ visibly, too
PANELS = (("friendly",), ("uneven", "drifting", "adversarial"))


def draw(losses: pandas.DataFrame, worlds: Sequence[World], path: Path) -> None:
    """Write the figure: friendly worlds on the left, all others on the right."""
    names, colours = in_order(losses), matplotlib.colormaps["YlOrRd"].with_extremes(bad="0.88")
    panels = [[w for tag in tags for w in worlds if w.tag == tag and w.id in set(losses["world"])] for tags in PANELS]
    panels = [panel for panel in panels if panel]
    height = max(len(panel) + len({w.tag for w in panel}) for panel in panels)
    with matplotlib.rc_context({"font.size": 8.5}):
        figure = Figure(figsize=(1.2 + len(panels) * (3.1 + 0.42 * len(names)), 2.6 + 0.235 * height))
        figure.set_layout_engine("constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, panel in zip(axes, panels, strict=True):
            image = fill(axis, panel, height, names, losses, colours)
        bar = figure.colorbar(image, ax=list(axes), location="bottom", shrink=0.5, aspect=50, pad=0.01)
        bar.set_ticks([0, 0.05, 0.2, 0.5, 1], labels=["0: the best", "0.05", "0.2", "0.5", "1: asking never, or worse"])
        bar.set_label("reward lost: (best − it) / (best − asking never)")
        figure.savefig(path, dpi=130)


def fill(
    axis: Axes, panel: Sequence[World], height: int, names: Sequence[str], losses: pandas.DataFrame, colours: Any
) -> Any:
    """One panel: worlds down, candidates across, a title before each tag."""
    rows: list[World | str] = []
    for tag in dict.fromkeys(world.tag for world in panel):
        rows += [tag, *(world for world in panel if world.tag == tag)]
    wide, sure = (losses.pivot(index="world", columns="candidate", values=v) for v in ("loss", "significant"))
    values = np.full((height, len(names)), np.nan)
    for y, row in enumerate(rows):
        if isinstance(row, World):
            values[y] = [wide[name].get(row.id, np.nan) for name in names]
    image = axis.imshow(np.ma.masked_invalid(values), aspect="auto", cmap=colours, norm=SCALE)
    axis.axhspan(len(rows) - 0.5, height - 0.5, color="white")
    for y, row in enumerate(rows):
        if isinstance(row, str):
            axis.axhspan(y - 0.5, y + 0.5, color="white")
            axis.text(-0.5, y + 0.1, f"{row}: {TAGS[row]}", va="center", weight="bold")
            continue
        for x, name in enumerate(names):
            write(axis, x, y, values[y, x], bool(sure[name].get(row.id, False)))
    texts = [f"{w.id}   {w.shape}, {amount(per_unknown(w))}" if isinstance(w, World) else "" for w in rows]
    axis.set_yticks(range(len(rows)), texts)
    axis.set_xticks(range(len(names)), [label(name).replace(", then the ", ",\nthen the ") for name in names])
    axis.tick_params(axis="x", labelrotation=60, top=True, labeltop=True, bottom=False, labelbottom=False)
    axis.tick_params(axis="both", length=0)
    for tick, name in zip(axis.get_xticklabels(), names, strict=True):
        colour = RULE_COLOURS.get(name, "black")
        tick.set(ha="left", rotation_mode="anchor", weight="bold" if name == OURS else "normal", color=colour)
    axis.spines[:].set_visible(False)
    return image


def write(axis: Axes, x: int, y: int, value: float, significant: bool) -> None:
    """The number in a cell; what is not significant stands in brackets."""
    if np.isnan(value):
        return
    text = f"{value:.2f}" if significant else f"({value:.2f})"
    colour = "white" if value > 0.5 else "black"
    axis.text(x, y, "best" if value == 0.0 else text, ha="center", va="center", fontsize=7, color=colour)
