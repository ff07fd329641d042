"""One round with arms or contextual arms: propose, Question, asks, settle, learn. Agent and simulator share it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparingly.ledger import UNIT, UNLIMITED, charge, refund, spend
from sparingly.numba_support import apart, compiled, inlined
from sparingly.protocol import Question, Units
from sparingly.randomness import uniform
from sparingly.rules import RULES
from sparingly.rules.dispatch import NO_LIMIT, kinds_for, ladder, no_limit
from sparingly.rules.greedy import draw_slot, offer, store
from sparingly.tabular.learner import ESTIMATE
from sparingly.tabular.learners import LEARNERS
from sparingly.tabular.memory import ESTIMATE_WORDS, Floats, Memory, Words, look

UNASKED, ANSWERABLE, DENIED = 0, 1, 2  # how a round can end: not asked, asked, refused by the ledger

level_of = ladder("level", LEARNERS, kinds_for(LEARNERS, "level"), "rounds")
offset_of = ladder("offset", LEARNERS, kinds_for(LEARNERS, "offset"), "answers")
index_of = ladder("index", LEARNERS, kinds_for(LEARNERS, "index"), "estimate, level")
asks_about = ladder("asks", RULES, kinds_for(RULES, "tabular"), "question")
limit_of = ladder("limit", RULES, kinds_for(RULES, "limit", "tabular", no_limit), "question")


@compiled
def cell_width(asked: int, rounds: int, cells: int) -> float:
    """CI_t = 2 b^r = sqrt(6 log(Mt)/(n^q ∨ 1)) (E3)."""
    return math.sqrt(6.0 * math.log(max(cells * rounds, 2)) / max(asked, 1))


@compiled
def width_at(limit: int, rounds: int, cells: int) -> float:
    """A limit on counts as a threshold on widths: the width of a cell that was asked about `limit` times."""
    if limit < 0:
        return math.nan if limit == NO_LIMIT else math.inf
    return 0.0 if limit >= UNLIMITED else cell_width(limit, rounds, cells)


@inlined
def refresh(m: Memory, cell: int) -> None:
    """Bring the derived numbers of one cell in line with its answers."""
    n, estimate, head = m.counts[cell].answered, m.estimates[cell], m.head[0]
    estimate.average = estimate.total / n if n > 0 else head.unknown  # E10: the mean of the answers so far
    estimate.shrink = 1.0 / math.sqrt(max(n, 1))
    estimate.offset = offset_of(m.own, head.learner, m.learner, n)


@compiled
def refresh_all(words: Words, own: Any) -> None:
    """Bring the derived numbers of every cell in line with the answers."""
    m = look(words, own)
    for cell in range(m.counts.size):
        refresh(m, cell)


@inlined
def age(m: Memory, u: int) -> int:
    """The learner's clock in context u."""
    return int(m.clock[1 + u] if m.head[0].per_context else m.clock[0])


@inlined
def level_at(m: Memory, age: int) -> float:
    """What the learner's exploration has grown to at this age."""
    return float(level_of(m.own, m.head[0].learner, m.learner, age))


@inlined
def choose(m: Memory, estimates: Any, first: int, level: float) -> int:
    """The arm with the largest index, among the cells `first`, `first` + 1, … of one context."""
    kind, own, numbers = m.head[0].learner, m.own, m.learner
    best, top, tied = 0, index_of(own, kind, numbers, estimates[first], level), 1
    for a in range(1, m.head[0].arms):
        value = index_of(own, kind, numbers, estimates[first + a], level)
        if value > top:
            best, top, tied = a, value, 1
        elif value == top:
            tied += 1
    if tied == 1 or not m.head[0].random_ties:
        return best
    passed = int(uniform(m.random) * tied)  # drawn only if the largest index is shared: each sharer alike
    while passed > 0:
        best += 1
        if index_of(own, kind, numbers, estimates[first + best], level) == top:
            passed -= 1
    return best


