"""Ways around the guards, and what must not take an agent down: each was possible once."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from urllib.parse import urlsplit

import pytest

from sparingly.serve import connections, queries, store, writer
from sparingly.serve.app import Service
from sparingly.serve.live_agent import LiveAgent
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import SqliteStore
from tests.serve.inside import inside
from tests.serve.postgres import postgres
from tests.serve.serving import running, serving
from tests.serve.test_api import ARMS, LINEAR, ROWS, ask, driving
from tests.serve.test_model import Driver

__all__ = ["postgres"]  # a fixture
TOKEN = "a-token-of-thirty-two-characters"


def raw(url: str, text: bytes, patience: float = 10.0) -> bytes:
    """Send bytes as they are; what comes back until the other side is silent or hangs up."""
    parts = urlsplit(url)
    got = b""
    with socket.create_connection((parts.hostname, parts.port), timeout=patience) as stream:
        try:
            stream.sendall(text)
            while b"\r\n\r\n" not in got:
                piece = stream.recv(65_536)
                if not piece:
                    break
                got += piece
        except OSError:
            pass
    return got


def line(method: str, target: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    file = folder / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    with serving("--data", str(folder / "data"), "--port", "0", "--token-file", str(file)) as url:
        yield url


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "*/v1/agents"), ("GET", "*/metrics"), ("DELETE", "*/v1/agents/x?confirm=x"), ("GET", "x/v1/agents"),
        ("GET", "//v1/agents"), ("GET", "/v1/agents"), ("GET", "/V1/agents"), ("GET", "/%761/agents"), ("GET", "/v1"),
        ("GET", "/metrics"), ("GET", "/metrics/"), ("GET", "http://localhost/v1/agents"), ("GET", "/./v1/agents"),
    ],
)  # fmt: skip
def test_no_path_leads_past_the_token(guarded, method, target):
    status = int(raw(guarded, line(method, target)).split(b" ")[1])
    assert status in (400, 401), target


def test_the_token_opens(guarded):
    assert raw(guarded, line("GET", "/v1/agents", f"Authorization: Bearer {TOKEN}")).startswith(b"HTTP/1.1 200")
    assert raw(guarded, line("GET", "/healthz")).startswith(b"HTTP/1.1 200")


def test_no_page_from_elsewhere_can_act_without_a_token(tmp_path):
    with serving("--data", str(tmp_path), "--port", "0") as url:
        for origin, status in (("http://evil.example", 421), ("null", 421), ("http://localhost", 404)):
            for step in ("pause", "resume"):
                request = line("POST", f"/v1/agents/x/{step}", f"Origin: {origin}", "Content-Length: 0")
                assert raw(url, request).split(b" ")[1] == str(status).encode(), (origin, step)


def test_headers_without_end_are_hung_up_on(tmp_path):
    with serving("--data", str(tmp_path), "--port", "0") as url:
        answer = raw(url, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 3_000_000)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
        assert b" 413 " in raw(url, line("POST", "/v1/agents/x/grants", "Content-Length: " + "0" * 5_000 + "99999999"))
        assert raw(url, line("GET", "/healthz")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("lost", ["sparingly.sqlite", "sparingly.sqlite-wal", "sparingly.lock"])
def test_nothing_is_asked_once_a_file_is_gone(tmp_path, lost):
    with driving(tmp_path) as driver:
        ask(driver, "PUT", "/v1/agents/one", ARMS, 201)
        (tmp_path / lost).unlink()
        body = {"event_id": "e", "context": "x"}
        told = ask(driver, "POST", "/v1/agents/one/decisions", body, 503)
        assert "nothing is asked" in told["detail"]


def test_a_snapshot_that_cannot_be_stored_stands_in_nobodys_way(tmp_path, monkeypatch):
    def full(self, *arguments):
        raise store.StorageError("no room for a snapshot")

    monkeypatch.setattr(writer, "SNAPSHOT", 3)
    monkeypatch.setattr(SqliteStore, "save_snapshot", full)
    with driving(tmp_path) as driver:
        ask(driver, "PUT", "/v1/agents/one", ARMS, 201)
        for t in range(10):
            ask(driver, "POST", "/v1/agents/one/decisions", {"event_id": f"e{t}", "context": "x"})


@pytest.mark.parametrize("text", ["", "{}", '{"format": "sparingly agent", "version": 99}'])
def test_a_snapshot_that_cannot_be_read_is_replaced_by_the_log(tmp_path, text):
    with driving(tmp_path) as driver:
        ask(driver, "PUT", "/v1/agents/one", ARMS, 201)
        for t in range(5):
            ask(driver, "POST", "/v1/agents/one/decisions", {"event_id": f"e{t}", "context": "x"})
        before = ask(driver, "GET", "/v1/agents/one/estimates")
        driver.restart(0)
        with driver.services[0].store.reader() as read:
            assert read("SELECT COUNT(*) FROM snapshots")[0][0] == 1
        driver.services[0].store.run("UPDATE snapshots SET body = ?", (text,))
        assert ask(driver, "GET", "/v1/agents/one/estimates") == before


def test_many_leases_expire_bit_by_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SWEEP", 4)
    with driving(tmp_path) as driver:
        body = {**ARMS, "lease": 0.2, "budget": {"initial": 1e6}, "rule": {"type": "Always"}}
        ask(driver, "PUT", "/v1/agents/one", body, 201)
        for t in range(10):
            ask(driver, "POST", "/v1/agents/one/decisions", {"event_id": f"e{t}", "context": "x", "defer": True})
        held = []
        for _ in range(60):
            held.append(ask(driver, "GET", "/v1/agents/one")["held"])
            if held[-1] == 0:
                break
            driver.runner.run(asyncio.sleep(0.1))
        assert held[-1] == 0
        assert ask(driver, "GET", "/v1/agents/one")["budget"]["held"] == 0.0


def test_a_deleted_agent_is_gone_at_once_and_its_records_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SLICE", 3)
    with driving(tmp_path) as driver:
        ask(driver, "PUT", "/v1/agents/one", ARMS, 201)
        for t in range(10):
            ask(driver, "POST", "/v1/agents/one/decisions", {"event_id": f"e{t}", "context": "x"})
        ask(driver, "DELETE", "/v1/agents/one?confirm=one")
        ask(driver, "GET", "/v1/agents/one", status=404)
        assert ask(driver, "GET", "/v1/agents") == {"agents": [], "next": None}
        driver.restart(0)  # what was left to do goes on
        ask(driver, "PUT", "/v1/agents/one", ARMS, 201)
        for _ in range(100):
            with driver.services[0].store.reader() as read:
                left = read("SELECT COUNT(*) FROM decisions")[0][0], read("SELECT COUNT(*) FROM agents")[0][0]
            if left == (0, 1):
                break
            driver.runner.run(asyncio.sleep(0.1))
        assert left == (0, 1)
        assert ask(driver, "GET", "/v1/agents/one")["decisions"] == 0


def test_the_records_of_a_deleted_agent_go_on_postgres_too(postgres, monkeypatch):
    """A word of PostgreSQL's own in a query made each attempt fail, and whoever called at that moment got 503."""
    monkeypatch.setattr(store, "SLICE", 3)

    async def check() -> None:
        async with inside(PostgresStore(postgres.url("purge"))) as made:
            await made.put("one")
            await made.put("other", budget={"initial": 1_000})
            for t in range(7):
                await made.decide("one", f"e{t}")
                await made.call("POST", f"one/decisions/e{t}/feedback", {"reward": 1.0})
            await made.call("DELETE", "one?confirm=one")
            for t in range(200):
                assert (await made.decide("other", f"e{t}")).status_code == 200
                assert made.service.writer.storage_error == ""
                with made.service.store.reader() as read:
                    if read("SELECT COUNT(*) FROM agents") == [(1,)]:
                        break
                await asyncio.sleep(0.05)
            else:
                raise AssertionError("they are still there")

    asyncio.run(check())


