"""Checks the logs in a store: offline (`sparingly verify`), and beside the service at its start and once a day.

Each log is lived through by its counters alone: no gap, no step back in time, every checksum made from the one before
it, every amount accounted for, payloads as their fingerprints say unless they were erased, and what has become of each
decision as its entries say. No learner is needed for that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from sparingly.errors import SparinglyError
from sparingly.saving import loads
from sparingly.serve import chain
from sparingly.serve.changes import stored_body
from sparingly.serve.contract import ByGrants, DecisionBody
from sparingly.serve.http_errors import Unreadable
from sparingly.serve.live_agent import fingerprint
from sparingly.serve.queries import AGENTS, COUNTERS, NOT_DELETED, Select, read_agents, read_log_chunk
from sparingly.serve.records import AgentRecord, DecisionRecord, EntryRecord
from sparingly.serve.store import StorageError, Store

SLICE = 200  # records between two breaks
MOST = 20  # findings of an agent that are told
# What has become of a decision, in the words of its last entry; a late answer comes after the ask was closed.
BECAME = {"answered": "feedback", "released": "release", "expired": "expire"}
DIFFERENT = """SELECT d.seq, d.event_id FROM decisions d LEFT JOIN entries e
    ON e.agent = d.agent AND e.number = d.number AND e.kind = 'feedback'
    WHERE d.agent = ? AND d.seq > ? AND d.seq <= ? AND d.ask = 1 AND (
        (d.status = 'answered'
            AND (e.seq IS NULL OR d.reward <> e.reward OR d.learned <> e.learned OR d.answered <> e.at))
        OR (d.status <> 'answered' AND e.seq IS NOT NULL)) ORDER BY d.seq LIMIT 5"""


@dataclass
class Ledger:
    """The counters of a log, kept from its records alone."""

    agent: AgentRecord
    seq: int = 0
    at: int = 0
    granted: int = 0
    spent: int = 0
    held: int = 0
    asks: int = 0
    answers: int = 0
    decisions: int = 0
    chain: bytes = b""
    kinds: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)  # decisions without their payload, until an entry explains it
    found: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chain = chain.start(self.agent.name, self.agent.created)
        self.by_grants = isinstance(stored_body(self.agent).budget.growth, ByGrants)

    def say(self, seq: int, what: str) -> None:
        if len(self.found) < MOST:
            self.found.append(f"record {seq}: {what}")

    def enter(self, record: DecisionRecord | EntryRecord) -> None:
        """Live through one record."""
        if record.seq != self.seq + 1:
            self.say(record.seq, f"record {self.seq + 1} is missing")
        if record.at < self.at:
            self.say(record.seq, "it is earlier than the one before it")
        if chain.link(self.chain, record) != record.chain:
            self.say(record.seq, "its checksum does not fit its content and the record before it")
        if isinstance(record, DecisionRecord):
            self._decision(record)
        else:
            self._entry(record)
        grown = record.granted - self.granted
        booked = record.amount if isinstance(record, EntryRecord) and record.kind in ("grant", "change") else 0
        if self.seq and (grown < booked or (self.by_grants and grown != booked)):
            self.say(record.seq, f"the budget went from {self.granted} to {record.granted} without a reason")
        self.seq, self.at, self.chain, self.granted = record.seq, record.at, record.chain, record.granted
        kept, told = ([getattr(one, name) for name in COUNTERS] for one in (self, record))
        if kept != told:
            self.say(record.seq, f"{', '.join(COUNTERS)} are {told}, and should be {kept}")
            for name in COUNTERS:
                setattr(self, name, getattr(record, name))
        if record.spent + record.held > record.granted:
            self.say(record.seq, "more was spent than granted")

    def _decision(self, record: DecisionRecord) -> None:
        self.decisions += 1
        if record.number != self.decisions:
            self.say(record.seq, f"decision {self.decisions} has the number {record.number}")
        if record.ask:
            self.asks += 1
            if record.lease is None:
                self.spent += record.cost
            else:
                self.held += record.cost
        if record.payload is None and not _fits(record, DecisionBody):
            self.missing[record.event_id] = record.number
        elif record.payload is not None and not _fits(record, lambda **other: _with_payload(record, **other)):
            self.say(record.seq, f"the payload of {record.event_id} is not the one of its fingerprint")

    def _entry(self, record: EntryRecord) -> None:
        self.kinds[record.kind] = self.kinds.get(record.kind, 0) + 1
        match record.kind:
            case "activate":
                self.held -= record.amount
                self.spent += record.amount
            case "release" | "expire":
                self.held -= record.amount
                self.asks -= 1
            case "feedback":
                self.answers += 1
            case "charge":
                self.spent += record.amount
            case "erase":
                if record.key:
                    self.missing.pop(record.key, None)
                else:  # they are in the order of their numbers
                    for event_id in list(takewhile(lambda e: self.missing[e] <= record.number, self.missing)):
                        del self.missing[event_id]

    def end(self) -> None:
        """What can be said once the log is at its end."""
        for event_id in list(self.missing)[:3]:
            self.say(self.seq, f"the payload of {event_id} is gone, and nobody has erased it")
        counters = (*COUNTERS, "decisions", "seq", "chain")
        kept, told = ([getattr(one, name) for name in counters] for one in (self, self.agent))
        if self.seq == 0:  # what an agent has before its first record follows from its body
            kept[0] = told[0]
        if kept != told:
            wrong = ", ".join(name for name, a, b in zip(counters, kept, told, strict=True) if a != b)
            self.say(self.seq, f"the agent's own counters do not agree with its log: {wrong}")


def _fits(record: DecisionRecord, wanted: Callable[..., DecisionBody]) -> bool:
    """Whether a decision was wanted like this; whether it was deferred is not stored where there was no ask."""
    try:
        return any(fingerprint(record.context, wanted(defer=defer)) == record.fingerprint for defer in (False, True))
    except ValueError:  # no JSON
        return False


def _with_payload(record: DecisionRecord, defer: bool) -> DecisionBody:
    return DecisionBody(payload=json.loads(record.payload or "null"), defer=defer)


def verify_agent(
    store: Store, agent: AgentRecord, stopping: Callable[[], bool] = lambda: False, gently: bool = False
) -> Iterator[str]:
    """What is wrong with the log of an agent, in parts: no transaction stays open while a part is checked."""
    try:
        ledger = Ledger(agent)
    except Unreadable:
        yield "its body cannot be read"
        return
    after = 0
    while after < agent.seq and not stopping():
        with store.reader() as read:
            records, last = read_log_chunk(read, agent.id, after, agent.seq)
            different = read(DIFFERENT, (agent.id, after, last))
        for seq, event_id in different:
            ledger.say(seq, f"what has become of {event_id} is not what the log says")
        after = last
        for place in range(0, len(records), SLICE):
            began = time.perf_counter()
            for record in records[place : place + SLICE]:
                try:
                    ledger.enter(record)
                except (TypeError, ValueError) as error:  # something else than what belongs into a column
                    ledger.say(record.seq, f"it cannot be read: {error}")
                    ledger.seq = record.seq
            if gently:
                time.sleep(time.perf_counter() - began)
    if stopping():
        return
    ledger.end()
    yield from ledger.found
    with store.reader() as read:
        found = list(_statuses(read, agent))
    yield from found


def _statuses(read: Select, agent: AgentRecord) -> Iterator[str]:
    """Whether the counts of open and held asks, and of what was taken back, agree with the decisions."""
    now = next(iter(read_agents(read, agent.name)), None)
    if now is None or now.id != agent.id:
        return
    counts = dict(read("SELECT status, COUNT(*) FROM decisions WHERE agent = ? AND ask = 1 GROUP BY status", (now.id,)))
    kinds = dict(read("SELECT kind, COUNT(*) FROM entries WHERE agent = ? GROUP BY kind", (now.id,)))
    pairs = [("open", now.open_asks), ("held", now.held_asks)]
    pairs += [(status, kinds.get(kind, 0)) for status, kind in BECAME.items()]
    for status, expected in pairs:
        if counts.get(status, 0) != expected:
            yield f"{counts.get(status, 0)} asks are {status}, and {expected} should be"


def verify_store(store: Store, tell: Callable[[str], None]) -> int:
    """Check the whole of an open store, and tell what is wrong; returns in how many places."""
    if problem := store.check():
        tell(problem)
    wrong = 1 if problem else 0
    try:
        with store.reader() as read:
            agents = [AgentRecord(*row) for row in read(f"{AGENTS} WHERE {NOT_DELETED} ORDER BY name")]
    except StorageError as error:
        tell(str(error))
        return wrong + 1
    for agent in agents:
        try:
            found = list(verify_agent(store, agent))
            with store.reader() as read:
                snapshot = read("SELECT body FROM snapshots WHERE agent = ?", (agent.id,))
        except StorageError as error:
            found, snapshot = [f"its log cannot be read: {error}"], []
        for line in found:
            tell(f"{agent.name}: {line}")
        wrong += bool(found)
        try:
            for row in snapshot:
                loads(row[0], name="the snapshot")
        except SparinglyError as error:
            tell(f"{agent.name}: {error}; it is made again from the log when it is needed")
    return wrong
