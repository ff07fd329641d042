"""sparingly: decide what to do, and whether to ask what it was worth, when asking is limited by a hard budget."""

from sparingly import budgets, contexts, features, problems
from sparingly.agent import Agent
from sparingly.engine import Simulation, simulate
from sparingly.errors import (
    ContractBroken,
    InvalidInput,
    MissingExtra,
    NotAwaited,
    SparinglyError,
    UnknownDecision,
    UnreadableFile,
)
from sparingly.learners import MOSS, OFUL, UCB1, UCBVI, ULCVI
from sparingly.ledger import Ledger
from sparingly.protocol import Decision, Learner, Problem, QueryRule, Question
from sparingly.rules import AdaptiveMatching, Always, ExactMatching, Greedy, Matching, Never, PaperMatching
from sparingly.version import __version__

__all__ = [
    "MOSS", "OFUL", "UCB1", "UCBVI", "ULCVI", "AdaptiveMatching", "Agent", "Always", "ContractBroken", "Decision",
    "ExactMatching", "Greedy", "InvalidInput", "Learner", "Ledger", "Matching", "MissingExtra", "Never", "NotAwaited",
    "PaperMatching", "Problem", "QueryRule", "Question", "Simulation", "SparinglyError", "UnknownDecision",
    "UnreadableFile", "__version__", "budgets", "contexts", "features", "problems", "simulate",
]  # fmt: skip
