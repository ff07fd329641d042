"""The C program that the engine is measured against, compiled when needed into a temporary folder."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def ucb1(rounds: int, means: list[float], keys: NDArray[np.uint64]) -> Callable[[], NDArray[np.int64]]:
    """A call that runs ucb1.c from the start and returns the plays of each arm."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("a C compiler (cc or gcc) is needed for this benchmark")
    source = Path(__file__).parent / "ucb1.c"
    target = Path(tempfile.mkdtemp(prefix="sparingly-bench-")) / "ucb1.so"
    subprocess.run([compiler, "-O3", "-shared", "-fPIC", str(source), "-o", str(target), "-lm"], check=True)
    library = ctypes.CDLL(str(target))
    array = np.array(means)

    def call() -> NDArray[np.int64]:
        plays, totals = np.zeros(array.size, dtype=np.int64), np.zeros(array.size)
        pointers = [ctypes.c_void_p(part.ctypes.data) for part in (array, keys, plays, totals)]
        library.ucb1(ctypes.c_int64(rounds), ctypes.c_int64(array.size), *pointers)
        return plays

    return call
