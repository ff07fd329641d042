"""The store of agents and their logs: the schema and all queries, shared by SQLite and PostgreSQL.

A store works in transactions: `begin` locks the agents of a batch, `write` stores the changes of each of them, `commit`
makes them durable. The budget is protected by a conditional update inside that transaction, and by constraints of the
schema as a last defence. Anything unexpected raises `StorageError`; then nothing is asked.

One thread at a time may use the transaction. `reader` may be used by any number of threads.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any

from sparingly.errors import SparinglyError
from sparingly.serve.clock import TrustedClock, steady_clock, system_clock
from sparingly.serve.live_agent import Changes, paused
from sparingly.serve.queries import (
    DECISIONS,
    DELETED,
    ENTRIES,
    FIND_AGENT,
    NOT_DELETED,
    OLD_DECISIONS,
    READ_TOKENS,
    READ_VERSION,
    Select,
    TokenRow,
    read_answers,
    read_log_chunk,
)
from sparingly.serve.records import (
    AGENT_COLUMNS,
    DECISION_COLUMNS,
    ENTRY_COLUMNS,
    MUTABLE,
    AgentRecord,
    DecisionRecord,
    EntryRecord,
)  # fmt: skip

VERSION = 2
SWEEP = 256  # the most asks of an agent that expire in one transaction; the others do before its next command
SLICE = 5_000  # the most records of a deleted agent that are removed at a time
PAUSED_AT_ONCE = 500  # agents that a start with --paused pauses in one transaction


# {id}, {bytes}: `key_type` and `bytes_type` of the store. After a change here write a migration: migrations.py.
# Statuses are compared one by one because SQLite builds a temporary table for a long IN list, for every row.
TOKENS = """CREATE TABLE tokens (
        name TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, scopes TEXT NOT NULL, agents TEXT, rate DOUBLE PRECISION,
        created BIGINT NOT NULL, expires BIGINT, old_digest TEXT, old_expires BIGINT
    )"""
AUDIT = """CREATE TABLE audit (
        id {id}, at BIGINT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, subject TEXT NOT NULL
    )"""
SCHEMA = (
    """CREATE TABLE meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)""",
    """CREATE TABLE agents (
        id {id}, name TEXT NOT NULL UNIQUE, body TEXT NOT NULL, created BIGINT NOT NULL,
        granted BIGINT NOT NULL, spent BIGINT NOT NULL, held BIGINT NOT NULL, accrued BIGINT NOT NULL,
        decisions BIGINT NOT NULL, asks BIGINT NOT NULL, answers BIGINT NOT NULL,
        open_asks BIGINT NOT NULL, held_asks BIGINT NOT NULL, seq BIGINT NOT NULL, paused BIGINT NOT NULL,
        last_at BIGINT NOT NULL, chain {bytes} NOT NULL, erased BIGINT NOT NULL,
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
        answered BIGINT, gain DOUBLE PRECISION, who TEXT NOT NULL, chain {bytes} NOT NULL,
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
        reward DOUBLE PRECISION, learned BIGINT NOT NULL, who TEXT NOT NULL, chain {bytes} NOT NULL,
        PRIMARY KEY (agent, seq), CONSTRAINT entry_within_budget CHECK (spent + held <= granted)
    ){ordered}""",
    """CREATE UNIQUE INDEX one_booking_an_id ON entries (agent, kind, key) WHERE kind IN ('grant', 'charge')""",
    """CREATE UNIQUE INDEX one_answer_a_decision ON entries (agent, number) WHERE kind = 'feedback'""",
    """CREATE TABLE snapshots (
        agent BIGINT PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE, seq BIGINT NOT NULL, body TEXT NOT NULL
    )""",
    TOKENS,
    AUDIT,
    f"""INSERT INTO meta (name, value) VALUES ('version', {VERSION}), ('checked', 0)""",
)


def _insert(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


INSERT_AGENT = _insert("agents", AGENT_COLUMNS[1:])
INSERT_DECISION = _insert("decisions", DECISION_COLUMNS)
# Most decisions have none of these, and Python's sqlite3 is slower with a NULL than with a number.
OPTIONAL = ("payload", "lease", "due", "reward", "answered", "gain")
PLAIN_COLUMNS = tuple(column for column in DECISION_COLUMNS if column not in OPTIONAL)
INSERT_PLAIN = _insert("decisions", PLAIN_COLUMNS)
INSERT_ENTRY = _insert("entries", ENTRY_COLUMNS)
CHANGE_DECISION = f"UPDATE decisions SET {', '.join(f'{c} = ?' for c in MUTABLE)} WHERE agent = ? AND seq = ?"
ERASE = "UPDATE decisions SET payload = NULL WHERE agent = ? AND seq = ?"
# The ledger: adds what was spent, provided that the budget allows it and that nobody else has written meanwhile.
SETTLE = """UPDATE agents SET granted = granted + ?, spent = spent + ?, held = held + ?, accrued = ?, decisions = ?,
    asks = ?, answers = ?, open_asks = ?, held_asks = ?, seq = ?, paused = ?, last_at = ?, chain = ?, erased = ?
    WHERE id = ? AND seq = ? AND spent + ? + held + ? <= granted + ?"""

SAVE_TIME = """INSERT INTO meta (name, value) VALUES ('clock', ?)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value"""


_agent_values = attrgetter(*AGENT_COLUMNS[1:])
_decision_values, _plain_values = attrgetter(*DECISION_COLUMNS), attrgetter(*PLAIN_COLUMNS)
_optional_values, _nothing = attrgetter(*OPTIONAL), (None,) * len(OPTIONAL)
_changed_values = attrgetter(*MUTABLE, "agent", "seq")
_entry_values = attrgetter(*ENTRY_COLUMNS)


class StorageError(SparinglyError):
    """The storage failed: it is full, gone, too slow, or was changed by someone else."""


class Store(ABC):
    """A database of agents and logs. Subclasses connect, lock, and translate errors to StorageError."""

    inline = False  # whether statements are fast enough to run on the event loop
    key_type, bytes_type = "INTEGER PRIMARY KEY AUTOINCREMENT", "BLOB"
    ordered = " WITHOUT ROWID"  # what stores rows in the order of the primary key, if the database can
    name = ""
    accept_older = False  # whether an older copy may have been put back: everything is paused then
    upgrade: Callable[[Store, int], None] | None = None  # what brings an older schema up to date, if it may

    def __init__(self, clock: Callable[[], int] | None = None, steady: Callable[[], int] | None = None) -> None:
        """Clocks are in microseconds. A `clock` that is given without a `steady` one is trusted."""
        self.clock = clock or system_clock
        self.time = TrustedClock(self.clock, steady or clock or steady_clock)

    # What a subclass provides.

    @abstractmethod
    def open(self) -> None:
        """Connect, and create or check the schema."""

    @abstractmethod
    def open_to_read(self) -> None:
        """Open for `reader` alone, also beside a service; nothing is changed."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    @abstractmethod
    def begin(self, names: Sequence[str]) -> tuple[dict[str, AgentRecord], int]:
        """Start a transaction. Returns the agents of these names, locked until it ends, and the trusted time."""

    @abstractmethod
    def commit(self) -> None:
        """Make the transaction durable, or raise."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo the transaction; never raises."""

    @abstractmethod
    def run(self, sql: str, arguments: Sequence[Any] = ()) -> Any:
        """Run a statement inside the transaction; returns a cursor."""

    @abstractmethod
    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement inside the transaction, once for each row."""

    @abstractmethod
    def reader(self) -> AbstractContextManager[Select]:
        """Read committed data outside of the transaction, from any thread."""

    @abstractmethod
    def find_decisions(self, agent: int, event_ids: Sequence[str]) -> list[DecisionRecord]:
        """The decisions with these ids, as far as they exist."""

    def check(self) -> str:
        """What the database says of its own files: empty if all is well, or if it looks after them by itself."""
        return ""

    # The transaction.

    def find_agents(self, names: Sequence[str]) -> dict[str, AgentRecord]:
        """The agents of these names, as far as they exist, locked until the transaction ends."""
        return {row[1]: AgentRecord(*row) for name in names for row in self.run(FIND_AGENT, (name,))}

    def insert_agent(self, record: AgentRecord) -> bool:
        """Insert an agent; returns False if the name is taken."""
        return bool(self.run(f"{INSERT_AGENT} ON CONFLICT (name) DO NOTHING", _agent_values(record)).rowcount == 1)

    def mark_deleted(self, id: int) -> None:
        """Give an agent a name that no request can have; its records are removed later."""
        self.run("UPDATE agents SET name = ? WHERE id = ?", (f"{DELETED}{id}", id))

    def purge_slice(self, id: int) -> bool:
        """Remove some records of a deleted agent; returns True once nothing is left of it."""
        for table in ("entries", "decisions"):
            some = f"SELECT seq FROM {table} WHERE agent = ? ORDER BY seq LIMIT {SLICE}"
            last = self.run(f"SELECT MAX(seq) FROM ({some}) AS slice", (id,)).fetchone()[0]
            if last is not None:
                self.run(f"DELETE FROM {table} WHERE agent = ? AND seq <= ?", (id, last))
                return False
        self.run("DELETE FROM snapshots WHERE agent = ?", (id,))
        self.run("DELETE FROM agents WHERE id = ?", (id,))
        return True

    def find_bookings(self, agent: int, keys: Iterable[tuple[str, str]]) -> list[EntryRecord]:
        """The grants and charges with these ids, as far as they exist."""
        found: list[EntryRecord] = []
        for kind, key in keys:
            found += [EntryRecord(*row) for row in self.run(f"{ENTRIES} AND kind = ? AND key = ?", (agent, kind, key))]
        return found

    def find_due(self, agent: int, now: int) -> list[DecisionRecord]:
        """Asks that are due, in the order of their due times; those beyond SWEEP wait for the next batch."""
        rows = self.run(f"{DECISIONS} AND due IS NOT NULL AND due <= ? ORDER BY due, seq LIMIT {SWEEP}", (agent, now))
        return [DecisionRecord(*row) for row in rows]

    def next_due(self, agent: int) -> int | None:
        """When the next ask of an agent expires or closes."""
        found = self.run("SELECT MIN(due) FROM decisions WHERE agent = ? AND due IS NOT NULL", (agent,)).fetchone()
        return None if found is None else found[0]

    def select(self, sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query, inside the transaction."""
        return list(self.run(sql, arguments))

    def records(self, agent: int, after: int, upto: int) -> Iterator[DecisionRecord | EntryRecord]:
        """The log after record `after`, up to record `upto`, inside the transaction."""
        while after < upto:
            records, after = read_log_chunk(self.select, agent, after, upto)
            read_answers(self.select, agent, records)
            yield from records

    def snapshot(self, agent: int) -> tuple[int, str] | None:
        """The last snapshot: the seq of the record that it was taken after, and its text."""
        found = self.select("SELECT seq, body FROM snapshots WHERE agent = ?", (agent,))
        return (found[0][0], found[0][1]) if found else None

    def save_snapshot(self, agent: int, seq: int, body: str) -> None:
        """Replace the snapshot of an agent, unless the stored one is newer."""
        self.run(
            "INSERT INTO snapshots (agent, seq, body) VALUES (?, ?, ?) ON CONFLICT (agent) DO UPDATE SET "
            "seq = excluded.seq, body = excluded.body WHERE excluded.seq > snapshots.seq",
            (agent, seq, body),
        )

    def find_decisions_of(self, wanted: dict[int, list[str]]) -> dict[int, list[DecisionRecord]]:
        """The decisions of some agents with these ids, as far as they exist."""
        return {agent: self.find_decisions(agent, event_ids) for agent, event_ids in wanted.items()}

    def write(self, all_changes: Sequence[Changes]) -> None:
        """Store the changes of some live agents. Raises StorageError if a ledger does not allow them."""
        for changes in all_changes:
            if self.run(SETTLE, settlement(changes)).rowcount != 1:
                raise unsettled(changes)
            self.write_records([changes])

    def write_records(self, all_changes: Sequence[Changes]) -> None:
        """Store the records of settled changes, those of all agents together."""
        new = [record for changes in all_changes for record in changes.new]
        plain = [_plain_values(record) for record in new if _optional_values(record) == _nothing]
        if plain:
            self.run_many(INSERT_PLAIN, plain)
        if len(plain) < len(new):
            full = (_decision_values(record) for record in new if _optional_values(record) != _nothing)
            self.run_many(INSERT_DECISION, full)
        for old, changed_agent in ((changes.before, changes.after) for changes in all_changes):
            if changed_agent.body != old.body:
                self.run("UPDATE agents SET body = ? WHERE id = ?", (changed_agent.body, changed_agent.id))
        if changed := [_changed_values(record) for changes in all_changes for record in changes.changed]:
            self.run_many(CHANGE_DECISION, changed)
        if erased := [(record.agent, record.seq) for changes in all_changes for record in changes.erased]:
            self.run_many(ERASE, erased)
        if entries := [_entry_values(record) for changes in all_changes for record in changes.entries]:
            self.run_many(INSERT_ENTRY, entries)

    def pause_all(self) -> None:
        """Pause every agent that is not paused yet, some in each transaction. For a start: nobody else writes here."""
        after: str | None = ""
        while after is not None:
            try:
                after = self._pause_some(after)
                self.commit()
            except BaseException:
                self.rollback()
                raise

    def _pause_some(self, after: str) -> str | None:
        """Pause the next agents after this name; the last of their names, or None if there were none."""
        self.begin([])
        sql = f"SELECT name FROM agents WHERE name > ? AND {NOT_DELETED} ORDER BY name LIMIT {PAUSED_AT_ONCE}"
        names = [row[0] for row in self.run(sql, (after,)).fetchall()]
        now = self.trusted_time()
        for record in self.find_agents(names).values():
            if not record.paused:
                self.write([paused(record, now)])
        return names[-1] if names else None

    def touch(self, now: int) -> None:
        """Write something, to check that the storage accepts writes."""
        self.run("UPDATE meta SET value = ? WHERE name = 'checked'", (now,))

    def erase_old(self, agent: AgentRecord, before: int) -> tuple[int, int, bool] | None:
        """Erase the payloads of some decisions from before this time.

        Returns the seq and the number of the last of them, and whether any had a payload; None: there are none left.
        """
        last = self.select(f"{OLD_DECISIONS} LIMIT {SLICE}", (agent.id, agent.erased, before))
        if not last:
            return None
        seq, number = last[-1]
        sql = "UPDATE decisions SET payload = NULL WHERE agent = ? AND seq > ? AND seq <= ? AND payload IS NOT NULL"
        found = self.run(sql, (agent.id, agent.erased, seq)).rowcount
        self.run("UPDATE agents SET erased = ? WHERE id = ?", (seq, agent.id))
        return seq, number, found > 0

    # Tokens and the audit.

    def find_token(self, name: str) -> TokenRow | None:
        """The token of this name."""
        rows = self.select(f"{READ_TOKENS} WHERE name = ?", (name,))
        return TokenRow(*rows[0]) if rows else None

    def insert_token(self, row: TokenRow) -> bool:
        """Insert a token; returns False if the name is taken."""
        sql = _insert("tokens", TokenRow._fields) + " ON CONFLICT (name) DO NOTHING"
        return bool(self.run(sql, row).rowcount == 1)

    def change_token(self, row: TokenRow) -> None:
        """Replace the secrets of a token."""
        sql = "UPDATE tokens SET digest = ?, old_digest = ?, old_expires = ? WHERE name = ?"
        self.run(sql, (row.digest, row.old_digest, row.old_expires, row.name))

    def delete_token(self, name: str) -> None:
        self.run("DELETE FROM tokens WHERE name = ?", (name,))

    def note(self, acts: Sequence[tuple[int, str, str, str]]) -> None:
        """Note who did what (at, who, what, subject), in the transaction in which it is done."""
        self.run_many(_insert("audit", ("at", "who", "what", "subject")), acts)

    # The clock.

    def start_clock(self) -> None:
        """Go on from the last time in the store."""
        self.time.start(self._stored_time())

    def trusted_time(self) -> int:
        """The trusted time, inside the transaction: other processes may know more of a clock that is held."""
        now = self.time.now()
        return self.time.follow(self._stored_time()) if self.time.held else now

    def _stored_time(self) -> int | None:
        found = self.run("SELECT value FROM meta WHERE name = 'clock'").fetchone()
        return None if found is None else int(found[0])

    def save_time(self) -> None:
        """Store the trusted time. While the clock is held, what others have said of it meanwhile stays."""
        condition = " WHERE meta.value < 0" if self.time.hold_saved else ""
        self.run(SAVE_TIME + condition, (self.time.to_store(),))

    def confirm_clock(self) -> None:
        """Store that a held clock is right; all processes follow with their next transactions."""
        if self.time.held:
            if not self.time.hold_saved:
                self.save_time()
            self.run(SAVE_TIME, (self.clock(),))

    # The processes.

    def show_life(self, name: str, now: int) -> None:
        """Store that a process is alive."""
        sql = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        self.run(sql, (name, now))

    def identity(self) -> int:
        """A number that no other database has, unless it is a copy."""
        self.run(
            "INSERT INTO meta (name, value) VALUES ('id', ?) ON CONFLICT (name) DO NOTHING", (secrets.randbits(62),)
        )
        return int(self.select("SELECT value FROM meta WHERE name = 'id'")[0][0])

    def forget_life(self, name: str) -> None:
        self.run("DELETE FROM meta WHERE name = ?", (name,))

    # The schema.

    def prepare_schema(self, exists: bool) -> None:
        """Create the tables, or check that their version is the expected one."""
        if not exists:
            for statement in SCHEMA:
                self.run(statement.format(id=self.key_type, ordered=self.ordered, bytes=self.bytes_type))
            return
        found = self.select(READ_VERSION)
        version = found[0][0] if found else None
        if self.upgrade is not None and isinstance(version, int) and 1 <= version <= VERSION:
            self.upgrade(self, version)
        else:
            self.check_version(self.select)

    def check_version(self, read: Select) -> None:
        """Raise StorageError, with the way out, if the schema is not of this version."""
        found = read(READ_VERSION)
        version = found[0][0] if found else None
        if version != VERSION:
            what = "it was not made by a release of sparingly"
            if isinstance(version, int) and version > VERSION:
                what = "upgrade sparingly"
            elif isinstance(version, int) and version > 0:
                what = "make a backup, and run `sparingly migrate` (with --dry-run it only tries)"
            raise StorageError(
                f"{self.name} has schema version {version}, this sparingly knows version {VERSION}: {what}"
            )


def settlement(changes: Changes) -> tuple[Any, ...]:
    """The arguments of SETTLE."""
    old, new = changes.before, changes.after
    granted, spent, held = new.granted - old.granted, new.spent - old.spent, new.held - old.held
    return (
        granted, spent, held, new.accrued, new.decisions, new.asks, new.answers, new.open_asks, new.held_asks,
        new.seq, new.paused, new.last_at, new.chain, new.erased, new.id, old.seq, spent, held, granted,
    )  # fmt: skip


def unsettled(changes: Changes) -> StorageError:
    """The error where SETTLE has found no row."""
    return StorageError(f"the ledger of {changes.after.name} is not what it was a moment ago")
