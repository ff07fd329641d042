"""Agent = family + rule + ledger: decide, observe, grant, save, load.

An agent decides what to do and whether to ask what it was worth; the budget is charged at the moment of asking. Its
*family* is what knows the setting: arms, features or episodes (`protocol.Family`).
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.budgets import Budget, ByClock, Schedule
from sparingly.errors import InvalidInput, NotAwaited, UnreadableFile
from sparingly.ledger import Ledger
from sparingly.naming import Name, as_number
from sparingly.protocol import Decision, QueryRule
from sparingly.randomness import seed_sequence
from sparingly.roster import Roster, locked
from sparingly.rules import BalancedMatching, Never, Rule
from sparingly.settings import AnyLearner, check_parts, make_family, who_has
from sparingly.stepping import Stepping
from sparingly.teaching import Teachable
from sparingly.validation import whole

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


GUESSES = {  # what people try, and what to write instead
    "budget": "agent.ledger has granted, spent and left; agent.grant(5) adds to it",
    "choose": "write agent.decide()",
    "left": "write agent.ledger.left",
    "name": "an agent has none",
    "reset": "make a new agent",
    "reward": "write agent.observe(d, reward)",
    "select": "write agent.decide()",
    "spent": "write agent.ledger.spent",
    "update": "write agent.observe(d, reward)",
}


class Agent(Roster, Stepping, Teachable):
    """Makes decisions under a hard budget.

    Parameters
    ----------
    learner
        Chooses the actions: UCB1, OFUL, UCBVI, another built-in learner, or your own.
    rule
        Decides when to ask; BalancedMatching() by default.
    budget
        What may be spent: a number, to which `grant` adds; a schedule such as `budgets.Linear(0.05)`, which grows with
        every decision (or episode); or `budgets.ByClock(50)`, which grows by 50 a day.
    seed
        The same seed gives the same decisions.
    costs
        What asking costs, for each action or cell. They replace the learner's own costs.
    actions, contexts
        Their names, in the order of their numbers. `decide` then takes the name of a context and returns the name of
        an action.
    rewards
        The scale of the rewards, (low, high): (1, 5) for stars. Without it, a learner for arms or episodes takes
        rewards in [0, 1], and a learner for features takes any number.

    Threads may share an agent: each call ends before the next one begins.

    >>> from sparingly import Agent, UCB1
    >>> agent = Agent(UCB1(arms=2), budget=10, seed=1, actions=["small", "large"], rewards=(1, 5))
    >>> d = agent.decide()
    >>> d.action, d.index, d.ask
    ('small', 0, True)
    >>> agent.observe(d, reward=4)
    >>> agent.ledger
    Ledger(granted=10, spent=1, refused=0)
    """

    def __init__(
        self,
        learner: AnyLearner,
        rule: Rule | QueryRule | None = None,
        budget: float | Schedule | ByClock | None = None,
        seed: int | np.random.SeedSequence | None = None,
        costs: Any = None,
        *,
        actions: Sequence[Name] | None = None,
        contexts: Sequence[Name] | None = None,
        rewards: tuple[float, float] | None = None,
    ) -> None:
        self.rule = BalancedMatching() if rule is None else rule
        check_parts(learner, self.rule, costs)
        if budget is None and not isinstance(self.rule, Never):
            raise InvalidInput(
                "an agent needs a budget: what may be spent on asking, as in budget=100 (0 asks nothing)"
            )
        self._lock = threading.RLock()
        self._family = make_family(learner, self.rule, costs, seed_sequence(seed))
        self.learner = self._family.learner
        self._set_names(actions, contexts, rewards)
        self._awaited: dict[Any, Any] = {}  # decision → what the family needs to learn from its answer
        self.schedule: Schedule | ByClock | None = None
        self._scheduled = 0  # what the schedule has granted so far, in millionths
        self.ledger = Ledger(account=self._family.account)
        self._set_budget(0.0 if budget is None else budget)

    def _set_budget(self, budget: Any) -> None:
        if isinstance(budget, ByClock):
            self.schedule = budget.started()
            self._follow_schedule(1)
        elif isinstance(budget, Schedule):
            self.schedule = budget
            self._follow_schedule(1)
        elif isinstance(budget, Budget):
            raise InvalidInput(f"an Agent's budget is a number or a schedule, not {budget!r}; call grant() as it grows")
        elif isinstance(budget, str):
            raise InvalidInput(
                f"a budget is a number, not the text {budget!r}: write budget=100, or budget=budgets.ByClock(100) for "
                "100 a day, or budgets.Linear(0.05) for one ask in twenty decisions"
            )
        else:
            self.ledger.grant_to(budget)

    def _restore(self, parts: dict[str, Any], awaited: dict[Any, Any] | None, scheduled: int) -> None:
        """Go on from a saved memory, if everything in it adds up; None: what is awaited was set aside."""
        self._family.restore(parts)
        self.ledger.attach(self._family.account)
        self._awaited, self._scheduled = awaited or {}, scheduled
        numbers = [key[0] if isinstance(key, tuple) else key for key in self._awaited]
        if not all(isinstance(number, int) and 1 <= number <= self.decisions for number in numbers):
            raise UnreadableFile("feedback is awaited for a decision that was never made")
        self._family.check_sums(None if awaited is None else list(awaited.values()))

    def _follow_schedule(self, t: int) -> None:
        """Let the budget grow to what the schedule says of round t, or of this moment."""
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

    @locked
    def _read(self, name: str, *arguments: Any) -> Any:
        """What the family says of itself, between two calls of other threads."""
        return self._view(name)(*arguments)

    @property
    def asked(self) -> Integers:
        """How often each cell was asked about, (S, A); (H, S, A) for episodes."""
        return cast(Integers, self._read("asked"))

    @property
    def answered(self) -> Integers:
        """How often each cell was answered, (S, A); (H, S, A) for episodes."""
        return cast(Integers, self._read("answered"))

    @property
    def taught(self) -> Integers:
        """How many answers about each cell came without an ask, (S, A): by `teach`, `fit`, or beside another one."""
        return cast(Integers, self._read("taught"))

    @property
    def means(self) -> Floats:
        """The mean answer of each cell, (S, A); (H, S, A) for episodes; NaN where there is none."""
        means = self._read("means")
        return cast(Floats, means if self._scale is None else self._scale.from_unit(means))

    def indices(self, context: int | None = None) -> Floats:
        """The learner's index of each arm (A,), as the next decision in this context will compare them."""
        return cast(Floats, self._read("indices", self._context_number(context)))

    @property
    def theta(self) -> Floats:
        """OFUL's estimate of θ, (d,)."""
        return cast(Floats, self._read("theta"))

    @property
    def radius(self) -> float:
        """OFUL's l: with probability 1 − δ, θ lies within this distance of its estimate, in the norm of V."""
        return cast(float, self._read("radius"))

    @property
    def threshold(self) -> float:
        """The width from which the next decision would be asked about, under the current budget.

        Not for episodes, where it differs from cell to cell; `widths` has what is compared.
        """
        return cast(float, self._read("threshold"))

    def predict(self, features: ArrayLike) -> tuple[Floats, ...]:
        """For OFUL and features (A, d): the estimates, their possible errors, and the widths for the rule, (A,)."""
        return cast(tuple[Floats, ...], self._read("predict", features))

    @property
    def visits(self) -> Integers:
        """How often the learner has seen each cell of an episode, (H, S, A)."""
        return cast(Integers, self._read("visits"))

    @property
    def widths(self) -> Floats:
        """CI^R of each cell of an episode, (H, S, A): the width of the interval of its expected reward."""
        return cast(Floats, self._read("widths"))

    @property
    def values(self) -> tuple[Floats, Floats]:
        """Upper and lower bounds on V of the latest plan, (H, S) each; the lower bound of UCBVI is 0."""
        return cast(tuple[Floats, Floats], self._read("values"))

    def best_guess(self) -> Integers:
        """The policy (H, S) that would be best if the estimates were true, without bonuses or exploration.

        An action that was never tried or never answered counts as worth 0.
        """
        return cast(Integers, self._read("best_guess"))

    def _check_context(self, context: Any) -> Any:
        """A context, or an error that says what it must be."""
        checked = self._family.check(self._context_number(context))
        if (
            self._actions is not None
            and self._family.nameable["actions"] is None
            and len(checked) != len(self._actions)
        ):
            raise InvalidInput(f"features have {len(checked)} rows, but there are {len(self._actions)} actions")
        return checked

    def decide(self, context: Any = None) -> Decision:
        """Choose an action, and decide whether to ask about it.

        Parameters:
        - `context`: with arms, its number or name; leave it out if there is only one. With OFUL, an array of features
          (A, d), a row for each action. The rows may change from one decision to the next, and so may their number if
          the actions have no names.

        Returns: the action, whether to ask, an id for the answer, and the reason.
        """
        with self._lock:  # as `locked`, which takes longer
            return self._decide(self._check_context(context) if self._named else self._family.check(context))

    def _decide(self, checked: Any) -> Decision:
        if self.schedule is not None:
            self._follow_schedule(self.decisions + 1)
        action, ask, width, threshold, why, ticket = self._family.decide(checked)
        number = int(self._family.made[0])
        if ask:
            self._awaited[number] = ticket
        name = action if self._actions is None else self._actions[action]
        return Decision(number, name, ask, width, threshold, why, action)

    @locked
    def decide_batch(self, contexts: int | Iterable[Any]) -> list[Decision]:
        """Make several decisions at once: one for each context, or a number of them if there are no contexts.

        This is the same as calling `decide` for each, before any answer is known. If one context is invalid, nothing
        is decided.
        """
        if isinstance(contexts, int | np.integer) and not isinstance(contexts, bool):
            contexts = [None] * whole(contexts, "the number of decisions", least=0)
        elif isinstance(contexts, str) or not isinstance(contexts, Iterable):
            raise InvalidInput(f"contexts must be a list of contexts, or how many decisions to make; not {contexts!r}")
        return [self._decide(checked) for checked in [self._check_context(context) for context in contexts]]

    @locked
    def plan(self) -> Integers:
        """Start an episode, and return the policy to follow, (H, S). It stays the same until `decide_episode`."""
        plan = self._view("plan")
        if self.schedule is not None and not self._family.open:
            self._follow_schedule(self.decisions + 1)
        return cast(Integers, plan())

    @locked
    def decide_episode(self, states: ArrayLike, actions: ArrayLike) -> Booleans:
        """End an episode: given its states and actions (H,), return the steps to ask about, (H,).

        Report the answer about step h with `observe_episode`, or with `observe((agent.decisions, h), …)`.
        """
        decide = self._view("decide_episode")
        path = self._family.check_path(states, actions)
        self.plan()
        asks, cells = decide(path)
        self.ledger.attach(self._family.account)  # the memory that holds it may have moved to grow
        for h in np.flatnonzero(asks):
            self._awaited[self.decisions, int(h)] = int(cells[h])
        return cast(Booleans, asks)

    @locked
    def observe_episode(self, rewards: ArrayLike, episode: int | None = None) -> None:
        """Report the rewards of an episode (H,), by default the last one: NaN if not asked, or not known yet."""
        self._view("observe_episode")
        number = self.decisions if episode is None else whole(episode, "episode", most=max(self.decisions, 1))
        values = self._family.check_rewards(rewards)
        steps = [int(h) for h in np.flatnonzero(~np.isnan(values))]
        self.observe_batch([(number, h) for h in steps], [float(values[h]) for h in steps])

    @locked
    def replay(self, context: Any, action: int, ask: bool) -> Decision:
        """Repeat a decision from its record: like `decide`, but with the recorded action and ask.

        The same code on the same kind of machine decides the same again. If another processor rounds differently, the
        recorded ask counts, and not the one that would be made here.
        """
        decision = self.decide(context)
        if (decision.index, decision.ask) == (action, ask):
            return decision
        if decision.ask:
            self.withdraw(decision.id)
        if ask:
            self._awaited[decision.id] = self._family.count_ask(self._check_context(context), action)
        return decision._replace(action=self.action_name(action), ask=ask, index=action)

    @locked
    def withdraw(self, id: int | Decision) -> None:
        """Take back an ask that nobody has seen. It is refunded, and the rule counts as if it had not been made.

        The budget stays safe, because whether an ask is safe depends only on what was asked and what is left. With
        features, the threshold of `ExactMatching` may rise again, which it never does otherwise (docs/paper.md says by
        how much). Do not take back an ask that has bothered someone, answered or not. Not for episodes.
        """
        number, ticket = self._ticket_of(id)
        self._family.take_back(ticket)
        del self._awaited[number]

    @locked
    def set_aside(self, id: int) -> float:
        """Forget what the answer to an ask will need. The caller keeps it, and gives it back with `expect`.

        So an agent stays small, however many asks are open. The caller keeps the context (the features of the action),
        the action, and the number that is returned. Not for episodes.
        """
        number, ticket = self._ticket_of(id)
        del self._awaited[number]
        return cast(float, self._family.note_of(ticket))

    @locked
    def expect(self, id: int, place: Any, action: int, note: float = 0.0) -> None:
        """Take back what was set aside: now `observe` or `withdraw` can be called."""
        self._awaited[id] = self._family.ticket_of(place, action, note)

    def observe(self, id: Any, reward: Any = None, *, label: Any = None, rewards: Any = None) -> None:
        """Report the reward of a decision: once, as late as you like, in any order.

        Parameters:
        - `id`: the decision, or its id; in episodes the pair of the number of the episode and the step, from 0.
        - `reward`: on the agent's scale of rewards. Without a scale it lies in [0, 1] for arms and episodes, and is any
          finite number for OFUL. True and False count as 1 and 0.
        - `label`: the action that would have been right. It has reward 1, all others 0. With arms, all actions learn
          from it, for the cost of one ask.
        - `rewards`: the reward of each action, as a list, or by name if only some are known. The action of this
          decision must be among them.
        """
        with self._lock:
            number, ticket = self._ticket_of(id)
            if label is None and rewards is None:
                self._family.learn(ticket, self._check_reward(reward))
            else:
                self._observe_all(ticket, reward, label, rewards)
            del self._awaited[number]

    def _observe_all(self, ticket: Any, reward: Any, label: Any, rewards: Any) -> None:
        """Take in what an answer says of all actions: the one that was asked about is answered, the others taught."""
        if (reward is not None) + (label is not None) + (rewards is not None) > 1:
            raise InvalidInput("give one of reward, label and rewards, not several")
        if self._family.takes_labels:
            self._family.learn_label(ticket, self._label(label, rewards))
            return
        found = self._rewards_of_all(ticket, label, rewards)
        own = [value for other, value in found if other == ticket]
        if not own:
            raise InvalidInput("rewards must have that of the action that was asked about")
        self._family.learn(ticket, own[0])
        self._teach_all([(other, value) for other, value in found if other != ticket])

    @locked
    def observe_batch(self, ids: Sequence[Any], rewards: Sequence[Any]) -> None:
        """Report the rewards of several decisions at once. If one is invalid, nothing is learnt.

        `ids` are decisions or their ids, each with its reward.
        """
        try:
            pairs = list(zip(ids, rewards, strict=True))
        except (TypeError, ValueError):
            raise InvalidInput("ids and rewards must be two lists of the same length") from None
        found = [(*self._ticket_of(one), self._check_reward(reward)) for one, reward in pairs]
        if len({number for number, _, _ in found}) < len(found):
            raise InvalidInput("a decision can be answered only once, but this batch has one of them twice")
        for number, ticket, reward in found:
            self._family.learn(ticket, reward)
            del self._awaited[number]

    def _check_reward(self, reward: Any) -> float:
        """A reward as the learner takes it, or an error."""
        value = reward if type(reward) is float else as_number(reward)
        try:
            return cast(float, self._family.check_reward(value if self._scale is None else self._scale.to_unit(value)))
        except InvalidInput as error:
            if value is None or isinstance(value, str):
                hint = "where there is no answer, do not call observe" if value is None else f"write float({value!r})"
                raise InvalidInput(f"{error}; {hint}") from None
            raise

    def _ticket_of(self, id: Any) -> tuple[Any, Any]:
        """The number of a decision that awaits feedback, and what the family keeps of it."""
        number = id
        if type(id) is Decision:
            number = id.id
            if not id.ask:
                raise NotAwaited(
                    f"decision {number} was not asked about: observe a decision only where its `ask` is true"
                )
        if type(number) is int and number in self._awaited:
            return number, self._awaited[number]
        parts = number if isinstance(number, tuple) else (number,)
        known = all(isinstance(part, int | np.integer) and not isinstance(part, bool) for part in parts)
        ticket = self._awaited.get(number) if known else None
        if ticket is None:
            raise self._family.check_id(number)
        return number, ticket

    @locked
    def grant(self, amount: float) -> None:
        """Add to the budget. A grant cannot be taken back."""
        self.ledger.grant(amount)

    @locked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one JSON file: learner, rule, ledger, statistics, random state, open asks."""
        from sparingly.saving import save  # saving knows the agent's parts, the agent only these two calls

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], types: Iterable[type] = ()) -> Agent:
        """Read an agent back. It continues exactly as the saved one would have. `types` lists your own classes."""
        from sparingly.saving import load

        return load(path, tuple(types))

    def explain(self, decision: Decision) -> str:
        """A decision in words: the action, whether to ask, the reasons, and the current budget."""
        from sparingly.agent_display import explain  # for people, and not needed otherwise

        return explain(self, decision)

    def plot(self, axes: Any = None) -> Any:
        """Draw what is known of each action, for arms: mean rewards with intervals, a panel for each context.

        Returns: the axes, the given ones or new ones. Needs the extra lab.
        """
        from sparingly.agent_display import plot

        return plot(self, axes)

    @locked
    def _repr_html_(self) -> str:
        from sparingly.agent_display import as_html

        return as_html(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in self.__dict__.items() if name not in ("ledger", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copied or unpickled agent: the parts of its memory are views, and must be made anew."""
        self.__dict__.update(state)
        self._lock = threading.RLock()
        self._family.attach()
        self.ledger = Ledger(account=self._family.account)

    def __copy__(self) -> Agent:
        """Two agents must not share one memory: a copy is a deep one."""
        return copy.deepcopy(self)

    def __len__(self) -> int:
        raise TypeError("an agent has no length: agent.decisions counts its decisions, agent.learner has its sizes")

    def __bool__(self) -> bool:
        return True

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """For names that people try, and that have another name here."""
            instead = GUESSES.get(name, "")
            raise AttributeError(f"an Agent has no `{name}`{instead and ': ' + instead}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"Agent({self.learner!r}, rule={self.rule!r}, decisions={self.decisions}, ledger={self.ledger!r})"
