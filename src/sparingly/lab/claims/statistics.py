"""The statistical tests that judge claims. Each returns a `Check` with a chance of a false alarm of at most ALARM.

A check is "shown" if the whole interval of the test lies on the right side of the bar, "refuted" if the whole interval
lies on the wrong side, and "open" otherwise. Each end of an interval is missed with probability ALARM, but only one of
the two can make the outcome wrong.

Two tests assume no more than independent runs: Clopper and Pearson's for probabilities, and `below_for_any_law` for
losses that cannot exceed a known amount. The others assume that means over runs are normal: Student's test for means
(with a Bonferroni correction for whatever is compared at once), Fieller's for ratios, and least squares for growth.
Regret is skewed, so with few runs this is an assumption, and the name of each such test says so.

A true claim can still fail: where a check is left open. That has no bound like ALARM; it depends on the distance from
the bar in units of the error. `chance_of_open` estimates it, and `python -m benchmarks.claim_seeds` counts it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from sparingly.errors import InvalidInput
from sparingly.lab.claims.evidence import Check, Form, Outcome

Floats = NDArray[np.float64]
Relation = Literal["≤", "≥"]

ALARM = 1e-6  # of one check
NORMAL = "if means are normal"


def chance_of_open(check: Check) -> float:
    """The chance that this check, made again with another seed, would not be shown: from its interval alone.

    A new value is normal around this one, with the error of both. The distance that it may move before its interval
    touches the bar, in units of that error, gives the chance. 0 for exact comparisons, for tests whose interval says
    nothing of an error, and for checks that were not shown.
    """
    if check.outcome != "shown" or not any(word in check.test for word in ("Student", "Fieller", "least squares")):
        return 0.0
    near, far = (check.high, check.low) if check.relation == "≤" else (check.low, check.high)
    half, room = abs(near - check.value), abs(check.bar - near)
    if not (math.isfinite(far) and math.isfinite(near)) or half == 0.0:
        return 0.0
    error = half / float(stats.norm.isf(ALARM))  # at least: with few runs Student's quantile is larger
    return float(stats.norm.sf(room / (math.sqrt(2.0) * error)))


def interval(samples: ArrayLike, parts: int = 1, axis: int = 0) -> tuple[Floats, Floats, Floats]:
    """Mean over runs and Student's interval; each end is missed with probability ALARM / parts."""
    values = np.asarray(samples, dtype=np.float64)
    n = values.shape[axis]
    mean = values.mean(axis=axis)
    if n < 2:
        return mean, np.full_like(mean, -math.inf), np.full_like(mean, math.inf)
    half = quantile(n - 1, parts) * values.std(axis=axis, ddof=1) / math.sqrt(n)
    return mean, mean - half, mean + half


def quantile(degrees: int, parts: int = 1) -> float:
    """The quantile of Student's distribution for one end, when `parts` comparisons are made at once."""
    return float(stats.t.isf(ALARM / parts, degrees))


def outcome_of(low: float, high: float, relation: Relation, bar: float) -> Outcome:
    """The outcome of a check, from where its interval lies."""
    if relation == "≥":
        low, high, bar = -high, -low, -bar
    return "shown" if high < bar else "refuted" if low > bar else "open"


def exact(says: str, value: float, relation: Literal["≤", "≥", "="], bar: float, form: Form = "") -> Check:
    """A comparison without chance: a count, or what holds in every single run."""
    holds = {"≤": value <= bar, "≥": value >= bar, "=": value == bar}[relation]
    outcome: Outcome = "shown" if holds else "refuted"
    return Check(says, float(value), relation, float(bar), float(value), float(value), outcome, "exact", 0.0, form)


def mean(says: str, samples: ArrayLike, relation: Relation, bar: float, form: Form = "") -> Check:
    """The mean over runs against a number."""
    middle, low, high = (float(x) for x in interval(samples))
    runs = np.shape(samples)[0]
    return Check(
        says, middle, relation, bar, low, high, outcome_of(low, high, relation, bar),
        f"Student's t, {runs} runs, {NORMAL}", ALARM, form,
    )  # fmt: skip


