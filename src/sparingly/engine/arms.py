"""The compiled simulation of arms: the plain loop, and a sprint with the same result that skips what is certain.

In the sprint each context remembers its *leader*, the arm that surely has the largest index up to a certain age:
 · while the leader is asked about, it plays on as long as its index, with the level held back, beats the largest
   that any other arm can reach by that age;
 · while nothing is asked, only the clock moves, and whole stretches of rounds are taken in one step.
So the cost grows with asks and switches of leader, not with rounds. A test checks it against the plain loop.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.budgets import TAPED, units_at
from sparingly.compiling import apart, compiled, inlined
from sparingly.engine.plan import Record
from sparingly.families.arms import (
    ANSWERABLE,
    ANSWERED,
    ARMS,
    ASKED,
    CONTEXTS,
    COST,
    DENIED,
    LEARNER,
    MEAN,
    MOSS_ALPHA,
    OFFSET,
    RANDOM_TIES,
    RULE,
    SCALE,
    SHRINK,
    SLOTS,
    TIE,
    TOTAL,
    UNASKED,
    Memory,
    Words,
    age,
    choose,
    current_limit,
    index,
    keep_policy,
    level,
    look,
    past_action,
    play_round,
    refresh,
    settle,
    take_answer,
    tick,
)  # fmt: skip
from sparingly.learners import moss
from sparingly.learners.base import UCB1_CODE
from sparingly.ledger import GRANTED, REFUSED, SPENT, UNLIMITED, can_pay, spend
from sparingly.problems.rewards import BERNOULLI, coin, draw, edge
from sparingly.rules import GREEDY, wants

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

LEADER, SURE, STRIDE, WINDOW, MISSES, PAST = 0, 1, 2, 3, 4, 5  # columns of the table of leads
FLOOR, CEILING, RIVAL = 0, 1, 2  # columns of `bounds`
TINY = 1e-12  # far above the rounding error of an index, far below any difference that matters


class World(NamedTuple):
    """The truth of one run, cell by cell."""

    kind: int  # which distribution answers have
    spread: float  # its second parameter
    center: Floats  # (M,) its first parameter
    key: NDArray[np.uint64]  # (M,) the cell's randomness
    gap: Floats  # (M,) what playing the cell loses in expectation


class Block(NamedTuple):
    """What the world decided ahead for some consecutive rounds: their contexts and their budget."""

    first: int  # the first of the rounds
    length: int  # how many they are
    contexts: Integers  # (length,) u_t, or (1,) if there is only one context
    formula: int  # of B(t) and its parameters; or TAPED
    a: float
    b: float
    tape: Integers  # (length,) B(t) in millionths, where there is no formula


class Leads(NamedTuple):
    """What the sprint remembers of each context, from round to round.

    At every age up to SURE the LEADER has the largest index, as long as no arm of the context but the leader is asked
    about and, after each ask about it, its index with the level at FLOOR stays above RIVAL, the largest index that any
    other arm can have with the level at CEILING. RIVAL is infinite where nothing is known of later rounds or only of
    rounds without an ask: then the next ask ends the lead. FLOOR and CEILING hold up to age WINDOW.
    """

    table: Integers  # (S, 6) the leader, the age up to which it is sure, how far to look ahead, the age up to
    # which the bounds on the level hold, searches in vain, the arm of Greedy's past policy
    bounds: Floats  # (S, 3) a floor and a ceiling of the level, the largest index of any other arm at the ceiling


def new_leads(contexts: int) -> Leads:
    """Nothing is known yet."""
    table = np.zeros((contexts, 6), dtype=np.int64)
    table[:, STRIDE] = 1
    table[:, PAST] = -1
    return Leads(table, np.zeros((contexts, 3)))


@inlined
def granted_in(block: Block, j: int) -> int:
    """B in millionths, in round number j (0, 1, …) of the block."""
    if block.formula == TAPED:
        return int(block.tape[j])
    return units_at(block.formula, block.a, block.b, block.first + j)


@inlined
def context_in(block: Block, j: int) -> int:
    """u in round number j of the block."""
    return int(block.contexts[min(j, block.contexts.size - 1)])


@compiled
def run_block(words: Words, world: World, record: Record, mark: int, leads: Leads, block: Block, skip: bool) -> int:
    """Play the rounds of a block; `mark` is the next place in the record, and so is the result."""
    m = look(words)
    i = 0
    while i < block.length:
        stop = block.length
        if mark < record.rounds.size:
            stop = min(stop, record.rounds[mark] - block.first + 1)
        if skip:
            sprint(m, world, record.plays, leads, block, i, stop)
        else:
            for j in range(i, stop):
                plain_round(m, world, record.plays, context_in(block, j), granted_in(block, j))
        i = stop
        if mark < record.rounds.size and block.first + i - 1 == record.rounds[mark]:
            note(m, world, record, mark)
            mark += 1
    return mark


@apart
def note(m: Memory, world: World, record: Record, mark: int) -> None:
    """Write down where the run stands."""
    regret, asked = 0.0, 0
    for cell in range(record.plays.size):
        regret += record.plays[cell] * world.gap[cell]
        asked += m.counts[cell, ASKED]
    record.regret[mark] = regret
    record.asked[mark] = asked
    record.spent[mark] = m.account[SPENT]
    record.budget[mark] = m.account[GRANTED]


@inlined
def answer(m: Memory, world: World, cell: int) -> None:
    """The answer to the ask just counted comes at once."""
    k = m.counts[cell, ASKED] - 1
    take_answer(m, cell, draw(world.kind, world.center[cell], world.spread, world.key[cell], k))


@inlined
def plain_round(m: Memory, world: World, plays: Integers, u: int, granted: int) -> None:
    """One round, as the Agent would play it."""
    m.account[GRANTED] = granted
    a, ending = play_round(m, u)
    cell = u * m.head[ARMS] + a
    plays[cell] += 1
    if ending == ANSWERABLE:
        answer(m, world, cell)


@apart
def sprint(m: Memory, world: World, plays: Integers, leads: Leads, block: Block, i: int, stop: int) -> None:
    """The rounds i … stop − 1 of a block, skipping what is certain."""
    alone = m.head[CONTEXTS] == 1
    greedy = m.head[RULE] == GREEDY
    m.account[GRANTED] = granted_in(block, i)
    most = current_limit(m)
    while i < stop:
        u, granted = context_in(block, i), granted_in(block, i)
        if granted != m.account[GRANTED]:
            m.account[GRANTED] = granted
            most = current_limit(m)
        now = age(m, u) + 1
        if now > leads.table[u, SURE]:
            find_leader(m, leads, u, now)
        cell = u * m.head[ARMS] + leads.table[u, LEADER]
        payable = can_pay(m.account, m.counts[cell, COST])
        wanted = greedy or wants(m.head[RULE], m.counts[cell, ASKED], most, m.counts[cell, COST])
        if greedy and not payable:
            i += coast_on_past(m, plays, leads, block, u, cell, i, stop)
            continue
        if greedy:
            tick(m, u, 1)  # the policies that are kept are those of this round
            keep_policy(m)
            tick(m, u, -1)
            leads.table[:, PAST] = -1
        if wanted and payable and alone and not greedy:
            i += ride(m, world, plays, leads, cell, most, stop - i)
            continue
        tick(m, u, 1)
        plays[cell] += 1
        ending = settle(m, cell, wanted)
        i += 1
        if ending == ANSWERABLE:
            answer(m, world, cell)
            if index(m.head[LEARNER], m.values, cell, leads.bounds[u, FLOOR]) <= leads.bounds[u, RIVAL]:
                leads.table[u, SURE] = 0
            continue
        if now >= leads.table[u, SURE] and patient(leads, u):
            look_ahead(m, leads, u, now, now + stop - i)
        if alone:
            rest = min(stop - i, leads.table[u, SURE] - now)
            rest = same_ending(m, cell, ending, block, i, i + rest)
            tick(m, u, rest)
            plays[cell] += rest
            if ending == DENIED:
                m.account[REFUSED] += rest
            i += rest
    m.account[GRANTED] = granted_in(block, stop - 1)  # of the last round, even if it was skipped


@inlined
def coast_on_past(m: Memory, plays: Integers, leads: Leads, block: Block, u: int, cell: int, i: int, stop: int) -> int:
    """Play Greedy's past policy while the leader's cell cannot be paid for; how many rounds that took."""
    certain = m.head[SLOTS] == 1 and m.head[TIE] != RANDOM_TIES  # then the past policy plays one arm per context
    if not certain or leads.table[u, PAST] < 0:
        leads.table[u, PAST] = past_action(m, u)
    if m.head[TIE] == RANDOM_TIES and leads.bounds[u, RIVAL] == math.inf:
        leads.table[u, SURE] = 0  # a tie is drawn anew in every round
    rounds = 1
    if certain and m.head[CONTEXTS] == 1:
        rounds += same_ending(m, cell, UNASKED, block, i + 1, stop)
    plays[u * m.head[ARMS] + leads.table[u, PAST]] += rounds
    return rounds


@inlined
def ride(m: Memory, world: World, plays: Integers, leads: Leads, cell: int, most: int, rounds: int) -> int:
    """Play the leader of the only context and ask, once and then while it surely leads and the rule surely asks.

    index > rival is n·mean + n·bonus > n·rival. The first term grows by the answer, the last by `rival`, and the
    middle one stays above `earned` for a while: so the leader plays on while the `slack` is positive.
    """
    floor, rival, kind = leads.bounds[0, FLOOR], leads.bounds[0, RIVAL], m.head[LEARNER]
    center, key = world.center[cell], world.key[cell]
    cost, asked = m.counts[cell, COST], m.counts[cell, ASKED]
    rounds = min(rounds, leads.table[0, SURE] - age(m, 0), most - asked + 1)
    if cost > 0 and m.account[GRANTED] < UNLIMITED:
        rounds = min(rounds, (m.account[GRANTED] - m.account[SPENT]) // cost)
    if rival == math.inf or rounds < 1:  # nothing is known of later rounds, or what is free is beyond the limit
        rounds = 1
    done = 0
    while done < rounds:
        n = asked + done
        batch = min(rounds - done, n // 8 + 16)
        total = m.values[cell, TOTAL]
        slack = total + earned(m, n, batch, floor) - n * (rival + TINY)
        if world.kind == BERNOULLI:
            ones, k = take_coins(center, key, n, batch, slack, rival)
            total += ones
        else:
            k = 0
            while k == 0 or (slack > 0.0 and k < batch):
                reward = draw(world.kind, center, world.spread, key, n + k)
                total += reward
                slack += reward - rival
                k += 1
        done += k
        m.values[cell, TOTAL] = total
        m.counts[cell, ANSWERED] = asked + done
        refresh(m, cell)
        if index(kind, m.values, cell, floor) <= rival:
            leads.table[0, SURE] = 0
            break
    m.counts[cell, ASKED] = asked + done
    spend(m.account, cost, done)
    tick(m, 0, done)
    plays[cell] += done
    return done


@inlined
def take_coins(center: float, key: np.uint64, first: int, most: int, slack: float, rival: float) -> tuple[int, int]:
    """Answers of a Bernoulli cell from the `first` on, until the slack is used up: their sum and their number.

    Whole numbers add up in any order, so as many are taken at once as could all be 0 without an end of the ride.
    """
    level = edge(center)
    ones, k = 0, 0
    while True:
        left = slack + ones - k * rival
        if left > 32.0 * rival:
            safe = most - k if left >= (most - k) * rival else int(left / rival)
            for place in range(first + k, first + k + safe):
                ones += coin(level, key, place)
            k += safe
        else:
            ones += coin(level, key, first + k)
            k += 1
        if k == most or slack + ones - k * rival <= 0.0:
            return ones, k


@inlined
def earned(m: Memory, n: int, ahead: int, floor: float) -> float:
    """No more than n'·bonus(n') for all counts n' from n to n + ahead, at this level."""
    if m.head[LEARNER] == UCB1_CODE:
        return floor * math.sqrt(n)
    return math.sqrt(n * max(0.0, floor - moss.offset(n + ahead, m.knobs[SCALE], m.knobs[MOSS_ALPHA])))


