"""Value iteration on tabular MDPs, backwards: for UCBVI, ULCVI, the optimal policy and the value of a policy alike.

A model is true or estimated. Each row of it, a cell (h, s, a), has numbers that make up Q without a look ahead,
and its successors with their weights: pairs (state, weight) while they are few, one weight per state when many.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.layout import REST, Over
from sparingly.numba_support import inlined, record
from sparingly.randomness import Stream, uniform
from sparingly.vectors import dot_at

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
U = np.uint64  # as an index: unsigned ones need no check for being negative, which takes as long as the sum itself
ONE, TWO = U(1), U(2)

SIZES = record(
    horizon=np.int64,  # H
    states=np.int64,  # S
    actions=np.int64,  # A
    stages=np.int64,  # how many steps have rows of their own: H, or 1
    passes=np.int64,  # 1 if actions that cannot win may be passed over
)
ROW = record(  # of one cell, as long as a line of the cache: Q = average + root·sqrt(L) + linear·L + share·Σ weight·V
    average=np.float64,
    root=np.float64,
    linear=np.float64,
    share=np.float64,
    start=np.int64,  # where its successors begin in the pool
    successors=np.int64,  # and how many there are
    ahead=np.float64,  # its memo: share·Σ weight·V as it was last computed,
    since=np.float64,  # and the drift of V at that time
)
EVEN = 1e-9  # far above what rounding does to a bound: rises are of the order 1/t, sums of them of the order H
BEST, BOTH, GIVEN = 0, 1, 2  # maximise; maximise and bound from below too (ULCVI); follow the policy as it is


class Model(NamedTuple):
    """A tabular MDP for H steps, S states, A actions. Row (h·S + s)·A + a; with one stage, all steps share its rows."""

    sizes: Annotated[Any, Over("sizes"), SIZES, 1]
    rows: Annotated[Any, ROW, "cells"]  # (H·S·A,) or (S·A,)
    next: Annotated[Integers, np.int64, REST]  # the pool as whole numbers,
    weight: Annotated[Floats, Over("model_next"), np.float64, REST]  # and the same pool as floats
    listed: Annotated[Integers, np.int64, "horizon", "states"]  # to go through at each step; (1, S) if always the same
    many: Annotated[Integers, np.int64, "horizon"]  # (H,) or (1,) how many of them
    drift: Annotated[
        Floats, np.float64, "horizon + 1"
    ]  # how far V can have risen in all plans: largest rises, added up


class Values(NamedTuple):
    """What the induction computes; step H is the end, where everything is worth 0."""

    upper: Annotated[Floats, np.float64, "horizon + 1", "states"]
    lower: Annotated[Floats, np.float64, "horizon + 1", "states"]  # for BOTH
    policy: Annotated[Integers, np.int64, "horizon", "states"]


def few(states: int) -> int:
    """How many successors are listed as pairs; a row with more has one weight for each state."""
    return states // 4 if states >= 16 else 0


@inlined
def expected(model: Model, row: int, V: Floats) -> float:
    """Σ weight·V over the successors of a row."""
    k, count = model.rows[U(row)].start, model.rows[U(row)].successors
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
    k, count = model.rows[U(row)].start, model.rows[U(row)].successors
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
    bonus = model.rows[U(row)].root * root + model.rows[U(row)].linear * log_term
    return model.rows[U(row)].average, bonus


@inlined
def between(
    model: Model, row: int, log_term: float, root: float, scale: float, upper: Floats, lower: Floats
) -> tuple[float, float]:
    """Q of a row from above and from below, with the rest of ULCVI's b^p: the variance of V, the gap of its bounds."""
    mean, bonus = at_once(model, row, log_term, root)
    share = model.rows[U(row)].share
    ahead, behind = share * expected(model, row, upper), share * expected(model, row, lower)
    variance = share * scattered(model, row, upper, ahead)
    bonus += scale * (math.sqrt(2.0 * variance * log_term * share) + (ahead - behind) / (16.0 * model.sizes[0].horizon))
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
    passes = model.sizes[0].passes == 1
    for a in range(actions):
        if a == first:
            continue
        mean, bonus = at_once(model, row + a, log_term, root)
        most = model.rows[U(row + a)].ahead + (drift - model.rows[U(row + a)].since)
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
    ahead = model.rows[U(row)].share * expected(model, row, upper)
    model.rows[U(row)].ahead = ahead
    model.rows[U(row)].since = drift
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
    horizon, states, actions = model.sizes[0].horizon, model.sizes[0].states, model.sizes[0].actions
    root, changed = math.sqrt(log_term), -1
    for h in range(top, -1, -1):
        stage, lists, raised = h if model.sizes[0].stages > 1 else 0, h if model.many.size > 1 else 0, 0.0
        upper, lower, policy = values.upper[U(h + 1)], values.lower[U(h + 1)], values.policy[U(h)]
        here, drift, order = values.upper[U(h)], model.drift[U(h + 1)], model.listed[U(lists)]
        for j in range(model.many[lists]):
            s = order[U(j)]
            row, before, low = (stage * states + s) * actions, policy[U(s)], 0.0
            best = before
            if kind == GIVEN:
                high = model.rows[U(row + best)].average + expected(model, row + best, upper)
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
