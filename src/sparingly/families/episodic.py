"""One episode of reinforcement learning: plan, ask about some of its steps, learn. Agent and simulator share it.

What is remembered, and how, is in episodic_memory.py.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparingly.compiling import apart, compiled, inlined
from sparingly.families.arms import ANSWERABLE, DENIED, UNASKED
from sparingly.families.episodic_memory import (
    ACTING,
    ANSWERED,
    ASKED,
    CLOCK,
    COST,
    DEAREST,
    DECISIONS,
    LEARNER,
    LIVES,
    LOG_CONSTANT,
    NEEDED,
    OPEN,
    OWN,
    POLICIES,
    RANDOM_TIES,
    REWARDING,
    RULE,
    RULE_ALPHA,
    RULE_BETA,
    SCALE,
    SLOTS,
    SQUARES,
    TIE,
    TOTAL_COST,
    VISITS,
    Floats,
    Integers,
    Memory,
    Words,
    look,
    refresh,
    take_answer,
    visit,
    was_seen,
)
from sparingly.induction import ACTIONS, BEST, BOTH, HORIZON, PASSES, STATES, U, Values, induce
from sparingly.learners.episodic import UCBVI_CODE, log_term, variance_of
from sparingly.ledger import GRANTED, SPENT, UNLIMITED, can_pay, charge
from sparingly.randomness import uniform
from sparingly.rules import ADAPTIVE, EXACT, GREEDY, NEVER, asks_needed, episode_bar, limit, reward_width, wants


@apart
def keep_policy(m: Memory) -> None:
    """Greedy's reservoir: the l-th policy takes each slot with probability 1/l (Algorithm 1, lines 7 and 11)."""
    m.head[POLICIES] += 1
    H, S = m.head[HORIZON], m.head[STATES]
    for slot in range(m.head[SLOTS]):
        if uniform(m.random) * m.head[POLICIES] < 1.0:
            m.past_from[slot] = m.head[POLICIES]
            for h in range(H):
                for s in range(S):
                    m.past[slot * H + h, s] = m.values.policy[h, s]


@inlined
def current_log(m: Memory) -> float:
    """L_t of the episode that the learner plans or has just planned."""
    return log_term(m.knobs[LOG_CONSTANT], m.head[CLOCK] + 1)


@apart
def make_plan(m: Memory) -> int:
    """Start an episode: the learner plans (Algorithm CBM-UCBVI or CBM-ULCVI, lines 2–4).

    The result is the last step in which its policy has changed, −1 if none. Greedy, if it cannot pay for a whole
    episode, takes a past policy instead, and the learner does not live through the episode.
    """
    m.head[OPEN], m.head[ACTING], m.head[LIVES] = 1, OWN, 1
    if m.head[RULE] == GREEDY and not can_pay(m.account, m.head[DEAREST]):
        m.head[LIVES] = 0
        if m.head[POLICIES] > 0:
            slots = m.head[SLOTS]
            m.head[ACTING] = int(uniform(m.random) * slots) if slots > 1 else 0
            return -1
    ties, top, logs = m.head[TIE] == RANDOM_TIES, m.head[HORIZON] - 1, current_log(m)
    if m.head[LEARNER] == UCBVI_CODE:
        changed = induce(m.model, m.values, BEST, logs, 0.0, top, ties, m.random)
    else:
        changed = induce(m.model, m.values, BOTH, logs, m.knobs[SCALE], top, ties, m.random)
    if ties:  # where no state was visited yet, all actions are alike
        changed = max(changed, draw_the_rest(m))
    if m.head[RULE] == GREEDY and m.head[LIVES]:
        keep_policy(m)
    return changed


@apart
def draw_the_rest(m: Memory) -> int:
    """A random action in every state that no visit has listed; the last step with a new one, −1 if none."""
    changed, actions = -1, m.head[ACTIONS]
    for h in range(m.head[HORIZON]):
        for s in range(m.head[STATES]):
            if not was_seen(m, h, s):
                a = int(uniform(m.random) * actions)
                if m.values.policy[h, s] != a:
                    m.values.policy[h, s] = a
                    changed = max(changed, h)
    return changed


@inlined
def action_of(m: Memory, h: int, s: int) -> int:
    """What the policy of this episode does at step h in state s."""
    slot = m.head[ACTING]
    return int(m.values.policy[h, s] if slot == OWN else m.past[slot * m.head[HORIZON] + h, s])


