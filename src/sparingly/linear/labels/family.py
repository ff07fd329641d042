"""The Agent's side of labels: a context is one input (d,), a ticket the input with the class that was played."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput, UnreadableFile
from sparingly.family import (
    BaseFamily,
    as_integers,
    check_rule,
    check_spending,
    fill,
    fill_rows,
    is_compiled,
    saved_pace,
    with_given_costs,
)
from sparingly.linear.labels import round as rounds
from sparingly.linear.labels.learner import LabelLearner
from sparingly.linear.labels.learners import LEARNERS
from sparingly.linear.labels.memory import Words, open_memory, remember
from sparingly.linear.round import longest
from sparingly.numba_support import from_python
from sparingly.protocol import Outcome
from sparingly.randomness import keys
from sparingly.rules.dispatch import NO_BAR, NO_REASON
from sparingly.rules.rule import as_function
from sparingly.tabular.round import ANSWERABLE, consistent
from sparingly.validation import shown

Floats = NDArray[np.float64]

ACTION, PRICE, NOTE = -3, -2, -1  # behind the input, a ticket has the class, its price in millionths and the gain


class LabelFamily(BaseFamily):
    """Labels, with a learner for them and any rule, compiled or in plain Python."""

    setting = "linear"
    learners = LEARNERS
    views = ("threshold", "predict")
    takes_labels = True
    fixed = "with {learner} the classes are fixed from the start: there are no {what} to add or retire"
    state = (*BaseFamily.state, "length")
    compiled: ClassVar[dict[str, Any]] = {"_decide": rounds.decide}
    open_memory = staticmethod(open_memory)

    @staticmethod
    def takes(learner: Any) -> bool:
        """Whether a learner is for this setting."""
        return isinstance(learner, LabelLearner) and is_compiled(learner)

    @classmethod
    def check_pair(cls, learner: Any, rule: Any, costs: Any) -> None:
        """Refuse what does not fit together."""
        prices = with_given_costs(learner, costs).costs
        check_rule(rule, cls.setting, learner, unit_costs=prices is None or set(prices) == {1.0})

    def __init__(self, learner: Any, rule: Any, costs: Any, seeds: np.random.SeedSequence) -> None:
        self.check_pair(learner, rule, costs)
        self.learner, self.rule = with_given_costs(learner, costs), rule
        self.length = float(learner.length)
        self.bind()
        self.start(remember(self.pair, self.learner, keys(seeds, 1)[0]), seeds)

    def bind(self) -> None:
        """Find the functions for the learner and the rule."""
        super().bind()
        if not self.pair.python_rule:
            bar = as_function(self.rule.functions.get("bar", NO_BAR))
            self.bar = functools.partial(from_python(bar), self.rule.parameters)

    @property
    def light(self) -> bool:  # type: ignore[override]  # the base has an attribute
        """Whether plain Python is quick enough until the compiler is done: an answer takes FITS·d·K steps."""
        return bool(self.learner.dim * self.learner.classes <= 256)

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]  # the base has an attribute
        """No contexts are told apart, (1, K)."""
        return 1, int(self.learner.classes)

    @property
    def nameable(self) -> dict[str, int | None]:
        """What may have names, and how many there are."""
        return {"actions": int(self.learner.classes)}

    def warm_up(self) -> None:
        """Load the compiled code, or compile it: play a round on a copy."""
        if not self.by_steps:
            words, x = self.words.copy(), np.zeros(self.learner.dim)
            self._decide(words, self.own, x)
            self.pair.code(rounds.learn)(words, self.own, x, 0)

    def check(self, context: Any) -> Floats:
        """An input (d,), or a table with it as its only row: finite numbers, no longer than L."""
        d = self.learner.dim
        try:
            x = np.ascontiguousarray(context, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(f"an input must be numbers of shape ({d},), not {shown(context)}") from None
        if x.shape not in ((d,), (1, d)) or context is None:
            name, given = type(self.learner).__name__, "nothing" if context is None else x.shape
            raise InvalidInput(f"{name} takes one input of shape ({d},) for all classes, not {given}")
        length = self.pair.shared(longest)(x.reshape(1, d))
        if not length <= self.length * (1.0 + 1e-9):  # NaN and infinity fail too
            raise InvalidInput(
                f"an input must be finite and no longer than length={self.length:g}; it has {length:g}. Rescale the "
                f"inputs, or give {type(self.learner).__name__} a larger length"
            )
        return x.reshape(d)

    def decide(self, context: Floats) -> Outcome:
        """One round: in one compiled call, or step by step where the rule is in plain Python."""
        if self.by_steps:
            return self._play(context) if self.python is None else self.whole_or_not_at_all(self._play, context)
        action, ask, width, threshold, why = self._decide(self.words, self.own, context)
        return action, ask, width, threshold, why, self._ticket(context, action) if ask else None

    def _step(self, function: Any, *arguments: Any) -> Any:
        """One of the steps of a round, on this memory."""
        return self.pair.code(function)(self.words, self.own, *arguments)

    def _play(self, x: Floats) -> Outcome:
        m, known, length = self.memory, bool(self.memory.head["answers"][0] > 0), 2.0 * self.learner.scale
        proposed, question = self._step(rounds.propose_by_words, x)
        if self.pair.paced:
            question = question._replace(pace=m.pace)
        width, bar = length * question.row.norm, math.nan if self.pair.python_rule else length * self.bar(question)
        wanted, reason = bool(self.asks(question)), NO_REASON if self.reason is None else self.reason(question)
        a, ending = self._step(rounds.settle_by_words, x, proposed, wanted)
        self.made[0] += 1
        threshold = bar if self.pair.python_rule else consistent(bar, width, ending)
        ask = bool(ending == ANSWERABLE)
        why = rounds.why_now(self.pair.slots > 0, known, reason, ending)
        return int(a), ask, float(width), float(threshold), int(why), self._ticket(x, a) if ask else None

    def _ticket(self, x: Floats, action: int) -> Floats:
        """The input, the class that was played, its price in millionths, and the note of the ask."""
        return self.ticket_of(x, action, self.memory.head["note"][0])

    def note_of(self, ticket: Floats) -> float:
        """What is not known of a ticket from its input and its class: who has paid, and how wide the ask was."""
        return float(ticket[NOTE])

    def ticket_of(self, row: Any, action: int, note: float) -> Floats:
        """The ticket of an ask about this class."""
        prices = self.memory.price
        return np.array([*row, action, prices[action if prices.size > 1 else 0], note], dtype=np.float64)

    def _input_of(self, ticket: Floats) -> Floats:
        return ticket[: self.learner.dim]

    def count_ask(self, context: Floats, action: int) -> Floats:
        """Count an ask that was decided elsewhere; its ticket."""
        price = int(self._ticket(context, action)[PRICE])
        self._step(rounds.count_ask, context, price)
        return self._ticket(context, action)

    def take_back(self, ticket: Floats) -> None:
        """Undo an ask that nobody has seen."""
        self.pair.shared(rounds.take_back)(self.words, self._input_of(ticket), int(ticket[PRICE]), float(ticket[NOTE]))

    def learn(self, ticket: Floats, reward: float) -> None:
        """Take in the reward of the class that was played."""
        a = int(ticket[ACTION])
        self._step(rounds.learn, self._input_of(ticket), a if reward else -1 - a)

    def learn_label(self, ticket: Floats, label: int) -> None:
        """Take in the class that is right."""
        self._step(rounds.learn, self._input_of(ticket), label)

    def label_from(self, rewards: list[Any]) -> int:
        """The class that is right, from the rewards of all."""
        right = [k for k, value in enumerate(rewards) if value == 1]
        if len(rewards) != self.shape[1] or len(right) != 1 or any(value not in (0, 1) for value in rewards):
            raise InvalidInput(
                f"rewards must be 1 for the right one of the {self.shape[1]} classes and 0 for all others, not "
                f"{shown(rewards)}; or give label=…, the right one"
            )
        return right[0]

    def lesson(self, context: Floats, action: Any) -> Floats:
        """What `teach` takes for a class."""
        if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < self.shape[1]:
            raise InvalidInput(f"action must be the number of a class, 0 … {self.shape[1] - 1}, not {shown(action)}")
        return self.ticket_of(context, int(action), 0.0)

    def teach(self, lesson: Floats, reward: float) -> None:
        """Take in an answer that came without an ask."""
        a = int(lesson[ACTION])
        self._step(rounds.teach, self._input_of(lesson), a if reward else -1 - a)

    def check_reward(self, reward: object) -> float:
        """1 if the class was right, 0 if it was wrong."""
        if isinstance(reward, int | float | np.integer | np.floating | np.bool_) and reward in (0, 1):
            return float(reward)
        raise InvalidInput(
            f"a reward must be 1 if the class was right, and 0 if it was wrong, not {shown(reward)}; or give label=…"
        )

    # What an Agent can be asked about.

    def threshold(self) -> float:
        """The width at which the next decision will not be asked about; NaN for a rule in plain Python."""
        if self.pair.python_rule:
            return math.nan
        return float(self.pair.code(rounds.threshold_now)(self._fresh(), self.own))

    def _fresh(self) -> Words:
        """The memory with the inverse up to date; a copy, if it is not: looking changes nothing."""
        if not np.isinf(self.memory.asked.sizes["stale"][0]):
            return self.words
        words = self.words.copy()
        self.pair.shared(rounds.freshen_now)(words)
        return words

    def predict(self, features: Any) -> tuple[Floats, ...]:
        """For each class: its probability, how far off it may be if its score is, and the width of the input; (K,)."""
        m = open_memory(self._fresh(), None)
        z = self.check(features) * m.head["stretch"][0]
        scores = m.weights @ z
        chance = np.exp(scores - scores.max())
        chance /= chance.sum()
        reach = self.learner.scale * math.sqrt(max(float(z @ m.asked.inverse @ z), 0.0))
        shifted = np.exp(np.minimum(reach, 50.0)) * chance
        half: Floats = np.maximum(shifted / (shifted + 1.0 - chance) - chance, 0.0)
        return chance, half, np.full(chance.size, 2.0 * reach)

    @property
    def prices(self) -> NDArray[np.int64]:
        """What asking costs, in millionths: (K,), or (1,) if it costs the same for all."""
        prices: NDArray[np.int64] = self.memory.price
        return prices.copy()

    # Saving.

    def parts(self) -> dict[str, Any]:
        """All that is remembered, by name."""
        m, head = self.memory, self.memory.head[0]
        named = {
            "account": m.account.view(np.int64),
            "random": m.random,
            "price": m.price,
            "weights": m.weights,
            "past_weights": m.reservoir.policies.view(np.float64),
            "counters": np.array(
                [m.reservoir.seen[0], head.decisions, head.clock, head.answers, head.place, head.calm]
            ),
        }
        kept = min(int(head.answers), m.told.size)
        named |= {name: getattr(m, name)[:kept] for name in ("inputs", "squares", "told", "pulls")}
        named |= {f"asked_{name}": getattr(m.asked, name) for name in ("V", "rest", "inverse")}
        named["asked_numbers"] = m.asked.sizes.view(np.float64)
        named |= saved_pace(self.pair, m.pace) | self._saved_free()
        return named if self.python is None else named | {"custom": self.python.snapshot()}

    def _saved_free(self) -> dict[str, Any]:
        """What a rule that keeps a pace needs beyond it."""
        if not self.pair.paced:
            return {}
        m = self.memory
        return {"sample": m.sample, "free": as_integers(m.free), "dropped": float(m.head["dropped"][0])}

    def restore(self, parts: dict[str, Any]) -> None:
        """Put everything back."""
        m, head = self.memory, self.memory.head
        self.restore_common(parts)
        for name in ("price", "weights"):
            fill(getattr(m, name), parts[name])
        fill_rows(m.reservoir.policies.view(np.float64), parts["past_weights"], m.reservoir.since.size, m.weights.size)
        m.reservoir.seen[0], counters = parts["counters"][0], parts["counters"][1:]
        for name, value in zip(("decisions", "clock", "answers", "place", "calm"), counters, strict=True):
            head[name][0] = value
        kept = min(int(head["answers"][0]), m.told.size)
        for name in ("inputs", "squares", "told", "pulls"):
            fill(getattr(m, name)[:kept], parts[name])
        classes, place = self.shape[1], int(head["place"][0])
        if kept < 0 or not 0 <= place < max(kept, 1) or ((m.told < -classes) | (m.told >= classes)).any():
            raise UnreadableFile("the answers that are kept do not fit the classes")
        for name in ("V", "rest", "inverse"):
            fill(getattr(m.asked, name), parts[f"asked_{name}"])
        fill(m.asked.sizes.view(np.float64), parts["asked_numbers"])
        if self.pair.paced:
            fill(m.sample, parts["sample"])
            fill(as_integers(m.free), parts["free"])
            m.head["dropped"][0] = parts["dropped"]
        if self.python is not None:
            self.python.restore(parts["custom"])

    def check_sums(self, tickets: list[Any] | None) -> None:
        """Refuse a ledger that does not add up, and tickets that are none."""
        check_spending(self.account, [], [])
        for ticket in tickets or ():
            if ticket.shape != (self.learner.dim - ACTION,) or not np.isfinite(ticket).all():
                raise UnreadableFile(f"the input of an awaited decision is not {self.learner.dim} finite numbers")
            if ticket[PRICE] not in self.memory.price or ticket[ACTION] not in range(self.shape[1]):
                raise UnreadableFile("an awaited decision has a class or a price that there is not")
