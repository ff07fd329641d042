"""Draw the panels of claims: as inline SVG that takes its text colour from the HTML page around it, or as files.

Curves can be told apart without colour: measured ones have markers, upper bounds are heavy and dashed, lower bounds
dotted, budgets thick and grey, fits thin.
"""

from __future__ import annotations

import functools
import io
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from numpy.typing import NDArray

from sparingly.lab.claims.evidence import Curve, Panel, Role
from sparingly.lab.formatting import number, tick
from sparingly.lab.styles import COLOURS, DASHES, GREY, MARKERS, colours

Floats = NDArray[np.float64]

WIDTH, HEIGHT, LINE = 5.2, 3.35, 0.205  # in inches: the figure without its legend, and one line of the legend
INK = "#010203"  # a colour that nothing else has: replaced by the text colour of the page
DIMMEST, BRIGHTEST = 0.19, 0.29  # relative luminances: contrast 3:1 with white, and 4:1 with a dark page

# Styles of curves that are not measured: width, colour, and dashes for the first, second, third of them in a panel.
ROLES: dict[Role, tuple[float, str, Sequence[Any]]] = {
    "upper": (2.4, INK, ((0, (4, 1.6)), (0, (4, 1.2, 1, 1.2)), (0, (2, 1)))),
    "lower": (2.0, INK, ((0, (1, 1.2)), (0, (1, 2.6)), (0, (1, 1, 1, 3)))),
    "budget": (4.0, GREY, ("-", (0, (2.5, 0.7)), (0, (1, 0.6)))),
    "fit": (1.0, INK, ("-", (0, (9, 3)), (0, (9, 3, 2, 3)))),
}
STYLE: dict[Any, Any] = {
    "font.size": 11.5,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.fontsize": 11,
    "axes.titlesize": 12.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "text.parse_math": False,  # a dollar in a label is a dollar
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and copied
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}


@functools.lru_cache(maxsize=1024)  # drawing takes a fifth of a second and may be done ahead
def panel_svg(panel: Panel, key: str) -> str:
    """The panel as an <svg> element for an HTML page; `key` tells its ids from those of the page's other panels.

    Its title is left to the caption. For screen readers it has a description in words.
    """
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": key}):
        buffer = io.BytesIO()
        _draw(panel).savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue(), key, in_words(panel))


def panel_picture(panel: Panel, path: Path, seed: int = 0) -> None:
    """Save the panel with its caption, on white, in the format that the suffix of the path names: .svg or .png."""
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": panel.title}):
        _draw(panel, caption(panel, seed)).savefig(path, dpi=200, facecolor="white", metadata=metadata)


def caption(panel: Panel, seed: int) -> str:
    """The title, and the seed if chance plays a part; the axis says how many runs there are and what the band is."""
    return f"{panel.title} (seed {seed})" if panel.chance else panel.title


def in_words(panel: Panel) -> str:
    """Describe a panel in words: its axes, and where each curve starts and ends."""
    words = [f"{panel.title}: {panel.y_label} over {panel.x_label}."]
    for curve in panel.curves:
        seen = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(x) and math.isfinite(y)]
        if not seen:
            words.append(f"{curve.label}: nothing to draw.")
        elif len(seen) == 1:
            words.append(f"{curve.label}: {number(seen[0][1])} at {number(seen[0][0])}.")
        else:
            ends = [f"{number(y)} at {number(x)}" for x, y in (seen[0], seen[-1])]
            words.append(f"{curve.label}: from {ends[0]} to {ends[1]}.")
    return " ".join(words)


def legible(colour: str) -> str:
    """Dim or brighten a colour until it stands out from white as well as from black; black becomes INK.

    >>> legible("#D55E00"), legible("#E69F00"), legible("#000000") == INK
    ('#d55e00', '#c48700', True)
    """
    if to_rgb(colour) == (0.0, 0.0, 0.0):
        return INK
    light = np.array([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)])
    luminance = float(light @ (0.2126, 0.7152, 0.0722))
    light *= min(max(luminance, DIMMEST), BRIGHTEST) / luminance
    screen = [12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in light.tolist()]
    return to_hex((screen[0], screen[1], screen[2]))


# Drawing


