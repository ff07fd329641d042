"""Products of vectors that become vector instructions; compiled and plain Python round them alike."""

from __future__ import annotations

from typing import Any

import numba.core.cgutils
import numba.extending
import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from sparingly.numba_support import inlined

Floats = NDArray[np.float64]

# numba's own modules have no types, nor have the decorators below: hence Any, and mypy is told to let them pass.
cgutils: Any = numba.core.cgutils
extending: Any = numba.extending


def dot_at(x: Floats, start: int, y: Floats) -> float:
    """⟨x[start : start + n], y⟩ for y of size n, summed in four strands. This is what runs in plain Python."""
    a = b = c = e = 0.0
    whole = y.size - y.size % 4
    for i in range(0, whole, 4):
        a += x[start + i] * y[i]
        b += x[start + i + 1] * y[i + 1]
        c += x[start + i + 2] * y[i + 2]
        e += x[start + i + 3] * y[i + 3]
    for i in range(whole, y.size):
        a += x[start + i] * y[i]
    return float((a + b) + (c + e))


@extending.type_callable(dot_at)  # type: ignore[untyped-decorator]
def type_dot_at(context: Any) -> Any:
    """dot_at in compiled code: of contiguous arrays of floats, to a float."""

    def result(x: Any, start: Any, y: Any) -> Any:
        fits = all(isinstance(v, types.Array) and v.layout == "C" and v.dtype == types.float64 for v in (x, y))
        return types.float64 if fits and isinstance(start, types.Integer) else None

    return result


@extending.lower_builtin(dot_at, types.Array, types.Integer, types.Array)  # type: ignore[untyped-decorator]
def compile_dot_at(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """How `dot_at` is compiled: the four strands are one vector. Left to itself, numba makes them scalar.

    The same sums in the same order, so the same result to the last bit: test_vectors.py.
    """
    x, y = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2))
    start = context.cast(builder, arguments[1], signature.args[1], types.int64)
    word, strands = ir.IntType(64), ir.VectorType(ir.DoubleType(), 4)
    first, size = builder.gep(x.data, [start]), builder.extract_value(y.shape, 0)
    whole = builder.and_(size, word(-4))
    total = cgutils.alloca_once_value(builder, ir.Constant(strands, [0.0] * 4))
    with cgutils.for_range_slice(builder, word(0), whole, word(4)) as (i, _):
        four = [
            builder.load(builder.bitcast(builder.gep(p, [i]), strands.as_pointer()), align=8) for p in (first, y.data)
        ]
        builder.store(builder.fadd(builder.load(total), builder.fmul(*four)), total)
    a, b, c, e = (builder.extract_element(builder.load(total), ir.IntType(32)(i)) for i in range(4))
    rest = cgutils.alloca_once_value(builder, a)
    with cgutils.for_range_slice(builder, whole, size, word(1)) as (i, _):
        one = [builder.load(builder.gep(p, [i])) for p in (first, y.data)]
        builder.store(builder.fadd(builder.load(rest), builder.fmul(*one)), rest)
    return builder.fadd(builder.fadd(builder.load(rest), b), builder.fadd(c, e))


@inlined
def dot(x: Floats, y: Floats) -> float:
    """⟨x, y⟩."""
    return dot_at(x, 0, y)


@inlined
def multiply(matrix: Floats, x: Floats, result: Floats) -> None:
    """result = matrix · x for a symmetric matrix, four rows at a time: the inner loop becomes vector instructions."""
    d = x.size
    whole = d - d % 4
    for j in range(d):
        result[j] = 0.0
    for i in range(0, whole, 4):
        a, b, c, e = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(d):
            result[j] += (matrix[i, j] * a + matrix[i + 1, j] * b) + (matrix[i + 2, j] * c + matrix[i + 3, j] * e)
    for i in range(whole, d):
        for j in range(d):
            result[j] += matrix[i, j] * x[i]
