"""The budget as shares of the live cells, once actions or contexts were added or retired: docs/paper.md has the proof.

A rule that shares the budget out asks while n^q + 1 is at most B/C. When C changes, that would no longer be safe: cells
may be ahead of their new share, and what was spent on retired cells is gone. So at each change the counts n⁰ are noted,
and from then on a cell's share is the w with Σ c·max(w, n⁰) = B − sunk, summed over the live cells: the number of asks
to which the rest of the budget can bring all of them. Rules are shown w·C as the budget, which is B if nothing changed.
"""

from __future__ import annotations

from sparingly.numba_support import apart
from sparingly.rules.pacing import UNKNOWN
from sparingly.tabular.memory import FAR, Memory


@apart
def budget_in_shares(m: Memory) -> int:
    """w·C, rounded down; what cells are ahead of w by is left to rules that look at each of them."""
    s, total = m.shares[0], m.head[0].total_cost
    rest = m.account[0].granted - s.sunk
    while s.next < FAR and (s.under == 0 or (rest - s.paid) // s.under >= s.next - s.floor):
        s.paid += s.under * (s.next - s.floor)
        raise_floor(m, s.next)
    extra = rest - s.paid
    if s.under == total:  # no cell is ahead of the others
        whole = total * s.floor + extra
    else:
        part = extra % s.under / s.under * total * (1.0 - 1e-12)  # rounding must not make it larger
        whole = total * (s.floor + extra // s.under) + int(part)
    m.pace.state[0].ahead = rest - whole
    return int(whole)


@apart
def raise_floor(m: Memory, floor: int) -> None:
    """Begin a floor: which live cells it carries, and where the next one is."""
    s = m.shares[0]
    s.floor, s.under, s.next = floor, 0, FAR
    for cell in range(m.counts.size):
        if m.counts[cell].cost >= 0:
            if m.before[cell] <= floor:
                s.under += m.counts[cell].cost
            elif m.before[cell] < s.next:
                s.next = m.before[cell]


@apart
def find_floor(m: Memory) -> None:
    """The first floor for the counts that were noted: the least of them, which costs nothing more."""
    paid, least = 0, FAR
    for cell in range(m.counts.size):
        if m.counts[cell].cost >= 0:
            paid += m.counts[cell].cost * m.before[cell]
            least = min(least, m.before[cell])
    m.shares[0].paid = paid
    raise_floor(m, least)
    m.pace.state[0].kappa = UNKNOWN


@apart
def share_out(m: Memory) -> None:
    """After a change: add up the live costs, note the counts, and what was spent on other cells than these.

    The floor still has to be found.
    """
    total = paid = 0
    for cell in range(m.counts.size):
        m.before[cell] = m.counts[cell].asked
        if m.counts[cell].cost >= 0:
            total += m.counts[cell].cost
            paid += m.counts[cell].cost * m.counts[cell].asked
    m.head[0].total_cost = total
    m.shares[0].sunk = m.account[0].spent - paid


@apart
def give_back(m: Memory, cell: int, price: int) -> None:
    """If an ask from before the last change was taken back, what it has cost is to be shared again."""
    if m.counts[cell].asked < m.before[cell]:
        m.before[cell] = m.counts[cell].asked
        if m.counts[cell].cost < 0:
            m.shares[0].sunk -= price
        else:
            find_floor(m)
