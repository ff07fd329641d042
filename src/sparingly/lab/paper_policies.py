"""Learners and rules as the paper has them: of equal bounds the first wins, and exploring does not wait for an ask.

The others (PaperMatching, Greedy) explore like this in any case.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from sparingly import learners, rules

T = TypeVar("T")


def _fixed(made: type[T], **parameters: Any) -> Callable[..., T]:
    """Makes the same, with other defaults."""

    @functools.wraps(made, updated=())
    def make(*args: Any, **given: Any) -> T:
        return made(*args, **{**parameters, **given})

    return make


UCB1 = _fixed(learners.UCB1, ties="first")
MOSS = _fixed(learners.MOSS, ties="first")
OFUL = _fixed(learners.OFUL, ties="first")
UCBVI = _fixed(learners.UCBVI, ties="first")
ULCVI = _fixed(learners.ULCVI, ties="first")
BalancedMatching = _fixed(rules.BalancedMatching, explore="always")
ExactMatching = _fixed(rules.ExactMatching, explore="always")
Matching = _fixed(rules.Matching, explore="always")
Always = _fixed(rules.Always, explore="always")
Never = _fixed(rules.Never, explore="always")
