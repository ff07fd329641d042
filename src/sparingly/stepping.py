"""Acting step by step in an environment: what an agent does in a state, and whether it asks what that was worth."""

from __future__ import annotations

import threading
from typing import Any, cast

from sparingly.ledger import Ledger
from sparingly.protocol import Decision
from sparingly.roster import locked


class Stepping:
    """The part of an Agent that acts step by step, for learners with one model for all steps."""

    _lock: threading.RLock
    _family: Any
    _awaited: dict[Any, Any]
    ledger: Ledger
    schedule: Any
    decisions: Any

    _view: Any
    _follow_schedule: Any

    @locked
    def act(self, state: int, env: int = 0) -> int:
        """Choose the action in a state, for learners with one model for all steps. Then call `reached`.

        It starts an episode if the last one has ended, and plans when a count has doubled. A second call gives the same
        action. `env` is the number of the environment, if several are played side by side.
        """
        act = self._view("act")
        if self.schedule is not None:
            self._follow_schedule(self.decisions + 1)
        action = act(state, env)
        self.ledger.attach(self._family.account)  # the memory that holds it may have moved to grow
        return cast(int, action)

    @locked
    def reached(self, state: int, terminated: bool = False, truncated: bool = False, env: int = 0) -> Decision:
        """Report the state that the last action led to, and decide whether to ask for the reward of that step.

        `terminated`: the episode has ended there, and no more rewards can follow; `truncated`: it was only cut off.

        Returns: a Decision that says whether to `ask`; the budget is charged already. Report the reward with `observe`.
        """
        action, ask, width, threshold, why, ticket = self._view("reached")(state, terminated, truncated, env)
        self.ledger.attach(self._family.account)  # the memory that holds it may have moved to grow
        if ask:
            self._awaited[self.decisions] = ticket
        return Decision(self.decisions, action, ask, width, threshold, why, action)
