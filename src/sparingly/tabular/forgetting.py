"""What learners with `forget` remember: counts and sums that fade by the same share in each round of the agent.

An ask or an answer from k rounds ago weighs (1 − forget)^k. Each cell keeps its sums as they were when they last
changed, and that round; they are faded when they are looked at, so a decision costs the same however many cells there
are. An answer weighs what it would if it had come at once: a late one is not news.

A rule that shares the budget out asks while n^q + 1 is at most B/C. With counts that fade this would overspend. Such a
rule is shown what is *remembered* of the budget, Φ = left + Σ c·n^q, in place of B: docs/paper.md has the proof.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparingly.ledger import UNIT
from sparingly.numba_support import apart
from sparingly.tabular.memory import Memory

GONE = 1e-300  # what weighs less is forgotten altogether: numbers are not exact down there
MARGIN = 1.0 - 1e-6  # Φ counts a little less than is remembered, so that rounding cannot make it too large


@apart
def weight_after(m: Memory, rounds: int) -> float:
    """(1 − forget)^rounds."""
    weight = math.exp(m.head[0].fading * rounds)
    return weight if weight > GONE else 0.0


@apart
def faded(m: Memory, cell: int) -> tuple[float, float, float]:
    """What is remembered of a cell: the sum of its answers, how many they are, and how often it was tried."""
    f = m.faded[cell]
    weight = weight_after(m, m.clock[0] - f.since)
    return m.estimates[cell].total * weight, f.heard * weight, (f.asked + f.taught) * weight


@apart
def fade(m: Memory, cell: int) -> None:
    """Bring a cell's sums up to this round."""
    f = m.faded[cell]
    weight = weight_after(m, m.clock[0] - f.since)
    m.estimates[cell].total *= weight
    f.heard *= weight
    f.asked *= weight
    f.taught *= weight
    f.since = m.clock[0]


@apart
def fade_costs(m: Memory) -> None:
    """Bring Σ c·n^q up to this round."""
    purse = m.purse[0]
    purse.costs *= weight_after(m, m.clock[0] - purse.since)
    purse.since = m.clock[0]


@apart
def add_ask(m: Memory, cell: int, cost: int) -> None:
    """Count an ask of this round."""
    fade(m, cell)
    fade_costs(m)
    m.faded[cell].asked += 1.0
    m.purse[0].costs += cost


@apart
def drop_ask(m: Memory, cell: int, since: int) -> None:
    """Take back an ask of an earlier round: what is still remembered of it."""
    fade(m, cell)
    fade_costs(m)
    f, weight = m.faded[cell], weight_after(m, m.clock[0] - since)
    lost = min(weight, f.asked)
    f.asked -= lost
    if m.counts[cell].cost > 0:
        m.purse[0].costs = max(m.purse[0].costs - m.counts[cell].cost * lost, 0.0)


@apart
def add_answer(m: Memory, cell: int, reward: float, since: int, lesson: bool) -> None:
    """Count an answer about something that was played in round `since`."""
    fade(m, cell)
    f, weight = m.faded[cell], weight_after(m, m.clock[0] - since)
    f.heard += weight
    m.estimates[cell].total += weight * reward
    if lesson:
        f.taught += weight


@apart
def pass_rounds(m: Memory, u: int, rounds: int) -> None:
    """The clock has moved by `rounds`, 1 or −1, in context u: count the round, or take it back."""
    v = m.visits[u]
    if rounds > 0:
        v.rounds = v.rounds * weight_after(m, m.clock[0] - v.since) + 1.0
    else:
        v.rounds = (v.rounds - 1.0) * math.exp(m.head[0].fading * rounds)
    v.since = m.clock[0]


@apart
def visits_remembered(m: Memory, u: int) -> float:
    """How many rounds with a context are remembered."""
    v = m.visits[u]
    return float(v.rounds * weight_after(m, m.clock[0] - v.since))


@apart
def rounds_remembered(m: Memory) -> int:
    """Σ (1 − forget)^k over the rounds so far, rounded."""
    fading = m.head[0].fading
    return int(math.expm1(fading * m.clock[0]) / math.expm1(fading) + 0.5)


@apart
def budget_remembered(m: Memory) -> int:
    """Φ = left + Σ c·n^q in millionths, rounded down; where cells are ahead of the others, no more than what is level.

    That is w·C with the largest w for which Σ c·max(w − n^q, 0) is left: what is left brings all cells up to w. No cell
    is ahead of it as long as nothing but such a rule has asked, and then it is Φ. After a change of actions or of the
    rule, and after asks that were decided elsewhere, cells may be ahead for a while, and are looked at one by one.
    """
    left, purse = m.account[0].granted - m.account[0].spent, m.purse[0]
    if purse.uneven == 0:
        return int(left) + int(purse.costs * weight_after(m, m.clock[0] - purse.since) * MARGIN)
    level = water_level(m, left)
    return int(left) if level == math.inf else int(level * m.head[0].total_cost * MARGIN)


@apart
def water_level(m: Memory, left: int) -> float:
    """The largest w with Σ c·max(w − n^q, 0) ≤ left: from above, leaving out the cells that are ahead of it."""
    level = math.inf
    for passed in range(m.counts.size + 1):
        price, paid = 0, float(left)
        for cell in range(m.counts.size):
            cost = m.counts[cell].cost
            if cost > 0:
                asked = m.faded[cell].asked * weight_after(m, m.clock[0] - m.faded[cell].since)
                if asked < level:
                    price += cost
                    paid += cost * asked
        lower = paid / price if price > 0 else level
        if not lower < level:
            m.purse[0].uneven = int(passed > 1)  # in the second pass no cell was ahead
            return level
        level = lower
    return level


@apart
def sum_up_costs(m: Memory) -> None:
    """After a change of actions or of the rule: Σ c·n^q anew. Cells may be ahead of the others."""
    costs = 0.0
    for cell in range(m.counts.size):
        fade(m, cell)
        if m.counts[cell].cost > 0:
            costs += m.counts[cell].cost * m.faded[cell].asked
    m.purse[0].costs, m.purse[0].since, m.purse[0].uneven = costs, m.clock[0], 1


def fits(memory: Any) -> bool:
    """Whether what was restored can be believed: nothing is from the future, nothing weighs more than was counted."""
    f, counts, purse, now = memory.faded, memory.counts, memory.purse, memory.clock[0]
    if any(bool((part["since"] > now).any()) for part in (f, memory.visits, purse)):
        return False
    weight, later = (np.exp(memory.head["fading"] * (now - part["since"])) for part in (f, purse))
    live = counts["cost"] > 0
    costs = (counts["cost"] * f["asked"] * weight)[live].sum()
    return bool((abs(purse["costs"] * later - costs) <= 1e-6 * costs + UNIT).all()) and all(
        bool(((array >= 0) & (array <= most * (1 + 1e-9) + 1e-9)).all())
        for array, most in (
            (f["asked"], counts["asked"]),
            (f["heard"], counts["answered"] + counts["taught"]),
            (f["taught"], counts["taught"]),
            (memory.visits["rounds"], memory.clock[1:]),
        )
    )
