"""Agents described with the parts of the library, `learner=sp.UCB1(2)` and `budget=10`, as bodies for the service."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from sparingly import budgets
from sparingly.errors import InvalidInput
from sparingly.serve import contract
from sparingly.validation import shown


def described(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an agent's body: parts of the library as the service takes them, everything else as it is."""
    body = dict(fields)
    learner = body.get("learner")
    if is_part(learner):
        body["learner"] = part_body(learner, contract.LEARNERS, "learner")
        for what, sizes in (("actions", ("arms", "classes")), ("contexts", ("contexts",))):
            name_cells(body, what, next((getattr(learner, size) for size in sizes if hasattr(learner, size)), None))
        if getattr(learner, "costs", None) is not None:
            body.setdefault("costs", costs_of(learner))
    if is_part(body.get("rule")):
        body["rule"] = part_body(body["rule"], contract.RULES, "rule")
    if "budget" in body:
        body["budget"] = budget_body(body["budget"])
    if isinstance(body.get("rewards"), tuple | list):
        low, high = body["rewards"]
        body["rewards"] = {"low": low, "high": high}
    return {name: value for name, value in body.items() if value is not None}


def is_part(value: Any) -> bool:
    """Whether this is a learner or a rule of the library, or one like it."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def part_body(part: Any, known: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A learner or a rule: its type and its parameters."""
    name = type(part).__name__
    if name not in known or not type(part).__module__.startswith("sparingly."):
        raise InvalidInput(f"the service has no {what} {name}; it has {', '.join(known)}")
    fields = known[name].__struct_fields__
    return {"type": name} | {field: getattr(part, field) for field in fields}


def name_cells(body: dict[str, Any], what: str, size: int | None) -> None:
    """Names for actions and contexts: those that were given, if they are as many, else their numbers."""
    names = body.get(what)
    if size is None:
        return
    if names is None:
        if what == "actions" or size > 1:
            body[what] = [str(number) for number in range(size)]
    elif len(names) != size:
        raise InvalidInput(f"the learner has {size} {what}, but {len(names)} names were given")


def costs_of(learner: Any) -> list[float]:
    """What asking costs, for each action; the service takes no other costs."""
    rows = {tuple(row) for row in learner.costs} if isinstance(learner.costs[0], tuple) else {tuple(learner.costs)}
    if len(rows) > 1:
        raise InvalidInput("the service takes costs for each action, the same in all contexts")
    return list(rows.pop())


def budget_body(budget: Any) -> Any:
    """A budget: a number is there at once, Linear grows with the decisions, ByClock with time."""
    if isinstance(budget, bool) or budget is None or isinstance(budget, str):
        raise InvalidInput(
            f"budget must be a number, a schedule such as budgets.Linear(0.05), or a body; not {budget!r}"
        )
    if isinstance(budget, budgets.Linear):
        return {"growth": {"by": "decisions", "rate": budget.rate}}
    if isinstance(budget, budgets.ByClock):
        return {"growth": {"by": "clock", "amount": budget.amount, "every": budget.every}}
    if isinstance(budget, budgets.Fixed):
        return {"initial": budget.amount}
    if isinstance(budget, budgets.Budget):
        raise InvalidInput(f"the service has no {shown(budget)}: it has budgets.Linear, ByClock, and numbers")
    return {"initial": budget} if not isinstance(budget, Mapping | contract.BudgetBody) else budget
