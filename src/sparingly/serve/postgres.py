"""The shared store: PostgreSQL, for many processes on many hosts.

A batch locks the rows of its agents, so that batches of different processes for the same agent take turns; each first
applies the records that the others have written. Times come from the database, so clocks of the hosts need not agree;
each process compares them with a steady clock of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from sparingly.errors import InvalidInput
from sparingly.serve.clock import steady_clock
from sparingly.serve.live_agent import Changes
from sparingly.serve.queries import AGENTS, DECISIONS, Select
from sparingly.serve.records import AgentRecord, DecisionRecord
from sparingly.serve.store import SETTLE, StorageError, Store, settlement, unsettled

SETTINGS: dict[str, str | int] = {
    "connect_timeout": 5, "application_name": "sparingly", "keepalives_idle": 5, "keepalives_interval": 5,
    "keepalives_count": 3, "tcp_user_timeout": 15_000,
}  # fmt: skip
# A process that hangs in a transaction must not stop the others, and no process may wait forever. Commits are durable,
# whatever the default of the server is.
SESSION = (
    "SET lock_timeout = '5s'", "SET statement_timeout = '15s'", "SET idle_in_transaction_session_timeout = '15s'",
    "SET synchronous_commit = on", "SET default_transaction_isolation = 'read committed'", "SET timezone = 'UTC'",
)  # fmt: skip
SCHEMA_LOCK = 7_271_946_113  # an arbitrary number; held while the schema is created
# One look into the index for each id, whatever the database thinks of the size of the table. With `event_id = ANY(…)` a
# plan that was made while the table was empty reads the whole log of the agent, until the next ANALYZE.
FIND_DECISIONS = f"""SELECT found.* FROM unnest(?::bigint[], ?::text[]) AS wanted (agent, id)
    CROSS JOIN LATERAL ({DECISIONS.replace("agent = ?", "agent = wanted.agent")} AND event_id = wanted.id LIMIT 1)
    AS found"""
LOCK_AGENTS = f"{AGENTS} WHERE name = ANY(%s) ORDER BY id FOR UPDATE"
SETTLE_ONE = SETTLE.replace("?", "%s") + " RETURNING id"
NOW = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"


class PostgresStore(Store):
    """A PostgreSQL database, given by its URL."""

    key_type, bytes_type = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BYTEA"
    ordered = ""

    def __init__(
        self, url: str, clock: Callable[[], int] | None = None, steady: Callable[[], int] | None = None
    ) -> None:
        try:
            parts = conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            reason = _first_line(error).replace(url, "…")  # the URL may contain a password
            raise InvalidInput(f"--database must be a URL such as postgresql://user@host/name: {reason}") from None
        self.url = make_conninfo(url, **{key: value for key, value in SETTINGS.items() if key not in parts})
        host, database = parts.get("host", "localhost"), parts.get("dbname", "")
        self.name = f"PostgreSQL, database {database} on {host}"  # without the password
        super().__init__(clock or (lambda: self._ahead + steady_clock()), steady or (clock or steady_clock))
        self._own_time, self._ahead = clock is None, 0  # how far the clock of the database is ahead of our steady one
        self._connection: psycopg.Connection[Any] | None = None
        self._readers: list[psycopg.Connection[Any]] = []
        self._closed = False
        self._guard = threading.Lock()  # guards the list of idle readers

    def open(self) -> None:
        self._begin()
        try:
            self.run(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")
            found = self.run("SELECT to_regclass('meta') IS NOT NULL AND to_regclass('agents') IS NOT NULL").fetchone()
            self.prepare_schema(bool(found[0]))
            self._read_clock()
            self.start_clock()
            self.commit()
        except BaseException:
            self.rollback()
            self.close()
            raise

    def open_to_read(self) -> None:
        with self.reader() as read:
            self.check_version(read)

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            connection = psycopg.connect(self.url, autocommit=True)
            for setting in SESSION:
                connection.execute(setting)
            return connection
        except psycopg.Error as error:
            raise StorageError(f"{self.name} cannot be reached: {_first_line(error)}") from error

    def close(self) -> None:
        with self._guard:
            self._closed = True
            idle, self._readers = self._readers, []
        for connection in (*idle, *([self._connection] if self._connection is not None else [])):
            with suppress(psycopg.Error):
                connection.close()
        self._connection = None

    def _begin(self) -> None:
        self._make_sure_of_connection()
        self.run("BEGIN")

    def _make_sure_of_connection(self) -> None:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = self._connect()

    def begin(self, names: Sequence[str]) -> tuple[dict[str, AgentRecord], int]:
        self._make_sure_of_connection()
        try:
            return self._begin_with(names)
        except StorageError:
            if not (self._connection is None or self._connection.closed or self._connection.broken):
                raise
            self.rollback()  # the idle connection had been closed meanwhile: try once with a new one
            self._make_sure_of_connection()
            return self._begin_with(names)

    def _begin_with(self, names: Sequence[str]) -> tuple[dict[str, AgentRecord], int]:
        """Begin, lock the agents and read the clock, in one round trip.

        The clock comes after the locks, so that records are in the order of their times.
        """
        assert self._connection is not None
        try:
            with self._connection.pipeline():
                self._connection.execute("BEGIN")
                agents = self._connection.execute(LOCK_AGENTS, (list(names),)) if names else None
                clock = self._connection.execute(f"SELECT {NOW}") if self._own_time else None
                found = {row[1]: AgentRecord(*row) for row in agents} if agents is not None else {}
                if clock is not None:
                    row = clock.fetchone()
                    assert row is not None
                    self._ahead = int(row[0]) - steady_clock()
        except psycopg.Error as error:
            raise StorageError(f"{self.name}: {_first_line(error)}") from error
        return found, self.trusted_time()

    def _read_clock(self) -> None:
        """Ask the database for its time; between two batches it is estimated."""
        if self._own_time:
            self._ahead = int(self.run(f"SELECT {NOW}").fetchone()[0]) - steady_clock()

    def find_agents(self, names: Sequence[str]) -> dict[str, AgentRecord]:
        """Lock agents in the order of their ids, so that two batches cannot deadlock."""
        return {row[1]: AgentRecord(*row) for row in self.run(LOCK_AGENTS, (list(names),))}

    def find_decisions(self, agent: int, event_ids: Sequence[str]) -> list[DecisionRecord]:
        """Find all of them in one round trip."""
        return self.find_decisions_of({agent: list(event_ids)})[agent]

    def find_decisions_of(self, wanted: dict[int, list[str]]) -> dict[int, list[DecisionRecord]]:
        found: dict[int, list[DecisionRecord]] = {agent: [] for agent in wanted}
        pairs = [(agent, event_id) for agent, ids in wanted.items() for event_id in ids]
        if pairs:
            agents, ids = zip(*pairs, strict=True)
            for row in self.run(FIND_DECISIONS, (list(agents), list(ids))):
                found[row[0]].append(DecisionRecord(*row))
        return found

    def write(self, all_changes: Sequence[Changes]) -> None:
        """All of it is sent at once, and the answers are read afterwards: two round trips for any number of agents."""
        assert self._connection is not None
        if not all_changes:
            return
        try:
            with self._connection.pipeline():
                settled = [self._connection.execute(SETTLE_ONE, settlement(changes)) for changes in all_changes]
                self.write_records(all_changes)
                for changes, cursor in zip(all_changes, settled, strict=True):
                    if cursor.fetchone() is None:
                        raise unsettled(changes)
        except psycopg.Error as error:
            raise StorageError(f"{self.name}: {_first_line(error)}") from error

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        """Close the connection, so that the next transaction starts on a clean one."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def run(self, sql: str, arguments: Sequence[Any] = ()) -> Any:
        if self._connection is None:
            raise StorageError(f"{self.name} is not connected")
        try:
            return self._connection.execute(_translated(sql), arguments or None)
        except psycopg.Error as error:
            raise StorageError(f"{self.name}: {_first_line(error)}") from error

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        assert self._connection is not None
        try:
            with self._connection.cursor() as cursor:
                cursor.executemany(_translated(sql), rows)
        except psycopg.Error as error:
            raise StorageError(f"{self.name}: {_first_line(error)}") from error

    @contextmanager
    def reader(self) -> Iterator[Select]:
        """Read on a separate connection, in a read-only transaction that sees a single state."""
        opened = self._begin_reading()

        def read(sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
            return opened.execute(_translated(sql), arguments or None).fetchall()

        try:
            yield read
            opened.execute("COMMIT")
        except psycopg.Error as error:
            opened.close()
            raise StorageError(f"{self.name}: {_first_line(error)}") from error
        except BaseException:
            opened.close()
            raise
        with self._guard:
            if not self._closed:
                self._readers.append(opened)
                return
        opened.close()  # the store was closed meanwhile

    def _begin_reading(self) -> psycopg.Connection[Any]:
        """Start a read-only transaction, on an idle connection if one still works."""
        while True:
            with self._guard:
                idle = self._readers.pop() if self._readers else None
            connection = self._connect() if idle is None else idle
            try:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return connection
            except psycopg.Error as error:
                connection.close()
                if idle is None:
                    raise StorageError(f"{self.name}: {_first_line(error)}") from error


def _translated(sql: str) -> Any:
    """Replace ? by the %s of psycopg; our statements contain no other ? or %."""
    return sql.replace("?", "%s")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
