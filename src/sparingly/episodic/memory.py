"""What an agent for episodes remembers: one array of 64-bit words, its parts by name, how they are filled and grow.

The end of the array is a pool of successors that grows as new transitions are seen: `grow` gives it room, between
episodes. What happens in an episode is in round.py.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.episodic.learner import episode_costs, log_term, reward_linear, reward_root
from sparingly.episodic.learners import LEARNERS
from sparingly.episodic.value_iteration import SIZES, Model, U, Values, few
from sparingly.family import OF_PAIR, Pair
from sparingly.interpreter import as_python, soon
from sparingly.layout import Over, layout
from sparingly.ledger import ACCOUNT, Account, cost_in_units, question_of
from sparingly.numba_support import apart, compiled, inlined, record
from sparingly.protocol import Question, Step
from sparingly.randomness import Stream
from sparingly.rules import RULES
from sparingly.rules.dispatch import kinds_for, ladder, no_signal
from sparingly.rules.greedy import Reservoir
from sparingly.rules.intervals import reward_width, variance_of
from sparingly.rules.pacing import Pace

Words = NDArray[np.int64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

UNKNOWN = 2  # whether a rule in plain Python would ask about a cell: it has to be asked
SMALL = 50_000  # words of a memory that plain Python lays out in a moment
OWN = -1  # acting with the learner's own policy, rather than with a past one

HEAD = record(  # beside the sizes of the model: what kind of learner and rule, what is fixed for life, then counters
    **OF_PAIR,
    looks=np.int64,  # 1 if plans find out by themselves where that is; a rule in plain Python says it
    two_sided=np.int64,  # 1 if values are bounded from below too
    few=np.int64,  # how many successors of a cell are listed as pairs
    total_cost=np.int64,  # C, in millionths
    seen_cost=np.int64,  # the part of it that visited cells have
    dearest=np.int64,  # what a whole episode costs at most
    rewarding=np.float64,  # |L_R|
    scale=np.float64,  # of the bonuses
    first_scale=np.float64,  # of the bonuses where nothing is known yet
    signal=np.float64,  # of the rule, when it was last asked about every cell
    log_constant=np.float64,  # what stands before t²(t+1) in L_t
    decisions=np.int64,  # episodes so far
    clock=np.int64,  # episodes that the learner has lived through
    open=np.int64,  # 1 if an episode was planned and has not ended
    acting=np.int64,  # the slot of the past policy that acts in it, or OWN
    lives=np.int64,  # 1 if the learner lives through it
    top=np.int64,  # how much of the pool is in use
)
COUNTS = record(  # of one cell
    cost=np.int64,  # of asking, in millionths
    asked=np.int64,  # n^q
    answered=np.int64,
    visits=np.int64,  # n
)

asks_about = ladder("asks", RULES, kinds_for(RULES, "episodic"), "question")
signal_of = ladder("signal", RULES, kinds_for(RULES, "signal", "episodic", no_signal), "question")
model_bonus = ladder("model_bonus", LEARNERS, kinds_for(LEARNERS, "model_bonus"), "visits")


class Memory(NamedTuple):
    """The parts of an agent's memory, as views: M = H·S·A cells, P past policies of Greedy.

    The cell of step h (from 0), state s and action a is number (h·S + s)·A + a.
    """

    own: Any  # None, or the compiled functions of a user's own learner or rule
    sizes: Annotated[Any, SIZES, 1]
    head: Annotated[Any, HEAD, 1]
    account: Annotated[Account, ACCOUNT, 1]
    random: Annotated[Stream, np.uint64, 1]
    learner: Annotated[Floats, np.float64, "learner_numbers"]  # its parameters, as the functions take them
    rule: Annotated[Floats, np.float64, "rule_numbers"]  # its parameters
    pace: Pace  # what the rule remembers, if it keeps a pace
    counts: Annotated[Any, COUNTS, "cells"]
    squares: Annotated[Floats, np.float64, "cells"]  # summed squared deviations of each cell's answers
    open: Annotated[Integers, np.int64, "cells"]  # 1 where the rule would ask, as far as plans know, or UNKNOWN
    model: Model  # as the learner estimates it, bonuses included; states are listed once they were visited
    values: Values  # of the latest plan
    policy: Annotated[Words, Over("values_policy"), np.int64, "kept"]  # (H·S,) of the latest plan: what Greedy keeps
    reservoir: Reservoir


look, blank = layout(Memory, ("sizes", "head"), cells="horizon * states * actions", kept="horizon * states", scores="0")
open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(pair: Pair, learner: Any, key: np.uint64, passes: bool = True) -> Words:
    """A fresh memory, its model still to be refreshed; `passes`: plans may pass over actions that cannot win."""
    H, S, A = learner.shape
    costs = cost_in_units(episode_costs(learner.costs, H, S, A))
    sizes, head = np.zeros(1, dtype=SIZES), pair.head(
        HEAD, learner.numbers, learner.ties, looks=pair.exploits and not pair.python_rule, two_sided=learner.two_sided,
        few=few(S), total_cost=costs.sum(), dearest=costs.reshape(H, -1).max(axis=1).sum(),
        rewarding=learner.cells if learner.rewarding is None else learner.rewarding, scale=learner.scale,
        first_scale=learner.first_scale, signal=np.nan, log_constant=learner.log_constant, acting=OWN,
    )  # fmt: skip
    sizes[0] = H, S, A, H, passes
    words = np.append(blank(sizes, head), np.zeros(H * S, dtype=np.int64))
    memory = open_memory(words, None)
    memory.counts["cost"] = costs.ravel()
    memory.open[:] = 1
    pair.begin(memory, learner.numbers, key)
    memory.values.upper[:H] = np.arange(H, 0, -1.0)[:, np.newaxis]  # what is not known may be worth the most
    return words


def room_of(words: Words) -> tuple[int, int]:
    """How long the pool is, and how long it must be for one more episode."""
    memory = open_memory(words, None)
    return memory.model.next.size, int(memory.head[0].top + memory.values.policy.size)


def grow(words: Words) -> Words:
    """The same memory with room in its pool for at least one more episode."""
    length, needed = room_of(words)
    return words if length >= needed else tidy(words)


def tidy(words: Words) -> Words:
    """The same memory with room, and with the successors of all cells in order: plans then read them in one go."""
    pool, needed = room_of(words)
    missing = needed - pool
    fresh = np.zeros(words.size + (max(missing, pool) if missing > 0 else 0), dtype=np.int64)
    fresh[: words.size - pool] = words[: words.size - pool]
    (soon(lay_out) if words.size < SMALL else lay_out)(words, fresh)
    return fresh


@compiled
def lay_out(words: Words, fresh: Words) -> None:
    """Copy the pool of a memory cell by cell, and leave out what is no longer in use."""
    m, new = look(words, None), look(fresh, None)
    top = 0
    for cell in range(m.model.rows.size):
        k, count = m.model.rows[cell].start, m.model.rows[cell].successors
        used = room = count
        if count < m.sizes[0].states:  # pairs, in a block of 1, 2, 4, … of them
            used, room = 2 * count, 2 if count > 0 else 0
            while room < used:
                room *= 2
        for i in range(used):
            new.model.next[top + i] = m.model.next[k + i]
        new.model.rows[cell].start = top
        top += room
    new.head[0].top = top


@inlined
def has_room(m: Memory) -> bool:
    """Whether the pool has room for all the successors that one episode can add."""
    return bool(m.head[0].top + m.sizes[0].horizon * m.sizes[0].states <= m.model.next.size)


@inlined
def current_log(m: Memory) -> float:
    """L_t of the episode that the learner plans or has just planned."""
    return log_term(m.head[0].log_constant, m.head[0].clock + 1)


@inlined
def question_about(m: Memory, cell: int, logs: float) -> Question:
    """What the rule may know about a cell; `logs` is L_t."""
    counts, head = m.counts[U(cell)], m.head[0]
    granted, spent = m.account[0].granted, m.account[0].spent
    spread = variance_of(m.squares[U(cell)], counts.answered)
    width, step = reward_width(spread, counts.asked, logs), Step(counts.visits, logs, head.rewarding, head.seen_cost)
    return question_of(
        head.clock + 1, counts.asked, width, m.counts.size, counts.cost, head.total_cost, granted, spent, None, step,
        math.inf, m.pace, m.counts,
    )  # fmt: skip


@inlined
def refresh(m: Memory, cell: int) -> None:
    """Bring a cell in line with its visits, asks and answers: whether the rule would ask, and the optimistic model."""
    if m.head[0].looks:
        question = question_about(m, cell, current_log(m))
        m.open[U(cell)] = asks_about(m.own, m.head[0].rule, m.rule, question)
    elif m.head[0].exploits:
        m.open[U(cell)] = UNKNOWN
    renew(m, cell)


@inlined
def renew(m: Memory, cell: int) -> None:
    """Bring a cell's part of the optimistic model in line. Where the rule would decline, rewards have no bonus.

    Where a rule exploits, the bonus shrinks with asks: one that nobody answers does not stay promising for ever.
    """
    head, row, counts = m.head[0], m.model.rows[U(cell)], m.counts[U(cell)]
    n, visits = counts.asked if head.exploits else counts.answered, counts.visits
    scale = head.scale if n > 0 else head.first_scale
    root = linear = 0.0
    if m.open[U(cell)]:
        root = scale * reward_root(variance_of(m.squares[U(cell)], counts.answered), n)
        linear = scale * reward_linear(n)
    scale = head.scale if visits > 0 else head.first_scale
    more_root, more_linear = model_bonus(m.own, head.learner, m.learner, visits)
    row.root = root + scale * more_root
    row.linear = linear + scale * more_linear
    row.share = 1.0 / max(visits, 1)
    row.since = -math.inf  # what was seen of its successors is out of date


@apart
def look_around(m: Memory) -> None:
    """Ask the rule about every cell anew, if its signal has changed since the last time."""
    signal = signal_of(m.own, m.head[0].rule, m.rule, question_about(m, 0, current_log(m)))
    if signal != m.head[0].signal:
        m.head[0].signal = signal
        for cell in range(m.counts.size):
            refresh(m, cell)


@compiled
def set_open(words: Words, own: Any, cells: NDArray[np.bool_]) -> None:
    """Where a rule in plain Python would ask, (M,)."""
    m = look(words, own)
    for cell in range(cells.size):
        if m.open[cell] != cells[cell]:
            m.open[cell] = cells[cell]
            renew(m, cell)


@compiled
def renew_all(words: Words, own: Any) -> None:
    """Bring the whole model in line."""
    m = look(words, own)
    for cell in range(m.counts.size):
        renew(m, cell)


@inlined
def count_transition(m: Memory, cell: int, after: int) -> None:
    """One more transition from a cell to the state `after`."""
    states, row, ints, floats = m.sizes[0].states, m.model.rows[U(cell)], m.model.next, m.model.weight
    k, count = row.start, row.successors
    if count == states:
        floats[U(k + after)] += 1.0
        return
    for i in range(k, k + 2 * count, 2):
        if ints[U(i)] == after:
            floats[U(i + 1)] += 1.0
            return
    if count + 1 > m.head[0].few:  # from now on one weight per state
        fresh = m.head[0].top
        m.head[0].top += states
        for i in range(k, k + 2 * count, 2):
            floats[fresh + ints[i]] = floats[i + 1]
        floats[fresh + after] = 1.0
        row.start, row.successors = fresh, states
        return
    if count & (count - 1) == 0:  # the block is full at 0, 1, 2, 4, … pairs: move to one twice as large
        fresh = m.head[0].top
        m.head[0].top += 2 * max(2 * count, 1)
        for i in range(2 * count):
            ints[fresh + i] = ints[k + i]
        row.start = fresh
        k = fresh
    ints[k + 2 * count] = after
    floats[k + 2 * count + 1] = 1.0
    row.successors = count + 1


@inlined
def was_seen(m: Memory, h: int, s: int) -> bool:
    """Whether state s was visited at step h."""
    first, seen = (h * m.sizes[0].states + s) * m.sizes[0].actions, False
    for cell in range(first, first + m.sizes[0].actions):
        seen = seen or m.counts[U(cell)].visits > 0
    return seen


@compiled
def list_states(words: Words) -> None:
    """List the states that were visited at each step, from the counts of visits."""
    m = look(words, None)
    m.head[0].seen_cost = 0
    for cell in range(m.counts.size):
        m.head[0].seen_cost += m.counts[cell].cost if m.counts[cell].visits > 0 else 0
    for h in range(m.sizes[0].horizon):
        m.model.many[h] = 0
        for s in range(m.sizes[0].states):
            if was_seen(m, h, s):
                m.model.listed[h, m.model.many[h]] = s
                m.model.many[h] += 1


@inlined
def visit(m: Memory, h: int, s: int, a: int, after: int) -> None:
    """Step h led from state s with action a to the state `after` (−1 at the end of the episode)."""
    first = (h * m.sizes[0].states + s) * m.sizes[0].actions
    if not was_seen(m, h, s):  # states are listed in order, so that plans go through the memory in order
        place = m.model.many[h]
        while place > 0 and m.model.listed[h, place - 1] > s:
            m.model.listed[h, place] = m.model.listed[h, place - 1]
            place -= 1
        m.model.listed[h, place] = s
        m.model.many[h] += 1
    if m.counts[U(first + a)].visits == 0:
        m.head[0].seen_cost += m.counts[U(first + a)].cost
    m.counts[U(first + a)].visits += 1
    if after >= 0:
        count_transition(m, first + a, after)


@inlined
def take_answer(m: Memory, cell: int, reward: float) -> None:
    """Count one answer of a cell, in such a way that equal answers deviate from their mean by exactly 0."""
    counts, row = m.counts[U(cell)], m.model.rows[U(cell)]
    counts.answered += 1
    away = reward - row.average
    row.average += away / counts.answered  # E10: the mean of the answers so far
    m.squares[U(cell)] += away * (reward - row.average)
    refresh(m, cell)


@compiled
def restore_transition(words: Words, cell: int, after: int, times: float) -> None:
    """Put back what a saved agent has counted, successor by successor in the order of the first visits."""
    m = look(words, None)
    count_transition(m, cell, after)
    k, count = m.model.rows[cell].start, m.model.rows[cell].successors
    if count == m.sizes[0].states:
        m.model.weight[k + after] = times
    else:
        m.model.weight[k + 2 * count - 1] = times


question_now = as_python(question_about)  # the same, for use from Python
log_now = getattr(current_log, "py_func", current_log)
