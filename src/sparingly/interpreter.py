"""Nobody waits for a compiler: a compiled function runs as plain Python until its machine code is ready.

The same source does both, with the same results (tests compare them). What is called from Python for the first time is
compiled, or loaded from disk, by a thread in the background.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import os
import queue
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from sparingly.numba_support import DISABLED

Function = Callable[..., Any]

PATIENCE = 1.0  # seconds that a process waits at its end before it says for what

# SPARINGLY_COMPILE=first makes the first call wait for the compiler, as simulations do.
BEHIND = not DISABLED and os.environ.get("SPARINGLY_COMPILE", "behind") != "first"


def as_python(function: Any) -> Function:
    """A compiled function as plain Python, and all that it calls too; with the compiler off it is that already."""
    if DISABLED:
        return cast(Function, function)
    if function not in _plain:
        plain = function.py_func
        world = _world_of(plain.__globals__)
        _plain[function] = types.FunctionType(
            plain.__code__, world, plain.__name__, plain.__defaults__, plain.__closure__
        )
    return _plain[function]


_plain: dict[Any, Function] = {}
_worlds: dict[int, dict[str, Any]] = {}  # globals of modules, by the identity of the dict


def _world_of(names: dict[str, Any]) -> dict[str, Any]:
    """The globals of a function, those that are compiled functions in plain Python."""
    if id(names) not in _worlds:
        world = _worlds[id(names)] = dict(names)
        for name, value in names.items():
            if hasattr(value, "py_func"):
                world[name] = as_python(value)
    return _worlds[id(names)]


class Soon:
    """A compiled function that keeps nobody waiting. Its first call has it compiled in the background."""

    def __init__(self, function: Any) -> None:
        self.function, self.ready, self.begun = function, False, False
        self.places: list[tuple[weakref.ref[Any], str]] = []  # attributes that hold it, and shall hold the function

    def serve(self, owner: Any, name: str) -> None:
        """Be an attribute of an object, until the compiled function takes the place."""
        setattr(owner, name, self.function if self.ready else self)
        if not self.ready:
            self.places.append((weakref.ref(owner), name))

    def __call__(self, *arguments: Any) -> Any:
        if self.ready:
            return self.function(*arguments)
        if not self.begun:
            self.begun = True
            _compile_behind(self, copy.deepcopy(arguments))
        with np.errstate(all="ignore"):  # compiled code does not warn of infinities either
            return as_python(self.function)(*arguments)

    def make_ready(self, arguments: tuple[Any, ...]) -> None:
        """Compile for arguments of these types, by a call that leaves no trace."""
        self.function(*arguments)
        self.ready = True
        for owner, name in self.places:
            if (one := owner()) is not None and getattr(one, name, None) is self:
                setattr(one, name, self.function)
        self.places.clear()


def soon(function: Any) -> Any:
    """A compiled function for callers that must not wait."""
    if not BEHIND:
        return function
    if function not in _made:
        _made[function] = Soon(function)
    return _made[function]


def made() -> list[Soon]:
    """All functions that were requested in this way."""
    return list(_made.values())


_made: dict[Any, Soon] = {}


_waiting: queue.SimpleQueue[tuple[Soon, tuple[Any, ...]]] = queue.SimpleQueue()
_ending = threading.Event()
_worker: threading.Thread | None = None
_starting = threading.Lock()


def _compile_behind(one: Soon, arguments: tuple[Any, ...]) -> None:
    global _worker
    _waiting.put((one, arguments))
    with _starting:
        if _worker is None or not _worker.is_alive():  # a child of a fork has none
            _worker = threading.Thread(target=_work, name="sparingly compiler", daemon=True)
            _worker.start()


def _work() -> None:
    """Compile what is waiting, one after the other."""
    while not _ending.is_set():
        one, arguments = _waiting.get()
        try:
            if not _ending.is_set():
                one.make_ready(arguments)
        except Exception as error:
            name = one.function.py_func.__qualname__
            print(f"sparingly: {name} cannot be compiled and goes on as plain Python, slower: {error}", file=sys.stderr)


@atexit.register
def _finish() -> None:
    """A process ends when the function that is being compiled is done, so that the next one finds it on disk.

    If that takes a while, a person at a terminal is told, and need not wait.
    """
    _ending.set()
    if _worker is None or not _worker.is_alive():
        return
    _waiting.put((Soon(None), ()))
    try:
        _worker.join(timeout=PATIENCE)
        if _worker.is_alive() and sys.stderr is not None and sys.stderr.isatty():
            print(
                "sparingly: keeping compiled code for the next time (some seconds; Ctrl-C skips it) ...",
                file=sys.stderr,
            )
        _worker.join(timeout=60.0)
    except KeyboardInterrupt:  # nothing else is left to do, and a compiler cannot be stopped in the middle
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(130)
