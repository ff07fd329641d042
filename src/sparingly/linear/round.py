"""One round with linear rewards: propose among features (A, d), Question, asks, settle, learn.

Agent and simulator share it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparingly.ledger import UNLIMITED, charge, question_of, refund, spend, without_arrays
from sparingly.linear.ellipsoid import Ellipsoid, add, freshen, norm_in, remove
from sparingly.linear.learners import LEARNERS
from sparingly.linear.memory import Counting, Floats, Memory, Words, look
from sparingly.numba_support import apart, compiled, inlined
from sparingly.protocol import Question, Row
from sparingly.randomness import Stream, fork, normal, uniform
from sparingly.rules import RULES
from sparingly.rules.dispatch import NO_BAR, NO_REASON, NO_RESERVE, NO_ROOT, UNWEIGHTED, kinds_for, ladder
from sparingly.rules.greedy import draw_slot, offer, store
from sparingly.rules.pacing import take_score
from sparingly.tabular.round import ANSWERABLE, DENIED, UNASKED, consistent, explain
from sparingly.vectors import dot, multiply

FITS = 128  # rows that are fitted again after an answer, at most,
LATER = 8  # and in each round after that, until all have converged
CALM = 1e-9  # pulls that change by less have converged
EVEN = 1e-12  # indices that differ by less are tied: rounding must not decide

radius_of = ladder("radius", LEARNERS, kinds_for(LEARNERS, "radius"), "rounds, log_det")
asks_about = ladder("asks", RULES, kinds_for(RULES, "linear"), "question")
reason_of = ladder("reason_for_row", RULES, kinds_for(RULES, "reason_for_row", "linear", NO_REASON), "question")
reserves = ladder("reserves", RULES, kinds_for(RULES, "reserves", "linear", NO_RESERVE), "question")
solve = ladder("solve", LEARNERS, kinds_for(LEARNERS, "solve", "radius", NO_ROOT), "start, factor, reward")
weight_of = ladder("weight", LEARNERS, kinds_for(LEARNERS, "weight", "radius", UNWEIGHTED), "score")
bar_of = ladder("bar", RULES, kinds_for(RULES, "bar", "linear", NO_BAR), "question")


@inlined
def price_of(m: Counting, a: int) -> int:
    """What asking about action a costs."""
    return int(m.price[a if m.price.size > 1 else 0])


@inlined
def radius(m: Memory) -> float:
    """l: how far θ may be from θ̂, in the norm of V."""
    return float(radius_of(m.own, m.head[0].learner, m.learner, m.head[0].clock, m.known.sizes[0].log_det))


@apart
def choose(
    X: Floats, theta: Floats, inverse: Floats, bonus: float, stretch: float, y: Floats, random_ties: bool,
    random: Stream, both: bool,
) -> tuple[int, float]:  # fmt: skip
    """The row of X (A, d) with the largest ⟨x, θ̂⟩ + bonus·‖x‖ in V⁻¹; and the next largest index, if `both`.

    A row whose index cannot reach what is looked for, even if x lay along the longest axis (‖x‖² · stretch), is passed
    over: that is exact, and most rows cost d operations instead of d².
    """
    best, top, second, tied, even = 0, -math.inf, -math.inf, 1, 0.0
    for a in range(X.shape[0]):
        x = X[a]
        value = dot(x, theta)
        if value + bonus * math.sqrt(dot(x, x) * stretch) * (1.0 + 1e-9) < (second if both else top):
            continue
        multiply(inverse, x, y)
        value += bonus * math.sqrt(max(dot(x, y), 0.0))
        second = max(second, min(top, value))
        if value > top + even:
            best, top, tied, even = a, value, 1, EVEN * (1.0 + abs(value))
        elif value >= top - even and random_ties:
            tied += 1
            if uniform(random) * tied < 1.0:  # each of the tied stays with probability 1/tied
                best = a
    return best, second


@apart
def keep_policy(m: Memory, bonus: float) -> None:
    """Offer the learner's policy of this round to Greedy's reservoir."""
    if offer(m.reservoir, m.random):
        m.bonus[0] = bonus
        store(m.reservoir, m.policy)


@inlined
def explored(m: Memory) -> Ellipsoid:
    """By what the learner explores: its answers or, where a rule exploits, its asks.

    So it does not go on trying what nobody answers. The rule does not count asks that are free; with those, it is the
    answers again.
    """
    return m.asked if m.head[0].by_asks else m.known


@inlined
def own_action(m: Memory, X: Floats, bonus: float) -> tuple[int, float]:
    """What the learner's own policy does; and the index of the runner-up, if the rule keeps a pace."""
    e, random_ties, both = explored(m), m.head[0].random_ties == 1, m.pace.scores.size > 0
    if m.head[0].draws:
        draw(m, m.theta, e.inverse, bonus)
        return choose(X, m.drawn, e.inverse, 0.0, 0.0, m.y, random_ties, m.random, both)
    return choose(X, m.theta, e.inverse, bonus, e.sizes[0].stretch, m.y, random_ties, m.random, both)