@apart
def could_pay_for_all(m: Memory, cell: int) -> bool:
    """AdaptiveMatching: whether the budget could bring every cell to the CI^R that this one has after an ask.

    Each cell has a guaranteed share of the budget, κ asks; up to there it asks without further ado. Beyond it the
    sum over all cells is made, but only when the answer may be yes: what a declined cell needed is remembered.
    """
    granted, cost, n = m.account[GRANTED], m.counts[cell, COST], m.counts[cell, ASKED]
    if granted >= UNLIMITED or cost == 0:
        return True
    share = m.knobs[RULE_ALPHA] * granted / m.head[TOTAL_COST]  # κ = share·B/C
    if not can_pay(m.account, cost) or n + 1 <= share:
        return can_pay(m.account, cost)
    if granted < m.notes[cell, NEEDED]:
        return False
    logs, rest = current_log(m), 0.0
    goal = reward_width(variance_of(m.notes[cell, SQUARES], m.counts[cell, ANSWERED]), n + 1, logs)
    for other in range(m.counts.shape[0]):
        if other != cell:
            spread = variance_of(m.notes[other, SQUARES], m.counts[other, ANSWERED])
            useful = min(asks_needed(spread, goal, logs), 2.0 * m.counts[other, VISITS] + 1.0)
            missing = max(useful, share) - m.counts[other, ASKED]
            if missing > 0.0:
                rest += missing * m.counts[other, COST]
    if rest <= float(granted - m.account[SPENT] - cost):
        return True
    m.notes[cell, NEEDED] = float(m.account[SPENT] + cost) + rest
    return False


@inlined
def ask_about(m: Memory, cell: int, most: int, bar: float, logs: float) -> int:
    """Ask about a visited cell or not: how it ended. `most` limits counts (R1), `bar` limits CI^R/L from below."""
    rule, cost = m.head[RULE], m.counts[U(cell), COST]
    if rule == EXACT:
        wanted = wants(rule, m.counts[cell, ASKED], most, cost)
    elif rule == ADAPTIVE:
        wanted = could_pay_for_all(m, cell)
    elif bar == 0.0 or rule == GREEDY or (cost == 0 and rule != NEVER):
        wanted = True
    elif bar == math.inf:
        wanted = False
    else:
        spread = variance_of(m.notes[cell, SQUARES], m.counts[cell, ANSWERED])
        wanted = reward_width(spread, m.counts[cell, ASKED], logs) >= logs * bar * (1.0 - 1e-12)
    if not wanted:
        return UNASKED
    if not charge(m.account, cost):  # E7: the ledger is PaperMatching's guard
        return DENIED
    m.counts[U(cell), ASKED] += 1
    return ANSWERABLE


@apart
def finish(m: Memory, path: Integers, asks: NDArray[np.bool_], prompt: bool) -> int:
    """End an episode: `path` (H, 2) holds states and actions; which steps are asked about, and how many.

    `prompt`: whether all answers come before anything else happens. They bring the model in line, then.
    """
    k, asked, logs = m.knobs, 0, current_log(m)
    H, states, actions = m.head[HORIZON], m.head[STATES], m.head[ACTIONS]
    cells, granted, rule = m.counts.shape[0], m.account[GRANTED], m.head[RULE]
    most = limit(rule, k[RULE_ALPHA], k[RULE_BETA], granted, m.head[TOTAL_COST])
    bar = episode_bar(rule, k[RULE_ALPHA], k[RULE_BETA], k[REWARDING], cells, granted)
    for h in range(H):
        asks[h] = False
        if m.head[LIVES]:
            asks[h] = ask_about(m, (h * states + path[h, 0]) * actions + path[h, 1], most, bar, logs) == ANSWERABLE
            asked += asks[h]
    if m.head[LIVES]:
        for h in range(H):
            visit(m, h, path[h, 0], path[h, 1], path[h + 1, 0] if h + 1 < H else -1)
            if not (prompt and asks[h]):
                refresh(m, (h * states + path[h, 0]) * actions + path[h, 1])
        m.head[CLOCK] += 1
    m.head[DECISIONS] += 1
    m.head[OPEN] = 0
    return asked


# The steps of an episode one by one, for the Agent.


@compiled
def plan(words: Words, policy: Integers) -> int:
    """Start an episode, unless one is open, and write its policy (H, S); the last step that changed, −1 if none."""
    m = look(words)
    changed = make_plan(m) if m.head[OPEN] == 0 else -1
    for h in range(policy.shape[0]):
        for s in range(policy.shape[1]):
            policy[h, s] = action_of(m, h, s)
    return changed


@compiled
def decide(words: Words, path: Integers, asks: NDArray[np.bool_]) -> int:
    """End the episode that `plan` has started."""
    return finish(look(words), path, asks, False)


@compiled
def guess(words: Words, values: Values) -> None:
    """The best policy of the estimated model without bonuses. It overwrites the memos: give it a copy."""
    m = look(words)
    m.model.sizes[PASSES] = 0
    induce(m.model, values, BEST, 0.0, 0.0, m.head[HORIZON] - 1, False, m.random)


@compiled
def learn(words: Words, cell: int, reward: float) -> None:
    """Take in one answer."""
    take_answer(look(words), cell, reward)


@compiled
def write_widths(words: Words, widths: Floats) -> None:
    """CI^R of every cell (M,), as the rule of the next episode will see them."""
    m = look(words)
    for cell in range(widths.size):
        spread = variance_of(m.notes[cell, SQUARES], m.counts[cell, ANSWERED])
        widths[cell] = reward_width(spread, m.counts[cell, ASKED], current_log(m))
