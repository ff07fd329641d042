"""Processes that forward requests to the one in which an agent is at home, and do without it if they must."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sparingly.errors import InvalidInput
from sparingly.serve import run
from sparingly.serve.peers import Connection, Peers
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.verify import verify_store
from tests.serve.crashing import quiet_port
from tests.serve.inside import AGENT
from tests.serve.postgres import postgres
from tests.serve.serving import Running, call, running

__all__ = ["postgres"]  # a fixture
NAMES = [f"agent-{n}" for n in range(8)]
TOKEN = "a-token-of-thirty-two-characters"


@dataclass
class Two:
    """Two processes on one database, as each other's peers."""

    first: Running
    second: Running
    database: str

    def decide(self, service: Running, name: str, body: dict[str, Any], token: str = TOKEN) -> Any:
        status, answer = call("POST", f"{service.url}/v1/agents/{name}/decisions", body, token)
        assert status == 200, answer
        return answer


def metric(service: Running, name: str) -> float:
    request = urllib.request.Request(f"{service.url}/metrics", headers={"authorization": f"Bearer {TOKEN}"})
    text = urllib.request.urlopen(request, timeout=30).read().decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)", text, flags=re.MULTILINE)[1])  # type: ignore[index]


@contextmanager
def two(database: str, folder: Path) -> Iterator[Two]:
    file = folder / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    with ExitStack() as stack:
        made = []
        for _ in range(2):
            port = quiet_port()
            options = ("--port", str(port), "--peer", f"http://127.0.0.1:{port}", "--token-file", str(file))
            made.append(stack.enter_context(running("--database", database, *options)))
        until = time.monotonic() + 30
        while any(metric(service, "sparingly_processes") < 2 for service in made):
            assert time.monotonic() < until, "they do not find each other"
            time.sleep(0.05)
        yield Two(*made, database)


@pytest.fixture
def pair(postgres, tmp_path) -> Iterator[Two]:
    with two(postgres.url("peers"), tmp_path) as made:
        for name in NAMES:
            assert call("PUT", f"{made.first.url}/v1/agents/{name}", AGENT, TOKEN)[0] == 201
        yield made


def test_an_agent_lives_in_one_process(pair):
    """Whoever is called, and whatever is wanted: the answer comes from one process, and is what it would be there."""
    for n in range(4):
        for name in NAMES:
            services = (pair.first, pair.second) if n % 2 else (pair.second, pair.first)
            answers = [pair.decide(service, name, {"event_id": f"e{n}"}) for service in services]
            assert answers[0] == answers[1] and answers[0]["number"] == n + 1
    lives = [metric(service, "sparingly_live_agents") for service in (pair.first, pair.second)]
    assert sum(lives) == len(NAMES) and min(lives) > 0
    assert all(
        metric(service, 'sparingly_forwarded_total{outcome="answered"}') > 0 for service in (pair.first, pair.second)
    )
    one, other = f"{pair.first.url}/v1/agents/{NAMES[0]}", f"{pair.second.url}/v1/agents/{NAMES[0]}"
    for url in (one, other):
        assert call("POST", f"{url}/decisions/e0/feedback", {"reward": 1.0}, TOKEN)[0] == 200
        assert call("GET", f"{url}/estimates", token=TOKEN)[1]["estimates"][0]["mean"] == 1.0
        assert call("POST", f"{url}/decisions", {"event_id": "e9", "what": 1}, TOKEN)[0] == 422
        assert call("POST", f"{url}/grants", {"grant_id": "g", "amount": 3}, TOKEN)[1]["budget"]["granted"] == 13.0
        assert call("DELETE", f"{url}?confirm=another", token=TOKEN)[0] == 422
    assert (
        call("POST", f"{pair.first.url}/v1/tokens", {"name": "ada", "scopes": ["decide"], "agents": NAMES[:4]}, TOKEN)[
            0
        ]
        == 201
    )


