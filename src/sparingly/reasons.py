"""Why a decision was made, as a number that compiled code returns and as sentences for people.

It says two things: how the action was chosen, and why it is asked about or not.
"""

from __future__ import annotations

from sparingly.numba_support import inlined

EXPLORED, EXPLOITED, PAST, BLIND = 0, 1, 2, 3  # how the action was chosen
ASKED, RESERVED, FREE = 0, 1, 2  # why it is asked about,
DECLINED, DENIED, SPENT, WAITING, SETTLED = 3, 4, 5, 6, 7  # or not

CHOSEN = {
    EXPLORED: "Explored: it may be the best, for no other action has a higher upper bound.",
    EXPLOITED: "Exploited: of all actions it has the best estimate.",
    PAST: "Chosen by a policy of the past, as the greedy reduction does where it cannot ask.",
    BLIND: "Chosen without an answer about it: nothing that is known looks better.",
}
WHETHER = {
    ASKED: "Asked: the rule wants to know, and the budget can pay.",
    RESERVED: "Asked, from the reserve: whatever happens, everything gets this many asks.",
    FREE: "Asked, from the free part of the budget: the answer is worth it.",
    DECLINED: "Not asked: the rule keeps the budget for what is less certain.",
    DENIED: "Not asked: the rule wants to know, but the budget cannot pay.",
    SPENT: "Not asked: the reserve has paid its part, and the free part of the budget is spent.",
    WAITING: "Not asked: other rounds teach more, or may yet come, and the budget is kept for those.",
    SETTLED: "Not asked: no other action can be better, as far as the intervals tell.",
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
