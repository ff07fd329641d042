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
) -> tuple[float, float]:
    """Q of a row from above and, if `both`, from below, given V of the next step."""
    mean, share = model.numbers[row, MEAN], model.numbers[row, SHARE]
    bonus = model.numbers[row, ROOT] * root + model.numbers[row, LINEAR] * log_term
    ahead = share * expected(model, row, upper)
    if not both:
        return (mean + bonus) + ahead, 0.0
    # b^p of ULCVI: the part with 1/n is in LINEAR, the variance of V and the gap between the bounds are added here
    behind = share * expected(model, row, lower)
    variance = share * scattered(model, row, upper, ahead)
    bonus += scale * (math.sqrt(2.0 * variance * log_term * share) + (ahead - behind) / (16.0 * model.sizes[HORIZON]))
    return (mean + bonus) + ahead, (mean - bonus) + behind


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
        upper, lower, policy = values.upper[h + 1], values.lower[h + 1], values.policy[h]
        for j in range(model.many[stage]):
            s = model.listed[stage, j]
            row = (stage * states + s) * actions
            best, tied = policy[s] if kind == GIVEN else 0, 1
            high, low = look_ahead(model, row + best, log_term, root, scale, kind == BOTH, upper, lower)
            if kind != GIVEN:
                for a in range(1, actions):
                    value, under = look_ahead(model, row + a, log_term, root, scale, kind == BOTH, upper, lower)
                    if value > high:
                        best, high, low, tied = a, value, under, 1
                    elif random_ties and value == high:
                        tied += 1
                        if uniform(random) * tied < 1.0:  # each of the tied stays with probability 1/tied
                            best, low = a, under
                if policy[s] != best:
                    policy[s] = best
                    changed = max(changed, h)
            values.upper[h, s] = min(high, float(horizon - h))
            if kind == BOTH:
                values.lower[h, s] = max(low, 0.0)
    return changed
