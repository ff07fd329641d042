"""One round with arms or contextual arms: propose, Question, asks, settle, learn. Agent and simulator share it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparingly.ledger import UNLIMITED, charge, question_of, refund, spend, without_arrays
from sparingly.numba_support import apart, compiled, inlined
from sparingly.protocol import Question
from sparingly.randomness import uniform
from sparingly.reasons import ASKED, BLIND, DECLINED, EXPLOITED, EXPLORED, PAST, STEP
from sparingly.reasons import DENIED as DENIED_BY_BUDGET
from sparingly.rules import RULES
from sparingly.rules.balanced import count_excess
from sparingly.rules.dispatch import (
    NO_BOUNDS,
    NO_LIMIT,
    NO_REASON,
    NO_ROAMING,
    NO_SAMPLE,
    NO_STREAK,
    kinds_for,
    ladder,
)
from sparingly.rules.greedy import draw_slot, offer, store
from sparingly.rules.pacing import UNKNOWN, take_score
from sparingly.tabular.forgetting import (
    add_answer,
    add_ask,
    budget_remembered,
    drop_ask,
    faded,
    pass_rounds,
    rounds_remembered,
    sum_up_costs,
    visits_remembered,
)
from sparingly.tabular.learner import ESTIMATE
from sparingly.tabular.learners import LEARNERS
from sparingly.tabular.memory import ESTIMATE_WORDS, Floats, Memory, Words, look
from sparingly.tabular.shares import budget_in_shares, find_floor, give_back, share_out

UNASKED, ANSWERABLE, DENIED = 0, 1, 2  # how a round can end: not asked, asked, refused by the ledger

level_of = ladder("level", LEARNERS, kinds_for(LEARNERS, "level"), "rounds")
offset_of = ladder("offset", LEARNERS, kinds_for(LEARNERS, "offset"), "answers")
index_of = ladder("index", LEARNERS, kinds_for(LEARNERS, "index"), "estimate, level")
sample_of = ladder("sample", LEARNERS, kinds_for(LEARNERS, "sample", "level", NO_SAMPLE), "estimate, level, random")
bounds_of = ladder("bounds", LEARNERS, kinds_for(LEARNERS, "bounds", "level", NO_BOUNDS), "estimate, level")
roams_of = ladder("roams", LEARNERS, kinds_for(LEARNERS, "roams", "level", NO_ROAMING), "random")
asks_about = ladder("asks", RULES, kinds_for(RULES, "tabular"), "question")
streak_of = ladder("streak", RULES, kinds_for(RULES, "streak", "tabular", NO_STREAK), "question")
reason_of = ladder("reason", RULES, kinds_for(RULES, "reason", "tabular", NO_REASON), "question")
promise_of = ladder("promise", RULES, kinds_for(RULES, "promise", "tabular", NO_LIMIT), "question")
limit_of = ladder("limit", RULES, kinds_for(RULES, "limit", "tabular", NO_LIMIT), "question")


@compiled
def cell_width(asked: float, rounds: int, cells: int) -> float:
    """CI_t = 2 b^r = sqrt(6 log(Mt)/(n^q ∨ 1)) (E3)."""
    return math.sqrt(6.0 * math.log(max(cells * rounds, 2)) / max(asked, 1))


@compiled
def width_at(limit: int, rounds: int, cells: int) -> float:
    """A limit on counts as a threshold on widths: the width of a cell that was asked about `limit` times."""
    if limit < 0:
        return math.nan if limit == NO_LIMIT else math.inf
    return 0.0 if limit >= UNLIMITED else cell_width(limit, rounds, cells)


@inlined
def forgets(m: Memory) -> bool:
    """Whether the learner forgets."""
    return bool(m.head[0].forgets)


@inlined
def sums_of(m: Memory, cell: int) -> tuple[float, float, float]:
    """What is known of a cell: the sum of its answers, how many they are, and how often it was tried.

    A cell is tried by an ask, and by an answer that comes without one. With a learner that forgets, older rounds weigh
    less in all three.
    """
    if forgets(m):
        return faded(m, cell)
    counts = m.counts[cell]
    answers, tries = counts.answered + counts.taught, counts.asked + counts.taught
    return m.estimates[cell].total, float(answers), float(tries)


@inlined
def refresh(m: Memory, cell: int) -> None:
    """Bring the derived numbers of one cell in line with its answers, and with its asks.

    Where a rule exploits, exploration shrinks with asks: one that nobody answers does not stay promising for ever.
    """
    counts, estimate, head = m.counts[cell], m.estimates[cell], m.head[0]
    total, heard, tries = sums_of(m, cell)
    answers, n = heard + head.weight, (tries if head.exploits else heard) + head.weight
    total += head.weight * head.guess
    if counts.cost < 0:
        estimate.average = -math.inf  # a cell that was retired is never the best
    elif answers > 0:
        estimate.average = total / answers  # E10: the mean of the answers so far
    else:
        estimate.average = head.unknown if n == 0 else 0.0
    if head.hopeful and n > 0 and counts.cost >= 0:
        estimate.average += (1.0 - estimate.average) / (n + 1)  # as if one answer more had been a 1
    estimate.shrink = 1.0 / math.sqrt(max(n, 1))
    estimate.offset = offset_of(m.own, head.learner, m.learner, heard if head.answers_only else n)


@compiled
def refresh_all(words: Words, own: Any) -> None:
    """Bring the derived numbers of every cell in line with the answers."""
    derive(look(words, own))


@inlined
def derive(m: Memory) -> None:
    """Everything that follows from the counts and the answers."""
    for cell in range(m.counts.size):
        refresh(m, cell)
    if m.before.size > 0:
        find_floor(m)


@inlined
def age(m: Memory, u: int) -> int:
    """The learner's clock in context u; the rounds that it remembers, if it forgets."""
    if forgets(m):
        return max(int(visits_remembered(m, u) + 0.5), 1) if m.head[0].per_context else rounds_remembered(m)
    return int(m.clock[1 + u] if m.head[0].per_context else m.clock[0])