@apart
def keep_policy(m: Memory) -> None:
    """Offer the learner's policy of this round to Greedy's reservoir."""
    if offer(m.reservoir, m.random):
        for u in range(m.levels.size):
            m.levels[u] = level_at(m, max(age(m, u), 1))
        store(m.reservoir, m.policy)


@apart
def past_action(m: Memory, u: int) -> int:
    """Act with a uniformly drawn past policy; before there is one, with the initial policy."""
    slot, first, cells = draw_slot(m.reservoir, m.random), u * m.head[0].arms, m.estimates.size
    if slot < 0:
        return choose(m, m.estimates, first, level_at(m, 1))
    policy = m.reservoir.policies[slot]
    levels = policy[ESTIMATE_WORDS * cells :].view(np.float64)
    return choose(m, policy[: ESTIMATE_WORDS * cells].view(ESTIMATE), first, levels[u])


@inlined
def tick(m: Memory, u: int, rounds: int) -> None:
    """Let the learner live through `rounds` more rounds (negative: take them back) in context u."""
    m.clock[0] += rounds
    m.clock[1 + u] += rounds


@inlined
def propose(m: Memory, u: int) -> int:
    """Start a round: the clock ticks, the learner names its action (Algorithm 2, lines 3–4)."""
    tick(m, u, 1)
    return choose(m, m.estimates, u * m.head[0].arms, level_at(m, age(m, u)))


@inlined
def question_about(m: Memory, cell: int) -> Question:
    """What the rule may know about a cell in this round."""
    cost, total = m.counts[cell].cost, m.head[0].total_cost
    granted, spent = m.account[0].granted, m.account[0].spent
    asked, rounds, cells = m.counts[cell].asked, m.clock[0], m.counts.size
    return Question(
        rounds,
        asked,
        cell_width(asked, rounds, cells),
        cost / UNIT,
        total / UNIT,
        granted / UNIT if granted < UNLIMITED else math.inf,
        spent / UNIT if spent < UNLIMITED else math.inf,
        cells,
        Units(cost, total, granted, spent),
        None,
        None,
    )


@inlined
def wants(m: Memory, cell: int) -> bool:
    """Whether the rule wants to ask about a cell now."""
    return bool(asks_about(m.own, m.head[0].rule, m.rule, question_about(m, cell)))


@inlined
def settle(m: Memory, cell: int, wanted: bool) -> int:
    """Charge the ledger if the rule wants to ask, and count the ask: how the round ends."""
    if not wanted:
        return UNASKED
    if not charge(m.account, m.counts[cell].cost):
        return DENIED
    m.counts[cell].asked += 1
    return ANSWERABLE


@apart
def play_round(m: Memory, u: int) -> tuple[int, int]:
    """One whole round in context u: the action, and how the round ended."""
    a = propose(m, u)
    cell = u * m.head[0].arms + a
    wanted = wants(m, cell)  # Algorithm 2, line 6
    if m.head[0].slots > 0:  # Greedy
        if not wanted:  # Algorithm 1, lines 11–12: the learner does not live through this round
            tick(m, u, -1)
            return past_action(m, u), UNASKED
        keep_policy(m)  # Algorithm 1, lines 7–8
    return a, settle(m, cell, wanted)


@inlined
def take_answer(m: Memory, cell: int, reward: float) -> None:
    """Count one answer of a cell."""
    m.counts[cell].answered += 1
    m.estimates[cell].total += reward
    refresh(m, cell)


# What the Agent calls: with the words of a memory, everything in one call.


@compiled
def decide(words: Words, own: Any, u: int) -> tuple[int, bool, float, float]:
    """One round for the Agent: (action, ask, width, threshold)."""
    m = look(words, own)
    m.head[0].decisions += 1
    bar = threshold(m)
    a, ending = play_round(m, u)
    span = width_before(m, u * m.head[0].arms + a, ending)
    return a, ending == ANSWERABLE, span, consistent(bar, span, ending)


@inlined
def threshold(m: Memory) -> float:
    """The width at which the next decision will not be asked about, under the budget of this moment."""
    most = limit_of(m.own, m.head[0].rule, m.rule, question_about(m, 0))
    return width_at(most, m.clock[0] + 1, m.counts.size)


