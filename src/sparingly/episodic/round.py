"""One episode: plan, then a Question for each of its steps, settle, learn. Agent and simulator share it.

What is remembered, and how, is in memory.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.episodic.memory import (
    OWN,
    Floats,
    Integers,
    Memory,
    Words,
    asks_about,
    current_log,
    look,
    look_around,
    question_about,
    refresh,
    take_answer,
    visit,
    was_seen,
)
from sparingly.episodic.value_iteration import BEST, BOTH, U, Values, induce
from sparingly.ledger import can_pay
from sparingly.numba_support import apart, compiled, inlined
from sparingly.randomness import uniform
from sparingly.rules.greedy import draw_slot, offer, store
from sparingly.rules.intervals import reward_width, variance_of
from sparingly.tabular.round import ANSWERABLE, charge_cell


@inlined
def begin(m: Memory) -> bool:
    """Start an episode; whether the learner has to plan.

    Greedy, if it cannot pay for a whole episode, takes a past policy if there is one, and the learner does not live
    through the episode (Algorithm 1, lines 11–12).
    """
    head = m.head[0]
    head.open, head.acting, head.lives = 1, OWN, 1
    if head.slots == 0 or can_pay(m.account, head.dearest):
        return True
    head.lives = 0
    slot = draw_slot(m.reservoir, m.random)
    if slot >= 0:
        head.acting = slot
    return bool(slot < 0)


@apart
def make_plan(m: Memory) -> int:
    """Start an episode: the learner plans (Algorithm CBM-UCBVI or CBM-ULCVI, lines 2–4).

    The result is the last step in which its policy has changed, −1 if none.
    """
    if not begin(m):
        return -1
    if m.head[0].looks:
        look_around(m)
    head, top, logs = m.head[0], m.sizes[0].horizon - 1, current_log(m)
    ties = head.random_ties == 1
    if head.two_sided:
        changed = induce(m.model, m.values, BOTH, logs, head.scale, top, ties, m.random)
    else:
        changed = induce(m.model, m.values, BEST, logs, 0.0, top, ties, m.random)
    if ties:  # where no state was visited yet, all actions are alike
        changed = max(changed, draw_the_rest(m))
    if head.slots > 0 and head.lives and offer(m.reservoir, m.random):  # Algorithm 1, lines 7–8
        store(m.reservoir, m.policy)
    return changed


@apart
def draw_the_rest(m: Memory) -> int:
    """A random action in every state that no visit has listed; the last step with a new one, −1 if none."""
    changed, actions = -1, m.sizes[0].actions
    for h in range(m.sizes[0].horizon):
        for s in range(m.sizes[0].states):
            if not was_seen(m, h, s):
                a = int(uniform(m.random) * actions)
                if m.values.policy[h, s] != a:
                    m.values.policy[h, s] = a
                    changed = max(changed, h)
    return changed


@inlined
def action_of(m: Memory, h: int, s: int) -> int:
    """What the policy of this episode does at step h in state s."""
    slot = m.head[0].acting
    return int(m.values.policy[h, s] if slot == OWN else m.reservoir.policies[slot, h * m.sizes[0].states + s])


@inlined
def cell_at(m: Memory, path: Integers, h: int) -> int:
    """The cell that was visited at step h."""
    return int((h * m.sizes[0].states + path[h, 0]) * m.sizes[0].actions + path[h, 1])


@apart
def finish(m: Memory, path: Integers, asks: NDArray[np.bool_], prompt: bool) -> int:
    """End an episode: `path` (H, 2) holds states and actions; which steps are asked about, and how many.

    `prompt`: whether all answers come before anything else happens. They bring the model in line, then.
    """
    asked, logs, kind = 0, current_log(m), m.head[0].rule
    for h in range(m.sizes[0].horizon):
        asks[h] = False
        if m.head[0].lives:
            cell = cell_at(m, path, h)
            wanted = asks_about(m.own, kind, m.rule, question_about(m, cell, logs))
            asks[h] = charge_cell(m, m.counts[U(cell)], wanted) == ANSWERABLE
            asked += asks[h]
    conclude(m, path, asks, prompt)
    return asked


@inlined
def conclude(m: Memory, path: Integers, asks: NDArray[np.bool_], prompt: bool) -> None:
    """Count the visits of an episode whose asks are settled."""
    horizon, head = m.sizes[0].horizon, m.head[0]
    if head.lives:
        for h in range(horizon):
            visit(m, h, path[h, 0], path[h, 1], path[h + 1, 0] if h + 1 < horizon else -1)
            if not (prompt and asks[h]):
                refresh(m, cell_at(m, path, h))
        head.clock += 1
    head.decisions += 1
    head.open = 0


# What the Agent calls, with the words of a memory.


@compiled
def plan(words: Words, own: Any, policy: Integers) -> int:
    """Start an episode, unless one is open, and write its policy (H, S); the last step that changed, −1 if none."""
    m = look(words, own)
    changed = make_plan(m) if m.head[0].open == 0 else -1
    for h in range(policy.shape[0]):
        for s in range(policy.shape[1]):
            policy[h, s] = action_of(m, h, s)
    return changed


@compiled
def decide(words: Words, own: Any, path: Integers, asks: NDArray[np.bool_]) -> int:
    """End the episode that `plan` has started."""
    return finish(look(words, own), path, asks, False)


@compiled
def guess(words: Words, values: Values) -> None:
    """The best policy of the estimated model without bonuses. It overwrites the memos: give it a copy."""
    m = look(words, None)
    m.sizes[0].passes = 0
    induce(m.model, values, BEST, 0.0, 0.0, m.sizes[0].horizon - 1, False, m.random)


@compiled
def learn(words: Words, own: Any, cell: int, reward: float) -> None:
    """Take in one answer."""
    take_answer(look(words, own), cell, reward)


@compiled
def write_widths(words: Words, widths: Floats) -> None:
    """CI^R of every cell (M,), as the rule of the next episode will see them."""
    m = look(words, None)
    logs = current_log(m)
    for cell in range(widths.size):
        spread = variance_of(m.squares[cell], m.counts[cell].answered)
        widths[cell] = reward_width(spread, m.counts[cell].asked, logs)


# The steps of an episode one by one, for parts in plain Python. With the compiler off every agent takes them.


@compiled
def step_begin(words: Words) -> bool:
    """Start an episode; whether the learner, in plain Python, plans, or one of its past states does."""
    m = look(words, None)
    begin(m)
    return bool(m.head[0].lives)


@compiled
def step_settle(words: Words, cell: int, wanted: bool) -> bool:
    """Charge and count the ask about a step, if it is wanted: whether it is asked about."""
    m = look(words, None)
    return charge_cell(m, m.counts[cell], wanted) == ANSWERABLE


@compiled
def step_conclude(words: Words, own: Any, path: Integers, asks: NDArray[np.bool_]) -> None:
    """Count the visits of the episode."""
    conclude(look(words, own), path, asks, False)
