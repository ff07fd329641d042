"""Curves and panels of claims: simulations as lines with bands, bounds beside them, spending against the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Curve, Panel, Role
from sparingly.simulation.simulate import Simulation

Floats = NDArray[np.float64]


def name(rule: Any) -> str:
    """The name of a rule or learner in tables and figures."""
    return type(rule).__name__


def along(result: Simulation, bound: Callable[[Floats], Floats]) -> Floats:
    """A bound at the checkpoints of a simulation, from the budgets recorded there: (runs, K), or (1, K) if all equal.

    Between checkpoints, B(t) is taken to be the next recorded budget. B never decreases and bounds fall with B, so this
    bound is at most the true one: regret below it is below the true one too.
    """
    spans = np.diff(result.rounds, prepend=0)
    rows = result.budget if np.ptp(result.budget, axis=0).any() else result.budget[:1]
    return np.array([bound(np.repeat(row, spans))[result.rounds - 1] for row in rows])


def bound_line(label: str, result: Simulation, bars: Floats, role: Role = "upper") -> Curve:
    """A bound from `along` as a line: its mean over the runs."""
    return curve(label, result.rounds, bars.mean(axis=0), role)


def curve(label: str, x: ArrayLike, y: ArrayLike, role: Role = "measured") -> Curve:
    """A line without a band."""
    return Curve(label, _floats(x), _floats(y), role=role)


def band(label: str, x: ArrayLike, samples: Floats) -> Curve:
    """The mean over the runs, (runs, K), with the band in which 80 % of them lie."""
    low, high = np.quantile(samples, (0.1, 0.9), axis=0)
    return Curve(label, _floats(x), _floats(samples.mean(axis=0)), _floats(low), _floats(high))


def means(label: str, x: ArrayLike, samples: Sequence[Floats]) -> Curve:
    """The mean of the runs for each x, with the interval by which it is judged."""
    middle, low, high = zip(*(statistics.interval(one) for one in samples), strict=True)
    return Curve(label, _floats(x), _floats(middle), _floats(low), _floats(high))


def of_runs(counts: Iterable[int]) -> str:
    """How many runs a figure shows: "40 runs", "12 to 40 runs"."""
    least, most = min(counts := list(counts)), max(counts)
    return f"{least:,} runs" if least == most else f"{least:,} to {most:,} runs"


def mean_of_runs(counts: Iterable[int]) -> str:
    """What the curves of `means` are."""
    return f"mean of {of_runs(counts)}, and its interval"


def share_of_runs(counts: Iterable[int]) -> str:
    """What the curves of `band` are."""
    return f"mean, and 10–90 % of {of_runs(counts)}"


def regrets(title: str, results: Mapping[str, Simulation], *bounds: Curve, x_label: str = "round") -> Panel:
    """Measured regret with its bands, and bounds."""
    lines = tuple(band(label, result.rounds, result.regret) for label, result in results.items())
    shown = share_of_runs(len(result.regret) for result in results.values())
    return Panel(title, x_label, f"regret: {shown}", (*lines, *bounds))


def spending(
    results: Mapping[str, Simulation], x_label: str = "round", title: str = "Spent, against the budget"
) -> Panel:
    """What was spent against what was granted."""
    first = next(iter(results.values()))
    curves = [curve(label, r.rounds, r.spent.mean(axis=0)) for label, r in results.items()]
    if np.isfinite(first.budget).all():
        curves.insert(0, curve("budget B(t)", first.rounds, first.budget.mean(axis=0), role="budget"))
    runs = of_runs(len(result.regret) for result in results.values())
    return Panel(title, x_label, f"spent on asking: mean of {runs}", tuple(curves))


def _floats(values: ArrayLike) -> tuple[float, ...]:
    return tuple(float(v) for v in np.asarray(values, dtype=np.float64))
