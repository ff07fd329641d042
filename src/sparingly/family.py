"""What the families of all settings share: kinds of parts, learners in plain Python, how saved parts are put back."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import ContractBroken, InvalidInput, NotAwaited, UnknownDecision, UnreadableFile
from sparingly.interpreter import Soon, soon
from sparingly.ledger import UNLIMITED, Account
from sparingly.numba_support import DISABLED, anew, from_python
from sparingly.parameters import Parametric
from sparingly.protocol import SETTINGS, Question, State
from sparingly.rules import RULES, Never
from sparingly.rules.dispatch import STAND_INS
from sparingly.rules.pacing import UNKNOWN, Pace, fresh_pace
from sparingly.rules.rule import EXPLORE, as_function, built_in, function_for
from sparingly.validation import choice

Floats = NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

OF_PAIR = {  # what the head of every memory has of a learner and a rule
    "slots": np.int64,  # P, of Greedy's reservoir; 0 without the reduction
    "learner": np.int64,  # its number in the registry
    "learner_numbers": np.int64,  # how many parameters it has
    "rule": np.int64,  # its number in the registry
    "rule_numbers": np.int64,  # how many parameters it has
    "random_ties": np.int64,  # 1 if ties are broken at random
    "exploits": np.int64,  # 1 if it explores only where it asks: elsewhere the best estimate is played
    "paced": np.int64,  # 1 if the rule keeps a pace
}


def kind_of(registry: Sequence[type[Any]], part: Any) -> int | None:
    """The number of a part in its registry; None for one that is not there. A subclass that changes nothing is."""
    functions = type(part).functions
    return next((kind for kind, entry in enumerate(registry) if functions and entry.functions is functions), None)


def is_compiled(learner: Any) -> bool:
    """Whether compiled functions choose: one with `choose` or `plan` of its own does so in plain Python."""
    return isinstance(learner, Parametric) and not hasattr(learner, "choose") and not hasattr(learner, "plan")


def asker(rule: Any, setting: str) -> Callable[[Question], Any]:
    """The function that decides for a rule, ours or the user's, given a Question."""
    if not built_in(rule):
        return cast(Callable[[Question], Any], rule.asks)
    return functools.partial(from_python(function_for(rule, setting)), rule.parameters)


def with_given_costs(learner: Any, costs: Any) -> Any:
    """The learner with the costs that were given to its agent, so that they are saved with it."""
    if costs is None:
        return learner
    if not dataclasses.is_dataclass(learner):
        raise InvalidInput(f"{type(learner).__name__} must be a dataclass, if costs are given to its agent")
    return dataclasses.replace(cast(Any, learner), costs=costs)


def check_rule(rule: Any, setting: str, learner: Any, unit_costs: bool) -> None:
    """Refuse a rule that is not for the setting, or not for the costs."""
    if not built_in(rule):
        return
    function_for(rule, setting)
    if setting in rule.unit_costs_only and not unit_costs:
        raise InvalidInput(
            f"{type(rule).__name__} is proved for unit costs only with {type(learner).__name__}; "
            "use BalancedMatching() for other costs"
        )


