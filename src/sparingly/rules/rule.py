"""What a rule is: a dataclass of parameters, and for each setting a function of a Question: to ask, or not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, TypeGuard, cast

from sparingly.errors import InvalidInput
from sparingly.ledger import budget_in_units, cost_in_units
from sparingly.numba_support import from_python, inlined
from sparingly.parameters import Parametric, describe
from sparingly.protocol import SETTINGS, Question, Units
from sparingly.rules.pacing import as_the_only_cell
from sparingly.validation import choice

EXPLORE = ("asked", "always")
OPTIONAL = ("limit", "streak", "promise", "bar", "reserves", "reason", "reason_for_row", "signal")

PARAMETERS = """`explore` is "asked" to explore only where the rule asks: elsewhere the action with the best estimate is
played. "always" is the paper's behaviour: the learner's own action is played, asked about or not."""


@dataclass(frozen=True)
class Rule(Parametric):
    """A rule whose functions are compiled. A rule in plain Python needs no base class, only `asks(question)`.

    The class names a function for each setting that the rule is for: `tabular`, `linear`, `episodic`. Each takes the
    rule's parameters and a `Question`, and returns whether to ask. A setting that is left out is refused where
    the rule meets a learner of that setting. More are optional:

    - `limit(rule, question)`: the largest n^q at which a cell is still asked about, −1 for none. It never falls as the
      budget grows, and where asking costs something the rule asks just if n^q ≤ limit. The simulator of arms then
      skips what is certain, and people see the limit as a threshold on widths.
    - `streak(rule, question)`: for arms without contexts, in place of a limit: how many asks in a row about this cell
      it would want under this budget. It never falls as the budget grows.
    - `promise(rule, question)`: with arms, in place of a limit: the largest n^q at which a cell is surely asked about,
      −1 for none. People see it as a threshold on widths.
    - `reserves(rule, question)`: with features, whether a row that is asked about is paid for by a reserve.
    - `reason(rule, question)`, `reason_for_row(rule, question)`: with arms and with features, why it asks or not, as a
      number of `sparingly.reasons`.
    - `bar(rule, question)`: the least ‖x‖ in V⁻¹ that is asked about. People see it as a threshold on widths.
    - `signal(rule, question)`: a number that changes whenever the rule may have changed its mind about a cell of an
      episode in which nothing has happened since. Without it, that is whenever the budget changes.

    A constant may stand for a function that always returns it.
    """

    functions: ClassVar[dict[str, Any]] = {}
    reduction: ClassVar[bool] = False  # whether it is Algorithm 1, a reduction around the learner
    paced: ClassVar[bool] = False  # whether it keeps a pace: what a Question has as `pace`
    unit_costs_only: ClassVar[tuple[str, ...]] = ()  # settings in which it is proved for costs of 1 only

    _: KW_ONLY
    explore: str = "asked"

    def __init_subclass__(cls, **functions: Any) -> None:
        super().__init_subclass__()
        cls.__repr__ = Rule.__repr__  # type: ignore[method-assign]  # dataclasses leave one alone that is there
        if "explore" not in cls.__dict__ or cls.__annotations__.get("explore", "str") == "str":
            describe(cls, PARAMETERS)
        unknown = functions.keys() - {*SETTINGS, *OPTIONAL}
        if unknown:
            raise InvalidInput(f"{cls.__name__}: a rule has no function {', '.join(sorted(unknown))}")
        if functions:
            cls.functions = functions

    def __repr__(self) -> str:
        """With `explore` at the end, and only if it is not what the class has by default."""
        shown = [f for f in fields(self) if f.name != "explore" or self.explore != f.default]
        shown.sort(key=lambda f: f.name == "explore")
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    def __post_init__(self) -> None:
        choice(self.explore, "explore", EXPLORE)

    @classmethod
    def examples(cls) -> tuple[Rule, ...]:
        """Some rules of this kind for the tests that run every rule through every path."""
        return (cls(),)

    def asks(self, question: Question) -> bool:
        """Whether to ask: by the same function as in an agent and in a simulation."""
        function, question = function_for(self, question.setting), in_units(question)
        if self.paced and question.pace is None:
            question = as_the_only_cell(question)
        return bool(from_python(function)(self.parameters, question))


def built_in(rule: object) -> TypeGuard[Rule]:
    """Whether compiled functions decide; with `asks` overridden, that method does."""
    return isinstance(rule, Rule) and type(rule).asks is Rule.asks


def function_for(rule: Rule, setting: str) -> Callable[..., Any]:
    """The function that decides in a setting, or an error that says where the rule can be used."""
    if setting not in rule.functions:
        known = " and ".join(SETTINGS[name] for name in SETTINGS if name in rule.functions) or "no setting"
        name = type(rule).__name__
        raise InvalidInput(f"{name} is for {known}, not for {SETTINGS[setting]}; use BalancedMatching()")
    return as_function(rule.functions[setting])


def as_function(part: Any) -> Callable[..., Any]:
    """The function that a part names, or one that returns the constant that it names instead."""
    return cast(Callable[..., Any], part) if callable(part) else _constant(part, type(part).__name__)


@functools.cache
def _constant(value: Any, kind: str) -> Callable[..., Any]:
    """Of this value; the kind tells 1 from True."""

    def constant(part: Any, *given: Any) -> Any:
        return value

    return inlined(constant)


def in_units(question: Question) -> Question:
    """A question that was put together by hand, with its amounts in whole millionths as well."""
    if question.units is not None:
        return question
    granted, spent = (int(x) for x in budget_in_units([question.budget, question.spent]))
    cost, total = (int(x) for x in cost_in_units([question.cost, question.total_cost]))
    return question._replace(units=Units(cost, total, granted, spent))
