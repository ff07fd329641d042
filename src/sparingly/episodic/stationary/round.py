"""One step: act, then what was reached, a Question about it, settle, learn. What is remembered is in memory.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.episodic.stationary.memory import (
    NONE,
    Floats,
    Memory,
    U,
    Words,
    asks_about,
    count_answer,
    current_log,
    edge_for,
    enough_now,
    has_room,
    is_known,
    look,
    place_for,
    question_about,
    refresh,
    signal_of,
)
from sparingly.episodic.stationary.planning import await_backup, begun, guess_all, plan, sweep
from sparingly.numba_support import apart, compiled, inlined
from sparingly.randomness import uniform
from sparingly.tabular.round import ANSWERABLE, charge_cell

Integers = NDArray[np.int64]

GOES_ON, TERMINATED, TRUNCATED = 0, 1, 2  # what has become of an episode
NO_ROOM, ELSEWHERE = -2, -3  # the memory has to grow first; the environment was left in another state
LOOK_AGAIN = 1.05  # with a discount the rule is asked about every cell after so many times the steps


@apart
def look_around(m: Memory) -> None:
    """Ask the rule about every visited cell anew, if its signal has changed since the last time."""
    head = m.head[0]
    if head.places == 0 or (head.discount < 1.0 and head.decisions < head.look_at):
        return
    head.look_at = int(head.decisions * LOOK_AGAIN) + 1
    signal = signal_of(m.own, head.rule, m.rule, question_about(m, 0, current_log(m)))
    if signal == head.signal:
        return
    head.signal = signal
    for cell in range(head.places * head.actions):
        if m.cells[U(cell)].visits > 0:
            refresh(m, cell)
    head.stale = 1


@inlined
def act_at(m: Memory, place: int, left: int) -> int:
    """What the latest plan does at a place with so many steps to go; any action where none was tried."""
    head, k = m.head[0], 0 if m.head[0].discount < 1.0 else min(left, m.head[0].settled)
    action = m.policy[U(k), U(place)]
    if action != NONE and begun(m, place):
        return int(action)
    return int(uniform(m.random) * head.actions) if head.random_ties else 0


@compiled
def act(words: Words, own: Any, state: int, lane: int) -> int:
    """The action in a state: it begins an episode where the last one has ended, and plans where a count has doubled.

    Until it is told what was reached, the same. NO_ROOM or ELSEWHERE: nothing was done.
    """
    m = look(words, own)
    here, head = m.lanes[lane], m.head[0]
    if here.place != NONE and m.places[here.place].state != state:
        return ELSEWHERE
    if here.action != NONE:
        return int(here.action)
    if not has_room(m):
        return NO_ROOM
    here.place = place_for(m, state)
    if here.left == 0:
        here.left = head.horizon
        head.episodes += 1
    if head.looks:
        look_around(m)
    if head.stale and head.discount == 1.0:
        plan(m)
        head.stale = 0
    here.action = act_at(m, here.place, here.left)
    return int(here.action)


@inlined
def wanted_by_rule(m: Memory, edge: int) -> bool:
    """Whether the rule would ask about the cell of this edge."""
    return bool(asks_about(m.own, m.head[0].rule, m.rule, question_about(m, m.edges[edge].cell, current_log(m))))


@inlined
def is_due(m: Memory, edge: int) -> bool:
    """Whether this reward is worth a question: it is not known, or its visits have doubled and it is audited."""
    if m.head[0].outcomes:
        return bool(not is_known(m, m.edges[edge]) or m.edges[edge].visits + 1 >= m.edges[edge].audit)
    cell = m.edges[edge].cell
    return bool(not is_known(m, m.cells[cell]) or m.cells[cell].visits + 1 >= m.cells[cell].audit)


@inlined
def settle(m: Memory, edge: int, wanted: bool) -> bool:
    """Charge the ledger if the rule wants to ask, and count the ask."""
    asked = charge_cell(m, m.cells[m.edges[edge].cell], wanted) == ANSWERABLE
    m.edges[edge].asked += asked
    return asked


@inlined
def arrive(m: Memory, edge: int, ended: int, lane: int) -> None:
    """Count a step whose ask is settled."""
    head, number = m.head[0], m.edges[edge].cell
    cell, here = m.cells[number], m.lanes[lane]
    if cell.visits == 0:
        head.seen_cost += cell.cost
    cell.visits += 1
    m.edges[edge].visits += 1
    head.decisions += 1
    here.left = 0 if ended != GOES_ON else here.left - 1
    here.place, here.action = (m.edges[edge].place if ended == GOES_ON else NONE), NONE
    if cell.visits >= 2 * cell.planned:
        cell.planned = cell.visits
        head.stale = 1
    bring_in_line(m, number)


@inlined
def bring_in_line(m: Memory, number: int) -> None:
    """After a visit or an answer: the cell's part of the model, and with a discount the values that depend on it."""
    refresh(m, number)
    if m.head[0].discount < 1.0:
        sweep(m, number // m.head[0].actions)


@apart
def edge_of(m: Memory, state: int, ended: int, lane: int) -> int:
    """The edge that the step of a lane has gone along; NO_ROOM if there is none for it."""
    if not has_room(m):
        return NO_ROOM
    here = m.lanes[lane]
    return edge_for(m, here.place * m.head[0].actions + here.action, state, ended == TERMINATED)


@compiled
def reached(words: Words, own: Any, state: int, ended: int, lane: int, asks: NDArray[np.bool_]) -> int:
    """Take in what a step has led to, and write whether to ask for its reward; the edge, or NO_ROOM."""
    m = look(words, own)
    edge = edge_of(m, state, ended, lane)
    if edge >= 0:
        wanted = is_due(m, edge) and wanted_by_rule(m, edge)
        asks[0] = settle(m, edge, wanted)
        arrive(m, edge, ended, lane)
    return edge


# The same for a rule in plain Python.


@compiled
def step_edge(words: Words, own: Any, state: int, ended: int, lane: int) -> int:
    """The edge that a step has gone along, or NO_ROOM."""
    return edge_of(look(words, own), state, ended, lane)


@compiled
def step_due(words: Words, edge: int) -> bool:
    """Whether the rule is to be asked about it."""
    return is_due(look(words, None), edge)


@compiled
def step_arrive(words: Words, own: Any, edge: int, wanted: bool, due: bool, ended: int, lane: int) -> bool:
    """Charge and count the ask, if it is wanted, and count the step: whether it is asked about."""
    m = look(words, own)
    if due and m.head[0].exploits:
        m.cells[m.edges[edge].cell].open = wanted  # until the rule is asked again
    asked = settle(m, edge, wanted)
    arrive(m, edge, ended, lane)
    return asked


@compiled
def learn(words: Words, own: Any, edge: int, reward: float) -> None:
    """Take in one answer. It makes a plan due when those that the reward depends on have doubled."""
    m = look(words, own)
    head, number = m.head[0], m.edges[edge].cell
    second, differs = count_answer(m.edges[edge], reward)
    second_there, differs_there = count_answer(m.cells[number], reward)
    n = m.edges[edge].answered
    if not head.outcomes:
        second, differs, n = second_there, differs_there, m.cells[number].answered
    if n & (n - 1) == 0:
        head.stale = 1
    head.twice += second
    head.differ += differs
    if second or differs:
        weigh_anew(m, differs and head.differ == 1)
    bring_in_line(m, number)


@apart
def weigh_anew(m: Memory, first: bool) -> None:
    """How many equal answers are enough; if it takes more than before, some rewards are no longer known."""
    head, before = m.head[0], m.head[0].enough
    head.enough = enough_now(m)
    if head.enough <= before and not first:
        return
    for place in range(head.places):
        for cell in range(place * head.actions, (place + 1) * head.actions):
            if m.cells[U(cell)].visits > 0:
                refresh(m, cell)
        if head.discount < 1.0:
            await_backup(m, place, head.most - head.least)
    head.stale = 1


@compiled
def guess(words: Words) -> None:
    """Overwrite values and policy with the best guess: give it a copy."""
    guess_all(look(words, None))


@compiled
def write_widths(words: Words, widths: Floats) -> None:
    """CI^R of every cell of a place, for rewards in [0, 1], as the rule will see them next."""
    m = look(words, None)
    logs = current_log(m)
    for cell in range(widths.size):
        widths[cell] = question_about(m, cell, logs).width
