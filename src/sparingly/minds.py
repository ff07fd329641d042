"""What an Agent has inside: one mind per family of problems, all with the same few methods.

A mind checks what comes from outside, calls the compiled round of its family, and can name and restore all that it
remembers. A *ticket* is what it needs to learn from an answer later: the cell, or the features.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparingly.checks import number
from sparingly.compiling import notice
from sparingly.errors import InvalidInput, UnreadableFile
from sparingly.families import arms, episodic, linear
from sparingly.families.custom import CustomRound
from sparingly.induction import COUNT, MEAN
from sparingly.learners.base import CUSTOM_CODE, TabularLearner, full_costs
from sparingly.learners.base import built_in as our_learner
from sparingly.learners.episodic import EpisodicLearner
from sparingly.learners.oful import OFUL, Ellipsoid
from sparingly.ledger import GRANTED, SPENT, UNLIMITED, Account
from sparingly.protocol import Learner, QueryRule
from sparingly.randomness import keys
from sparingly.rules import CUSTOM, PAPER, VARIANCE, Rule
from sparingly.rules import built_in as our_rule

Outcome = tuple[int, bool, float, float, Any]  # action, ask, width, threshold, ticket


class Mind(Protocol):
    """What an Agent needs of a family."""

    account: Account

    def attach(self) -> None: ...

    @property
    def decisions(self) -> int: ...

    def check(self, context: Any) -> Any: ...
    def decide(self, context: Any) -> Outcome: ...
    def learn(self, ticket: Any, reward: float) -> None: ...
    def check_reward(self, reward: object) -> float: ...
    def parts(self) -> dict[str, Any]: ...
    def restore(self, parts: dict[str, Any]) -> None: ...
    def check_sums(self, tickets: list[Any]) -> None: ...


class ArmsMind:
    """Arms and contextual arms: contexts are whole numbers, a ticket is (context, action)."""

    def __init__(
        self, learner: TabularLearner | Learner, rule: Rule | QueryRule, costs: Any, seeds: np.random.SeedSequence
    ) -> None:
        refuse_for_episodes_only(rule)
        codes = (
            learner.code if our_learner(learner) else CUSTOM_CODE,
            rule.code if our_rule(rule) else CUSTOM,
        )
        self.shape = (learner.contexts, learner.arms)
        cost = full_costs(learner.costs if costs is None else costs, *self.shape)
        self.words = arms.remember(learner, rule, cost, codes, keys(seeds, 1)[0])
        arms.decide(self.words.copy(), 0)  # loads the compiled code, or compiles it, while the notice is up
        own = codes[0] == CUSTOM_CODE or codes[1] == CUSTOM
        self.custom = CustomRound(self.words, learner, rule, seeds) if own else None
        self.attach()

    def attach(self) -> None:
        """Name the parts of the memory (again, after a copy)."""
        self.memory = arms.open_memory(self.words)
        self.account: Account = self.memory.account
        if self.custom is not None:
            self.custom.attach(self.words)

    @property
    def decisions(self) -> int:
        return int(self.words[arms.DECISIONS])

    def check(self, context: Any) -> int:
        """A whole number in range; may be left out if there is only one."""
        contexts = self.shape[0]
        if context is None and contexts == 1:
            return 0
        if isinstance(context, int | np.integer) and not isinstance(context, bool) and 0 <= context < contexts:
            return int(context)
        raise InvalidInput(f"context must be a whole number in 0 … {contexts - 1}, not {context!r}")

    def decide(self, context: int) -> Outcome:
        u = context
        if self.custom is None:
            action, ask, width, threshold = arms.decide(self.words, u)
        else:
            action, ask, width, threshold = self.custom.decide(u)
        return action, ask, width, threshold, (u, action)

    def learn(self, ticket: tuple[int, int], reward: float) -> None:
        if self.custom is None:
            arms.learn(self.words, *ticket, reward)
        else:
            self.custom.learn(*ticket, reward)

    def check_reward(self, reward: object) -> float:
        if type(reward) is float and 0.0 <= reward <= 1.0:
            return reward
        return number(reward, "a reward (rescaled to [0, 1])", least=0.0, most=1.0)

    def parts(self) -> dict[str, Any]:
        m = self.memory
        return {
            "account": m.account,
            "random": m.random,
            "clock": m.clock,
            "counts": m.counts,
            "total": m.values[:, arms.TOTAL],
            "past": m.past,
            "past_level": m.past_level,
            "counters": m.head[[arms.POLICIES, arms.DECISIONS]],
            "custom": None if self.custom is None else self.custom.snapshot(),
        }

    def restore(self, parts: dict[str, Any]) -> None:
        m = self.memory
        for name in ("account", "random", "clock", "counts", "past", "past_level"):
            fill(getattr(m, name), parts[name])
        fill(m.values[:, arms.TOTAL], parts["total"])
        m.head[[arms.POLICIES, arms.DECISIONS]] = parts["counters"]
        m.head[arms.TOTAL_COST] = m.counts[:, arms.COST].sum()
        arms.refresh_all(self.words)
        if self.custom is not None:
            self.custom.restore(parts["custom"])

    def check_sums(self, tickets: list[Any]) -> None:
        cost, asked, answered = self.memory.counts.T
        awaited = np.zeros_like(asked)
        for u, a in tickets:
            if not (0 <= u < self.shape[0] and 0 <= a < self.shape[1]):
                raise UnreadableFile(f"an answer is awaited for cell ({u}, {a}), which does not exist")
            awaited[u * self.shape[1] + a] += 1
        if not (asked == answered + awaited).all():
            raise UnreadableFile("asks, answers and awaited decisions do not add up")
        paid = sum(int(c) * int(n) for c, n in zip(cost, asked, strict=True))
        if min(paid, UNLIMITED) > self.account[SPENT] or self.account[SPENT] > self.account[GRANTED]:
            raise UnreadableFile("the ledger does not add up")


LEARNED = ("theta", "sum", "past_theta", "past_inverse", "past_radius")  # what a linear agent has learned, by name
COUNTERS = [linear.POLICIES, linear.DECISIONS, linear.CLOCK]


class LinearMind:
    """Linear rewards: a context is an array of features (A, d), a ticket is the row that was played."""

    def __init__(self, learner: OFUL, rule: Rule | QueryRule, costs: Any, seeds: np.random.SeedSequence) -> None:
        if not our_rule(rule):
            raise InvalidInput(f"OFUL works with the rules of this library only, not with {rule!r}")
        refuse_for_episodes_only(rule)
        if costs is not None:
            learner = dataclasses.replace(learner, costs=costs)
        if rule.code == PAPER and learner.costs is not None and set(learner.costs) != {1.0}:
            raise InvalidInput(
                "PaperMatching is proved for unit costs only with OFUL; use ExactMatching() for other costs"
            )
        self.learner = learner
        self.words = linear.remember(learner, rule, keys(seeds, 1)[0])
        linear.decide(self.words.copy(), np.zeros((max(1, len(learner.costs or [])), learner.dim)))  # loads the code
        self.attach()

    def attach(self) -> None:
        """Name the parts of the memory (again, after a copy)."""
        self.memory = linear.open_memory(self.words)
        self.account: Account = self.memory.account

    @property
    def decisions(self) -> int:
        return int(self.words[linear.DECISIONS])

    def check(self, context: Any) -> NDArray[np.float64]:
        """A non-empty array (A, d) of finite numbers, no row longer than L."""
        try:
            features = np.ascontiguousarray(context, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(
                f"features must be numbers of shape (actions, {self.learner.dim}), not {context!r}"
            ) from None
        if features.ndim != 2 or features.shape[0] == 0 or features.shape[1] != self.learner.dim:
            raise InvalidInput(f"features must have shape (actions, {self.learner.dim}), not {features.shape}")
        prices = self.memory.price.size
        if prices not in (1, features.shape[0]):
            raise InvalidInput(f"costs are given for {prices} actions, features for {features.shape[0]}")
        longest = linear.longest(features)
        if not longest <= self.learner.length * (1.0 + 1e-9):  # NaN and infinity fail too
            raise InvalidInput(
                f"every row of the features must be finite and no longer than length={self.learner.length:g}; "
                f"one has {longest:g}. Rescale the features, or give OFUL a larger length"
            )
        return features

    def decide(self, context: NDArray[np.float64]) -> Outcome:
        action, ask, width, threshold = linear.decide(self.words, context)
        return action, ask, width, threshold, context[action].copy() if ask else None

    def learn(self, ticket: NDArray[np.float64], reward: float) -> None:
        linear.learn(self.words, ticket, reward)

    def check_reward(self, reward: object) -> float:
        return number(reward, "a reward", least=-1e12, most=1e12)

    def parts(self) -> dict[str, Any]:
        m = self.memory
        named = {name: getattr(m, name) for name in ("account", "random", "price", *LEARNED)}
        ellipsoids = {f"{which}_{name}": part for which, e in self._ellipsoids() for name, part in e._asdict().items()}
        return named | ellipsoids | {"counters": m.head[COUNTERS]}

    def restore(self, parts: dict[str, Any]) -> None:
        m = self.memory
        for name in ("account", "random", "price", *LEARNED):
            fill(getattr(m, name), parts[name])
        for which, e in self._ellipsoids():
            for name, part in e._asdict().items():
                fill(part, parts[f"{which}_{name}"])
        m.head[COUNTERS] = parts["counters"]

    def _ellipsoids(self) -> tuple[tuple[str, Ellipsoid], ...]:
        return (("known", self.memory.known), ("asked", self.memory.asked))

    def check_sums(self, tickets: list[Any]) -> None:
        if not 0 <= self.account[SPENT] <= self.account[GRANTED]:
            raise UnreadableFile("the ledger does not add up")
        for x in tickets:
            if x.shape != (self.learner.dim,) or not np.isfinite(x).all():
                raise UnreadableFile(f"the features of an awaited decision are not {self.learner.dim} finite numbers")


class EpisodicMind:
    """Episodes: `plan` gives a policy (H, S), `decide` takes a trajectory (H, 2), a ticket is the number of a cell."""

    def __init__(
        self, learner: EpisodicLearner, rule: Rule | QueryRule, costs: Any, seeds: np.random.SeedSequence
    ) -> None:
        if not our_rule(rule):
            raise InvalidInput(f"{type(learner).__name__} works with the rules of this library only, not with {rule!r}")
        if costs is not None:
            learner = dataclasses.replace(learner, costs=costs)
        if rule.code == PAPER and learner.costs is not None and (np.array(learner.costs) != 1.0).any():
            raise InvalidInput(
                "with episodes PaperMatching is for unit costs only; use ExactMatching() for other costs"
            )
        self.learner = learner
        self.words = episodic.remember(learner, rule, keys(seeds, 1)[0])
        self.policy = np.zeros((learner.horizon, learner.states), dtype=np.int64)
        self._load_code()
        self.attach()

    def _load_code(self) -> None:
        """Load the compiled code, or compile it, while the notice is up."""
        copy = self.words.copy()
        episodic.plan(copy, self.policy.copy())
        episodic.decide(copy, np.zeros((self.learner.horizon, 2), dtype=np.int64), np.zeros(self.learner.horizon, bool))

    def attach(self) -> None:
        """Name the parts of the memory (again, after a copy or when it has grown)."""
        self.memory = episodic.open_memory(self.words)
        self.account: Account = self.memory.account

    @property
    def decisions(self) -> int:
        return int(self.words[episodic.DECISIONS])

    @property
    def open(self) -> bool:
        """Whether an episode was planned and has not ended."""
        return bool(self.words[episodic.OPEN])

    def plan(self) -> NDArray[np.int64]:
        episodic.plan(self.words, self.policy)
        return self.policy.copy()

    def check(self, context: Any) -> NDArray[np.int64]:
        """States and actions (H,) each, as one array (H, 2)."""
        states, actions = context
        return np.stack(
            [
                _whole_numbers(states, "states", self.learner.horizon, self.learner.states),
                _whole_numbers(actions, "actions", self.learner.horizon, self.learner.actions),
            ],
            axis=1,
        )

    def decide_episode(self, path: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """The steps to ask about, and the cell of each step."""
        _, S, A = self.learner.shape
        grown = episodic.grow(self.words)
        if grown is not self.words:
            self.words = grown
            self.attach()
        asks = np.zeros(self.learner.horizon, dtype=np.bool_)
        episodic.decide(self.words, path, asks)
        return asks, (np.arange(self.learner.horizon) * S + path[:, 0]) * A + path[:, 1]

    def decide(self, context: Any) -> Outcome:
        raise InvalidInput("an episodic agent decides whole episodes: policy = agent.plan(), then decide_episode(…)")

    def learn(self, ticket: int, reward: float) -> None:
        episodic.learn(self.words, ticket, reward)

    def check_reward(self, reward: object) -> float:
        return number(reward, "a reward (rescaled to [0, 1])", least=0.0, most=1.0)

    def transitions(self) -> NDArray[np.float64]:
        """All that was seen, (rows, 3): cell, next state, times; in the order in which a cell met them."""
        model, states = self.memory.model, self.learner.states
        triples = []
        for cell in np.flatnonzero(model.where[:, COUNT]):
            start, count = model.where[cell]
            dense = count == states
            after = np.arange(states) if dense else model.next[start : start + 2 * count : 2]
            times = model.weight[start : start + count] if dense else model.weight[start + 1 : start + 2 * count : 2]
            seen = times > 0.0
            triples.append(np.stack([np.full(seen.sum(), cell), after[seen], times[seen]], axis=1))
        return np.concatenate([np.zeros((0, 3)), *triples])

    def parts(self) -> dict[str, Any]:
        m = self.memory
        return {
            "account": m.account,
            "random": m.random,
            "counts": m.counts,
            "notes": m.notes,
            "means": m.model.numbers[:, MEAN],
            "transitions": self.transitions(),
            "listed": m.model.listed,
            "many": m.model.many,
            "policy": m.values.policy,
            "past": m.past,
            "past_from": m.past_from,
            "counters": m.head[EPISODE_COUNTERS],
        }

    def restore(self, parts: dict[str, Any]) -> None:
        m = self.memory
        for name in ("account", "random", "counts", "notes", "past", "past_from"):
            fill(getattr(m, name), parts[name])
        fill(m.model.numbers[:, MEAN], parts["means"])
        fill(m.model.listed, parts["listed"])
        fill(m.model.many, parts["many"])
        fill(m.values.policy, parts["policy"])
        m.head[EPISODE_COUNTERS] = parts["counters"]
        self._check_ranges()
        rows = np.asarray(parts["transitions"], dtype=np.float64).reshape(-1, 3)
        _, S, _ = self.learner.shape
        if rows.size and not ((rows >= 0) & (rows[:, :2] < [self.learner.cells, S]).all(axis=1, keepdims=True)).all():
            raise UnreadableFile("a transition leads from or to a state that does not exist")
        for cell, after, times in rows:
            self.words = episodic.grow(self.words)
            episodic.restore_transition(self.words, int(cell), int(after), times)
        self.attach()
        episodic.refresh_all(self.words)

    def _check_ranges(self) -> None:
        """Whatever a file says, compiled code must not reach outside of its arrays."""
        m, (_, S, A) = self.memory, self.learner.shape
        bounds = ((m.model.listed, S), (m.values.policy, A), (m.past, A))
        inside = [
            (m.model.many >= 0).all() and (m.model.many <= S).all(),
            *(((part >= 0) & (part < most)).all() for part, most in bounds),
            episodic.OWN <= m.head[episodic.ACTING] < max(int(m.head[episodic.SLOTS]), 1),
        ]
        if not all(inside):
            raise UnreadableFile("a state or an action does not exist")

    def check_sums(self, tickets: list[Any]) -> None:
        cost, asked, answered, visits = self.memory.counts.T
        awaited = np.zeros_like(asked)
        for cell in tickets:
            if not 0 <= cell < self.learner.cells:
                raise UnreadableFile(f"an answer is awaited for cell {cell}, which does not exist")
            awaited[cell] += 1
        if not (asked == answered + awaited).all() or (asked > visits).any():
            raise UnreadableFile("visits, asks, answers and awaited decisions do not add up")
        paid = sum(int(c) * int(n) for c, n in zip(cost, asked, strict=True))
        if min(paid, UNLIMITED) > self.account[SPENT] or self.account[SPENT] > self.account[GRANTED]:
            raise UnreadableFile("the ledger does not add up")


EPISODE_COUNTERS = [
    episodic.POLICIES, episodic.DECISIONS, episodic.CLOCK, episodic.OPEN, episodic.ACTING, episodic.LIVES,
]  # fmt: skip


def _whole_numbers(values: Any, name: str, count: int, most: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.shape != (count,) or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(f"{name} must be {count} whole numbers, one for each step, not {values!r}")
    if array.min() < 0 or array.max() >= most:
        raise InvalidInput(f"{name} must lie in 0 … {most - 1}, not {values!r}")
    return array.astype(np.int64)


def refuse_for_episodes_only(rule: Any) -> None:
    """VarianceMatching looks at variances that only episodic learners keep."""
    if our_rule(rule) and rule.code == VARIANCE:
        raise InvalidInput("VarianceMatching is for UCBVI and ULCVI; use ExactMatching()")


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


def fill(target: Any, values: Any) -> None:
    """Copy a restored array into its place, if it fits."""
    array = np.asarray(values)
    if array.shape != target.shape or (array.dtype != target.dtype and array.size):
        raise UnreadableFile(f"an array of shape {array.shape} stands where {target.shape} belongs")
    target[...] = array
