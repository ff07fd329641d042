"""The records in the store: agents with their counters, decisions, and the other entries of the log.

The log of an agent consists of its decisions and its entries, ordered by `seq`; everything else can be computed from
it. Amounts are integers in millionths (see ledger.py); times are integers in microseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple


@dataclass(slots=True)
class AgentRecord:
    """An agent: its body (see changes.py), and its counters. The store guarantees spent + held ≤ granted."""

    id: int
    name: str
    body: str  # contract.AgentBody as JSON; once it was changed, changes.Stored
    created: int
    granted: int
    spent: int
    held: int
    accrued: int  # the part of `granted` that came from growth
    decisions: int
    asks: int  # without those that were released or have expired
    answers: int
    open_asks: int
    held_asks: int
    seq: int  # of the last record in the log
    paused: int
    last_at: int  # time of the last record; times never go backwards
    chain: bytes = b""  # the checksum of the last record, and so of the whole log (see chain.py)
    erased: int = 0  # seq of the record up to which payloads are past their time and erased


@dataclass(slots=True)
class LogRecord:
    """What decisions and entries have in common: the position in the log, and the counters right after it."""

    agent: int
    seq: int
    at: int
    granted: int
    spent: int
    held: int
    asks: int
    answers: int


@dataclass(slots=True)
class DecisionRecord(LogRecord):
    """A decision, and its current status."""

    event_id: str
    number: int
    fingerprint: str  # of the request, to tell a retry from a different request
    context: str  # the index of the context, or the features, as JSON
    payload: str | None
    action: int
    ask: int
    reason: str
    width: float
    threshold: float | None
    cost: int
    lease: int | None  # when a deferred ask expires
    status: str
    due: int | None  # when a held ask expires or an open ask closes; None for all others
    reward: float | None = None
    learned: int = 0
    late: int = 0
    answered: int | None = None
    gain: float | None = None  # of a deferred ask: what a rule that keeps a pace must know to take it back
    who: str = ""  # the name of the token that wanted it; empty without one
    chain: bytes = b""


class About(NamedTuple):
    """What it takes to learn from an answer to an ask, or to take the ask back."""

    place: Any  # the index of the context, or the features of the action
    action: int
    gain: float


@dataclass(slots=True)
class EntryRecord(LogRecord):
    """Any other record: feedback, grant, charge, activate, release, expire, close, pause, resume, change, erase."""

    kind: str
    key: str  # the event_id, grant_id or charge_id; of a change its steps as JSON; empty for pause and resume
    number: int  # of the decision, or 0
    amount: int  # of feedback that names the right action: its number, from 1
    reward: float | None
    learned: int
    who: str = ""
    chain: bytes = b""
    about: About | None = None  # of the decision; not a column, and there only where it is needed


AGENT_COLUMNS = tuple(f.name for f in fields(AgentRecord))
DECISION_COLUMNS = tuple(f.name for f in fields(DecisionRecord))
ENTRY_COLUMNS = tuple(f.name for f in fields(EntryRecord) if f.name != "about")
MUTABLE = ("status", "due", "reward", "learned", "late", "answered")  # the columns of a decision that may change