def test_answers_are_the_same_after_a_restart(tmp_path):
    with driving(tmp_path) as driver:
        ask(driver, "PUT", "/v1/agents/two", {**LINEAR, "rewards": {"low": -1.0, "high": 1.0}}, 201)
        ask(driver, "POST", "/v1/agents/two/decisions", {"event_id": "e", "features": ROWS})
        path = "/v1/agents/two/decisions/e/feedback"
        first = driver.call(0, "POST", path, {"reward": -0.0})
        estimates = ask(driver, "GET", "/v1/agents/two/estimates")
        assert len(estimates["estimates"]) == 2
        driver.restart(0)
        assert driver.call(0, "POST", path, {"reward": -0.0}) == first
        assert ask(driver, "GET", "/v1/agents/two/estimates") == estimates


def test_the_log_alone_gives_the_agent_again(tmp_path):
    """With what is rare in the random walks of the model: a release, and an answer that is too late to be learnt."""
    driver = Driver(lambda clock: SqliteStore(tmp_path, clock), 1)
    try:
        keep = {"close_after": 5.0, "late": "keep"}
        ask(driver, "PUT", "/v1/agents/one", {**ARMS, "rule": {"type": "Always"}, "unanswered": keep}, 201)
        for event, defer in (("held", True), ("late", False), ("open", False)):
            body = {"event_id": event, "context": "x", "defer": defer}
            assert ask(driver, "POST", "/v1/agents/one/decisions", body)["ask"]
        ask(driver, "POST", "/v1/agents/one/decisions/held/release")
        driver.now += 10_000_000
        assert not ask(driver, "POST", "/v1/agents/one/decisions/late/feedback", {"reward": 2.0})["learned"]
        with driver.services[0].store.reader() as read:
            record = queries.read_agents(read, "one")[0]
            records = list(queries.read_log(read, record.id, 0, record.seq))
            queries.read_answers(read, record.id, records)
        replayed, live = LiveAgent.load(record), driver.services[0].writer.live_agent(record)
        replayed.apply(records)
        assert replayed.snapshot() == live.snapshot()
        assert (live.agent.asked.sum(), live.agent.answered.sum()) == (2, 0)
    finally:
        driver.close()


