"""The learners for linear rewards. To add one: a file beside this one, and a line here."""

from sparingly.linear.learner import LinearLearner
from sparingly.linear.oful import OFUL

LEARNERS: tuple[type[LinearLearner], ...] = (OFUL,)
