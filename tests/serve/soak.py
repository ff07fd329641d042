"""A schedule of faults for any length of time, and an auditor of what is left: `make soak`.

    python -m tests.serve.soak --seconds 1800 --stores sqlite,postgres --seed 1

Clients write all the time, to one process on SQLite and to three on PostgreSQL. Meanwhile processes are killed, paused
and restarted, clocks are set wrong, the disk is full or slow, connections to the database are cut and the database is
stopped, snapshots are damaged. In the end an auditor lives through the logs with a ledger of its own (it has no code in
common with the service), and compares them with what clients were told: no ask beyond the budget, no acknowledged write
lost, no answer changed. The memory of the processes must not grow.

Not a test by its name: `make soak` runs it, and `make test` for two minutes. tests/serve/test_soak.py shows that the
auditor notices what it should.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sparingly.ledger import UNIT
from sparingly.serve.run import make_store
from sparingly.serve.sqlite import FILE
from sparingly.serve.verify import verify_store
from tests.serve.crashing import Faults, Life, Nursery, WritingClient, nursery, quiet_port
from tests.serve.postgres import Server, server
from tests.serve.test_crashes import (
    AGENTS,
    Ledger,
    await_rest,
    check_ledger,
    check_retries,
    check_told,
    read,
    read_log,
)

WRITERS = 4
PACE = 0.08  # seconds between two steps of a client: the schedule is what counts, not the load
YEARS = 10 * 365 * 86_400.0
CLOCK = {  # a budget that grows by two units a second
    "learner": {"type": "UCB1"}, "actions": ["a", "b"], "rule": {"type": "Always"}, "lease": 0.3,
    "budget": {"initial": 2, "growth": {"by": "clock", "amount": 2, "every": 1}},
}  # fmt: skip
SLACK = 60.0  # seconds that a clock may be ahead before it is held
ALL: dict[str, dict[str, Any]] = AGENTS | {"clock": CLOCK}


class ClockLedger(Ledger):
    """The budget grows with the clock: how far it may have grown is checked at the end."""

    def __init__(self) -> None:
        super().__init__({"budget": {"initial": 2, "growth": {"rate": 0}}})
        self.grown = 0

    @property
    def granted(self) -> int:
        return self.grown

    def enter(self, record: dict[str, Any]) -> None:
        assert record["granted"] >= self.grown, "a budget fell"
        self.grown = record["granted"]
        super().enter(record)


class Client(WritingClient):
    """A client that takes its time, and also uses the agent whose budget grows with the clock."""

    def _step(self, step: int) -> None:
        if step % 4 == 0:
            self.insist("/v1/agents/clock/decisions", {"event_id": f"{self.name}-{step}"})
        else:
            super()._step(step)
        time.sleep(self.random.uniform(0.5, 1.5) * PACE)


class Soak:
    """One store with its processes, and what is done to them."""

    def __init__(self, kind: str, folder: Path, chance: random.Random, postgres: Server | None) -> None:
        self.kind, self.folder, self.chance, self.postgres = kind, folder, chance, postgres
        self.data = folder / "data" if postgres is None else None
        self.database = None if postgres is None else postgres.url("soak")
        self.faults = Faults(folder / "faults")
        self.lives = [Life(quiet_port()) for _ in range(1 if postgres is None else 3)]
        self.done = Counter[str]()
        self.memory: list[tuple[float, int]] = []  # when, and how much a process had
        self.schedule: list[Callable[[], None]] = [
            self.kill, self.kill, self.restart, self.pause, self.clock_ahead, self.clock_back, self.full_disk,
            self.slow_disk, self.damaged_snapshot,
        ]  # fmt: skip
        if postgres is not None:
            self.schedule += [self.cut_connections, self.cut_connections, self.stop_database]

    def run(self, seconds: float) -> None:
        """Faults for so long, then the audit; raises AssertionError with what is wrong."""
        with ExitStack() as stack:
            self.made: Nursery = stack.enter_context(
                nursery(self.folder, self.data, self.database, self.faults, peers=self.data is None)
            )
            for life in self.lives:
                self.made.bear(life)
                self.made.await_service(life)
            self.started = time.time()
            stop, ports = threading.Event(), [life.port for life in self.lives]
            turns = [ports[k % len(ports) :] + ports[: k % len(ports)] for k in range(WRITERS)]
            clients = [Client(f"w{k}", turns[k], stop) for k in range(WRITERS)]
            for name, body in ALL.items():
                assert clients[0].call("PUT", f"/v1/agents/{name}", body)[0] == 201
            for client in clients:
                client.start()
            try:
                self._trouble(seconds, clients)
            finally:
                self.faults.clear()
                stop.set()
            for client in clients:
                client.join(120)
                assert not client.is_alive() and client.failure is None, client.failure
            self.audit(clients)
        self._verify()

    def _trouble(self, seconds: float, clients: list[Client]) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.chance.uniform(0.5, 2.0))
            self._measure()
            fault = self.chance.choice(self.schedule)
            fault()
            self.done[fault.__name__] += 1
            assert all(client.is_alive() for client in clients), [client.failure for client in clients]

    def _measure(self) -> None:
        for life in self.lives:
            with suppress(OSError, IndexError):
                pages = int(Path(f"/proc/{life.pid}/statm").read_text().split()[1])
                self.memory.append((time.time(), pages * os.sysconf("SC_PAGE_SIZE")))

    # Faults.

    def kill(self) -> None:
        life = self.chance.choice(self.lives)
        self.made.kill(life)
        self._again(life)

    def restart(self) -> None:
        life = self.chance.choice(self.lives)
        os.kill(life.pid, signal.SIGTERM)
        self._again(life)

    def _again(self, life: Life) -> None:
        self.made.bear(life)
        self.made.await_service(life)

    def pause(self) -> None:
        life = self.chance.choice(self.lives)
        os.kill(life.pid, signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.2, 3.0))
        os.kill(life.pid, signal.SIGCONT)

    def clock_ahead(self) -> None:
        self._for_a_while(ahead=self.chance.choice([3 * 3_600.0, 86_400.0, YEARS]))

    def clock_back(self) -> None:
        self._for_a_while(ahead=-self.chance.choice([30.0, 3_600.0, YEARS]))

    def full_disk(self) -> None:
        self._for_a_while(full=1.0)

    def slow_disk(self) -> None:
        self._for_a_while(slow=self.chance.uniform(0.1, 1.0))

    def _for_a_while(self, **what: float) -> None:
        """A fault that lasts; sometimes a process is killed meanwhile."""
        self.faults.set(**what)
        time.sleep(self.chance.uniform(0.5, 3.0))
        if self.chance.random() < 0.3 and "full" not in what:
            self.kill()
        self.faults.clear()

    def damaged_snapshot(self) -> None:
        """Snapshots are cut in the middle; on SQLite nobody else may write while the service runs."""
        sql = "UPDATE snapshots SET body = SUBSTR(body, 1, LENGTH(body) / 2)"
        if self.data is None:
            with suppress(psycopg.Error), psycopg.connect(self.database) as connection:
                connection.execute(sql)
            return
        life = self.lives[0]
        self.made.kill(life)
        deadline = time.monotonic() + 10
        while Path(f"/proc/{life.pid}/exe").exists() and time.monotonic() < deadline:
            time.sleep(0.01)  # a zombie has no executable
        with closing(sqlite3.connect(self.data / FILE)) as connection, connection:
            connection.execute(sql)
        self._again(life)

    def cut_connections(self) -> None:
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sparingly'"
        with suppress(psycopg.Error), psycopg.connect(self.database) as connection:
            connection.execute(sql)

    def stop_database(self) -> None:
        assert self.postgres is not None
        self.postgres.stop(self.chance.choice(["fast", "immediate"]))
        time.sleep(self.chance.uniform(0.1, 1.0))
        self.postgres.start()

    # The audit.

    def audit(self, clients: list[Client]) -> None:
        """What the clients were told against the logs that are left."""
        done = [one for client in clients for one in client.acknowledged]
        check_retries(self.lives, clients)  # no answer has changed, from whichever process
        await_rest(self.lives[0])
        elapsed = time.time() - self.started
        for name in AGENTS:
            log = read_log(self.lives[0], name)
            check_told([one for one in done if one.agent == name], log, check_ledger(AGENTS[name], log))
        log = read_log(self.lives[0], "clock", seed=0)
        final = check_ledger(CLOCK, log, ClockLedger())
        decided = [one for one in done if one.agent == "clock"]
        check_told(decided, log, final, exhausted=False)
        check_growth(final.granted, elapsed)
        budgets = [read(life, "/v1/agents/clock")["budget"]["spent"] for life in self.lives]
        assert budgets == [final.spent / UNIT] * len(self.lives)
        check_flat(self.memory)
        lost = sum(client.found for client in clients)
        cut = sum(client.cut for client in clients)
        faults = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(self.done.items()))
        most = max((size for _, size in self.memory), default=0) / 2**20
        print(
            f"{self.kind}: {elapsed:.0f} s, {len(done):,} acknowledged writes, {cut:,} calls cut off ({lost:,} of them "
            f"stored all the same); {faults}; at most {most:.0f} MiB. 0 overspent, 0 lost, 0 changed",
            flush=True,
        )

    def _verify(self) -> None:
        """The service's own verification, and that of the database, after all processes are gone."""
        store, said = make_store(self.data, self.database), list[str]()
        store.open_to_read()
        with closing(store):
            assert verify_store(store, said.append) == 0, said


