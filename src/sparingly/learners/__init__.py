"""Learners: each chooses optimistically. One file each; what the tabular ones share is in base.py."""

from sparingly.learners.moss import MOSS
from sparingly.learners.oful import OFUL
from sparingly.learners.ucb1 import UCB1

__all__ = ["MOSS", "OFUL", "UCB1"]
