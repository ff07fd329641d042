"""A service that can be killed two hundred times a minute, and clients that insist until they are answered.

To import and to compile takes longer than a life may last. So this file, run as a script, does both once and then forks
a child for each life; the child opens the store and serves as `sparingly serve` does, until a test kills it.
"""

from __future__ import annotations

import ctypes
import http.client
import itertools
import json
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sparingly.serve.store import StorageError
from tests.serve.serving import without_notices

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds for a birth, or for one answer, on a machine that is busy and may have to compile first
SNAPSHOT = 150  # records between two snapshots: often enough that some are taken in most lives
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


# The script.


def give_birth() -> None:
    """For each line on stdin fork a service: {"port", "data" or "database", "after": the pid that was there before}."""
    from sparingly.serve import postgres, run, writer  # noqa: F401  # all that a child will need

    writer.SNAPSHOT = SNAPSHOT
    run.warm_up()
    run.log_as_json()
    children = set()
    for line in iter(sys.stdin.readline, ""):
        wanted = json.loads(line)
        if wanted["after"]:
            os.waitpid(wanted["after"], 0)  # its port and its lock are free now
            children.remove(wanted["after"])
        child = os.fork()
        if child == 0:
            _live(run, wanted)
        children.add(child)
        print(f"born {wanted['port']} {child}", flush=True)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _live(run: Any, wanted: dict[str, Any]) -> None:
    """A life: never returns."""
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
    try:
        data = None if wanted["data"] is None else Path(wanted["data"])
        store = run.make_store(data, wanted["database"])
        if wanted["faults"] is not None:
            Faults(Path(wanted["faults"])).befall(store)
        store.open()
        peer = f"http://127.0.0.1:{wanted['port']}" if wanted["peers"] else None
        run.serve_from(store, "127.0.0.1", wanted["port"], wanted["token"], peer=peer)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        print(f"died {wanted['port']}", flush=True)
        os._exit(1)


class Faults:
    """What the processes of a nursery suffer from together: a clock that is ahead, a disk that is slow or full."""

    NAMES = ("ahead", "slow", "full")

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(bytes(24))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 24)

    def get(self, name: str) -> float:
        return float(struct.unpack_from("d", self._shared, 8 * self.NAMES.index(name))[0])

    def set(self, **values: float) -> None:
        for name, value in values.items():
            struct.pack_into("d", self._shared, 8 * self.NAMES.index(name), value)

    def clear(self) -> None:
        self.set(ahead=0.0, slow=0.0, full=0.0)

    def befall(self, store: Any) -> None:
        """Let a store suffer from them. SQLite finds no more pages; for PostgreSQL what is written is refused here."""
        clock, commit, run_many, begin = store.clock, store.commit, store.run_many, store.begin
        store.clock = store.time.clock = lambda: clock() + round(self.get("ahead") * 1_000_000)

        def slow_commit() -> None:
            time.sleep(self.get("slow"))
            commit()

        def full_begin(names: Any) -> Any:
            found = begin(names)
            if store.inline:
                pages = 1 if self.get("full") else 2**30
                store.run(f"PRAGMA max_page_count = {pages}")
            return found

        def full_run_many(sql: str, rows: Any) -> None:
            if self.get("full") and not store.inline:
                raise StorageError("No space left on device")
            run_many(sql, rows)

        store.commit, store.begin, store.run_many = slow_commit, full_begin, full_run_many


# What a test does with it.