@inlined
def width_before(m: Memory, cell: int, ending: int) -> float:
    """The width of a cell before the ask of this round."""
    return cell_width(m.counts[cell].asked - (ending == ANSWERABLE), max(m.clock[0], 1), m.counts.size)


@compiled
def consistent(bar: float, span: float, ending: int) -> float:
    """A threshold that tells what was done: at most the width if asked, above it if the rule declined.

    Widths tell n^q = 0 and 1 not apart (n^q ∨ 1), and what is free is asked for under any threshold.
    """
    if ending == ANSWERABLE and bar > span:
        return 0.0
    return math.inf if ending == UNASKED and bar <= span else bar


@compiled
def threshold_now(words: Words, own: Any) -> float:
    """The width at which the next decision will not be asked about."""
    return threshold(look(words, own))


@compiled
def learn(words: Words, own: Any, u: int, a: int, reward: float) -> None:
    """Take in one answer."""
    m = look(words, own)
    take_answer(m, u * m.head[0].arms + a, reward)


@compiled
def count_ask(words: Words, u: int, a: int) -> None:
    """Count an ask that was decided elsewhere, as `settle` would."""
    m = look(words, None)
    cell = u * m.head[0].arms + a
    spend(m.account, m.counts[cell].cost, 1)
    m.counts[cell].asked += 1


@compiled
def take_back(words: Words, u: int, a: int) -> None:
    """Undo an ask that nobody has seen: the budget and the counts are as if it had not been made."""
    m = look(words, None)
    cell = u * m.head[0].arms + a
    refund(m.account, m.counts[cell].cost)
    m.counts[cell].asked -= 1


@compiled
def write_indices(words: Words, own: Any, u: int, indices: Floats) -> None:
    """The indices (A,) that the learner will compare in its next round, if that has context u."""
    m = look(words, own)
    tick(m, u, 1)
    height = level_at(m, age(m, u))
    tick(m, u, -1)
    for a in range(indices.size):
        indices[a] = index_of(m.own, m.head[0].learner, m.learner, m.estimates[u * m.head[0].arms + a], height)


# The steps of `play_round` one by one, for parts in plain Python. With the compiler off every agent takes them.


@inlined
def open_round(m: Memory, u: int, names: bool) -> tuple[int, float]:
    """Start a round: the action if the learner `names` one, else the number of the round; and the threshold."""
    bar = threshold(m)
    if names:
        return propose(m, u), bar
    tick(m, u, 1)
    return int(m.clock[0]), bar


@inlined
def close_round(m: Memory, cell: int, wanted: bool) -> tuple[int, float]:
    """Charge and count the ask, if it is wanted: how the round ends, and the width of the cell before."""
    m.head[0].decisions += 1
    ending = settle(m, cell, wanted)
    return ending, width_before(m, cell, ending)


@inlined
def reduce_round(m: Memory, u: int, a: int, wanted: bool, names: bool) -> int:
    """Greedy: the action in the end. A learner in plain Python, which `names` none here, keeps its own past."""
    if wanted:
        if names:
            keep_policy(m)
        else:
            m.reservoir.seen[0] += 1
        return a
    tick(m, u, -1)
    return past_action(m, u) if names else a


@compiled
def open_by_words(words: Words, own: Any, u: int, names: bool) -> tuple[int, float]:
    """`open_round`."""
    return open_round(look(words, own), u, names)


@compiled
def question_by_words(words: Words, own: Any, cell: int) -> Question:
    """`question_about`."""
    return question_about(look(words, own), cell)


@compiled
def reduce_by_words(words: Words, own: Any, u: int, a: int, wanted: bool, names: bool) -> int:
    """`reduce_round`."""
    return reduce_round(look(words, own), u, a, wanted, names)


@compiled
def close_by_words(words: Words, own: Any, cell: int, wanted: bool) -> tuple[int, float]:
    """`close_round`."""
    return close_round(look(words, own), cell, wanted)
