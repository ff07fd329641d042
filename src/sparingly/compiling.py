"""How sparingly compiles: three decorators, and one notice when the first use has to wait for it.

With NUMBA_DISABLE_JIT=1 the same source runs as plain Python: the readable reference.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., object])
CACHE_DIR = str(getattr(numba.config, "CACHE_DIR", ""))  # NUMBA_CACHE_DIR
DISABLED = bool(getattr(numba.config, "DISABLE_JIT", 0))  # NUMBA_DISABLE_JIT=1


def compiled(function: F) -> F:
    """Compile a function of scalars and arrays, for Python and for other compiled code (into which it is merged)."""
    return _compile(function, forceinline=True)


def inlined(function: F) -> F:
    """The same for compiled callers only: without a way in from Python it compiles in half the time."""
    return _compile(function, forceinline=True, no_cpython_wrapper=True)


def apart(function: F) -> F:
    """For compiled callers only, and called by them rather than merged: for what is large or rare."""
    return _compile(function, no_cpython_wrapper=True)


def _compile(function: F, **options: bool) -> F:
    if DISABLED:
        # Random bits are made by multiplication modulo 2**64; plain Python would warn of each wrap-around.
        return np.errstate(over="ignore")(function)
    # Results are kept on disk, and the GIL is released. None of these functions allocates (views are not
    # allocations), so numba need not count references to arrays. Left on, the counting costs ten times as much as
    # the mathematics: 164 against 17 ns a round were measured.
    jit: Any = numba.njit  # its published types leave out the options `_nrt` and `no_cfunc_wrapper`
    options |= {"_nrt": False, "no_cfunc_wrapper": True}
    try:
        return cast(F, jit(cache=True, nogil=True, error_model="numpy", **options)(function))
    except RuntimeError:  # no folder for the results can be written to: each process compiles for itself
        _unkept.append(function.__qualname__)
        return cast(F, jit(nogil=True, error_model="numpy", **options)(function))


_unkept: list[str] = []  # functions whose compiled code cannot be kept


UNCOMPILED = ("lab", "serve", "cli.py")  # parts of the package without compiled functions


def forget_stale_code() -> None:
    """Throw away compiled code if any source file of the package has changed since it was made.

    numba looks only at the file of the function itself, not at those of the functions compiled into it: after an
    edit of ucb1.py, arms.py would go on with the old formula. Where nothing is compiled, an edit changes nothing.
    """
    package = Path(__file__).parent
    sources = sorted(p for p in package.rglob("*.py") if p.relative_to(package).parts[0] not in UNCOMPILED)
    stamps = [f"{p.relative_to(package)} {p.stat().st_mtime_ns} {p.stat().st_size}" for p in sources]
    digest = hashlib.sha256("\n".join([numba.__version__, *stamps]).encode()).hexdigest()
    for folder in {source.parent for source in sources}:
        cache = folder / "__pycache__"
        if CACHE_DIR:  # there, numba names a folder's cache after the folder and a hash of its path
            path = hashlib.sha1(str(folder).encode(), usedforsecurity=False).hexdigest()
            cache = Path(CACHE_DIR) / f"{folder.name}_{path}"
        note = cache / "compiled-from.txt"
        with contextlib.suppress(OSError):  # a package that cannot be written to is not being edited either
            if not note.exists() or note.read_text() != digest:
                for file in cache.glob("*.nb[ic]"):
                    file.unlink(missing_ok=True)
                cache.mkdir(parents=True, exist_ok=True)
                note.write_text(digest)


forget_stale_code()


_noticed: set[str] = set()  # only the first call in a process can have to wait


@contextmanager
def notice(what: str, patience: float = 1.0) -> Iterator[None]:
    """Say on stderr that the compiler is at work, if the first call of this kind is not back in a moment."""
    if what in _noticed:
        yield
        return
    _noticed.add(what)

    often = "in every process; with NUMBA_CACHE_DIR set to a folder that can be written to, once" if _unkept else "once"

    def speak() -> None:
        print(f"sparingly: compiling {what}, {often} for this machine (some seconds) ...", file=sys.stderr, flush=True)

    timer = threading.Timer(patience, speak)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
