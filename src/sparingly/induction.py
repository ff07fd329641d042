"""Backward induction on tabular MDPs: for UCBVI, ULCVI, the optimal policy and the value of a policy alike.

A model is true or estimated. Each row of it, a cell (h, s, a), has numbers that make up Q without a look ahead,
and its successors with their weights: pairs (state, weight) while they are few, one weight per state when many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.compiling import apart, inlined
from sparingly.randomness import Stream, uniform
from sparingly.vectors import dot

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

MEAN, ROOT, LINEAR, SHARE = 0, 1, 2, 3  # a row's numbers: Q = MEAN + ROOT·sqrt(L) + LINEAR·L + SHARE·Σ weight·V
HORIZON, STATES, ACTIONS, STAGES = 0, 1, 2, 3  # places among the sizes
START, COUNT = 0, 1  # where a row's successors begin in the pool, and how many there are
AHEAD, SINCE = 0, 1  # a row's memo: SHARE·Σ weight·V as it was last computed, and the drift of V at that time
EVEN = 1e-9  # far above what rounding can do to a bound
BEST, BOTH, GIVEN = 0, 1, 2  # maximise; maximise and bound from below too (ULCVI); follow the policy as it is


class Model(NamedTuple):
    """A tabular MDP for H steps, S states, A actions. Row (h·S + s)·A + a; with one stage, all steps share its rows."""

    sizes: Integers  # (4,) H, S, A, and the number of stages with rows of their own: H, or 1
    numbers: Floats  # (rows, 4) MEAN, ROOT, LINEAR, SHARE
    where: Integers  # (rows, 2) START, COUNT
    next: Integers  # the pool as whole numbers,
    weight: Floats  # and the same pool as floats
    listed: Integers  # (stages, S) the states to go through
    many: Integers  # (stages,) how many of them
    memo: Floats  # (rows, 2) AHEAD, SINCE; empty if nothing is to be passed over
    drift: Floats  # (H + 1,) how far V of each step has moved in all plans so far, added up


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
    k, count = model.where[row, START], model.where[row, COUNT]
    if count == V.size:
        return dot(model.weight[k : k + count], V)
    total = 0.0
    for i in range(k, k + 2 * count, 2):
        total += model.weight[i + 1] * V[model.next[i]]
    return total


@inlined
def scattered(model: Model, row: int, V: Floats, center: float) -> float:
    """Σ weight·(V − center)² over the successors of a row."""
    k, count = model.where[row, START], model.where[row, COUNT]
    total = 0.0
    if count == V.size:
        for s in range(count):
            total += model.weight[k + s] * (V[s] - center) * (V[s] - center)
        return total
    for i in range(k, k + 2 * count, 2):
        away = V[model.next[i]] - center
        total += model.weight[i + 1] * away * away
    return total


@inlined
def look_ahead(
    model: Model, row: int, log_term: float, root: float, scale: float, both: bool, upper: Floats, lower: Floats
) -> tuple[float, float, float]:
    """Q of a row from above and, if `both`, from below, given V of the next step; and the expected V."""
    mean, share = model.numbers[row, MEAN], model.numbers[row, SHARE]
    bonus = model.numbers[row, ROOT] * root + model.numbers[row, LINEAR] * log_term
    ahead = share * expected(model, row, upper)
    if not both:
        return (mean + bonus) + ahead, 0.0, ahead
    # b^p of ULCVI: the part with 1/n is in LINEAR, the variance of V and the gap between the bounds are added here
    behind = share * expected(model, row, lower)
    variance = share * scattered(model, row, upper, ahead)
    bonus += scale * (math.sqrt(2.0 * variance * log_term * share) + (ahead - behind) / (16.0 * model.sizes[HORIZON]))
    return (mean + bonus) + ahead, (mean - bonus) + behind, ahead


@inlined
def may_win(model: Model, row: int, log_term: float, root: float, drift: float, high: float) -> bool:
    """Whether Q of a row can reach `high`, given that no V of the next step has moved by more than its drift."""
    bonus = model.numbers[row, ROOT] * root + model.numbers[row, LINEAR] * log_term
    most = model.memo[row, AHEAD] + (drift - model.memo[row, SINCE])
    return not (model.numbers[row, MEAN] + bonus) + most < high - EVEN


@inlined
def best_action(
    model: Model, row: int, first: int, kind: int, log_term: float, scale: float, upper: Floats, lower: Floats,
    drift: float, random_ties: bool, random: Stream,
) -> tuple[int, float, float]:  # fmt: skip
    """The action with the largest Q, and Q from above and below. `first`, the last winner, is looked at first.

    An action that cannot win by the memo of its last look is passed over: that is exact, for V moves little
    from one plan to the next.
    """
    root, both, keeps = math.sqrt(log_term), kind == BOTH, kind == BEST and model.memo.size > 0
    best, tied, high, low = first, 1, -math.inf, 0.0
    for i in range(model.sizes[ACTIONS]):
        a = first if i == 0 else (i - 1 if i <= first else i)
        if keeps and i > 0 and not may_win(model, row + a, log_term, root, drift, high):
            continue
        value, under, ahead = look_ahead(model, row + a, log_term, root, scale, both, upper, lower)
        if keeps:
            model.memo[row + a, AHEAD], model.memo[row + a, SINCE] = ahead, drift
        if value > high:
            best, high, low, tied = a, value, under, 1
        elif value == high:
            tied += 1
            if uniform(random) * tied < 1.0 if random_ties else a < best:  # each of the tied stays with 1/tied
                best, low = a, under
    return best, high, low


@apart
def induce(
    model: Model, values: Values, kind: int, log_term: float, scale: float, top: int, random_ties: bool, random: Stream
) -> int:
    """Compute V and the policy from step `top` (0 … H−1) down to 0; the last step with a new action, −1 if none.

    V_h(s) is cut off at H − h + 1 for h = 1 … H (E5). Ties go to the lowest action, or to a random one.
    """
    horizon, states, actions = model.sizes[HORIZON], model.sizes[STATES], model.sizes[ACTIONS]
    root, changed = math.sqrt(log_term), -1
    for h in range(top, -1, -1):
        stage = h if model.sizes[STAGES] > 1 else 0
        upper, lower, policy, moved = values.upper[h + 1], values.lower[h + 1], values.policy[h], 0.0
        for j in range(model.many[stage]):
            s = model.listed[stage, j]
            row = (stage * states + s) * actions
            if kind == GIVEN:
                high, low, _ = look_ahead(model, row + policy[s], log_term, root, scale, False, upper, lower)
            else:
                best, high, low = best_action(
                    model, row, policy[s], kind, log_term, scale, upper, lower, model.drift[h + 1], random_ties, random
                )
                if policy[s] != best:
                    policy[s] = best
                    changed = max(changed, h)
            high = min(high, float(horizon - h))
            moved = max(moved, abs(high - values.upper[h, s]))
            values.upper[h, s] = high
            if kind == BOTH:
                values.lower[h, s] = max(low, 0.0)
        model.drift[h] += moved
    return changed
