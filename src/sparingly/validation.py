"""Checks of numbers that come from outside, with one wording for all of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparingly.errors import InvalidInput


def number(
    value: Any,
    name: str,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: bool = False,
    infinite: bool = False,
) -> float:
    """A number in [least, most], as a float; `above` excludes `least`, `infinite` admits infinity."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.bool_):
        try:
            result = float(value)
        except OverflowError:
            result = math.nan
        inside = result > least if above else result >= least
        if inside and result <= most and (infinite or math.isfinite(result)):
            return result
    low = "" if least == -math.inf else f" {'>' if above else '≥'} {least:g}"
    high = "" if most == math.inf else f"{' and' if low else ''} ≤ {most:g}"
    raise InvalidInput(f"{name} must be a {'' if infinite else 'finite '}number{low}{high}, not {shown(value)}")


def whole(value: Any, name: str, *, least: int = 1, most: int = 2**53) -> int:
    """A whole number in [least, most]."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_) and least <= value <= most:
        return int(value)
    limit = f" and ≤ {most:,}" if most < 2**53 or (isinstance(value, int) and value > most) else ""
    raise InvalidInput(f"{name} must be a whole number ≥ {least}{limit}, not {shown(value)}")


def choice(value: Any, name: str, options: Any) -> str:
    """One of a few names."""
    if isinstance(value, str) and value in options:
        return value
    named = " or ".join(repr(option) for option in options)
    raise InvalidInput(f"{name} must be {named}, not {shown(value)}")


def table(values: Any, name: str, shape: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """An array of numbers, as a copy; the caller checks its shape."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} must be numbers of shape {shape}: {error}") from None


def growing(values: Any, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """B(1), …, B(T) along the last axis, (…, T), as a copy: numbers ≥ 0 that never fall; infinity is no limit."""
    array = table(values, name, "(…, T)")
    if array.ndim == 0 or array.size == 0:
        raise InvalidInput(f"{name} must have shape (…, T), a number for each of T ≥ 1 rounds, not {array.shape}")
    if not (array >= 0.0).all():  # NaN fails too
        raise InvalidInput(f"{name} must be numbers ≥ 0, not {shown(float(array[~(array >= 0.0)][0]))}")
    falls = array[..., 1:] < array[..., :-1]
    if falls.any():
        t = int(np.argwhere(falls)[0][-1]) + 2
        raise InvalidInput(f"{name} only grows, but falls from round {t - 1} to round {t}")
    return array


def probability(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    if not 0.0 < number(value, name) < 1.0:
        raise InvalidInput(f"{name} must lie in (0, 1), not {shown(value)}")
    return float(value)


def indices(values: Any, name: str, shape: tuple[int, ...], most: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An array of whole numbers in 0 … most, as a copy."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        array = np.zeros(0)
    if array.shape != shape or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(f"{name} must be whole numbers of shape {shape}, not {shown(values)}")
    if array.size and (array.min() < 0 or array.max() > most):
        raise InvalidInput(f"{name} must lie in 0 … {most}, not {shown(values)}")
    return array.astype(np.int64)


def shown(value: Any) -> str:
    """A value as it is shown in a message, cut if it is long."""
    text = repr(value) if not (isinstance(value, int) and abs(value) > 10**30) else "a number too large"
    return text if len(text) <= 80 else text[:77] + "…"
