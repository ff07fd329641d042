"""The embedded store: SQLite in a folder, for one process.

Only one connection writes: a lock on a file next to the database keeps other processes out. That connection is also the
only one that checkpoints the write-ahead log, because SQLite before 3.51.3 may corrupt the database if two connections
do so at once. Commits are synchronous: a decision is on disk before the response is sent.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sparingly.errors import InvalidInput
from sparingly.serve.records import DECISION_COLUMNS, AgentRecord, DecisionRecord
from sparingly.serve.store import Select, StorageError, Store

FILE, LOCK = "sparingly.sqlite", "sparingly.lock"
# The ids are passed as one JSON list: a statement for each of them would take ten times as long.
FIND_DECISIONS = (
    f"SELECT {', '.join(DECISION_COLUMNS)} FROM json_each(?) CROSS JOIN decisions WHERE agent = ? AND event_id = value"
)


class SqliteStore(Store):
    """SQLite in the folder `data`."""

    inline = True

    def __init__(self, data: Path, clock: Callable[[], int] | None = None) -> None:
        super().__init__(clock)
        self.data, self.path = data, data / FILE
        self.name = str(self.path)
        self._connection: sqlite3.Connection | None = None
        self._lock: int | None = None
        self._inodes: dict[Path, int] = {}  # of files that must not be moved or replaced
        self._readers: list[sqlite3.Connection] = []
        self._guard = threading.Lock()  # guards the list of idle readers

    def open(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        try:
            self._connect()
        except sqlite3.Error as error:
            self.close()
            raise StorageError(f"{self.path} cannot be opened: {error}") from None
        except StorageError:
            self.close()
            raise

    def _take_lock(self) -> None:
        """Keep other processes out for as long as this one runs."""
        handle = os.open(self.data / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise InvalidInput(
                f"{self.data} is in use by another sparingly (process {owner}): one process serves a folder. Stop it, "
                "choose another --data, or use --database with PostgreSQL for many processes"
            ) from None
        os.truncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        self._lock = handle

    def _connect(self) -> None:
        self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5.0)
        self.run("PRAGMA journal_mode = WAL")
        self.run("PRAGMA synchronous = FULL")
        self.run("PRAGMA cache_size = -65536")  # 64 MiB
        self.run("BEGIN IMMEDIATE")
        try:
            tables = self.run("SELECT COUNT(*) FROM sqlite_master WHERE name IN ('meta', 'agents')").fetchone()
            self.prepare_schema(tables[0] == 2, "INTEGER PRIMARY KEY AUTOINCREMENT", " WITHOUT ROWID")
            super().touch(self.clock())  # a write creates the write-ahead log
            self.commit()
        except BaseException:
            self.rollback()
            raise
        stay = (self.path, self.path.with_name(f"{FILE}-wal"), self.data / LOCK)
        self._inodes = {path: path.stat().st_ino for path in stay}
        self.run("PRAGMA busy_timeout = 100")  # nobody else should write, so do not wait long for a lock

    def close(self) -> None:
        with self._guard:
            lock, self._lock = self._lock, None
            idle, self._readers = self._readers, []
        for connection in idle:
            connection.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if lock is not None:
            os.close(lock)

    def begin(self, names: Sequence[str]) -> tuple[dict[str, AgentRecord], int]:
        self._check_files()
        self.run("BEGIN IMMEDIATE")
        return self.find_agents(names), self.clock()

    def find_decisions(self, agent: int, event_ids: Sequence[str]) -> list[DecisionRecord]:
        rows = self.run(FIND_DECISIONS, (json.dumps(event_ids), agent)) if event_ids else []
        return [DecisionRecord(*row) for row in rows]

    def _check_files(self) -> None:
        """Check that the paths still lead to the open files: writes to a deleted file are lost.

        This includes the lock: if it is gone, a second process may have started.
        """
        for path, inode in self._inodes.items():
            try:
                moved = path.stat().st_ino != inode
            except OSError:
                moved = True
            if moved:
                raise StorageError(f"{path} was removed or replaced while it was open; restart the service")

    def touch(self, now: int) -> None:
        """Also allocate some space and free it again: an update needs no space, but the next decision may."""
        super().touch(now)
        self.run("INSERT INTO meta (name, value) VALUES ('room', zeroblob(16384))")
        self.run("DELETE FROM meta WHERE name = 'room'")

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        with suppress(sqlite3.Error, StorageError):
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def run(self, sql: str, arguments: Sequence[Any] = ()) -> Any:
        if self._connection is None:
            raise StorageError(f"{self.path} is closed")
        try:
            return self._connection.execute(sql, arguments)
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: {error}") from error

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        assert self._connection is not None
        try:
            self._connection.executemany(sql, rows)
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: {error}") from error

    @contextmanager
    def reader(self) -> Iterator[Select]:
        """Read on a connection that can neither write nor checkpoint the write-ahead log."""
        with self._guard:
            connection = self._readers.pop() if self._readers else None
        try:
            if connection is None:
                self._check_files()
                address = f"{self.path.resolve().as_uri()}?mode=ro"
                connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
            connection.execute("BEGIN")  # all queries see the same state
            opened = connection

            def read(sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
                return opened.execute(sql, arguments).fetchall()

            yield read
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise StorageError(f"{self.path}: {error}") from error
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        with self._guard:
            if self._lock is not None:
                self._readers.append(connection)
                return
        connection.close()  # the store was closed meanwhile