@apart
def same_ending(m: Memory, cell: int, ending: int, block: Block, i: int, stop: int) -> int:
    """For how many of the rounds i … stop − 1 a cell's round would end like this one, if nothing else changes.

    Budgets only grow, so that what holds in the last of them holds in all; otherwise the change is bisected.
    """
    if i >= stop:
        return 0
    granted = m.account[GRANTED]
    low, high = i - 1, stop  # the ending is the same at `low`; it has changed at `high`
    probe = stop - 1
    while high - low > 1:
        m.account[GRANTED] = granted_in(block, probe)
        if ending_of(m, cell) == ending:
            low = probe
        else:
            high = probe
        probe = (low + high) // 2
    m.account[GRANTED] = granted
    return high - i


@inlined
def ending_of(m: Memory, cell: int) -> int:
    """How a round with this cell would end now, without playing it."""
    payable = can_pay(m.account, m.counts[cell, COST])
    if m.head[RULE] == GREEDY:
        return ANSWERABLE if payable else UNASKED
    if not wants(m.head[RULE], m.counts[cell, ASKED], current_limit(m), m.counts[cell, COST]):
        return UNASKED
    return ANSWERABLE if payable else DENIED


@inlined
def level_bound(m: Memory, level: float, now: int, rounds: int) -> float:
    """No less than the level at age now + rounds: the logarithm stays below its tangent."""
    growth = m.knobs[SCALE] * m.knobs[SCALE] * rounds / now
    if m.head[LEARNER] == UCB1_CODE:
        return math.sqrt(level * level + 1.5 * growth) * (1.0 + TINY)
    return level + float(0.5 * (1.0 + m.knobs[MOSS_ALPHA]) * growth) + TINY * (1.0 + abs(level))


