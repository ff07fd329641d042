"""The Agent's side of arms and contextual arms: contexts are whole numbers, a ticket is (context, action)."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput, UnreadableFile
from sparingly.family import (
    CellFamily,
    Pair,
    PlainLearner,
    as_integers,
    check_rule,
    fill,
    fill_rows,
    is_compiled,
    saved_pace,
)
from sparingly.ledger import UNLIMITED
from sparingly.numba_support import DISABLED
from sparingly.protocol import Learner, Outcome
from sparingly.randomness import keys
from sparingly.rules.dispatch import NO_REASON
from sparingly.tabular import round as rounds
from sparingly.tabular.changes import Cells, laid_out_anew, price_in_cells, resized
from sparingly.tabular.forgetting import fits
from sparingly.tabular.learner import TabularLearner, full_costs
from sparingly.tabular.learners import LEARNERS
from sparingly.tabular.memory import ESTIMATE_WORDS, Words, open_memory, remember
from sparingly.validation import number, shown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def make_memory(pair: Pair, learner: Any, costs: Floats, key: np.uint64) -> Words:
    """A fresh memory for a learner and a rule, given the costs (S, A)."""
    words = remember(pair, learner, costs, key)
    pair.code(rounds.refresh_all)(words, pair.own)
    return words


FADING = ("faded", "visits", "purse")  # what an agent remembers beyond, if its learner forgets


def dated(ticket: tuple[int, ...]) -> tuple[int, int, int]:
    """The context, the action and the round of an ask; the round is −1 where nothing is forgotten."""
    return ticket[0], ticket[1], ticket[2] if len(ticket) > 2 else -1


class TabularFamily(CellFamily):
    """Arms and contextual arms, with any learner for them and any rule, compiled or in plain Python."""

    setting = "tabular"
    learners = LEARNERS
    views = ("asked", "answered", "taught", "means", "indices", "threshold")
    state = (*CellFamily.state, "shape")
    compiled: ClassVar[dict[str, Any]] = {"_decide": rounds.decide, "_learn": rounds.learn}
    open_memory = staticmethod(open_memory)

    @staticmethod
    def takes(learner: Any) -> bool:
        """Whether a learner is for this setting."""
        return isinstance(learner, Learner) or (isinstance(learner, TabularLearner) and is_compiled(learner))

    @classmethod
    def check_pair(cls, learner: Any, rule: Any, costs: Any) -> None:
        """Refuse what does not fit together."""
        full_costs(learner.costs if costs is None else costs, learner.contexts, learner.arms)
        check_rule(rule, cls.setting, learner, unit_costs=True)

    def __init__(self, learner: Any, rule: Any, costs: Any, seeds: np.random.SeedSequence) -> None:
        self.check_pair(learner, rule, costs)
        self.learner, self.rule, self.shape = learner, rule, (learner.contexts, learner.arms)
        self.bind()
        cost = full_costs(learner.costs if costs is None else costs, *self.shape)
        self.start(make_memory(self.pair, learner, cost, keys(seeds, 1)[0]), seeds)

    @property
    def light(self) -> bool:  # type: ignore[override]  # the base has an attribute
        """Whether plain Python is quick enough until the compiler is done: a round looks at few cells."""
        return bool(self.shape[0] * self.shape[1] <= 5_000)

    @property
    def nameable(self) -> dict[str, int | None]:
        """What may have names, and how many there are; None where that may change."""
        return {"actions": self.shape[1], "contexts": self.shape[0]}

    @property
    def cells(self) -> Cells:
        """What is chosen from: prices, and what is live."""
        return Cells.of(self.memory.counts["cost"].reshape(self.shape))

    def add(self, what: str, cost: Any) -> int:
        """One more action or context; its number."""
        cells, which = self.cells, ("contexts", "actions").index(what)
        self.change(cells.more(what, price_in_cells(cells, what, cost)))
        return self.shape[which] - 1

    def set_live(self, what: str, number: int, live: bool) -> None:
        """Retire an action or a context, or bring it back."""
        self.change(self.cells.with_live(what, number, live))

    def set_rule(self, rule: Any) -> None:
        """Go on with another rule."""
        self.check_pair(self.learner, rule, None)
        self.change(self.cells, rule)

    def change(self, cells: Cells, rule: Any = None) -> None:
        """Choose from these cells from now on, or ask by another rule. If that fails, nothing has changed."""
        if self.plain is not None:
            name = type(self.learner).__name__
            raise InvalidInput(f"{name} is in plain Python: only it knows how its state would have to change")
        learner, rule = resized(self.learner, cells), self.rule if rule is None else rule
        pair = self.make_pair(learner, rule)
        words = laid_out_anew(self.memory, pair, learner, cells)
        seeds = np.random.SeedSequence(int(self.memory.random[0]))
        self.python = PlainLearner(learner, pair, seeds) if pair.in_python else None
        self.learner, self.rule, self.shape, self.words = learner, rule, cells.prices.shape, words
        self.bind()
        self.pair.code(rounds.begin_shares)(self.words, self.pair.own)
        self.attach()

    def warm_up(self) -> None:
        """Load the compiled code, or compile it: play a round on a copy."""
        if not self.by_steps:
            words = self.words.copy()
            self._decide(words, self.pair.own, 0)
            self._learn(words, self.pair.own, 0, 0, 0.0)

    def attach(self) -> None:
        """Name the parts of the memory, and bind the steps of a round to it."""
        super().attach()
        self.forgets = bool(self.memory.head["forgets"][0])
        if self.memory.before.size:
            cells = self.cells
            self.retired = {what: frozenset(np.flatnonzero(~cells.live(what)).tolist()) for what in self.retired}
        if DISABLED:  # plain Python works on the parts themselves
            steps: Any = (rounds.open_round, rounds.question_about, rounds.close_round)
            steps = [functools.partial(step, self.memory) for step in steps]
        else:
            steps = (rounds.open_by_words, rounds.question_by_words, rounds.close_by_words)
            steps = [functools.partial(self.pair.code(step), self.words, self.own) for step in steps]
        self._open, self._question, self._close = steps

    def check(self, context: Any) -> int:
        """A whole number in range; may be left out if there is only one."""
        contexts = self.shape[0]
        if context is None and contexts == 1:
            return 0
        if isinstance(context, int | np.integer) and not isinstance(context, bool) and 0 <= context < contexts:
            if context in self.retired["contexts"]:
                raise InvalidInput(f"context {context} was retired; add_context brings it back")
            return int(context)
        if contexts == 1:
            raise InvalidInput(f"this agent has no contexts: call decide() without one, not with {shown(context)}")
        raise InvalidInput(f"context must be a whole number in 0 … {contexts - 1}, not {shown(context)}")

    def decide(self, context: int) -> Outcome:
        """One round: in one compiled call, or step by step where a part is in plain Python."""
        if self.by_steps:
            return self._play(context) if self.python is None else self.whole_or_not_at_all(self._play, context)
        action, ask, width, threshold, why = self._decide(self.words, self.own, context)
        return action, ask, width, threshold, why, self._ticket(context, action)

    def _ticket(self, context: int, action: int) -> tuple[int, ...]:
        """What the answer to an ask of this round needs: its cell and, if the learner forgets, the round."""
        return (context, action, int(self.memory.clock[0])) if self.forgets else (context, action)

    def _play(self, u: int) -> Outcome:
        plain, first = self.plain, u * self.shape[1]
        a, bar = self._open(u, plain is None)
        if plain is not None:
            a = self._action(plain, plain.state, u, a)
        question = self._question(first + a)
        if self.pair.paced:
            question = question._replace(pace=self.memory.pace, counts=self.memory.counts)
        wanted, reason = bool(self.asks(question)), NO_REASON if self.reason is None else self.reason(question)
        a, ending, width = self._close(u, a, wanted, plain is None)
        if plain is not None and ending != rounds.ANSWERABLE:
            a = self._instead(plain, u, a)
            asked, rounds_so_far = self._tries(first + a), int(self.memory.clock[0])
            width = rounds.cell_width(asked, max(rounds_so_far, 1), self.memory.counts.size)
        elif plain is not None and self.pair.slots > 0:
            plain.keep(int(self.memory.clock[0]), int(self.memory.reservoir.seen[0]))
        threshold = math.nan if self.pair.python_rule else rounds.consistent(bar, width, ending)
        counts = self.memory.counts[first + a]
        known = bool(counts["answered"] + counts["taught"] > 0)
        why = rounds.explain(self.pair.slots > 0, self.pair.exploits, known, reason, ending)
        return (
            int(a),
            bool(ending == rounds.ANSWERABLE),
            float(width),
            float(threshold),
            int(why),
            self._ticket(u, int(a)),
        )

    def _instead(self, plain: PlainLearner, u: int, a: int) -> int:
        """What a learner in plain Python does where nothing is asked: Greedy's past, its `exploit`, or a itself."""
        if self.pair.slots > 0:
            state, t = plain.draw()
            return self._action(plain, state, u, t)
        exploit = getattr(plain.learner, "exploit", None) if self.pair.exploits else None
        return (
            a if exploit is None else self.check_choice(exploit(plain.state, u, a), self.shape[1], "an arm", "exploit")
        )

    def _action(self, plain: PlainLearner, state: Any, u: int, t: int) -> int:
        return self.check_choice(plain.learner.choose(state, u, t, plain.random), self.shape[1], "an arm")

    def count_ask(self, context: int, action: int) -> tuple[int, ...]:
        """Count an ask that was decided elsewhere; its ticket."""
        self.pair.code(rounds.count_ask)(self.words, self.own, context, action)
        return self._ticket(context, action)

    def take_back(self, ticket: tuple[int, ...]) -> None:
        """Undo an ask that nobody has seen."""
        self.pair.code(rounds.take_back)(self.words, self.own, *dated(ticket))

    def learn(self, ticket: tuple[int, ...], reward: float) -> None:
        """Take in one answer."""
        if self.forgets:
            self.pair.code(rounds.learn_late)(self.words, self.own, *dated(ticket), reward)
            return
        if self.plain is not None:
            self.plain.learner.learn(self.plain.state, *ticket, reward)
        self._learn(self.words, self.own, *ticket, reward)

    def lesson(self, context: int, action: Any) -> tuple[int, int]:
        """What `teach` takes for an action in a context."""
        if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < self.shape[1]:
            raise InvalidInput(f"action must be a whole number in 0 … {self.shape[1] - 1}, not {action!r}")
        return context, int(action)

    def others(self, ticket: tuple[int, ...]) -> list[tuple[int, ...]]:
        """What `teach` takes for each action where a decision was made, in order."""
        return [(ticket[0], a, *ticket[2:]) for a in range(self.shape[1])]

    def teach(self, lesson: tuple[int, ...], reward: float) -> None:
        """Take in an answer that came without an ask."""
        if self.plain is not None:
            self.plain.learner.learn(self.plain.state, *lesson, reward)
        self.pair.code(rounds.teach)(self.words, self.own, *dated(lesson), reward)

    def _tries(self, cell: int) -> int:
        counts = self.memory.counts[cell]
        return int(counts["asked"] + counts["taught"])

    def check_reward(self, reward: object) -> float:
        """A number in [0, 1]."""
        if type(reward) is float and 0.0 <= reward <= 1.0:
            return reward
        return number(
            reward, "a reward (in [0, 1], unless the agent has a scale, such as rewards=(1, 5))", least=0.0, most=1.0
        )

    # What an Agent can be asked about.

    def taught(self) -> Integers:
        """How many answers about each cell came without an ask, (S, A)."""
        return self.counted("taught")

    def means(self) -> Floats:
        """The mean answer of each cell, (S, A), later ones weighing more if it forgets; NaN where there is none."""
        counts, total = self.memory.counts, self.memory.estimates["total"]
        answered = self.memory.faded["heard"] if self.forgets else counts["answered"] + counts["taught"]
        means: Floats = np.divide(total, answered, out=np.full(total.shape, np.nan), where=answered > 0)
        return means.reshape(self.shape)

    def remembered(self) -> tuple[Floats, float]:
        """How many answers of each cell are remembered, (S, A), and how many rounds: all, unless it forgets."""
        m, now = self.memory, float(max(self.made[0], 1))
        if not self.forgets:
            return (m.counts["answered"] + m.counts["taught"]).reshape(self.shape).astype(np.float64), now
        fading = float(m.head["fading"][0])
        weights = np.exp(fading * (m.clock[0] - m.faded["since"]))
        return (m.faded["heard"] * weights).reshape(self.shape), math.expm1(fading * now) / math.expm1(fading)

    def indices(self, context: int | None = None) -> Floats:
        """The learner's index of each arm (A,), as the next decision in this context will compare them."""
        if self.plain is not None:
            raise InvalidInput(f"{type(self.learner).__name__} is in plain Python: its indices are not known")
        result = np.empty(self.shape[1])
        self.pair.code(rounds.write_indices)(self.words, self.pair.own, self.check(context), result)
        return result

    def threshold(self) -> float:
        """The width at which the next decision will not be asked about; NaN for a rule in plain Python."""
        if self.pair.python_rule:
            return math.nan
        return float(self.pair.code(rounds.threshold_now)(self.words, self.pair.own))

    @property
    def prices(self) -> Integers:
        """What asking costs in each cell, in millionths."""
        return self.cells.prices

    # Saving.

    def parts(self) -> dict[str, Any]:
        """All that is remembered, by name."""
        m = self.memory
        policies, cells = m.reservoir.policies.view(np.float64), ESTIMATE_WORDS * m.counts.size
        taught = {"taught": m.counts["taught"].copy()} if m.counts["taught"].any() else {}
        changed = {"before": m.before, "sunk": int(m.shares["sunk"][0])} if m.before.size else {}
        faded = {name: as_integers(getattr(m, name)) for name in FADING} if self.forgets else {}
        return (
            saved_pace(self.pair, m.pace)
            | changed
            | taught
            | faded
            | {
                "account": m.account.view(np.int64),
                "random": m.random,
                "clock": m.clock,
                "counts": as_integers(m.counts)[:, :3].copy(),
                "total": m.estimates["total"],
                "past": policies[:, :cells].reshape(-1, ESTIMATE_WORDS),
                "past_level": policies[:, cells:].reshape(-1),
                "counters": np.array([m.reservoir.seen[0], self.made[0]]),
                "custom": None if self.python is None else self.python.snapshot(),
            }
        )

    def restore(self, parts: dict[str, Any]) -> None:
        """Put everything back."""
        if "before" in parts:
            cells = Cells.of(parts["counts"][:, 0].reshape(self.shape))
            self.words = laid_out_anew(self.memory, self.pair, self.learner, cells)
            self.attach()
        m = self.memory
        if "before" in parts:
            fill(m.before, parts["before"])
            m.shares["sunk"] = parts["sunk"]
        self.restore_common(parts)
        fill(m.clock, parts["clock"])
        fill(as_integers(m.counts)[:, :3], parts["counts"])
        if "taught" in parts:
            fill(m.counts["taught"], parts["taught"])
        fill(m.estimates["total"], parts["total"])
        for name in FADING if self.forgets else ():
            fill(as_integers(getattr(m, name)), parts[name])
        cells, policies = ESTIMATE_WORDS * m.counts.size, m.reservoir.policies.view(np.float64)
        fill_rows(policies[:, :cells], parts["past"], -1, ESTIMATE_WORDS)
        fill_rows(policies[:, cells:], parts["past_level"], -1)
        m.reservoir.seen[0], self.made[0] = parts["counters"]
        m.head["total_cost"][0] = np.maximum(m.counts["cost"], 0).sum()
        self.pair.code(rounds.refresh_all)(self.words, self.pair.own)
        if self.python is not None:
            self.python.restore(parts["custom"])

    def note_of(self, ticket: tuple[int, ...]) -> float:
        """What is not known of a ticket from its context and its action: its round, if the learner forgets."""
        return float(ticket[2]) if self.forgets else 0.0

    def ticket_of(self, context: int, action: int, note: float) -> tuple[int, ...]:
        """The ticket of an ask about this action."""
        return (context, action, int(note)) if self.forgets else (context, action)

    def check_sums(self, tickets: list[Any] | None) -> None:
        """Refuse counts and a ledger that do not add up with what is awaited."""
        for ticket in tickets or ():
            u, a, since = dated(ticket)
            if not (0 <= u < self.shape[0] and 0 <= a < self.shape[1]):
                raise UnreadableFile(f"an answer is awaited for cell ({u}, {a}), which does not exist")
            if len(ticket) != 2 + self.forgets or since > self.memory.clock[0]:
                raise UnreadableFile(f"an answer is awaited for cell ({u}, {a}), but not from a round that was played")
        if self.forgets and not fits(self.memory):
            raise UnreadableFile("what is remembered does not add up with what was asked and answered")
        cells = None if tickets is None else [ticket[0] * self.shape[1] + ticket[1] for ticket in tickets]
        self.check_counts(cells, self.prices.ravel())
        m, live = self.memory, self.memory.counts["cost"] >= 0
        if m.before.size and self.account[0].granted < UNLIMITED:
            sunk = int(m.shares["sunk"][0])
            noted = sum(int(c) * int(n) for c, n in zip(m.counts["cost"][live], m.before[live], strict=True))
            known = (m.before >= 0) & (m.before <= m.counts["asked"])
            if not (known.all() and sunk >= 0 and sunk + noted <= self.account[0].spent):
                raise UnreadableFile("what was spent before the last change of actions does not add up")
