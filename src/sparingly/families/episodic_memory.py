"""What an agent for episodes remembers: one array of 64-bit words, its parts by name, how they are filled and grow.

The end of the array is a pool of successors that grows as new transitions are seen: `grow` gives it room, between
episodes. What happens in an episode is in episodic.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.compiling import compiled, inlined
from sparingly.induction import (
    ACTIONS,
    COUNT,
    HORIZON,
    LINEAR,
    MEAN,
    PASSES,
    ROOT,
    ROW,
    SHARE,
    SINCE,
    STAGES,
    START,
    STATES,
    Model,
    U,
    Values,
    few,
)
from sparingly.learners import ucbvi, ulcvi
from sparingly.learners.base import TIES
from sparingly.learners.episodic import (
    UCBVI_CODE,
    EpisodicLearner,
    episode_costs,
    reward_linear,
    reward_root,
    variance_of,
)
from sparingly.ledger import Account, cost_in_units
from sparingly.randomness import Stream
from sparingly.rules import Greedy, Rule

Words = NDArray[np.int64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Places in the head of the memory, after the five sizes of the model: HORIZON, STATES, ACTIONS, STAGES, PASSES.
SLOTS, LEARNER, RULE, TIE, TOTAL_COST, DEAREST, RANDOM, ACCOUNT = range(5, 13)
POLICIES, DECISIONS, CLOCK, OPEN, ACTING, LIVES, FEW, TOP, POOL = range(ACCOUNT + 3, ACCOUNT + 12)
HEAD = ACCOUNT + 12
SCALE, FIRST_SCALE, LOG_CONSTANT, REWARDING, RULE_ALPHA, RULE_BETA = range(6)  # places among the knobs
KNOBS = 6

COST, ASKED, ANSWERED, VISITS = 0, 1, 2, 3  # columns of the counts
SQUARES, NEEDED = 0, 1  # columns of the notes
OWN = -1  # acting with the learner's own policy, rather than with a past one
RANDOM_TIES = TIES["random"]


class Memory(NamedTuple):
    """The parts of an agent's memory, as views: M = H·S·A cells, P past policies of Greedy.

    The cell of step h (from 0), state s and action a is number (h·S + s)·A + a.
    """

    head: Integers  # (HEAD,) sizes, kinds and counters
    account: Account  # (3,) granted, spent, refused
    random: Stream  # (1,)
    knobs: Floats  # (KNOBS,)
    counts: Integers  # (M, 4) COST of asking, times ASKED (n^q), times ANSWERED, VISITS (n)
    notes: Floats  # (M, 2) SQUARES: summed squared deviations of answers; NEEDED: the budget that would allow an ask
    model: Model  # as the learner estimates it, bonuses included; states are listed once they were visited
    values: Values  # of the latest plan
    past: Integers  # (P·H, S) the policies in Greedy's reservoir
    past_from: Integers  # (P,) and which of all its policies they were


def fixed_words(H: int, S: int, A: int, slots: int) -> int:
    """The length of the memory without its pool."""
    return HEAD + KNOBS + 14 * H * S * A + 2 * H * S + H + (H + 1) * (2 * S + 1) + slots * (H * S + 1)


@inlined
def look(words: Words) -> Memory:
    """Name the parts of a memory."""
    H, S, slots = words[HORIZON], words[STATES], words[SLOTS]
    cells = H * S * words[ACTIONS]
    floats = words.view(np.float64)
    counts = HEAD + KNOBS
    notes = counts + 4 * cells
    numbers = notes + 2 * cells
    listed = numbers + ROW * cells
    many = listed + H * S
    upper = many + H
    lower = upper + (H + 1) * S
    policy = lower + (H + 1) * S
    past = policy + H * S
    past_from = past + slots * H * S
    drift = past_from + slots
    pool = drift + H + 1
    return Memory(
        words[:HEAD],
        words[ACCOUNT : ACCOUNT + 3],
        words[RANDOM : RANDOM + 1].view(np.uint64),
        floats[HEAD:counts],
        words[counts:notes].reshape((cells, 4)),
        floats[notes:numbers].reshape((cells, 2)),
        Model(
            words[:5],
            floats[numbers:listed].reshape((cells, ROW)),
            words[numbers:listed].reshape((cells, ROW)),
            words[pool:],
            floats[pool:],
            words[listed:many].reshape((H, S)),
            words[many:upper],
            floats[drift:pool],
        ),
        Values(
            floats[upper:lower].reshape((H + 1, S)),
            floats[lower:policy].reshape((H + 1, S)),
            words[policy:past].reshape((H, S)),
        ),
        words[past:past_from].reshape((slots * H, S)),
        words[past_from:drift],
    )


open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(learner: EpisodicLearner, rule: Rule, key: np.uint64, passes: bool = True) -> Words:
    """A fresh memory for a learner and a rule; `passes`: plans may pass over actions that cannot win."""
    H, S, A = learner.shape
    slots = rule.policies if isinstance(rule, Greedy) else 0
    start = fixed_words(H, S, A, slots)
    words = np.zeros(start + H * S, dtype=np.int64)
    words[[HORIZON, STATES, ACTIONS, STAGES, SLOTS, LEARNER, RULE, TIE, ACTING, FEW, PASSES, POOL]] = (
        H, S, A, H, slots, learner.code, rule.code, TIES[learner.ties], OWN, few(S), int(passes), start,
    )  # fmt: skip
    memory = open_memory(words)
    rewarding = learner.cells if learner.rewarding is None else learner.rewarding
    memory.knobs[:] = learner.scale, learner.first_scale, learner.log_constant, rewarding, *rule.parameters
    costs = cost_in_units(episode_costs(learner.costs, H, S, A))
    memory.counts[:, COST] = costs.ravel()
    words[TOTAL_COST] = costs.sum()
    words[DEAREST] = costs.reshape(H, -1).max(axis=1).sum()  # what a whole episode costs at most
    memory.random[0] = key
    memory.values.upper[:H] = np.arange(H, 0, -1.0)[:, np.newaxis]  # what is not known may be worth the most
    refresh_all(words)
    return words


def grow(words: Words) -> Words:
    """The same memory with room in its pool for at least one more episode."""
    return words if words.size - words[POOL] >= words[TOP] + words[HORIZON] * words[STATES] else tidy(words)


def tidy(words: Words) -> Words:
    """The same memory with room, and with the successors of all cells in order: plans then read them in one go."""
    pool = words.size - int(words[POOL])
    missing = int(words[TOP] + words[HORIZON] * words[STATES]) - pool
    fresh = np.zeros(words.size + (max(missing, pool) if missing > 0 else 0), dtype=np.int64)
    fresh[: words.size - pool] = words[: words.size - pool]
    lay_out(words, fresh)
    return fresh


@compiled
def lay_out(words: Words, fresh: Words) -> None:
    """Copy the pool of a memory cell by cell, and leave out what is no longer in use."""
    m, new = look(words), look(fresh)
    top = 0
    for cell in range(m.model.where.shape[0]):
        k, count = m.model.where[cell, START], m.model.where[cell, COUNT]
        used = room = count
        if count < m.head[STATES]:  # pairs, in a block of 1, 2, 4, … of them
            used, room = 2 * count, 2 if count > 0 else 0
            while room < used:
                room *= 2
        for i in range(used):
            new.model.next[top + i] = m.model.next[k + i]
        new.model.where[cell, START] = top
        top += room
    new.head[TOP] = top


@inlined
def has_room(m: Memory) -> bool:
    """Whether the pool has room for all the successors that one episode can add."""
    return bool(m.head[TOP] + m.head[HORIZON] * m.head[STATES] <= m.model.next.size)


@inlined
def refresh(m: Memory, cell: int) -> None:
    """Bring a cell's part of the optimistic model in line with its visits and answers."""
    c = U(cell)
    n, visits, horizon = m.counts[c, ANSWERED], m.counts[c, VISITS], m.head[HORIZON]
    scale = m.knobs[SCALE] if n > 0 else m.knobs[FIRST_SCALE]
    root = scale * reward_root(variance_of(m.notes[c, SQUARES], n), n)
    linear = scale * reward_linear(n)
    scale = m.knobs[SCALE] if visits > 0 else m.knobs[FIRST_SCALE]
    if m.head[LEARNER] == UCBVI_CODE:
        root += scale * ucbvi.model_root(visits, horizon)
        linear += scale * ucbvi.model_linear(visits, horizon)
    else:
        linear += scale * ulcvi.model_linear(visits, horizon, m.head[STATES])
    m.model.numbers[c, ROOT] = root
    m.model.numbers[c, LINEAR] = linear
    m.model.numbers[c, SHARE] = 1.0 / max(visits, 1)
    m.model.numbers[c, SINCE] = -math.inf  # what was seen of its successors is out of date


