"""Makes agents from their bodies, computes how budgets grow, and converts amounts to integer millionths."""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from typing import Any, Protocol

import msgspec

from sparingly import learners, rules
from sparingly.agent import Agent
from sparingly.errors import InvalidInput
from sparingly.ledger import MOST_BUDGET, UNIT, cost_in_units
from sparingly.serve.contract import MOST_CELLS, AgentBody, BudgetBody, ByClock, ByDecisions, ByGrants
from sparingly.serve.http_errors import Unprocessable
from sparingly.serve.records import AgentRecord

LEARNERS = {learner.__name__: learner for learner in learners.LEARNERS}
RULES: dict[str, Any] = {rule.__name__: rule for rule in rules.RULES}
MOST = int(MOST_BUDGET * UNIT)
MOST_NUMBERS = 400_000  # the most that Greedy may keep for all of its policies
MICRO = 1_000_000  # microseconds in a second


def read_body(text: str) -> AgentBody:
    """A body from its text. Rules of version 0.1.0 had no `explore`: they explored in every round."""
    body = msgspec.json.decode(text, type=AgentBody)
    if '"explore"' not in text and hasattr(body.rule, "explore"):
        body = msgspec.structs.replace(body, rule=msgspec.structs.replace(body.rule, explore="always"))
    return body


def make_rule(body: Any) -> Any:
    """A rule from its body, or from that as plain JSON."""
    parameters = dict(body) if isinstance(body, dict) else {"type": type(body).__name__} | msgspec.structs.asdict(body)
    return RULES[parameters.pop("type")](**parameters)


def make_agent(body: AgentBody) -> Agent:
    """Make a new agent. Raises Unprocessable, with the reason, if the parameters do not fit together."""
    parameters = msgspec.structs.asdict(body.learner)
    if body.shares_input:
        parameters |= {"classes": len(body.actions or [])}
    elif not body.linear:
        parameters |= {"arms": len(body.actions or []), "contexts": len(body.contexts or [""])}
    try:
        rule = make_rule(body.rule)
        learner = LEARNERS[type(body.learner).__name__](costs=body.costs, **parameters)
        return Agent(learner, rule, budget=0.0, seed=body.seed)
    except InvalidInput as error:
        raise Unprocessable(str(error)) from None


def check_body(body: AgentBody) -> None:
    """Raise Unprocessable if the parts of a body contradict each other."""
    kind, linear = type(body.learner).__name__, body.linear
    if (not linear or body.shares_input) and body.actions is None:
        raise Unprocessable(f"a {kind} learner needs `actions`, a list of names")
    if linear and body.contexts is not None:
        raise Unprocessable(f"an {kind} learner takes features, not contexts; leave `contexts` out")
    for what, names in (("actions", body.actions), ("contexts", body.contexts)):
        if names is not None and len(set(names)) < len(names):
            raise Unprocessable(f"{what} must all be different")
    if body.costs is not None and (body.actions is None or len(body.costs) != len(body.actions)):
        raise Unprocessable("costs must be given for each of the actions: as many numbers as names")
    if body.actions is not None and len(body.actions) * len(body.contexts or [""]) > MOST_CELLS:
        raise Unprocessable(f"actions × contexts must be at most {MOST_CELLS:,}")
    slots = 1 + getattr(body.rule, "policies", 0)
    rows = len(body.actions or []) if body.shares_input else 0
    size = (
        body.learner.dim * max(body.learner.dim, rows)
        if linear
        else len(body.actions or []) * len(body.contexts or [""])
    )
    if slots * size > MOST_NUMBERS:
        raise Unprocessable(f"Greedy would have to keep {slots * size:,} numbers; at most {MOST_NUMBERS:,} are kept")
    if not body.rewards.low < body.rewards.high:
        low, high = body.rewards.low, body.rewards.high
        raise Unprocessable(f"rewards: low must be below high, but {low:g} is not below {high:g}")
    make_agent(body)


class HasBudget(Protocol):
    """An agent's body, or the part of it that says how the budget grows."""

    @property
    def budget(self) -> BudgetBody: ...


def granted_by_now(record: AgentRecord, body: HasBudget, now: int, decisions: int) -> tuple[int, int]:
    """The budget granted so far, and the part of it that came from growth, after this many decisions."""
    growth, accrued = body.budget.growth, record.accrued
    if isinstance(growth, ByGrants):
        return record.granted, accrued
    if isinstance(growth, ByClock):
        elapsed, every = now - record.created, max(round(growth.every * MICRO), 1)
        accrued = max(accrued, units_of(growth.amount) * elapsed // every)
    elif isinstance(growth, ByDecisions):
        accrued = max(accrued, units_of(growth.rate) * decisions)
    accrued = min(accrued, record.accrued + MOST - record.granted)  # growth stops at the largest budget
    return record.granted + accrued - record.accrued, accrued


@functools.lru_cache
def cost_units_of(cost: float) -> int:
    """The cost of an ask in integer millionths, rounded as the agent does."""
    return int(cost_in_units(cost))


@functools.lru_cache
def units_of(amount: float) -> int:
    """An amount in integer millionths, rounded down from exactly the decimal number that was sent."""
    return math.floor(Decimal(repr(amount)) * UNIT)