@apart
def draw(m: Memory, theta: Floats, inverse: Floats, bonus: float) -> None:
    """θ from N(θ̂, bonus²/d·V⁻¹): θ̂ + bonus/sqrt(d)·L g, with V⁻¹ = L Lᵀ and g of independent standard normals."""
    d, L, deviation = theta.size, m.work, bonus / math.sqrt(theta.size)
    for i in range(d):
        m.drawn[i] = theta[i]
    for j in range(d):  # column by column of Cholesky's decomposition
        for i in range(j, d):
            value = inverse[i, j]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            L[i, j] = math.sqrt(max(value, 0.0)) if i == j else value / max(L[j, j], 1e-300)
        g = normal(fork(m.random))[0]
        for i in range(j, d):
            m.drawn[i] += deviation * g * L[i, j]


@inlined
def has_answers(m: Memory) -> bool:
    """Whether anything was answered yet."""
    return bool(m.known.sizes[0].tr > m.head[0].ridge * m.head[0].dim)


@apart
def best_estimate(m: Memory, X: Floats, a: int) -> int:
    """The row with the highest ⟨x, θ̂⟩; row a, if there was no answer yet.

    On the good event it loses no more than the width of the optimistic row a, as with arms.
    """
    if not has_answers(m):
        return a
    best, top, tied, even = a, -math.inf, 0, 0.0
    for b in range(X.shape[0]):
        value = dot(X[b], m.theta)
        if value > top + even:
            best, top, tied, even = b, value, 1, EVEN * (1.0 + abs(value))
        elif value >= top - even and m.head[0].random_ties:
            tied += 1
            if uniform(m.random) * tied < 1.0:
                best = b
    return best


@inlined
def past_action(m: Memory, X: Floats, bonus: float) -> int:
    """Act with a uniformly drawn past policy; before there is one, with the initial policy."""
    slot, d = draw_slot(m.reservoir, m.random), m.theta.size
    if slot < 0:
        return own_action(m, X, bonus)[0]
    policy = m.reservoir.policies[slot].view(np.float64)
    inverse, stretch = policy[1 + d :].reshape((d, d)), 1.0 / m.head[0].ridge
    ties = m.head[0].random_ties == 1
    if m.head[0].draws:
        draw(m, policy[1 : 1 + d], inverse, policy[0])
        return choose(X, m.drawn, inverse, 0.0, 0.0, m.y, ties, m.random, False)[0]
    return choose(X, policy[1 : 1 + d], inverse, policy[0], stretch, m.y, ties, m.random, False)[0]


