"""Values and policy of the optimistic model: for each number of steps to go, or by prioritised sweeping.

Both go over what was seen. Sweeping keeps the places whose value may be out of date in a heap, and brings the one that
may be furthest off in line first.
"""

from __future__ import annotations

import numpy as np

from sparingly.episodic.stationary.memory import (
    NONE,
    Memory,
    U,
    bonus_of,
    current_log,
    least_to_go,
    most_to_go,
)
from sparingly.numba_support import apart, inlined
from sparingly.randomness import uniform

BACKUPS = 50  # a step, at most
PRECISION = 1e-4  # of a sweep, as a share of the span of rewards
CERTAIN = 1e-9  # of a best guess
ROUNDS = 100_000  # of a best guess with a discount, at most


@inlined
def after_edge(m: Memory, edge: int, k: int, bonus: float) -> float:
    """What follows along an edge: the reward, with so much of its bonus, and V with k steps to go."""
    found = m.edges[U(edge)]
    value = m.values[U(k), U(found.place)] if found.place != NONE else 0.0
    return float(found.worth + bonus * found.bonus + m.head[0].discount * value)


@inlined
def look_ahead(m: Memory, number: int, k: int) -> float:
    """Mean and variance of what follows a cell, written down there; the best that can follow, as far as was seen."""
    cell, edge = m.cells[U(number)], m.cells[U(number)].first
    best = mean = after_edge(m, edge, k, 1.0)
    weight, square = float(m.edges[U(edge)].visits), 0.0
    edge = m.edges[U(edge)].following
    while edge != NONE:  # one pass that loses no digits (West, 1979)
        value, visits = after_edge(m, edge, k, 1.0), m.edges[U(edge)].visits
        best, away = max(best, value), value - mean
        weight += visits
        mean += away * visits / weight
        square += visits * away * (value - mean)
        edge = m.edges[U(edge)].following
    cell.ahead, cell.scatter = mean, square / weight
    return float(best)


@inlined
def optimistic(m: Memory, number: int, best: float, most: float, logs: float, reach: float) -> float:
    """Q of a cell from what `look_ahead` has found; what was never tried is worth the most.

    Some visits are imagined that have led to the best that any action has led to from here. Where an action does the
    same every time, that makes it no better than the best one; where it does not, it is tried often enough to tell.
    """
    cell, head = m.cells[U(number)], m.head[0]
    if cell.visits == 0:
        return most
    ahead = cell.ahead + (best - cell.ahead) * head.imagined_visits / (cell.visits + head.imagined_visits)
    more = bonus_of(m.own, head.learner, m.learner, cell.scatter, cell.visits, logs, reach)
    return float(min(most, cell.worth + cell.bonus + ahead + more))


@inlined
def choose(m: Memory, place: int, k: int, most: float, logs: float, reach: float) -> tuple[int, float]:
    """The action with the largest Q at a place, and Q. Of equal ones the least tried, then the first, or any."""
    head, first = m.head[0], place * m.head[0].actions
    best, high, fewest, tied, top = 0, -np.inf, 0, 1, -np.inf
    for cell in range(first, first + head.actions):
        if m.cells[U(cell)].visits > 0:
            top = max(top, look_ahead(m, cell, k))
    for a in range(head.actions):
        value, visits = optimistic(m, first + a, top, most, logs, reach), m.cells[U(first + a)].visits
        if value > high or (value == high and visits < fewest):
            best, high, fewest, tied = a, value, visits, 1
        elif value == high and visits == fewest and head.random_ties:
            tied += 1
            if uniform(m.random) * tied < 1.0:
                best = a
    return best, high


@inlined
def begun(m: Memory, place: int) -> bool:
    """Whether any action was tried at a place."""
    first, tried = place * m.head[0].actions, False
    for cell in range(first, first + m.head[0].actions):
        tried = tried or m.cells[U(cell)].visits > 0
    return tried


@apart
def plan(m: Memory) -> None:
    """V and the policy for each number of steps to go. Once a further step changes no value, none ever will."""
    head, logs = m.head[0], current_log(m)
    for k in range(1, head.horizon + 1):
        most, changed = most_to_go(m, k), most_to_go(m, k) != most_to_go(m, k - 1)
        reach = most_to_go(m, k - 1) - least_to_go(m, k - 1)
        for place in range(head.places):
            high = most
            if begun(m, place):
                m.policy[U(k), U(place)], high = choose(m, place, k - 1, most, logs, reach)
            changed = changed or high != m.values[U(k - 1), U(place)]
            m.values[U(k), U(place)] = high
        head.settled = k
        if not changed and reach == most - least_to_go(m, k):
            break
    head.plans += 1


