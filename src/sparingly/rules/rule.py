"""What a rule is: a dataclass of parameters, and for each setting a function of a Question: to ask, or not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeGuard, cast

from sparingly.errors import InvalidInput
from sparingly.ledger import budget_in_units, cost_in_units
from sparingly.numba_support import from_python, generated
from sparingly.parameters import Parametric
from sparingly.protocol import SETTINGS, Question, Units


class Rule(Parametric):
    """A rule whose functions are compiled. A rule in plain Python needs no base class, only `asks(question)`.

    The class names a function for each setting that the rule is for: `tabular`, `linear`, `episodic`. Each takes the
    rule's parameters and a `Question`, and returns whether to ask. A setting that is left out is refused where
    the rule meets a learner of that setting. Two more are optional:

    - `limit(rule, question)`: the largest n^q at which a cell is still asked about, −1 for none. It never falls as the
      budget grows, and where asking costs something the rule asks just if n^q ≤ limit. The simulator of arms then
      skips what is certain, and people see the limit as a threshold on widths.
    - `bar(rule, question)`: the least ‖x‖ in V⁻¹ that is asked about. People see it as a threshold on widths.

    A constant may stand for a function that always returns it.
    """

    functions: ClassVar[dict[str, Any]] = {}
    reduction: ClassVar[bool] = False  # whether it is Algorithm 1, a reduction around the learner
    unit_costs_only: ClassVar[tuple[str, ...]] = ()  # settings in which it is proved for costs of 1 only

    def __init_subclass__(cls, **functions: Any) -> None:
        super().__init_subclass__()
        unknown = functions.keys() - {*SETTINGS, "limit", "bar"}
        if unknown:
            raise InvalidInput(f"{cls.__name__}: a rule has no function {', '.join(sorted(unknown))}")
        if functions:
            cls.functions = functions

    @classmethod
    def examples(cls) -> tuple[Rule, ...]:
        """Some rules of this kind for the tests that run every rule through every path."""
        return (cls(),)

    def asks(self, question: Question) -> bool:
        """Whether to ask: by the same function as in an agent and in a simulation."""
        function = function_for(self, question.setting)
        return bool(from_python(function)(self.parameters, in_units(question)))


def built_in(rule: object) -> TypeGuard[Rule]:
    """Whether compiled functions decide; with `asks` overridden, that method does."""
    return isinstance(rule, Rule) and type(rule).asks is Rule.asks


def function_for(rule: Rule, setting: str) -> Callable[..., Any]:
    """The function that decides in a setting, or an error that says where the rule can be used."""
    if setting not in rule.functions:
        known = " and ".join(SETTINGS[name] for name in SETTINGS if name in rule.functions) or "no setting"
        name = type(rule).__name__
        raise InvalidInput(f"{name} is for {known}, not for {SETTINGS[setting]}; use ExactMatching()")
    return as_function(rule.functions[setting])


def as_function(part: Any) -> Callable[..., Any]:
    """The function that a rule names, or one that returns the constant that it names instead."""
    return cast(Callable[..., Any], part) if callable(part) else _constant(part, type(part).__name__)


@functools.cache
def _constant(value: Any, kind: str) -> Callable[..., Any]:
    """Of this value; the kind tells 1 from True."""

    def constant(rule: Any, question: Any) -> Any:
        return value

    return generated(constant)


def in_units(question: Question) -> Question:
    """A question that was put together by hand, with its amounts in whole millionths as well."""
    if question.units is not None:
        return question
    granted, spent = (int(x) for x in budget_in_units([question.budget, question.spent]))
    cost, total = (int(x) for x in cost_in_units([question.cost, question.total_cost]))
    return question._replace(units=Units(cost, total, granted, spent))
