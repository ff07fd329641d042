"""The Agent's side of linear rewards: a context is an array of features (A, d), a ticket the row and its price."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput, UnreadableFile
from sparingly.family import (
    BaseFamily,
    Pair,
    PlainLearner,
    check_rule,
    check_spending,
    fill,
    fill_rows,
    is_compiled,
    saved_pace,
    with_given_costs,
)
from sparingly.linear import round as rounds
from sparingly.linear.ellipsoid import Ellipsoid
from sparingly.linear.learner import LinearLearner
from sparingly.linear.learners import LEARNERS
from sparingly.linear.memory import Words, open_memory, remember
from sparingly.linear.oful import OFUL
from sparingly.numba_support import from_python
from sparingly.protocol import FeatureLearner, Outcome
from sparingly.randomness import keys
from sparingly.rules.dispatch import NO_BAR, NO_REASON
from sparingly.rules.rule import as_function
from sparingly.tabular.round import ANSWERABLE, UNASKED, consistent, explain
from sparingly.validation import number

Floats = NDArray[np.float64]


def stand_in(learner: Any) -> Any:
    """For a learner in plain Python: OFUL with its dimension, ridge, length and costs, by which widths are measured."""
    ridge, length = (float(getattr(learner, name, 1.0)) for name in ("ridge", "length"))
    return OFUL(learner.dim, ridge=ridge, length=length, costs=learner.costs)


def make_memory(pair: Pair, learner: Any, key: np.uint64, together: bool = False) -> Words:
    """A fresh memory for a learner and a rule; `together` if every answer will come at once."""
    return remember(pair, stand_in(learner) if pair.python_learner else learner, key, together)


class LinearFamily(BaseFamily):
    """Linear rewards, with any learner for them and any rule, compiled or in plain Python."""

    setting = "linear"
    learners = LEARNERS
    views = ("theta", "radius", "threshold", "predict")
    fixed = (
        "with {learner} actions are the rows of the features, as many as each decision brings, and what was learnt "
        "serves new rows too: there are no {what} to add or retire"
    )
    state = (*BaseFamily.state, "length", "rows")
    compiled: ClassVar[dict[str, Any]] = {"_decide": rounds.decide}
    open_memory = staticmethod(open_memory)

    @staticmethod
    def takes(learner: Any) -> bool:
        """Whether a learner is for this setting."""
        return isinstance(learner, FeatureLearner) or (isinstance(learner, LinearLearner) and is_compiled(learner))

    @classmethod
    def check_pair(cls, learner: Any, rule: Any, costs: Any) -> None:
        """Refuse what does not fit together."""
        prices = stand_in(with_given_costs(learner, costs)).costs
        check_rule(rule, cls.setting, learner, unit_costs=prices is None or set(prices) == {1.0})

    def __init__(self, learner: Any, rule: Any, costs: Any, seeds: np.random.SeedSequence) -> None:
        self.check_pair(learner, rule, costs)
        self.learner, self.rule = with_given_costs(learner, costs), rule
        self.length = float(getattr(learner, "length", 1.0))
        self.rows = int(getattr(learner, "rows", 0))
        self.bind()
        self.start(make_memory(self.pair, self.learner, keys(seeds, 1)[0]), seeds)

    def bind(self) -> None:
        """Find the functions for the learner and the rule."""
        super().bind()
        if not self.pair.python_rule:
            bar = as_function(self.rule.functions.get("bar", NO_BAR))
            self.bar = functools.partial(from_python(bar), self.rule.parameters)

    @property
    def light(self) -> bool:  # type: ignore[override]  # the base has an attribute
        """Whether plain Python is quick enough until the compiler is done: each row takes d² steps."""
        return bool(self.learner.dim <= 64)

    @property
    def nameable(self) -> dict[str, int | None]:
        """What may have names, and how many there are; None where that may change."""
        return {"actions": None}

    def warm_up(self) -> None:
        """Load the compiled code, or compile it: play a round on a copy."""
        if not self.by_steps:
            words, X = self.words.copy(), np.zeros((self.memory.price.size, self.learner.dim))
            self._decide(words, self.own, X)
            self.pair.shared(rounds.learn)(words, X[0], 0.0)

    def check(self, context: Any) -> Floats:
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
        longest = self.pair.shared(rounds.longest)(features)
        if not longest <= self.length * (1.0 + 1e-9):  # NaN and infinity fail too
            raise InvalidInput(
                f"every row of the features must be finite and no longer than length={self.length:g}; "
                f"one has {longest:g}. Rescale the features, or give {type(self.learner).__name__} a larger length"
            )
        return features

    def decide(self, context: Floats) -> Outcome:
        """One round: in one compiled call, or step by step where a part is in plain Python."""
        if self.by_steps:
            return self._play(context) if self.python is None else self.whole_or_not_at_all(self._play, context)
        action, ask, width, threshold, why = self._decide(self.words, self.own, context)
        return action, ask, width, threshold, why, self._ticket(context, action) if ask else None

    def _step(self, function: Any, *arguments: Any) -> Any:
        """One of the steps of a round, on this memory."""
        return self.pair.code(function)(self.words, self.own, *arguments)

    def _play(self, X: Floats) -> Outcome:
        m, plain, reach = self.memory, self.plain, self.radius()
        if plain is None:
            proposed, question = self._step(rounds.propose_by_words, X)
        else:
            proposed = self._action(plain, plain.state, X, int(m.head["clock"][0]) + 1)
            question = self._step(rounds.question_by_words, X, proposed)
        if self.pair.paced:
            question = question._replace(pace=m.pace)
        bar = math.nan if self.pair.python_rule else 2.0 * reach * self.bar(question)
        wanted, reason = bool(self.asks(question)), NO_REASON if self.reason is None else self.reason(question)
        if plain is None:
            a, ending = self._step(rounds.settle_by_words, X, proposed, wanted)
        else:
            a, ending = self._settle(plain, X, proposed, wanted)
        width = question.width if a == proposed else self._step(rounds.width_by_words, X, a, reach)
        self.made[0] += 1
        threshold = bar if self.pair.python_rule else consistent(bar, width, ending)
        ask = bool(ending == ANSWERABLE)
        why = explain(self.pair.slots > 0, self.pair.exploits, self.answered, reason, ending)
        return int(a), ask, float(width), float(threshold), int(why), self._ticket(X, a) if ask else None

    @property
    def answered(self) -> bool:
        """Whether anything was answered yet."""
        return bool(self.memory.known.sizes["tr"][0] > self.memory.head["ridge"][0] * self.memory.head["dim"][0])

    def _settle(self, plain: PlainLearner, X: Floats, a: int, wanted: bool) -> tuple[int, int]:
        """For a learner in plain Python. Greedy keeps its states, or acts by one of the past (Algorithm 1)."""
        m = self.memory
        if self.pair.slots > 0 and not wanted:
            state, t = plain.draw()
            return self._action(plain, state, X, t), UNASKED
        ending = self._step(rounds.count_by_words, X, a, wanted)
        exploit = getattr(plain.learner, "exploit", None) if self.pair.exploits else None
        if exploit is not None and ending != ANSWERABLE:
            a = self.check_choice(exploit(plain.state, X.copy(), a), X.shape[0], "a row", "exploit")
        if self.pair.slots > 0:
            m.reservoir.seen[0] += 1
            plain.keep(int(m.head["clock"][0]), int(m.reservoir.seen[0]))
        return a, ending

    def _action(self, plain: PlainLearner, state: Any, X: Floats, t: int) -> int:
        return self.check_choice(plain.learner.choose(state, X.copy(), t, plain.random), X.shape[0], "a row")

    def _ticket(self, context: Floats, action: int) -> Floats:
        """The features of an action, its price in millionths behind them, (d + 1,); for a reserve its gain as well."""
        gain = float(self.memory.pace.state["last_gain"][0]) if self.pair.paced else 0.0
        return self.ticket_of(context[action], action, gain)

    def note_of(self, ticket: Floats) -> float:
        """What is not known of a ticket from its features and its action: the gain of the ask, for a reserve."""
        return float(ticket[-1]) if self.pair.paced else 0.0

    def ticket_of(self, row: Any, action: int, note: float) -> Floats:
        """The ticket of an ask about an action with these features."""
        prices = self.memory.price
        price = float(prices[action if prices.size > 1 else 0])
        return np.array([*row, price, note] if self.pair.paced else [*row, price], dtype=np.float64)

    def _row_of(self, ticket: Floats) -> Floats:
        """The features of a ticket."""
        return ticket[: self.learner.dim]

    def count_ask(self, context: Floats, action: int) -> Floats:
        """Count an ask that was decided elsewhere; its ticket."""
        price = int(self._ticket(context, action)[self.learner.dim])
        self._step(rounds.count_ask, context[action], price)
        return self._ticket(context, action)

    def take_back(self, ticket: Floats) -> None:
        """Undo an ask that nobody has seen."""
        gain = float(ticket[-1]) if self.pair.paced else 0.0
        self.pair.shared(rounds.take_back)(self.words, self._row_of(ticket), int(ticket[self.learner.dim]), gain)

    def learn(self, ticket: Floats, reward: float) -> None:
        """Take in one answer."""
        if self.plain is not None:
            self.plain.learner.learn(self.plain.state, self._row_of(ticket).copy(), reward)
        self.pair.shared(rounds.learn)(self.words, self._row_of(ticket), reward)

    def lesson(self, context: Floats, action: Any) -> Floats:
        """What `teach` takes for an action: its row."""
        if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < len(context):
            raise InvalidInput(f"action must be the number of a row, 0 … {len(context) - 1}, not {action!r}")
        row: Floats = context[action]
        return row.copy()

    def teach(self, lesson: Floats, reward: float) -> None:
        """Take in an answer that came without an ask."""
        if self.plain is not None:
            self.plain.learner.learn(self.plain.state, lesson.copy(), reward)
        self.pair.shared(rounds.teach)(self.words, lesson, reward)

    def check_reward(self, reward: object) -> float:
        """Any finite number; where rewards are yes or no, one in [0, 1]."""
        if self.rows:
            return number(reward, "a reward (1 for yes, 0 for no)", least=0.0, most=1.0)
        return number(reward, "a reward", least=-1e12, most=1e12)

    # What an Agent can be asked about.

    def theta(self) -> Floats:
        """The estimate of θ, (d,)."""
        theta: Floats = self.memory.theta
        return theta.copy()

    def radius(self) -> float:
        """l: with probability 1 − δ, θ lies within this distance of its estimate, in the norm of V."""
        return float(self.pair.code(rounds.radius_now)(self.words, self.own))

    def threshold(self) -> float:
        """The width at which the next decision will not be asked about; NaN for a rule in plain Python."""
        if self.pair.python_rule:
            return math.nan
        return float(self.pair.code(rounds.threshold_now)(self._fresh(), self.own))

    def _fresh(self) -> Words:
        """The memory with the rule's inverse up to date; a copy, if it is not: looking changes nothing."""
        if not np.isinf(self.memory.asked.sizes["stale"][0]):
            return self.words
        words = self.words.copy()
        self.pair.shared(rounds.freshen_now)(words)
        return words

    def predict(self, features: Any) -> tuple[Floats, ...]:
        """For each row: the estimate, how far the truth may be from it, the width as the rule sees it; (A,) each."""
        X, radius, m = self.check(features), self.radius(), open_memory(self._fresh(), None)
        near, wide = (np.sqrt(np.maximum(((X @ e.inverse) * X).sum(axis=1), 0.0)) for e in (m.known, m.asked))
        if not self.rows:
            return X @ self.memory.theta, radius * near, 2.0 * radius * wide
        scores, mean = X @ self.memory.theta, self.learner.expected
        middle, low, high = (mean(scores + side * radius * near) for side in (0.0, -1.0, 1.0))
        return middle, np.maximum(high - middle, middle - low), 2.0 * radius * wide

    @property
    def prices(self) -> NDArray[np.int64]:
        """What asking costs, in millionths: (A,), or (1,) if all actions cost the same."""
        prices: NDArray[np.int64] = self.memory.price
        return prices.copy()

    # Saving.

    def parts(self) -> dict[str, Any]:
        """All that is remembered, by name."""
        m, d = self.memory, self.learner.dim
        past = m.reservoir.policies.view(np.float64)
        named = {
            "account": m.account.view(np.int64),
            "random": m.random,
            "price": m.price,
            "theta": m.theta,
            "sum": m.sum,
            "past_theta": past[:, 1 : 1 + d],
            "past_inverse": past[:, 1 + d :].reshape(-1, d),
            "past_radius": past[:, 0],
        }
        for which, e in self._ellipsoids():
            named |= {f"{which}_{name}": getattr(e, name) for name in ("V", "rest", "inverse")}
            named[f"{which}_numbers"] = e.sizes.view(np.float64)
        head = m.head[0]
        named["counters"] = np.array([m.reservoir.seen[0], head.decisions, head.clock])
        named |= saved_pace(self.pair, m.pace) | ({"sample": m.sample} if self.pair.paced else {})
        if self.rows:
            kept = min(int(head.answers), self.rows)
            named |= {f"row_{name}": getattr(m.rows, name)[:kept] for name in m.rows._fields}
            named["fitted"] = np.array([head.answers, head.place, head.calm])
        return named if self.python is None else named | {"custom": self.python.snapshot()}

    def restore(self, parts: dict[str, Any]) -> None:
        """Put everything back."""
        m, d = self.memory, self.learner.dim
        self.restore_common(parts)
        for name in ("price", "theta", "sum"):
            fill(getattr(m, name), parts[name])
        past, slots = m.reservoir.policies.view(np.float64), m.reservoir.since.size
        fill_rows(past[:, 1 : 1 + d], parts["past_theta"], slots, d)
        fill_rows(past[:, 1 + d :], parts["past_inverse"], slots * d, d)
        fill_rows(past[:, :1], parts["past_radius"], slots)
        for which, e in self._ellipsoids():
            for name in ("V", "rest", "inverse"):
                fill(getattr(e, name), parts[f"{which}_{name}"])
            fill(e.sizes.view(np.float64), parts[f"{which}_numbers"])
        m.reservoir.seen[0], m.head["decisions"][0], m.head["clock"][0] = parts["counters"]
        if self.pair.paced:
            fill(m.sample, parts["sample"])
        if self.rows:
            m.head["answers"][0], m.head["place"][0], m.head["calm"][0] = parts["fitted"]
            kept = min(int(parts["fitted"][0]), self.rows)
            if kept < 0 or not 0 <= parts["fitted"][1] < max(kept, 1):
                raise UnreadableFile("the answers that are kept do not add up")
            for name in m.rows._fields:
                fill(getattr(m.rows, name)[:kept], parts[f"row_{name}"])
        if self.python is not None:
            self.python.restore(parts["custom"])

    def _ellipsoids(self) -> tuple[tuple[str, Ellipsoid], ...]:
        return (("known", self.memory.known), ("asked", self.memory.asked))

    def check_sums(self, tickets: list[Any] | None) -> None:
        """Refuse a ledger that does not add up, and tickets that are none."""
        check_spending(self.account, [], [])
        for x in tickets or ():
            if x.shape != (self.learner.dim + 1 + self.pair.paced,) or not np.isfinite(x).all():
                raise UnreadableFile(f"the features of an awaited decision are not {self.learner.dim} finite numbers")
            if x[self.learner.dim] not in self.memory.price:
                raise UnreadableFile("an awaited decision has a price that no action has")
