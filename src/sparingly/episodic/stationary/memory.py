"""What an agent with one model for all steps remembers: one array of words, its parts by name, how they grow.

A *place* is a state that was seen; a *cell* a place and an action; an *edge* what a cell has led to: a next state, and
whether the episode has ended there. Only what was seen takes room, but for one word for each state: `grown` gives more.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.episodic.learner import log_term
from sparingly.episodic.stationary.learner import StationaryUCBVI, cell_costs
from sparingly.family import OF_PAIR, Pair
from sparingly.layout import layout
from sparingly.ledger import ACCOUNT, UNIT, Account, cost_in_units, question_of
from sparingly.numba_support import apart, inlined, record
from sparingly.protocol import Question, Step
from sparingly.randomness import Stream
from sparingly.rules import RULES
from sparingly.rules.dispatch import kinds_for, ladder, no_signal
from sparingly.rules.intervals import reward_width, variance_of
from sparingly.rules.pacing import Pace

Words = NDArray[np.int64]
Floats = NDArray[np.float64]
U = np.uint64  # as an index: unsigned ones need no check for being negative

LEARNERS: tuple[type[Any], ...] = (StationaryUCBVI,)
NONE = -1  # no place, no edge, no action
REPEATS = 0.7  # the probability with which two answers to a random reward may well be equal

HEAD = record(  # sizes first, then what is fixed for life, then counters
    states=np.int64,  # S
    actions=np.int64,  # A
    horizon=np.int64,  # H
    stages=np.int64,  # for how many numbers of steps to go values are kept: H + 1, or 1 with a discount
    lanes=np.int64,  # how many environments are played side by side
    prices=np.int64,  # how many costs are listed: S·A, or 1 if all are alike
    room=np.int64,  # for how many places there is room,
    pool=np.int64,  # and for how many edges
    **OF_PAIR,
    looks=np.int64,  # 1 if a plan finds out where that is; a rule in plain Python says it step by step
    outcomes=np.int64,  # 1 if rewards depend on what was reached
    known_after=np.int64,  # equal answers, 0 for never, where no answers have differed
    total_cost=np.int64,  # C, in millionths
    discount=np.float64,  # γ, 1 without
    least=np.float64,  # reward
    most=np.float64,  # reward
    lowest=np.float64,  # return of a good policy
    highest=np.float64,  # return
    log_constant=np.float64,  # what stands before t²(t+1) in L
    scale=np.float64,  # of the square roots in the bonuses,
    slack=np.float64,  # and of the rest
    imagined_visits=np.float64,  # that have led to the best that was seen
    imagined_answers=np.float64,  # that were the greatest reward,
    imagined_if_random=np.float64,  # and where answers have differed
    doubt=np.float64,  # with which a reward may count as known there
    signal=np.float64,  # of the rule, when it was last asked about every cell
    seen_cost=np.int64,  # the part of C that visited cells have
    decisions=np.int64,  # steps so far
    episodes=np.int64,  # begun so far
    plans=np.int64,  # made so far, or with a discount backups
    stale=np.int64,  # 1 if a count has doubled since the last plan
    settled=np.int64,  # with more steps to go than this, values and policy stay the same
    twice=np.int64,  # rewards that were answered more than once,
    differ=np.int64,  # and those of them with answers that differ
    enough=np.int64,  # equal answers, with which a reward counts as known now; 0 for never
    places=np.int64,  # how many there are
    edges=np.int64,  # how many there are
    waiting=np.int64,  # places whose value may be out of date, in the heap
    look_at=np.int64,  # with a discount: at which step to ask the rule about every cell again
)
LANE = record(  # of one environment
    place=np.int64,  # where it is, or NONE
    action=np.int64,  # what was chosen there and not yet done, or NONE
    left=np.int64,  # steps to go in this episode, 0 where a new one begins
)
PLACE = record(
    state=np.int64,  # its number in the environment
    into=np.int64,  # the first edge that leads here
    priority=np.float64,  # by how much its value may be wrong
    spot=np.int64,  # in the heap, or NONE
)
ANSWERS = {  # what is known of a reward
    "visits": np.int64,  # n
    "asked": np.int64,  # n^q
    "answered": np.int64,
    "average": np.float64,  # of the answers
    "squares": np.float64,  # their squared deviations, added up
    "audit": np.int64,  # where it is known: at how many visits it is asked about again
}
CELL = record(
    cost=np.int64,  # of asking, in millionths
    **ANSWERS,
    first=np.int64,  # its first edge
    planned=np.int64,  # its visits when they last made a plan due
    open=np.int64,  # 1 if the rule would ask, as far as plans know
    worth=np.float64,  # the reward that is expected here, where it does not depend on what is reached,
    bonus=np.float64,  # and b^r
    ahead=np.float64,  # mean and variance of what comes next, as a plan has computed them last
    scatter=np.float64,
)
EDGE = record(
    **ANSWERS,
    cell=np.int64,  # that it starts from
    after=np.int64,  # the state that it leads to; S more if the episode ends there
    place=np.int64,  # of that state, NONE at an end
    worth=np.float64,  # the reward that is expected here, where it depends on what is reached,
    bonus=np.float64,  # and b^r
    following=np.int64,  # the next edge of the same cell
    beside=np.int64,  # the next edge into the same place
)

asks_about = ladder("asks", RULES, kinds_for(RULES, "episodic"), "question")
signal_of = ladder("signal", RULES, kinds_for(RULES, "signal", "episodic", no_signal), "question")
bonus_of = ladder(
    "transition_bonus", LEARNERS, kinds_for(LEARNERS, "transition_bonus"), "variance, visits, logs, reach"
)


class Memory(NamedTuple):
    """The parts of an agent's memory, as views. Cell place·A + action; values and policy [steps to go, place]."""

    own: Any  # None, or the compiled functions of a user's own learner or rule
    head: Annotated[Any, HEAD, 1]
    account: Annotated[Account, ACCOUNT, 1]
    random: Annotated[Stream, np.uint64, 1]
    learner: Annotated[Floats, np.float64, "learner_numbers"]  # its parameters, as the functions take them
    rule: Annotated[Floats, np.float64, "rule_numbers"]  # its parameters
    pace: Pace  # what the rule remembers, if it keeps a pace
    lanes: Annotated[Any, LANE, "lanes"]
    prices: Annotated[Words, np.int64, "prices"]  # (S·A,), or (1,)
    place_of: Annotated[Words, np.int64, "states"]  # the place of a state, or NONE
    places: Annotated[Any, PLACE, "room"]
    cells: Annotated[Any, CELL, "room * actions"]
    edges: Annotated[Any, EDGE, "pool"]
    heap: Annotated[Words, np.int64, "room"]  # places, the one with the highest priority first
    values: Annotated[Floats, np.float64, "stages", "room"]  # V of the latest plan
    policy: Annotated[Words, np.int64, "stages", "room"]  # of the latest plan


