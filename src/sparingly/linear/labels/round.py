"""One round with labels: the class with the best score, Question, asks, settle, learn. Agent and simulator share it.

What rules see and how asks are counted is that of linear rewards, with the input z as the row.
"""

from __future__ import annotations

import math
from typing import Any

from sparingly.ledger import UNLIMITED, refund, spend, without_arrays
from sparingly.linear.ellipsoid import add, freshen, norm_in, remove
from sparingly.linear.labels.learners import LEARNERS
from sparingly.linear.labels.memory import Floats, Memory, Words, look
from sparingly.linear.round import (
    EVEN,
    bar_of,
    count,
    count_row,
    price_of,
    question_about,
    reason_of,
    remember_row,
    reserves,
    wants,
)
from sparingly.numba_support import apart, compiled, inlined
from sparingly.protocol import Question
from sparingly.randomness import uniform
from sparingly.reasons import BLIND, EXPLOITED, PAST, STEP
from sparingly.rules.dispatch import kinds_for, ladder
from sparingly.rules.greedy import draw_slot, offer, store
from sparingly.rules.pacing import take_score
from sparingly.tabular.round import ANSWERABLE, UNASKED, consistent, explain
from sparingly.vectors import dot

CALM = 1e-9  # pulls that change by less have converged

fit = ladder("fit", LEARNERS, kinds_for(LEARNERS, "fit"), "weights, pull, z, square, told, room")


@inlined
def take_input(m: Memory, x: Floats) -> None:
    """z = sqrt(d)/L·x."""
    for i in range(x.size):
        m.z[i] = m.head[0].stretch * x[i]


@apart
def best_class(m: Memory, weights: Floats) -> tuple[int, float]:
    """The class with the largest ⟨z, w_k⟩, and how far it is above the next."""
    best, top, second, tied, even = 0, -math.inf, -math.inf, 1, 0.0
    for k in range(weights.shape[0]):
        value = dot(weights[k], m.z)
        second = max(second, min(top, value))
        if value > top + even:
            best, top, tied, even = k, value, 1, EVEN * (1.0 + abs(value))
        elif value >= top - even and m.head[0].random_ties:
            tied += 1
            if uniform(m.random) * tied < 1.0:  # each of the tied stays with probability 1/tied
                best = k
    return best, top - second


@inlined
def propose(m: Memory) -> tuple[int, Question]:
    """Start a round with the input that was taken: the best class, and what the rule may know about it."""
    freshen(m.asked, m.work)
    fit_again(m, m.head[0].later)
    if m.free.size > 0 and m.account[0].granted < UNLIMITED:
        take_over(m)
    a, margin = best_class(m, m.weights)
    norm = norm_in(m.asked, m.z, m.y)
    if m.pace.scores.size > 0:
        remember_row(m, m.z)
        take_score(m.pace, score(m, margin, norm))
    return a, question_about(m, price_of(m, a), norm, m.head[0].scale)


@inlined
def score(m: Memory, margin: float, norm: float) -> float:
    """What a label would be worth: by how much the margin is within the width, times what it would teach lately.

    The variance at an input v falls by ⟨v, y⟩²/(1 + ⟨z, y⟩) with y = V⁻¹z, which `norm_in` has left in its place.
    """
    taught, sampled = 0.0, min(m.pace.state[0].seen + 1, m.sample.shape[0])
    for i in range(sampled):
        overlap = dot(m.sample[i], m.y)
        taught += overlap * overlap
    return float((2.0 * m.head[0].scale * norm - margin) * taught / (1.0 + norm * norm))


@inlined
def settle(m: Memory, a: int, question: Question, wanted: bool) -> tuple[int, int]:
    """The class in the end, and how the round ends: Greedy may act by its past, the ledger may refuse."""
    if m.head[0].slots > 0:
        if not wanted:  # Algorithm 1, lines 11–12: the learner does not live through this round
            return past_class(m), UNASKED
        if offer(m.reservoir, m.random):  # lines 7–8
            store(m.reservoir, m.policy)
    m.head[0].clock += 1
    ending = count(m, m.z, question, wanted)
    if ending == ANSWERABLE and m.free.size > 0:
        note_ask(m, question.row.norm, question.units.cost)
    return a, ending