def _draw(panel: Panel, title: str = "") -> Figure:
    labels, columns = _legend_of(
        [curve.label + ("" if _drawable(curve) else " (not finite)") for curve in panel.curves]
    )
    rows = sum(label.count("\n") + 1 for label in labels) / columns
    fig = Figure(figsize=(WIDTH, HEIGHT + LINE * math.ceil(rows) + 0.28 * bool(title)), layout="constrained")
    axis = fig.add_subplot()
    _set_scales(axis, panel)
    drawn: dict[str, int] = {}
    chosen = iter(colours([curve.label for curve in panel.curves if curve.role == "measured"]))
    for label, curve in zip(labels, panel.curves, strict=True):
        place = drawn.get(curve.role, 0)
        _draw_curve(axis, label, curve, place, next(chosen) if curve.role == "measured" else ROLES[curve.role][1])
        drawn[curve.role] = place + 1
    if not any(map(_drawable, panel.curves)):
        axis.text(0.5, 0.5, "nothing to draw", transform=axis.transAxes, ha="center", va="center", style="italic")
        axis.set(xticks=[], yticks=[])
        axis.minorticks_off()
    else:
        _set_ticks(axis)
        axis.grid(color=INK, alpha=0.13, linewidth=0.7)
    axis.set_axisbelow(True)
    axis.set_xlabel(_wrapped(panel.x_label, 250))
    axis.set_ylabel(_wrapped(panel.y_label, 195))
    if title:
        axis.set_title(_wrapped(title, 300, STYLE["axes.titlesize"]), loc="left")
    if labels:
        fig.legend(
            loc="outside lower left", ncols=columns, frameon=False, handlelength=3.0, columnspacing=1.2,
            labelspacing=0.35, borderpad=0.2,
        )  # fmt: skip
    return fig


def _drawable(curve: Curve) -> bool:
    return bool((np.isfinite(curve.x) & np.isfinite(curve.y)).any())


def _legend_of(labels: Sequence[str]) -> tuple[list[str], int]:
    """Wrap the labels of the legend to fit below the axes, and say in how many columns."""
    longest = max((_width(label, STYLE["legend.fontsize"]) for label in labels), default=0.0)
    columns = 3 if longest <= 65 and len(labels) > 2 else 2 if longest <= 125 and len(labels) > 1 else 1
    return [_wrapped(label, 305, STYLE["legend.fontsize"], most=4) for label in labels], columns


def _width(text: str, size: float) -> float:
    return float(text_to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)[0])


def _wrapped(text: str, points: float, size: float = STYLE["font.size"], most: int = 2) -> str:
    """Wrap the text into at most `most` lines of at most `points` width."""
    letters = max(len(text), 1)
    while True:
        lines = textwrap.wrap(text, letters, max_lines=most, placeholder="…")
        widest = max((_width(line, size) for line in lines), default=0.0)
        if widest <= points or letters <= 8:
            return "\n".join(lines)
        letters = max(min(letters - 1, int(letters * points / widest) + 1), 8)


def _set_scales(axis: Axes, panel: Panel) -> None:
    """Set logarithmic axes where the panel wants them; with zeros or negative numbers, linear around 0."""
    for wanted, values, scale in (
        (panel.x_log, _finite(curve.x for curve in panel.curves), axis.set_xscale),
        (panel.y_log, _finite(curve.y for curve in panel.curves), axis.set_yscale),
    ):
        sizes = np.abs(values[values != 0.0])
        if not wanted or sizes.size == 0:
            continue
        if values.min() > 0.0:
            scale("log")
        else:
            least = max(sizes.min(), sizes.max() * 1e-5)  # one tiny value must not give twenty decades
            scale("symlog", linthresh=10.0 ** math.floor(math.log10(least)), linscale=0.5)


def _finite(parts: Iterable[Sequence[float]]) -> Floats:
    values = np.array([value for part in parts for value in part], dtype=np.float64)
    return values[np.isfinite(values)]


def _draw_curve(axis: Axes, label: str, curve: Curve, place: int, colour: str) -> None:
    """Draw one curve, the `place`-th of its role; values that are not finite leave a gap."""
    x, y = (np.where(np.isfinite(v), v, np.nan) for v in (np.asarray(curve.x), np.asarray(curve.y)))
    points = int((np.isfinite(x) & np.isfinite(y)).sum())
    if curve.role == "measured":
        style = _measured_style(place, points, colour)
        if curve.low and curve.high:
            _draw_band(axis, x, curve, style["color"])
    else:
        width, _, dashes = ROLES[curve.role]
        style = {"color": colour, "linewidth": width, "linestyle": dashes[place % len(dashes)]}
        style["zorder"] = {"budget": 1.5, "fit": 3.5}.get(
            curve.role, 2.5
        )  # the thick one behind, the thin one in front
        if points == 1:
            style |= {"marker": "_", "markersize": 16, "markeredgewidth": width}
    axis.plot(x, y, label=label, **style)


