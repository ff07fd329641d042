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
from sparingly.compiling import notice
from sparingly.errors import InvalidInput, NotAwaited, UnknownDecision
from sparingly.families import arms
from sparingly.families.custom import CustomRound
from sparingly.learners.base import CUSTOM_CODE, TabularLearner, full_costs
from sparingly.ledger import GRANTED, UNLIMITED, Ledger, budget_in_units
from sparingly.protocol import Decision, Learner, QueryRule
from sparingly.randomness import keys, seed_sequence
from sparingly.rules import CUSTOM, ExactMatching, Rule


class Agent:
    """Decides under a hard budget.

    `learner` chooses the actions (UCB1, MOSS or your own), `rule` decides when to ask, `budget` is what may be
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
        learner: TabularLearner | Learner,
        rule: Rule | QueryRule | None = None,
        budget: float | Schedule = 0.0,
        seed: int | np.random.SeedSequence | None = None,
        costs: Any = None,
    ) -> None:
        self.learner = learner
        self.rule = ExactMatching() if rule is None else rule
        codes = _codes(learner, self.rule)
        cost = full_costs(learner.costs if costs is None else costs, learner.contexts, learner.arms)
        seeds = seed_sequence(seed)
        with notice("the agent"):
            self._words = arms.remember(learner, self.rule, cost, codes, keys(seeds, 1)[0])
        self._memory = arms.open_memory(self._words)
        self._custom: CustomRound | None = None
        if codes[0] == CUSTOM_CODE or codes[1] == CUSTOM:
            self._custom = CustomRound(self._words, learner, self.rule, seeds)
        self._awaited: dict[int, tuple[int, int]] = {}  # decision → context, action
        self._contexts = learner.contexts
        self._shape = (learner.contexts, learner.arms)
        self.schedule: Schedule | None = None
        self._granted_on_top = 0  # by grant(), in millionths, beside the schedule
        self.ledger = Ledger(account=self._memory.account)
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
        units = int(budget_in_units(self.schedule(t))) + self._granted_on_top
        account = self._memory.account
        account[GRANTED] = max(int(account[GRANTED]), min(units, UNLIMITED))

    @property
    def decisions(self) -> int:
        """How many decisions were made; the id of the last one."""
        return int(self._words[arms.DECISIONS])

    @property
    def awaited(self) -> tuple[int, ...]:
        """The ids of the decisions whose feedback was asked for and has not come."""
        return tuple(self._awaited)

    @property
    def asked(self) -> NDArray[np.int64]:
        """How often each cell was asked for, (S, A)."""
        return self._memory.counts[:, arms.ASKED].reshape(self._shape).copy()

    @property
    def answered(self) -> NDArray[np.int64]:
        """How often each cell was answered, (S, A)."""
        return self._memory.counts[:, arms.ANSWERED].reshape(self._shape).copy()

    @property
    def means(self) -> NDArray[np.float64]:
        """The mean answer of each cell, (S, A); NaN where there is none."""
        total, answered = self._memory.values[:, arms.TOTAL], self._memory.counts[:, arms.ANSWERED]
        return np.divide(total, answered, out=np.full(total.shape, np.nan), where=answered > 0).reshape(self._shape)

    def indices(self, context: int | None = None) -> NDArray[np.float64]:
        """The learner's index of each arm (A,), as the next decision in this context will compare them."""
        if not isinstance(self.learner, TabularLearner):
            raise InvalidInput(f"{type(self.learner).__name__} is not one of our learners: its indices are not known")
        result = np.empty(self.learner.arms)
        u = 0 if context is None and self._contexts == 1 else self._check_context(context)
        arms.write_indices(self._words, u, result)
        return result

    def decide(self, context: int | None = None) -> Decision:
        """Choose an action for this context (0, 1, …; none if there is only one) and whether to ask about it."""
        u = 0 if context is None and self._contexts == 1 else self._check_context(context)
        if self.schedule is not None:
            self._follow_schedule(int(self._words[arms.DECISIONS]) + 1)
        if self._custom is None:
            action, ask, width, threshold = arms.decide(self._words, u)
        else:
            action, ask, width, threshold = self._custom.decide(u)
        number = int(self._words[arms.DECISIONS])
        if ask:
            self._awaited[number] = (u, action)
        return Decision(number, action, ask, width, threshold)

    def _check_context(self, context: int | None) -> int:
        if isinstance(context, int | np.integer) and not isinstance(context, bool) and 0 <= context < self._contexts:
            return int(context)
        raise InvalidInput(f"context must be a whole number in 0 … {self._contexts - 1}, not {context!r}")

    def observe(self, id: int, reward: float) -> None:
        """Report what the action of a decision was worth, in [0, 1]: once, as late as you like, in any order."""
        whole = isinstance(id, int | np.integer) and not isinstance(id, bool)
        cell = self._awaited.get(id) if whole else None
        if cell is None:
            raise (
                self._no_such(id) if whole else UnknownDecision(f"no decision has the id {id!r}; ids are whole numbers")
            )
        value = _check_reward(reward)
        if self._custom is None:
            arms.learn(self._words, cell[0], cell[1], value)
        else:
            self._custom.learn(cell[0], cell[1], value)
        del self._awaited[id]

    def _no_such(self, id: int) -> InvalidInput:
        if not 1 <= id <= self.decisions:
            return UnknownDecision(f"no decision has the id {id!r}; ids so far are 1 … {self.decisions}")
        return NotAwaited(f"decision {id} awaits no feedback: it was answered already, or never asked for")

    def grant(self, amount: float) -> None:
        """Add to the budget. What was granted cannot be taken back."""
        before = int(self._memory.account[GRANTED])
        self.ledger.grant(amount)
        self._granted_on_top += int(self._memory.account[GRANTED]) - before

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one JSON file: learner, rule, ledger, statistics, randomness, what is awaited."""
        from sparingly.saving import save  # saving knows the agent's parts, the agent only these two calls

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], types: Iterable[type] = ()) -> Agent:
        """Read an agent back; it goes on exactly as the saved one would have. `types` names your own classes."""
        from sparingly.saving import load

        return load(path, tuple(types))

    def __repr__(self) -> str:
        return f"Agent({self.learner!r}, rule={self.rule!r}, decisions={self.decisions}, ledger={self.ledger!r})"


def _codes(learner: object, rule: object) -> tuple[int, int]:
    """The codes of the compiled formulas, or CUSTOM for parts of the user's own."""
    if not isinstance(learner, TabularLearner | Learner):
        raise InvalidInput(f"{learner!r} is not a learner: it needs arms, contexts, costs, start, choose and learn")
    if not isinstance(rule, Rule | QueryRule) or isinstance(rule, type):
        raise InvalidInput(f"{rule!r} is not a rule: use ExactMatching(), or an object with asks(question)")
    return (
        learner.code if isinstance(learner, TabularLearner) else CUSTOM_CODE,
        rule.code if isinstance(rule, Rule) else CUSTOM,
    )


def _check_reward(reward: object) -> float:
    if isinstance(reward, int | float | np.integer | np.floating) and not isinstance(reward, bool):
        value = float(reward)
        if 0.0 <= value <= 1.0:
            return value
    raise InvalidInput(f"a reward must be a number in [0, 1], not {reward!r}; rescale it before you report it")
