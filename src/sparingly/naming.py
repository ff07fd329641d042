"""The names of actions and contexts and the scale of rewards that people use, and the numbers that learners use."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sparingly.errors import InvalidInput
from sparingly.validation import number, shown

Name = str | int


class Names:
    """Names of actions or contexts, in order. If no name is a number, the number of each works as well.

    >>> sizes = Names(["small", "large"], "action")
    >>> sizes[1], sizes.index("large"), sizes.index(0)
    ('large', 1, 0)
    """

    def __init__(self, names: Iterable[Name], what: str) -> None:
        if isinstance(names, str):
            raise InvalidInput(f"{what}s must be a list of names, not the text {names!r}; write [{names!r}]")
        try:
            self.names: list[Name] = [name.item() if isinstance(name, np.generic) else name for name in names]
        except TypeError:
            raise InvalidInput(f"{what}s must be a list of names, not {shown(names)}") from None
        for name in self.names:
            if not isinstance(name, str | int) or isinstance(name, bool) or name == "":
                raise InvalidInput(f"the name of a {what} is a text or a whole number, not {name!r}")
        self.what, self.places = what, {name: place for place, name in enumerate(self.names)}
        if not self.names or len(self.places) < len(self.names):
            raise InvalidInput(f"{what}s must be different names, at least one; not {shown(self.names)}")
        self.numbers_too = not any(isinstance(name, int) for name in self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, place: int) -> Name:
        return self.names[place]

    def index(self, value: Any) -> int:
        """The number that belongs to a name."""
        if isinstance(value, str | int | np.integer) and not isinstance(value, bool):
            name = value if isinstance(value, str) else int(value)
            if name in self.places:
                return self.places[name]
            if self.numbers_too and isinstance(name, int) and 0 <= name < len(self.names):
                return name
        raise InvalidInput(f"{self.what} must be {self}, not {shown(value)}")

    def __str__(self) -> str:
        few = [repr(name) for name in self.names[:5]]
        listed = ", ".join([*few, "…"]) if len(self.names) > 5 else " or ".join(few)
        return f"{listed} (or a number in 0 … {len(self.names) - 1})" if self.numbers_too else listed


class Scale:
    """The scale of rewards: `low` becomes 0 and `high` becomes 1, the scale of learners.

    >>> stars = Scale(1, 5)
    >>> stars.to_unit(4), stars.from_unit(0.75)
    (0.75, 4.0)
    """

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = number(low, "the lowest reward"), number(high, "the highest reward")
        if not self.low < self.high:
            raise InvalidInput(f"rewards must be (low, high) with low < high, not ({low!r}, {high!r})")
        self.span = self.high - self.low

    def to_unit(self, reward: Any) -> float:
        """A reward on this scale, or an error, as a number in [0, 1]."""
        value = number(reward, "a reward", least=self.low, most=self.high)
        return min(max((value - self.low) / self.span, 0.0), 1.0)

    def from_unit(self, value: Any) -> Any:
        """A value in [0, 1] on this scale; arrays as well."""
        return self.low + self.span * value


def as_number(reward: Any) -> Any:
    """A reward as a number: True and False are 1 and 0, and an array of one number is that number."""
    if isinstance(reward, np.ndarray) and reward.ndim == 0:
        reward = reward.item()
    return float(reward) if isinstance(reward, bool | np.bool_ | Decimal | Fraction) else reward
