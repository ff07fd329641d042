"""The simulator's loop for arms: every round played, or a sprint with the same result that skips what is certain.

In the sprint each context remembers its *leader*, the arm that surely has the largest index up to a certain age:
 · while the leader is asked about, it plays on as long as its index, with the level held back, beats the largest
   that any other arm can reach by that age;
 · while nothing is asked, only the clock moves, and whole stretches of rounds are taken in one step.
So the cost grows with asks and switches of leader, not with rounds. A test checks it against the plain loop.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.budgets import TAPED, units_at
from sparingly.ledger import UNLIMITED, can_pay, spend
from sparingly.numba_support import apart, compiled, inlined, record
from sparingly.problems.rewards import BERNOULLI, coin, draw, edge
from sparingly.rules.dispatch import NO_CEILING, NO_EARNINGS, NO_LIMIT, kinds_for, ladder
from sparingly.rules.pacing import UNKNOWN
from sparingly.simulation.record import Record, is_due, write
from sparingly.tabular.learners import LEARNERS
from sparingly.tabular.memory import Memory, Words, look
from sparingly.tabular.round import (
    ANSWERABLE,
    DENIED,
    UNASKED,
    age,
    best_estimate,
    charge_for,
    choose,
    estimate_of,
    index_of,
    keep_policy,
    level_at,
    limit_of,
    past_action,
    play_round,
    question_about,
    refresh,
    streak_of,
    take_answer,
    tick,
    wants,
)

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

TINY = 1e-12  # far above the rounding error of an index, far below any difference that matters

ceiling_of = ladder("ceiling", LEARNERS, kinds_for(LEARNERS, "ceiling", "level", NO_CEILING), "level, now, rounds")
earned_of = ladder("earned", LEARNERS, kinds_for(LEARNERS, "earned", "level", NO_EARNINGS), "answers, ahead, level")


class TrueArms(NamedTuple):
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


LEAD = record(  # what the sprint remembers of one context, from round to round
    # At every age up to `sure` the leader has the largest index, as long as no arm of the context but the leader is
    # asked about and, after each ask about it, its index with the level at `floor` stays above `rival`, the largest
    # index that any other arm can have with the level at `ceiling`. `rival` is infinite where nothing is known of later
    # rounds or only of rounds without an ask: then the next ask ends the lead.
    leader=np.int64,  # an arm
    sure=np.int64,  # the age up to which it is sure
    stride=np.int64,  # how far to look ahead
    window=np.int64,  # the age up to which `floor` and `ceiling` bound the level
    misses=np.int64,  # searches in vain
    past=np.int64,  # the arm of Greedy's past policy, −1 if that has to be found
    floor=np.float64,
    ceiling=np.float64,
    rival=np.float64,
)
Leads = NDArray[Any]  # (S,) of LEAD


def new_leads(contexts: int) -> Leads:
    """Nothing is known yet."""
    leads = np.zeros(contexts, dtype=LEAD)
    leads["stride"], leads["past"] = 1, -1
    return leads


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
def run_block(
    words: Words, own: Any, truth: TrueArms, record: Record, mark: int, leads: Leads, block: Block, skip: bool
) -> int:
    """Play the rounds of a block; `mark` is the next place in the record, and so is the result."""
    m = look(words, own)
    i = 0
    while i < block.length:
        stop = block.length
        if mark < record.rounds.size:
            stop = min(stop, record.rounds[mark] - block.first + 1)
        if skip:
            sprint(m, truth, record.plays, leads, block, i, stop)
        else:
            for j in range(i, stop):
                plain_round(m, truth, record.plays, context_in(block, j), granted_in(block, j))
        i = stop
        if is_due(record, mark, block.first + i - 1):
            note(m, truth, record, mark)
            mark += 1
    return mark


@apart
def note(m: Memory, truth: TrueArms, record: Record, mark: int) -> None:
    """Write down where the run stands."""
    regret, asked = 0.0, 0
    for cell in range(record.plays.size):
        regret += record.plays[cell] * truth.gap[cell]
        asked += m.counts[cell].asked
    write(record, mark, regret, asked, m.account)


@inlined
def answer(m: Memory, truth: TrueArms, cell: int) -> None:
    """The answer to the ask just counted comes at once."""
    k = m.counts[cell].asked - 1
    take_answer(m, cell, draw(truth.kind, truth.center[cell], truth.spread, truth.key[cell], k))


@inlined
def plain_round(m: Memory, truth: TrueArms, plays: Integers, u: int, granted: int) -> None:
    """One round, as the Agent would play it."""
    m.account[0].granted = granted
    a, ending = play_round(m, u)
    cell = u * m.head[0].arms + a
    plays[cell] += 1
    if ending == ANSWERABLE:
        answer(m, truth, cell)


@inlined
def current_limit(m: Memory) -> int:
    """The rule's limit on counts under the budget of this moment: the same for all cells."""
    return int(limit_of(m.own, m.head[0].rule, m.rule, question_about(m, 0)))