@inlined
def question_about(m: Counting, price: int, norm: float, radius: float) -> Question:
    """What the rule may know about a row of this norm in V⁻¹, whose ask has this price."""
    head, sizes, granted, spent = m.head[0], m.asked.sizes[0], m.account[0].granted, m.account[0].spent
    narrow = 1.0 / max(norm * norm, 1e-300) - head.ridge / (head.length * head.length)
    row = Row(
        norm, head.dim, head.ridge, head.length, sizes.log_det, sizes.tr, head.cheapest, head.dearest, head.least,
        head.patience,
    )  # fmt: skip
    asked, score = int(min(max(narrow + 0.5, 0.0), 1e15)), m.pace.state[0].score
    return question_of(
        head.clock + 1, asked, 2.0 * radius * norm, head.dim, price, price * head.dim, granted, spent, row, None, score,
        m.pace, None,
    )  # fmt: skip


@inlined
def wants(m: Counting, question: Question) -> bool:
    """Whether the rule wants to ask."""
    return bool(asks_about(m.own, m.head[0].rule, m.rule, question))


@inlined
def propose(m: Memory, X: Floats) -> tuple[int, Question]:
    """Start a round: the learner names its action, and what the rule may know about it."""
    freshen(m.asked, m.work)
    if m.rows.squares.size > 0:
        fit_again(m, LATER)
    reach = radius(m)
    bonus = m.head[0].scale * reach
    a, rival = own_action(m, X, bonus)
    norm = norm_in(m.asked, X[a], m.y)
    if m.pace.scores.size > 0:
        remember_row(m, X[a])
        take_score(m.pace, score(m, X[a], norm, bonus, rival))
    return a, question_about(m, price_of(m, a), norm, reach)


@inlined
def score(m: Memory, x: Floats, norm: float, bonus: float, rival: float) -> float:
    """What an ask about x would be worth: by how much intervals overlap, times what it would teach about rows lately.

    The overlap is UCB of the runner-up minus LCB of x; if it is negative, x is surely the best. The variance at a
    row z falls by ⟨z, y⟩²/(1 + ⟨x, y⟩) with y = V⁻¹x, which `norm_in` has left in its place.
    """
    taught, sampled = 0.0, min(m.pace.state[0].seen + 1, m.sample.shape[0])
    for i in range(sampled):
        overlap = dot(m.sample[i], m.y)
        taught += overlap * overlap
    return (rival - dot(x, m.theta) + bonus * norm) * taught / (1.0 + norm * norm)


@inlined
def remember_row(m: Counting, x: Floats) -> None:
    """Keep the row that the learner proposes in this round among the last ones."""
    place = m.pace.state[0].seen % m.sample.shape[0]
    for i in range(x.size):
        m.sample[place, i] = x[i]


@inlined
def settle(m: Memory, X: Floats, a: int, question: Question, wanted: bool) -> tuple[int, int]:
    """The action in the end, and how the round ends: Greedy may act by its past, the ledger may refuse."""
    if m.head[0].slots > 0:
        bonus = m.head[0].scale * radius(m)
        if not wanted:  # Algorithm 1, lines 11–12: the learner does not live through this round
            return past_action(m, X, bonus), UNASKED
        keep_policy(m, bonus)  # Algorithm 1, lines 7–8
    m.head[0].clock += 1
    ending = count(m, X[a], question, wanted)
    if ending != ANSWERABLE and m.head[0].exploits:
        a = best_estimate(m, X, a)
    return a, ending


@inlined
def count(m: Counting, x: Floats, question: Question, wanted: bool) -> int:
    """Charge the ledger if the rule wants to ask, and count the ask: how the round ends."""
    price = question.units.cost
    if not wanted:  # Algorithm 2, line 6
        return UNASKED
    if not charge(m.account, price):
        return DENIED
    if m.head[0].paced:
        count_row(m, x, question)
    if price > 0 and not m.head[0].together:  # what is free uses up no potential, so the rule does not count it
        add(m.asked, x, m.y, m.work)
    return ANSWERABLE