def below_curve(says: str, samples: ArrayLike, bound: ArrayLike, estimates: int = 1) -> Check:
    """The mean over runs against the mean of a bound at every checkpoint: `samples` (runs, K), `bound` too or (K,).

    The test is on the mean of the difference, run by run; it is reported as a share of the bound. `estimates` is the
    number of estimates: 2 if the bound itself was estimated, with a chance of ALARM / 2 to be wrong.
    """
    values, bars = np.asarray(samples, dtype=np.float64), np.asarray(bound, dtype=np.float64)
    marks, scale = values.shape[1], np.broadcast_to(bars, values.shape).mean(axis=0)
    middle, low, high = (1.0 + part / scale for part in interval(values - bars, estimates * marks))
    worst = int(np.argmax(high))
    outcome: Outcome = "shown" if (high < 1.0).all() else "refuted" if (low > 1.0).any() else "open"
    test = f"Student's t, {values.shape[0]} runs, at each of {marks} rounds, {NORMAL}"
    return Check(says, float(middle[worst]), "≤", 1.0, float(low[worst]), float(high[worst]), outcome, test, ALARM)


def below_for_any_law(says: str, samples: ArrayLike, bound: ArrayLike, most: ArrayLike) -> Check:
    """Like `below_curve`, for independent runs with losses between 0 and `most` (K,), whatever their distribution.

    Let S be the largest (loss − bound)/most of a run at any checkpoint, s the largest S of n runs, and
    p = 1 − ALARM^(1/n). Only with probability ALARM are all n of them below the (1 − p)-quantile of S; otherwise S ≤ s
    but for a share p of all possible runs, and those lose at most `most`. So the mean of loss − bound is at most
    ((1 − p)·s + p)·most at every checkpoint. It is shown, as a share of the bound, where s was found. In the same way
    the mean loss is at least 1 − p times the least loss, with ALARM split over the checkpoints; where the bound
    differs from run to run that proves nothing, and the check is shown or open.
    """
    values, bars = np.asarray(samples, dtype=np.float64), np.asarray(bound, dtype=np.float64)
    (n, marks), cap = values.shape, np.asarray(most, dtype=np.float64)
    if not ((values >= 0.0) & (values <= cap * (1.0 + 1e-9))).all():
        raise InvalidInput("a loss lies outside the range that was given as possible")
    bars = np.broadcast_to(bars, values.shape)
    varied, scale = bool(np.ptp(bars, axis=0).any()), bars.mean(axis=0)
    excess = ((values - bars) / cap).max(axis=0)
    beyond, short = (-math.expm1(math.log(ALARM / parts) / n) for parts in (1, marks))
    above = (1.0 - beyond) * float(excess.max()) + beyond
    low = np.zeros(marks) if varied else (1.0 - short) * values.min(axis=0) / scale
    refuted = bool((low > 1.0).any())
    at = int(np.argmax(low if refuted else excess))
    outcome: Outcome = "shown" if above < 0.0 else "refuted" if refuted else "open"
    middle, high = values[:, at].mean() / scale[at], 1.0 + above * cap[at] / scale[at]
    rounds = f"at all of {marks} rounds, " if marks > 1 else ""
    test = f"the largest of {n} runs, {rounds}for any law of losses"
    possible = float((cap / scale).max())
    return Check(says, float(middle), "≤", 1.0, float(low[at]), float(high), outcome, test, ALARM, most=possible)


def below_everywhere(says: str, samples: Sequence[ArrayLike], bar: float) -> Check:
    """The mean on each of several instances against a number: all must lie below it. Reported as multiples of it."""
    parts = [tuple(float(x) for x in interval(np.asarray(one) / bar, len(samples))) for one in samples]
    middle, low, high = max(parts, key=lambda part: part[2])
    refuted = any(part[1] > 1.0 for part in parts)
    outcome: Outcome = "shown" if high < 1.0 else "refuted" if refuted else "open"
    test = f"Student's t, {np.shape(samples[0])[0]} runs on each of {len(samples)} instances, {NORMAL}"
    return Check(says, middle, "≤", 1.0, low, high, outcome, test, ALARM)


def above_somewhere(says: str, samples: Sequence[ArrayLike], bar: float, form: Form = "") -> Check:
    """The worst of several instances against a lower bound: some mean must exceed it. Reported as multiples of it."""
    parts = [tuple(float(x) for x in interval(np.asarray(one) / bar, len(samples))) for one in samples]
    middle, low, high = max(parts, key=lambda part: part[1])
    outcome: Outcome = (
        "shown" if low >= 1.0 else "refuted" if all(part[2] < 1.0 for part in parts) else "open"
    )  # fmt: skip
    runs = np.shape(samples[0])[0]
    test = f"Student's t, {runs} runs on each of {len(samples)} instances, {NORMAL}"
    return Check(says, middle, "≥", 1.0, low, high, outcome, test, ALARM, form)


