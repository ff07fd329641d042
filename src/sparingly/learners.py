"""All learners of this library: for arms UCB1, MOSS, KLUCB, BettingUCB, Thompson and EpsilonGreedy, for features
OFUL, Logistic and LinTS, for labels Softmax, for episodes UCBVI and ULCVI, and StationaryUCBVI with one model for all
steps.

Each setting has its own registry (`tabular/learners.py`, …). What knows learners by name is made from LEARNERS.
"""

from typing import Any

from sparingly.episodic.learners import LEARNERS as EPISODIC
from sparingly.episodic.stationary.learner import StationaryUCBVI
from sparingly.episodic.stationary.memory import LEARNERS as STATIONARY
from sparingly.episodic.ucbvi import UCBVI
from sparingly.episodic.ulcvi import ULCVI
from sparingly.linear.labels.learners import LEARNERS as LABELS
from sparingly.linear.labels.softmax import Softmax
from sparingly.linear.learners import LEARNERS as LINEAR
from sparingly.linear.lints import LinTS
from sparingly.linear.logistic import Logistic
from sparingly.linear.oful import OFUL
from sparingly.tabular.betting import BettingUCB
from sparingly.tabular.epsilon_greedy import EpsilonGreedy
from sparingly.tabular.klucb import KLUCB
from sparingly.tabular.learners import LEARNERS as TABULAR
from sparingly.tabular.moss import MOSS
from sparingly.tabular.thompson import Thompson
from sparingly.tabular.ucb1 import UCB1

LEARNERS: tuple[type[Any], ...] = (*TABULAR, *LINEAR, *LABELS, *EPISODIC, *STATIONARY)

__all__ = [
    "KLUCB",
    "LEARNERS",
    "MOSS",
    "OFUL",
    "UCB1",
    "UCBVI",
    "ULCVI",
    "BettingUCB",
    "EpsilonGreedy",
    "LinTS",
    "Logistic",
    "Softmax",
    "StationaryUCBVI",
    "Thompson",
]