class Pair:
    """A learner and a rule as compiled code takes them: kinds in the registries, or functions of the user's own.

    `python_learner` and `python_rule` say which of them are in plain Python. Then compiled code has a stand-in.
    """

    def __init__(self, learners: Sequence[type[Any]], learner: Any, rule: Any, setting: str) -> None:
        plain = not is_compiled(learner)
        kinds = (0 if plain else kind_of(learners, learner), kind_of(RULES, rule) if built_in(rule) else None)
        # A compiled rule of the user's own is called from Python, where the learner is in Python anyway.
        self.python_learner, self.python_rule = plain, kinds[1] is None and (plain or not built_in(rule))
        stand_in: Any = Never() if self.python_rule else rule
        self.learner, self.rule = kinds[0] or 0, kind_of(RULES, stand_in) or 0
        self.learner_numbers = np.zeros(len(learners[0].Parameters._fields)) if plain else learner.numbers
        self.rule_numbers = stand_in.numbers
        self.slots = int(rule.policies) if getattr(stand_in, "reduction", False) else 0
        self.paced = bool(getattr(stand_in, "paced", False))
        self.exploits = choice(getattr(rule, "explore", "asked"), "explore", EXPLORE) == "asked"
        self.light = False  # whether it may run as plain Python until it is compiled
        self.own: Any = None
        if kinds[0] is None or (kinds[1] is None and not self.python_rule):
            self.own = own_functions(learner, stand_in, setting)

    @property
    def in_python(self) -> bool:
        """Whether a part is in plain Python."""
        return self.python_learner or self.python_rule

    @property
    def by_steps(self) -> bool:
        """Whether rounds go step by step through Python: where a part is in Python, or the compiler is off."""
        return self.in_python or DISABLED

    def head(self, kind: np.dtype[Any], numbers: Floats, ties: str, **values: Any) -> Any:
        """The head of a fresh memory, (1,): what it has of this pair, and what the setting adds."""
        values |= {
            "slots": self.slots, "learner": self.learner, "learner_numbers": numbers.size, "rule": self.rule,
            "rule_numbers": self.rule_numbers.size, "random_ties": ties == "random", "exploits": self.exploits,
            "paced": self.paced,
        }  # fmt: skip
        head = np.zeros(1, dtype=kind)
        for name, value in values.items():
            head[name] = value
        return head

    def begin(self, memory: Any, numbers: Floats, key: np.uint64) -> None:
        """Fill in what every fresh memory has: the parameters, the learner's randomness, a pace that has not begun."""
        memory.learner[:], memory.rule[:], memory.random[0] = numbers, self.rule_numbers, key
        fresh_pace(memory.pace.state)

    def code(self, function: F) -> F:
        """A compiled function for this pair: the one that is kept on disk, or one made for the user's own parts."""
        made: F = self.shared(function) if self.own is None else anew(function)
        return made

    def shared(self, function: F) -> F:
        """A compiled function that is the same for every pair."""
        made: F = soon(function) if self.light else function
        return made


def own_functions(learner: Any, rule: Any, setting: str) -> Any:
    """The functions of a learner and a rule of which at least one is the user's own, as one tuple with names."""
    functions = STAND_INS | learner.functions | rule.functions | {"asks": function_for(rule, setting)}
    functions = {name: as_function(function) for name, function in functions.items() if name not in SETTINGS}
    return _own_type(tuple(functions))(*functions.values(), learner.parameters, rule.parameters)


@functools.cache
def _own_type(names: tuple[str, ...]) -> Any:
    return namedtuple("Own", [*names, "learner", "rule"])