def test_a_page_of_large_payloads_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(queries, "CHUNK_BYTES", 1_000)
    with driving(tmp_path) as driver:
        body = {**ARMS, "budget": {"initial": 1e6}, "rule": {"type": "Always"}}
        ask(driver, "PUT", "/v1/agents/one", body, 201)
        for t in range(7):
            payload = "x" * (400 if t != 4 else 5_000)
            ask(driver, "POST", "/v1/agents/one/decisions", {"event_id": f"e{t}", "context": "x", "payload": payload})
        sizes, numbers, after = [], [], 0
        while after is not None:
            page = ask(driver, "GET", f"/v1/agents/one/asks?after={after}")
            numbers += [event["number"] for event in page["events"]]
            sizes.append(len(page["events"]))
            after = page["next"]
        assert numbers == list(range(1, 8))
        assert sizes == [2, 2, 1, 2]
        assert len(ask(driver, "GET", "/v1/agents/one/decisions?payload=false")["events"]) == 7
        lines = driver.call(0, "GET", "/v1/agents/one/log")[1].splitlines()
        assert [json.loads(text)["seq"] for text in lines] == list(range(8))


def test_a_chunk_of_the_log_is_limited_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(queries, "CHUNK_BYTES", 1_000)
    with driving(tmp_path) as driver:
        ask(driver, "PUT", "/v1/agents/one", ARMS, 201)
        for t in range(4):
            body = {"event_id": f"e{t}", "context": "x", "payload": "x" * 400}
            ask(driver, "POST", "/v1/agents/one/decisions", body)
        with driver.services[0].store.reader() as read:
            chunks, after = [], 0
            while after < 4:
                records, after = queries.read_log_chunk(read, 1, after, 4)
                chunks.append([record.seq for record in records])
    assert chunks == [[1, 2], [3, 4]]


def test_agents_are_listed_by_pages_that_are_limited_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(queries, "CHUNK_BYTES", 3_000)
    with driving(tmp_path) as driver:
        names = [f"agent{k}" for k in range(9)]
        for name in names:
            ask(driver, "PUT", f"/v1/agents/{name}", {**ARMS, "description": "x" * 1_000}, 201)
        ask(driver, "DELETE", "/v1/agents/agent4?confirm=agent4")
        for query in ("", "&limit=1"):
            found, sizes, after = [], [], ""
            while after is not None:
                page = ask(driver, "GET", f"/v1/agents?after={after}{query}")
                found += [agent["name"] for agent in page["agents"]]
                sizes.append(len(page["agents"]))
                after = page["next"]
            assert found == [name for name in names if name != "agent4"]
            assert max(sizes) == (1 if query else 2)
        assert ask(driver, "GET", "/v1/agents?after=zzz") == {"agents": [], "next": None}
        assert "next" in ask(driver, "GET", "/v1/agents?after=%00", None, 422)["detail"]