look, blank = layout(Memory, scores="0")
open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(pair: Pair, learner: Any, key: np.uint64) -> Words:
    """A fresh memory for a learner and a rule."""
    H, (least, most), (low, high) = learner.horizon, learner.rewards, learner.span
    prices = np.array([UNIT], dtype=np.int64)
    if learner.costs is not None:
        prices = cost_in_units(cell_costs(learner.costs, learner.states, learner.actions)).ravel()
    head = pair.head(
        HEAD, learner.numbers, learner.ties, states=learner.states, actions=learner.actions, horizon=H,
        stages=learner.stages, lanes=1, prices=prices.size, room=16, pool=64,
        looks=pair.exploits and not pair.python_rule, outcomes=learner.by == "outcome",
        known_after=learner.known_after or 0,
        total_cost=int(prices.sum()) if learner.costs is not None else learner.cells * UNIT,
        discount=1.0 if learner.discount is None else learner.discount, least=least, most=most, lowest=low,
        highest=high, log_constant=learner.log_constant, scale=learner.scale, slack=learner.slack,
        imagined_visits=learner.imagined_visits, imagined_answers=learner.imagined_answers,
        imagined_if_random=learner.imagined_if_random, doubt=learner.doubt, enough=learner.known_after or 0,
        signal=np.nan, stale=1,
    )  # fmt: skip
    words = blank(head)
    memory = open_memory(words, None)
    memory.prices[:] = prices
    pair.begin(memory, learner.numbers, key)
    memory.lanes["place"], memory.lanes["action"] = NONE, NONE
    memory.place_of[:] = NONE
    return words