@inlined
def rounds_lived(m: Memory) -> int:
    """t, as widths count it: the rounds that the learner has lived through and not forgotten."""
    return rounds_remembered(m) if forgets(m) else int(m.clock[0])


@inlined
def visits_of(m: Memory, u: int) -> float:
    """v_u: how often a context came, as far as that is not forgotten."""
    return visits_remembered(m, u) if forgets(m) else float(m.clock[1 + u])


@inlined
def level_at(m: Memory, age: int) -> float:
    """What the learner's exploration has grown to at this age."""
    return float(level_of(m.own, m.head[0].learner, m.learner, age))


@inlined
def choose(m: Memory, estimates: Any, first: int, level: float) -> int:
    """The arm with the largest index, among the cells `first`, `first` + 1, … of one context; or one that is drawn."""
    if m.head[0].samples:
        return draw_choice(m, estimates, first, level)
    kind, own, numbers, arms, best = m.head[0].learner, m.own, m.learner, m.head[0].arms, 0
    while estimates[first + best].average == -math.inf and best < arms - 1:  # retired
        best += 1
    top, tied = index_of(own, kind, numbers, estimates[first + best], level), 1
    for a in range(best + 1, arms):
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
def draw_choice(m: Memory, estimates: Any, first: int, level: float) -> int:
    """The arm of a learner that chooses at random: any, if it roams, or the one with the largest sample."""
    kind, own, numbers = m.head[0].learner, m.own, m.learner
    roams, best, top, tied = roams_of(own, kind, numbers, m.random), 0, -math.inf, 0
    for a in range(m.head[0].arms):
        if estimates[first + a].average == -math.inf:  # retired
            continue
        value = 0.0 if roams else sample_of(own, kind, numbers, estimates[first + a], level, m.random)
        if value > top:
            best, top, tied = a, value, 1
        elif value == top:
            tied += 1
            if (roams or m.head[0].random_ties) and uniform(m.random) * tied < 1.0:  # each stays with 1/tied
                best = a
    return best


@apart
def keep_policy(m: Memory) -> None:
    """Offer the learner's policy of this round to Greedy's reservoir."""
    if offer(m.reservoir, m.random):
        if forgets(m):
            refresh_cells(m, 0, m.counts.size)
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
    if forgets(m):
        pass_rounds(m, u, rounds)


@apart
def refresh_cells(m: Memory, first: int, count: int) -> None:
    """Bring the derived numbers of some cells in line with this round: with a learner that forgets they change."""
    for cell in range(first, first + count):
        refresh(m, cell)


@inlined
def propose(m: Memory, u: int) -> int:
    """Start a round: the clock ticks, the learner names its action (Algorithm 2, lines 3–4)."""
    tick(m, u, 1)
    if forgets(m):
        refresh_cells(m, u * m.head[0].arms, m.head[0].arms)
    level = level_at(m, age(m, u))
    a = choose(m, m.estimates, u * m.head[0].arms, level)
    if m.pace.scores.size > 0:
        take_score(m.pace, score(m, u, a, level))
        m.pace.state[0].visits = visits_of(m, u) / m.head[0].live
    return a