@inlined
def wants_within(m: Memory, cell: int, most: int) -> bool:
    """`wants`, given the rule's limit, if it has one: what costs something is asked about just if n^q is within it."""
    if most == NO_LIMIT:
        return wants(m, cell)
    return bool(m.counts[cell].asked <= most or (m.counts[cell].cost == 0 and wants(m, cell)))


@apart
def sprint(m: Memory, truth: TrueArms, plays: Integers, leads: Leads, block: Block, i: int, stop: int) -> None:
    """The rounds i … stop − 1 of a block, skipping what is certain."""
    head = m.head[0]
    alone, greedy = head.contexts == 1, head.slots > 0
    m.account[0].granted = granted_in(block, i)
    most = current_limit(m)
    while i < stop:
        u, granted = context_in(block, i), granted_in(block, i)
        if granted != m.account[0].granted:
            m.account[0].granted = granted
            most = current_limit(m)
        now, lead = age(m, u) + 1, leads[u]
        if now > lead.sure:
            find_leader(m, leads, u, now)
        cell = u * head.arms + lead.leader
        payable = can_pay(m.account, m.counts[cell].cost)
        wanted = wants_within(m, cell, most)
        if greedy and not payable:
            i += coast_on_past(m, plays, leads, block, u, cell, i, stop)
            continue
        if greedy:
            tick(m, u, 1)  # the policies that are kept are those of this round
            keep_policy(m)
            tick(m, u, -1)
            for other in range(leads.size):
                leads[other].past = -1
        if wanted and payable and alone and not greedy:
            i += ride(m, truth, plays, leads, cell, most, stop - i)
            continue
        tick(m, u, 1)
        ending = charge_for(m, cell, wanted)
        i += 1
        if ending == ANSWERABLE:
            plays[cell] += 1
            answer(m, truth, cell)
            if index_of(m.own, head.learner, m.learner, m.estimates[cell], lead.floor) <= lead.rival:
                lead.sure = 0
            continue
        if now >= lead.sure and patient(leads, u):
            look_ahead(m, leads, u, now, now + stop - i)
        rest = 0
        if alone:
            rest = min(stop - i, lead.sure - now)
            rest = same_ending(m, cell, ending, block, i, i + rest)
            tick(m, u, rest)
            if ending == DENIED:
                m.account[0].refused += rest
            i += rest
        if head.exploits:
            exploit(m, plays, u, lead.leader, rest + 1)
        else:
            plays[cell] += rest + 1
    m.account[0].granted = granted_in(block, stop - 1)  # of the last round, even if it was skipped


@inlined
def exploit(m: Memory, plays: Integers, u: int, leader: int, rounds: int) -> None:
    """Play the best estimate of a context for some rounds in which nothing is asked; ties are drawn in every round."""
    first, best, tied = u * m.head[0].arms, best_estimate(m, u, leader), 0
    for cell in range(first, first + m.head[0].arms):
        tied += estimate_of(m, cell) == estimate_of(m, first + best)
    plays[first + best] += 1
    if tied > 1 and m.head[0].random_ties:
        for _ in range(rounds - 1):
            plays[first + best_estimate(m, u, leader)] += 1
    else:
        plays[first + best] += rounds - 1