@inlined
def patient(leads: Leads, u: int) -> bool:
    """Whether to search for a certain leader: always at first, in one round of eight after four searches in vain."""
    return bool(leads.table[u, MISSES] < 4 or leads.table[u, MISSES] % 8 == 0)


@inlined
def find_leader(m: Memory, leads: Leads, u: int, now: int) -> None:
    """The arm that `choose` would choose at age `now`, and how long it surely leads if only it is asked about.

    First with the bounds on the level that still hold from an earlier search, then exactly.
    """
    hopeful = patient(leads, u)
    if hopeful and now <= leads.table[u, WINDOW] and certain_leader(m, leads, u):
        leads.table[u, SURE] = leads.table[u, WINDOW]
        leads.table[u, MISSES] = 0
        return
    stride = leads.table[u, STRIDE]
    exact = level(m, now)
    leads.bounds[u, FLOOR] = exact
    leads.bounds[u, CEILING] = level_bound(m, exact, now, stride)
    leads.table[u, WINDOW] = now + stride
    if hopeful and certain_leader(m, leads, u):
        leads.table[u, MISSES] = 0
        leads.table[u, SURE] = now + stride
        leads.table[u, STRIDE] = min(stride + stride // 2 + 1, now // 64 + 1)
    else:
        leads.table[u, LEADER] = choose(m.head, m.values, u * m.head[ARMS], exact, m.random)
        leads.table[u, SURE] = now
        leads.table[u, MISSES] += 1
        leads.bounds[u, RIVAL] = math.inf
        leads.table[u, STRIDE] = max(stride // 4, 1)


@inlined
def certain_leader(m: Memory, leads: Leads, u: int) -> bool:
    """Whether one arm, with the level at its floor, beats all others with the level at its ceiling."""
    kind, first = m.head[LEARNER], u * m.head[ARMS]
    ceiling = leads.bounds[u, CEILING]
    arm, top, second = 0, index(kind, m.values, first, ceiling), -math.inf
    for a in range(1, m.head[ARMS]):  # without branches, which no processor could foresee
        value = index(kind, m.values, first + a, ceiling)
        second = max(second, min(top, value))
        arm = a if value > top else arm
        top = max(top, value)
    if not index(kind, m.values, first + arm, leads.bounds[u, FLOOR]) > second:
        return False
    leads.table[u, LEADER] = arm
    leads.bounds[u, RIVAL] = second
    return True


@apart
def look_ahead(m: Memory, leads: Leads, u: int, now: int, last: int) -> None:
    """How long the leader surely leads if nothing is asked: double the distance while it does."""
    step, sure = 1, now
    while sure < last:
        ahead = min(now + step, last)
        if not leads_until(m, u, leads.table[u, LEADER], now, ahead):
            break
        sure = ahead
        step *= 2
    leads.table[u, SURE] = sure
    if sure > now:
        leads.table[u, MISSES] = 0
    leads.bounds[u, RIVAL] = math.inf  # holds for frozen statistics only: an ask ends it


@inlined
def leads_until(m: Memory, u: int, leader: int, now: int, ahead: int) -> bool:
    """Whether arm `leader`, with the statistics as they are, has the largest index at every age in [now, ahead].

    Equal counts: the means decide, whatever the level. UCB1: the difference of two indices is linear in the
    level, so it is enough to look at both ends. MOSS: the leader now must beat the others then.
    """
    kind, first = m.head[LEARNER], u * m.head[ARMS]
    mine = first + leader
    near, far = level(m, now), level(m, ahead)
    mine_near, mine_far = index(kind, m.values, mine, near), index(kind, m.values, mine, far)
    for a in range(m.head[ARMS]):
        other = first + a
        if a == leader:
            continue
        if m.values[other, SHRINK] == m.values[mine, SHRINK] and m.values[other, OFFSET] == m.values[mine, OFFSET]:
            same = m.values[other, MEAN] == m.values[mine, MEAN] and leader < a and m.head[TIE] != RANDOM_TIES
            if not same and not m.values[mine, MEAN] > m.values[other, MEAN] + TINY * (1.0 + far):
                return False
            continue
        other_far = index(kind, m.values, other, far)
        if kind == UCB1_CODE:
            slack = TINY * (1.0 + other_far)
            if not (mine_near > index(kind, m.values, other, near) + slack and mine_far > other_far + slack):
                return False
        elif not mine_near > other_far:
            return False
    return True
