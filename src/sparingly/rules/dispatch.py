"""From the kind of a rule or a learner, a number, to its function: ladders of branches made from the registries.

Compiled code cannot look a function up in a table and still merge it. So a function with one branch for each entry
of a registry is written here, as text, and compiled with its callers. Functions of a user's own come as `own`: then
the callers are compiled once more, for just these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sparingly.numba_support import define, inlined
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
    return inlined(define(name, "\n".join(lines), names, "every kind"))


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


# What stands in for functions that are optional: nothing is known.

NO_LIMIT = -2  # of a rule that names no limit on counts
NO_REASON = -1  # of a rule that says no more than whether it asks
NO_BAR = math.nan  # of a rule without a bar for norms
NO_STREAK = 0  # of later asks nothing is known
NO_RESERVE = False  # of a rule that keeps none
NO_CEILING = math.inf  # of a level that may grow to anything
NO_EARNINGS = -math.inf  # nothing is known of the index after further answers
NO_SAMPLE = math.nan  # of a learner that draws nothing
NO_ROAMING = False  # of a learner that plays no arm at random
NO_BOUNDS = (-math.inf, math.inf)  # of a learner with no interval but the one that its index is the upper end of
NO_ROOT = math.nan  # of a learner whose mean reward is ⟨x, θ⟩: no row is fitted
UNWEIGHTED = 1.0  # of a learner to whom every answer counts alike


@inlined
def no_signal(rule: Any, question: Any) -> float:
    """Any change of the budget may change what the rule says."""
    return float(question.units.granted)


STAND_INS = {
    "limit": NO_LIMIT,
    "bar": NO_BAR,
    "streak": NO_STREAK,
    "reserves": NO_RESERVE,
    "solve": NO_ROOT,
    "weight": UNWEIGHTED,
    "promise": NO_LIMIT,
    "reason": NO_REASON,
    "reason_for_row": NO_REASON,
    "signal": no_signal,
    "ceiling": NO_CEILING,
    "earned": NO_EARNINGS,
    "sample": NO_SAMPLE,
    "bounds": NO_BOUNDS,
    "roams": NO_ROAMING,
}
