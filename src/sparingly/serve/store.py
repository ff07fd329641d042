"""Where the log lives: the schema, and all that is read and written, once for SQLite and for PostgreSQL.

A store works in transactions: `begin` locks the agents of a batch, `write` records what their desks have done, `commit`
makes it durable. The budget is kept by one conditional update inside that transaction, and by constraints of the schema
as the last line. Whatever a database does that is not expected raises `StorageDoubt`: then nothing is asked.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any, Protocol

from sparingly.errors import SparinglyError
from sparingly.serve.desk import Changes
from sparingly.serve.rows import (
    AGENT_COLUMNS,
    DECISION_COLUMNS,
    ENTRY_COLUMNS,
    MUTABLE,
    AgentRow,
    DecisionRow,
    EntryRow,
)  # fmt: skip

VERSION = 1
PAGE = 1_000  # records that are read from the log at a time
PAGE_BYTES = 8_000_000  # and the payload that goes with them, at the most, unless one record has more
SWEEP = 256  # asks that expire in one batch at the most
SLICE = 5_000  # records of a deleted agent that are removed at a time
BURIED = "deleted "  # begins the names of deleted agents; no name that anyone can give has a space

# {id}: a key that counts up; {ordered}: rows are kept in the order of the primary key, where a database can.
# The statuses are compared one by one: of a longer list behind IN, SQLite makes a table of its own for every row.
SCHEMA = (
    """CREATE TABLE meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)""",
    """CREATE TABLE agents (
        id {id}, name TEXT NOT NULL UNIQUE, body TEXT NOT NULL, created BIGINT NOT NULL,
        granted BIGINT NOT NULL, spent BIGINT NOT NULL, held BIGINT NOT NULL, accrued BIGINT NOT NULL,
        decisions BIGINT NOT NULL, asks BIGINT NOT NULL, answers BIGINT NOT NULL,
        open_asks BIGINT NOT NULL, held_asks BIGINT NOT NULL, seq BIGINT NOT NULL, paused BIGINT NOT NULL,
        last_at BIGINT NOT NULL,
        CONSTRAINT never_overspent CHECK (spent + held <= granted),
        CONSTRAINT nothing_negative CHECK (
            spent >= 0 AND held >= 0 AND accrued >= 0 AND accrued <= granted AND open_asks >= 0 AND held_asks >= 0
            AND answers >= 0 AND answers <= asks AND asks <= decisions AND paused IN (0, 1))
    )""",
    """CREATE TABLE decisions (
        agent BIGINT NOT NULL REFERENCES agents (id) ON DELETE CASCADE, seq BIGINT NOT NULL, at BIGINT NOT NULL,
        granted BIGINT NOT NULL, spent BIGINT NOT NULL, held BIGINT NOT NULL, asks BIGINT NOT NULL,
        answers BIGINT NOT NULL, event_id TEXT NOT NULL, number BIGINT NOT NULL, fingerprint TEXT NOT NULL,
        context TEXT NOT NULL, payload TEXT, action BIGINT NOT NULL, ask BIGINT NOT NULL, reason TEXT NOT NULL,
        width DOUBLE PRECISION NOT NULL, threshold DOUBLE PRECISION, cost BIGINT NOT NULL, lease BIGINT,
        status TEXT NOT NULL, due BIGINT, reward DOUBLE PRECISION, learned BIGINT NOT NULL, late BIGINT NOT NULL,
        answered BIGINT,
        PRIMARY KEY (agent, seq),
        CONSTRAINT one_decision_an_event UNIQUE (agent, event_id),
        CONSTRAINT within_budget CHECK (spent + held <= granted),
        CONSTRAINT known_status CHECK (
            (status = 'not_asked' OR status = 'open' OR status = 'answered' OR status = 'unanswered'
                OR status = 'held' OR status = 'released' OR status = 'expired')
            AND (ask = 1) = (status <> 'not_asked') AND (reward IS NULL) = (status <> 'answered'))
    ){ordered}""",
    """CREATE INDEX asks_by_status ON decisions (agent, status, seq) WHERE ask = 1""",
    """CREATE INDEX asks_due ON decisions (agent, due) WHERE due IS NOT NULL""",
    """CREATE TABLE entries (
        agent BIGINT NOT NULL REFERENCES agents (id) ON DELETE CASCADE, seq BIGINT NOT NULL, at BIGINT NOT NULL,
        granted BIGINT NOT NULL, spent BIGINT NOT NULL, held BIGINT NOT NULL, asks BIGINT NOT NULL,
        answers BIGINT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, number BIGINT NOT NULL, amount BIGINT NOT NULL,
        reward DOUBLE PRECISION, learned BIGINT NOT NULL,
        PRIMARY KEY (agent, seq), CONSTRAINT entry_within_budget CHECK (spent + held <= granted)
    ){ordered}""",
    """CREATE UNIQUE INDEX one_booking_an_id ON entries (agent, kind, key) WHERE kind IN ('grant', 'charge')""",
    """CREATE UNIQUE INDEX one_answer_a_decision ON entries (agent, number) WHERE kind = 'feedback'""",
    """CREATE TABLE snapshots (
        agent BIGINT PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE, seq BIGINT NOT NULL, body TEXT NOT NULL
    )""",
    f"""INSERT INTO meta (name, value) VALUES ('version', {VERSION}), ('checked', 0)""",
)


def _insert(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


INSERT_AGENT = _insert("agents", AGENT_COLUMNS[1:])
INSERT_DECISION = _insert("decisions", DECISION_COLUMNS)
# Most decisions have none of these; Python's sqlite3 takes longer over each NULL than over a number.
OPTIONAL = ("payload", "lease", "due", "reward", "answered")
PLAIN_COLUMNS = tuple(column for column in DECISION_COLUMNS if column not in OPTIONAL)
INSERT_PLAIN = _insert("decisions", PLAIN_COLUMNS)
INSERT_ENTRY = _insert("entries", ENTRY_COLUMNS)
CHANGE_DECISION = f"UPDATE decisions SET {', '.join(f'{c} = ?' for c in MUTABLE)} WHERE agent = ? AND seq = ?"
AGENTS = f"SELECT {', '.join(AGENT_COLUMNS)} FROM agents"
DECISIONS = f"SELECT {', '.join(DECISION_COLUMNS)} FROM decisions WHERE agent = ?"
ENTRIES = f"SELECT {', '.join(ENTRY_COLUMNS)} FROM entries WHERE agent = ?"
SIZES = "SELECT seq, COALESCE(LENGTH(payload), 0) + LENGTH(context) FROM decisions WHERE agent = ?"
WITHOUT_PAYLOAD = DECISIONS.replace(" payload,", " NULL AS payload,")
LIVING = f"SUBSTR(name, 1, {len(BURIED)}) <> '{BURIED}'"
FIND_AGENT = f"{AGENTS} WHERE name = ?"
FIND_DECISION = f"{DECISIONS} AND event_id = ?"
# The ledger: what is spent is added only if the budget pays for it, and if nobody else has written meanwhile.
SETTLE = """UPDATE agents SET granted = granted + ?, spent = spent + ?, held = held + ?, accrued = ?, decisions = ?,
    asks = ?, answers = ?, open_asks = ?, held_asks = ?, seq = ?, paused = ?, last_at = ?
    WHERE id = ? AND seq = ? AND spent + ? + held + ? <= granted + ?"""

_agent_values = attrgetter(*AGENT_COLUMNS[1:])
_decision_values, _plain_values = attrgetter(*DECISION_COLUMNS), attrgetter(*PLAIN_COLUMNS)
_optional_values, _nothing = attrgetter(*OPTIONAL), (None,) * len(OPTIONAL)
_changed_values = attrgetter(*MUTABLE, "agent", "seq")
_entry_values = attrgetter(*ENTRY_COLUMNS)


class StorageDoubt(SparinglyError):
    """The storage did not do what was expected of it: full, gone, too slow, changed by someone else."""


class Reading(Protocol):
    """Runs one query and gives its rows; the SQL has ? for its arguments."""

    def __call__(self, sql: str, arguments: Sequence[Any] = ()) -> list[Any]: ...


class Store(ABC):
    """A database with the log. A kind of database says how to connect, how to lock, and what its errors are."""

    inline = False  # whether statements are so quick that they may run between two requests
    name = ""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self.clock = clock or (lambda: time.time_ns() // 1_000)  # in microseconds

    # What a kind of database provides.

    @abstractmethod
    def open(self) -> None:
        """Connect, and make or check the schema."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    @abstractmethod
    def begin(self, names: Sequence[str]) -> tuple[dict[str, AgentRow], int]:
        """Start a transaction: the agents of these names, locked until it ends, and the time."""

    @abstractmethod
    def commit(self) -> None:
        """Make all of it durable, or raise."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo all of it; never raises."""

    @abstractmethod
    def run(self, sql: str, arguments: Sequence[Any] = ()) -> Any:
        """One statement of the transaction; a cursor."""

    @abstractmethod
    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """One statement of the transaction for each of the rows."""

    @abstractmethod
    def reader(self) -> AbstractContextManager[Reading]:
        """A way to read what is durable, apart from the transaction, in any thread."""

    @abstractmethod
    def find_decisions(self, agent: int, event_ids: Sequence[str]) -> list[DecisionRow]:
        """The decisions with these ids, as far as there are any."""

    # The transaction.

    def find_agents(self, names: Sequence[str]) -> dict[str, AgentRow]:
        """The agents of these names, as far as there are any, locked until the transaction ends."""
        return {row[1]: AgentRow(*row) for name in names for row in self.run(FIND_AGENT, (name,))}

    def insert_agent(self, row: AgentRow) -> bool:
        """A new agent; False if there is one of this name."""
        return bool(self.run(f"{INSERT_AGENT} ON CONFLICT (name) DO NOTHING", _agent_values(row)).rowcount == 1)

    def bury_agent(self, id: int) -> None:
        """Give an agent a name that nobody can ask for; its records are removed later."""
        self.run("UPDATE agents SET name = ? WHERE id = ?", (f"{BURIED}{id}", id))

    def remove_slice(self, id: int) -> bool:
        """Remove some records of a buried agent; True if it is gone with all of them."""
        for table in ("entries", "decisions"):
            some = f"SELECT seq FROM {table} WHERE agent = ? ORDER BY seq LIMIT {SLICE}"
            last = self.run(f"SELECT MAX(seq) FROM ({some}) AS some", (id,)).fetchone()[0]
            if last is not None:
                self.run(f"DELETE FROM {table} WHERE agent = ? AND seq <= ?", (id, last))
                return False
        self.run("DELETE FROM snapshots WHERE agent = ?", (id,))
        self.run("DELETE FROM agents WHERE id = ?", (id,))
        return True

    def find_bookings(self, agent: int, keys: Iterable[tuple[str, str]]) -> list[EntryRow]:
        """The grants and charges with these ids, as far as there are any."""
        rows: list[EntryRow] = []
        for kind, key in keys:
            rows += [EntryRow(*row) for row in self.run(f"{ENTRIES} AND kind = ? AND key = ?", (agent, kind, key))]
        return rows

    def find_due(self, agent: int, now: int) -> list[DecisionRow]:
        """Asks whose time has come, in the order of their times; those beyond SWEEP have to wait for the next batch."""
        rows = self.run(f"{DECISIONS} AND due IS NOT NULL AND due <= ? ORDER BY due, seq LIMIT {SWEEP}", (agent, now))
        return [DecisionRow(*row) for row in rows]

    def next_due(self, agent: int) -> int | None:
        """When the next ask expires or closes."""
        found = self.run("SELECT MIN(due) FROM decisions WHERE agent = ? AND due IS NOT NULL", (agent,)).fetchone()
        return None if found is None else found[0]

    def latest_context(self, agent: int, upto: int) -> str | None:
        """The context of the last decision up to this record."""
        sql = "SELECT context FROM decisions WHERE agent = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
        found = self.run(sql, (agent, upto)).fetchone()
        return None if found is None else found[0]

    def records(self, agent: int, after: int, upto: int) -> Iterator[DecisionRow | EntryRow]:
        """The log behind record `after`, in its order, inside the transaction."""
        yield from read_log(lambda sql, arguments=(): list(self.run(sql, arguments)), agent, after, upto)

    def snapshot(self, agent: int) -> tuple[int, str] | None:
        """The last snapshot: the record it was taken after, and its text."""
        found = self.run("SELECT seq, body FROM snapshots WHERE agent = ?", (agent,)).fetchone()
        return None if found is None else (found[0], found[1])

    def keep_snapshot(self, agent: int, seq: int, body: str) -> None:
        """Put a snapshot in the place of an older one."""
        self.run(
            "INSERT INTO snapshots (agent, seq, body) VALUES (?, ?, ?) ON CONFLICT (agent) DO UPDATE SET "
            "seq = excluded.seq, body = excluded.body WHERE excluded.seq > snapshots.seq",
            (agent, seq, body),
        )

    def write(self, done: Changes) -> None:
        """Record what a desk has done; the ledger has the last word."""
        old, new = done.before, done.after
        granted, spent, held = new.granted - old.granted, new.spent - old.spent, new.held - old.held
        settled = self.run(SETTLE, (
            granted, spent, held, new.accrued, new.decisions, new.asks, new.answers, new.open_asks, new.held_asks,
            new.seq, new.paused, new.last_at, new.id, old.seq, spent, held, granted,
        )).rowcount  # fmt: skip
        if settled != 1:
            raise StorageDoubt(f"the ledger of {new.name} is not what it was a moment ago")
        plain = [_plain_values(row) for row in done.made if _optional_values(row) == _nothing]
        if plain:
            self.run_many(INSERT_PLAIN, plain)
        if len(plain) < len(done.made):
            full = (_decision_values(row) for row in done.made if _optional_values(row) != _nothing)
            self.run_many(INSERT_DECISION, full)
        if done.changed:
            self.run_many(CHANGE_DECISION, map(_changed_values, done.changed))
        if done.entries:
            self.run_many(INSERT_ENTRY, map(_entry_values, done.entries))

    def touch(self, now: int) -> None:
        """Write something, to see whether that is possible."""
        self.run("UPDATE meta SET value = ? WHERE name = 'checked'", (now,))

    # The schema.

    def prepare_schema(self, exists: bool, id: str, ordered: str) -> None:
        """Make the tables, or check that they are of this version."""
        if not exists:
            for statement in SCHEMA:
                self.run(statement.format(id=id, ordered=ordered))
            return
        found = self.run("SELECT value FROM meta WHERE name = 'version'").fetchone()
        version = None if found is None else found[0]
        if version != VERSION:
            newer = isinstance(version, int) and version > VERSION
            what = "upgrade sparingly" if newer else "it was not made by a release of sparingly"
            raise StorageDoubt(
                f"{self.name} has schema version {version}, this sparingly knows version {VERSION}: {what}"
            )