def quiet_port() -> int:
    """A free port that the system gives to nobody who connects: it must stay free while its service is dead."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


@dataclass
class Life:
    """One place where a service runs, and the process that is there now."""

    port: int
    pid: int = 0
    before: int = 0
    died: bool = False  # by itself
    born: threading.Event = field(default_factory=threading.Event)
    serves: threading.Event = field(default_factory=threading.Event)


class Nursery:
    """The forking process and its children: `bear` starts a service, `kill` ends it without a warning."""

    def __init__(
        self, process: subprocess.Popen[str], errors: Path, data: Path | None, database: str | None,
        faults: Faults | None = None, peers: bool = False, token: str | None = None,
    ) -> None:  # fmt: skip
        self.process, self.errors = process, errors
        self.store: dict[str, Any] = {"database": database, "peers": peers, "token": token}
        self.store["data"] = None if data is None else str(data)
        self.store["faults"] = None if faults is None else str(faults.path)
        self.lives: dict[int, Life] = {}
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "born":
                life = self.lives[int(words[1])]
                life.pid = int(words[2])
                life.born.set()
            elif words[0] == "died":
                self.lives[int(words[1])].died = True
                self.lives[int(words[1])].serves.set()
            elif words[0] == "sparingly:":
                self.lives[int(words[-1].rpartition(":")[2])].serves.set()

    def bear(self, life: Life) -> None:
        """Start a service in this place; `await_service` waits until it answers."""
        self.lives[life.port] = life
        life.before, life.pid = life.pid, 0
        life.born.clear()
        life.serves.clear()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"port": life.port, "after": life.before, **self.store}) + "\n")
        self.process.stdin.flush()

    def await_service(self, life: Life) -> None:
        served = life.serves.wait(PATIENCE) and not life.died
        assert served, f"the service did not start: {self.complaints()[-4_000:]}"

    def complaints(self) -> str:
        """All that was said on stderr so far."""
        return without_notices(self.errors.read_text())

    def kill(self, life: Life) -> None:
        """As a power cut ends it, as far as this process is concerned."""
        assert life.born.wait(PATIENCE), f"nothing was born: {self.complaints()[-4_000:]}"
        os.kill(life.pid, signal.SIGKILL)


@contextmanager
def nursery(
    folder: Path, data: Path | None = None, database: str | None = None, faults: Faults | None = None, **options: Any
) -> Iterator[Nursery]:
    """A nursery whose children work on one store; afterwards all are dead. What they complain about is in `errors`.

    With `peers` they forward to each other, with a `token` they want it.
    """
    errors = folder / "errors"
    # Threads do not survive a fork; and lines of many processes must come through one pipe in one piece.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
    with errors.open("w") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.serve.crashing"], cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=complaints,
        )  # fmt: skip
    made = Nursery(process, errors, data, database, faults, **options)
    try:
        yield made
    finally:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()  # it kills its children, and waits for them
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
            made.reader.join()
            process.stdout.close()


@dataclass
class Acknowledged:
    """A write that was answered: what was sent where, and what came back, byte for byte."""

    path: str
    body: dict[str, Any]
    status: int
    raw: bytes

    @property
    def kind(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def agent(self) -> str:
        return self.path.split("/")[3]

    @property
    def answer(self) -> dict[str, Any]:
        return json.loads(self.raw)


class WritingClient(threading.Thread):
    """A client with a connection of its own. Every write is repeated, with the same ids, until it is acknowledged."""

    def __init__(self, name: str, ports: Sequence[int], stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.ports = itertools.cycle(ports)
        self.port = next(self.ports)
        self.random = random.Random(name)
        self.stop = stop
        self.acknowledged: list[Acknowledged] = []
        self.cut = 0  # calls that ended without an answer
        self.found = 0  # writes that were stored although their answer was lost
        self.failure: BaseException | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._held: list[str] = []  # asks that are activated or released some time after
        self._open: list[str] = []  # asks that are answered some time after

    def run(self) -> None:
        try:
            for step in itertools.count(1):
                if self.stop.is_set():
                    break
                self._step(step)
        except BaseException as failure:
            self.failure = failure
        finally:
            self.close()

    def _step(self, step: int) -> None:
        agent = "linear" if self.random.random() < 0.25 else "arms"
        path = f"/v1/agents/{agent}"
        body = {"event_id": f"{self.name}-{step}", "payload": {"step": step}, "defer": self.random.random() < 0.4}
        if agent == "arms":
            body["context"] = self.random.randrange(2)
        else:
            body["features"] = [[self.random.uniform(-0.5, 0.5) for _ in range(3)] for _ in range(3)]
        decision = self.insist(f"{path}/decisions", body).answer
        if decision["ask"]:
            (self._held if body["defer"] else self._open).append(f"{path}/decisions/{body['event_id']}")
        if self._held and self.random.random() < 0.3:
            self._lease(self._held.pop(self.random.randrange(len(self._held))))
        if self._open and self.random.random() < 0.3:
            event = self._open.pop(self.random.randrange(len(self._open)))
            self.insist(f"{event}/feedback", {"reward": self.random.choice([0.0, 0.25, 0.5, 1.0])})
        if step % 20 == 0:
            amount = self.random.choice([0.5, 1.0, 2.5])
            self.insist(f"{path}/grants", {"grant_id": f"{self.name}-{step}", "amount": amount})

    def _lease(self, event: str) -> None:
        """Show a deferred ask to someone, take it back, or leave it to expire."""
        fate = self.random.random()
        if fate < 0.5:
            if self.insist(f"{event}/activate", {}, also=409).status == 200:  # it may have expired meanwhile
                self._open.append(event)
        elif fate < 0.8:
            self.insist(f"{event}/release", {})

    def insist(self, path: str, body: dict[str, Any], also: int = 200) -> Acknowledged:
        """Send a write until it is acknowledged."""
        until, lost, started = time.monotonic() + PATIENCE, 0, 0.0
        while time.monotonic() < until:
            started = time.time()
            try:
                status, raw = self.call("POST", path, body)
            except (OSError, http.client.HTTPException):
                lost += 1
                self.cut += 1
                self._move_on()
                continue
            if status == 503:
                self._move_on()
                continue
            if status not in (200, also):
                raise AssertionError(f"{path} {body}: {status} {raw!r}")
            done = Acknowledged(path, body, status, raw)
            self.acknowledged.append(done)
            self.found += lost > 0 and _stored_before(done, started)
            return done
        raise AssertionError(f"{path} was not answered in {PATIENCE:g} s")

    def _move_on(self) -> None:
        self.close()
        self.port = next(self.ports)
        time.sleep(0.004)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        """One request on this writer's connection."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        data = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, data, {} if data is None else {"content-type": "application/json"})
        with self._connection.getresponse() as answer:
            return answer.status, answer.read()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _stored_before(done: Acknowledged, moment: float) -> bool:
    """Whether the answer to a repeated write tells of something that was stored before it was repeated."""
    answer = done.answer
    stamp = answer.get({"decisions": "decided_at", "feedback": "answered_at", "grants": "booked_at"}.get(done.kind, ""))
    return stamp is not None and datetime.fromisoformat(stamp).timestamp() < moment


if __name__ == "__main__":
    give_birth()
