"""Agent = family + rule + ledger: decide, observe, grant, save, load.

An agent decides what to do and whether to ask what it was worth; the budget is charged at the moment of asking. Its
*family* is what knows the setting: arms, features or episodes (`protocol.Family`).
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.budgets import Budget, Schedule
from sparingly.errors import InvalidInput, UnreadableFile
from sparingly.ledger import Ledger
from sparingly.protocol import Decision, QueryRule
from sparingly.randomness import seed_sequence
from sparingly.rules import BalancedMatching, Rule
from sparingly.settings import AnyLearner, make_family, who_has
from sparingly.validation import whole

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class Agent:
    """Decides under a hard budget.

    `learner` chooses the actions (UCB1, MOSS, OFUL, UCBVI, ULCVI or your own), `rule` decides when to ask,
    `budget` is what may be spent: a number, to which `grant` adds, or a schedule such as `budgets.Linear(0.05)` that
    grows by itself with every decision (or episode). `costs` overrides the learner's costs of asking.

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
        learner: AnyLearner,
        rule: Rule | QueryRule | None = None,
        budget: float | Schedule = 0.0,
        seed: int | np.random.SeedSequence | None = None,
        costs: Any = None,
    ) -> None:
        self.rule = BalancedMatching() if rule is None else rule
        self._family = make_family(learner, self.rule, costs, seed_sequence(seed))
        self.learner = self._family.learner
        self._awaited: dict[Any, Any] = {}  # decision → what the family needs to learn from its answer
        self.schedule: Schedule | None = None
        self._scheduled = 0  # what the schedule has granted so far, in millionths
        self.ledger = Ledger(account=self._family.account)
        self._set_budget(budget)

    def _set_budget(self, budget: float | Budget) -> None:
        if isinstance(budget, Schedule):
            self.schedule = budget
            self._follow_schedule(1)
        elif isinstance(budget, Budget):
            raise InvalidInput(f"an Agent's budget is a number or a schedule, not {budget!r}; call grant() as it grows")
        else:
            self.ledger.grant_to(budget)

    def _restore(self, parts: dict[str, Any], awaited: dict[Any, Any], scheduled: int) -> None:
        """Go on from a saved memory, if everything in it adds up."""
        self._family.restore(parts)
        self.ledger.attach(self._family.account)
        self._awaited, self._scheduled = awaited, scheduled
        numbers = [key[0] if isinstance(key, tuple) else key for key in awaited]
        if not all(isinstance(number, int) and 1 <= number <= self.decisions for number in numbers):
            raise UnreadableFile("feedback is awaited for a decision that was never made")
        self._family.check_sums(list(awaited.values()))

    def _follow_schedule(self, t: int) -> None:
        assert self.schedule is not None
        self._scheduled = self.schedule.follow(self.ledger, t, self._scheduled)

    @property
    def decisions(self) -> int:
        """How many decisions (or episodes) were made; the id of the last one."""
        return int(self._family.made[0])

    @property
    def awaited(self) -> tuple[Any, ...]:
        """The ids of the decisions whose feedback was asked for and has not come; (episode, step) for episodes."""
        return tuple(self._awaited)

    def _view(self, name: str) -> Any:
        """What the family can be asked about, or an error that says whose agents can."""
        if name not in self._family.views:
            if name in self._family.instead:
                raise InvalidInput(self._family.instead[name])
            raise InvalidInput(f"`{name}` is not for {type(self.learner).__name__}; agents of {who_has(name)} have it")
        return getattr(self._family, name, None)

    @property
    def asked(self) -> Integers:
        """How often each cell was asked for, (S, A); (H, S, A) for episodes."""
        return cast(Integers, self._view("asked")())

    @property
    def answered(self) -> Integers:
        """How often each cell was answered, (S, A); (H, S, A) for episodes."""
        return cast(Integers, self._view("answered")())

    @property
    def means(self) -> Floats:
        """The mean answer of each cell, (S, A); (H, S, A) for episodes; NaN where there is none."""
        return cast(Floats, self._view("means")())

    def indices(self, context: int | None = None) -> Floats:
        """The learner's index of each arm (A,), as the next decision in this context will compare them."""
        return cast(Floats, self._view("indices")(context))

    @property
    def theta(self) -> Floats:
        """OFUL's estimate of θ, (d,)."""
        return cast(Floats, self._view("theta")())

    @property
    def radius(self) -> float:
        """OFUL's l: with probability 1 − δ, θ lies within this distance of its estimate, in the norm of V."""
        return cast(float, self._view("radius")())

    @property
    def threshold(self) -> float:
        """The width at or above which the next decision would be asked about, under the budget of this moment.

        Not for episodes, where it differs from cell to cell; `widths` has what is compared.
        """
        return cast(float, self._view("threshold")())

    def predict(self, features: ArrayLike) -> tuple[Floats, ...]:
        """For OFUL and features (A, d): estimates, how far off they may be, and the widths that the rule sees, (A,)."""
        return cast(tuple[Floats, ...], self._view("predict")(features))

    @property
    def visits(self) -> Integers:
        """How often the learner has seen each cell of an episode, (H, S, A)."""
        return cast(Integers, self._view("visits")())

    @property
    def widths(self) -> Floats:
        """CI^R of each cell of an episode, (H, S, A): how wide the interval of its expected reward is."""
        return cast(Floats, self._view("widths")())

    @property
    def values(self) -> tuple[Floats, Floats]:
        """V of the latest plan from above and from below, (H, S) each; UCBVI has no lower bound but 0."""
        return cast(tuple[Floats, Floats], self._view("values")())

    def best_guess(self) -> Integers:
        """The policy (H, S) that would be best if the estimates were true: no bonus, no exploration.

        What was never tried or never answered counts as worth nothing.
        """
        return cast(Integers, self._view("best_guess")())

    def decide(self, context: Any = None) -> Decision:
        """Choose an action and whether to ask about it.

        `context` is a whole number for contextual arms (none if there is only one), and an array of features (A, d),
        one row for each action, for OFUL.
        """
        checked = self._family.check(context)
        if self.schedule is not None:
            self._follow_schedule(self.decisions + 1)
        action, ask, width, threshold, why, ticket = self._family.decide(checked)
        number = int(self._family.made[0])
        if ask:
            self._awaited[number] = ticket
        return Decision(number, action, ask, width, threshold, why)

    def plan(self) -> Integers:
        """Start an episode: the policy to follow, (H, S). Until `decide_episode` it stays the same."""
        plan = self._view("plan")
        if self.schedule is not None and not self._family.open:
            self._follow_schedule(self.decisions + 1)
        return cast(Integers, plan())

    def decide_episode(self, states: ArrayLike, actions: ArrayLike) -> Booleans:
        """End an episode: given its states and actions (H,), the steps to ask about, (H,).

        The answer to step h of this episode is reported by `observe_episode`, or by `observe((agent.decisions, h), …)`.
        """
        decide = self._view("decide_episode")
        path = self._family.check_path(states, actions)
        self.plan()
        asks, cells = decide(path)
        self.ledger.attach(self._family.account)  # the memory that holds it may have moved to grow
        for h in np.flatnonzero(asks):
            self._awaited[self.decisions, int(h)] = int(cells[h])
        return cast(Booleans, asks)

    def observe_episode(self, rewards: ArrayLike, episode: int | None = None) -> None:
        """Report the rewards of an episode (H,), by default the last one: NaN where not asked, or not known yet."""
        self._view("observe_episode")
        number = self.decisions if episode is None else whole(episode, "episode", most=max(self.decisions, 1))
        values = self._family.check_rewards(rewards)
        given = [(number, int(h)) for h in np.flatnonzero(~np.isnan(values))]
        for step in given:
            if step not in self._awaited:
                raise self._family.check_id(step)
            self._family.check_reward(float(values[step[1]]))
        for step in given:
            self.observe(step, float(values[step[1]]))

    def replay(self, context: Any, action: int, ask: bool) -> Decision:
        """Live through a decision from its record: the same as `decide`, but what was recorded is what counts.

        Where the same code has decided on a like machine, both agree. Another processor may round otherwise; then the
        ask that was recorded is counted in place of the one that would be made here.
        """
        decision = self.decide(context)
        if (decision.action, decision.ask) == (action, ask):
            return decision
        if decision.ask:
            self.withdraw(decision.id)
        if ask:
            self._awaited[decision.id] = self._family.count_ask(self._family.check(context), action)
        return decision._replace(action=action, ask=ask)

    def withdraw(self, id: int) -> None:
        """Take back an ask that nobody has seen: it is refunded, and the rule counts as if it had not been made.

        The budget stays safe, for whether an ask is safe depends on what was asked and is left now, not on how it came
        about. With features the bar of `ExactMatching`, which never rises otherwise, may rise again, since what was
        taken back is unknown again (docs/paper.md says by how much). An ask that has bothered someone must not be
        taken back, answered or not. Not for episodes.
        """
        ticket = self._ticket_of(id)
        self._family.take_back(ticket)
        del self._awaited[id]

    def observe(self, id: Any, reward: float) -> None:
        """Report what the action of a decision was worth: once, as late as you like, in any order.

        For arms and episodes a reward lies in [0, 1]; for OFUL it is any finite number. In episodes the id is a pair:
        the number of the episode and the step, from 0.
        """
        ticket = self._ticket_of(id)
        self._family.learn(ticket, self._family.check_reward(reward))
        del self._awaited[id]

    def _ticket_of(self, id: Any) -> Any:
        """What the family keeps of a decision that awaits feedback."""
        if type(id) is int and id in self._awaited:
            return self._awaited[id]
        parts = id if isinstance(id, tuple) else (id,)
        known = all(isinstance(part, int | np.integer) and not isinstance(part, bool) for part in parts)
        ticket = self._awaited.get(id) if known else None
        if ticket is None:
            raise self._family.check_id(id)
        return ticket

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
        self._family.attach()
        self.ledger = Ledger(account=self._family.account)

    def __copy__(self) -> Agent:
        """Two agents must not share one memory: a copy is a deep one."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        return f"Agent({self.learner!r}, rule={self.rule!r}, decisions={self.decisions}, ledger={self.ledger!r})"
