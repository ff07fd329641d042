"""The compiled simulation of linear rewards: one loop for features that change, one for a fixed set.

With a fixed set, the estimate and the width of every action are kept up to date: an ask costs O(A·d) for them, and a
round without one O(A). They are made afresh whenever the inverse is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.compiling import apart, compiled, inlined
from sparingly.engine.plan import Record
from sparingly.families.arms import ANSWERABLE
from sparingly.families.linear import (
    CLOCK,
    EVEN,
    RANDOM_TIES,
    RULE,
    SCALE,
    SLOTS,
    TIE,
    Memory,
    Words,
    above,
    bar_of,
    keep_policy,
    look,
    past_action,
    play_round,
    price_of,
    radius,
    take_answer,
)  # fmt: skip
from sparingly.learners.oful import STALE
from sparingly.ledger import GRANTED, SPENT, can_pay, charge
from sparingly.problems.linear import loss, noisy, worth
from sparingly.randomness import uniform
from sparingly.rules import GREEDY
from sparingly.vectors import dot, multiply

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class World(NamedTuple):
    """The truth of one run."""

    theta: Floats  # (d,)
    noise: float
    key: np.uint64


class FixedSet(NamedTuple):
    """What is kept of a fixed set of actions, (A,) each: ⟨x, θ̂⟩, ‖x‖² in V⁻¹, what the action loses; and (1,) the
    action of Greedy's past policy, −1 if that has to be found."""

    mean: Floats
    square: Floats
    gap: Floats
    past: Integers


@compiled
def run_block(
    words: Words, world: World, record: Record, mark: int, features: Floats, fixed: FixedSet, tape: Integers,
    first: int, losses: Floats,
) -> int:  # fmt: skip
    """Play the rounds of a block; `mark` is the next place in the record, and so is the result.

    `losses` holds the regret so far and the number of asks. A fixed set is given once, and `fixed` is then not empty.
    """
    m = look(words)
    for j in range(tape.size):
        m.account[GRANTED] = tape[j]
        X = features[min(j, features.shape[0] - 1)]
        if fixed.mean.size > 0:
            a, asked = fixed_round(m, world, X, fixed, int(losses[1]))
            losses[0] += fixed.gap[a]
        else:
            a, ending, _, _ = play_round(m, X)
            asked = ending == ANSWERABLE
            if asked:
                take_answer(m, X[a], noisy(worth(X, a, world.theta), world.noise, world.key, int(losses[1])))
            losses[0] += loss(X, a, world.theta)
        losses[1] += asked
        record.plays[a] += 1
        if mark < record.rounds.size and first + j == record.rounds[mark]:
            record.regret[mark] = losses[0]
            record.asked[mark] = int(losses[1])
            record.spent[mark] = m.account[SPENT]
            record.budget[mark] = m.account[GRANTED]
            mark += 1
    return mark


@apart
def measure(m: Memory, X: Floats, fixed: FixedSet) -> None:
    """Estimate and width of every action, from the start."""
    for a in range(X.shape[0]):
        fixed.mean[a] = dot(X[a], m.theta)
        multiply(m.known.inverse, X[a], m.y)
        fixed.square[a] = max(dot(X[a], m.y), 0.0)


@inlined
def fixed_round(m: Memory, world: World, X: Floats, fixed: FixedSet, asks: int) -> tuple[int, bool]:
    """`play_round` on a fixed set: the same choice and the same rule, on numbers that are kept up to date."""
    bonus = m.knobs[SCALE] * radius(m)
    a, top, tied, even = 0, -math.inf, 1, 0.0
    for b in range(X.shape[0]):
        value = fixed.mean[b] + bonus * math.sqrt(fixed.square[b])
        if value > top + even:
            a, top, tied, even = b, value, 1, EVEN * (1.0 + abs(value))
        elif value >= top - even and m.head[TIE] == RANDOM_TIES:
            tied += 1
            if uniform(m.random) * tied < 1.0:
                a = b
    price = price_of(m, a)
    if m.head[RULE] == GREEDY:
        if not can_pay(m.account, price):
            if fixed.past[0] < 0 or m.head[SLOTS] > 1 or m.head[TIE] == RANDOM_TIES:
                fixed.past[0] = past_action(m, X, bonus)
            return int(fixed.past[0]), False
        keep_policy(m, bonus)
        fixed.past[0] = -1
    m.head[CLOCK] += 1
    if m.head[RULE] != GREEDY and not above(m, math.sqrt(fixed.square[a]), bar_of(m, price), price):
        return a, False
    if not charge(m.account, price):
        return a, False
    shrink = 1.0 / (1.0 + fixed.square[a])
    take_answer(m, X[a], noisy(worth(X, a, world.theta), world.noise, world.key, asks))
    if m.known.numbers[STALE] == 0.0:
        measure(m, X, fixed)
        return a, True
    for b in range(X.shape[0]):
        overlap = dot(X[b], m.y)  # V⁻¹x from before the update is still there
        fixed.square[b] = max(fixed.square[b] - shrink * overlap * overlap, 0.0)
        fixed.mean[b] = dot(X[b], m.theta)
    return a, True


@compiled
def begin(words: Words, X: Floats, fixed: FixedSet, theta: Floats) -> None:
    """Measure a fixed set for the first time."""
    measure(look(words), X, fixed)
    for a in range(X.shape[0]):
        fixed.gap[a] = loss(X, a, theta)