def check_growth(granted: int, elapsed: float) -> None:
    """A wrong clock must not have granted more than the time that has passed, and the stated tolerance."""
    most = 2 * UNIT + 2 * UNIT * (elapsed + SLACK)
    assert granted <= most, f"{granted / UNIT:g} were granted in {elapsed:.0f} s"


def check_flat(memory: list[tuple[float, int]]) -> None:
    """The processes of the last third must not be larger than those of the second, but for what agents learn."""
    third = len(memory) // 3
    if third >= 10:
        before, after = (sorted(size for _, size in part) for part in (memory[third : 2 * third], memory[2 * third :]))
        high = [part[int(len(part) * 0.9)] for part in (before, after)]
        assert high[1] <= 1.25 * high[0] + 2**24, f"memory grew from {high[0] >> 20} to {high[1] >> 20} MiB"


def soak(kinds: list[str], seconds: float, seed: int) -> Iterator[str]:
    """Run all stores at once; yields what went wrong."""
    wrong: list[str] = []

    def one(kind: str) -> None:
        try:
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"soak-{kind}-")))
                postgres = stack.enter_context(server()) if kind == "postgres" else None
                Soak(kind, folder, random.Random(f"{kind} {seed}"), postgres).run(seconds)
        except pytest.skip.Exception as left_out:
            print(f"{kind}: {left_out}", flush=True)
        except BaseException as error:
            wrong.append(f"{kind}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=one, args=(kind,)) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield from wrong


def main() -> int:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=1800.0)
    options.add_argument("--stores", default="sqlite,postgres")
    options.add_argument("--seed", type=int, default=int(time.time()))
    chosen = options.parse_args()
    print(f"soak: {chosen.stores} for {chosen.seconds:g} s, seed {chosen.seed}", flush=True)
    wrong = list(soak(chosen.stores.split(","), chosen.seconds, chosen.seed))
    for line in wrong:
        print(json.dumps(line[:4_000])[1:-1], file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
