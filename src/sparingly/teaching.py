"""Answers that cost nothing: from a log, volunteered by users, or about actions that were not asked about.

The learner learns from them, and rules count them like answers. The ledger counts asks only.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sparingly.errors import InvalidInput
from sparingly.naming import Names
from sparingly.roster import locked
from sparingly.validation import number, shown


class Teachable:
    """The part of an Agent that takes in answers beyond those that it has asked for."""

    _lock: threading.RLock
    _family: Any
    _actions: Names | None
    learner: Any

    _check_context: Any
    _check_reward: Any

    @locked
    def teach(self, action: Any, reward: Any, context: Any = None) -> None:
        """Learn from an answer that the agent did not ask for: the reward of an action, in a context.

        It is free and needs no decision: use it for feedback that users volunteer, and for what others have measured.
        Do not pass the same answer to `observe` as well, or it counts twice. With features the context is the array
        (A, d), as for `decide`. Not for episodes.
        """
        self._teach_all([self._lesson(action, reward, context)])

    @locked
    def fit(
        self,
        actions: Sequence[Any],
        rewards: Sequence[Any],
        contexts: Sequence[Any] | None = None,
        propensities: Sequence[Any] | None = None,
    ) -> None:
        """Warm start: learn from logged actions, their rewards and their contexts. It spends nothing.

        Columns of a data frame will do. If one row is invalid, nothing is learnt. The reward of an action in a context
        is estimated from the rows that have both. That is right if the choices in the log depend on the context alone.
        If they depend on more, such as on things that the agent is not told, pass the `propensities`, the probabilities
        of the actions that were taken: for arms, rows then weigh 1/propensity.
        """
        columns = [actions, rewards] if contexts is None else [actions, rewards, contexts]
        try:
            rows = list(zip(*columns, strict=True))
            chances = None if propensities is None else [chance for _, chance in zip(rows, propensities, strict=True)]
        except (TypeError, ValueError):
            raise InvalidInput("actions, rewards, contexts and propensities must be lists of the same length") from None
        lessons = [self._lesson(*row) for row in rows]
        self._teach_all(lessons if chances is None else self._weighted(lessons, chances))

    def _weighted(self, lessons: list[tuple[Any, float]], chances: list[Any]) -> list[tuple[Any, float]]:
        """Lessons of equal weight that say the same as rows which weigh 1/propensity.

        Of each cell the weighted mean, as often as its weights are worth: (Σ w)²/Σ w², rounded down, as is usual.
        """
        if self._family.setting != "tabular":
            raise InvalidInput(f"propensities are for arms: with {type(self.learner).__name__} leave them out")
        sums: dict[Any, list[float]] = {}
        for (cell, reward), chance in zip(lessons, chances, strict=True):
            weight = 1.0 / number(chance, "a propensity", least=0.0, above=True, most=1.0)
            found = sums.setdefault(cell, [0.0, 0.0, 0.0])
            for i, part in enumerate((weight, weight * weight, weight * reward)):
                found[i] += part
        made = []
        for cell, (weights, squares, total) in sums.items():
            worth = max(int(weights * weights / squares * (1.0 + 1e-12)), 1)
            made += [(cell, min(total / weights, 1.0))] * worth
        return made

    def _teach_all(self, lessons: list[tuple[Any, float]]) -> None:
        for ticket, reward in lessons:
            self._family.teach(ticket, reward)

    def _lesson(self, action: Any, reward: Any, context: Any = None) -> tuple[Any, float]:
        """What the family takes, if everything is as it must be."""
        checked = self._check_context(context)
        return self._family.lesson(checked, self._action_number(action)), self._check_reward(reward)

    def _action_number(self, action: Any) -> Any:
        """An action by its number; the family says whether there is one."""
        return action if self._actions is None else self._actions.index(action)

    def _label(self, label: Any, rewards: Any) -> int:
        """The number of the right action: given, or the only one that is worth 1."""
        if label is None:
            values = self._by_action(rewards) if isinstance(rewards, Mapping) else rewards
            return cast(int, self._family.label_from([0 if v is None else v for v in values]))
        return self._right_action(label, self._family.shape[1])

    def _right_action(self, label: Any, actions: int) -> int:
        """The number of the action that a label names."""
        right = self._action_number(label)
        if type(right) is bool or right not in range(actions):
            raise InvalidInput(f"label must be an action, 0 … {actions - 1}, not {shown(label)}")
        return int(right)

    def _rewards_of_all(self, ticket: Any, label: Any, rewards: Any) -> list[tuple[Any, float]]:
        """The rewards of all actions where a decision was made: given, or 1 for the one that `label` names."""
        tickets = self._family.others(ticket)
        if label is not None:
            right = self._right_action(label, len(tickets))
            return [(other, float(a == right)) for a, other in enumerate(tickets)]
        named = self._by_action(rewards) if isinstance(rewards, Mapping) else rewards
        if isinstance(named, str) or not hasattr(named, "__len__") or len(named) != len(tickets):
            raise InvalidInput(f"rewards must be one for each of the {len(tickets)} actions, not {shown(rewards)}")
        return [
            (other, self._check_reward(value))
            for other, value in zip(tickets, named, strict=True)
            if value is not None and not (isinstance(value, float) and math.isnan(value))
        ]

    def _by_action(self, rewards: Mapping[Any, Any]) -> list[Any]:
        """Rewards by the names of actions, in order; None for those that are not named."""
        values: list[Any] = [None] * self._family.shape[1]
        for action, reward in rewards.items():
            number = self._action_number(action)
            if type(number) is bool or number not in range(len(values)):
                raise InvalidInput(f"there is no action {shown(action)}: actions are 0 … {len(values) - 1}")
            values[number] = reward
        return values