@inlined
def count_row(m: Counting, x: Floats, question: Question) -> None:
    """Note whether the reserve has paid for a row: the question is the one before the ask."""
    state, price = m.pace.state[0], question.units.cost
    state.last_gain = 0.0
    if price > 0 and question.units.granted < UNLIMITED and reserves(m.own, m.head[0].rule, m.rule, question):
        state.last_gain = math.log1p(question.row.norm * question.row.norm)
        state.reserved += price
        state.gain += state.last_gain
        state.length += dot(x, x)


@apart
def play_round(m: Memory, X: Floats) -> tuple[int, int]:
    """One whole round: the action, and how it ended."""
    a, question = propose(m, X)
    return settle(m, X, a, question, wants(m, question))


@inlined
def take_answer(m: Memory, x: Floats, reward: float) -> None:
    """V += x xᵀ, Σ x R += x·reward, θ̂ = V⁻¹ Σ x R; or a row more, where the mean reward is not ⟨x, θ⟩."""
    if m.rows.squares.size > 0:
        take_row(m, x, reward)
        return
    add(m.known, x, m.y, m.work)
    for i in range(x.size):
        m.sum[i] += x[i] * reward
    multiply(m.known.inverse, m.sum, m.theta)


@apart
def take_row(m: Memory, x: Floats, reward: float) -> None:
    """A row more: it is fitted first, then the others in turn; V += weight·x xᵀ with the weight at the fit."""
    head, rows = m.head[0], m.rows
    row = head.answers % rows.squares.size
    head.answers += 1
    rows.told[row], rows.squares[row], rows.pulls[row] = reward, dot(x, x), 0.0
    for i in range(x.size):
        rows.inputs[row, i] = x[i]
    fit_row(m, row)
    head.calm = 0
    fit_again(m, FITS)
    root = math.sqrt(weight_of(m.own, head.learner, m.learner, dot(x, m.theta)))
    for i in range(x.size):
        m.drawn[i] = root * x[i]
    add(m.known, m.drawn, m.y, m.work)


@apart
def fit_again(m: Memory, fits: int) -> None:
    """Fit so many rows again, in turn; fewer, if all of them have converged."""
    head = m.head[0]
    kept = min(head.answers, m.rows.squares.size)
    for _ in range(fits):
        if head.calm >= kept:
            break
        head.place = head.place + 1 if head.place + 1 < kept else 0
        head.calm = head.calm + 1 if fit_row(m, head.place) < CALM else 0


@inlined
def fit_row(m: Memory, row: int) -> float:
    """Fit the pull of one row, and θ̂ with it, as if all other pulls were right; by how much it has changed.

    At the optimum θ̂ = 4/λ·Σ p x with the pulls p = reward − μ(⟨x, θ̂⟩): dual coordinate ascent, as for labels.
    """
    x, rows = m.rows.inputs[row], m.rows
    share = 4.0 / m.head[0].ridge
    factor = share * rows.squares[row]
    start = dot(x, m.theta) - factor * rows.pulls[row]
    score = solve(m.own, m.head[0].learner, m.learner, start, factor, rows.told[row])
    if factor == 0.0:
        return 0.0
    change = (score - start) / factor - rows.pulls[row]
    rows.pulls[row] += change
    for i in range(x.size):
        m.theta[i] += share * change * x[i]
    return float(abs(change))


# What the Agent calls: with the words of a memory, everything in one call.


@compiled
def decide(words: Words, own: Any, X: Floats) -> tuple[int, bool, float, float, int]:
    """One round for the Agent: (action, ask, width, threshold, why), widths as intervals 2·l·‖x‖."""
    m = look(words, own)
    m.head[0].decisions += 1
    length = 2.0 * radius(m)
    proposed, question = propose(m, X)
    size, bar = question.row.norm, length * bar_of(m.own, m.head[0].rule, m.rule, question)
    wanted, reason = wants(m, question), reason_of(m.own, m.head[0].rule, m.rule, question)
    a, ending = settle(m, X, proposed, question, wanted)
    if a != proposed:
        size = norm_in(m.asked, X[a], m.y)
    why = explain(m.head[0].slots > 0, m.head[0].exploits, has_answers(m), reason, ending)
    return a, ending == ANSWERABLE, length * size, consistent(bar, length * size, ending), why