def read_log(read: Reading, agent: int, after: int, upto: int) -> Iterator[DecisionRow | EntryRow]:
    """Decisions and entries of an agent behind record `after`, up to `upto`, in their order, a page at a time."""
    while after < upto:
        records, after = log_page(read, agent, after, upto)
        yield from records


def log_page(read: Reading, agent: int, after: int, upto: int) -> tuple[list[DecisionRow | EntryRow], int]:
    """The next records behind `after`, not too many and not too large, and the number of the last one."""
    last = min(after + PAGE, upto)
    sizes = read(f"{SIZES} AND seq > ? AND seq <= ? ORDER BY seq", (agent, after, last))
    fit = fitting(sizes)
    if fit < len(sizes):
        last = sizes[fit][0] - 1  # up to the record before the one that is too much
    span = (agent, after, last)
    records: list[DecisionRow | EntryRow] = []
    records += [DecisionRow(*row) for row in read(f"{DECISIONS} AND seq > ? AND seq <= ?", span)]
    records += [EntryRow(*row) for row in read(f"{ENTRIES} AND seq > ? AND seq <= ?", span)]
    return sorted(records, key=lambda record: record.seq), last


def fitting(sizes: Sequence[tuple[int, int]]) -> int:
    """How many of these records, (seq, size) each, go on one page: at least one."""
    total = 0
    for count, (_, size) in enumerate(sizes):
        total += size
        if total > PAGE_BYTES and count > 0:
            return count
    return len(sizes)


