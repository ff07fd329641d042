"""Turns records of the store into types of the contract: names for indices, units for millionths, RFC 3339 times."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from sparingly.ledger import UNIT
from sparingly.serve import contract
from sparingly.serve.changes import CHANGED, roster, stored_body
from sparingly.serve.clock import SECOND, TrustedClock
from sparingly.serve.contract import AgentBody
from sparingly.serve.explanations import chosen_of, in_words, reason_of
from sparingly.serve.factory import granted_by_now
from sparingly.serve.records import AgentRecord, DecisionRecord, EntryRecord, LogRecord

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
        return "9999-12-31T23:59:59"  # later than datetime can say


def _time(micros: int | None) -> str | None:
    return None if micros is None else time_of(micros)


def finite(number: float) -> float | None:
    """A number as JSON can say it; None if it is infinite, as the width of an extreme agent may be."""
    return number if math.isfinite(number) else None


def budget(record: LogRecord | AgentRecord, granted: int | None = None) -> contract.Budget:
    """The budget right after a log record, or of an agent."""
    whole = record.granted if granted is None else granted
    left = whole - record.spent - record.held
    return contract.Budget(whole / UNIT, record.spent / UNIT, record.held / UNIT, left / UNIT)


def _action(body: AgentBody, action: int) -> str | int:
    return action if body.actions is None else body.actions[action]


def _why(record: DecisionRecord) -> tuple[contract.Chosen | None, str]:
    """How the action was chosen, and the reasons in words."""
    return cast(contract.Chosen | None, chosen_of(record.reason)), in_words(record.reason)


def decision(name: str, body: AgentBody, record: DecisionRecord) -> contract.Decision:
    """The response to a decision request, the same for the first call and for every retry."""
    return contract.Decision(
        name, record.event_id, record.number, _action(body, record.action), record.action, bool(record.ask),
        cast(contract.Reason, reason_of(record.reason)), finite(record.width), record.threshold, budget(record),
        _time(record.lease), time_of(record.at), *_why(record),
    )  # fmt: skip


def event(name: str, body: AgentBody, record: DecisionRecord) -> contract.Event:
    """A decision with its current status."""
    context: str | int | None = None
    payload = None if record.payload is None else msgspec.Raw(record.payload.encode())
    if not body.linear and body.contexts is not None:
        context = body.contexts[int(record.context)]
    return contract.Event(
        name, record.event_id, record.number, _action(body, record.action), record.action, bool(record.ask),
        cast(contract.Reason, reason_of(record.reason)), finite(record.width), record.threshold, record.cost / UNIT,
        cast(contract.Status, record.status), context, payload, record.reward, bool(record.late), time_of(record.at),
        _time(record.due), _time(record.answered), *_why(record),
    )  # fmt: skip


def events(name: str, body: AgentBody, records: Sequence[DecisionRecord], more: bool) -> contract.EventList:
    """One page of a list of decisions, with the cursor for the next page if there is one."""
    return contract.EventList([event(name, body, record) for record in records], records[-1].seq if more else None)


def feedback(name: str, record: DecisionRecord) -> contract.Feedback:
    """Feedback, as it was recorded."""
    assert record.reward is not None and record.answered is not None
    late, learned = bool(record.late), bool(record.learned)
    return contract.Feedback(name, record.event_id, record.reward, late, learned, time_of(record.answered))


def booking(name: str, record: EntryRecord) -> contract.Booking:
    """A grant or a charge."""
    return contract.Booking(name, record.key, record.amount / UNIT, budget(record), time_of(record.at))


def agent(record: AgentRecord, now: int) -> contract.Agent:
    """An agent with its counters, and the budget as it has grown until now."""
    known = roster(record)
    granted, _ = granted_by_now(record, known.body, now, record.decisions)
    unanswered = record.asks - record.answers - record.open_asks - record.held_asks
    return contract.Agent(
        record.name, known.body, time_of(record.created), bool(record.paused), record.decisions, record.asks,
        record.answers, record.open_asks, record.held_asks, unanswered, budget(record, granted), known.names("actions"),
        known.names("contexts"),
    )  # fmt: skip


def clock(time: TrustedClock) -> contract.Clock:
    """The trusted time, and the clock that it comes from."""
    now = time.now()
    return contract.Clock(time_of(now), time_of(time.clock()), time.held, time.ahead / SECOND)


def places(last: int, points: int) -> list[int]:
    """The seq of up to `points` records, spread evenly over a log, with the first and the last among them."""
    if last <= points:
        return list(range(1, last + 1))
    return sorted({1 + round(k * (last - 1) / (points - 1)) for k in range(points)})


def history(record: AgentRecord, counters: Iterable[tuple[int, ...]], now: int) -> contract.History:
    """The counters of an agent over time: at its creation, at the given records, and now."""
    body = stored_body(record)
    start = contract.Point(time_of(record.created), 0, 0, body.budget.initial, 0.0, 0.0)
    read = [
        contract.Point(time_of(at), asks, answers, granted / UNIT, spent / UNIT, held / UNIT)
        for _, at, granted, spent, held, asks, answers in counters
    ]
    present = agent(record, now)
    end = contract.Point(
        time_of(max(now, record.last_at)), record.asks, record.answers, present.budget.granted, present.budget.spent,
        present.budget.held,
    )  # fmt: skip
    return contract.History([start, *read, end])


def log_line(record: DecisionRecord | EntryRecord) -> dict[str, Any]:
    """A complete record of the log, in the units of the store: millionths and microseconds."""
    kind = "decision" if isinstance(record, DecisionRecord) else record.kind
    line: dict[str, Any] = {"seq": record.seq, "kind": kind, "time": time_of(record.at)}
    for name in type(record).__dataclass_fields__:
        if name not in ("agent", "seq", "kind", "about"):
            line[name] = getattr(record, name)
    line["chain"] = record.chain.hex()
    if isinstance(record, DecisionRecord):
        line["context"] = json.loads(record.context)
        line["width"] = finite(record.width)
        line["reason"], line["chosen"] = reason_of(record.reason), chosen_of(record.reason)
        line["payload"] = None if record.payload is None else json.loads(record.payload)
    if kind == "change":
        line["key"], line["change"] = "", json.loads(line["key"])
    return line


def log_head(record: AgentRecord) -> dict[str, Any]:
    """The first line of an exported log: the agent itself, as it was created."""
    body = json.loads(record.body)
    return {
        "seq": 0, "kind": "agent", "time": time_of(record.created), "at": record.created, "name": record.name,
        "body": body["first"] if record.body.startswith(CHANGED) else body,
    }  # fmt: skip
