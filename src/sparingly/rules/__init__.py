"""When to ask: one file for each rule, and RULES, from which everything that knows rules by name is made.

To add a rule: a file beside these, and a line here. Saving, experiment files, the HTTP contract, the reference tables
and the tests that compare all paths take it from there.
"""

from sparingly.parameters import enrolled
from sparingly.rules.rule import Rule as Rule

# isort: off
# In the order in which lists and tables show them.
from sparingly.rules.balanced import BalancedMatching as BalancedMatching
from sparingly.rules.exact import ExactMatching as ExactMatching
from sparingly.rules.paper import PaperMatching as PaperMatching
from sparingly.rules.matching import Matching as Matching
from sparingly.rules.greedy import Greedy as Greedy
from sparingly.rules.always import Always as Always
from sparingly.rules.never import Never as Never
# isort: on

RULES: tuple[type[Rule], ...] = enrolled(Rule, globals())
