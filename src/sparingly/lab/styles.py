"""How curves look: one colour for each rule in every figure and on every page, dashes and markers by place.

The colours are Okabe and Ito's, which colour-blind readers can tell apart; dashes and markers do it in black and white.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#7d7d7d"  # 4:1 on white and on black

RULE_COLOURS = {
    "BalancedMatching": "#D55E00",
    "ExactMatching": "#0072B2",
    "PaperMatching": "#009E73",
    "Greedy": "#CC79A7",
    "Always": "#E69F00",
    "Matching": "#56B4E9",
    "Never": GREY,
}
# Other words by which figures name a rule.
NAMES = {
    "CBM-": "PaperMatching", "greedy": "Greedy", "until spent": "Always",
    "exact matching": "ExactMatching", "balanced matching": "BalancedMatching",
}  # fmt: skip
RULE = re.compile("|".join([*(rf"\b{name}\b" for name in RULE_COLOURS), *map(re.escape, NAMES)]))


def rule_of(label: str) -> str | None:
    """The rule that a label names first, if it names one.

    >>> rule_of("UCB1 · ExactMatching, ties first"), rule_of("CBM-UCB"), rule_of("uniform")
    ('ExactMatching', 'PaperMatching', None)
    """
    found = RULE.search(label)
    return None if found is None else NAMES.get(found[0], found[0])


def colours(labels: Sequence[str]) -> list[str]:
    """The colours of the curves of one figure: a rule has its own, the others share those that no rule here has.

    >>> colours(["uniform", "BalancedMatching", "by hand"])
    ['#0072B2', '#D55E00', '#009E73']
    """
    rules = [rule_of(label) for label in labels]
    taken = {RULE_COLOURS[rule] for rule in rules if rule}
    free = [colour for colour in COLOURS if colour not in taken] or list(COLOURS)
    others = iter(range(len(labels)))
    return [RULE_COLOURS[rule] if rule else free[next(others) % len(free)] for rule in rules]


def looks(labels: Sequence[str]) -> list[dict[str, Any]]:
    """Colour, dashes and marker of each curve of one figure, as matplotlib takes them."""
    return [
        {"color": colour, "linestyle": DASHES[place % len(DASHES)], "marker": MARKERS[place % len(MARKERS)]}
        for place, colour in enumerate(colours(labels))
    ]
