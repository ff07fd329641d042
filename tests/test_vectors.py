"""Products of vectors: compiled to vector instructions, and the same to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from sparingly.numba_support import compiled
from sparingly.vectors import dot, dot_at


@compiled
def compiled_dot_at(x, start, y):
    """The product as compiled code computes it."""
    return dot_at(x, start, y)


@compiled
def compiled_dot(x, y):
    """The whole product as compiled code computes it."""
    return dot(x, y)


@pytest.mark.parametrize("size", [*range(1, 14), 50, 127])
def test_compiled_products_are_the_same_to_the_last_bit(size):
    random = np.random.default_rng(size)
    for _ in range(50):
        start = int(random.integers(0, 9))
        x, y = random.normal(size=size + start + 3) * 10.0 ** random.integers(-8, 8), random.normal(size=size)
        assert compiled_dot_at(x, start, y) == dot_at(x, start, y)
        assert compiled_dot(x[start : start + size], y) == dot_at(x, start, y)
        assert dot_at(x, start, y) == pytest.approx(x[start : start + size] @ y, rel=1e-9, abs=1e-9 * np.abs(x).max())


def test_the_strands_are_summed_as_written():
    """Four strands, then the rest onto the first: an order that rounding can tell from any other."""
    x = np.array([1.0, 1e16, -1e16, 1.0, 1.0, 1.0, 1.0, 1e-3, 0.25])
    a, b, c, e = (x[i] + x[i + 4] for i in range(4))
    assert compiled_dot_at(x, 0, np.ones(9)) == ((a + 0.25) + b) + (c + e)