@inlined
def interval(m: Memory, estimate: Any, level: float) -> tuple[float, float]:
    """Within which a rule takes a cell's mean to be: the learner's own, or its index and the mirror image of it."""
    kind, own, numbers = m.head[0].learner, m.own, m.learner
    if m.head[0].bounded:
        low, high = bounds_of(own, kind, numbers, estimate, level)
        return float(low), float(high)
    high = index_of(own, kind, numbers, estimate, level)
    low = 2.0 * estimate.average - high if estimate.average < math.inf else -math.inf
    return float(low), float(high)


@inlined
def tries_of(m: Memory, cell: int) -> float:
    """n^q as rules and exploration count it: the asks about a cell, and the answers that came without one."""
    return sums_of(m, cell)[2]


@inlined
def is_known(m: Memory, cell: int) -> bool:
    """Whether there is any answer about a cell."""
    return bool(m.counts[cell].answered + m.counts[cell].taught > 0)


@apart
def score(m: Memory, u: int, a: int, level: float) -> float:
    """What an ask about arm a would be worth in context u: by how much intervals overlap, times v_u/(n + 1)².

    The overlap is UCB of the runner-up minus LCB of a; if it is negative, a is surely the best. The error that an ask
    removes matters in each of the rounds with this context, of which there were v_u so far.
    """
    first, rival = u * m.head[0].arms, -math.inf
    for b in range(m.head[0].arms):
        if b != a and m.counts[first + b].cost >= 0:
            rival = max(rival, interval(m, m.estimates[first + b], level)[1])
    overlap = 2.0  # the most: no reward is outside of [0, 1]; that of an arm that was never asked about
    tries = tries_of(m, first + a)
    if tries > 0 and m.estimates[first + a].average < math.inf:
        overlap = min(rival - interval(m, m.estimates[first + a], level)[0], overlap)
    n = tries + 1.0
    return float(overlap * visits_of(m, u) / (n * n))


@inlined
def price_of(cost: int) -> int:
    """What asking costs, in millionths, also where a cell was retired."""
    return cost if cost >= 0 else -1 - cost


@inlined
def question_about(m: Memory, cell: int) -> Question:
    """What the rule may know about a cell in this round."""
    cost, total = price_of(m.counts[cell].cost), m.head[0].total_cost
    granted, spent = m.account[0].granted, m.account[0].spent
    tries, rounds, cells = tries_of(m, cell), m.clock[0], m.counts.size
    asked, recalled = int(tries), -1.0
    if granted < UNLIMITED and forgets(m):
        left, whole, recalled = granted - spent, budget_remembered(m), tries
        m.pace.state[0].ahead = granted
        granted = max(whole - math.ceil((tries - asked) * total), 0)
        m.pace.state[0].ahead -= granted
        spent = granted - left
    elif granted < UNLIMITED and m.before.size > 0:
        left, granted = granted - spent, budget_in_shares(m)
        spent = granted - left
    width, score = cell_width(tries, rounds_lived(m), cells), m.pace.state[0].score
    return question_of(
        rounds, asked, width, cells, cost, total, granted, spent, None, None, score, m.pace, m.counts, recalled
    )


@inlined
def wants(m: Memory, cell: int) -> bool:
    """Whether the rule wants to ask about a cell now."""
    return bool(asks_about(m.own, m.head[0].rule, m.rule, question_about(m, cell)))


@inlined
def estimate_of(m: Memory, cell: int) -> float:
    """What a cell is thought to be worth: the mean of its answers and of one half, which counts as one answer more.

    So one lucky answer does not beat many good ones, and an arm that was never tried may beat one that is known to be
    bad. An arm whose asks nobody has answered comes last.
    """
    counts = m.counts[cell]
    if (counts.answered + counts.taught == 0 and counts.asked > 0) or counts.cost < 0:
        return -math.inf
    total, answers, _ = sums_of(m, cell)
    weight = m.head[0].weight
    return float((total + weight * m.head[0].guess + 0.5) / (answers + weight + 1.0))


