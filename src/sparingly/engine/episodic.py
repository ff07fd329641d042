"""The compiled simulation of episodes: plan, play against the true model, ask, learn.

The value of a policy is computed only when the policy changes, and only from the last step that changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.compiling import compiled
from sparingly.engine.plan import Record
from sparingly.families.episodic import action_of, finish, make_plan
from sparingly.families.episodic_memory import ACTING, LIVES, OWN, POLICIES, SLOTS, Words, has_room, look, take_answer
from sparingly.induction import ACTIONS, HORIZON, STATES, U, Values
from sparingly.ledger import GRANTED, SPENT
from sparingly.problems.episodic import Truth, evaluate, step

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
    tally: Integers  # (2,) the next place in the record, asks so far
    regret: Floats  # (1,) so far


@compiled
def run_block(
    words: Words, truth: Truth, keys: NDArray[np.uint64], worth: Worth, room: Room, record: Record, initial: Integers,
    tape: Integers, first: int,
) -> int:  # fmt: skip
    """Play the episodes of a block; how many were played before the memory needs to grow.

    `initial` (one state, or one for each episode) and `tape` hold the block's first states and budgets.
    """
    m = look(words)
    horizon, states, actions = m.head[HORIZON], m.head[STATES], m.head[ACTIONS]
    for j in range(tape.size):
        if not has_room(m):
            return j
        m.account[GRANTED] = tape[j]
        s = initial[min(j, initial.size - 1)]
        changed = make_plan(m)
        if changed >= 0:
            evaluate(truth.model, worth.own, changed, m.random)
        for slot in range(m.head[SLOTS]):
            if m.head[LIVES] and m.past_from[slot] == m.head[POLICIES]:
                for u in range(states):
                    worth.past[slot, u] = worth.own.upper[0, u]
        acting = m.head[ACTING]
        room.regret[0] += worth.best[s] - (worth.own.upper[0, s] if acting == OWN else worth.past[acting, s])
        for h in range(horizon):
            a = action_of(m, h, s)
            cell = (h * states + s) * actions + a
            room.path[U(h), 0], room.path[U(h), 1] = s, a
            s, room.rewards[U(h)] = step(truth, cell, keys[0], keys[1], record.plays[U(cell)])
            record.plays[U(cell)] += 1
        asked = finish(m, room.path, room.asks, True)
        room.tally[1] += asked
        for h in range(horizon):
            if asked > 0 and room.asks[h]:
                take_answer(m, (h * states + room.path[h, 0]) * actions + room.path[h, 1], room.rewards[h])
        mark = room.tally[0]
        if mark < record.rounds.size and first + j == record.rounds[mark]:
            record.regret[mark] = room.regret[0]
            record.asked[mark] = room.tally[1]
            record.spent[mark] = m.account[SPENT]
            record.budget[mark] = m.account[GRANTED]
            room.tally[0] += 1
    return tape.size
