"""Pacing: which rounds are worth an ask that nothing guarantees, when the budget for such asks grows with the rounds.

A rule that keeps a pace remembers the scores of the last rounds. It asks in a round whose score is among the highest of
them: as large a share of them as the free part of the budget can pay for.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.numba_support import inlined, record
from sparingly.protocol import Question
from sparingly.reasons import FREE, SETTLED, SPENT, WAITING

SCORES = 128  # how many of the last scores are kept
PATIENCE = 128.0  # rounds over which what is waiting is spent, on top of what comes in
BETTER_HALF = 0.5  # the share of rounds that a budget with neither growth nor a known end is spent on
UNKNOWN = -1  # κ of an excess that has to be summed up anew

PACE = record(  # what a rule with a reserve and a pace remembers
    kappa=np.int64,  # with cells: κ, how many asks about each of them are reserved
    excess=np.int64,  # with cells: Σ c·max(n − κ, 0), in millionths,
    over=np.int64,  # and Σ c over the cells with n > κ
    ahead=np.int64,  # with cells that were added: what some have cost beyond their share, in millionths
    reserved=np.int64,  # with features: what was spent from the reserve, in millionths
    gain=np.float64,  # with features: Σ log(1 + ‖x‖²) over the asks that the reserve has paid for
    length=np.float64,  # with features: Σ x·x over them
    last_gain=np.float64,  # with features: what the last ask has added to `gain`
    first=np.int64,  # the free part of the budget when the rule was first asked, in millionths; −1 before
    seen=np.int64,  # how many scores there were
    score=np.float64,  # of this round; infinite where every round is as good as the next
    visits=np.float64,  # with contexts: how often each of the context's arms would have been played, if all were alike
)


class Pace(NamedTuple):
    """What a Question has of it, as views."""

    state: Annotated[Any, PACE, 1]  # (1,)
    scores: Annotated[NDArray[np.float64], np.float64, "scores"]  # (K,) of the last rounds; K = 0 if all are alike


def fresh_pace(state: Any) -> None:
    """Nothing was asked or seen yet."""
    state["kappa"], state["first"], state["score"] = UNKNOWN, -1, math.inf


CELL = record(cost=np.int64, asked=np.int64, answered=np.int64)  # as far as rules look at the counts of a cell


def as_the_only_cell(question: Question) -> Question:
    """A question that was put together by hand, with a pace: no other cell was asked about, no round came before."""
    state, counts = np.zeros(1, dtype=PACE), np.zeros(1, dtype=CELL)
    fresh_pace(state)
    counts["cost"], counts["asked"] = question.units.cost, question.asked
    return question._replace(pace=Pace(state, np.zeros(0)), counts=counts)


@inlined
def take_score(pace: Pace, score: float) -> None:
    """The score of a round that begins."""
    state = pace.state[0]
    pace.scores[state.seen % pace.scores.size] = score
    state.seen += 1
    state.score = score


@inlined
def reason_to_spend(question: Question, free: int, left: int, rounds_left: float, patience: float) -> int:
    """Whether this round is among the best: `free` is the free part of the budget so far, `left` what is left of it.
    That is spent over the rounds to a known end or, on top of what comes in, over `patience` rounds.

    Without a known end (`rounds_left` = ∞) a budget that does not grow is spent in the better half of the rounds: soon,
    but not on those that teach least. A score of 0 or less says that there is nothing to learn.
    """
    state, scores, score, cost = question.pace.state[0], question.pace.scores, question.score, question.units.cost
    if state.first < 0:
        state.first = free
    if left < cost:
        return SPENT
    if not score > 0.0:
        return SETTLED
    if scores.size == 0 or score == math.inf:
        return FREE
    rate = (free - state.first) / max(state.seen, 1)  # what comes in, by score
    share = BETTER_HALF
    if rate > 0.0 or rounds_left < math.inf:
        share = (rate + left / (patience if rounds_left == math.inf else rounds_left)) / cost
    last, above = min(state.seen, scores.size), 0
    for i in range(last):
        above += scores[i] > score
    return FREE if above <= share * last else WAITING