@inlined
def note_ask(m: Memory, norm: float, price: int) -> None:
    """Note who has paid for an ask; if it was the free part, in the place of the narrowest that is noted."""
    head, gain, place = m.head[0], m.pace.state[0].last_gain, 0
    head.note = gain if gain > 0.0 or price == 0 else -norm
    if head.note >= 0.0:
        return
    for i in range(m.free.size):
        if m.free[i].norm < m.free[place].norm:
            place = i
    if norm > m.free[place].norm:
        head.dropped = max(head.dropped, m.free[place].norm)
        m.free[place].norm, m.free[place].square, m.free[place].price = norm, dot(m.z, m.z), price
    else:
        head.dropped = max(head.dropped, norm)


@apart
def take_over(m: Memory) -> None:
    """Let the reserve pay for asks that the free part has paid for, as far as it would today: that frees budget.

    The bar of the reserve falls as the budget grows, below asks that were made when it was higher. docs/paper.md shows
    that both parts keep what they promise.
    """
    state = m.pace.state[0]
    while True:
        place = 0
        for i in range(m.free.size):
            if m.free[i].norm > m.free[place].norm:
                place = i
        ask = m.free[place]
        if ask.norm == 0.0:
            return
        if not reserves(m.own, m.head[0].rule, m.rule, question_about(m, ask.price, ask.norm, m.head[0].scale)):
            return
        state.reserved += ask.price
        state.gain += math.log1p(ask.norm * ask.norm)
        state.length += ask.square
        ask.norm = 0.0


@inlined
def past_class(m: Memory) -> int:
    """Act with a uniformly drawn past policy; before there is one, with that of now."""
    slot = draw_slot(m.reservoir, m.random)
    if slot < 0:
        return best_class(m, m.weights)[0]
    return best_class(m, m.reservoir.policies[slot].view(m.weights.dtype).reshape(m.weights.shape))[0]


@inlined
def play_round(m: Memory, x: Floats) -> tuple[int, int]:
    """One whole round: the class, and how it ended."""
    take_input(m, x)
    a, question = propose(m)
    return settle(m, a, question, wants(m, question))


@apart
def take_answer(m: Memory, told: int) -> None:
    """A row more for the input that was taken: it is fitted first, then the others in turn, as many as is allowed."""
    head, rows = m.head[0], m.inputs.shape[0]
    row = head.answers % rows
    head.answers += 1
    m.told[row], m.squares[row] = told, dot(m.z, m.z)
    for i in range(m.z.size):
        m.inputs[row, i] = m.z[i]
    for k in range(m.pulls.shape[1]):
        m.pulls[row, k] = 0.0
    fit_row(m, row)
    head.calm = 0
    fit_again(m, head.fits)


@apart
def fit_again(m: Memory, fits: int) -> None:
    """Fit so many rows again, in turn; fewer, if all of them have converged."""
    head = m.head[0]
    kept = min(head.answers, m.inputs.shape[0])
    for _ in range(fits):
        if head.calm >= kept:
            break
        head.place = head.place + 1 if head.place + 1 < kept else 0
        head.calm = head.calm + 1 if fit_row(m, head.place) < CALM else 0


@inlined
def fit_row(m: Memory, row: int) -> float:
    """Fit one row; by how much its pull has changed at most."""
    return float(
        fit(
            m.own, m.head[0].learner, m.learner, m.weights, m.pulls[row], m.inputs[row], m.squares[row], m.told[row],
            m.room,
        )
    )  # fmt: skip


@inlined
def told_of(a: int, reward: float) -> int:
    """What a reward of class a tells: that a is right, or that it is wrong."""
    return a if reward > 0.5 else -1 - a


# What the Agent calls: with the words of a memory, everything in one call.


@compiled
def decide(words: Words, own: Any, x: Floats) -> tuple[int, bool, float, float, int]:
    """One round for the Agent: (class, ask, width, threshold, why)."""
    m = look(words, own)
    m.head[0].decisions += 1
    length = 2.0 * m.head[0].scale
    take_input(m, x)
    known = m.head[0].answers > 0
    proposed, question = propose(m)
    width, bar = length * question.row.norm, length * bar_of(m.own, m.head[0].rule, m.rule, question)
    wanted, reason = wants(m, question), reason_of(m.own, m.head[0].rule, m.rule, question)
    a, ending = settle(m, proposed, question, wanted)
    reasons = why(m.head[0].slots > 0, known, reason, ending)
    return a, ending == ANSWERABLE, width, consistent(bar, width, ending), reasons


