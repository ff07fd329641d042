"""One round with linear rewards: choose among features (A, d), ask or not, learn. Agent and simulator share it.

All that an agent remembers lies in one array of 64-bit words; `look` gives its parts names. The rule's ellipsoid
grows when something is asked, the learner's when it is answered; in a simulation they are one and the same.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.compiling import apart, compiled, inlined
from sparingly.families.arms import ANSWERABLE, DENIED, UNASKED, consistent
from sparingly.learners.base import TIES
from sparingly.learners.oful import (
    DETERMINANT,
    LOG_DET,
    OFUL,
    RADII,
    STRETCH,
    TRACE,
    Ellipsoid,
    add,
    determinant_radius,
    freshen,
    remove,
    reset,
    simple_radius,
)  # fmt: skip
from sparingly.ledger import GRANTED, SPENT, UNLIMITED, Account, can_pay, charge, cost_in_units, refund, spend
from sparingly.randomness import Stream, uniform
from sparingly.rules import (
    ALWAYS,
    EXACT,
    GREEDY,
    MATCHING,
    PAPER,
    Greedy,
    Rule,
    exact_bar,
    matching_bar,
    paper_bar,
)  # fmt: skip
from sparingly.vectors import dot, multiply

Words = NDArray[np.int64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Places in the head of the memory.
DIM, SLOTS, RULE, TIE, RADIUS, TOGETHER, PRICES, RANDOM, ACCOUNT, POLICIES, DECISIONS, CLOCK = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13,
)  # fmt: skip
HEAD = 16
NOISE, DELTA, RIDGE, LENGTH, NORM, SCALE, RULE_ALPHA, RULE_BETA, DOUBT, START, BIAS = range(11)  # among the knobs
KNOBS = 11
RANDOM_TIES = TIES["random"]
EVEN = 1e-12  # indices that differ by less are tied: rounding must not decide


class Memory(NamedTuple):
    """The parts of an agent's memory, as views: dimension d, P past policies of Greedy, K prices."""

    head: Integers  # (HEAD,) sizes, kinds and counters
    account: Account  # (3,) granted, spent, refused
    random: Stream  # (1,)
    knobs: Floats  # (KNOBS,)
    price: Integers  # (K,) of asking about each action, in millionths; (1,) if all are equal
    theta: Floats  # (d,) θ̂
    sum: Floats  # (d,) Σ x R
    known: Ellipsoid  # of the answers: the learner's
    asked: Ellipsoid  # of the asks: the rule's
    work: Floats  # (d, d) and
    y: Floats  # (d,) room to compute in
    past_theta: Floats  # (P, d) the policies in Greedy's reservoir:
    past_inverse: Floats  # (P·d, d)
    past_radius: Floats  # (P,)


def words_needed(d: int, slots: int, prices: int, together: bool) -> int:
    """The length of the memory."""
    ellipsoid = 3 * d * d + 4
    return HEAD + KNOBS + prices + 3 * d + d * d + (1 if together else 2) * ellipsoid + slots * (d + d * d + 1)


@inlined
def look(words: Words) -> Memory:
    """Name the parts of a memory."""
    d, slots, prices = words[DIM], words[SLOTS], words[PRICES]
    floats, square = words.view(np.float64), d * d
    knobs = HEAD + KNOBS
    theta = knobs + prices
    known = theta + 3 * d
    size = 3 * square + 4  # of an ellipsoid
    asked = known if words[TOGETHER] else known + size
    work = asked + size
    past = work + square
    inverse = past + slots * d
    radius = inverse + slots * square
    return Memory(
        words[:HEAD],
        words[ACCOUNT : ACCOUNT + 3],
        words[RANDOM : RANDOM + 1].view(np.uint64),
        floats[HEAD:knobs],
        words[knobs:theta],
        floats[theta : theta + d],
        floats[theta + d : theta + 2 * d],
        Ellipsoid(
            floats[known : known + square].reshape((d, d)),
            floats[known + square : known + 2 * square].reshape((d, d)),
            floats[known + 2 * square : known + 3 * square].reshape((d, d)),
            floats[known + 3 * square : known + size],
        ),
        Ellipsoid(
            floats[asked : asked + square].reshape((d, d)),
            floats[asked + square : asked + 2 * square].reshape((d, d)),
            floats[asked + 2 * square : asked + 3 * square].reshape((d, d)),
            floats[asked + 3 * square : asked + size],
        ),
        floats[work : work + square].reshape((d, d)),
        floats[theta + 2 * d : theta + 3 * d],
        floats[past:inverse].reshape((slots, d)),
        floats[inverse:radius].reshape((slots * d, d)),
        floats[radius : radius + slots],
    )


