"""Storage that is full, gone, slow, locked or in doubt: 503 and no ask, nothing stored by half, and it comes back.

All of it happens to a service in this process, so that the faults can be put exactly where they hurt.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from sparingly.agent import Agent
from sparingly.serve import postgres as postgres_module
from sparingly.serve import store as store_module
from sparingly.serve import writer
from sparingly.serve.live_agent import LiveAgent, paused
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import FILE, SqliteStore
from sparingly.serve.store import StorageError, Store
from sparingly.serve.verify import verify_store
from tests.serve.inside import Inside, inside
from tests.serve.postgres import postgres, server

__all__ = ["postgres"]  # a fixture
NAMES = [f"{k:0200d}" for k in range(1_000)]  # of actions: 200 kB


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 120))


@pytest.fixture(params=["sqlite", "postgres"])
def make(request, tmp_path):
    """Makes a store on an empty database; of a class that is mixed with another one, where that is given."""

    def made(mixin: type | None = None) -> Any:
        kind: type[Store] = SqliteStore if request.param == "sqlite" else PostgresStore
        place = tmp_path / "data" if request.param == "sqlite" else request.getfixturevalue("postgres").url("faulty")
        return kind(place) if mixin is None else type("Faulty", (mixin, kind), {})(place)

    return made


def check_unavailable(answer: httpx.Response) -> None:
    """A problem document that says when to try again, and asks for nothing."""
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["status"] == 503 and "ask" not in answer.json()


async def check_unready(made: Inside, *words: str) -> None:
    answer = await made.call("GET", "/readyz")
    assert answer.status_code == 503
    assert answer.json()["status"] == "unavailable" and any(word in answer.json()["detail"] for word in words), (
        answer.text
    )
    assert (await made.call("GET", "/healthz")).status_code == 200  # it runs all the same
    assert (await made.call("GET", "/metrics")).status_code == 200


async def check_ready(made: Inside) -> None:
    answer = await made.call("GET", "/readyz")
    assert (answer.status_code, answer.json()["status"], answer.json()["detail"]) == (200, "ok", "")


async def check_log(made: Inside, *events: str, name: str = "agent") -> None:
    """These decisions were made, in this order, and each was asked about and paid for once."""
    events_in_log = (await made.call("GET", f"{name}/decisions?limit=1000")).json()["events"][::-1]
    assert [event["event_id"] for event in events_in_log] == list(events)
    assert [event["number"] for event in events_in_log] == list(range(1, len(events) + 1))
    agent = (await made.call("GET", name)).json()
    assert (agent["decisions"], agent["budget"]["spent"]) == (len(events), sum(event["ask"] for event in events_in_log))


# The disk is full.


async def fill(made: Inside) -> tuple[list[str], dict[str, Any]]:
    """Decide until the store is full, by ever smaller steps: what was stored, and the decision that found no room."""
    stored: list[str] = []
    for size in (100_000, 10_000, 1_000, 100):
        answer, wanted = None, {}
        while answer is None or answer.status_code == 200:
            stored += [wanted["event_id"]] if wanted else []
            assert len(stored) < 1_000, "it is never full"
            wanted = {"event_id": f"{size}-{len(stored)}", "payload": "x" * size}
            answer = await made.call("POST", "agent/decisions", wanted)
        check_unavailable(answer)
    return stored, wanted


async def check_full(made: Inside, make_room: Any) -> None:
    """From a store with little room to a full one, and back to one with room."""
    await made.put("agent", budget={"initial": 1_000})
    stored, wanted = await fill(made)
    before = (await made.call("GET", "agent")).json()
    for _ in range(3):  # no less full for having been asked before
        check_unavailable(await made.call("POST", "agent/decisions", wanted))
        check_unavailable(await made.call("PUT", "another", before["body"] | {"actions": NAMES}))
    await check_unready(made, "full")
    assert (await made.call("GET", "agent")).json() == before
    assert (await made.call("GET", f"agent/decisions/{wanted['event_id']}")).status_code == 404
    assert len((await made.call("GET", "agent/log")).text.splitlines()) == len(stored) + 1
    make_room()
    await check_ready(made)
    assert (await made.call("POST", "agent/decisions", wanted)).json()["ask"]
    await check_log(made, *stored, wanted["event_id"])


def test_sqlite_is_full(tmp_path):
    async def scenario() -> None:
        store = SqliteStore(tmp_path)
        async with inside(store) as made:
            pages = store.run("PRAGMA page_count").fetchone()[0]
            store.run(f"PRAGMA max_page_count = {pages + 120}").fetchone()
            await check_full(made, lambda: store.run("PRAGMA max_page_count = 1000000").fetchone())

    run(scenario())


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 4 MiB; only root can have one."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_the_disk_is_full(tmp_path):
    async def scenario(disk: Path) -> None:
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * 2_000_000)
        async with inside(SqliteStore(disk / "data")) as made:
            await check_full(made, ballast.unlink)

    with small_disk(tmp_path / "disk") as disk:
        run(scenario(disk))


def test_the_disk_can_only_be_read(tmp_path):
    """Serving is refused with the reason. A store can still be verified, unless its write-ahead log is not read in."""
    with small_disk(tmp_path / "disk") as disk:
        data = disk / "data"

        async def work() -> None:
            async with inside(SqliteStore(data)) as made:
                await made.put("agent")
                assert (await made.decide("agent", "first")).json()["ask"]
                shutil.copytree(data, disk / "cut off")

        run(work())
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        try:
            with pytest.raises(OSError, match="Read-only file system"):
                SqliteStore(data).open()
            store, said = SqliteStore(data), list[str]()
            store.open_to_read()
            with closing(store):
                assert verify_store(store, said.append) == 0, said
                with store.reader() as read:
                    assert read("SELECT decisions FROM agents") == [(1,)]
            with pytest.raises(StorageError, match=r"write-ahead|sqlite-wal has to be read.*on a copy of the folder"):
                SqliteStore(disk / "cut off").open_to_read()
        finally:
            subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


# The database is gone.


@pytest.mark.parametrize("how", ["removed", "replaced", "moved with its folder", "removed with its folder"])
def test_the_file_is_taken_away(tmp_path, how):
    """What is written to a deleted file is lost: nothing is asked until someone has looked into it."""
    data = tmp_path / "data"

    async def scenario() -> None:
        async with inside(SqliteStore(data)) as made:
            await made.put("agent")
            assert (await made.decide("agent", "first")).json()["ask"]
            shutil.copy(data / FILE, tmp_path / "copy")
            if how == "removed":
                (data / FILE).unlink()
            elif how == "replaced":
                (tmp_path / "copy").rename(data / FILE)
            elif how == "removed with its folder":
                shutil.rmtree(data)
            else:
                data.rename(tmp_path / "elsewhere")
            for _ in range(3):
                check_unavailable(await made.decide("agent", "second"))
                check_unavailable(await made.decide("agent", "first"))
                await check_unready(made, "removed or replaced")
            answer = await made.call("GET", "agent")  # from the file as it was, or not at all
            assert answer.status_code == 503 or answer.json()["budget"]["spent"] == 1.0

    run(scenario())


def test_postgres_goes_and_comes_back():
    async def scenario(own: Any) -> None:
        async with inside(PostgresStore(own.url("gone"))) as made:
            await made.put("agent")
            assert (await made.decide("agent", "first")).json()["ask"]
            await asyncio.gather(*(made.call("GET", "agent") for _ in range(8)))  # so that connections are idle
            for _ in range(2):
                own.stop("immediate")
                answers = await asyncio.gather(*(made.decide("agent", f"lost{k}") for k in range(8)))
                for answer in answers:
                    check_unavailable(answer)
                check_unavailable(await made.call("GET", "agent"))
                check_unavailable(await made.call("GET", "agent/log"))
                await check_unready(made, "cannot be reached", "terminat", "closed", "shut")
                assert (await made.call("GET", "/openapi.json")).status_code == 200
                own.start()
                answers = await asyncio.gather(*(made.call("GET", "agent") for _ in range(8)))
                assert [answer.status_code for answer in answers] == [200] * 8
                await check_ready(made)
            assert (await made.decide("agent", "lost0")).json()["ask"]
            await check_log(made, "first", "lost0")

    with server() as own:
        run(scenario(own))


def test_postgres_has_no_connection_left():
    """A process that has its connection goes on deciding; who needs a new one is told, and served once there is one."""

    async def scenario(own: Any) -> None:
        database = own.url("full")
        async with inside(PostgresStore(database)) as made, AsyncExitStack() as stack:
            await made.put("agent")
            await asyncio.sleep(0.2)  # until what is read at the start has been read
            store: Any = made.service.store
            with store._guard:  # connections for reading are made when they are needed
                while store._readers:
                    store._readers.pop().close()
            taken = stack.enter_context(ExitStack())
            with suppress(psycopg.OperationalError):
                while True:
                    taken.enter_context(psycopg.connect(database))
            assert (await made.decide("agent", "first")).json()["ask"]
            await check_ready(made)
            check_unavailable(await made.call("GET", "agent"))
            with pytest.raises(StorageError, match=r"cannot be reached: .*(too many clients|connection slots)"):
                PostgresStore(database).open()
            taken.close()
            assert (await made.call("GET", "agent")).json()["decisions"] == 1
            await check_log(made, "first")

    with server(max_connections=12) as own:
        run(scenario(own))


def test_a_standby_takes_over():
    """The primary crashes, its synchronous standby is promoted: with both in the URL the service goes on by itself."""

    async def scenario(primary: Any, standby: Any) -> None:
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        name = primary.url("failover").rpartition("/")[2]
        url = f"postgresql://sparingly@{hosts}/{name}?target_session_attrs=read-write&connect_timeout=2"
        async with inside(PostgresStore(url)) as made:
            await made.put("agent", budget={"initial": 1_000})
            before = [(await made.decide("agent", f"e{k}")).json() for k in range(20)]
            primary.stop("immediate")
            check_unavailable(await made.decide("agent", "lost"))
            standby.promote()
            until = time.monotonic() + 30
            while (await made.decide("agent", "lost")).status_code == 503:
                assert time.monotonic() < until, "it does not come back"
                await asyncio.sleep(0.1)
            assert [(await made.decide("agent", f"e{k}")).json() for k in range(20)] == before
            await check_ready(made)
            await check_log(made, *(f"e{k}" for k in range(20)), "lost")

    replicating = {"wal_level": "replica", "max_wal_senders": 4, "synchronous_standby_names": "*"}
    with server(**replicating, synchronous_commit="local") as primary, primary.standby() as standby:
        run(scenario(primary, standby))


class Terminated:
    """A store whose connection is cut by the server, before or after the records are written."""

    when = ""

    def _cut(self: Any) -> None:
        assert self._connection is not None
        pid = self._connection.info.backend_pid
        with psycopg.connect(self.url) as other:
            assert other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,)).fetchone() == (True,)

    def write(self: Any, done: Any) -> None:
        if self.when == "before writing":
            self._cut()
        super().write(done)
        if self.when == "before commit":
            self._cut()

    def commit(self: Any) -> None:
        super().commit()
        if self.when == "after commit":
            self._cut()


@pytest.mark.parametrize("when", ["before writing", "before commit", "after commit"])
def test_the_connection_is_cut_in_a_transaction(postgres, when):
    class Cut(Terminated, PostgresStore):
        pass

    async def scenario() -> None:
        store: Any = Cut(postgres.url("cut"))
        async with inside(store) as made:
            await made.put("agent")
            store.when = when
            answers = await asyncio.gather(*(made.decide("agent", f"e{k}") for k in range(4)))
            store.when = ""
            if when == "after commit":  # what was durable by then was answered; the next batch takes a new connection
                assert [answer.json()["ask"] for answer in answers] == [True] * 4
            else:
                for answer in answers:
                    check_unavailable(answer)
                assert await made.budget("agent") == {"granted": 10.0, "spent": 0.0, "held": 0.0, "left": 10.0}
            answers = await asyncio.gather(*(made.decide("agent", f"e{k}") for k in range(4)))
            assert [answer.json()["ask"] for answer in answers] == [True] * 4
            await check_ready(made)
            await check_log(made, "e0", "e1", "e2", "e3")

    run(scenario())


# Someone else holds a lock.


def test_another_holds_the_row_for_too_long(postgres, monkeypatch):
    """A row lock of someone else stops one agent; the others go on."""
    settings = ["SET lock_timeout = '300ms'" if "lock_timeout" in one else one for one in postgres_module.SESSION]
    monkeypatch.setattr(postgres_module, "SESSION", settings)

    async def scenario() -> None:
        database = postgres.url("locked")
        async with inside(PostgresStore(database)) as made:
            await made.put("agent")
            await made.put("other")
            with psycopg.connect(database) as another:
                another.execute("SELECT * FROM agents WHERE name = 'agent' FOR UPDATE")
                check_unavailable(await made.decide("agent", "first"))
                assert "lock timeout" in made.service.writer.storage_error
                assert (await made.decide("other", "first")).json()["ask"]
                assert (await made.call("GET", "agent")).json()["decisions"] == 0  # who reads does not wait
            assert (await made.decide("agent", "first")).json()["ask"]
            await check_log(made, "first")

    run(scenario())


def test_another_holds_the_file_for_too_long(tmp_path):
    """Nobody has to write to it but the service; who does it all the same stops no one from being told."""

    async def scenario() -> None:
        async with inside(SqliteStore(tmp_path)) as made:
            await made.put("agent")
            another = sqlite3.connect(tmp_path / FILE, isolation_level=None)
            another.execute("BEGIN IMMEDIATE")
            started = time.monotonic()
            deciding = asyncio.create_task(made.decide("agent", "first"))
            await asyncio.sleep(0)
            assert (await made.call("GET", "/healthz")).status_code == 200
            check_unavailable(await deciding)
            assert time.monotonic() - started < 4, "all who call have waited for the lock"
            await check_unready(made, "locked")
            assert (await made.call("GET", "agent")).json()["decisions"] == 0
            another.execute("ROLLBACK")
            another.close()
            assert (await made.decide("agent", "first")).json()["ask"]
            await check_log(made, "first")

    run(scenario())


# The disk is slow.


class Slow:
    """A store whose commits wait until they may end."""

    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self.may_end = threading.Event()
        self.may_end.set()
        self.waiting = threading.Event()

    def commit(self: Any) -> None:
        self.waiting.set()
        assert self.may_end.wait(60)
        super().commit()
        self.waiting.clear()

    @contextmanager
    def held_up(self) -> Iterator[None]:
        self.may_end.clear()
        try:
            yield
        finally:
            self.may_end.set()


def test_a_slow_disk(make):
    """Who waits for too long is told so; what was begun is kept for its id, what was not is never done."""

    async def scenario() -> None:
        store = make(Slow)
        async with inside(store, timeout=0.5) as made:
            await made.put("agent")
            with store.held_up():
                begun = asyncio.create_task(made.decide("agent", "begun"))
                assert await asyncio.to_thread(store.waiting.wait, 30)
                behind = [asyncio.create_task(made.decide("agent", f"behind{k}")) for k in range(5)]
                check_unavailable(await begun)
                assert "event_id" in (await begun).json()["detail"]
                for answer in await asyncio.gather(*behind):
                    check_unavailable(answer)
                assert store.waiting.is_set()  # all that time the disk was busy, and everybody was answered
                await check_unready(made, "longer than 0.5 s")
            late = (await made.decide("agent", "begun")).json()
            assert late["ask"] and late["number"] == 1
            await check_log(made, "begun")
            await check_ready(made)
            assert (await made.decide("agent", "behind0")).json()["number"] == 2
            await check_log(made, "begun", "behind0")

    run(scenario())


def test_too_many_wait(make, monkeypatch):
    monkeypatch.setattr(writer, "QUEUE", 5)

    async def scenario() -> None:
        store = make(Slow)
        async with inside(store) as made:
            await made.put("agent", budget={"initial": 100})
            with store.held_up():
                first = asyncio.create_task(made.decide("agent", "first"))
                assert await asyncio.to_thread(store.waiting.wait, 30)
                crowd = [asyncio.create_task(made.decide("agent", f"e{k}")) for k in range(12)]
                while sum(one.done() for one in crowd) < 7:
                    await asyncio.sleep(0.01)
                for one in (one.result() for one in crowd if one.done()):
                    check_unavailable(one)
                    assert "waiting already" in one.json()["detail"]
                await check_unready(made, "slow")
            answers = await asyncio.gather(first, *crowd)
            assert Counter(answer.status_code for answer in answers) == {200: 6, 503: 7}
            await check_log(made, "first", *(f"e{k}" for k in range(5)))

    run(scenario())


# Nobody knows what became of a commit.


class Doubtful:
    """A store that says nothing good about commits that went well."""

    error: Exception | None = None

    def commit(self: Any) -> None:
        super().commit()
        if self.error is not None:
            error, self.error = self.error, None
            raise error


@pytest.mark.parametrize("error", [StorageError("the line went dead"), RuntimeError("what nobody thought of")])
def test_a_commit_in_doubt(make, error):
    """The caller is not told to ask; the same id finds what was stored, and it was paid for once."""

    async def scenario() -> None:
        store = make(Doubtful)

        async def twice(path: str, body: Any) -> Any:
            store.error = error
            check_unavailable(await made.call("POST", path, body))
            assert store.error is None
            answers = [await made.call("POST", path, body) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [200, 200] and answers[0].content == answers[1].content
            return answers[0].json()

        async with inside(store) as made:
            await made.put("agent")
            assert (await twice("agent/decisions", {"event_id": "e"}))["number"] == 1
            assert (await made.budget("agent"))["spent"] == 1.0
            assert (await twice("agent/decisions/e/feedback", {"reward": 0.5}))["learned"]
            assert (await twice("agent/grants", {"grant_id": "g", "amount": 5}))["budget"]["granted"] == 15.0
            assert (await twice("agent/charges", {"charge_id": "c", "amount": 2}))["budget"]["spent"] == 3.0
            assert (await twice("agent/decisions", {"event_id": "held", "defer": True}))["ask"]
            assert (await twice("agent/decisions/held/release", {}))["status"] == "released"
            assert await made.budget("agent") == {"granted": 15.0, "spent": 3.0, "held": 0.0, "left": 12.0}
            (estimate,) = (await made.call("GET", "agent/estimates")).json()["estimates"]
            assert (estimate["asked"], estimate["answered"], estimate["mean"]) == (1, 1, 0.5)
            store.error = error
            check_unavailable(await made.call("PUT", "new", (await made.call("GET", "agent")).json()["body"]))
            assert (await made.call("GET", "new")).status_code == 200
            await check_ready(made)

    run(scenario())


class Broken:
    """A store that does not come to its commit."""

    broken = False

    def commit(self: Any) -> None:
        if self.broken:
            raise StorageError("the disk is on fire")
        super().commit()


def test_what_was_not_stored_is_not_remembered(make):
    """The memory of the process is not ahead of the store: it goes on from what is durable."""

    async def scenario() -> None:
        store = make(Broken)
        async with inside(store) as made:
            await made.put("agent", budget={"initial": 2})
            assert (await made.decide("agent", "e0", defer=True)).json()["ask"]
            store.broken = True
            for _ in range(3):
                check_unavailable(await made.decide("agent", "e1"))
                check_unavailable(await made.call("POST", "agent/decisions/e0/activate"))
                check_unavailable(await made.call("POST", "agent/grants", {"grant_id": "g", "amount": 7}))
                await check_unready(made, "on fire")
            store.broken = False
            assert await made.budget("agent") == {"granted": 2.0, "spent": 0.0, "held": 1.0, "left": 1.0}
            answers = [(await made.decide("agent", f"e{k}")).json() for k in range(1, 4)]
            assert [answer["ask"] for answer in answers] == [True, False, False]
            assert [answer["number"] for answer in answers] == [2, 3, 4]
            await check_ready(made)

    run(scenario())


def test_another_process_takes_the_place_of_what_was_not_stored(postgres):
    """Its records have the same numbers as those that came to nothing here."""

    class Breaking(Broken, PostgresStore):
        pass

    async def scenario() -> None:
        database = postgres.url("shared")
        store: Any = Breaking(database)
        async with inside(store) as here, inside(PostgresStore(database)) as there:
            await here.put("agent", actions=["a", "b"])
            assert (await here.decide("agent", "e0")).json()["number"] == 1
            store.broken = True
            check_unavailable(await here.decide("agent", "lost"))
            check_unavailable(await here.call("POST", "agent/decisions/e0/feedback", {"reward": 1.0}))
            store.broken = False
            assert (await there.call("POST", "agent/decisions/e0/feedback", {"reward": 0.0})).status_code == 200
            assert (await there.decide("agent", "e1")).json()["number"] == 2
            estimates = [(await one.call("GET", "agent/estimates")).json() for one in (here, there)]
            assert estimates[0] == estimates[1] and estimates[0]["estimates"][0]["mean"] == 0.0
            assert (await here.decide("agent", "lost")).json()["number"] == 3
            await check_log(here, "e0", "e1", "lost")

    run(scenario())


# A mistake of ours.


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_order_that_fails_fails_alone(make, monkeypatch, moment):
    """Even if it has changed something already."""
    decide = LiveAgent.decide

    def clumsy(live: LiveAgent, wanted: Any, event_id: str | None = None) -> Any:
        if event_id == "bad" and moment == "before":
            raise ZeroDivisionError("a mistake")
        row = decide(live, wanted, event_id)
        if event_id == "bad":
            raise ZeroDivisionError("a mistake")
        return row

    monkeypatch.setattr(LiveAgent, "decide", clumsy)

    async def scenario() -> None:
        store = make(Slow)
        async with inside(store) as made:
            await made.put("agent", budget={"initial": 100})
            await made.put("other", budget={"initial": 100})
            with store.held_up():
                first = asyncio.create_task(made.decide("agent", "first"))
                assert await asyncio.to_thread(store.waiting.wait, 30)
                names = [("agent", "bad" if k == 7 else f"e{k}") for k in range(16)] + [("other", "e")]
                batch = [asyncio.create_task(made.decide(*name)) for name in names]  # all in one batch
                while len(made.service.writer._queue) < len(batch):
                    await asyncio.sleep(0.01)
            answers = await asyncio.gather(first, *batch)
            statuses = [answer.status_code for answer in answers]
            assert statuses == [200] * 8 + [500] + [200] * 9
            assert answers[8].headers["content-type"] == "application/problem+json"
            assert "mistake" not in answers[8].text  # the details are in the log, not for everyone
            await check_log(made, "first", *(f"e{k}" for k in range(16) if k != 7))
            await check_log(made, "e", name="other")
            await check_ready(made)

    run(scenario())


def test_the_ledger_has_the_last_word(make, monkeypatch):
    """Should an agent ever want more than there is, nothing is stored and nobody is told to ask."""
    decide = Agent.decide

    def greedy(agent: Agent, context: Any = None) -> Any:
        decision = decide(agent, context)
        agent._awaited.setdefault(decision.id, (0, 0))
        return decision._replace(ask=True)

    monkeypatch.setattr(Agent, "decide", greedy)

    async def scenario() -> None:
        store = make()
        async with inside(store) as made:
            await made.put("agent", budget={"initial": 2})
            assert [(await made.decide("agent", f"e{k}")).json()["ask"] for k in range(2)] == [True, True]
            check_unavailable(await made.decide("agent", "e2"))
            check_unavailable(await made.decide("agent", "e3", defer=True))
            await check_log(made, "e0", "e1")

    run(scenario())


def test_what_another_has_written_is_not_overwritten(make):
    """Counters from before a change of someone else are refused, and with them all that goes into their log."""

    async def scenario() -> None:
        store = make()
        async with inside(store) as made:
            await made.put("agent")
            found, now = store.begin(["agent"])
            store.write([paused(found["agent"], now)])
            store.commit()
            store.begin(["agent"])
            with pytest.raises(StorageError, match=r"not what it was a moment ago|duplicate key"):
                store.write([paused(found["agent"], now)])
            store.rollback()

    run(scenario())


@pytest.mark.parametrize(
    "change", ["spent = granted + 1", "held = granted + 1", "granted = -1", "open_asks = -1", "answers = asks + 1"]
)
def test_the_schema_is_the_last_line(make, change):
    """Whoever writes it: a row that is overspent cannot be stored."""

    async def scenario() -> None:
        store = make()
        async with inside(store) as made:
            await made.put("agent")
            await made.decide("agent", "e")
            with pytest.raises(StorageError, match=r"(?i)constraint"):
                store.run(f"UPDATE agents SET {change}")
            store.rollback()

    run(scenario())


# A start with --paused, and the end.


def test_a_paused_start_loads_no_agent(make, monkeypatch):
    """However large they are: it needs their counters only, and the log says that they were paused."""
    monkeypatch.setattr(store_module, "PAUSED_AT_ONCE", 3)
    store = make()

    def too_large(*arguments: Any) -> Any:
        raise AssertionError("an agent was loaded")

    async def scenario() -> None:
        async with inside(store) as made:
            for k in range(7):
                await made.put(f"agent{k}")
                await made.decide(f"agent{k}", "e1")
            await made.call("POST", "agent3/pause")
        with monkeypatch.context() as patch:
            patch.setattr(LiveAgent, "load", too_large)
            async with inside(again(store), paused=True) as made:
                agents = (await made.call("GET", "/v1/agents")).json()["agents"]
                assert [agent["paused"] for agent in agents] == [True] * 7
        async with inside(again(store), paused=True) as made:  # a second time changes nothing
            for k in range(7):
                log = (await made.call("GET", f"agent{k}/log")).text
                assert log.count('"kind":"pause"') == 1
                told = (await made.decide(f"agent{k}", "e2")).json()
                assert (told["ask"], told["reason"], told["number"]) == (False, "paused", 2)
            assert (await made.call("POST", "agent0/resume")).json()["paused"] is False
            assert (await made.decide("agent0", "e3")).json()["ask"]

    run(scenario())


def again(store: Any) -> Any:
    """Another store on the same database."""
    return type(store)(store.data) if isinstance(store, SqliteStore) else type(store)(store.url)


def test_an_end_saves_many_snapshots_in_one_transaction(make):
    commits: list[int] = []

    class Counting:
        def commit(self) -> None:
            commits.append(1)
            super().commit()  # type: ignore[misc]

    store = make(Counting)

    async def scenario() -> None:
        async with inside(store) as made:
            await asyncio.gather(*(made.put(f"agent{k}") for k in range(250)))
            await asyncio.gather(*(made.decide(f"agent{k}", "e1") for k in range(250)))
            commits.clear()
        assert 3 <= len(commits) <= 5  # three with snapshots, one with the time, and maybe one that was under way
        opened = again(store)
        opened.open()
        with opened.reader() as read:
            assert read("SELECT COUNT(*) FROM snapshots")[0][0] == 250
        opened.close()

    run(scenario())


def test_an_end_does_not_wait_for_all_snapshots(make, monkeypatch):
    """What is not saved in time is made from the log again."""
    monkeypatch.setattr(writer, "STOP", -1.0)
    store = make()

    async def scenario() -> None:
        async with inside(store) as made:
            await made.put("agent")
            await made.decide("agent", "e1")
        async with inside(again(store)) as made:
            assert (await made.decide("agent", "e2")).json()["number"] == 2

    run(scenario())


# Data that somebody else has changed.


@pytest.mark.parametrize("column", ["granted", "spent", "held", "asks", "answers"])
@pytest.mark.parametrize("when", ["running", "stopped"])
def test_an_agent_that_does_not_agree_with_its_log_asks_nothing(make, column, when):
    """It is noticed when the agent is loaded, while it is live, and by a look at all agents; others go on."""
    store = make()
    change = f"UPDATE agents SET {column} = {column} + {{}} WHERE name = 'agent'"

    async def tamper(amount: int) -> None:
        opened = store if when == "running" else again(store)
        if when == "stopped":
            opened.open()
        opened.begin([])
        opened.run(change.format(amount))
        opened.commit()
        if when == "stopped":
            opened.close()

    async def use(made: Inside) -> None:
        check_unavailable(await made.decide("agent", "e2"))
        assert (await made.decide("other", "e2")).json()["ask"]
        await check_unready(made, "do not agree")
        assert "sparingly_damaged_agents 1.0" in (await made.call("GET", "/metrics")).text

    async def scenario() -> None:
        async with inside(store) as made:
            for name in ("agent", "other"):
                await made.put(name, budget={"initial": 10})
                for event in ("e0", "e1"):
                    await made.decide(name, event)
            await made.call("POST", "agent/decisions/e0/feedback", {"reward": 1.0})
            if when == "running":
                await tamper(1 if column == "answers" else -1 if column in ("spent", "asks") else 1)
                await use(made)
        if when == "stopped":
            await tamper(1 if column == "answers" else -1 if column in ("spent", "asks") else 1)
            async with inside(again(store)) as made:
                while not made.service.writer.damaged:  # the first look is taken soon after the start
                    await asyncio.sleep(0.01)
                await use(made)

    run(scenario())
