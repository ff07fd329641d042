"""Backward induction on tabular MDPs: for UCBVI, ULCVI, the optimal policy and the value of a policy alike.

A model is true or estimated. Each row of it, a cell (h, s, a), has numbers that make up Q without a look ahead,
and its successors with their weights: pairs (state, weight) while they are few, one weight per state when many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.compiling import inlined
from sparingly.randomness import Stream, uniform
from sparingly.vectors import dot_at

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
U = np.uint64  # as an index: unsigned ones need no check for being negative, which takes as long as the sum itself
ONE, TWO = U(1), U(2)

# A row is eight numbers, as long as a line of the cache. Q = MEAN + ROOT·sqrt(L) + LINEAR·L + SHARE·Σ weight·V.
MEAN, ROOT, LINEAR, SHARE = 0, 1, 2, 3
START, COUNT = 4, 5  # where its successors begin in the pool, and how many there are: whole numbers
AHEAD, SINCE = 6, 7  # its memo: SHARE·Σ weight·V as it was last computed, and the drift of V at that time
ROW = 8
HORIZON, STATES, ACTIONS, STAGES, PASSES = 0, 1, 2, 3, 4  # places among the sizes
EVEN = 1e-9  # far above what rounding does to a bound: rises are of the order 1/t, sums of them of the order H
BEST, BOTH, GIVEN = 0, 1, 2  # maximise; maximise and bound from below too (ULCVI); follow the policy as it is


class Model(NamedTuple):
    """A tabular MDP for H steps, S states, A actions. Row (h·S + s)·A + a; with one stage, all steps share its rows."""

    sizes: Integers  # (5,) H, S, A; how many stages have rows of their own, H or 1; 1 if actions may be passed over
    numbers: Floats  # (rows, 8) the rows as floats,
    where: Integers  # (rows, 8) and the same as whole numbers, for START and COUNT
    next: Integers  # the pool as whole numbers,
    weight: Floats  # and the same pool as floats
    listed: Integers  # (H, S) the states to go through at each step, or (1, S) if they are always the same
    many: Integers  # (H,) or (1,) how many of them
    drift: Floats  # (H + 1,) by how much V of each step can have risen in all plans so far: largest rises, added up


class Values(NamedTuple):
    """What the induction computes; step H is the end, where everything is worth 0."""

    upper: Floats  # (H + 1, S)
    lower: Floats  # (H + 1, S) for BOTH
    policy: Integers  # (H, S)


def few(states: int) -> int:
    """How many successors are listed as pairs; a row with more has one weight for each state."""
    return states // 4 if states >= 16 else 0


@inlined
def expected(model: Model, row: int, V: Floats) -> float:
    """Σ weight·V over the successors of a row."""
    k, count = model.where[U(row), START], model.where[U(row), COUNT]
    if count == V.size:
        return dot_at(model.weight, k, V)
    total, i, end = 0.0, U(k), U(k + 2 * count)
    while i < end:
        total += model.weight[i + ONE] * V[U(model.next[i])]
        i += TWO
    return total


@inlined
def scattered(model: Model, row: int, V: Floats, center: float) -> float:
    """Σ weight·(V − center)² over the successors of a row."""
    k, count = model.where[U(row), START], model.where[U(row), COUNT]
    total = 0.0
    if count == V.size:
        for s in range(count):
            away = V[U(s)] - center
            total += model.weight[U(k + s)] * away * away
        return total
    i, end = U(k), U(k + 2 * count)
    while i < end:
        away = V[U(model.next[i])] - center
        total += model.weight[i + ONE] * away * away
        i += TWO
    return total


@inlined
def at_once(model: Model, row: int, log_term: float, root: float) -> tuple[float, float]:
    """What Q of a row is made of without a look ahead: the mean reward, and the bonus that does not depend on V."""
    bonus = model.numbers[U(row), ROOT] * root + model.numbers[U(row), LINEAR] * log_term
    return model.numbers[U(row), MEAN], bonus


@inlined
def between(
    model: Model, row: int, log_term: float, root: float, scale: float, upper: Floats, lower: Floats
) -> tuple[float, float]:
    """Q of a row from above and from below, with the rest of ULCVI's b^p: the variance of V, the gap of its bounds."""
    mean, bonus = at_once(model, row, log_term, root)
    share = model.numbers[U(row), SHARE]
    ahead, behind = share * expected(model, row, upper), share * expected(model, row, lower)
    variance = share * scattered(model, row, upper, ahead)
    bonus += scale * (math.sqrt(2.0 * variance * log_term * share) + (ahead - behind) / (16.0 * model.sizes[HORIZON]))
    return (mean + bonus) + ahead, (mean - bonus) + behind


