"""The learners of labels. To add one: a file beside this one, and a line here."""

from sparingly.linear.labels.learner import LabelLearner
from sparingly.parameters import enrolled

# isort: off
# In the order in which lists and tables show them.
from sparingly.linear.labels.softmax import Softmax as Softmax
# isort: on

LEARNERS: tuple[type[LabelLearner], ...] = enrolled(LabelLearner, globals())
