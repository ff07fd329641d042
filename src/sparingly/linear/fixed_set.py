"""The simulator's loop for linear rewards, for features that change and for a fixed set.

With a fixed set, the estimate and the width of every action are kept up to date: an ask costs O(A·d) for them, and a
round without one O(A). They are made afresh whenever the inverse is.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.ledger import charge
from sparingly.linear.memory import Memory, Words, look
from sparingly.linear.round import (
    EVEN,
    best_estimate,
    keep_policy,
    past_action,
    play_round,
    price_of,
    question_about,
    radius,
    take_answer,
    wants,
)
from sparingly.numba_support import apart, compiled, inlined
from sparingly.problems.linear import TrueLinear, answer_of, loss
from sparingly.randomness import uniform
from sparingly.simulation.record import Record, note
from sparingly.tabular.round import ANSWERABLE
from sparingly.vectors import dot, multiply

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class FixedSet(NamedTuple):
    """What is kept of a fixed set of actions, (A,) each: ⟨x, θ̂⟩, ‖x‖² in V⁻¹, what the action loses; and (1,) the
    action of Greedy's past policy, −1 if that has to be found."""

    mean: Floats
    square: Floats
    gap: Floats
    past: Integers


@compiled
def run_block(
    words: Words, own: Any, truth: TrueLinear, record: Record, so_far: Any, features: Floats, fixed: FixedSet,
    tape: Integers, first: int,
) -> None:  # fmt: skip
    """Play the rounds of a block. A fixed set is given once, and `fixed` is then not empty."""
    m, run = look(words, own), so_far[0]
    for j in range(tape.size):
        m.account[0].granted = tape[j]
        X = features[min(j, features.shape[0] - 1)]
        if fixed.mean.size > 0:
            a, asked = fixed_round(m, truth, X, fixed, run.asked)
            run.regret += fixed.gap[a]
        else:
            a, ending = play_round(m, X)
            asked = ending == ANSWERABLE
            if asked:
                take_answer(m, X[a], answer_of(X, a, truth, run.asked))
            run.regret += loss(X, a, truth)
        run.asked += asked
        record.plays[a] += 1
        note(record, so_far, first + j, m.account)


@apart
def measure(m: Memory, X: Floats, fixed: FixedSet) -> None:
    """Estimate and width of every action, from the start."""
    for a in range(X.shape[0]):
        fixed.mean[a] = dot(X[a], m.theta)
        multiply(m.known.inverse, X[a], m.y)
        fixed.square[a] = max(dot(X[a], m.y), 0.0)


@inlined
def fixed_round(m: Memory, truth: TrueLinear, X: Floats, fixed: FixedSet, asks: int) -> tuple[int, bool]:
    """`play_round` on a fixed set: the same choice and the same rule, on numbers that are kept up to date."""
    head, reach = m.head[0], radius(m)
    bonus = head.scale * reach
    a, top, tied, even = 0, -math.inf, 1, 0.0
    for b in range(X.shape[0]):
        value = fixed.mean[b] + bonus * math.sqrt(fixed.square[b])
        if value > top + even:
            a, top, tied, even = b, value, 1, EVEN * (1.0 + abs(value))
        elif value >= top - even and head.random_ties:
            tied += 1
            if uniform(m.random) * tied < 1.0:
                a = b
    price = price_of(m, a)
    wanted = wants(m, question_about(m, price, math.sqrt(fixed.square[a]), reach))
    if head.slots > 0:  # Greedy
        if not wanted:
            if fixed.past[0] < 0 or head.slots > 1 or head.random_ties:
                fixed.past[0] = past_action(m, X, bonus)
            return int(fixed.past[0]), False
        keep_policy(m, bonus)
        fixed.past[0] = -1
    head.clock += 1
    if not wanted or not charge(m.account, price):
        return best_estimate(m, X, a) if head.exploits else a, False
    shrink = 1.0 / (1.0 + fixed.square[a])
    take_answer(m, X[a], answer_of(X, a, truth, asks))
    if m.known.sizes[0].stale == 0.0:
        measure(m, X, fixed)
        return a, True
    for b in range(X.shape[0]):
        overlap = dot(X[b], m.y)  # V⁻¹x from before the update is still there
        fixed.square[b] = max(fixed.square[b] - shrink * overlap * overlap, 0.0)
        fixed.mean[b] = dot(X[b], m.theta)
    return a, True


@compiled
def begin(words: Words, X: Floats, fixed: FixedSet, truth: TrueLinear) -> None:
    """Measure a fixed set for the first time."""
    measure(look(words, None), X, fixed)
    for a in range(X.shape[0]):
        fixed.gap[a] = loss(X, a, truth)