@apart
def best_estimate(m: Memory, u: int, a: int) -> int:
    """The arm with the highest estimate in context u; arm a, if there was no answer yet.

    On the good event it loses little more than the width of the optimistic arm a: docs/paper.md has the proof.
    """
    first, top, tied, known = u * m.head[0].arms, -math.inf, 0, False
    for cell in range(first, first + m.head[0].arms):
        value = estimate_of(m, cell)
        known = known or (is_known(m, cell) and m.counts[cell].cost >= 0)
        if value >= top:
            tied = tied + 1 if value == top else 1
            top = value
    if not known:
        return a
    passed = int(uniform(m.random) * tied) if tied > 1 and m.head[0].random_ties else 0  # drawn only if it is shared
    best = first - 1
    while passed >= 0:
        best += 1
        passed -= estimate_of(m, best) == top
    return int(best - first)


@inlined
def charge_for(m: Memory, cell: int, wanted: bool) -> int:
    """Charge the ledger if the rule wants to ask, and count the ask: how the round ends."""
    ending = charge_cell(m, m.counts[cell], wanted)
    if ending == ANSWERABLE and forgets(m):
        add_ask(m, cell, m.counts[cell].cost)
    return ending


@inlined
def charge_cell(m: Any, cell: Any, wanted: bool) -> int:
    """The same for the memory of any setting, given the counts of the cell."""
    if not wanted:
        return UNASKED
    if not charge(m.account, cell.cost):  # E7: the ledger is PaperMatching's guard
        return DENIED
    if m.head[0].paced:
        count_excess(m.pace.state, cell.asked, cell.cost)
    cell.asked += 1
    return ANSWERABLE


@inlined
def settle(m: Memory, u: int, a: int, wanted: bool, names: bool) -> tuple[int, int]:
    """The action in the end, and how the round ends: the ledger may refuse, and what is not asked about is not tried.

    A learner in plain Python, which `names` no action here, keeps its own past and knows its own estimates.
    """
    head = m.head[0]
    if head.slots > 0:  # Greedy
        if not wanted:  # Algorithm 1, lines 11–12: the learner does not live through this round
            tick(m, u, -1)
            return past_action(m, u) if names else a, UNASKED
        if names:
            keep_policy(m)  # Algorithm 1, lines 7–8
        else:
            m.reservoir.seen[0] += 1
    ending = charge_for(m, u * head.arms + a, wanted)
    if ending != ANSWERABLE and head.exploits and names:
        return best_estimate(m, u, a), ending
    return a, ending


@apart
def play_round(m: Memory, u: int) -> tuple[int, int]:
    """One whole round in context u: the action, and how the round ended."""
    a = propose(m, u)
    return settle(m, u, a, wants(m, u * m.head[0].arms + a), True)  # Algorithm 2, line 6


@inlined
def take_answer(m: Memory, cell: int, reward: float) -> None:
    """Count one answer of a cell, of this round."""
    m.counts[cell].answered += 1
    hear(m, cell, reward, m.clock[0], False)


@inlined
def hear(m: Memory, cell: int, reward: float, since: int, lesson: bool) -> None:
    """Add an answer to the sum of a cell; its round `since` matters to a learner that forgets."""
    if forgets(m):
        add_answer(m, cell, reward, since, lesson)
    else:
        m.estimates[cell].total += reward
    refresh(m, cell)


# What the Agent calls: with the words of a memory, everything in one call.


@compiled
def decide(words: Words, own: Any, u: int) -> tuple[int, bool, float, float, int]:
    """One round for the Agent: (action, ask, width, threshold, why). The width is the one before the ask."""
    m = look(words, own)
    bar, first = threshold(m), u * m.head[0].arms
    a = propose(m, u)
    wanted, reason = wants(m, first + a), reason_for(m, first + a)
    played, ending = settle(m, u, a, wanted, True)
    span = finish(m, first + played, ending)
    why = explain(m.head[0].slots > 0, m.head[0].exploits, is_known(m, first + played), reason, ending)
    return played, ending == ANSWERABLE, span, consistent(bar, span, ending), why


@inlined
def reason_for(m: Memory, cell: int) -> int:
    """Why the rule asks about a cell or not, if it says so."""
    return int(reason_of(m.own, m.head[0].rule, m.rule, question_about(m, cell)))


@compiled
def explain(reduces: bool, exploits: bool, known: bool, reason: int, ending: int) -> int:
    """Why a decision was made, as a number: `reason` is the rule's, −1 if it gives none."""
    whether = reason
    if ending == DENIED:
        whether = DENIED_BY_BUDGET
    elif reason < 0:
        whether = ASKED if ending == ANSWERABLE else DECLINED
    if ending == ANSWERABLE:
        return STEP * EXPLORED + whether
    if reduces and ending == UNASKED:
        return STEP * PAST + whether
    if not exploits:
        return STEP * EXPLORED + whether
    return STEP * (EXPLOITED if known else BLIND) + whether


