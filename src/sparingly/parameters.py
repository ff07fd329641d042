"""The numbers among the parameters of a dataclass, for compiled code: a tuple with the same names.

A function such as `level(learner, rounds)` reads `learner.scale`. In compiled code `learner` is a tuple of numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections import namedtuple
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

NUMBERS = {"int": int, "float": float, int: int, float: float}  # annotations of parameters that are numbers


Part = TypeVar("Part", bound="Parametric")


class _ParameterType:
    """`UCB1.Parameters`: the tuple type of a class, made when it is first asked for, also when it is unpickled."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        return _parameter_type(owner)


class Parametric:
    """A dataclass whose parameters compiled code may see."""

    Parameters = _ParameterType()  # the tuple type with the names of all parameters that are numbers

    role: ClassVar[str] = "rule"  # or "learner": what it is in a pair of both
    summary: ClassVar[str] = ""  # one sentence, for tables and for the HTTP contract
    derived: ClassVar[tuple[str, ...]] = ()  # properties that compiled code sees as well: what follows from parameters

    @property
    def parameters(self) -> Any:
        """The parameters that are numbers, as a tuple with names."""
        own: Any = type(self)
        declaring = _declaring(own)
        values = (convert(getattr(self, name)) for name, convert in numeric_fields(declaring).items())
        return _parameter_type(declaring)(*values)

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The same as an array, as memories keep them."""
        return np.array(self.parameters, dtype=np.float64)


def describe(cls: Any, parameters: str) -> None:
    """Add to the docstring of a class, before its examples, what the parameters mean that it shares with others."""
    text, mark, examples = inspect.cleandoc(cls.__doc__ or "").partition(">>> ")
    cls.__doc__ = "\n\n".join(part for part in (text.rstrip(), parameters, mark + examples) if part)


def enrolled(base: type[Part], names: dict[str, Any]) -> tuple[type[Part], ...]:
    """The registry of a module: all classes of a kind that it imports, in order."""
    return tuple(
        part for part in names.values() if isinstance(part, type) and issubclass(part, base) and part is not base
    )


@functools.cache
def numeric_fields(cls: Any) -> dict[str, type]:
    """The parameters that are numbers, by name: int or float."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    named: dict[str, type] = {f.name: NUMBERS[f.type] for f in fields if f.type in NUMBERS}
    return named | dict.fromkeys(getattr(cls, "derived", ()), float)


@functools.cache
def _parameter_type(cls: Any) -> Any:
    new_type: Any = namedtuple  # mypy wants literals for its names
    made = new_type("Parameters", list(numeric_fields(cls)))
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.Parameters"  # so that it can be pickled
    return made


@functools.cache
def _declaring(cls: Any) -> Any:
    """The class that declared the functions: a subclass may add parameters that they do not know."""
    functions = getattr(cls, "functions", None)
    same = [base for base in cls.__mro__ if getattr(base, "functions", None) is functions]
    return same[-1] if same and dataclasses.is_dataclass(same[-1]) else cls


def constructor(cls: type, array: str) -> str:
    """The arguments that make the tuple from an array of floats, as source: `array[0], int(array[1])`."""
    places = enumerate(numeric_fields(cls).values())
    return ", ".join(f"int({array}[{i}])" if kind is int else f"{array}[{i}]" for i, kind in places)
