"""What the store holds, as plain records: an agent's counters, its decisions, and the other entries of its log.

The log of an agent is its decisions and its entries in the order of `seq`; everything else can be made from it. Amounts
are whole millionths (see ledger.py), times whole microseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class AgentRow:
    """An agent: how it was made, and its counters. The store guarantees spent + held ≤ granted."""

    id: int
    name: str
    body: str  # contract.AgentBody as JSON
    created: int
    granted: int
    spent: int
    held: int
    accrued: int  # what growth has granted so far, a part of granted
    decisions: int
    asks: int  # that cost something or may: spent, held, answered or not; released ones no longer
    answers: int
    open_asks: int
    held_asks: int
    seq: int  # of the last record in the log
    paused: int
    last_at: int  # when the last record was written: times never go back


@dataclass(slots=True)
class Record:
    """What decisions and entries have in common: a place in the log, and the counters right after it."""

    agent: int
    seq: int
    at: int
    granted: int
    spent: int
    held: int
    asks: int
    answers: int


@dataclass(slots=True)
class DecisionRow(Record):
    """A decision, and what has become of it."""

    event_id: str
    number: int
    fingerprint: str  # of the request, to tell a retry from another request
    context: str  # the context, or the features, as JSON
    payload: str | None
    action: int
    ask: int
    reason: str
    width: float
    threshold: float | None
    cost: int
    lease: int | None  # when a deferred ask expires
    status: str
    due: int | None  # when a held ask expires or an open one is closed; none for all others
    reward: float | None = None
    learned: int = 0
    late: int = 0
    answered: int | None = None


@dataclass(slots=True)
class EntryRow(Record):
    """Any other record: feedback, grant, charge, activate, release, expire, close, pause, resume."""

    kind: str
    key: str  # the event_id, grant_id or charge_id; empty for pause and resume
    number: int  # of the decision, or 0
    amount: int
    reward: float | None
    learned: int


AGENT_COLUMNS = tuple(f.name for f in fields(AgentRow))
DECISION_COLUMNS = tuple(f.name for f in fields(DecisionRow))
ENTRY_COLUMNS = tuple(f.name for f in fields(EntryRow))
MUTABLE = ("status", "due", "reward", "learned", "late", "answered")  # what may change of a decision
