"""sparingly: decide what to do, and whether to ask what it was worth, when asking is limited by a hard budget."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from sparingly import budgets, contexts, features, problems, theory
from sparingly.agent import Agent
from sparingly.errors import (
    BudgetWarning,
    Conflict,
    ContractBroken,
    InvalidInput,
    MigrationWarning,
    MissingExtra,
    NotAwaited,
    NotFound,
    Refused,
    ServiceError,
    SparinglyError,
    Unauthorized,
    Unavailable,
    UnknownDecision,
    UnreadableFile,
)
from sparingly.learners import (
    KLUCB,
    LEARNERS,
    MOSS,
    OFUL,
    UCB1,
    UCBVI,
    ULCVI,
    BettingUCB,
    EpsilonGreedy,
    LinTS,
    Logistic,
    Softmax,
    StationaryUCBVI,
    Thompson,
)
from sparingly.ledger import Ledger
from sparingly.numba_support import compiled
from sparingly.protocol import Decision, EpisodeLearner, FeatureLearner, Learner, Problem, QueryRule, Question
from sparingly.rules import (
    RULES,
    Always,
    BalancedMatching,
    ExactMatching,
    Greedy,
    Matching,
    Never,
    PaperMatching,
    Rule,
)
from sparingly.simulation.simulate import Simulation, simulate
from sparingly.version import __version__

if TYPE_CHECKING:
    from sparingly.serve.client import AsyncClient as AsyncClient
    from sparingly.serve.client import Client as Client
else:

    def __getattr__(name: str) -> object:
        """Names that are looked up when they are first used.

        `Client` and `AsyncClient`, since importing sparingly must not import their packages; learners and rules that
        have been added to their registries.
        """
        if name in ("AsyncClient", "Client"):
            from sparingly.serve import client

            globals()[name] = getattr(client, name)
            return globals()[name]
        for part in (*LEARNERS, *RULES):
            if part.__name__ == name:
                return part
        if name == "AdaptiveMatching":  # of version 0.1.0
            raise AttributeError(f'{name} is no more; use BalancedMatching(reserve=share, explore="always")')
        near = get_close_matches(name.lower(), {known.lower(): known for known in __all__}, 1)
        meant = [known for known in __all__ if near and known.lower() == near[0]]
        hint = f"; did you mean {meant[0]}?" if meant else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")

    def __dir__() -> list[str]:
        """What there is for users; not what this file has imported for itself."""
        return sorted([*__all__, "AsyncClient", "Client"])


# Client and AsyncClient are not in this list: `from sparingly import *` must work without the packages that they need.
__all__ = [
    "KLUCB", "MOSS", "OFUL", "UCB1", "UCBVI", "ULCVI", "Agent", "Always", "BalancedMatching", "BettingUCB",
    "BudgetWarning",
    "Conflict", "ContractBroken", "Decision", "EpisodeLearner", "EpsilonGreedy", "ExactMatching", "FeatureLearner",
    "Greedy", "InvalidInput", "Learner", "Ledger", "LinTS", "Logistic", "Matching", "MigrationWarning",
    "MissingExtra", "Never",
    "NotAwaited", "NotFound", "PaperMatching", "Problem", "QueryRule", "Question", "Refused", "Rule",
    "ServiceError", "Simulation", "Softmax", "SparinglyError", "StationaryUCBVI", "Thompson", "Unauthorized",
    "Unavailable", "UnknownDecision",
    "UnreadableFile", "__version__", "budgets", "compiled", "contexts", "features", "problems", "simulate",
    "theory",
]  # fmt: skip
