"""The learners for arms. To add one: a file beside this one, and a line here."""

from sparingly.parameters import enrolled
from sparingly.tabular.learner import TabularLearner

# isort: off
# In the order in which lists and tables show them.
from sparingly.tabular.ucb1 import UCB1 as UCB1
from sparingly.tabular.moss import MOSS as MOSS
from sparingly.tabular.klucb import KLUCB as KLUCB
from sparingly.tabular.betting import BettingUCB as BettingUCB
from sparingly.tabular.thompson import Thompson as Thompson
from sparingly.tabular.epsilon_greedy import EpsilonGreedy as EpsilonGreedy
# isort: on

LEARNERS: tuple[type[TabularLearner], ...] = enrolled(TabularLearner, globals())
