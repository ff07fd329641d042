"""Agent = learner + rule + ledger: decide, observe, grant, save, load.

An agent decides what to do and whether to ask what it was worth; the budget is charged at the moment of asking.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.budgets import Budget, Schedule
from sparingly.errors import InvalidInput, NotAwaited, UnknownDecision
from sparingly.families import arms, linear
from sparingly.learners.base import TabularLearner
from sparingly.learners.oful import OFUL
from sparingly.ledger import GRANTED, UNLIMITED, Ledger, budget_in_units
from sparingly.minds import ArmsMind, LinearMind, make_mind
from sparingly.protocol import Decision, Learner, QueryRule
from sparingly.randomness import seed_sequence
from sparingly.rules import ExactMatching, Rule


class Agent:
    """Decides under a hard budget.

    `learner` chooses the actions (UCB1, MOSS, OFUL or your own), `rule` decides when to ask, `budget` is what may be
    spent: a number, to which `grant` adds, or a schedule such as `budgets.Linear(0.05)` that grows by itself
    with every decision. `costs` overrides the learner's costs of asking.

    >>> from sparingly import Agent, UCB1
    >>> agent = Agent(UCB1(arms=2), budget=10, seed=0)
    >>> d = agent.decide()
    >>> d.action, d.ask
    (0, True)
    >>> agent.observe(d.id, reward=0.7)
    >>> agent.ledger
    Ledger(granted=10, spent=1, refused=0)
    """

    def __init__(
        self,
        learner: TabularLearner | OFUL | Learner,
        rule: Rule | QueryRule | None = None,
        budget: float | Schedule = 0.0,
        seed: int | np.random.SeedSequence | None = None,
        costs: Any = None,
    ) -> None:
        self.learner = learner
        self.rule = ExactMatching() if rule is None else rule
        self._mind = make_mind(learner, self.rule, costs, seed_sequence(seed))
        self._awaited: dict[int, Any] = {}  # decision → what the mind needs to learn from its answer
        self.schedule: Schedule | None = None
        self._scheduled = 0  # what the schedule has granted so far, in millionths
        self.ledger = Ledger(account=self._mind.account)
        self._set_budget(budget)

    def _set_budget(self, budget: float | Budget) -> None:
        if isinstance(budget, Schedule):
            self.schedule = budget
            self._follow_schedule(1)
        elif isinstance(budget, Budget):
            raise InvalidInput(f"an Agent's budget is a number or a schedule, not {budget!r}; call grant() as it grows")
        else:
            self.ledger.grant_to(budget)

    def _follow_schedule(self, t: int) -> None:
        assert self.schedule is not None
        units, account = int(budget_in_units(self.schedule(t))), self.ledger.account
        if units < self._scheduled:
            raise InvalidInput(f"a budget only grows, but {self.schedule!r} falls to {self.schedule(t):g} in round {t}")
        account[GRANTED] = min(int(account[GRANTED]) + units - self._scheduled, UNLIMITED)
        self._scheduled = units

    @property
    def decisions(self) -> int:
        """How many decisions were made; the id of the last one."""
        return self._mind.decisions

    @property
    def awaited(self) -> tuple[int, ...]:
        """The ids of the decisions whose feedback was asked for and has not come."""
        return tuple(self._awaited)

    @property
    def asked(self) -> NDArray[np.int64]:
        """How often each cell was asked for, (S, A)."""
        mind = self._arms("asked")
        return mind.memory.counts[:, arms.ASKED].reshape(mind.shape).copy()

    @property
    def answered(self) -> NDArray[np.int64]:
        """How often each cell was answered, (S, A)."""
        mind = self._arms("answered")
        return mind.memory.counts[:, arms.ANSWERED].reshape(mind.shape).copy()

    @property
    def means(self) -> NDArray[np.float64]:
        """The mean answer of each cell, (S, A); NaN where there is none."""
        mind = self._arms("means")
        total, answered = mind.memory.values[:, arms.TOTAL], mind.memory.counts[:, arms.ANSWERED]
        return np.divide(total, answered, out=np.full(total.shape, np.nan), where=answered > 0).reshape(mind.shape)

    def indices(self, context: int | None = None) -> NDArray[np.float64]:
        """The learner's index of each arm (A,), as the next decision in this context will compare them."""
        mind = self._arms("indices")
        if not isinstance(self.learner, TabularLearner):
            raise InvalidInput(f"{type(self.learner).__name__} is not one of our learners: its indices are not known")
        result = np.empty(mind.shape[1])
        arms.write_indices(mind.words, mind.check(context), result)
        return result

    @property
    def theta(self) -> NDArray[np.float64]:
        """OFUL's estimate of θ, (d,)."""
        if not isinstance(self._mind, LinearMind):
            raise InvalidInput(f"{type(self.learner).__name__} has no theta; OFUL has")
        return self._mind.memory.theta.copy()

    @property
    def radius(self) -> float:
        """OFUL's l: with probability 1 − δ, θ lies within this distance of its estimate, in the norm of V."""
        if not isinstance(self._mind, LinearMind):
            raise InvalidInput(f"{type(self.learner).__name__} has no radius; OFUL has")
        return float(linear.radius_now(self._mind.words))

    def _arms(self, what: str) -> ArmsMind:
        if not isinstance(self._mind, ArmsMind):
            raise InvalidInput(f"`{what}` is about arms; {type(self.learner).__name__} has none")
        return self._mind

    def decide(self, context: Any = None) -> Decision:
        """Choose an action and whether to ask about it.

        `context` is a whole number for contextual arms (none if there is only one), and an array of features (A, d),
        one row for each action, for OFUL.
        """
        checked = self._mind.check(context)
        if self.schedule is not None:
            self._follow_schedule(self._mind.decisions + 1)
        action, ask, width, threshold, ticket = self._mind.decide(checked)
        number = self._mind.decisions
        if ask:
            self._awaited[number] = ticket
        return Decision(number, action, ask, width, threshold)

    def observe(self, id: int, reward: float) -> None:
        """Report what the action of a decision was worth: once, as late as you like, in any order.

        For arms a reward lies in [0, 1]; for OFUL it is any finite number.
        """
        whole = isinstance(id, int | np.integer) and not isinstance(id, bool)
        ticket = self._awaited.get(id) if whole else None
        if ticket is None:
            raise (
                self._no_such(id) if whole else UnknownDecision(f"no decision has the id {id!r}; ids are whole numbers")
            )
        self._mind.learn(ticket, self._mind.check_reward(reward))
        del self._awaited[id]

    def _no_such(self, id: int) -> InvalidInput:
        if not 1 <= id <= self.decisions:
            return UnknownDecision(f"no decision has the id {id!r}; ids so far are 1 … {self.decisions}")
        return NotAwaited(f"decision {id} awaits no feedback: it was answered already, or never asked for")

    def grant(self, amount: float) -> None:
        """Add to the budget. What was granted cannot be taken back."""
        self.ledger.grant(amount)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one JSON file: learner, rule, ledger, statistics, randomness, what is awaited."""
        from sparingly.saving import save  # saving knows the agent's parts, the agent only these two calls

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], types: Iterable[type] = ()) -> Agent:
        """Read an agent back; it goes on exactly as the saved one would have. `types` names your own classes."""
        from sparingly.saving import load

        return load(path, tuple(types))

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in self.__dict__.items() if name != "ledger"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copied or unpickled agent: the parts of its memory are views, and must be made anew."""
        self.__dict__.update(state)
        self._mind.attach()
        self.ledger = Ledger(account=self._mind.account)

    def __repr__(self) -> str:
        return f"Agent({self.learner!r}, rule={self.rule!r}, decisions={self.decisions}, ledger={self.ledger!r})"