@compiled
def refresh_all(words: Words) -> None:
    """Bring the whole model in line."""
    m = look(words)
    for cell in range(m.counts.shape[0]):
        refresh(m, cell)


@inlined
def count_transition(m: Memory, cell: int, after: int) -> None:
    """One more transition from a cell to the state `after`."""
    states, where, ints, floats = m.head[STATES], m.model.where, m.model.next, m.model.weight
    k, count = where[U(cell), START], where[U(cell), COUNT]
    if count == states:
        floats[U(k + after)] += 1.0
        return
    for i in range(k, k + 2 * count, 2):
        if ints[U(i)] == after:
            floats[U(i + 1)] += 1.0
            return
    if count + 1 > m.head[FEW]:  # from now on one weight per state
        fresh = m.head[TOP]
        m.head[TOP] += states
        for i in range(k, k + 2 * count, 2):
            floats[fresh + ints[i]] = floats[i + 1]
        floats[fresh + after] = 1.0
        where[cell, START], where[cell, COUNT] = fresh, states
        return
    if count & (count - 1) == 0:  # the block is full at 0, 1, 2, 4, … pairs: move to one twice as large
        fresh = m.head[TOP]
        m.head[TOP] += 2 * max(2 * count, 1)
        for i in range(2 * count):
            ints[fresh + i] = ints[k + i]
        where[cell, START] = k = fresh
    ints[k + 2 * count] = after
    floats[k + 2 * count + 1] = 1.0
    where[cell, COUNT] = count + 1


