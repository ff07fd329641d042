"""When to ask: one file for each rule, and RULES, from which everything that knows rules by name is made.

To add a rule: a file beside these, and a line in RULES. Saving, experiment files, the HTTP contract, the reference
tables and the tests that compare all paths take it from there.
"""

from sparingly.rules.adaptive import AdaptiveMatching
from sparingly.rules.always import Always
from sparingly.rules.exact import ExactMatching
from sparingly.rules.greedy import Greedy
from sparingly.rules.matching import Matching
from sparingly.rules.never import Never
from sparingly.rules.paper import PaperMatching
from sparingly.rules.rule import Rule

RULES: tuple[type[Rule], ...] = (
    ExactMatching,
    PaperMatching,
    Matching,
    Greedy,
    Always,
    Never,
    AdaptiveMatching,
)

__all__ = [
    "RULES",
    "AdaptiveMatching",
    "Always",
    "ExactMatching",
    "Greedy",
    "Matching",
    "Never",
    "PaperMatching",
    "Rule",
]