@inlined
def best_action(
    model: Model, row: int, actions: int, first: int, log_term: float, root: float, upper: Floats, drift: float,
    random_ties: bool, random: Stream,
) -> tuple[int, float]:  # fmt: skip
    """The action with the largest Q, and Q. The winner of the last plan is looked at first.

    An action that cannot win, by the memo of its last look and the drift of V since, is passed over: that is exact.
    """
    mean, bonus = at_once(model, row + first, log_term, root)
    best, tied, high = first, 1, (mean + bonus) + look_ahead(model, row + first, upper, drift)
    passes = model.sizes[PASSES] == 1
    for a in range(actions):
        if a == first:
            continue
        mean, bonus = at_once(model, row + a, log_term, root)
        most = model.numbers[U(row + a), AHEAD] + (drift - model.numbers[U(row + a), SINCE])
        if passes and (mean + bonus) + most < high - EVEN:
            continue
        value = (mean + bonus) + look_ahead(model, row + a, upper, drift)
        if value > high:
            best, high, tied = a, value, 1
        elif value == high:
            tied += 1
            if uniform(random) * tied < 1.0 if random_ties else a < best:  # each of the tied stays with 1/tied
                best = a
    return best, high


@inlined
def look_ahead(model: Model, row: int, upper: Floats, drift: float) -> float:
    """The expected V of the next step, which goes into the memo too."""
    ahead = model.numbers[U(row), SHARE] * expected(model, row, upper)
    model.numbers[U(row), AHEAD] = ahead
    model.numbers[U(row), SINCE] = drift
    return float(ahead)


@inlined
def best_between(
    model: Model, row: int, actions: int, log_term: float, root: float, scale: float, upper: Floats, lower: Floats,
    random_ties: bool, random: Stream,
) -> tuple[int, float, float]:  # fmt: skip
    """The action with the largest upper Q, and its Q from above and below."""
    best, tied, high, low = 0, 1, -math.inf, 0.0
    for a in range(actions):
        value, under = between(model, row + a, log_term, root, scale, upper, lower)
        if value > high:
            best, high, low, tied = a, value, under, 1
        elif random_ties and value == high:
            tied += 1
            if uniform(random) * tied < 1.0:
                best, low = a, under
    return best, high, low


@inlined
def induce(
    model: Model, values: Values, kind: int, log_term: float, scale: float, top: int, random_ties: bool, random: Stream
) -> int:
    """Compute V and the policy from step `top` (0 … H−1) down to 0; the last step with a new action, −1 if none.

    V_h(s) is cut off at H − h + 1 for h = 1 … H (E5). Ties go to the lowest action, or to a random one. Merged into its
    callers, which name `kind`: the compiler then leaves out the other kinds.
    """
    horizon, states, actions = model.sizes[HORIZON], model.sizes[STATES], model.sizes[ACTIONS]
    root, changed = math.sqrt(log_term), -1
    for h in range(top, -1, -1):
        stage, lists, raised = h if model.sizes[STAGES] > 1 else 0, h if model.many.size > 1 else 0, 0.0
        upper, lower, policy = values.upper[U(h + 1)], values.lower[U(h + 1)], values.policy[U(h)]
        here, drift, order = values.upper[U(h)], model.drift[U(h + 1)], model.listed[U(lists)]
        for j in range(model.many[lists]):
            s = order[U(j)]
            row, before, low = (stage * states + s) * actions, policy[U(s)], 0.0
            best = before
            if kind == GIVEN:
                high = model.numbers[U(row + best), MEAN] + expected(model, row + best, upper)
            elif kind == BEST:
                best, high = best_action(model, row, actions, best, log_term, root, upper, drift, random_ties, random)
            else:
                best, high, low = best_between(
                    model, row, actions, log_term, root, scale, upper, lower, random_ties, random
                )
            if best != before:
                policy[U(s)] = best
                changed = max(changed, h)
            high = min(high, float(horizon - h))
            if kind == BEST:
                raised = max(raised, high - here[U(s)])
            here[U(s)] = high
            if kind == BOTH:
                values.lower[U(h), U(s)] = max(low, 0.0)
        if kind == BEST:
            model.drift[U(h)] += raised
    return changed
