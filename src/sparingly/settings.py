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
from sparingly.linear.labels.family import LabelFamily
from sparingly.linear.labels.learner import LabelLearner
from sparingly.linear.learner import LinearLearner
from sparingly.numba_support import notice
from sparingly.protocol import EpisodeLearner, FeatureLearner, Learner, QueryRule
from sparingly.rules import RULES
from sparingly.tabular.family import TabularFamily
from sparingly.tabular.learner import TabularLearner
from sparingly.validation import shown

AnyLearner = (
    TabularLearner
    | LinearLearner
    | LabelLearner
    | EpisodicLearner
    | StationaryUCBVI
    | Learner
    | FeatureLearner
    | EpisodeLearner
)

FAMILIES: tuple[type[Any], ...] = (TabularFamily, LinearFamily, LabelFamily, EpisodicFamily, StationaryFamily)


def family_for(learner: Any) -> type[Any]:
    """The family of a learner, or an error that says what a learner must be."""
    for family in FAMILIES:
        if not isinstance(learner, type) and family.takes(learner):
            return family
    raise InvalidInput(f"{shown(learner)} is not a learner: {_instead(learner)}")


def _instead(given: Any) -> str:
    """What to write in place of what is no learner."""
    if isinstance(given, type) and any(given in family.learners for family in FAMILIES):
        return f"write {given.__name__}(…), with its sizes"
    if isinstance(given, int) and not isinstance(given, bool):
        return f"for so many actions write Agent(UCB1({given}), …)"
    if isinstance(given, list | tuple) and given:
        return f"write Agent(UCB1({len(given)}), actions={shown(given)}, …)"
    if isinstance(given, str):
        return "write it without quotes, as in Agent(UCB1(3), …)"
    return "it needs arms, contexts, costs, start, choose and learn; UCB1(3) is one for three actions"


def check_parts(learner: Any, rule: Any, costs: Any) -> type[Any]:
    """The family of a learner and a rule that fit together, with these costs of asking."""
    family = family_for(learner)
    check_is_rule(rule)
    family.check_pair(learner, rule, costs)
    return family


def check_is_rule(rule: Any) -> None:
    """Refuse what is no rule, and say what to write in its place."""
    if isinstance(rule, QueryRule) and not isinstance(rule, type):
        return
    instead = "use BalancedMatching(), or an object with asks(question)"
    if isinstance(rule, type) and rule in RULES:
        instead = f"write {rule.__name__}()"
    elif isinstance(rule, int | float) and not isinstance(rule, bool):
        instead = f"if it is the budget, write budget={rule}"
    elif isinstance(rule, str):
        instead = f"it is one of {', '.join(known.__name__ + '(…)' for known in RULES)}, without quotes"
    raise InvalidInput(f"{shown(rule)} is not a rule: {instead}")


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