@inlined
def coast_on_past(m: Memory, plays: Integers, leads: Leads, block: Block, u: int, cell: int, i: int, stop: int) -> int:
    """Play Greedy's past policy while the leader's cell cannot be paid for; how many rounds that took."""
    head, lead = m.head[0], leads[u]
    certain = head.slots == 1 and not head.random_ties  # then the past policy plays one arm per context
    if not certain or lead.past < 0:
        lead.past = past_action(m, u)
    if head.random_ties and lead.rival == math.inf:
        lead.sure = 0  # a tie is drawn anew in every round
    rounds = 1
    if certain and head.contexts == 1:
        rounds += same_ending(m, cell, UNASKED, block, i + 1, stop)
    plays[u * head.arms + lead.past] += rounds
    return rounds


@inlined
def ride(m: Memory, truth: TrueArms, plays: Integers, leads: Leads, cell: int, most: int, rounds: int) -> int:
    """Play the leader of the only context and ask, once and then while it surely leads and the rule surely asks.

    index > rival is n·mean + n·bonus > n·rival. The first term grows by the answer, the last by `rival`, and the
    middle one stays above `earned` for a while: so the leader plays on while the `slack` is positive.
    """
    head, lead, counts, estimate = m.head[0], leads[0], m.counts[cell], m.estimates[cell]
    floor, rival, kind = lead.floor, lead.rival, head.learner
    center, key = truth.center[cell], truth.key[cell]
    cost, asked = counts.cost, counts.asked
    if most == NO_LIMIT:
        rounds = min(rounds, streak_of(m.own, head.rule, m.rule, question_about(m, cell)))
    else:
        rounds = min(rounds, most - asked + 1)
    rounds = min(rounds, lead.sure - age(m, 0))
    if cost > 0 and m.account[0].granted < UNLIMITED:
        rounds = min(rounds, (m.account[0].granted - m.account[0].spent) // cost)
    if rival == math.inf or rounds < 1:  # nothing is known of later rounds, or what is free is beyond the limit
        rounds = 1
    done = 0
    while done < rounds:
        n = asked + done
        batch = min(rounds - done, n // 8 + 16)
        total, slack = estimate.total, -math.inf
        if rival < math.inf:
            slack = total + earned_of(m.own, kind, m.learner, n, batch, floor) - n * (rival + TINY)
        if truth.kind == BERNOULLI:
            ones, k = take_coins(center, key, n, batch, slack, rival)
            total += ones
        else:
            k = 0
            while k == 0 or (slack > 0.0 and k < batch):
                reward = draw(truth.kind, center, truth.spread, key, n + k)
                total += reward
                slack += reward - rival
                k += 1
        done += k
        estimate.total = total
        counts.asked = counts.answered = asked + done
        refresh(m, cell)
        if index_of(m.own, kind, m.learner, estimate, floor) <= rival:
            lead.sure = 0
            break
    m.pace.state[0].kappa = UNKNOWN  # its excess has to be summed up anew
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
    if slack == -math.inf:
        return int(coin(level, key, first)), 1
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


@apart
def same_ending(m: Memory, cell: int, ending: int, block: Block, i: int, stop: int) -> int:
    """For how many of the rounds i … stop − 1 a cell's round would end like this one, if nothing else changes.

    Budgets only grow, so that what holds in the last of them holds in all; otherwise the change is searched for, in
    steps that double from the first round on, then by bisection.
    """
    if i >= stop:
        return 0
    granted = m.account[0].granted
    low, high = i - 1, stop  # the ending is the same at `low`; it has changed at `high`
    probe, step = stop - 1, 1
    while high - low > 1:
        m.account[0].granted = granted_in(block, probe)
        if ending_of(m, cell) == ending:
            low = probe
        else:
            high = probe
        probe = min(low + step, (low + high) // 2)
        step *= 2
    m.account[0].granted = granted
    return high - i


@inlined
def ending_of(m: Memory, cell: int) -> int:
    """How a round with this cell would end now, without playing it."""
    if not wants(m, cell):
        return UNASKED
    return ANSWERABLE if can_pay(m.account, m.counts[cell].cost) else DENIED


@inlined
def patient(leads: Leads, u: int) -> bool:
    """Whether to search for a certain leader: always at first, in one round of eight after four searches in vain."""
    return bool(leads[u].misses < 4 or leads[u].misses % 8 == 0)


@inlined
def find_leader(m: Memory, leads: Leads, u: int, now: int) -> None:
    """The arm that `choose` would choose at age `now`, and how long it surely leads if only it is asked about.

    First with the bounds on the level that still hold from an earlier search, then exactly.
    """
    hopeful, lead = patient(leads, u), leads[u]
    if hopeful and now <= lead.window and certain_leader(m, leads, u):
        lead.sure = lead.window
        lead.misses = 0
        return
    stride = lead.stride
    exact = level_at(m, now)
    lead.floor = exact
    lead.ceiling = ceiling_of(m.own, m.head[0].learner, m.learner, exact, now, stride)
    lead.window = now + stride
    if hopeful and certain_leader(m, leads, u):
        lead.misses = 0
        lead.sure = now + stride
        lead.stride = min(stride + stride // 2 + 1, now // 64 + 1)
    else:
        lead.leader = choose(m, m.estimates, u * m.head[0].arms, exact)
        lead.sure = now
        lead.misses += 1
        lead.rival = math.inf
        lead.stride = max(stride // 4, 1)


@inlined
def certain_leader(m: Memory, leads: Leads, u: int) -> bool:
    """Whether one arm, with the level at its floor, beats all others with the level at its ceiling."""
    head, lead, own, numbers = m.head[0], leads[u], m.own, m.learner
    kind, first, ceiling = head.learner, u * head.arms, lead.ceiling
    arm, top, second = 0, index_of(own, kind, numbers, m.estimates[first], ceiling), -math.inf
    for a in range(1, head.arms):  # without branches, which no processor could foresee
        value = index_of(own, kind, numbers, m.estimates[first + a], ceiling)
        second = max(second, min(top, value))
        arm = a if value > top else arm
        top = max(top, value)
    if not index_of(own, kind, numbers, m.estimates[first + arm], lead.floor) > second:
        return False
    lead.leader = arm
    lead.rival = second
    return True


@apart
def look_ahead(m: Memory, leads: Leads, u: int, now: int, last: int) -> None:
    """How long the leader surely leads if nothing is asked: double the distance while it does."""
    step, sure, lead = 1, now, leads[u]
    while sure < last:
        ahead = min(now + step, last)
        if not leads_until(m, u, lead.leader, now, ahead):
            break
        sure = ahead
        step *= 2
    lead.sure = sure
    if sure > now:
        lead.misses = 0
    lead.rival = math.inf  # holds for frozen statistics only: an ask ends it


@inlined
def leads_until(m: Memory, u: int, leader: int, now: int, ahead: int) -> bool:
    """Whether arm `leader`, with the statistics as they are, has the largest index at every age in [now, ahead].

    Equal counts: the means decide, whatever the level. An index that is linear in the level: so is the difference of
    two, and it is enough to look at both ends. Any other: the leader now must beat the others then.
    """
    head, own, numbers = m.head[0], m.own, m.learner
    kind, first, mine = head.learner, u * head.arms, m.estimates[u * head.arms + leader]
    near, far = level_at(m, now), level_at(m, ahead)
    mine_near, mine_far = index_of(own, kind, numbers, mine, near), index_of(own, kind, numbers, mine, far)
    for a in range(head.arms):
        other = m.estimates[first + a]
        if a == leader:
            continue
        if other.shrink == mine.shrink and other.offset == mine.offset:
            same = other.average == mine.average and leader < a and not head.random_ties
            if not same and not mine.average > other.average + TINY * (1.0 + far):
                return False
            continue
        other_far = index_of(own, kind, numbers, other, far)
        if head.straight:
            slack = TINY * (1.0 + other_far)
            if not (mine_near > index_of(own, kind, numbers, other, near) + slack and mine_far > other_far + slack):
                return False
        elif not mine_near > other_far:
            return False
    return True
