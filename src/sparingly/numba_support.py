"""How sparingly compiles: three decorators, and one notice when the first use has to wait for it.

With NUMBA_DISABLE_JIT=1 the same source runs as plain Python: the readable reference.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import linecache
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.core.caching
import numba.core.codegen
import numba.core.compiler
import numpy as np

F = TypeVar("F", bound=Callable[..., object])
FunctionCache: Any = numba.core.caching.FunctionCache
Compiler: Any = numba.core.compiler.Compiler
CodeLibrary: Any = numba.core.codegen.JITCodeLibrary
TUPLES: Any = numba.types.BaseTuple
FUNCTIONS: Any = numba.types.Dispatcher
PACKAGE = __name__.partition(".")[0]
CACHE_DIR = str(getattr(numba.config, "CACHE_DIR", ""))  # NUMBA_CACHE_DIR
DISABLED = bool(getattr(numba.config, "DISABLE_JIT", 0))  # NUMBA_DISABLE_JIT=1


def compiled(function: F) -> F:
    """Compile a function of scalars and arrays, for Python and for other compiled code (into which it is merged)."""
    return _compile(function, forceinline=True)


def inlined(function: F) -> F:
    """The same for compiled callers only: it has no way in from Python, and no machine code of its own."""
    return _compile(function, keep=False, part=True, forceinline=True)


def apart(function: F) -> F:
    """For compiled callers only, and called by them rather than merged: for what is large or rare."""
    return _compile(function, keep=False, part=True)


def modular(function: F) -> F:
    """As `compiled`, for arithmetic modulo 2**64: in plain Python, numpy would warn of each wrap-around."""
    return np.errstate(over="ignore")(function) if DISABLED else compiled(function)


def define(name: str, source: str, names: dict[str, Any], of: str) -> Callable[..., Any]:
    """A function from its source, which a debugger can show."""
    file = f"<{name} of {of}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)  # noqa: S102  the package makes the text, of names of its own
    function: Callable[..., Any] = names[name]
    return function


@functools.cache
def from_python(function: F) -> F:
    """A compiled function with a way in from Python, if it was made without one.

    It has another name, for numba would take what is kept of the one for the other.
    """
    plain: Any = getattr(function, "py_func", function)
    if DISABLED:
        return cast(F, plain)
    twin = types.FunctionType(plain.__code__, plain.__globals__, plain.__name__, None, plain.__closure__)
    twin.__module__, twin.__qualname__ = plain.__module__, f"{plain.__qualname__}_from_python"
    return cast(F, compiled(twin))


@functools.cache
def anew(function: F) -> F:
    """A compiled function once more, for parts of a user's own: it takes any of them, and lasts for this process."""
    return _compile(getattr(function, "py_func", function), keep=False)


def record(**fields: type) -> np.dtype[Any]:
    """The type of an array whose elements have named fields of eight bytes, in compiled code and plain Python alike.

    Field names must not be those of numpy's methods, such as `mean` or `sum`.
    """
    clash = [name for name in fields if hasattr(np.record, name)]
    assert not clash, f"numpy has methods of these names: {clash}"
    return np.dtype((np.record, np.dtype([(name, np.dtype(kind)) for name, kind in fields.items()], align=True)))


def _compile(function: F, keep: bool = True, part: bool = False, **options: Any) -> F:
    if DISABLED:
        return function
    # Results are kept on disk, but for parts, and the GIL is released. None of these functions allocates (views are not
    # allocations), so numba need not count references to arrays. Left on, the counting costs ten times as much as
    # the mathematics: 164 against 17 ns a round were measured.
    options |= {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
    options |= {"no_cpython_wrapper": part, "pipeline_class": ForParts if part else Steadily}
    jit: Any = numba.njit  # its published types leave out some of these options
    # What is kept of a function names the types of its arguments. Ours are forgotten when a source changes; a user's
    # could not even be read any more once a class has another name, so they are compiled in every process.
    if not keep or not function.__module__.startswith(f"{PACKAGE}."):
        return cast(F, _for_any_number(jit(**options)(function)))
    try:
        made = jit(cache=True, **options)(function)
        made._cache = KeptCode(function)
    except RuntimeError:  # no folder for the results can be written to: each process compiles for itself
        _unkept.append(function.__qualname__)
        made = jit(**options)(function)
    return cast(F, _for_any_number(made))


def _for_any_number(made: Any) -> Any:
    """The function, compiled once for the callers that pass `0` and those that pass `i`, not for each literal anew."""
    typed: Any = made.get_call_template
    plain: Any = numba.types.unliteral

    def get_call_template(arguments: Any, named: Any) -> Any:
        return typed([plain(kind) for kind in arguments], {name: plain(kind) for name, kind in named.items()})

    made.get_call_template = get_call_template
    return made


class Steadily(Compiler):  # type: ignore[misc]  # numba's own modules have no types
    """numba's compiler, with no search for garbage meanwhile: that took a tenth of the time."""

    def compile_extra(self, function: Any) -> Any:
        if not gc.isenabled():  # by a caller that is being compiled, say
            return super().compile_extra(function)
        gc.disable()
        try:
            return super().compile_extra(function)
        finally:
            gc.enable()


class ForParts(Steadily):
    """For functions that only compiled callers take over."""

    def define_pipelines(self) -> Any:
        self.state.library = PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


class PartLibrary(CodeLibrary):  # type: ignore[misc]  # numba's own modules have no types
    """Code as it was translated: whoever takes it over optimizes it and makes machine code of it, with its own.

    numba would do so for each function by itself as well, and never use the result: a fifth of the time to compile.
    Parts are not kept on disk: a caller that is kept has all of them in it.
    """

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: only a way in from Python has a use for the objects that numba would keep here."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class KeptCode(FunctionCache):  # type: ignore[misc]  # numba's own modules have no types
    """What numba keeps of a function on disk, but for code that was made for parts of a user's own.

    The index of what is kept names the types of all arguments. It could not be read any more once a user's class has
    gone or has another name. An index that cannot be read is begun anew.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if names_own_parts(sig):
            return None
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # whatever a damaged file makes of itself: it is compiled once more
            tell_once("damaged", f"compiled code in {self.cache_path} cannot be read ({error!r}): compiled again")
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if names_own_parts(sig):
            return
        try:
            super().save_overload(sig, data)
        except OSError as error:
            told = f"compiled code cannot be kept in {self.cache_path} ({error.strerror}): compiled in every process"
            tell_once("unwritable", f"{told}; NUMBA_CACHE_DIR names another folder")


_told: set[str] = set()


def tell_once(kind: str, message: str) -> None:
    """One line on stderr, the first time that something of this kind happens in a process."""
    if kind not in _told:
        _told.add(kind)
        print(f"sparingly: {message}", file=sys.stderr, flush=True)


def names_own_parts(kind: Any) -> bool:
    """Whether a type, or one inside of it, is a function or a tuple of a user's own."""
    if isinstance(kind, (tuple, TUPLES)):
        known = getattr(kind, "instance_class", KeptCode).__module__.startswith(f"{PACKAGE}.")
        return not known or any(names_own_parts(part) for part in kind)
    return isinstance(kind, FUNCTIONS)


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
            if not note.exists() or note.read_text(errors="replace") != digest:
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
        print(
            f"sparingly: compiling {what}, {often} for this installation (some seconds) ...",
            file=sys.stderr,
            flush=True,
        )

    timer = threading.Timer(patience, speak)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