def read_agents(read: Reading, name: str | None = None) -> list[AgentRow]:
    """All agents by name, or the one of this name."""
    if name is not None:
        return [AgentRow(*row) for row in read(FIND_AGENT, (name,))]
    return [AgentRow(*row) for row in read(f"{AGENTS} WHERE {LIVING} ORDER BY name")]


def read_buried(read: Reading) -> list[int]:
    """Agents that were deleted and whose records are still there."""
    return [row[0] for row in read(f"SELECT id FROM agents WHERE NOT {LIVING}")]


def read_decisions(
    read: Reading, agent: int, before: int | None, limit: int, payload: bool = True
) -> tuple[list[DecisionRow], bool]:
    """The latest decisions before record `before`, newest first, and whether there are more."""
    where, arguments = "AND seq < ? ORDER BY seq DESC", (agent, 2**62 if before is None else before)
    return _page(read, where, arguments, limit, DECISIONS if payload else WITHOUT_PAYLOAD)


def read_asks(read: Reading, agent: int, status: str, after: int, limit: int) -> tuple[list[DecisionRow], bool]:
    """The asks of a status behind record `after`, oldest first, and whether there are more."""
    return _page(read, "AND ask = 1 AND status = ? AND seq > ? ORDER BY seq", (agent, status, after), limit, DECISIONS)


