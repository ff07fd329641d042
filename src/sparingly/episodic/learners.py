"""The learners for episodes. To add one: a file beside this one, and a line here."""

from sparingly.episodic.learner import EpisodicLearner
from sparingly.episodic.ucbvi import UCBVI
from sparingly.episodic.ulcvi import ULCVI

LEARNERS: tuple[type[EpisodicLearner], ...] = (
    UCBVI,
    ULCVI,
)
