"""The settings by their learners: which family an Agent gets, and what is refused before it gets one."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparingly.episodic.family import EpisodicFamily
from sparingly.episodic.learner import EpisodicLearner
from sparingly.episodic.stationary.family import StationaryFamily
from sparingly.episodic.stationary.learner import StationaryUCBVI
from sparingly.errors import InvalidInput
from sparingly.linear.family import LinearFamily
from sparingly.linear.learner import LinearLearner
from sparingly.numba_support import notice
from sparingly.protocol import EpisodeLearner, FeatureLearner, Learner, QueryRule
from sparingly.tabular.family import TabularFamily
from sparingly.tabular.learner import TabularLearner

AnyLearner = (
    TabularLearner | LinearLearner | EpisodicLearner | StationaryUCBVI | Learner | FeatureLearner | EpisodeLearner
)

FAMILIES: tuple[type[Any], ...] = (TabularFamily, LinearFamily, EpisodicFamily, StationaryFamily)


def family_for(learner: Any) -> type[Any]:
    """The family of a learner, or an error that says what a learner must be."""
    for family in FAMILIES:
        if not isinstance(learner, type) and family.takes(learner):
            return family
    raise InvalidInput(f"{learner!r} is not a learner: it needs arms, contexts, costs, start, choose and learn")


def check_parts(learner: Any, rule: Any, costs: Any) -> type[Any]:
    """The family of a learner and a rule that fit together, with these costs of asking."""
    family = family_for(learner)
    if not isinstance(rule, QueryRule) or isinstance(rule, type):
        raise InvalidInput(f"{rule!r} is not a rule: use BalancedMatching(), or an object with asks(question)")
    family.check_pair(learner, rule, costs)
    return family


def make_family(learner: Any, rule: Any, costs: Any, seeds: np.random.SeedSequence) -> Any:
    """A fresh family, its compiled code loaded."""
    kind = check_parts(learner, rule, costs)
    with notice("the agent"):
        family = kind(learner, rule, costs, seeds)
        family.warm_up()
    return family


def who_has(view: str) -> str:
    """The learners whose agents can be asked about something, for messages."""
    names = [learner.__name__ for family in FAMILIES if view in family.views for learner in family.learners]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