@inlined
def above(m: Memory, first: int, second: int) -> bool:
    """Whether the place at one spot of the heap comes before that at another."""
    return bool(m.places[U(m.heap[U(first)])].priority > m.places[U(m.heap[U(second)])].priority)


@inlined
def swap(m: Memory, first: int, second: int) -> None:
    """Let the places at two spots of the heap change seats."""
    m.heap[first], m.heap[second] = m.heap[second], m.heap[first]
    m.places[m.heap[first]].spot, m.places[m.heap[second]].spot = first, second


@inlined
def await_backup(m: Memory, place: int, priority: float) -> None:
    """Put a place into the heap, or move it up there, if its value may be off by so much."""
    found, head = m.places[U(place)], m.head[0]
    if priority <= PRECISION * (head.most - head.least) or (found.spot != NONE and found.priority >= priority):
        return
    found.priority = priority
    if found.spot == NONE:
        m.heap[head.waiting], found.spot = place, head.waiting
        head.waiting += 1
    spot = found.spot
    while spot > 0 and above(m, spot, (spot - 1) // 2):
        swap(m, spot, (spot - 1) // 2)
        spot = (spot - 1) // 2


@inlined
def take_first(m: Memory) -> int:
    """The place with the highest priority, out of the heap."""
    head, place = m.head[0], m.heap[0]
    head.waiting -= 1
    swap(m, 0, head.waiting)
    m.places[place].spot = NONE
    spot = 0
    while 2 * spot + 1 < head.waiting:
        child = 2 * spot + 1
        if child + 1 < head.waiting and above(m, child + 1, child):
            child += 1
        if not above(m, child, spot):
            break
        swap(m, spot, child)
        spot = child
    return int(place)


@inlined
def back_up(m: Memory, place: int) -> None:
    """Bring the value of a place in line, and have those wait that lead to it."""
    head = m.head[0]
    most, logs = most_to_go(m, 1), current_log(m)
    m.policy[0, U(place)], high = choose(m, place, 0, most, logs, most - least_to_go(m, 1))
    change = head.discount * abs(high - m.values[0, U(place)])
    m.values[0, U(place)] = high
    head.plans += 1
    edge = m.places[U(place)].into
    while edge != NONE:
        found = m.edges[U(edge)]
        await_backup(m, found.cell // head.actions, change * found.visits / m.cells[U(found.cell)].visits)
        edge = found.beside


@apart
def sweep(m: Memory, place: int) -> None:
    """Something has changed at this place: back it up, and then those places that may be furthest off."""
    await_backup(m, place, np.inf)
    done = 0
    while done < BACKUPS and m.head[0].waiting > 0:
        back_up(m, take_first(m))
        done += 1


@inlined
def plain(m: Memory, number: int, k: int, least: float) -> float:
    """Q of a cell if the estimates were true; what was never tried counts as the worst."""
    cell, edge = m.cells[U(number)], m.cells[U(number)].first
    if cell.visits == 0:
        return least
    value = cell.worth
    while edge != NONE:
        value += after_edge(m, edge, k, 0.0) * m.edges[U(edge)].visits / cell.visits
        edge = m.edges[U(edge)].following
    return float(max(least, value))


@apart
def guess_stage(m: Memory, k: int, before: int, least: float) -> float:
    """V and the policy with k steps to go, from V with `before` of them; the largest change."""
    actions, away = m.head[0].actions, 0.0
    for place in range(m.head[0].places):
        best, high = 0, -np.inf
        for a in range(actions):
            value = plain(m, place * actions + a, before, least)
            if value > high:
                best, high = a, value
        away = max(away, abs(high - m.values[U(before), U(place)]))
        m.values[U(k), U(place)], m.policy[U(k), U(place)] = high, best
    return away


@apart
def guess_all(m: Memory) -> None:
    """Overwrite values and policy with those that would be best if the estimates were true."""
    head = m.head[0]
    if head.discount < 1.0:
        for _ in range(ROUNDS):
            if guess_stage(m, 0, 0, least_to_go(m, 1)) <= CERTAIN * (head.most - head.least):
                break
        return
    for place in range(head.places):
        m.values[0, place] = 0.0
    for k in range(1, head.horizon + 1):
        guess_stage(m, k, k - 1, least_to_go(m, k))
    head.settled = head.horizon
