"""One round with arms or contextual arms: choose, ask or not, learn. The Agent and the simulator share it.

All that an agent remembers lies in one array of 64-bit words, so that a call from Python stays cheap; `look`
gives its parts names. Asks are counted when asked (for the rule), answers when answered (for the learner).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.compiling import apart, compiled, inlined
from sparingly.learners import moss, ucb1
from sparingly.learners.base import MOSS_CODE, TIES, UCB1_CODE, TabularLearner
from sparingly.ledger import GRANTED, Account, can_pay, charge, cost_in_units, refund, spend
from sparingly.randomness import Stream, uniform
from sparingly.rules import GREEDY, Greedy, Rule, limit, threshold, wants, width

Words = NDArray[np.int64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Places in the head of the memory.
CONTEXTS, ARMS, SLOTS, LEARNER, RULE, TIE, TOTAL_COST, RANDOM, ACCOUNT, POLICIES, DECISIONS = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12,
)  # fmt: skip
HEAD = 16
SCALE, MOSS_ALPHA, RULE_ALPHA, RULE_BETA = 0, 1, 2, 3  # places among the knobs
KNOBS = 4

COST, ASKED, ANSWERED = 0, 1, 2  # columns of the counts
MEAN, SHRINK, OFFSET, TOTAL = 0, 1, 2, 3  # columns of the values

UNASKED, ANSWERABLE, DENIED = 0, 1, 2  # how a round can end: not asked, asked, refused by the ledger
RANDOM_TIES = TIES["random"]


class Memory(NamedTuple):
    """The parts of an agent's memory, as views: S contexts, A arms, M = S·A cells, P past policies of Greedy.

    The cell of context u and arm a is number u·A + a; a row of `counts` or `values` is one cell.
    """

    head: Integers  # (HEAD,) sizes, kinds and counters
    account: Account  # (3,) granted, spent, refused
    random: Stream  # (1,) the learner's own randomness
    knobs: Floats  # (KNOBS,) the parameters of the learner and of the rule
    clock: Integers  # (1 + S,) rounds the learner has lived through: in all, and in each context
    counts: Integers  # (M, 3) COST of asking, times ASKED (n^q), times ANSWERED (n)
    values: Floats  # (M, 4) MEAN, SHRINK = 1/sqrt(n ∨ 1), OFFSET (MOSS) as the index needs them, TOTAL of answers
    past: Floats  # (P·M, 4) the values of the policies in Greedy's reservoir
    past_level: Floats  # (P·S,) and their levels


def words_needed(contexts: int, arms: int, slots: int) -> int:
    """The length of the memory."""
    cells = contexts * arms
    return HEAD + KNOBS + 1 + contexts + 7 * cells + slots * (4 * cells + contexts)


@inlined
def look(words: Words) -> Memory:
    """Name the parts of a memory."""
    contexts, slots = words[CONTEXTS], words[SLOTS]
    cells = contexts * words[ARMS]
    floats = words.view(np.float64)
    clock = HEAD + KNOBS
    counts = clock + 1 + contexts
    values = counts + 3 * cells
    past = values + 4 * cells
    past_level = past + 4 * slots * cells
    return Memory(
        words[:HEAD],
        words[ACCOUNT : ACCOUNT + 3],
        words[RANDOM : RANDOM + 1].view(np.uint64),
        floats[HEAD:clock],
        words[clock:counts],
        words[counts:values].reshape((cells, 3)),
        floats[values:past].reshape((cells, 4)),
        floats[past:past_level].reshape((slots * cells, 4)),
        floats[past_level:],
    )


open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(learner: Any, rule: Any, costs: Floats, codes: tuple[int, int], key: np.uint64) -> Words:
    """A fresh memory for a learner and a rule, given the costs (S, A) and the codes of both."""
    contexts, arms = costs.shape
    slots = rule.policies if isinstance(rule, Greedy) else 0
    words = np.zeros(words_needed(contexts, arms, slots), dtype=np.int64)
    words[[CONTEXTS, ARMS, SLOTS, LEARNER, RULE]] = contexts, arms, slots, *codes
    memory = open_memory(words)
    if isinstance(learner, TabularLearner):
        words[TIE] = TIES[learner.ties]
        memory.knobs[[SCALE, MOSS_ALPHA]] = learner.parameters
    if isinstance(rule, Rule):
        memory.knobs[[RULE_ALPHA, RULE_BETA]] = rule.parameters
    memory.counts[:, COST] = cost_in_units(costs).ravel()
    words[TOTAL_COST] = memory.counts[:, COST].sum()
    memory.random[0] = key
    refresh_all(words)
    return words


@inlined
def refresh(m: Memory, cell: int) -> None:
    """Bring the derived numbers of one cell in line with its answers."""
    n = m.counts[cell, ANSWERED]
    m.values[cell, MEAN] = m.values[cell, TOTAL] / n if n > 0 else 0.0  # E10: the mean of the answers so far
    m.values[cell, SHRINK] = 1.0 / math.sqrt(max(n, 1))
    if m.head[LEARNER] == MOSS_CODE:
        m.values[cell, OFFSET] = moss.offset(n, m.knobs[SCALE], m.knobs[MOSS_ALPHA])
        if n == 0:
            m.values[cell, MEAN] = math.inf


@compiled
def refresh_all(words: Words) -> None:
    """Bring the derived numbers of every cell in line with the answers."""
    m = look(words)
    for cell in range(m.counts.shape[0]):
        refresh(m, cell)


@inlined
def age(m: Memory, u: int) -> int:
    """The learner's clock in context u: UCB1 counts all rounds, MOSS those of the context."""
    return int(m.clock[0] if m.head[LEARNER] == UCB1_CODE else m.clock[1 + u])


