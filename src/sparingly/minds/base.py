"""What every mind has in common: the methods that an Agent needs, and how a saved part is put back.

A mind checks what comes from outside, calls the compiled round of its family, and can name and restore all that it
remembers. A *ticket* is what it needs to learn from an answer later: the cell, or the features.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from sparingly.errors import InvalidInput, UnreadableFile
from sparingly.ledger import Account
from sparingly.rules import ADAPTIVE
from sparingly.rules import built_in as our_rule

Outcome = tuple[int, bool, float, float, Any]  # action, ask, width, threshold, ticket


class Mind(Protocol):
    """What an Agent needs of a family."""

    account: Account

    def attach(self) -> None: ...

    @property
    def decisions(self) -> int: ...

    def check(self, context: Any) -> Any: ...
    def decide(self, context: Any) -> Outcome: ...
    def count_ask(self, context: Any, action: int) -> Any: ...
    def take_back(self, ticket: Any) -> None: ...
    def learn(self, ticket: Any, reward: float) -> None: ...
    def check_reward(self, reward: object) -> float: ...
    def parts(self) -> dict[str, Any]: ...
    def restore(self, parts: dict[str, Any]) -> None: ...
    def check_sums(self, tickets: list[Any]) -> None: ...


def fill(target: Any, values: Any) -> None:
    """Copy a restored array into its place, if it fits."""
    array = np.asarray(values)
    if array.shape != target.shape or (array.dtype != target.dtype and array.size):
        raise UnreadableFile(f"an array of shape {array.shape} stands where {target.shape} belongs")
    target[...] = array


def refuse_for_episodes_only(rule: Any) -> None:
    """AdaptiveMatching looks at visits and variances that only episodic learners keep."""
    if our_rule(rule) and rule.code == ADAPTIVE:
        raise InvalidInput("AdaptiveMatching is for UCBVI and ULCVI; use ExactMatching()")
