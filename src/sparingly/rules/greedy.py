"""Greedy: the greedy reduction (Algorithm 1) around any optimistic learner, and its reservoir of past policies.

While the budget can pay, the learner plays and every round is asked about. In the other rounds the learner does not
live; a policy of its past acts, drawn uniformly. Only the law of that draw enters the expected regret, so instead of
all past policies a reservoir of a few is kept. A *policy* is whatever the learner acts by, as a block of words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.ledger import UNLIMITED
from sparingly.numba_support import apart, inlined
from sparingly.protocol import Question
from sparingly.randomness import Stream, uniform
from sparingly.reasons import ASKED, DENIED
from sparingly.rules.rule import Rule
from sparingly.validation import whole

Words = NDArray[np.int64]


class Reservoir(NamedTuple):
    """P past policies of K words each; without the reduction P = 0. K is what a memory calls `kept`."""

    seen: Annotated[Words, np.int64, 1]  # (1,) how many policies there were so far
    since: Annotated[Words, np.int64, "slots"]  # (P,) which of them each slot holds, from 1
    policies: Annotated[Words, np.int64, "slots", "kept"]  # (P, K)


@inlined
def offer(reservoir: Reservoir, random: Stream) -> bool:
    """A new policy, the l-th, takes each slot with probability 1/l (Algorithm 1, lines 7 and 11): if it takes any."""
    reservoir.seen[0] += 1
    taken = False
    for slot in range(reservoir.since.size):
        if uniform(random) * reservoir.seen[0] < 1.0:
            reservoir.since[slot] = reservoir.seen[0]
            taken = True
    return taken


@apart
def store(reservoir: Reservoir, policy: Words) -> None:
    """Copy the newest policy into the slots that it takes."""
    for slot in range(reservoir.since.size):
        if reservoir.since[slot] == reservoir.seen[0]:
            for i in range(policy.size):
                reservoir.policies[slot, i] = policy[i]


@inlined
def draw_slot(reservoir: Reservoir, random: Stream) -> int:
    """The slot of a uniformly drawn past policy (Algorithm 1, line 12); −1 before there is one."""
    if reservoir.seen[0] == 0:
        return -1
    slots = reservoir.since.size
    return int(uniform(random) * slots) if slots > 1 else 0


@inlined
def asks(rule: Greedy, question: Question) -> bool:
    """Whenever the budget can pay (Algorithm 1, line 6)."""
    units = question.units
    return bool(units.granted >= UNLIMITED or units.spent + units.cost <= units.granted)


@inlined
def reason(rule: Greedy, question: Question) -> int:
    """It asks just if the budget can pay."""
    return ASKED if asks(rule, question) else DENIED


@inlined
def bar(rule: Greedy, question: Question) -> float:
    """No width is too small, as long as the budget can pay."""
    return 0.0 if asks(rule, question) else math.inf


@dataclass(frozen=True)
class Greedy(
    Rule, tabular=asks, linear=asks, episodic=asks, limit=UNLIMITED, bar=bar, reason=reason, reason_for_row=reason
):
    """The greedy reduction (Algorithm 1): ask whenever the budget allows, and learn in those rounds only.

    In the other rounds act with a past policy, drawn uniformly. Only the law of that draw enters the expected
    regret, so instead of all past policies a reservoir of `policies` of them is kept.
    """

    summary = "Ask whenever the budget allows."

    reduction = True
    explore: ClassVar[str] = "always"  # type: ignore[misc]  # no parameter: Algorithm 1 says what to play unasked

    policies: int = 1

    @classmethod
    def examples(cls) -> tuple[Greedy, ...]:
        return cls(), cls(policies=3)

    def __post_init__(self) -> None:
        whole(self.policies, "the number of past policies that Greedy keeps", most=1024)