def test_metrics_read_a_body_once(tmp_path, monkeypatch):
    """Bodies may be large, and never change."""
    read: list[int] = []
    real = queries.read_body
    monkeypatch.setattr(queries, "read_body", lambda select, agent: read.append(agent) or real(select, agent))
    with driving(tmp_path) as driver:
        growing = {**ARMS, "budget": {"initial": 3, "growth": {"by": "decisions", "rate": 0.5}}}
        for name in ("one", "two"):
            ask(driver, "PUT", f"/v1/agents/{name}", growing, 201)
        for _ in range(3):
            text = driver.call(0, "GET", "/metrics")[1].decode()
            assert 'sparingly_agent_granted{agent="one"} 3.0' in text
        assert sorted(read) == [1, 2]
        ask(driver, "DELETE", "/v1/agents/one?confirm=one")
        ask(driver, "PUT", "/v1/agents/one", {**growing, "budget": {"initial": 4}}, 201)
        assert 'sparingly_agent_granted{agent="one"} 4.0' in driver.call(0, "GET", "/metrics")[1].decode()


def test_greedy_may_not_fill_the_memory(tmp_path):
    with driving(tmp_path) as driver:
        many = {"learner": {"type": "UCB1"}, "actions": [f"a{i}" for i in range(100)], "contexts": list("abcdefghij")}
        body = {**many, "contexts": [f"c{i}" for i in range(500)], "rule": {"type": "Greedy", "policies": 64}}
        assert "Greedy" in ask(driver, "PUT", "/v1/agents/one", body, 422)["detail"]
        ask(driver, "PUT", "/v1/agents/two", {**many, "rule": {"type": "Greedy", "policies": 64}}, 201)


def test_whatever_is_logged_is_json(tmp_path):
    with running("--data", str(tmp_path), "--port", "0") as service:
        (tmp_path / "sparingly.lock").unlink()
        assert b" 503 " in raw(service.url, line("GET", "/readyz"))
        written = service.complaints().splitlines()
    assert any("nothing is asked" in json.loads(text)["event"] for text in written)


@pytest.mark.parametrize("steps", range(12))
def test_a_service_that_is_stopped_leaves_no_task_behind(tmp_path, steps):
    """Wherever its reading of what is due stands at that moment: a result that comes just then must not hide it."""

    async def start_and_stop() -> set[asyncio.Task[None]]:
        before = asyncio.all_tasks()
        kept = SqliteStore(tmp_path)
        kept.open()
        service = Service(kept)
        await service.start()
        for _ in range(steps):
            time.sleep(0.02)  # whatever runs in a thread is done, and the loop has not heard of it
            await asyncio.sleep(0)
        await service.stop()
        return asyncio.all_tasks() - before

    assert asyncio.run(asyncio.wait_for(start_and_stop(), 10)) == set()


class Wire:
    """A transport that notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def close(self) -> None:
        self.done.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.done


def test_what_is_written_in_one_turn_is_sent_in_one_go():
    async def write() -> list[list[bytes | str]]:
        wire, seen = Wire(), []
        joined = connections.BufferedTransport(wire, lambda: False)
        joined.write(b"head ")
        joined.write(b"body")
        seen.append(list(wire.done))
        await asyncio.sleep(0)
        seen.append(list(wire.done))
        joined.write(b"x" * connections.LARGEST_BUFFER)
        joined.write(b"y")  # a long stream does not gather in memory
        seen.append(list(wire.done[1:]))
        joined.write(b"the end")
        assert not joined.is_closing()
        joined.close()
        await asyncio.sleep(0)
        seen.append(wire.done[2:])
        return seen

    waiting, sent, long, end = asyncio.run(write())
    assert waiting == [] and sent == [b"head body"]
    assert long == [b"x" * connections.LARGEST_BUFFER + b"y"]
    assert end == [b"the end", "closed"]
