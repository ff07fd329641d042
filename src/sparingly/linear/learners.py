"""The learners for linear rewards. To add one: a file beside this one, and a line here."""

from sparingly.linear.learner import LinearLearner
from sparingly.parameters import enrolled

# isort: off
# In the order in which lists and tables show them.
from sparingly.linear.oful import OFUL as OFUL
# isort: on

LEARNERS: tuple[type[LinearLearner], ...] = enrolled(LinearLearner, globals())
