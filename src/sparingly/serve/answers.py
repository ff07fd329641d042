"""Rows of the store as answers of the service: names for numbers, units for millionths, times as people read them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from sparingly.ledger import UNIT
from sparingly.serve import contract
from sparingly.serve.contract import OFUL, AgentBody
from sparingly.serve.making import grown
from sparingly.serve.rows import AgentRow, DecisionRow, EntryRow, Record

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(micros: int) -> str:
    """Microseconds since 1970 as RFC 3339."""
    seconds, rest = divmod(micros, 1_000_000)
    return f"{_second(seconds)}.{rest:06d}Z"


@functools.lru_cache(4096)
def _second(seconds: int) -> str:
    try:
        return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    except OverflowError:
        return "9999-12-31T23:59:59"  # later than any calendar


def _time(micros: int | None) -> str | None:
    return None if micros is None else time_of(micros)


def budget(row: Record | AgentRow, granted: int | None = None) -> contract.Budget:
    """The budget right after a record, or of an agent."""
    whole = row.granted if granted is None else granted
    return contract.Budget(whole / UNIT, row.spent / UNIT, row.held / UNIT, (whole - row.spent - row.held) / UNIT)


def _action(body: AgentBody, action: int) -> str | int:
    return action if body.actions is None else body.actions[action]


def decision(name: str, body: AgentBody, row: DecisionRow) -> contract.Decision:
    """What the caller of a decision is told, the first time and ever after."""
    return contract.Decision(
        name, row.event_id, row.number, _action(body, row.action), row.action, bool(row.ask),
        cast(contract.Reason, row.reason), row.width, row.threshold, budget(row), _time(row.lease), time_of(row.at),
    )  # fmt: skip


def event(name: str, body: AgentBody, row: DecisionRow) -> contract.Event:
    """A decision and what has become of it."""
    context: str | int | None = None
    if not isinstance(body.learner, OFUL) and body.contexts is not None:
        context = body.contexts[int(row.context)]
    return contract.Event(
        name, row.event_id, row.number, _action(body, row.action), row.action, bool(row.ask),
        cast(contract.Reason, row.reason), row.width, row.threshold, row.cost / UNIT,
        cast(contract.Status, row.status), context, None if row.payload is None else msgspec.Raw(row.payload.encode()),
        row.reward, bool(row.late), time_of(row.at), _time(row.due), _time(row.answered),
    )  # fmt: skip


def events(name: str, body: AgentBody, rows: Sequence[DecisionRow], more: bool) -> contract.EventList:
    """A page of decisions, and where the next one begins if there are more."""
    return contract.EventList([event(name, body, row) for row in rows], rows[-1].seq if more else None)


def feedback(name: str, row: DecisionRow) -> contract.Feedback:
    """An answer, as it was taken in."""
    assert row.reward is not None and row.answered is not None
    return contract.Feedback(name, row.event_id, row.reward, bool(row.late), bool(row.learned), time_of(row.answered))


def booking(name: str, row: EntryRow) -> contract.Booking:
    """A grant or a charge."""
    return contract.Booking(name, row.key, row.amount / UNIT, budget(row), time_of(row.at))


def agent(row: AgentRow, now: int) -> contract.Agent:
    """An agent with its counters, and the budget as it has grown until now."""
    body = msgspec.json.decode(row.body, type=AgentBody)
    granted, _ = grown(row, body, max(now, row.last_at), row.decisions)
    return contract.Agent(
        row.name, body, time_of(row.created), bool(row.paused), row.decisions, row.asks, row.answers, row.open_asks,
        row.held_asks, row.asks - row.answers - row.open_asks - row.held_asks, budget(row, granted),
    )  # fmt: skip


def places(last: int, points: int) -> list[int]:
    """Up to `points` records spread evenly over a log, the first and the last among them."""
    if last <= points:
        return list(range(1, last + 1))
    return sorted({1 + round(k * (last - 1) / (points - 1)) for k in range(points)})


def history(row: AgentRow, counters: Iterable[tuple[int, ...]], now: int) -> contract.History:
    """How an agent's counters went: at its birth, at the records that were read, and now."""
    body = msgspec.json.decode(row.body, type=AgentBody)
    start = contract.Point(time_of(row.created), 0, 0, body.budget.initial, 0.0, 0.0)
    read = [
        contract.Point(time_of(at), asks, answers, granted / UNIT, spent / UNIT, held / UNIT)
        for _, at, granted, spent, held, asks, answers in counters
    ]
    present = agent(row, now)
    end = contract.Point(
        time_of(max(now, row.last_at)), row.asks, row.answers, present.budget.granted, present.budget.spent,
        present.budget.held,
    )  # fmt: skip
    return contract.History([start, *read, end])


def log_line(row: DecisionRow | EntryRow) -> dict[str, Any]:
    """A record of the log with everything in it, in the store's own units: millionths, microseconds."""
    kind = "decision" if isinstance(row, DecisionRow) else row.kind
    line: dict[str, Any] = {"seq": row.seq, "kind": kind, "time": time_of(row.at)}
    for name in type(row).__dataclass_fields__:
        if name not in ("agent", "seq", "kind"):
            line[name] = getattr(row, name)
    if isinstance(row, DecisionRow):
        line["context"] = json.loads(row.context)
        line["payload"] = None if row.payload is None else json.loads(row.payload)
    return line


def log_head(row: AgentRow) -> dict[str, Any]:
    """The first line of a log: the agent itself."""
    return {
        "seq": 0, "kind": "agent", "time": time_of(row.created), "at": row.created, "name": row.name,
        "body": json.loads(row.body),
    }  # fmt: skip
