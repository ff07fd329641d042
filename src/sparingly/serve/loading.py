"""Loads agents and brings them up to date with their logs: a little of it inside a batch, much of it beside.

To live through a long log takes seconds. In a batch everybody would wait for that, and on PostgreSQL with the agent
locked. So an agent that is far behind its log is loaded by a thread that reads what is committed, without any lock;
its commands wait meanwhile, and those of other agents do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from sparingly.errors import UnreadableFile
from sparingly.serve.changes import stored_body
from sparingly.serve.contract import AgentBody
from sparingly.serve.http_errors import Damaged
from sparingly.serve.live_agent import LiveAgent
from sparingly.serve.queries import Select, read_agents, read_answers, read_chain, read_damaged, read_log_chunk
from sparingly.serve.records import AgentRecord
from sparingly.serve.store import Store

# The cost of a record is counted in units: one for arms, more for features (see `weight`); some 20 µs each.
INLINE = 500  # units that are applied inside a batch
INLINE_BYTES = 200_000  # the largest snapshot that is read inside a batch
KEEP = 10_000  # units after which a snapshot is kept, so that this is not done again
SLICE = 50  # units between two breaks, which last as long as these took: half of the time is left to others
log = structlog.get_logger("sparingly")


class Cold(Exception):
    """An agent is too far behind its log to catch up inside a batch."""


@dataclass
class Loaded:
    """An agent that is up to date with what was committed, and a snapshot of it if it should be kept."""

    live: LiveAgent
    snapshot: str | None


def weight(body: AgentBody) -> int:
    """How many units it takes to apply a record: a matrix is updated where there are features."""
    return 1 + body.learner.dim**2 // 256 if body.linear else 1


def open_agent(read: Select, record: AgentRecord) -> LiveAgent:
    """A live agent as of its last snapshot, or an empty one if there is none that can be read."""
    if read_damaged(read, record.name):
        raise Damaged(record.name)
    found = read("SELECT seq, body FROM snapshots WHERE agent = ?", (record.id,))
    try:
        live = LiveAgent.load(record, (found[0][0], found[0][1]) if found else None)
    except UnreadableFile as error:
        log.error("the snapshot cannot be read; replaying the whole log", agent=record.name, reason=str(error))
        live = LiveAgent.load(record)
    live.next_due = read("SELECT MIN(due) FROM decisions WHERE agent = ? AND due IS NOT NULL", (record.id,))[0][0]
    sql = "SELECT context FROM decisions WHERE agent = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
    latest = read(sql, (record.id, live.applied))
    live.restore_latest_context(latest[0][0] if latest else None)
    if live.applied:
        live.chain = read_chain(read, record.id, live.applied)
    return live


def check_cost(read: Select, record: AgentRecord) -> None:
    """Raise Cold if an agent cannot be loaded in a moment."""
    if record.seq == 0:
        return
    found = read("SELECT seq, LENGTH(body) FROM snapshots WHERE agent = ?", (record.id,))
    seq, size = found[0] if found else (0, 0)
    if size > INLINE_BYTES or (record.seq - seq) * weight(stored_body(record)) > INLINE:
        raise Cold


def load(store: Store, name: str, live: LiveAgent | None, stopping: Callable[[], bool]) -> Loaded | None:
    """Load an agent, or bring one that was live up to date; None if it is gone, or the service is stopping."""
    with store.reader() as read:
        found = read_agents(read, name)
        if not found:
            return None
        record = found[0]
        if live is None or live.record.id != record.id or live.applied > record.seq:
            live = open_agent(read, record)
    units, start = weight(live.body), live.applied
    some = max(SLICE // units, 1)
    while live.applied < record.seq:
        with store.reader() as read:  # a new one for each chunk: a long transaction would be in the way of others
            records, _ = read_log_chunk(read, record.id, live.applied, record.seq)
            read_answers(read, record.id, records)
        for place in range(0, len(records), some):
            if stopping():
                return None
            began = time.perf_counter()
            live.apply(records[place : place + some])
            time.sleep(time.perf_counter() - began)
        if not records:
            return None  # deleted meanwhile
    return Loaded(live, live.snapshot() if (live.applied - start) * units > KEEP else None)
