"""What an Agent has inside: one mind per family of problems, all with the same few methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparingly.compiling import notice
from sparingly.errors import InvalidInput
from sparingly.learners.base import TabularLearner
from sparingly.learners.episodic import EpisodicLearner
from sparingly.learners.oful import OFUL
from sparingly.minds.arms import ArmsMind
from sparingly.minds.base import Mind
from sparingly.minds.episodic import EpisodicMind
from sparingly.minds.linear import LinearMind
from sparingly.protocol import Learner, QueryRule


def make_mind(learner: Any, rule: Any, costs: Any, seeds: np.random.SeedSequence) -> Mind:
    """The mind for a learner and a rule, or an error that says what is neither."""
    if not isinstance(learner, TabularLearner | OFUL | EpisodicLearner | Learner):
        raise InvalidInput(f"{learner!r} is not a learner: it needs arms, contexts, costs, start, choose and learn")
    if not isinstance(rule, QueryRule) or isinstance(rule, type):
        raise InvalidInput(f"{rule!r} is not a rule: use ExactMatching(), or an object with asks(question)")
    with notice("the agent"):
        if isinstance(learner, OFUL):
            return LinearMind(learner, rule, costs, seeds)
        if isinstance(learner, EpisodicLearner):
            return EpisodicMind(learner, rule, costs, seeds)
        return ArmsMind(learner, rule, costs, seeds)


__all__ = ["ArmsMind", "EpisodicMind", "LinearMind", "Mind", "make_mind"]