@inlined
def finish(m: Memory, cell: int, ending: int) -> float:
    """Count the decision, whose answer may come late; the width of its cell before the ask."""
    m.head[0].decisions += 1
    if ending == ANSWERABLE and m.head[0].exploits:
        refresh(m, cell)
    return cell_width(tries_of(m, cell) - (ending == ANSWERABLE), max(rounds_lived(m), 1), m.counts.size)


@inlined
def threshold(m: Memory) -> float:
    """The width at which the next decision will not be asked about, under the budget of this moment."""
    question = question_about(m, 0)
    most = limit_of(m.own, m.head[0].rule, m.rule, question)
    if most == NO_LIMIT:
        most = promise_of(m.own, m.head[0].rule, m.rule, question)
    return width_at(most, rounds_lived(m) + 1, m.counts.size)


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
def learn_late(words: Words, own: Any, u: int, a: int, since: int, reward: float) -> None:
    """Take in the answer to an ask of round `since`."""
    m = look(words, own)
    cell = u * m.head[0].arms + a
    m.counts[cell].answered += 1
    hear(m, cell, reward, since, False)


@compiled
def teach(words: Words, own: Any, u: int, a: int, since: int, reward: float) -> None:
    """Take in an answer that came without an ask, about round `since`; −1 for this one."""
    m = look(words, own)
    cell = u * m.head[0].arms + a
    m.counts[cell].taught += 1
    hear(m, cell, reward, since if since >= 0 else m.clock[0], True)


@compiled
def count_ask(words: Words, own: Any, u: int, a: int) -> None:
    """Count an ask that was decided elsewhere, as `charge_for` would."""
    m = look(words, own)
    cell = u * m.head[0].arms + a
    spend(m.account, m.counts[cell].cost, 1)
    m.counts[cell].asked += 1
    if forgets(m):
        add_ask(m, cell, max(m.counts[cell].cost, 0))
        m.purse[0].uneven = 1
    m.pace.state[0].kappa = UNKNOWN
    refresh(m, cell)


@compiled
def take_back(words: Words, own: Any, u: int, a: int, since: int) -> None:
    """Undo an ask of round `since` that nobody has seen: the budget and the counts are as if it had not been made."""
    m = look(words, own)
    cell = u * m.head[0].arms + a
    price = price_of(m.counts[cell].cost)
    refund(m.account, price)
    m.counts[cell].asked -= 1
    if forgets(m):
        drop_ask(m, cell, since)
    m.pace.state[0].kappa = UNKNOWN
    if m.before.size > 0:
        give_back(m, cell, price)
    refresh(m, cell)


@compiled
def begin_shares(words: Words, own: Any) -> None:
    """After cells were added or retired: share the budget out anew, and bring what is derived in line."""
    m = look(words, own)
    share_out(m)
    if forgets(m):
        sum_up_costs(m)
    derive(m)


@compiled
def write_indices(words: Words, own: Any, u: int, indices: Floats) -> None:
    """The indices (A,) that the learner will compare in its next round, if that has context u."""
    m = look(words, own)
    tick(m, u, 1)
    if forgets(m):
        refresh_cells(m, u * m.head[0].arms, m.head[0].arms)
    height = level_at(m, age(m, u))
    tick(m, u, -1)
    for a in range(indices.size):
        cell = u * m.head[0].arms + a
        known = m.counts[cell].cost >= 0
        indices[a] = index_of(m.own, m.head[0].learner, m.learner, m.estimates[cell], height) if known else math.nan


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
def close_round(m: Memory, u: int, a: int, wanted: bool, names: bool) -> tuple[int, int, float]:
    """Settle the round: the action in the end, how the round ends, and the width of its cell before."""
    played, ending = settle(m, u, a, wanted, names)
    return played, ending, finish(m, u * m.head[0].arms + played, ending)


@compiled
def open_by_words(words: Words, own: Any, u: int, names: bool) -> tuple[int, float]:
    """`open_round`."""
    return open_round(look(words, own), u, names)


@compiled
def question_by_words(words: Words, own: Any, cell: int) -> Question:
    """`question_about`."""
    return without_arrays(question_about(look(words, own), cell))


@compiled
def close_by_words(words: Words, own: Any, u: int, a: int, wanted: bool, names: bool) -> tuple[int, int, float]:
    """`close_round`."""
    return close_round(look(words, own), u, a, wanted, names)