@compiled
def radius_now(words: Words, own: Any) -> float:
    """l, as the next decision will use it (before `scale`)."""
    return radius(look(words, own))


@compiled
def threshold_now(words: Words, own: Any) -> float:
    """The width 2·l·‖x‖ at which the next decision will not be asked about; where prices differ, at the first one."""
    m = look(words, own)
    reach = radius(m)
    bar = bar_of(m.own, m.head[0].rule, m.rule, question_about(m, m.price[0], 1.0, reach))
    return float(2.0 * reach * bar)


@compiled
def freshen_now(words: Words) -> None:
    """Bring the rule's ellipsoid in line with what was taken back."""
    m = look(words, None)
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
def learn(words: Words, x: Floats, reward: float) -> None:
    """Take in one answer."""
    take_answer(look(words, None), x, reward)


@compiled
def teach(words: Words, x: Floats, reward: float) -> None:
    """Take in an answer that came without an ask: learner and rule know x as well as if it had been asked about."""
    m = look(words, None)
    take_answer(m, x, reward)
    if not m.head[0].together:
        add(m.asked, x, m.y, m.work)


@compiled
def count_ask(words: Words, own: Any, x: Floats, price: int) -> None:
    """Count an ask that was decided elsewhere, as `count` would."""
    m = look(words, own)
    freshen(m.asked, m.work)
    if m.head[0].paced:
        count_row(m, x, question_about(m, price, norm_in(m.asked, x, m.y), 1.0))
    spend(m.account, price, 1)
    if price > 0 and not m.head[0].together:
        add(m.asked, x, m.y, m.work)


@compiled
def take_back(words: Words, x: Floats, price: int, gain: float) -> None:
    """Undo an ask that nobody has seen: the budget and the rule's ellipsoid are as if it had not been made.

    `gain` is what it has added to log det V of the reserve, 0 if the reserve has not paid for it.
    """
    m = look(words, None)
    refund(m.account, price)
    if gain > 0.0:
        m.pace.state[0].reserved -= price
        m.pace.state[0].gain = max(m.pace.state[0].gain - gain, 0.0)  # rounding must not take it below 0
        m.pace.state[0].length = max(m.pace.state[0].length - dot(x, x), 0.0)
    if price > 0 and not m.head[0].together:
        remove(m.asked, x)


# The steps of a round one by one, for parts in plain Python. With the compiler off every agent takes them.


@compiled
def propose_by_words(words: Words, own: Any, X: Floats) -> tuple[int, Question]:
    """The learner names its action, and what the rule may know about it."""
    a, question = propose(look(words, own), X)
    return a, without_arrays(question)


@compiled
def question_by_words(words: Words, own: Any, X: Floats, a: int) -> Question:
    """What the rule may know about an action that a learner in plain Python names."""
    return without_arrays(question_now(look(words, own), X, a))


@inlined
def question_now(m: Memory, X: Floats, a: int) -> Question:
    """What the rule may know about an action now."""
    freshen(m.asked, m.work)
    return question_about(m, price_of(m, a), norm_in(m.asked, X[a], m.y), radius(m))


@compiled
def settle_by_words(words: Words, own: Any, X: Floats, a: int, wanted: bool) -> tuple[int, int]:
    """The action in the end, and how the round ends."""
    m = look(words, own)
    return settle(m, X, a, question_now(m, X, a), wanted)


@compiled
def count_by_words(words: Words, own: Any, X: Floats, a: int, wanted: bool) -> int:
    """The same for a learner in plain Python, which keeps its own past."""
    m = look(words, own)
    m.head[0].clock += 1
    return count(m, X[a], question_now(m, X, a), wanted)


@compiled
def width_by_words(words: Words, own: Any, X: Floats, a: int, radius: float) -> float:
    """The width of an action."""
    m = look(words, own)
    return 2.0 * radius * norm_in(m.asked, X[a], m.y)