@inlined
def why(reduced: bool, known: bool, reason: int, ending: int) -> int:
    """The class with the best score is played, asked about or not; Greedy acts by its past where it cannot ask."""
    chosen = PAST if reduced and ending == UNASKED else EXPLOITED if known else BLIND
    return STEP * chosen + explain(False, True, known, reason, ending) % STEP


@compiled
def threshold_now(words: Words, own: Any) -> float:
    """The width at which the next decision will not be asked about; where prices differ, at the first one."""
    m = look(words, own)
    question = question_about(m, m.price[0], 1.0, m.head[0].scale)
    return float(2.0 * m.head[0].scale * bar_of(m.own, m.head[0].rule, m.rule, question))


@compiled
def learn(words: Words, own: Any, x: Floats, told: int) -> None:
    """Take in one answer."""
    m = look(words, own)
    take_input(m, x)
    take_answer(m, told)


@compiled
def teach(words: Words, own: Any, x: Floats, told: int) -> None:
    """Take in an answer that came without an ask: learner and rule know x as well as if it had been asked about."""
    m = look(words, own)
    take_input(m, x)
    take_answer(m, told)
    add(m.asked, m.z, m.y, m.work)


@compiled
def count_ask(words: Words, own: Any, x: Floats, price: int) -> None:
    """Count an ask that was decided elsewhere, as `count` would."""
    m = look(words, own)
    take_input(m, x)
    freshen(m.asked, m.work)
    if m.head[0].paced:
        count_row(m, m.z, question_about(m, price, norm_in(m.asked, m.z, m.y), 1.0))
    if m.free.size > 0:
        note_ask(m, norm_in(m.asked, m.z, m.y), price)
    spend(m.account, price, 1)
    if price > 0:
        add(m.asked, m.z, m.y, m.work)


@compiled
def take_back(words: Words, x: Floats, price: int, gain: float) -> None:
    """Undo an ask that nobody has seen: the budget and the rule's ellipsoid are as if it had not been made.

    `gain` is what it has added to log det V of the reserve; −‖z‖ if the free part has paid for it.
    """
    m = look(words, None)
    take_input(m, x)
    refund(m.account, price)
    if gain < 0.0:
        gain = taken_over(m, -gain)
    if gain > 0.0:
        state = m.pace.state[0]
        state.reserved -= price
        state.gain = max(state.gain - gain, 0.0)  # rounding must not take it below 0
        state.length = max(state.length - dot(m.z, m.z), 0.0)
    if price > 0:
        remove(m.asked, m.z)


@inlined
def taken_over(m: Memory, norm: float) -> float:
    """What an ask of the free part has added to log det V of the reserve since: 0 if it is still noted, or dropped."""
    for i in range(m.free.size):
        if m.free[i].norm == norm:
            m.free[i].norm = 0.0
            return 0.0
    return 0.0 if norm <= m.head[0].dropped else math.log1p(norm * norm)


@compiled
def freshen_now(words: Words) -> None:
    """Bring the ellipsoid in line with what was taken back."""
    m = look(words, None)
    freshen(m.asked, m.work)


@compiled
def why_now(reduced: bool, known: bool, reason: int, ending: int) -> int:
    """`why`, for rounds that were played step by step."""
    return why(reduced, known, reason, ending)


# The steps of a round one by one, for rules in plain Python. With the compiler off every agent takes them.


@compiled
def propose_by_words(words: Words, own: Any, x: Floats) -> tuple[int, Question]:
    """The learner names its class, and what the rule may know about it."""
    m = look(words, own)
    take_input(m, x)
    a, question = propose(m)
    return a, without_arrays(question)


@compiled
def settle_by_words(words: Words, own: Any, x: Floats, a: int, wanted: bool) -> tuple[int, int]:
    """The class in the end, and how the round ends."""
    m = look(words, own)
    take_input(m, x)
    norm = norm_in(m.asked, m.z, m.y)
    return settle(m, a, question_about(m, price_of(m, a), norm, m.head[0].scale), wanted)
