"""The embedded store: SQLite in a folder, for one process.

Only one connection writes: a lock on the folder and one on the database file itself, whatever its name, keep other
processes out. That connection is also the only one that checkpoints the write-ahead log, because SQLite before 3.51.3
may corrupt the database if two connections do so at once. Commits are synchronous: a decision is on disk before the
response is sent.

Transactions are numbered. The number of the last one is also kept in a file beside the database: a database that has
fewer has lost some, be it that its write-ahead log was cut or that an older copy was put back.
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
from sparingly.serve.queries import Select
from sparingly.serve.records import DECISION_COLUMNS, AgentRecord, DecisionRecord
from sparingly.serve.store import StorageError, Store

FILE, LOCK, SEEN = "sparingly.sqlite", "sparingly.lock", "sparingly.seen"
CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
WAL_HEAD, FRAME_HEAD = 32, 24  # bytes of the headers in a write-ahead log
DAMAGED = "Stop the service, run `sparingly verify`, and restore a backup (docs/deployment.md)"
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
        self.damage = ""  # what is wrong with the file; it stays until a restart
        self._commits = 0  # how many transactions there were
        self._seen: int | None = None  # descriptor of the file with that number
        self._wal_size = 0
        self._index: int | None = None  # descriptor of the log's index: closing one would free SQLite's own locks on it
        self._unchanging = False  # whether nobody can write to the file

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

    def open_to_read(self) -> None:
        if not self.path.exists():
            raise InvalidInput(f"there is no database in {self.data}")
        try:
            self._lock_folder()
        except InvalidInput:
            pass  # a service is running: it has opened the write-ahead log, too
        except OSError as error:
            self._open_unchanging(error)
        try:
            if self._locks:
                self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
                self._connection.execute("SELECT COUNT(*) FROM sqlite_master")  # reads the write-ahead log in
            self._open = True
            with self.reader() as read:
                self.check_version(read)
        except sqlite3.Error as error:
            self.close()
            raise StorageError(f"{self.path} cannot be opened: {error}. {DAMAGED}") from None
        except BaseException:
            self.close()
            raise

    def _open_unchanging(self, error: OSError) -> None:
        """On a disk, or with rights, that allow no writes: then the file alone must have everything."""
        log = self.path.with_name(f"{FILE}-wal")
        if log.exists() and log.stat().st_size > 0:
            raise StorageError(
                f"{log} has to be read into the database, and nothing can be written there ({error.strerror}): run "
                "this as the user of the service, or on a copy of the folder"
            )
        self._unchanging = True

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
        self.run("PRAGMA secure_delete = ON")  # what is erased must not stay in the file
        self.run("BEGIN IMMEDIATE")
        try:
            tables = self.run("SELECT COUNT(*) FROM sqlite_master WHERE name IN ('meta', 'agents')").fetchone()
            self.prepare_schema(tables[0] == 2)
            self._check_commits()
            self.start_clock()
            super().touch(self.clock())  # a write creates the write-ahead log
            self.commit()
        except BaseException:
            self.rollback()
            raise
        stay = (self.path, self.path.with_name(f"{FILE}-wal"), self.data / LOCK)
        self._inodes = {path: path.stat().st_ino for path in stay}
        self.run("PRAGMA busy_timeout = 100")  # nobody else should write, so do not wait long for a lock

    def copy_to(self, path: Path) -> None:
        """Write a copy of what is committed, for its owner alone."""
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
        connection = self._connect_reader()
        try:
            connection.execute("VACUUM INTO ?", (str(path),))
        except sqlite3.Error as error:
            raise StorageError(f"{path} could not be written: {error}") from error
        finally:
            connection.close()

    def _check_commits(self) -> None:
        """Check that no transaction is missing that was there before."""
        self.run("INSERT INTO meta (name, value) VALUES ('commits', 0) ON CONFLICT (name) DO NOTHING")
        self._commits = self.run("SELECT value FROM meta WHERE name = 'commits'").fetchone()[0]
        self._seen = os.open(self.data / SEEN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(self._seen, 0o600)
        seen = self._read_seen()
        if seen > self._commits and not self.accept_older:
            raise StorageError(
                f"{self.path} has lost {seen - self._commits:,} of the {seen:,} transactions that it had: its "
                "write-ahead log was cut, or an older copy was put back. People may have been asked since. Restore a "
                "backup, or start with --paused and reconcile (docs/deployment.md)"
            )

    def _read_seen(self) -> int:
        """The number of the last transaction that there was."""
        try:
            text = (self.data / SEEN).read_text().strip()
        except OSError:
            return 0
        return int(text) if text.isdigit() else 0

    def close(self) -> None:
        with self._guard:
            self._open = False
            idle, self._readers = self._readers, []
        if self._seen is not None:
            os.close(self._seen)
            self._seen = None
        for connection in idle:
            connection.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._index is not None:
            os.close(self._index)
            self._index = None
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
        if self.damage:
            raise StorageError(self.damage)
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
                about = path.stat()
            except OSError:
                about = None
            if about is None or about.st_ino != inode:
                raise StorageError(f"{path} was removed or replaced while it was open; restart the service")
            if path.name.endswith("-wal"):
                self._check_wal(path, about.st_size)

    def _check_wal(self, path: Path, size: int) -> None:
        """If the write-ahead log has become shorter, check that SQLite knows of it."""
        if size < self._wal_size:
            if self._index is None:
                self._index = os.open(self.path.with_name(f"{FILE}-shm"), os.O_RDONLY | os.O_CLOEXEC)
            head = os.pread(self._index, 48, 0)
            size = path.stat().st_size  # frames are in the log before the index knows of them
            if os.pread(self._index, 48, 0) != head:
                return  # somebody writes or begins the log anew at this moment: look again next time
            page, frames = int.from_bytes(head[14:16], sys.byteorder), int.from_bytes(head[16:20], sys.byteorder)
            if size < WAL_HEAD + frames * (FRAME_HEAD + (65_536 if page == 1 else page)) and frames:
                self.damage = (
                    f"{path} was cut while it was open: what was stored last is lost. Stop the service, restore a "
                    "backup or keep what is left, and start with --paused (docs/deployment.md)"
                )
        self._wal_size = size

    def touch(self, now: int) -> None:
        """Also allocate some space and free it again: an update needs no space, but the next decision may."""
        super().touch(now)
        self.run("INSERT INTO meta (name, value) VALUES ('room', zeroblob(16384))")
        self.run("DELETE FROM meta WHERE name = 'room'")

    def commit(self) -> None:
        self.run("UPDATE meta SET value = ? WHERE name = 'commits'", (self._commits + 1,))
        self.run("COMMIT")
        self._commits += 1
        if self._seen is not None:
            with suppress(OSError):  # it only helps to notice a loss
                os.pwrite(self._seen, b"%020d\n" % self._commits, 0)

    def check(self) -> str:
        """What SQLite says of its file: empty if all is well. It reads the whole file."""
        try:
            with self.reader() as read:
                found = [row[0] for row in read("PRAGMA quick_check(3)")]
                commits = read("SELECT value FROM meta WHERE name = 'commits'")
        except StorageError:
            if self.damage:
                return self.damage
            raise
        lost = self._read_seen() - (commits[0][0] if commits else 0)
        if found == ["ok"] and self._seen is None and lost > 0:
            return f"{self.path} has lost {lost:,} transactions that it had"
        if found != ["ok"]:
            self.damage = f"{self.path} is damaged: {'; '.join(found)}. {DAMAGED}"
        return self.damage

    def _failed(self, error: sqlite3.Error) -> StorageError:
        """What to raise; a file that is damaged is not used any more."""
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in CORRUPT:
            self.damage = f"{self.path} is damaged: {error}. {DAMAGED}"
        return StorageError(f"{self.path}: {error}")

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
            raise self._failed(error) from error

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        assert self._connection is not None
        try:
            self._connection.executemany(sql, rows)
        except sqlite3.Error as error:
            raise self._failed(error) from error

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
            raise self._failed(error) from error
        finally:
            if connection is not None:
                connection.close()
            with self._guard:
                self._reading -= 1
            self._unlock()

    def _connect_reader(self) -> sqlite3.Connection:
        self._check_files()
        address = f"{self.path.resolve().as_uri()}?mode=ro" + ("&immutable=1" if self._unchanging else "")
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
