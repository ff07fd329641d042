"""Why a decision was made, as a number that compiled code returns and as sentences for people.

It says two things: how the action was chosen, and why it is asked about or not.
"""

from __future__ import annotations

from sparingly.numba_support import inlined

EXPLORED, EXPLOITED, PAST, BLIND = 0, 1, 2, 3  # how the action was chosen
ASKED, RESERVED, FREE = 0, 1, 2  # why it is asked about,
DECLINED, DENIED, SPENT, WAITING, SETTLED = 3, 4, 5, 6, 7  # or not

CHOSEN = {
    EXPLORED: "Explored: it may be the best, since no other action has a higher upper bound.",
    EXPLOITED: "Exploited: it has the best estimate of all actions.",
    PAST: "Chosen by a past policy, as Greedy does when it cannot ask.",
    BLIND: "Chosen without any answer about it: nothing that is known looks better.",
}
WHETHER = {
    ASKED: "Asked: the rule wants to know, and the budget can pay.",
    RESERVED: "Asked, from the reserve: it guarantees this many asks to every action.",
    FREE: "Asked, from the free part of the budget: the answer is worth its cost.",
    DECLINED: "Not asked: the rule saves the budget for what is less certain.",
    DENIED: "Not asked: the rule wants to know, but the budget cannot pay.",
    SPENT: "Not asked: the reserve has paid its share, and the free part of the budget is spent.",
    WAITING: "Not asked: the budget is saved for rounds, now or later, that teach more.",
    SETTLED: "Not asked: according to the intervals, no other action can be better.",
}
STEP = 8  # a reason is STEP·(how it was chosen) + (why it is asked about)


@inlined
def is_ask(reason: int) -> bool:
    """Whether a rule that gives this reason wants to ask."""
    return reason <= FREE


def in_words(why: int) -> str:
    """Two sentences: how the action was chosen, and why it is asked about or not."""
    chosen, whether = divmod(why, STEP)
    return f"{CHOSEN[chosen]} {WHETHER[whether]}"
