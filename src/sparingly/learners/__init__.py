"""Learners: each chooses optimistically. One file each; what they share is in base.py and episodic.py."""

from sparingly.learners.moss import MOSS
from sparingly.learners.oful import OFUL
from sparingly.learners.ucb1 import UCB1
from sparingly.learners.ucbvi import UCBVI
from sparingly.learners.ulcvi import ULCVI

__all__ = ["MOSS", "OFUL", "UCB1", "UCBVI", "ULCVI"]
