"""The learners for linear rewards. To add one: a file beside this one, and a line here."""

from sparingly.linear.learner import LinearLearner
from sparingly.parameters import enrolled

# isort: off
# In the order in which lists and tables show them.
from sparingly.linear.oful import OFUL as OFUL
from sparingly.linear.logistic import Logistic as Logistic
from sparingly.linear.lints import LinTS as LinTS
# isort: on

LEARNERS: tuple[type[LinearLearner], ...] = enrolled(LinearLearner, globals())