open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(learner: OFUL, rule: Rule, key: np.uint64, together: bool = False) -> Words:
    """A fresh memory; `together` if every answer will come at once, so that one ellipsoid serves both."""
    costs = cost_in_units([1.0] if learner.costs is None else learner.costs)
    slots = rule.policies if isinstance(rule, Greedy) else 0
    words = np.zeros(words_needed(learner.dim, slots, costs.size, together), dtype=np.int64)
    words[[DIM, SLOTS, RULE, TIE, RADIUS, TOGETHER, PRICES]] = (
        learner.dim, slots, rule.code, TIES[learner.ties], RADII[learner.radius], int(together), costs.size,
    )  # fmt: skip
    memory = open_memory(words)
    constants = (
        -2.0 * math.log(learner.delta),
        learner.dim * math.log(learner.ridge),
        math.sqrt(learner.ridge) * learner.norm,
    )
    memory.knobs[:] = (
        learner.noise, learner.delta, learner.ridge, learner.length, learner.norm, learner.scale, *rule.parameters,
        *constants,
    )  # fmt: skip
    memory.price[:] = costs
    memory.random[0] = key
    start(words)
    return words


@compiled
def start(words: Words) -> None:
    """Nothing is known yet: V = λI."""
    m = look(words)
    reset(m.known, m.knobs[RIDGE])
    reset(m.asked, m.knobs[RIDGE])


@inlined
def price_of(m: Memory, a: int) -> int:
    """What asking about action a costs."""
    return int(m.price[a if m.price.size > 1 else 0])


@inlined
def radius(m: Memory) -> float:
    """l: how far θ may be from θ̂, in the norm of V. The paper's l_{t−1} counts the rounds before this one."""
    k = m.knobs
    if m.head[RADIUS] == DETERMINANT:
        return determinant_radius(m.known.numbers[LOG_DET], k[NOISE], k[DOUBT], k[START], k[BIAS])
    return simple_radius(m.theta.size, m.head[CLOCK], k[NOISE], k[DELTA], k[RIDGE], k[LENGTH], k[NORM])


@apart
def choose(
    X: Floats,
    theta: Floats,
    inverse: Floats,
    bonus: float,
    stretch: float,
    y: Floats,
    random_ties: bool,
    random: Stream,
) -> int:
    """The row of X (A, d) with the largest ⟨x, θ̂⟩ + bonus·‖x‖ in V⁻¹.

    A row whose index cannot reach the best so far, even if x lay along the longest axis (‖x‖² · stretch), is passed
    over: that is exact, and most rows cost d operations instead of d².
    """
    best, top, tied, even = 0, -math.inf, 1, 0.0
    for a in range(X.shape[0]):
        x = X[a]
        value = dot(x, theta)
        if value + bonus * math.sqrt(dot(x, x) * stretch) * (1.0 + 1e-9) < top:
            continue
        multiply(inverse, x, y)
        value += bonus * math.sqrt(max(dot(x, y), 0.0))
        if value > top + even:
            best, top, tied, even = a, value, 1, EVEN * (1.0 + abs(value))
        elif value >= top - even and random_ties:
            tied += 1
            if uniform(random) * tied < 1.0:  # each of the tied stays with probability 1/tied
                best = a
    return best


@inlined
def norm_in(e: Ellipsoid, x: Floats, y: Floats) -> float:
    """‖x‖ in V⁻¹."""
    multiply(e.inverse, x, y)
    return math.sqrt(max(dot(x, y), 0.0))


@inlined
def bar_of(m: Memory, price: int) -> float:
    """The rule asks about an action of this price if its ‖x‖ in V⁻¹ is above the bar (R2) or at it (the others)."""
    d, rule = m.theta.size, m.head[RULE]
    if m.account[GRANTED] >= UNLIMITED and rule in (EXACT, PAPER, MATCHING):
        return 0.0
    if rule == PAPER:
        return paper_bar(d, m.knobs[RIDGE], m.knobs[LENGTH], m.account[GRANTED])
    if rule == EXACT:
        dearest = cheapest = m.price[0]
        for other in m.price:
            dearest = max(dearest, other)
            if other > 0 and (other < cheapest or cheapest == 0):
                cheapest = other
        left = m.account[GRANTED] - m.account[SPENT]
        numbers = m.asked.numbers
        return exact_bar(d, m.knobs[LENGTH], numbers[LOG_DET], numbers[TRACE], left, price, cheapest, dearest)
    if rule == MATCHING:
        return matching_bar(m.knobs[RULE_ALPHA], m.knobs[RULE_BETA], m.account[GRANTED])
    return 0.0 if rule == ALWAYS else math.inf


@inlined
def above(m: Memory, size: float, bar: float, price: int) -> bool:
    """Whether the rule wants to ask: R2 strictly above its bar and whatever is free, the others at their bar too."""
    if m.head[RULE] == EXACT:
        return size > bar or price == 0
    return size >= bar * (1.0 - 1e-12)  # equality means ask, in spite of rounding


