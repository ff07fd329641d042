"""Processes that forward requests to the one in which an agent is at home, and do without it if they must."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sparingly.errors import InvalidInput
from sparingly.serve import peers, run
from sparingly.serve.http_errors import Unavailable
from sparingly.serve.peers import Connection, Peers
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.verify import verify_store
from tests.serve.crashing import Life, Nursery, nursery, quiet_port
from tests.serve.inside import AGENT
from tests.serve.postgres import postgres
from tests.serve.serving import call

__all__ = ["postgres"]  # a fixture
NAMES = [f"agent-{n}" for n in range(8)]
TOKEN = "a-token-of-thirty-two-characters"
ANSWERED = 'sparingly_forwarded_total{outcome="answered"}'
LOST = 'sparingly_forwarded_total{outcome="lost"}'


@dataclass
class Two:
    """Two processes on one database, as each other's peers."""

    made: Nursery
    first: Life
    second: Life
    database: str

    def call(self, life: Life, method: str, path: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
        return call(method, f"http://127.0.0.1:{life.port}/v1/agents/{path}", body, token)

    def decide(self, life: Life, name: str, event_id: str, token: str = TOKEN) -> Any:
        status, answer = self.call(life, "POST", f"{name}/decisions", {"event_id": event_id}, token)
        assert status == 200, answer
        return answer

    def insist(self, life: Life, name: str, event_id: str) -> Any:
        """The same, again and again while the answer is 503."""
        until = time.monotonic() + 30
        while True:
            status, answer = self.call(life, "POST", f"{name}/decisions", {"event_id": event_id})
            if status == 200:
                return answer
            assert status == 503 and time.monotonic() < until, answer

    def await_both(self) -> None:
        for life in (self.first, self.second):
            await_processes(life, 2)


def metric(life: Life, name: str) -> float:
    url = f"http://127.0.0.1:{life.port}/metrics"
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {TOKEN}"})
    text = urllib.request.urlopen(request, timeout=30).read().decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)", text, flags=re.MULTILINE)[1])  # type: ignore[index]


def two_homes() -> list[Life]:
    """Ports with which some agents are at home in either process; one in 128 pairs of ports has none in one of them."""
    while True:
        lives = [Life(quiet_port()) for _ in range(2)]
        known = Peers(f"http://127.0.0.1:{lives[0].port}")
        known.take([f"http://127.0.0.1:{lives[1].port}"])
        if 2 <= sum(map(known.is_home, NAMES)) <= len(NAMES) - 2 and not known.is_home(NAMES[0]):
            return lives


@pytest.fixture(scope="module")
def both(postgres, tmp_path_factory) -> Iterator[Two]:
    folder, database = tmp_path_factory.mktemp("peers"), postgres.url("peers")
    with nursery(folder, database=database, peers=True, token=TOKEN) as made:
        lives = two_homes()
        for life in lives:
            made.bear(life)
        for life in lives:
            made.await_service(life)
        yield Two(made, *lives, database)


@pytest.fixture
def pair(both) -> Iterator[Two]:
    """The two, with new agents."""
    both.await_both()
    for name in NAMES:
        assert both.call(both.first, "PUT", name, AGENT)[0] == 201
    yield both
    for name in NAMES:
        status, answer = both.call(both.first, "DELETE", f"{name}?confirm={name}")
        assert status == 200, (answer, both.made.complaints())


def test_an_agent_lives_in_one_process(pair):
    """Whoever is called, and whatever is wanted: the answer comes from one process, and is what it would be there."""
    lives = (pair.first, pair.second)
    for n in range(4):
        for name in NAMES:
            answers = [pair.decide(life, name, f"e{n}") for life in (lives if n % 2 else lives[::-1])]
            assert answers[0] == answers[1] and answers[0]["number"] == n + 1
    loaded = [metric(life, "sparingly_live_agents") for life in lives]
    assert sum(loaded) == len(NAMES) and min(loaded) > 0
    assert all(metric(life, ANSWERED) > 0 for life in lives)
    name = NAMES[0]
    for life in lives:
        assert pair.call(life, "POST", f"{name}/decisions/e0/feedback", {"reward": 1.0})[0] == 200
        assert pair.call(life, "GET", f"{name}/estimates")[1]["estimates"][0]["mean"] == 1.0
        assert pair.call(life, "POST", f"{name}/decisions", {"event_id": "e9", "what": 1})[0] == 422
        assert pair.call(life, "POST", f"{name}/grants", {"grant_id": "g", "amount": 3})[1]["budget"]["granted"] == 13
        assert pair.call(life, "DELETE", f"{name}?confirm=another")[0] == 422


