"""Agent = learner + rule + ledger: decide, observe, grant, save, load.

An agent decides what to do and whether to ask what it was worth; the budget is charged at the moment of asking.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.budgets import Budget, Schedule
from sparingly.checks import table, whole
from sparingly.errors import InvalidInput, NotAwaited, UnknownDecision
from sparingly.families import arms, episodic, episodic_memory, linear
from sparingly.induction import MEAN, Values
from sparingly.learners.base import TabularLearner
from sparingly.learners.episodic import EpisodicLearner
from sparingly.learners.oful import OFUL
from sparingly.ledger import Ledger
from sparingly.minds import ArmsMind, EpisodicMind, LinearMind, make_mind
from sparingly.protocol import Decision, Learner, QueryRule
from sparingly.randomness import seed_sequence
from sparingly.rules import ExactMatching, Rule

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
        learner: TabularLearner | OFUL | EpisodicLearner | Learner,
        rule: Rule | QueryRule | None = None,
        budget: float | Schedule = 0.0,
        seed: int | np.random.SeedSequence | None = None,
        costs: Any = None,
    ) -> None:
        self.learner = learner
        self.rule = ExactMatching() if rule is None else rule
        self._mind = make_mind(learner, self.rule, costs, seed_sequence(seed))
        if isinstance(self._mind, EpisodicMind):
            self.learner = self._mind.learner  # with the costs, so that they are saved
        self._awaited: dict[Any, Any] = {}  # decision → what the mind needs to learn from its answer
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
        self._scheduled = self.schedule.follow(self.ledger, t, self._scheduled)

    @property
    def decisions(self) -> int:
        """How many decisions (or episodes) were made; the id of the last one."""
        return self._mind.decisions

    @property
    def awaited(self) -> tuple[Any, ...]:
        """The ids of the decisions whose feedback was asked for and has not come; (episode, step) for episodes."""
        return tuple(self._awaited)

    @property
    def asked(self) -> Integers:
        """How often each cell was asked for, (S, A); (H, S, A) for episodes."""
        return self._counts("asked", arms.ASKED, episodic_memory.ASKED)

    @property
    def answered(self) -> Integers:
        """How often each cell was answered, (S, A); (H, S, A) for episodes."""
        return self._counts("answered", arms.ANSWERED, episodic_memory.ANSWERED)

    def _counts(self, what: str, column: int, episodic_column: int) -> Integers:
        if isinstance(self._mind, EpisodicMind):
            return self._mind.memory.counts[:, episodic_column].reshape(self._mind.learner.shape).copy()
        mind = self._arms(what)
        return mind.memory.counts[:, column].reshape(mind.shape).copy()

    @property
    def means(self) -> Floats:
        """The mean answer of each cell, (S, A); (H, S, A) for episodes; NaN where there is none."""
        if isinstance(self._mind, EpisodicMind):
            numbers = self._mind.memory.model.numbers[:, MEAN].reshape(self._mind.learner.shape)
            return np.where(self.answered > 0, numbers, np.nan)
        mind = self._arms("means")
        total, answered = mind.memory.values[:, arms.TOTAL], mind.memory.counts[:, arms.ANSWERED]
        return np.divide(total, answered, out=np.full(total.shape, np.nan), where=answered > 0).reshape(mind.shape)

    def indices(self, context: int | None = None) -> Floats:
        """The learner's index of each arm (A,), as the next decision in this context will compare them."""
        mind = self._arms("indices")
        if not isinstance(self.learner, TabularLearner):
            raise InvalidInput(f"{type(self.learner).__name__} is not one of our learners: its indices are not known")
        result = np.empty(mind.shape[1])
        arms.write_indices(mind.words, mind.check(context), result)
        return result

    @property
    def theta(self) -> Floats:
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

    @property
    def threshold(self) -> float:
        """The width at or above which the next decision would be asked about, under the budget of this moment."""
        if isinstance(self._mind, ArmsMind | LinearMind):
            return self._mind.threshold()
        raise InvalidInput("the threshold of an episode differs from cell to cell; `widths` has what is compared")

    def predict(self, features: ArrayLike) -> tuple[Floats, ...]:
        """For OFUL and features (A, d): estimates, how far off they may be, and the widths that the rule sees, (A,)."""
        if not isinstance(self._mind, LinearMind):
            raise InvalidInput(f"{type(self.learner).__name__} does not predict from features; OFUL does")
        return self._mind.predict(self._mind.check(features))

    @property
    def visits(self) -> Integers:
        """How often the learner has seen each cell of an episode, (H, S, A)."""
        mind = self._episodes("visits")
        return mind.memory.counts[:, episodic_memory.VISITS].reshape(mind.learner.shape).copy()

    @property
    def widths(self) -> Floats:
        """CI^R of each cell of an episode, (H, S, A): how wide the interval of its expected reward is."""
        mind = self._episodes("widths")
        result = np.empty(mind.learner.cells)
        episodic.write_widths(mind.words, result)
        return result.reshape(mind.learner.shape)

    @property
    def values(self) -> tuple[Floats, Floats]:
        """V of the latest plan from above and from below, (H, S) each; UCBVI has no lower bound but 0."""
        mind = self._episodes("values")
        H, S, A = mind.learner.shape
        seen = (mind.memory.counts[:, episodic_memory.VISITS].reshape(H, S, A) > 0).any(axis=2)
        most = np.broadcast_to(np.arange(H, 0, -1.0)[:, np.newaxis], (H, S))
        return np.where(seen, mind.memory.values.upper[:H], most), np.where(seen, mind.memory.values.lower[:H], 0.0)

    def best_guess(self) -> Integers:
        """The policy (H, S) that would be best if the estimates were true: no bonus, no exploration.

        What was never tried or never answered counts as worth nothing.
        """
        mind = self._episodes("best_guess")
        H, S, _ = mind.learner.shape
        values = Values(np.zeros((H + 1, S)), np.zeros((H + 1, 1)), np.zeros((H, S), dtype=np.int64))
        episodic.guess(mind.words.copy(), values)
        return values.policy

    def _episodes(self, what: str) -> EpisodicMind:
        if not isinstance(self._mind, EpisodicMind):
            raise InvalidInput(
                f"`{what}` is about episodes; {type(self.learner).__name__} has none, UCBVI and ULCVI have"
            )
        return self._mind

    def _arms(self, what: str) -> ArmsMind:
        if not isinstance(self._mind, ArmsMind):
            raise InvalidInput(f"`{what}` is about arms; {type(self.learner).__name__} has none")
        return self._mind

    def decide(self, context: Any = None) -> Decision:
        """Choose an action and whether to ask about it.

        `context` is a whole number for contextual arms (none if there is only one), and an array of features (A, d),
        one row for each action, for OFUL.
        """
        if isinstance(self._mind, EpisodicMind):
            raise InvalidInput("this agent decides whole episodes: policy = agent.plan(), then agent.decide_episode(…)")
        checked = self._mind.check(context)
        if self.schedule is not None:
            self._follow_schedule(self._mind.decisions + 1)
        action, ask, width, threshold, ticket = self._mind.decide(checked)
        number = self._mind.decisions
        if ask:
            self._awaited[number] = ticket
        return Decision(number, action, ask, width, threshold)

    def plan(self) -> Integers:
        """Start an episode: the policy to follow, (H, S). Until `decide_episode` it stays the same."""
        mind = self._episodes("plan")
        if self.schedule is not None and not mind.open:
            self._follow_schedule(mind.decisions + 1)
        return mind.plan()

    def decide_episode(self, states: ArrayLike, actions: ArrayLike) -> Booleans:
        """End an episode: given its states and actions (H,), the steps to ask about, (H,).

        The answer to step h of this episode is reported by `observe_episode`, or by `observe((agent.decisions, h), …)`.
        """
        mind = self._episodes("decide_episode")
        path = mind.check((states, actions))
        self.plan()
        asks, cells = mind.decide_episode(path)
        self._relink()
        for h in np.flatnonzero(asks):
            self._awaited[mind.decisions, int(h)] = int(cells[h])
        return asks

    def observe_episode(self, rewards: ArrayLike, episode: int | None = None) -> None:
        """Report the rewards of an episode (H,), by default the last one: NaN where not asked, or not known yet."""
        mind = self._episodes("observe_episode")
        number = self.decisions if episode is None else whole(episode, "episode", most=max(self.decisions, 1))
        values = table(rewards, "rewards", f"({mind.learner.horizon},)")
        if values.shape != (mind.learner.horizon,):
            raise InvalidInput(
                f"rewards must have shape ({mind.learner.horizon},), one for each step, not {values.shape}"
            )
        given = [(number, int(h)) for h in np.flatnonzero(~np.isnan(values))]
        for step in given:
            if step not in self._awaited:
                raise self._no_such(step)
            mind.check_reward(float(values[step[1]]))
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
            self._awaited[decision.id] = self._mind.count_ask(self._mind.check(context), action)
        return decision._replace(action=action, ask=ask)

    def withdraw(self, id: int) -> None:
        """Take back an ask that nobody has seen: it is refunded, and the rule counts as if it had not been made.

        The state is one that could have come about without it, so the budget stays safe. An ask that has bothered
        someone must not be taken back, answered or not. Not for episodes.
        """
        ticket = self._ticket_of(id)
        self._mind.take_back(ticket)
        del self._awaited[id]

    def observe(self, id: Any, reward: float) -> None:
        """Report what the action of a decision was worth: once, as late as you like, in any order.

        For arms and episodes a reward lies in [0, 1]; for OFUL it is any finite number. In episodes the id is a pair:
        the number of the episode and the step, from 0.
        """
        ticket = self._ticket_of(id)
        self._mind.learn(ticket, self._mind.check_reward(reward))
        del self._awaited[id]

    def _ticket_of(self, id: Any) -> Any:
        """What the mind keeps of a decision that awaits feedback."""
        parts = id if isinstance(id, tuple) else (id,)
        known = all(isinstance(part, int | np.integer) and not isinstance(part, bool) for part in parts)
        ticket = self._awaited.get(id) if known else None
        if ticket is None:
            raise self._no_such(id)
        return ticket

    def _no_such(self, id: Any) -> InvalidInput:
        if isinstance(self._mind, EpisodicMind):
            pair = isinstance(id, tuple) and len(id) == 2 and all(isinstance(part, int | np.integer) for part in id)
            if not pair or not 1 <= id[0] <= self.decisions:
                return UnknownDecision(
                    f"no step has the id {id!r}; ids are (episode, step), episodes 1 … {self.decisions}"
                )
            return NotAwaited(
                f"step {id[1]} of episode {id[0]} awaits no feedback: it was answered, or never asked for"
            )
        if not isinstance(id, int | np.integer) or isinstance(id, bool):
            return UnknownDecision(f"no decision has the id {id!r}; ids are whole numbers")
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

    def __copy__(self) -> Agent:
        """Two agents must not share one memory: a copy is a deep one."""
        return copy.deepcopy(self)

    def _relink(self) -> None:
        """The ledger is a view of the mind's memory, which may have moved to grow."""
        self.ledger.account = self._mind.account

    def __repr__(self) -> str:
        return f"Agent({self.learner!r}, rule={self.rule!r}, decisions={self.decisions}, ledger={self.ledger!r})"
