"""The learners for arms. To add one: a file beside this one, and a line here."""

from sparingly.tabular.learner import TabularLearner
from sparingly.tabular.moss import MOSS
from sparingly.tabular.ucb1 import UCB1

LEARNERS: tuple[type[TabularLearner], ...] = (
    UCB1,
    MOSS,
)
