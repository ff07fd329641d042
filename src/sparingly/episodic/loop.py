"""The simulator's loop for episodes: plan, play against the true model, ask, learn.

The value of a policy is computed only when the policy changes, and only from the last step that changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.episodic.memory import OWN, Words, has_room, look, take_answer
from sparingly.episodic.round import action_of, finish, make_plan
from sparingly.episodic.value_iteration import U, Values
from sparingly.numba_support import compiled
from sparingly.problems.episodic import Truth, evaluate, step
from sparingly.simulation.record import Record, note

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Worth(NamedTuple):
    """What policies are worth in truth."""

    best: Floats  # (S,) V* at the first step
    own: Values  # of the learner's own policy; its policy is the learner's
    past: Floats  # (P, S) of the policies in Greedy's reservoir, at the first step


class Room(NamedTuple):
    """One episode's room."""

    path: Integers  # (H, 2) states and actions
    asks: NDArray[np.bool_]  # (H,)
    rewards: Floats  # (H,)


@compiled
def run_block(
    words: Words, own: Any, truth: Truth, keys: NDArray[np.uint64], worth: Worth, room: Room, record: Record,
    so_far: Any, initial: Integers, tape: Integers, first: int,
) -> int:  # fmt: skip
    """Play the episodes of a block; how many were played before the memory needs to grow.

    `initial` (one state, or one for each episode) and `tape` hold the block's first states and budgets.
    """
    m, run = look(words, own), so_far[0]
    horizon, states, actions = m.sizes[0].horizon, m.sizes[0].states, m.sizes[0].actions
    for j in range(tape.size):
        if not has_room(m):
            return j
        m.account[0].granted = tape[j]
        s = initial[min(j, initial.size - 1)]
        changed = make_plan(m)
        if changed >= 0:
            evaluate(truth.model, worth.own, changed, m.random)
        for slot in range(m.head[0].slots):
            if m.head[0].lives and m.reservoir.since[slot] == m.reservoir.seen[0]:
                for u in range(states):
                    worth.past[slot, u] = worth.own.upper[0, u]
        acting = m.head[0].acting
        run.regret += worth.best[s] - (worth.own.upper[0, s] if acting == OWN else worth.past[acting, s])
        for h in range(horizon):
            a = action_of(m, h, s)
            cell = (h * states + s) * actions + a
            room.path[U(h), 0], room.path[U(h), 1] = s, a
            s, room.rewards[U(h)] = step(truth, cell, keys[0], keys[1], record.plays[U(cell)])
            record.plays[U(cell)] += 1
        asked = finish(m, room.path, room.asks, True)
        run.asked += asked
        for h in range(horizon):
            if asked > 0 and room.asks[h]:
                take_answer(m, (h * states + room.path[h, 0]) * actions + room.path[h, 1], room.rewards[h])
        note(record, so_far, first + j, m.account)
    return tape.size
