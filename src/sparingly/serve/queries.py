"""Reads from a store: agents, logs in chunks, pages of decisions, tokens. Every function takes a Select."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from sparingly.serve.live_agent import about
from sparingly.serve.records import (
    AGENT_COLUMNS,
    DECISION_COLUMNS,
    ENTRY_COLUMNS,
    AgentRecord,
    DecisionRecord,
    EntryRecord,
)  # fmt: skip

CHUNK = 1_000  # the most records of a log that are read at a time
CHUNK_BYTES = 8_000_000  # the most bytes of payload and context in a chunk, unless a single record has more
DELETED = "deleted "  # prefix of the names of deleted agents; valid names have no spaces


class TokenRow(NamedTuple):
    """A token as it is stored: digests in place of secrets, lists as words."""

    name: str
    digest: str
    scopes: str
    agents: str | None
    rate: float | None
    created: int
    expires: int | None
    old_digest: str | None
    old_expires: int | None


AGENTS = f"SELECT {', '.join(AGENT_COLUMNS)} FROM agents"
DECISIONS = f"SELECT {', '.join(DECISION_COLUMNS)} FROM decisions WHERE agent = ?"
ENTRIES = f"SELECT {', '.join(ENTRY_COLUMNS)} FROM entries WHERE agent = ?"
ANSWERED = """FROM entries e JOIN decisions d ON d.agent = e.agent AND d.event_id = e.key
    WHERE e.agent = ? AND e.seq >= ? AND e.seq <= ? AND e.kind IN ('feedback', 'release', 'expire') ORDER BY e.seq"""
SIZES = "SELECT seq, COALESCE(LENGTH(payload), 0) + LENGTH(context) FROM decisions WHERE agent = ?"
WITHOUT_PAYLOAD = DECISIONS.replace(" payload,", " NULL AS payload,")
NOT_DELETED = f"SUBSTR(name, 1, {len(DELETED)}) <> '{DELETED}'"
FIND_AGENT = f"{AGENTS} WHERE name = ?"
FIND_DECISION = f"{DECISIONS} AND event_id = ?"
OLD_DECISIONS = "SELECT seq, number FROM decisions WHERE agent = ? AND seq > ? AND at < ? ORDER BY seq"
READ_TOKENS = f"SELECT {', '.join(TokenRow._fields)} FROM tokens"
COUNTERS = ("granted", "spent", "held", "asks", "answers")  # what agents and the records of their logs both have
READ_VERSION = "SELECT value FROM meta WHERE name = 'version'"


class Select(Protocol):
    """A function that runs one query and returns its rows; the SQL has ? for arguments."""

    def __call__(self, sql: str, arguments: Sequence[Any] = ()) -> list[Any]: ...


def read_log(read: Select, agent: int, after: int, upto: int) -> Iterator[DecisionRecord | EntryRecord]:
    """The log of an agent after record `after`, up to record `upto`, read in chunks."""
    while after < upto:
        records, after = read_log_chunk(read, agent, after, upto)
        yield from records


def read_log_chunk(read: Select, agent: int, after: int, upto: int) -> tuple[list[DecisionRecord | EntryRecord], int]:
    """The next chunk of a log after record `after`, and the seq of its last record."""
    last = min(after + CHUNK, upto)
    sizes = read(f"{SIZES} AND seq > ? AND seq <= ? ORDER BY seq", (agent, after, last))
    fit = fitting(sizes)
    if fit < len(sizes):
        last = sizes[fit][0] - 1  # up to the record before the first that does not fit
    span = (agent, after, last)
    records: list[DecisionRecord | EntryRecord] = []
    records += [DecisionRecord(*row) for row in read(f"{DECISIONS} AND seq > ? AND seq <= ?", span)]
    records += [EntryRecord(*row) for row in read(f"{ENTRIES} AND seq > ? AND seq <= ?", span)]
    return sorted(records, key=lambda record: record.seq), last


def read_answers(read: Select, agent: int, records: Sequence[DecisionRecord | EntryRecord]) -> None:
    """Give entries what they say about earlier decisions: it takes that to apply them."""
    entries = {r.seq: r for r in records if isinstance(r, EntryRecord) and r.kind in ("feedback", "release", "expire")}
    waiting = sorted(entries)
    while waiting:
        span = (agent, waiting[0], waiting[-1])
        sizes = [
            (seq, size) for seq, size in read(f"SELECT e.seq, LENGTH(d.context) {ANSWERED}", span) if seq in entries
        ]
        fit = fitting(sizes)
        last = sizes[fit - 1][0] if sizes else waiting[-1]
        for seq, *columns in read(f"SELECT e.seq, d.context, d.action, d.gain {ANSWERED}", (agent, waiting[0], last)):
            if seq in entries:
                entries[seq].about = about(*columns)
        waiting = [seq for seq in waiting if seq > last]


def read_chain(read: Select, agent: int, seq: int) -> bytes:
    """The checksum of a record; empty, which no record has, if it is not there."""
    for table in ("decisions", "entries"):
        if found := read(f"SELECT chain FROM {table} WHERE agent = ? AND seq = ?", (agent, seq)):
            return bytes(found[0][0])
    return b"-"


def fitting(sizes: Sequence[tuple[int, int]]) -> int:
    """How many of these records, given as (seq, size), fit into CHUNK_BYTES: at least one."""
    total = 0
    for count, (_, size) in enumerate(sizes):
        total += size
        if total > CHUNK_BYTES and count > 0:
            return count
    return len(sizes)


def read_agents(read: Select, name: str) -> list[AgentRecord]:
    """The agent of this name, if there is one."""
    return [AgentRecord(*row) for row in read(FIND_AGENT, (name,))]


def read_agent_page(
    read: Select, after: str, limit: int, reaches: Callable[[str], bool] | None = None
) -> tuple[list[AgentRecord], bool]:
    """The agents after this name, as many as fit into CHUNK_BYTES, and whether more follow.

    With `reaches` only those for which it is true: not even the names of others come out.
    """
    where = f"FROM agents WHERE name > ? AND {NOT_DELETED} ORDER BY name LIMIT ?"
    if reaches is not None:
        names = [name for (name,) in read(f"SELECT name {where}", (after, 2**62)) if reaches(name)][: limit + 1]
        sizes = [read("SELECT name, LENGTH(body) FROM agents WHERE name = ?", (name,))[0] for name in names]
        fit = fitting(sizes[:limit])
        return [read_agents(read, name)[0] for name in names[:fit]], len(sizes) > fit
    sizes = read(f"SELECT name, LENGTH(body) {where}", (after, limit + 1))
    fit = fitting(sizes[:limit])
    rows = read(f"SELECT {', '.join(AGENT_COLUMNS)} {where}", (after, fit)) if fit else []
    return [AgentRecord(*row) for row in rows], len(sizes) > fit


def read_agent_counters(read: Select, after: str, limit: int) -> tuple[list[AgentRecord], int]:
    """Agents after this name without their bodies, which may be large, and how many agents there are in all."""
    columns = ", ".join("'' AS body" if column == "body" else column for column in AGENT_COLUMNS)
    sql = f"SELECT {columns} FROM agents WHERE name > ? AND {NOT_DELETED} ORDER BY name LIMIT ?"
    number = read(f"SELECT COUNT(*) FROM agents WHERE {NOT_DELETED}")[0][0]
    return [AgentRecord(*row) for row in read(sql, (after, limit))], number


def read_agent_names(read: Select) -> list[str]:
    """The names of all agents."""
    return [row[0] for row in read(f"SELECT name FROM agents WHERE {NOT_DELETED} ORDER BY name")]


def read_body(read: Select, id: int) -> str | None:
    """The body of an agent, or None if it is gone."""
    rows = read("SELECT body FROM agents WHERE id = ?", (id,))
    return rows[0][0] if rows else None


def read_damaged(read: Select, name: str | None = None) -> list[str]:
    """The names of agents, or this one, whose counters are not those right after the last record of their log."""
    differs = " OR ".join(f"COALESCE(d.{column}, e.{column}, -1) <> a.{column}" for column in COUNTERS)
    one, arguments = ("", ()) if name is None else (" AND a.name = ?", (name,))
    sql = f"""SELECT a.name FROM agents a LEFT JOIN decisions d ON d.agent = a.id AND d.seq = a.seq
        LEFT JOIN entries e ON e.agent = a.id AND e.seq = a.seq
        WHERE {NOT_DELETED.replace("name", "a.name", 1)} AND a.seq > 0 AND ({differs}
        OR COALESCE(d.chain, e.chain) <> a.chain){one} ORDER BY a.name"""
    return [row[0] for row in read(sql, arguments)]


def read_with_old(read: Select, before: int) -> list[str]:
    """The names of agents that have decisions from before this time whose payloads have not been erased."""
    first = "SELECT at FROM decisions WHERE agent = agents.id AND seq > agents.erased ORDER BY seq LIMIT 1"
    return [row[0] for row in read(f"SELECT name FROM agents WHERE {NOT_DELETED} AND ({first}) < ?", (before,))]


def read_tokens(read: Select) -> list[TokenRow]:
    """All tokens, by name."""
    return [TokenRow(*row) for row in read(f"{READ_TOKENS} ORDER BY name")]


def read_audit(read: Select, after: int, limit: int) -> tuple[list[Any], bool]:
    """What was done after this act, and whether more follows."""
    rows = read("SELECT id, at, who, what, subject FROM audit WHERE id > ? ORDER BY id LIMIT ?", (after, limit + 1))
    return rows[:limit], len(rows) > limit


def read_deleted(read: Select) -> list[int]:
    """The ids of deleted agents that still have records."""
    return [row[0] for row in read(f"SELECT id FROM agents WHERE NOT {NOT_DELETED}")]


def read_decisions(
    read: Select, agent: int, before: int | None, limit: int, payload: bool = True
) -> tuple[list[DecisionRecord], bool]:
    """The latest decisions before record `before`, newest first, and whether more follow."""
    where, arguments = "AND seq < ? ORDER BY seq DESC", (agent, 2**62 if before is None else before)
    return _page(read, where, arguments, limit, DECISIONS if payload else WITHOUT_PAYLOAD)


def read_asks(read: Select, agent: int, status: str, after: int, limit: int) -> tuple[list[DecisionRecord], bool]:
    """The asks with this status after record `after`, oldest first, and whether more follow."""
    return _page(read, "AND ask = 1 AND status = ? AND seq > ? ORDER BY seq", (agent, status, after), limit, DECISIONS)


def _page(
    read: Select, where: str, arguments: tuple[Any, ...], limit: int, select: str
) -> tuple[list[DecisionRecord], bool]:
    sizes = read(f"{SIZES} {where} LIMIT ?", (*arguments, limit + 1))
    fit = fitting(sizes[:limit]) if select is DECISIONS else min(len(sizes), limit)
    rows = read(f"{select} {where} LIMIT ?", (*arguments, fit)) if fit else []
    return [DecisionRecord(*row) for row in rows], len(sizes) > fit


def read_decision(read: Select, agent: int, event_id: str) -> DecisionRecord | None:
    """The decision with this id, or None."""
    rows = read(FIND_DECISION, (agent, event_id))
    return DecisionRecord(*rows[0]) if rows else None


def read_due(read: Select) -> dict[str, int]:
    """The names of agents with asks that will expire or close, and when the first of each does."""
    sql = "SELECT name, MIN(due) FROM decisions JOIN agents ON id = agent WHERE due IS NOT NULL GROUP BY name"
    return dict(read(sql))


def read_counters(read: Select, agent: int, places: Sequence[int]) -> list[tuple[int, ...]]:
    """(seq, at, granted, spent, held, asks, answers) of the records with these seqs."""
    marks = ", ".join("?" * len(places))
    columns = "seq, at, granted, spent, held, asks, answers"
    rows: list[tuple[int, ...]] = []
    for table in ("decisions", "entries"):
        sql = f"SELECT {columns} FROM {table} WHERE agent = ? AND seq IN ({marks})"
        rows += [tuple(row) for row in read(sql, (agent, *places))]
    return sorted(rows)