def test_who_wanted_it_is_known_where_it_is_done(pair):
    status, made = call(
        "POST", f"{pair.first.url}/v1/tokens", {"name": "ada", "scopes": ["decide"], "agents": NAMES[:7]}, TOKEN
    )
    assert status == 201
    time.sleep(2.5)  # until the other process has read it
    for name in NAMES[:7]:
        for n, service in enumerate((pair.first, pair.second)):
            pair.decide(service, name, {"event_id": f"e{n}"}, made["token"])
    for service in (pair.first, pair.second):
        refused = call("POST", f"{service.url}/v1/agents/{NAMES[7]}/decisions", {}, made["token"])
        assert refused[0] == 403
        assert call("POST", f"{service.url}/v1/agents/{NAMES[0]}/decisions", {}, "wrong")[0] == 401
    with reading(pair.database) as read:
        assert {row[0] for row in read("SELECT DISTINCT who FROM decisions")} == {"ada"}


@contextmanager
def reading(url: str) -> Iterator[Any]:
    store = PostgresStore(url)
    store.open_to_read()
    try:
        with store.reader() as read:
            yield read
    finally:
        store.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_is_gone_is_passed_over(pair, how):
    """Nobody is told to come back later: what was decided there stays, and the other process goes on with it."""
    for name in NAMES:
        pair.decide(pair.first, name, {"event_id": "e0"})
    os.kill(pair.second.process.pid, how)
    began = time.monotonic()
    try:
        for name in NAMES:
            assert pair.decide(pair.first, name, {"event_id": "e0"})["number"] == 1
            assert pair.decide(pair.first, name, {"event_id": "e1"})["number"] == 2
        assert time.monotonic() - began < 20.0
        assert metric(pair.first, 'sparingly_forwarded_total{outcome="lost"}') >= 1
        assert metric(pair.first, "sparingly_live_agents") == len(NAMES)
    finally:
        os.kill(pair.second.process.pid, signal.SIGCONT)
    store, said = PostgresStore(pair.database), list[str]()
    store.open_to_read()
    assert verify_store(store, said.append) == 0, said
    store.close()


def test_homes_are_spread_and_move_only_if_they_must():
    addresses = [f"http://10.0.0.{n}:8000" for n in range(1, 4)]
    made = [Peers(address) for address in addresses]
    for peers in made:
        peers.take(addresses)
    names = [f"agent-{n}" for n in range(300)]
    homes = [[peers.home(name) for name in names] for peers in made]
    assert homes[0] == homes[1] == homes[2]
    assert all(60 < count < 140 for count in Counter(homes[0]).values()) and len(set(homes[0])) == 3
    made[0].take(addresses[:2])
    after = [made[0].home(name) for name in names]
    assert all(new == old for new, old in zip(after, homes[0], strict=True) if old != addresses[2])
    made[0].take([*addresses, "ftp://elsewhere", "http://10.0.0.9:80/path"])
    assert made[0].addresses == tuple(addresses)


def test_a_decision_without_an_id_is_not_made_twice(postgres, tmp_path):
    """Nobody knows whether a process that takes a request and is silent has decided."""
    silent = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{silent.getsockname()[1]}"
    port, database = quiet_port(), postgres.url("silent")
    with (
        silent,
        running("--database", database, "--port", str(port), "--peer", f"http://127.0.0.1:{port}") as service,
    ):
        store = PostgresStore(database)
        store.open()
        store.begin([])
        store.show_life(f"peer {address}", store.time.now() + 3_600_000_000)
        store.commit()
        store.close()
        known = Peers(f"http://127.0.0.1:{port}")
        known.take([address])
        there, also = [name for name in (f"agent-{n}" for n in range(40)) if not known.is_home(name)][:2]
        time.sleep(2.5)
        assert call("PUT", f"{service.url}/v1/agents/{there}", AGENT)[0] == 201  # after two seconds, and not there
        assert call("PUT", f"{service.url}/v1/agents/{also}", AGENT)[0] == 201
        time.sleep(5.0)  # until it is tried again
        status, refused = call("POST", f"{service.url}/v1/agents/{there}/decisions", {"payload": "x"})
        assert status == 503 and "event_id of your own" in refused["detail"]
        assert call("POST", f"{service.url}/v1/agents/{there}/decisions", {"payload": "x"})[0] == 200
        assert call("GET", f"{service.url}/v1/agents/{there}")[1]["decisions"] == 1


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