def chance(
    says: str, events: ArrayLike, relation: Relation, bar: float, form: Form = "", certain: ArrayLike | None = None
) -> Check:
    """The probability of an event that each run shows or does not show, against a number.

    If a run does not always tell for sure, `events` says in which runs it may have happened, `certain` in which it did.
    """
    seen = np.asarray(events, dtype=bool)
    n, k = seen.size, int(seen.sum())
    least = k if certain is None else int(np.asarray(certain, dtype=bool).sum())
    low = 0.0 if least == 0 else float(stats.beta.ppf(ALARM, least, n - least + 1))
    high = 1.0 if k == n else float(stats.beta.isf(ALARM, k + 1, n - k))
    test = f"Clopper and Pearson, {k} of {n} runs"
    return Check(says, k / n, relation, bar, low, high, outcome_of(low, high, relation, bar), test, ALARM, form)


def ratio(
    says: str, over: ArrayLike, under: ArrayLike, relation: Relation, bar: float, form: Form = "", paired: bool = True
) -> Check:
    """The ratio of two means against a number; runs are paired by their seeds, or independent."""
    a, b = np.asarray(over, dtype=np.float64), np.asarray(under, dtype=np.float64)
    low, high = fieller(a, b, paired)
    value = float(a.mean() / b.mean()) if b.mean() else math.nan
    runs = f"{a.size} paired runs" if paired else f"{a.size} independent runs each"
    test = f"Fieller's ratio of means, {runs}, {NORMAL}"
    return Check(says, value, relation, bar, low, high, outcome_of(low, high, relation, bar), test, ALARM, form)


def fieller(a: Floats, b: Floats, paired: bool = True) -> tuple[float, float]:
    """The ρ for which the mean of a − ρ b is not significantly different from 0; unbounded if b may be 0."""
    n, t = a.size, quantile(a.size - 1)
    cov: Any = np.cov(a, b, ddof=1) * t * t / n
    shared = cov[0, 1] if paired else 0.0
    A, B, C = b.mean() ** 2 - cov[1, 1], a.mean() * b.mean() - shared, a.mean() ** 2 - cov[0, 0]
    if A <= 0.0:
        return -math.inf, math.inf
    root = math.sqrt(max(B * B - A * C, 0.0))
    return float((B - root) / A), float((B + root) / A)


def slope(x: ArrayLike, samples: Sequence[ArrayLike]) -> tuple[float, float, float]:
    """The slope of log(mean) over log(x), with its interval; `samples` holds independent runs for each x.

    The slope is a weighted sum of the logs of the means, whose deviations are those of the means divided by them.
    """
    logs = np.log(np.asarray(x, dtype=np.float64))
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    runs = [np.asarray(one, dtype=np.float64) for one in samples]
    means = np.array([one.mean() for one in runs])
    if not (means > 0.0).all():
        return math.nan, -math.inf, math.inf
    errors = np.array([one.std(ddof=1) / math.sqrt(one.size) for one in runs]) / means
    half = quantile(min(one.size for one in runs) - 1) * math.sqrt(float((weights**2 * errors**2).sum()))
    value = float((weights * np.log(means)).sum())
    return value, value - half, value + half


def growth(
    says: str, x: ArrayLike, samples: Sequence[ArrayLike], exponent: float, factor: float | None = None,
    from_below: bool = True,
) -> list[Check]:  # fmt: skip
    """Whether the means grow like x^exponent: at most, and, `from_below`, at least.

    If x is the horizon, up to one logarithm, because the bounds have logarithms of T: the bars are the slopes, over the
    same x, of x^exponent · log(x) and of x^exponent / log(x). In other variables the bounds have no logarithms; then
    the bars are the slopes that make a difference of `factor` over the whole range of x.
    """
    value, low, high = slope(x, samples)
    logs = np.log(np.asarray(x, dtype=np.float64))
    if factor is None:
        margin, leeway = float(np.polyfit(logs, np.log(logs), 1)[0]), "a logarithm"
    else:
        margin, leeway = math.log(factor) / abs(float(logs[-1] - logs[0])), f"a factor of {factor:g} over the range"
    power = f"{exponent:g}".replace("-", "−")
    test = f"least squares on {logs.size} logarithms of means of {np.size(samples[0])} runs, {NORMAL}"

    def one(side: str, relation: Relation, bar: float) -> Check:
        text = f"{says} {side} like the power {power}, up to {leeway}"
        outcome = outcome_of(low, high, relation, bar)
        return Check(text, value, relation, bar, low, high, outcome, test, ALARM, span=float(np.exp(np.ptp(logs))))

    checks = [one("at most", "≤", exponent + margin)]
    if from_below:
        checks.append(one("at least", "≥", exponent - margin))
    return checks