def _page(
    read: Reading, where: str, arguments: tuple[Any, ...], limit: int, select: str
) -> tuple[list[DecisionRow], bool]:
    sizes = read(f"{SIZES} {where} LIMIT ?", (*arguments, limit + 1))
    fit = fitting(sizes[:limit]) if select is DECISIONS else min(len(sizes), limit)
    rows = read(f"{select} {where} LIMIT ?", (*arguments, fit)) if fit else []
    return [DecisionRow(*row) for row in rows], len(sizes) > fit


def read_decision(read: Reading, agent: int, event_id: str) -> DecisionRow | None:
    """The decision with this id."""
    rows = read(FIND_DECISION, (agent, event_id))
    return DecisionRow(*rows[0]) if rows else None


def read_due(read: Reading) -> dict[str, int]:
    """The agents with asks that expire or close some day, and when the first of each does."""
    sql = "SELECT name, MIN(due) FROM decisions JOIN agents ON id = agent WHERE due IS NOT NULL GROUP BY name"
    return dict(read(sql))


def read_counters(read: Reading, agent: int, places: Sequence[int]) -> list[tuple[int, ...]]:
    """(seq, at, granted, spent, held, asks, answers) of the records at these places in the log."""
    marks = ", ".join("?" * len(places))
    columns = "seq, at, granted, spent, held, asks, answers"
    rows: list[tuple[int, ...]] = []
    for table in ("decisions", "entries"):
        sql = f"SELECT {columns} FROM {table} WHERE agent = ? AND seq IN ({marks})"
        rows += [tuple(row) for row in read(sql, (agent, *places))]
    return sorted(rows)