@inlined
def level(m: Memory, age: int) -> float:
    """What the learner's bonus has grown to at this age."""
    if m.head[LEARNER] == UCB1_CODE:
        return ucb1.level(age, m.counts.shape[0], m.knobs[SCALE])
    return moss.level(age, m.head[ARMS], m.knobs[SCALE], m.knobs[MOSS_ALPHA])


@inlined
def index(kind: int, values: Floats, cell: int, level: float) -> float:
    """The index of one arm. It never falls as the level grows."""
    if kind == UCB1_CODE:
        return ucb1.index(values[cell, MEAN], values[cell, SHRINK], level)
    return moss.index(values[cell, MEAN], values[cell, SHRINK], values[cell, OFFSET], level)


@inlined
def choose(head: Integers, values: Floats, first: int, level: float, random: Stream) -> int:
    """The arm with the largest index, among the cells `first`, `first` + 1, … of one context."""
    kind = head[LEARNER]
    best, top, tied = 0, index(kind, values, first, level), 1
    for a in range(1, head[ARMS]):
        value = index(kind, values, first + a, level)
        if value > top:
            best, top, tied = a, value, 1
        elif value == top:
            tied += 1
    if tied == 1 or head[TIE] != RANDOM_TIES:
        return best
    passed = int(uniform(random) * tied)  # drawn only if the largest index is shared: each sharer alike
    while passed > 0:
        best += 1
        if index(kind, values, first + best, level) == top:
            passed -= 1
    return best


@apart
def keep_policy(m: Memory) -> None:
    """Greedy's reservoir: the l-th policy takes each slot with probability 1/l (Algorithm 1, lines 7 and 11)."""
    m.head[POLICIES] += 1
    cells, contexts = m.values.shape[0], m.head[CONTEXTS]
    for slot in range(m.head[SLOTS]):
        if uniform(m.random) * m.head[POLICIES] < 1.0:
            for cell in range(cells):
                for column in range(m.values.shape[1]):
                    m.past[slot * cells + cell, column] = m.values[cell, column]
            for u in range(contexts):
                m.past_level[slot * contexts + u] = level(m, max(age(m, u), 1))


@apart
def past_action(m: Memory, u: int) -> int:
    """Act with a uniformly drawn past policy; before there is one, with the initial policy."""
    arms = m.head[ARMS]
    if m.head[POLICIES] == 0:
        return choose(m.head, m.values, u * arms, level(m, 1), m.random)
    slots = m.head[SLOTS]
    j = int(uniform(m.random) * slots) if slots > 1 else 0
    first = j * m.values.shape[0] + u * arms
    return choose(m.head, m.past, first, m.past_level[j * m.head[CONTEXTS] + u], m.random)


@inlined
def tick(m: Memory, u: int, rounds: int) -> None:
    """Let the learner live through `rounds` more rounds (negative: take them back) in context u."""
    m.clock[0] += rounds
    m.clock[1 + u] += rounds


@inlined
def propose(m: Memory, u: int) -> int:
    """Start a round: the clock ticks, the learner names its action (Algorithm 2, lines 3–4)."""
    tick(m, u, 1)
    return choose(m.head, m.values, u * m.head[ARMS], level(m, age(m, u)), m.random)


@inlined
def current_limit(m: Memory) -> int:
    """The rule's limit on counts under the budget of this moment."""
    return limit(m.head[RULE], m.knobs[RULE_ALPHA], m.knobs[RULE_BETA], m.account[GRANTED], m.head[TOTAL_COST])


