"""The learners for episodes. To add one: a file beside this one, and a line here."""

from sparingly.episodic.learner import EpisodicLearner
from sparingly.parameters import enrolled

# isort: off
# In the order in which lists and tables show them.
from sparingly.episodic.ucbvi import UCBVI as UCBVI
from sparingly.episodic.ulcvi import ULCVI as ULCVI
# isort: on

LEARNERS: tuple[type[EpisodicLearner], ...] = enrolled(EpisodicLearner, globals())