def _measured_style(place: int, points: int, colour: str) -> dict[str, Any]:
    """Colour, dashes and marker; beyond as many curves as there are colours, dashes differ and markers are hollow."""
    lap = place // len(COLOURS)
    colour = legible(colour)
    return {
        "color": colour,
        "linewidth": 1.7,
        "linestyle": DASHES[(place + lap) % len(DASHES)],
        "marker": MARKERS[(place + lap) % len(MARKERS)],
        "markersize": 5.5,
        "markerfacecolor": "none" if lap % 2 else colour,
        "markevery": None if points <= 12 else (0.01 + 0.022 * (place % 5), 0.13),  # as shares of the diagonal
        "zorder": 3.0,
    }


def _draw_band(axis: Axes, x: Floats, curve: Curve, colour: str) -> None:
    """Draw the band of a curve; on a logarithmic axis it is cut off at the least value that can be shown."""
    low, high = np.asarray(curve.low), np.asarray(curve.high)
    if axis.get_yscale() == "log":
        seen = _finite((curve.y, curve.low, curve.high))
        floor = float(seen[seen > 0.0].min(initial=math.inf))
        low, high = (np.maximum(edge, floor) for edge in (low, high))
    shown = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
    axis.fill_between(x, low, high, where=shown, color=colour, alpha=0.16, linewidth=0, zorder=1.8)


def _set_ticks(axis: Axes) -> None:
    """Set few ticks with short numbers: a figure may be as narrow as a phone."""
    for line, limits, most in ((axis.xaxis, axis.get_xlim(), 5), (axis.yaxis, axis.get_ylim(), 6)):
        # Write thousands in full as long as there is room for the longest of them.
        write: Callable[[float], str] = partial(tick, powers_from=1e6 if max(map(abs, limits)) < 2.5e5 else 1e4)
        if line.get_scale() == "log":
            decades = math.log10(limits[1] / limits[0])
            if decades < 0.9:
                line.set_major_locator(ticker.MaxNLocator(most - 1, steps=[1, 2, 5, 10]))
                line.set_minor_locator(ticker.NullLocator())
            else:
                subs = (1.0, 2.0, 5.0) if decades < 1.7 else (1.0, 3.0) if decades < 2.4 else (1.0,)
                line.set_major_locator(ticker.LogLocator(subs=subs, numticks=most + 2 if len(subs) == 1 else 12))
                line.set_minor_locator(ticker.LogLocator(subs=(2.0, 5.0), numticks=12))
        elif line.get_scale() == "symlog":
            locator = line.get_major_locator()
            assert isinstance(locator, ticker.SymmetricalLogLocator)
            locator.set_params(numticks=most + 1)
        else:
            line.set_major_locator(ticker.MaxNLocator(most - 1, steps=[1, 2, 2.5, 5, 10]))
            write = partial(tick, powers_from=1e7)
        line.set_major_formatter(ticker.FuncFormatter(lambda x, _, write=write: write(x)))
        line.set_minor_formatter(ticker.NullFormatter())


# From an SVG file to a part of an HTML page


def _inline(svg: bytes, key: str, words: str) -> str:
    """Turn matplotlib's file into an element: no namespaces, no style sheet that would affect the page, unique ids."""
    root = ElementTree.fromstring(svg)  # noqa: S314 (matplotlib has just written it)
    prefix = "f" + re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found[0]):x}", key)
    referred = set(re.findall(r"#([\w.-]+)", svg.decode()))
    defined = [name for element in root.iter() if (name := element.get("id", "")) in referred]
    names = {name: f"{prefix}-{place}" for place, name in enumerate(defined)}
    for element in list(root.iter()):
        for child in list(element):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                element.remove(child)
        element.tag = element.tag.rpartition("}")[2]
        element.text, element.tail = ((text or "").strip() for text in (element.text, element.tail))
        element.attrib = {
            name.rpartition("}")[2]: _adapted(value, names)
            for name, value in element.attrib.items()
            if name != "id" or value in names
        }
    box = root.attrib["viewBox"]
    root.attrib = {"viewBox": box, "role": "img", "aria-label": words, "class": "panel", "stroke-linejoin": "round"}
    return ElementTree.tostring(root, encoding="unicode")


def _adapted(value: str, names: dict[str, str]) -> str:
    """Adapt an attribute: new ids, the colour and font of the page, and no more digits than a screen can show."""
    if value in names:
        return names[value]
    value = re.sub(r"#([\w.-]+)", lambda found: "#" + names.get(found[1], found[1]), value)
    value = re.sub(r"\s*\bfont-family:[^;]*;?", "", value).replace(INK, "currentColor")
    value = re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", value)
    return " ".join(value.split())
