"""How an agent is made from its body, how its budget grows, and amounts as whole millionths."""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from typing import Any

import msgspec

from sparingly import learners, rules
from sparingly.agent import Agent
from sparingly.errors import InvalidInput
from sparingly.ledger import MOST_BUDGET, UNIT, cost_in_units
from sparingly.serve.contract import MOST_CELLS, OFUL, AgentBody, ByClock, ByDecisions, ByGrants, Greedy
from sparingly.serve.problems import Unfit
from sparingly.serve.rows import AgentRow

MOST = int(MOST_BUDGET * UNIT)
MOST_NUMBERS = 400_000  # that Greedy's policies may have
MICRO = 1_000_000  # microseconds in a second


def make_agent(body: AgentBody) -> Agent:
    """A fresh agent; what does not fit together is refused with the reason."""
    kind, parameters = type(body.learner).__name__, msgspec.structs.asdict(body.learner)
    try:
        rule = getattr(rules, type(body.rule).__name__)(**msgspec.structs.asdict(body.rule))
        if isinstance(body.learner, OFUL):
            learner: Any = learners.OFUL(**parameters, costs=body.costs)
        else:
            contexts = len(body.contexts or [""])
            tabular: Any = getattr(learners, kind)
            learner = tabular(len(body.actions or []), contexts, costs=body.costs, **parameters)
        return Agent(learner, rule, seed=body.seed)
    except InvalidInput as error:
        raise Unfit(str(error)) from None


def check_body(body: AgentBody) -> None:
    """Refuse a body whose parts contradict each other."""
    linear = isinstance(body.learner, OFUL)
    if not linear and body.actions is None:
        raise Unfit(f"a {type(body.learner).__name__} learner needs `actions`, a list of names")
    if linear and body.contexts is not None:
        raise Unfit("an OFUL learner takes features, not contexts; leave `contexts` out")
    for what, names in (("actions", body.actions), ("contexts", body.contexts)):
        if names is not None and len(set(names)) < len(names):
            raise Unfit(f"{what} must all be different")
    if body.costs is not None and (body.actions is None or len(body.costs) != len(body.actions)):
        raise Unfit("costs must be given for each of the actions: as many numbers as names")
    if body.actions is not None and len(body.actions) * len(body.contexts or [""]) > MOST_CELLS:
        raise Unfit(f"actions × contexts must be at most {MOST_CELLS:,}")
    slots = 1 + (body.rule.policies if isinstance(body.rule, Greedy) else 0)
    size = (
        body.learner.dim**2 if isinstance(body.learner, OFUL) else len(body.actions or []) * len(body.contexts or [""])
    )
    if slots * size > MOST_NUMBERS:
        raise Unfit(f"Greedy would have to keep {slots * size:,} numbers; at most {MOST_NUMBERS:,} are kept")
    if not body.rewards.low < body.rewards.high:
        raise Unfit(f"rewards: low must be below high, but {body.rewards.low:g} is not below {body.rewards.high:g}")
    make_agent(body)


def grown(row: AgentRow, body: AgentBody, now: int, decisions: int) -> tuple[int, int]:
    """What is granted at this moment, and how much of it by growth, when `decisions` have been made."""
    growth, accrued = body.budget.growth, row.accrued
    if isinstance(growth, ByGrants):
        return row.granted, accrued
    if isinstance(growth, ByClock):
        elapsed, every = now - row.created, max(round(growth.every * MICRO), 1)
        accrued = max(accrued, units_of(growth.amount) * elapsed // every)
    elif isinstance(growth, ByDecisions):
        accrued = max(accrued, units_of(growth.rate) * decisions)
    accrued = min(accrued, row.accrued + MOST - row.granted)  # a budget that has become too large to count stands still
    return row.granted + accrued - row.accrued, accrued


@functools.lru_cache
def cost_units_of(cost: float) -> int:
    """A cost of asking in whole millionths, as the agent counts it."""
    return int(cost_in_units(cost))


@functools.lru_cache
def units_of(amount: float) -> int:
    """An amount in whole millionths, rounded down: exactly the decimal number that was sent."""
    return math.floor(Decimal(repr(amount)) * UNIT)
