"""The layout of a memory: one array of 64-bit words, and a tuple with names for its parts.

One array makes a call from Python cheap, and a copy. A setting lists the parts of its memory as the fields of a tuple,
in the order in which they lie there, each with the type of its elements and its shape:

    counts: Annotated[Any, COUNTS, "contexts * arms"]

The names in a shape are sizes in the head of the memory. From this list `layout` writes the functions that find the
parts and that make a fresh memory, so that no place is counted by hand. A field that is a tuple itself has parts of its
own, one after the other.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sparingly.numba_support import define, inlined

Words = NDArray[np.int64]
M = TypeVar("M")

REST = "rest"  # the shape of the last part: all the words that are left, as many as it is given


class Over(NamedTuple):
    """The part takes no room: it shows the words from another part on once more."""

    part: str


class Shared(NamedTuple):
    """The part is the one right before it once more, if the head says so."""

    part: str
    flag: str  # a field of the head


def layout(
    memory: type[M], heads: tuple[str, ...] = ("head",), **sizes: str
) -> tuple[Callable[[Words, Any], M], Callable[..., Words]]:
    """`look(words, own)`, which names the parts of a memory, and `blank(head)`, which makes one of zeros.

    `heads` are the parts that have the sizes; `sizes` names what is computed from them.
    """
    writer = _Writer(heads, sizes)
    made = writer.tuple_of(memory, "")
    look = ["floats = words.view(np.float64)", *writer.lines(), f"return {made}"]
    blank = [line for line in writer.lines() if ".view(" not in line]
    blank += [f"words = np.zeros({writer.end}, dtype=np.int64)"]
    blank += [f"words[{begin}:{end}] = {head}.view(np.int64)" for head, (begin, end) in writer.heads.items()]
    blank += ["return words"]
    written = {"look(words, own)": look, f"blank({', '.join(heads)})": blank}
    look_at, make = (
        define(
            signature.partition("(")[0], "\n    ".join([f"def {signature}:", *lines]), writer.names, memory.__module__
        )
        for signature, lines in written.items()
    )
    return inlined(look_at), make


class _Writer:
    """Goes through the parts in order, and writes down where each of them begins and ends."""

    def __init__(self, heads: tuple[str, ...], sizes: dict[str, str]) -> None:
        self.sizes, self.heads = dict(sizes), dict.fromkeys(heads, ("", ""))
        self.names: dict[str, Any] = {"np": np}  # what the text refers to
        self.end = "0"  # of the parts so far
        self.starts: dict[str, str] = {}
        self.last: list[str] = []  # what lies behind all the others
        self.written: dict[str, str] = {}

    def lines(self) -> list[str]:
        """Where the parts begin and end, and the sizes that this takes."""
        return [f"{name} = {value}" for name, value in (self.written | dict.fromkeys(self.last, self.end)).items()]

    def tuple_of(self, kind: Any, prefix: str) -> str:
        """The text that makes a tuple of parts."""
        hints = get_type_hints(kind, include_extras=True)
        return f"{self.name(kind)}({', '.join(self.part(prefix + name, hint) for name, hint in hints.items())})"

    def name(self, thing: Any) -> str:
        """What the text calls a type."""
        new = thing.__name__ if isinstance(thing, type) else f"kind_{len(self.names)}"
        name = next((name for name, known in self.names.items() if known is thing), new)
        self.names[name] = thing
        return name

    def part(self, name: str, hint: Any) -> str:
        """The text that makes one part; a field that says nothing of itself is an argument."""
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        over = marks.pop(0) if marks and isinstance(marks[0], Over | Shared) else None
        if isinstance(over, Shared):
            self.written[name] = f"{self.starts[over.part]} if {self.size(over.flag)} else {self.end}"
            self.end = name
        self.starts[name] = self.end
        if hasattr(kind, "_fields"):
            return self.tuple_of(kind, f"{name}_")
        if not marks:
            return name
        return self.array(name, np.dtype(marks[0]), [str(size) for size in marks[1:]], over)

    def array(self, name: str, kind: Any, shape: list[str], over: Any) -> str:
        """The text that makes an array, and where it ends."""
        if shape == [REST]:
            begin, end = f"{over.part if isinstance(over, Over) else name}_begin", ""
            self.last += [] if begin in self.last else [begin]
        else:
            count = " * ".join([str(kind.itemsize // 8), *(f"({self.size(size)})" for size in shape)])
            begin, end = self.starts[over.part if isinstance(over, Over) else name], f"{name}_end"
            self.written[end] = f"{begin} + {count}"
            self.end = self.end if isinstance(over, Over) else end
        words = f"{'floats' if kind == np.float64 else 'words'}[{begin}:{end}]"
        viewed = words if kind in (np.int64, np.float64) else f"{words}.view({self.name(kind)})"
        if name in self.heads:
            self.heads[name], self.written[name] = (begin, end), viewed
            self.sizes |= {field: f"{name}[0].{field}" for field in kind.names if field not in self.sizes}
            return name
        return viewed if len(shape) == 1 else f"{viewed}.reshape(({', '.join(shape)}))"

    def size(self, expression: str) -> str:
        """An expression, for which the sizes that it names are written down."""
        for node in ast.walk(ast.parse(expression, mode="eval")):
            if isinstance(node, ast.Name) and node.id in self.sizes and node.id not in self.written:
                self.written[node.id] = self.size(self.sizes[node.id])
        return expression