@inlined
def was_seen(m: Memory, h: int, s: int) -> bool:
    """Whether state s was visited at step h."""
    first, seen = (h * m.head[STATES] + s) * m.head[ACTIONS], False
    for cell in range(first, first + m.head[ACTIONS]):
        seen = seen or m.counts[U(cell), VISITS] > 0
    return seen


@compiled
def list_states(words: Words) -> None:
    """List the states that were visited at each step, from the counts of visits."""
    m = look(words)
    for h in range(m.head[HORIZON]):
        m.model.many[h] = 0
        for s in range(m.head[STATES]):
            if was_seen(m, h, s):
                m.model.listed[h, m.model.many[h]] = s
                m.model.many[h] += 1


@inlined
def visit(m: Memory, h: int, s: int, a: int, after: int) -> None:
    """Step h led from state s with action a to the state `after` (−1 at the end of the episode)."""
    first = (h * m.head[STATES] + s) * m.head[ACTIONS]
    if not was_seen(m, h, s):  # states are listed in order, so that plans go through the memory in order
        place = m.model.many[h]
        while place > 0 and m.model.listed[h, place - 1] > s:
            m.model.listed[h, place] = m.model.listed[h, place - 1]
            place -= 1
        m.model.listed[h, place] = s
        m.model.many[h] += 1
    m.counts[U(first + a), VISITS] += 1
    if after >= 0:
        count_transition(m, first + a, after)


@inlined
def take_answer(m: Memory, cell: int, reward: float) -> None:
    """Count one answer of a cell, in such a way that equal answers deviate from their mean by exactly 0."""
    c = U(cell)
    m.counts[c, ANSWERED] += 1
    away = reward - m.model.numbers[c, MEAN]
    m.model.numbers[c, MEAN] += away / m.counts[c, ANSWERED]  # E10: the mean of the answers so far
    m.notes[c, SQUARES] += away * (reward - m.model.numbers[c, MEAN])
    refresh(m, cell)


@compiled
def restore_transition(words: Words, cell: int, after: int, times: float) -> None:
    """Put back what a saved agent has counted, successor by successor in the order of the first visits."""
    m = look(words)
    count_transition(m, cell, after)
    k, count = m.model.where[cell, START], m.model.where[cell, COUNT]
    if count == m.head[STATES]:
        m.model.weight[k + after] = times
    else:
        m.model.weight[k + 2 * count - 1] = times