class PlainLearner:
    """A learner in plain Python, with its state, its randomness and, for Greedy, a reservoir of past states.

    For a rule in plain Python with a learner that is compiled, the state stays empty.
    """

    def __init__(self, learner: Any, pair: Pair, seeds: np.random.SeedSequence) -> None:
        self.learner, self.slots = learner, pair.slots
        self.random = np.random.Generator(np.random.PCG64(seeds))
        self.state: State = learner.start() if pair.python_learner else {}
        self.past: list[tuple[State, int]] = []  # a state and the clock at its time

    def keep(self, clock: int, seen: int) -> None:
        """The l-th policy takes each slot with probability 1/l (Algorithm 1, lines 7 and 11), with whole states."""
        kept = (copy.deepcopy(self.state), clock)
        for slot in range(self.slots):
            if len(self.past) <= slot:
                self.past.append(kept)
            elif self.random.random() * seen < 1.0:
                self.past[slot] = kept

    def draw(self) -> tuple[State, int]:
        """A past state and its clock; before there is one, the state of now at the first round."""
        if not self.past:
            return self.state, 1
        return self.past[int(self.random.random() * len(self.past)) if len(self.past) > 1 else 0]

    def snapshot(self) -> dict[str, Any]:
        """What a saved agent must remember beyond the memory."""
        return {"state": self.state, "past": [[s, t] for s, t in self.past], "random": self.random.bit_generator.state}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The inverse of `snapshot`."""
        self.state = snapshot["state"]
        self.past = [(s, int(t)) for s, t in snapshot["past"]]
        self.random.bit_generator.state = snapshot["random"]


class BaseFamily:
    """What the families of all settings do alike: find their functions, keep a memory, copy, take answers."""

    setting: ClassVar[str]
    learners: ClassVar[tuple[type[Any], ...]]
    views: ClassVar[tuple[str, ...]]  # what an Agent can be asked about
    instead: ClassVar[dict[str, str]] = {}  # what to say where another name is better
    fixed: ClassVar[str]  # why actions and contexts can neither be added nor retired
    takes_labels: ClassVar[bool] = False  # whether an answer can name the right action, and no more
    retired: dict[str, frozenset[int]]  # actions and contexts, by their numbers
    state: ClassVar[tuple[str, ...]] = ("learner", "rule", "words", "python")  # what a copy needs
    compiled: ClassVar[dict[str, Callable[..., Any]]]  # the functions that an agent calls, by the attribute's name
    open_memory: ClassVar[Callable[..., Any]]

    light: bool  # whether plain Python is quick enough until the compiler is done
    learner: Any
    rule: Any
    shape: tuple[int, ...]  # of the cells
    words: NDArray[np.int64]  # the memory
    memory: Any  # its parts, by name
    _decide: Any  # what `compiled` names, for this pair
    _learn: Any
    _plan: Any
    python: PlainLearner | None  # where the learner or the rule is in plain Python

    def bind(self) -> None:
        """Find the functions for the learner and the rule."""
        self.pair = self.make_pair(self.learner, self.rule)
        self.pair.light = self.light
        self.own, self.by_steps = self.pair.own, self.pair.by_steps
        self.asks = asker(self.rule, self.setting)
        name = "reason_for_row" if self.setting == "linear" else "reason"
        given = self.rule.functions.get(name) if built_in(self.rule) else None
        made = None if given is None else functools.partial(from_python(given), self.rule.parameters)
        self.reason: Callable[[Question], Any] | None = made
        for name, function in self.compiled.items():
            found: Any = self.pair.code(function)
            if isinstance(found, Soon):
                found.serve(self, name)
            else:
                setattr(self, name, found)

    @classmethod
    def make_pair(cls, learner: Any, rule: Any) -> Pair:
        """A learner and a rule as compiled code takes them."""
        return Pair(cls.learners, learner, rule, cls.setting)

    def start(self, words: Any, seeds: np.random.SeedSequence) -> None:
        """Begin with a fresh memory."""
        self.words = words
        self.python = PlainLearner(self.learner, self.pair, seeds) if self.pair.in_python else None
        self.attach()

    def attach(self) -> None:
        """Name the parts of the memory (again, after a copy or when it has grown)."""
        self.memory = type(self).open_memory(self.words, self.own)
        self.retired = {"actions": frozenset(), "contexts": frozenset()}
        self.account: Account = self.memory.account
        self.plain = self.python if self.pair.python_learner else None  # the learner, if it is in plain Python
        self.made: NDArray[np.int64] = self.memory.head["decisions"]  # (1,)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy needs: the parts and the memory. Functions and views are found again."""
        return {name: getattr(self, name) for name in self.state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.bind()
        self.attach()

    def whole_or_not_at_all(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call what calls the user's code. If that fails, nothing has happened."""
        before, dice = self.words.copy(), {} if self.python is None else self.python.random.bit_generator.state
        try:
            return call(*arguments)
        except BaseException:
            self.words[:] = before
            if self.python is not None:
                self.python.random.bit_generator.state = dice
            raise

    def check_id(self, id: Any) -> InvalidInput:
        """The error for an id that nothing is awaited for."""
        if not isinstance(id, int | np.integer) or isinstance(id, bool):
            return UnknownDecision(f"no decision has the id {id!r}; ids are whole numbers")
        if self.made[0] == 0:
            return UnknownDecision(f"no decision has the id {id!r}: nothing was decided yet, call decide() first")
        if not 1 <= id <= self.made[0]:
            return UnknownDecision(f"no decision has the id {id!r}; ids so far are 1 … {self.made[0]}")
        return NotAwaited(f"decision {id} awaits no feedback: it was answered already, or never asked for")

    def check_choice(self, action: Any, actions: int, what: str, method: str = "choose") -> int:
        """What a learner in plain Python has chosen, if it is an action."""
        if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < actions:
            name = type(self.learner).__name__
            raise ContractBroken(f"{name}.{method} must return {what} in 0 … {actions - 1}, not {action!r}")
        return int(action)

    def restore_common(self, parts: dict[str, Any]) -> None:
        """Put back what the memories of all settings have."""
        fill(self.memory.account.view(np.int64), parts["account"])
        fill(self.memory.random, parts["random"])
        restore_pace(self.pair, self.memory.pace, parts)

    def add(self, what: str, cost: Any) -> int:
        """One more action or context; its number. Not in every setting."""
        raise InvalidInput(self.fixed.format(what=what, learner=type(self.learner).__name__))

    def others(self, ticket: Any) -> list[Any]:
        """What `teach` takes for each action where a decision was made, in order. Not in every setting."""
        raise InvalidInput(
            f"with {type(self.learner).__name__} an answer tells of one action: give `reward`, and pass what is known "
            "of others to agent.teach(action, reward, context)"
        )

    def set_live(self, what: str, number: int, live: bool) -> None:
        """Retire an action or a context, or bring it back. Not in every setting."""
        self.add(what, None)

    def set_rule(self, rule: Any) -> None:
        """Go on with another rule. Not in every setting."""
        name = type(self.learner).__name__
        raise InvalidInput(f"with {name} the rule is fixed: what it has asked so far does not tell what is reserved")


class CellFamily(BaseFamily):
    """What families do alike whose memories have counts for every cell."""

    def counted(self, name: str) -> NDArray[np.int64]:
        """One of the counts of every cell, in the shape of the cells."""
        counts: NDArray[np.int64] = self.memory.counts[name].reshape(self.shape)
        return counts.copy()

    def check_counts(self, cells: Iterable[int] | None, prices: NDArray[np.int64]) -> None:
        """Refuse counts and a ledger that do not add up with the cells that await answers, if these are known."""
        counts = self.memory.counts
        open_asks = counts["asked"] - counts["answered"]
        wrong = open_asks < 0 if cells is None else open_asks != np.bincount(list(cells), minlength=counts.size)
        if wrong.any():
            raise UnreadableFile("asks, answers and awaited decisions do not add up")
        check_spending(self.account, prices, counts["asked"])

    def asked(self) -> NDArray[np.int64]:
        """How often each cell was asked about, in the shape of the cells."""
        return self.counted("asked")

    def answered(self) -> NDArray[np.int64]:
        """How often each cell was answered."""
        return self.counted("answered")


def fill(target: Any, values: Any) -> None:
    """Copy a restored array into its place, if it fits."""
    array = np.asarray(values)
    if array.shape != target.shape or (array.dtype != target.dtype and array.size):
        raise UnreadableFile(f"an array has shape {array.shape}, but {target.shape} was expected")
    target[...] = array


def fill_rows(target: Any, values: Any, *shape: int) -> None:
    """Copy a restored array of this shape (−1: whatever fits) into the rows (P, K) of past policies."""
    fresh = np.empty_like(target, order="C")
    fill(fresh.reshape(shape) if fresh.size else fresh.reshape([max(n, 0) for n in shape]), values)
    target[...] = fresh


def as_integers(records: Any) -> Any:
    """The fields of records as the columns of an array of whole numbers: a view."""
    return records.view(np.int64).reshape(records.size, records.dtype.itemsize // 8)


def check_spending(account: Account, costs: Iterable[Any], asked: Iterable[Any]) -> None:
    """Refuse a ledger that has not paid for all asks, or has paid more than was granted."""
    paid = sum(int(c) * int(n) for c, n in zip(costs, asked, strict=True))
    if not min(paid, UNLIMITED) <= account[0].spent <= account[0].granted:
        raise UnreadableFile("the ledger does not add up")


def saved_pace(pair: Pair, pace: Pace) -> dict[str, Any]:
    """What a rule that keeps a pace remembers, by name."""
    if not pair.paced:
        return {}
    state = pace.state.copy()
    state["kappa"], state["excess"], state["over"] = UNKNOWN, 0, 0
    return {"pace": as_integers(state), "scores": pace.scores}


def restore_pace(pair: Pair, pace: Pace, parts: dict[str, Any]) -> None:
    """Put it back; what follows from the counts of asks is summed up anew."""
    if pair.paced:
        fill(as_integers(pace.state), parts["pace"])
        fill(pace.scores, parts["scores"])
        state = pace.state[0]
        if not (state.seen >= 0 and state.reserved >= 0 and state.gain >= 0.0 and 0.0 <= state.length < np.inf):
            raise UnreadableFile("the pace of asking is out of its range")
        state.kappa = UNKNOWN
