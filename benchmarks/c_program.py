"""The C programs that the engine is measured against, compiled when needed into a temporary folder."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@cache
def library(name: str) -> ctypes.CDLL:
    """NAME.c beside this file, compiled with -O3."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("a C compiler (cc or gcc) is needed for this benchmark")
    source = Path(__file__).parent / f"{name}.c"
    target = Path(tempfile.mkdtemp(prefix="sparingly-bench-")) / f"{name}.so"
    subprocess.run([compiler, "-O3", "-shared", "-fPIC", str(source), "-o", str(target), "-lm"], check=True)
    return ctypes.CDLL(str(target))


def call(function: Any, *arguments: int | float | np.uint64 | NDArray[Any]) -> None:
    """Call a C function with whole numbers, doubles and arrays."""
    converted: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.uint64):
            converted.append(ctypes.c_uint64(int(argument)))
        elif isinstance(argument, np.ndarray):
            converted.append(ctypes.c_void_p(argument.ctypes.data))
        else:
            converted.append(ctypes.c_double(argument) if isinstance(argument, float) else ctypes.c_int64(argument))
    function(*converted)


def ucb1(rounds: int, means: list[float], keys: NDArray[np.uint64]) -> Callable[[], NDArray[np.int64]]:
    """A call that runs ucb1.c from the start and returns the plays of each arm."""
    array = np.array(means)

    def run() -> NDArray[np.int64]:
        plays = np.zeros(array.size, dtype=np.int64)
        call(library("ucb1").ucb1, rounds, array.size, array, keys, plays, np.zeros(array.size))
        return plays

    return run


def oful(
    rounds: int, features: Floats, theta: Floats, key: np.uint64, noise: float, delta: float
) -> Callable[[], NDArray[np.int64]]:
    """A call that runs oful.c from the start; features are (rounds, A, d), or (A, d) for a fixed set."""
    arms, d = features.shape[-2:]

    def run() -> NDArray[np.int64]:
        plays = np.zeros(arms, dtype=np.int64)
        rooms = [np.eye(d), np.zeros(d), np.zeros(d), np.zeros(d), plays]
        common = (rounds, arms, d, features, theta, key, noise, delta, *rooms)
        if features.ndim == 3:
            call(library("oful").changing, *common)
        else:
            call(library("oful").fixed, *common, np.zeros(arms), np.zeros(arms))
        return plays

    return run


def ucbvi(
    problem: Any, learner: Any, start: int, episodes: int, keys: NDArray[np.uint64]
) -> Callable[[], tuple[NDArray[np.int64], float]]:
    """A call that runs ucbvi.c from the start and returns the plays of each cell and the regret.

    The problem is the same at every step, its rewards are Bernoulli and depend on state and action only.
    """
    (H, S, A), P = problem.shape, problem.transitions()[0].reshape(-1, problem.states)
    many = (P > 0.0).sum(axis=1).astype(np.int32)
    dense = bool(many.max() > S // 4)
    room = S if dense else int(many.max())
    chances, ladder, after = np.zeros((S * A, room)), np.full((S * A, room), 2.0), np.zeros((S * A, room), np.int32)
    for row, count in enumerate(many):
        states = np.arange(S) if dense else np.flatnonzero(P[row])
        places = slice(0, S if dense else count)
        chances[row, places], after[row, places] = P[row, states], states
        ladder[row, places] = np.cumsum(P[row, states])
        ladder[row, np.flatnonzero(chances[row])[-1] :] = 2.0  # the last that is possible takes what rounding leaves
    means, best = problem.means[0].ravel(), float(problem.optimal_values[0, start])

    def run() -> tuple[NDArray[np.int64], float]:
        plays, regret = np.zeros(problem.cells, dtype=np.int64), np.zeros(1)
        end = (means, keys[0], keys[1], start, best, learner.delta, learner.scale, plays, regret)
        if dense:
            call(library("ucbvi").dense, episodes, H, S, A, chances, ladder, *end)
        else:
            call(library("ucbvi").sparse, episodes, H, S, A, room, chances, ladder, after, many, *end)
        return plays, float(regret[0])

    return run
