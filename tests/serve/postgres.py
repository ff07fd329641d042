"""A real PostgreSQL server for the tests of the service: a cluster of its own in a temporary folder, on loopback.

Every process of the tests has its own, so that a test that takes the database away disturbs no other worker.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import psycopg
import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds for a start or a stop, on a machine that is busy with other things
SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "16MB",
    "max_connections": 100,
    "max_wal_senders": 0,
    "wal_level": "minimal",
    "fsync": "on",  # what the tests say about crashes must not rest on a shortcut
    "timezone": "UTC",
}
ANYONE = "nobody"  # PostgreSQL refuses to run as root; this user exists everywhere and owns nothing


def programs() -> Path:
    """Where the server's programs are. Without them the test fails, unless the environment says to leave it out."""
    if os.environ.get("SPARINGLY_NO_POSTGRES") and not os.environ.get("CI"):
        pytest.skip("SPARINGLY_NO_POSTGRES is set: tests on PostgreSQL are left out")
    found = subprocess.run([ROOT / "scripts" / "postgres.sh", "--find"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.fail(
            "no PostgreSQL server on this machine: run scripts/postgres.sh, or install one (Debian: apt-get install "
            "postgresql), or set SPARINGLY_NO_POSTGRES=1 to leave the tests on PostgreSQL out (not where CI is set)"
        )
    return Path(found.stdout.strip())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A cluster in `folder`. It is made at once; `start` and `stop` as often as a test likes, always on one port."""

    def __init__(self, folder: Path, **settings: str | int) -> None:
        self.folder, self.settings, self.port = folder, SETTINGS | settings, free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._programs = programs()
        as_root = os.getuid() == 0
        self._user = {"user": ANYONE, "group": pwd.getpwnam(ANYONE).pw_gid, "extra_groups": []} if as_root else {}
        self._count = itertools.count(1)
        self._run(
            [
                self._programs / "initdb", "--pgdata", folder / "data", "--username", "sparingly", "--auth", "trust",
                "--encoding", "UTF8", "--no-locale", "--no-sync",
            ]
        )  # fmt: skip

    def _run(self, command: list[str | Path]) -> None:
        run = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **self._user)
        assert run.returncode == 0, f"{command[0]} failed:\n{run.stdout}{run.stderr}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert self.process is None, "the server runs already"
        settings = self.settings | {"port": self.port, "unix_socket_directories": self.folder}
        command = [self._programs / "postgres", "-D", self.folder / "data"]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        if setpriv := shutil.which("setpriv"):  # should the tests be killed, the server goes with them
            command = [setpriv, "--pdeathsig", "INT", "--", *command]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._user
            )
        until = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self._url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self.process.poll() is None and time.monotonic() < until:
                    time.sleep(0.02)
                    continue
                self.stop("immediate")
                raise AssertionError(f"PostgreSQL does not start: {error}\n{self.log()}") from None

    @contextmanager
    def standby(self) -> Iterator[Server]:
        """A server that follows this one, from a copy of it, until it is promoted."""
        other = object.__new__(Server)
        other.__dict__ |= self.__dict__ | {"folder": Path(tempfile.mkdtemp(prefix="sparingly-pg-", dir="/tmp"))}
        other.port, other.process = free_port(), None
        other.settings = self.settings | {"synchronous_standby_names": ""}  # once promoted it is alone
        try:
            if os.getuid() == 0:
                shutil.chown(other.folder, ANYONE)
            self._run(
                [
                    self._programs / "pg_basebackup", "--pgdata", other.folder / "data", "--write-recovery-conf",
                    "--checkpoint", "fast", "--dbname", self._url("postgres"),
                ]
            )  # fmt: skip
            other.start()
            yield other
        finally:
            other.stop("immediate")
            shutil.rmtree(other.folder)

    def promote(self) -> None:
        """Let a standby take over."""
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote(true, 30)").fetchone() == (True,)

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server: "fast" ends sessions and shuts down cleanly, "immediate" is as good as a crash."""
        process, self.process = self.process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(SIGNALS[mode])
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def url(self, name: str = "test") -> str:
        """The address of a new, empty database."""
        database = f"{name}_{next(self._count)}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f'create database "{database}"')
        return self._url(database)

    def _url(self, database: str) -> str:
        return f"postgresql://sparingly@127.0.0.1:{self.port}/{database}"

    def log(self) -> str:
        """What the server has said so far."""
        return (self.folder / "log").read_text(errors="replace")


@contextmanager
def server(**settings: str | int) -> Iterator[Server]:
    """A server of one's own, running, with `settings` of postgresql.conf; it and its folder are gone afterwards."""
    # Not below pytest's folders: the path of a socket must be short, and the other user must be able to get there.
    folder = Path(tempfile.mkdtemp(prefix="sparingly-pg-", dir="/tmp"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, ANYONE)
        made = Server(folder, **settings)
        made.start()
        try:
            yield made
        finally:
            made.stop("immediate")
    finally:
        shutil.rmtree(folder)


_shared: list[tuple[Server, object]] = []


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The server that the tests of one process share. A test that stops it starts it again; or it uses `server()`."""
    # Each module that imports this fixture has its own copy of it: the first one starts the server, and as they all end
    # with the session, the first one to end may stop it.
    if not _shared:
        context = server()
        _shared.append((context.__enter__(), context))
    yield _shared[0][0]
    while _shared:
        _shared.pop()[1].__exit__(None, None, None)
