"""From the kind of a rule or a learner, a number, to its function: ladders of branches made from the registries.

Compiled code cannot look a function up in a table and still merge it. So a function with one branch for each entry
of a registry is written here, as text, and compiled with its callers. Functions of a user's own come as `own`: then
the callers are compiled once more, for just these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sparingly.numba_support import define, generated, inlined
from sparingly.parameters import Parametric, constructor


def ladder(name: str, registry: Sequence[type[Parametric]], functions: Mapping[int, Any], arguments: str) -> Any:
    """`name(own, kind, numbers, …)`: the function of entry number `kind`, given its parameters and the arguments.

    `functions` holds the function of each entry by its number; `own` is None, or has the function as an attribute of
    this name and the parameters that it takes as `own.rule` or `own.learner`.
    """
    names: dict[str, Any] = {}
    lines = [f"def {name}(own, kind, numbers, {arguments}):", "    if own is None:"]
    for place, (kind, function) in enumerate(functions.items()):
        made, parameters = f"parameters_{kind}", constructor(registry[kind], "numbers")
        names |= {f"{name}_{kind}": function, made: registry[kind].Parameters}
        call = f"return {name}_{kind}"  # a constant, or a call
        if callable(function):
            call += f"({made}({parameters}), {arguments})"
        last = place + 1 == len(functions)
        lines += [f"        {call}"] if last else [f"        if kind == {kind}:", f"            {call}"]
    lines += [f"    return own.{name}(own.{registry[0].role}, {arguments})", ""]
    return generated(define(name, "\n".join(lines), names, "every kind"))


def kinds_for(registry: Sequence[type[Any]], name: str, within: str = "", otherwise: Any = None) -> dict[int, Any]:
    """The function of this name of each entry, by the entry's number; `otherwise` where one has none.

    Entries that lack the function `within` are left out: a rule that is not for a setting has no branch there.
    """
    functions = {
        kind: entry.functions.get(name, otherwise)
        for kind, entry in enumerate(registry)
        if (within or name) in entry.functions
    }
    missing = [registry[kind].__name__ for kind, function in functions.items() if function is None]
    assert not missing, f"{', '.join(missing)} must name a function `{name}`"
    return functions


# Stand-ins for functions that are optional. What they return means that nothing is known.

NO_LIMIT = -2  # of a rule that names no limit on counts
NO_REASON = -1  # of a rule that says no more than whether it asks


@inlined
def no_limit(rule: Any, question: Any) -> int:
    """The rule is no limit on counts."""
    return NO_LIMIT


@inlined
def no_bar(rule: Any, question: Any) -> float:
    """The rule is no bar for norms."""
    return math.nan


@inlined
def no_streak(rule: Any, question: Any) -> int:
    """Nothing is known of later asks."""
    return 0


@inlined
def no_reserve(rule: Any, question: Any) -> bool:
    """The rule keeps no reserve."""
    return False


@inlined
def no_signal(rule: Any, question: Any) -> float:
    """Any change of the budget may change what the rule says."""
    return float(question.units.granted)


@inlined
def no_ceiling(learner: Any, level: float, now: int, rounds: int) -> float:
    """The level may grow to anything."""
    return math.inf


@inlined
def no_earnings(learner: Any, answers: int, ahead: int, level: float) -> float:
    """Nothing is known of the index after further answers."""
    return -math.inf


@inlined
def no_sample(learner: Any, estimate: Any, level: float, random: Any) -> float:
    """The learner draws nothing."""
    return math.nan


@inlined
def no_roaming(learner: Any, random: Any) -> bool:
    """The learner plays no arm at random."""
    return False


@inlined
def no_bounds(learner: Any, estimate: Any, level: float) -> tuple[float, float]:
    """The learner has no interval but the one that its index is the upper end of."""
    return -math.inf, math.inf


STAND_INS = {
    "limit": no_limit,
    "bar": no_bar,
    "streak": no_streak,
    "reserves": no_reserve,
    "promise": no_limit,
    "reason": NO_REASON,
    "reason_for_row": NO_REASON,
    "signal": no_signal,
    "ceiling": no_ceiling,
    "earned": no_earnings,
    "sample": no_sample,
    "bounds": no_bounds,
    "roams": no_roaming,
}