def laid_out(old: Memory, **sizes: Any) -> Words:
    """A memory with these sizes that has only seen what is fixed for life: the costs of asking, the parameters."""
    head = old.head.copy()
    for name, size in sizes.items():
        head[name] = size
    fresh = blank(head)
    new = open_memory(fresh, None)
    for name in ("account", "random", "learner", "rule", "prices"):
        getattr(new, name)[:] = getattr(old, name)
    new.pace.state[:] = old.pace.state
    new.lanes["place"], new.lanes["action"] = NONE, NONE
    new.place_of[:] = NONE
    return fresh


def copied(words: Words, **sizes: Any) -> Words:
    """The same memory with these sizes, but for its plan."""
    old = open_memory(words, None)
    fresh = laid_out(old, **sizes)
    new = open_memory(fresh, None)
    for name in ("lanes", "place_of", "places", "cells", "edges", "heap"):
        part = getattr(old, name)
        getattr(new, name)[: part.size] = part
    return fresh


def grown(words: Words, lanes: int = 0) -> Words:
    """The same memory with twice the room where it is short of it, and at least so many lanes."""
    old = open_memory(words, None)
    head = old.head[0]
    room = int(head.room) * (2 if head.places + 2 > head.room else 1)
    pool = int(head.pool) * (2 if head.edges + 2 > head.pool else 1)
    fresh = copied(words, room=room, pool=pool, lanes=max(int(head.lanes), lanes))
    new = open_memory(fresh, None)
    new.values[:, : old.heap.size] = old.values
    new.policy[:, : old.heap.size] = old.policy
    return fresh


def with_stages(words: Words) -> Words:
    """The same memory with room for a plan for each number of steps to go, without a discount."""
    return copied(words, stages=int(open_memory(words, None).head[0].horizon) + 1, discount=1.0)


@inlined
def has_room(m: Memory) -> bool:
    """Whether one more step can be taken in: it shows a place and an edge more at most, and one more to start from."""
    return bool(m.head[0].places + 2 <= m.head[0].room and m.head[0].edges + 1 <= m.head[0].pool)


@inlined
def most_to_go(m: Memory, k: int) -> float:
    """G_k: the most that k steps can return; with a discount, that all steps to come can."""
    head = m.head[0]
    best = max(head.most, 0.0)
    return float(min(head.highest, best * k if head.discount == 1.0 else best / (1.0 - head.discount)))


@inlined
def least_to_go(m: Memory, k: int) -> float:
    """The least that k steps can return, for a policy that is any good."""
    head = m.head[0]
    worst = min(head.least, 0.0)
    return float(max(head.lowest, worst * k if head.discount == 1.0 else worst / (1.0 - head.discount)))


@inlined
def current_log(m: Memory) -> float:
    """L after the steps so far."""
    return log_term(m.head[0].log_constant, m.head[0].decisions + 1)


@inlined
def place_for(m: Memory, state: int) -> int:
    """The place of a state: a new one, if it was never seen."""
    if m.place_of[state] != NONE:
        return int(m.place_of[state])
    head, actions = m.head[0], m.head[0].actions
    place = head.places
    head.places += 1
    m.place_of[state] = place
    m.places[place].state, m.places[place].into, m.places[place].spot = state, NONE, NONE
    for a in range(actions):
        cell = m.cells[place * actions + a]
        cell.cost = m.prices[state * actions + a if m.prices.size > 1 else 0]
        cell.first, cell.open = NONE, 1
    for k in range(head.stages):
        m.values[k, place] = most_to_go(m, k)
        m.policy[k, place] = NONE
    return int(place)


@inlined
def edge_for(m: Memory, cell: int, state: int, ended: bool) -> int:
    """The edge from a cell to a state: a new one, if it was never seen."""
    head = m.head[0]
    after, edge = state + head.states if ended else state, m.cells[U(cell)].first
    while edge != NONE:
        if m.edges[U(edge)].after == after:
            return int(edge)
        edge = m.edges[U(edge)].following
    place = NONE if ended else place_for(m, state)
    edge = head.edges
    head.edges += 1
    new = m.edges[U(edge)]
    new.cell, new.after, new.place = cell, after, place
    new.following, m.cells[U(cell)].first = m.cells[U(cell)].first, edge
    new.beside = NONE
    if not ended:
        new.beside, m.places[place].into = m.places[place].into, edge
    return int(edge)


