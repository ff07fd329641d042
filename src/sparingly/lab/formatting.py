"""Format numbers for people: in tables with the digits that their interval supports, on axes as powers of ten."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # claims format numbers too: at run time imports must point one way
    from sparingly.lab.claims.evidence import Check

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MINUS = "−"


def number(x: float, digits: int = 4) -> str:
    """Format one number: whole ones in full, others with `digits` digits; ∞ for infinity.

    >>> [number(x) for x in (1234, 0.0123, 1.2e-7, -12345.678, float("inf"))]
    ['1,234', '0.0123', '1.2e-07', '−12,346', '∞']
    """
    if math.isnan(x):
        return "undefined"
    if math.isinf(x):
        return "∞" if x > 0 else MINUS + "∞"
    size = abs(x)
    if size < 1e12 and x == int(x):
        text = f"{int(x):,}"
    elif 10 ** (digits - 1) <= size < 1e12:
        text = f"{x:,.{max(digits - 1 - math.floor(math.log10(size)), 0)}f}"
    else:
        text = f"{x:.{digits}g}" if 1e-4 <= size < 1e12 else f"{x:.{max(digits - 2, 2)}g}"
    return text.replace("-", MINUS) if "e" not in text else text


def value_and_interval(check: Check) -> tuple[str, str]:
    """Format what was measured and its interval, "" for an exact comparison, to two digits of the interval's width.

    More digits are used if a number would otherwise look equal to the bar although it is not, or look like zero.

    >>> from sparingly.lab.claims import Check
    >>> value_and_interval(Check("", 0.51234, "≤", 0.53, 0.50111, 0.52345, "shown", "t"))
    ('0.512', '[0.501, 0.523]')
    >>> value_and_interval(Check("", 0.000123, "≤", 1.0, 0.0, 0.34, "shown", "t"))
    ('0.00012', '[0.00, 0.34]')
    """
    width = check.high - check.low
    if width <= 1e-9 * abs(check.value) or math.isnan(width):  # all runs were equal, up to rounding
        texts = [number(check.value, digits) for digits in (4, 7, 10, 17)]
        bars = [number(check.bar, digits) for digits in (4, 7, 10, 17)]
        differs = [text for text, bar in zip(texts, bars, strict=True) if text != bar or check.value == check.bar]
        return (differs or texts[-1:])[0], ""
    ends = (check.value, check.low, check.high)
    places = _places(ends, check.bar)
    value, low, high = (_fixed(x, places) for x in ends)
    if check.value != 0.0 and round(check.value, places) == 0.0:
        value = number(check.value, 2)
    return value, f"[{low}, {high}]"


def bar(check: Check) -> str:
    """Format the bar of a check, with more digits if what was measured comes close to it."""
    close = abs(check.value - check.bar) < 1e-3 * abs(check.bar) or check.bar in (check.low, check.high)
    return number(check.bar, 9 if close else 4)


def _places(ends: Sequence[float], bar: float) -> int:
    """How many decimals show the width of an interval, and on which side of the bar its ends lie."""
    finite = [x for x in ends if math.isfinite(x)]
    width = (max(finite) - min(finite) if finite else 0.0) or max((abs(x) for x in finite), default=1.0) or 1.0
    places = max(1 - math.floor(math.log10(width)), 0)
    near = [abs(x - bar) for x in finite if x != bar and math.isfinite(bar)]
    while near and places < 15 and round(min(near), places) == 0.0:
        places += 1
    return places


def _fixed(x: float, places: int) -> str:
    if not math.isfinite(x):
        return number(x)
    if places > 6 and abs(x) < 1e-3:  # a row of zeros says less than the exponent
        return number(x, 4)
    return f"{x:,.{places}f}".replace("-", MINUS)


def tick(x: float, powers_from: float = 1e5) -> str:
    """Format a number on an axis; large and tiny ones as powers of ten.

    >>> [tick(x) for x in (0.0, 0.01, 2000.0, 1e5, 3e-7)]
    ['0', '0.01', '2,000', '10⁵', '3·10⁻⁷']
    """
    if x == 0.0 or 1e-3 <= abs(x) < powers_from * (1 - 1e-9):
        return f"{x:,.10g}".replace("-", MINUS)
    exponent = math.floor(math.log10(abs(x)) + 1e-9)
    factor = f"{x / 10.0**exponent:.4g}".replace("-", MINUS)
    power = "10" + str(exponent).translate(SUPERSCRIPTS)
    return {"1": power, MINUS + "1": MINUS + power}.get(factor, f"{factor}·{power}")


def parameter(value: Any) -> str:
    """Format the value of a parameter, whatever its type, in one line.

    >>> parameter({"rounds": [1000, 10_000], "rule": "Greedy", "exact": True})
    'rounds 1,000, 10,000; rule Greedy; exact yes'
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value, 6)
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {parameter(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(
            f"({parameter(item)})" if isinstance(item, list | tuple) else parameter(item) for item in value
        )
    return str(value)