@inlined
def settle(m: Memory, cell: int, wanted: bool) -> int:
    """Charge the ledger if the rule wants to ask, and count the ask: how the round ends."""
    if not wanted:
        return UNASKED
    if not charge(m.account, m.counts[cell, COST]):
        return DENIED
    m.counts[cell, ASKED] += 1
    return ANSWERABLE


@apart
def play_round(m: Memory, u: int) -> tuple[int, int]:
    """One whole round in context u: the action, and how the round ended."""
    a = propose(m, u)
    cell = u * m.head[ARMS] + a
    if m.head[RULE] != GREEDY:  # Algorithm 2, line 6
        return a, settle(m, cell, wants(m.head[RULE], m.counts[cell, ASKED], current_limit(m), m.counts[cell, COST]))
    if can_pay(m.account, m.counts[cell, COST]):  # Algorithm 1, lines 7–8
        keep_policy(m)
        return a, settle(m, cell, True)
    tick(m, u, -1)  # Algorithm 1, lines 11–12: the learner does not live through this round
    return past_action(m, u), UNASKED


@compiled
def decide(words: Words, u: int) -> tuple[int, bool, float, float]:
    """One round for the Agent: (action, ask, width, threshold)."""
    m = look(words)
    m.head[DECISIONS] += 1
    bar = threshold(current_limit(m), m.clock[0] + 1, m.counts.shape[0])
    a, ending = play_round(m, u)
    ask = ending == ANSWERABLE
    asked_before = m.counts[u * m.head[ARMS] + a, ASKED] - ask
    span = width(asked_before, max(m.clock[0], 1), m.counts.shape[0])
    return a, ask, span, consistent(bar, span, ending)


@compiled
def threshold_now(words: Words) -> float:
    """The width at which the next decision will not be asked about, under the budget of this moment."""
    m = look(words)
    return threshold(current_limit(m), m.clock[0] + 1, m.counts.shape[0])


@compiled
def consistent(bar: float, span: float, ending: int) -> float:
    """A threshold that tells what was done: at most the width if asked, above it if the rule declined.

    Widths tell n^q = 0 and 1 not apart (n^q ∨ 1), and what is free is asked for under any threshold.
    """
    if ending == ANSWERABLE and bar > span:
        return 0.0
    return math.inf if ending == UNASKED and bar <= span else bar


@inlined
def take_answer(m: Memory, cell: int, reward: float) -> None:
    """Count one answer of a cell."""
    m.counts[cell, ANSWERED] += 1
    m.values[cell, TOTAL] += reward
    refresh(m, cell)


@compiled
def learn(words: Words, u: int, a: int, reward: float) -> None:
    """Take in one answer."""
    m = look(words)
    take_answer(m, u * m.head[ARMS] + a, reward)


@compiled
def count_ask(words: Words, u: int, a: int) -> None:
    """Count an ask that was decided elsewhere, as `settle` would."""
    m = look(words)
    cell = u * m.head[ARMS] + a
    spend(m.account, m.counts[cell, COST], 1)
    m.counts[cell, ASKED] += 1


@compiled
def take_back(words: Words, u: int, a: int) -> None:
    """Undo an ask that nobody has seen: the budget and the counts are as if it had not been made."""
    m = look(words)
    cell = u * m.head[ARMS] + a
    refund(m.account, m.counts[cell, COST])
    m.counts[cell, ASKED] -= 1


@compiled
def write_indices(words: Words, u: int, indices: Floats) -> None:
    """The indices (A,) that the learner will compare in its next round, if that has context u."""
    m = look(words)
    tick(m, u, 1)
    height = level(m, age(m, u))
    tick(m, u, -1)
    for a in range(indices.size):
        indices[a] = index(m.head[LEARNER], m.values, u * m.head[ARMS] + a, height)


# The steps of `play_round` one by one, for learners and rules in plain Python (custom.py).


@compiled
def next_action(words: Words, u: int) -> int:
    """The action that the learner would choose now."""
    m = look(words)
    a = propose(m, u)
    tick(m, u, -1)
    return a


@compiled
def live(words: Words, u: int) -> None:
    """The learner lives through this round."""
    tick(look(words), u, 1)


@compiled
def settle_cell(words: Words, cell: int, wanted: bool) -> int:
    """Charge and count the ask, if it is wanted."""
    return settle(look(words), cell, wanted)


@compiled
def limit_now(words: Words) -> int:
    """The rule's limit on counts."""
    return current_limit(look(words))