def test_who_wanted_it_is_known_where_it_is_done(pair):
    wanted = {"name": "ada", "scopes": ["decide"], "agents": NAMES[:7]}
    status, made = call("POST", f"http://127.0.0.1:{pair.first.port}/v1/tokens", wanted, TOKEN)
    assert status == 201
    time.sleep(2.5)  # until the other process has read it
    for name in NAMES[:7]:
        for n, life in enumerate((pair.first, pair.second)):
            pair.decide(life, name, f"e{n}", made["token"])
    for life in (pair.first, pair.second):
        assert pair.call(life, "POST", f"{NAMES[7]}/decisions", {}, made["token"])[0] == 403
        assert pair.call(life, "POST", f"{NAMES[0]}/decisions", {}, "wrong")[0] == 401
    with opened(pair.database) as store, store.reader() as read:
        sql = "SELECT DISTINCT who, event_id FROM decisions JOIN agents ON id = agent WHERE name = ?"
        assert sorted(read(sql, (NAMES[0],))) == [("ada", "e0"), ("ada", "e1")]


@contextmanager
def opened(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    store.open_to_read()
    with closing(store):
        yield store


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_process_that_is_gone_is_passed_over(pair, how):
    """What was decided there stays, and the other process goes on; if it only hangs, after some seconds of 503."""
    answered, until = metric(pair.first, ANSWERED), time.monotonic() + 30
    while metric(pair.first, ANSWERED) == answered:  # it is avoided for a while, if it was gone before
        assert time.monotonic() < until
        for name in NAMES:
            pair.decide(pair.first, name, "e0")
    lost = metric(pair.first, LOST)
    os.kill(pair.second.pid, how)
    began = time.monotonic()
    try:
        for name in NAMES:
            assert pair.insist(pair.first, name, "e0")["number"] == 1
            assert pair.insist(pair.first, name, "e1")["number"] == 2
        assert time.monotonic() - began < 30.0
        assert metric(pair.first, LOST) > lost
    finally:
        if how == signal.SIGKILL:
            pair.made.bear(pair.second)
            pair.made.await_service(pair.second)
        else:
            os.kill(pair.second.pid, signal.SIGCONT)
    for name in NAMES:
        assert pair.insist(pair.second, name, "e1")["number"] == 2
    said: list[str] = []
    with opened(pair.database) as store:
        assert verify_store(store, said.append) == 0, said


def test_a_process_on_another_database_is_passed_over(pair, postgres, tmp_path):
    """An address that leads to another service, as after a slip, gets nothing that is meant for this one."""
    port = quiet_port()
    with nursery(tmp_path, database=postgres.url("another"), peers=True, token=TOKEN) as made:
        other = Life(port)
        made.bear(other)
        made.await_service(other)
        address = f"http://127.0.0.1:{port}"
        with announced(pair.database, address):
            await_processes(pair.first, 3)
            for n in range(20):
                name = f"mine-{n}"
                assert pair.call(pair.first, "PUT", name, AGENT)[0] == 201
                assert pair.call(pair.first, "GET", name)[0] == 200 and pair.call(other, "GET", name)[0] == 404
        assert call("GET", f"{address}/v1/agents", token=TOKEN)[1]["agents"] == []


def test_homes_are_spread_and_move_only_if_they_must():
    addresses = [f"http://10.0.0.{n}:8000" for n in range(1, 4)]
    made = [Peers(address) for address in addresses]
    for one in made:
        one.take(addresses)
    names = [f"agent-{n}" for n in range(300)]
    homes = [[one.home(name) for name in names] for one in made]
    assert homes[0] == homes[1] == homes[2]
    assert all(60 < count < 140 for count in Counter(homes[0]).values()) and len(set(homes[0])) == 3
    made[0].take(addresses[:2])
    after = [made[0].home(name) for name in names]
    assert all(new == old for new, old in zip(after, homes[0], strict=True) if old != addresses[2])
    made[0].take([*addresses, "ftp://elsewhere", "http://10.0.0.9:80/path"])
    assert made[0].addresses == tuple(addresses)


@contextmanager
def announced(database: str, address: str) -> Iterator[None]:
    """A sign of life of a process that is not one of them."""
    with closing(PostgresStore(database)) as store:
        store.open()
        store.begin([])
        store.show_life(f"peer {address}", store.time.now() + 60_000_000)
        store.commit()
        yield
        store.begin([])
        store.forget_life(f"peer {address}")
        store.commit()


def await_processes(life: Life, count: int) -> None:
    until = time.monotonic() + 30
    while metric(life, "sparingly_processes") < count:
        assert time.monotonic() < until, "they do not find each other"
        time.sleep(0.05)


@contextmanager
def broken(database: str) -> Iterator[str]:
    """A peer that takes requests and hangs up; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def take() -> None:
            with suppress(OSError):
                while True:
                    with listening.accept()[0] as connection:
                        connection.recv(65_536)

        threading.Thread(target=take, daemon=True).start()
        with announced(database, address):
            yield address
        listening.shutdown(socket.SHUT_RDWR)


def test_a_decision_without_an_id_is_not_made_twice(pair):
    """Nobody knows whether a process that takes a request and goes away has decided."""
    with broken(pair.database) as address:
        await_processes(pair.first, 3)
        known = Peers(f"http://127.0.0.1:{pair.first.port}")
        known.take([f"http://127.0.0.1:{pair.second.port}", address])
        there = next(name for name in (f"other-{n}" for n in range(99)) if known.home(name) == address)
        until = time.monotonic() + 30
        while (answer := pair.call(pair.first, "POST", f"{there}/decisions", {"payload": "x"}))[0] == 404:
            assert time.monotonic() < until, "the first process does not hear of the one that hangs up"
            time.sleep(0.05)
        status, refused = answer
        assert status == 503 and "event_id of your own" in refused["detail"]
        assert pair.call(pair.first, "PUT", there, AGENT)[0] == 201  # it is passed over for a while
        lost, until = metric(pair.first, LOST), time.monotonic() + 30
        while metric(pair.first, LOST) == lost:  # it is tried again, and with an id it is done here at once
            assert pair.decide(pair.first, there, "e")["number"] == 1 and time.monotonic() < until
            time.sleep(0.2)


def test_work_is_not_done_elsewhere_because_a_process_is_slow(monkeypatch):
    """If all of them are slow, that would make them slower still."""
    monkeypatch.setattr(peers, "PATIENCE", 0.05)

    async def check() -> None:
        connection = Connection()
        connection.connection_made(Wire())  # type: ignore[arg-type]
        with pytest.raises(Unavailable, match="did not answer within"):
            await connection.send(b"request")
        gone = asyncio.create_task(connection.send(b"request"))
        await asyncio.sleep(0)
        connection.give_up()
        with pytest.raises(peers.Lost):
            await gone

    asyncio.run(check())


def test_an_answer_in_pieces_is_put_together():
    async def check() -> None:
        connection, wire = Connection(), Wire()
        connection.connection_made(wire)  # type: ignore[arg-type]
        sending = asyncio.create_task(connection.send(b"request"))
        await asyncio.sleep(0)
        text = b"HTTP/1.1 201 Created\r\ncontent-type: a/b\r\nretry-after: 3\r\ncontent-length: 5\r\n\r\nhello"
        for n in range(len(text)):
            assert not sending.done()
            connection.data_received(text[n : n + 1])
        answer = await sending
        assert (answer.status, answer.body, answer.kind) == (201, b"hello", b"a/b")
        assert answer.headers == ((b"retry-after", b"3"),)

    asyncio.run(check())


class Wire:
    def write(self, data: bytes) -> None:
        assert data == b"request"


def test_what_cannot_be_an_address_is_refused():
    for address in ("10.0.0.5:8000", "https://10.0.0.5:8000", "http://10.0.0.5", "http://a:1/x", "http://a b:1"):
        with pytest.raises(InvalidInput, match="--peer must be"):
            run.serve(None, "postgresql://nobody@localhost/x", "127.0.0.1", 0, None, peer=address)
    with pytest.raises(InvalidInput, match="only one process"):
        run.serve(Path("x"), None, "127.0.0.1", 0, None, peer="http://10.0.0.5:8000")