@apart
def keep_policy(m: Memory, bonus: float) -> None:
    """Greedy's reservoir: the l-th policy takes each slot with probability 1/l."""
    m.head[POLICIES] += 1
    d = m.theta.size
    for slot in range(m.head[SLOTS]):
        if uniform(m.random) * m.head[POLICIES] < 1.0:
            for i in range(d):
                m.past_theta[slot, i] = m.theta[i]
                for j in range(d):
                    m.past_inverse[slot * d + i, j] = m.known.inverse[i, j]
            m.past_radius[slot] = bonus


@inlined
def past_action(m: Memory, X: Floats, bonus: float) -> int:
    """Act with a uniformly drawn past policy; before there is one, with the initial policy."""
    random_ties, d = m.head[TIE] == RANDOM_TIES, m.theta.size
    if m.head[POLICIES] == 0:
        return choose(X, m.theta, m.known.inverse, bonus, m.known.numbers[STRETCH], m.y, random_ties, m.random)
    slots = m.head[SLOTS]
    j = int(uniform(m.random) * slots) if slots > 1 else 0
    inverse = m.past_inverse[j * d : (j + 1) * d]
    return choose(X, m.past_theta[j], inverse, m.past_radius[j], 1.0 / m.knobs[RIDGE], m.y, random_ties, m.random)


@apart
def play_round(m: Memory, X: Floats) -> tuple[int, int, float, float]:
    """One whole round: the action, how it ended, and the width ‖x‖ in V⁻¹ with the bar it was held against."""
    freshen(m.asked, m.work)
    bonus = m.knobs[SCALE] * radius(m)
    random_ties = m.head[TIE] == RANDOM_TIES
    a = choose(X, m.theta, m.known.inverse, bonus, m.known.numbers[STRETCH], m.y, random_ties, m.random)
    price = price_of(m, a)
    if m.head[RULE] == GREEDY:
        if not can_pay(m.account, price):  # Algorithm 1, lines 11–12: the learner does not live through this round
            a = past_action(m, X, bonus)
            return a, UNASKED, norm_in(m.asked, X[a], m.y), math.inf
        keep_policy(m, bonus)  # Algorithm 1, lines 7–8
        bar = 0.0
    else:
        bar = bar_of(m, price)
    m.head[CLOCK] += 1
    size = norm_in(m.asked, X[a], m.y)
    wanted = above(m, size, bar, price)
    if not wanted:  # Algorithm 2, line 6
        return a, UNASKED, size, bar
    if not charge(m.account, price):
        return a, DENIED, size, bar
    if price > 0 and not m.head[TOGETHER]:  # what is free uses up no potential, so the rule does not count it
        add(m.asked, X[a], m.y, m.work)
    return a, ANSWERABLE, size, bar


@inlined
def take_answer(m: Memory, x: Floats, reward: float) -> None:
    """V += x xᵀ, Σ x R += x·reward, θ̂ = V⁻¹ Σ x R."""
    add(m.known, x, m.y, m.work)
    for i in range(x.size):
        m.sum[i] += x[i] * reward
    multiply(m.known.inverse, m.sum, m.theta)


@compiled
def radius_now(words: Words) -> float:
    """l, as the next decision will use it (before `scale`)."""
    return radius(look(words))


@compiled
def threshold_now(words: Words) -> float:
    """The width 2·l·‖x‖ at which the next decision will not be asked about; where prices differ, at the first one."""
    m = look(words)
    return 2.0 * radius(m) * bar_of(m, m.price[0])


@compiled
def freshen_now(words: Words) -> None:
    """Bring the rule's ellipsoid in line with what was taken back."""
    m = look(words)
    freshen(m.asked, m.work)


@compiled
def longest(X: Floats) -> float:
    """The length of the longest row; NaN if there is a NaN anywhere."""
    most = 0.0
    for a in range(X.shape[0]):
        square = dot(X[a], X[a])
        if not square <= most:  # larger, or not a number
            most = square
            if math.isnan(square):
                break
    return math.sqrt(most)


@compiled
def decide(words: Words, X: Floats) -> tuple[int, bool, float, float]:
    """One round for the Agent: (action, ask, width, threshold), both as intervals 2·l·‖x‖."""
    m = look(words)
    m.head[DECISIONS] += 1
    length = 2.0 * radius(m)
    a, ending, size, bar = play_round(m, X)
    return a, ending == ANSWERABLE, length * size, consistent(length * bar, length * size, ending)


@compiled
def learn(words: Words, x: Floats, reward: float) -> None:
    """Take in one answer."""
    take_answer(look(words), x, reward)


@compiled
def count_ask(words: Words, x: Floats, price: int) -> None:
    """Count an ask that was decided elsewhere, as `play_round` would."""
    m = look(words)
    spend(m.account, price, 1)
    if price > 0 and not m.head[TOGETHER]:
        add(m.asked, x, m.y, m.work)


@compiled
def take_back(words: Words, x: Floats, price: int) -> None:
    """Undo an ask that nobody has seen: the budget and the rule's ellipsoid are as if it had not been made."""
    m = look(words)
    refund(m.account, price)
    if price > 0 and not m.head[TOGETHER]:
        remove(m.asked, x)