@inlined
def question_about(m: Memory, cell: int, logs: float) -> Question:
    """What the rule may know about a cell; `logs` is L."""
    found, head = m.cells[U(cell)], m.head[0]
    span = head.most - head.least
    granted, spent = m.account[0].granted, m.account[0].spent
    width = reward_width(variance_of(found.squares, found.answered) / (span * span), found.asked, logs)
    cells = head.states * head.actions
    step = Step(found.visits, logs, float(cells), head.seen_cost)
    return question_of(
        head.decisions + 1, found.asked, width, cells, found.cost, head.total_cost, granted, spent, None, step,
        math.inf, m.pace, m.cells,
    )  # fmt: skip


@inlined
def is_known(m: Memory, answers: Any) -> bool:
    """Whether so many answers were equal that this reward counts as known."""
    enough = m.head[0].enough
    return bool(enough > 0 and answers.answered >= enough and answers.squares == 0.0)


@inlined
def enough_now(m: Memory) -> int:
    """How many equal answers make a reward known. Where some have differed, others may be random as well.

    The share of random rewards is taken to be that of those that were answered twice, and one of them to give n equal
    answers with probability REPEATS^(n−1): a reward counts as known as soon as no more than the doubt is left.
    """
    head = m.head[0]
    if head.differ == 0 or head.known_after == 0:
        return int(head.known_after)
    more = math.log(head.differ / head.twice / head.doubt) / math.log(1.0 / REPEATS)
    return int(max(head.known_after, 1 + math.ceil(max(more, 0.0))))


@inlined
def worth_of(m: Memory, answers: Any, otherwise: float, opened: bool, logs: float) -> tuple[float, float]:
    """The expected reward where these answers came, and b^r; `otherwise` is expected where there is none.

    Where the rule would decline, and where the reward is known, there is no bonus. Where a rule exploits, the bonus
    shrinks with asks: one that nobody answers does not stay promising for ever.
    """
    head = m.head[0]
    mean = answers.average if answers.answered > 0 else otherwise
    n, most = answers.asked if head.exploits else answers.answered, head.most - mean
    if not opened or is_known(m, answers):
        return mean, 0.0
    if n == 0:
        return mean, most
    root = math.sqrt(2.0 * variance_of(answers.squares, answers.answered) * logs / n)
    rest = head.slack * 5.0 * (head.most - head.least) * logs / n
    best = head.imagined_answers if head.differ == 0 else head.imagined_if_random
    imagined = most * best / (n + best)
    return mean, min(most, imagined + head.scale * root + rest)


@apart
def refresh(m: Memory, number: int) -> None:
    """Bring a cell in line with its visits, asks and answers: whether the rule would ask, its worth and b^r."""
    cell, head, logs = m.cells[U(number)], m.head[0], current_log(m)
    if head.looks:
        cell.open = asks_about(m.own, head.rule, m.rule, question_about(m, number, logs))
    nothing = min(max(0.0, head.least), head.most)  # what was never answered is worth nothing
    otherwise = cell.average if cell.answered > 0 else nothing
    opened = cell.open == 1
    if not head.outcomes:
        cell.worth, cell.bonus = worth_of(m, cell, otherwise, opened, logs)
        return
    edge = cell.first
    while edge != NONE:
        found = m.edges[U(edge)]
        found.worth, found.bonus = worth_of(m, found, otherwise, opened, logs)
        edge = found.following


@inlined
def count_answer(answers: Any, reward: float) -> tuple[bool, bool]:
    """One more answer, in such a way that equal answers deviate from their mean by exactly 0.

    Returns: whether it is the second one, and whether it is the first one that differs from another.
    """
    equal = answers.squares == 0.0
    answers.answered += 1
    away = reward - answers.average
    answers.average += away / answers.answered
    answers.squares += away * (reward - answers.average)
    answers.audit = 2 * answers.visits
    return answers.answered == 2, bool(equal and answers.squares > 0.0)
