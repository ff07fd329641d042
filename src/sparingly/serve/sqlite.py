"""The embedded store: SQLite in a folder, for one process.

Only one connection writes: a lock on the folder and one on the database file itself, whatever its name, keep other
processes out. That connection is also the only one that checkpoints the write-ahead log, because SQLite before 3.51.3
may corrupt the database if two connections do so at once. Commits are synchronous: a decision is on disk before the
response is sent.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import sys
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

    def __init__(
        self, data: Path, clock: Callable[[], int] | None = None, steady: Callable[[], int] | None = None
    ) -> None:
        super().__init__(clock, steady)
        self.data, self.path = data, data / FILE
        self.name = str(self.path)
        self._connection: sqlite3.Connection | None = None
        self._locks: list[int] = []  # descriptors of locked files; closing them frees the locks
        self._locked_file: tuple[int, int] | None = None  # device and inode
        self._open = False
        self._reading = 0  # readers in use
        self._inodes: dict[Path, int] = {}  # of files that must not be moved or replaced
        self._readers: list[sqlite3.Connection] = []
        self._guard = threading.Lock()  # guards the list of idle readers

    def open(self) -> None:
        self._make_folder()
        try:
            self._lock_folder()
            self._lock_file()
            self._open = True
            self._connect()
        except sqlite3.Error as error:
            self.close()
            raise StorageError(f"{self.path} cannot be opened: {error}") from None
        except BaseException:
            self.close()
            raise
        if self.data.stat().st_mode & 0o077:
            print(f"sparingly: others can look into {self.data}; chmod 700 keeps them out", file=sys.stderr)

    def _make_folder(self) -> None:
        """Make the folder for its owner alone; one that exists already is left as it is, its files are not."""
        if not self.data.exists():
            self.data.mkdir(parents=True, mode=0o700)
        for path in (self.data / LOCK, self.path, *(self.path.with_name(FILE + end) for end in ("-wal", "-shm"))):
            with suppress(OSError):  # it is not there, or belongs to someone else
                path.chmod(0o600)  # SQLite gives new files the mode of the database

    def _lock_folder(self) -> None:
        """Keep other processes out of the folder for as long as this one runs."""
        handle = os.open(self.data / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        self._locks.append(handle)

    def _lock_file(self) -> None:
        """Keep out those who come to the same file by another path: a hard link, or a mount.

        SQLite's own locks belong to the process and are lost when it closes *any* descriptor of the file, so this one
        is closed last, and none is opened for a file that this process serves already.
        """
        with suppress(FileNotFoundError):
            if _identity(self.path.stat()) in _locked_files:
                raise self._in_use()
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._locks.append(handle)
        about = os.fstat(handle)
        if sys.platform == "linux":
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # independent of SQLite's locks, which are POSIX's
            except OSError:
                raise self._in_use() from None
        elif about.st_nlink > 1:  # elsewhere the two kinds of locks exclude each other
            raise InvalidInput(f"{self.path} has {about.st_nlink} names (hard links): keep one, or make a copy")
        self._locked_file = _identity(about)
        _locked_files.add(self._locked_file)

    def _in_use(self) -> InvalidInput:
        return InvalidInput(
            f"{self.path} is in use by another sparingly, by another path (a hard link or a mount): one process serves "
            "a file. Stop it, or choose another --data; to have the data twice, make a copy"
        )

    def _connect(self) -> None:
        self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5.0)
        self.run("PRAGMA journal_mode = WAL")
        self.run("PRAGMA synchronous = FULL")
        self.run("PRAGMA cache_size = -65536")  # 64 MiB
        self.run("BEGIN IMMEDIATE")
        try:
            tables = self.run("SELECT COUNT(*) FROM sqlite_master WHERE name IN ('meta', 'agents')").fetchone()
            self.prepare_schema(tables[0] == 2, "INTEGER PRIMARY KEY AUTOINCREMENT", " WITHOUT ROWID")
            self.start_clock()
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
            self._open = False
            idle, self._readers = self._readers, []
        for connection in idle:
            connection.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._unlock()

    def _unlock(self) -> None:
        """Free the locks, once the last reader is done too."""
        with self._guard:
            if self._open or self._reading:
                return
            locks, self._locks = self._locks, []
            if self._locked_file is not None:
                _locked_files.discard(self._locked_file)
                self._locked_file = None
        for handle in reversed(locks):
            os.close(handle)

    def begin(self, names: Sequence[str]) -> tuple[dict[str, AgentRecord], int]:
        self._check_files()
        self.run("BEGIN IMMEDIATE")
        return self.find_agents(names), self.trusted_time()

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
            self._reading += 1
        try:
            if connection is None:
                connection = self._connect_reader()
            connection.execute("BEGIN")  # all queries see the same state
            opened = connection

            def read(sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
                return opened.execute(sql, arguments).fetchall()

            yield read
            connection.execute("COMMIT")
            connection = self._keep_reader(connection)
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: {error}") from error
        finally:
            if connection is not None:
                connection.close()
            with self._guard:
                self._reading -= 1
            self._unlock()

    def _connect_reader(self) -> sqlite3.Connection:
        self._check_files()
        address = f"{self.path.resolve().as_uri()}?mode=ro"
        return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)

    def _keep_reader(self, connection: sqlite3.Connection) -> sqlite3.Connection | None:
        """Keep an idle connection for the next reader; gives it back if the store was closed meanwhile."""
        with self._guard:
            if not self._open:
                return connection
            self._readers.append(connection)
            return None


_locked_files: set[tuple[int, int]] = set()  # of all stores that are open in this process


def _identity(about: os.stat_result) -> tuple[int, int]:
    """What a file is, whatever its name."""
    return about.st_dev, about.st_ino
