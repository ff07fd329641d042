"""Many callers at the same moment: the budget pays once, an id means one thing, and of two answers one wins.

On SQLite one process serves them all; on PostgreSQL the callers are spread over two processes.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from structlog.testing import capture_logs

from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import SqliteStore
from sparingly.serve.store import SWEEP, VERSION
from tests.serve.inside import AGENT, inside
from tests.serve.postgres import postgres
from tests.serve.serving import call, serving

__all__ = ["postgres"]  # a fixture
CALLERS = 64
names = (f"agent{k}" for k in itertools.count(1))


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    with serving("--data", str(tmp_path_factory.mktemp("crowded"))) as url:
        yield [url]


@pytest.fixture(scope="module")
def two_processes(postgres):
    database = postgres.url("crowded")
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        # Both find an empty database, and both make the schema.
        contexts = [serving("--database", database) for _ in range(2)]
        yield list(pool.map(stack.enter_context, contexts))


@pytest.fixture(params=["one_process", "two_processes"])
def urls(request):
    return request.getfixturevalue(request.param)


def together(urls: list[str], calls: list[tuple[str, str, Any]]) -> list[tuple[int, bytes]]:
    """All calls at once, each on a connection of its own that was made before; in their order (status, body)."""
    gate = threading.Barrier(len(calls))

    def one(number: int) -> tuple[int, bytes]:
        method, path, body = calls[number]
        connection = http.client.HTTPConnection(urlsplit(urls[number % len(urls)]).netloc, timeout=60)
        try:
            connection.connect()
            gate.wait(60)
            connection.request(method, f"/v1/agents/{path}", json.dumps(body), {"content-type": "application/json"})
            with connection.getresponse() as answer:
                return answer.status, answer.read()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, range(len(calls))))


def make(urls: list[str], **other: Any) -> str:
    """A new agent that asks whenever its budget allows."""
    name = next(names)
    assert call("PUT", f"{urls[0]}/v1/agents/{name}", AGENT | other)[0] == 201
    return name


def look(urls: list[str], path: str) -> Any:
    """What every process tells alike."""
    answers = [call("GET", f"{url}/v1/agents/{path}") for url in urls]
    assert answers == [answers[0]] * len(urls) and answers[0][0] == 200
    return answers[0][1]


def read_log(urls: list[str], name: str) -> list[dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(urls[-1]).netloc, timeout=60)
    try:
        connection.request("GET", f"/v1/agents/{name}/log")
        with connection.getresponse() as answer:
            return [json.loads(line) for line in answer.read().splitlines()][1:]
    finally:
        connection.close()


def winners(answers: list[tuple[int, bytes]], won: int = 200, lost: int = 409) -> list[int]:
    """The places of those who won; they were all told the same, and the others that they lost."""
    places = [place for place, (status, _) in enumerate(answers) if status == won]
    assert len({answers[place][1] for place in places}) == 1
    assert {status for status, _ in answers} <= {won, lost}, Counter(answers)
    return places


def decisions(name: str, count: int = CALLERS, **other: Any) -> list[tuple[str, str, Any]]:
    return [("POST", f"{name}/decisions", {"event_id": f"e{k}", **other}) for k in range(count)]


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize(
    ("rule", "reason"),
    [("Always", "budget_exhausted"), ("Greedy", "budget_exhausted"), ("ExactMatching", "budget_exhausted")],
)
def test_one_unit_left_and_64_callers(urls, rule, reason, defer):
    name = make(urls, rule={"type": rule}, budget={"initial": 10})
    for k in range(9):
        path = f"{urls[k % len(urls)]}/v1/agents/{name}/decisions"
        assert call("POST", path, {"event_id": f"before{k}"})[1]["ask"]
    answers = together(urls, decisions(name, defer=defer))
    assert {status for status, _ in answers} == {200}
    told = [json.loads(raw) for _, raw in answers]
    assert sum(one["ask"] for one in told) == 1
    assert {one["reason"] for one in told if not one["ask"]} == {reason}
    assert sorted(one["number"] for one in told) == list(range(10, 10 + CALLERS))
    spent, held = (9.0, 1.0) if defer else (10.0, 0.0)
    assert look(urls, name)["budget"] == {"granted": 10.0, "spent": spent, "held": held, "left": 0.0}


def test_as_many_asks_as_the_budget_pays_for(urls):
    """While grants arrive, and asks are taken back: never more than was granted by then, nothing left unused."""
    name = make(urls, budget={"initial": 2, "growth": {"by": "decisions", "rate": 0.125}}, costs=[0.75])
    calls = decisions(name, 48)
    calls += [("POST", f"{name}/grants", {"grant_id": f"g{k}", "amount": 1.5}) for k in range(16)]
    answers = together(urls, calls)
    assert {status for status, _ in answers} == {200}
    together(urls, [("POST", f"{name}/decisions", {"event_id": f"after{k}"}) for k in range(CALLERS)])
    log, granted, spent = read_log(urls, name), 2_000_000, 0
    for seq, record in enumerate(log, start=1):
        granted += 125_000 if record["kind"] == "decision" else record["amount"]
        spent += 750_000 if record.get("ask") else 0
        assert (record["seq"], record["granted"], record["spent"]) == (seq, granted, spent)
        assert spent <= granted
    assert len(log) == 128 and granted == 2_000_000 + 112 * 125_000 + 16 * 1_500_000
    asks = sum(json.loads(raw).get("ask", False) for _, raw in answers)
    assert 2 <= asks <= 48 and granted - spent < 750_000


def test_64_retries_of_one_event(urls):
    name = make(urls, budget={"initial": 1_000})
    answers = together(urls, [("POST", f"{name}/decisions", {"event_id": "once", "payload": [1, 2]})] * CALLERS)
    assert len(winners(answers)) == CALLERS
    assert json.loads(answers[0][1])["ask"]
    assert look(urls, name)["decisions"] == 1 and look(urls, name)["budget"]["spent"] == 1.0
    assert [record["event_id"] for record in read_log(urls, name)] == ["once"]


def test_one_event_id_for_two_requests(urls):
    """Whoever comes first defines it, for all who ask the same; the others are refused."""
    name = make(urls)
    calls = [("POST", f"{name}/decisions", {"event_id": "twice", "payload": k // 2 % 2}) for k in range(CALLERS)]
    won = winners(together(urls, calls))
    assert [calls[place] for place in won] == [calls[won[0]]] * (CALLERS // 2)
    assert look(urls, f"{name}/decisions/twice")["payload"] == calls[won[0]][2]["payload"]
    assert len(read_log(urls, name)) == 1


def test_answers_with_different_values(urls):
    name = make(urls)
    assert call("POST", f"{urls[0]}/v1/agents/{name}/decisions", {"event_id": "e"})[1]["ask"]
    calls = [("POST", f"{name}/decisions/e/feedback", {"reward": k / CALLERS}) for k in range(CALLERS)]
    (won,) = winners(together(urls, calls))
    kept = [record for record in read_log(urls, name) if record["kind"] == "feedback"]
    assert [record["reward"] for record in kept] == [won / CALLERS]
    assert look(urls, f"{name}/decisions/e")["reward"] == won / CALLERS
    assert look(urls, f"{name}/estimates")["estimates"][0]["mean"] == won / CALLERS
    assert together(urls, [calls[won]] * 8) == together(urls, [calls[won]] * 8)


def test_grants_with_one_id(urls):
    name = make(urls, budget={"initial": 0})
    calls = [("POST", f"{name}/grants", {"grant_id": "g", "amount": 1 + k // 2 % 2}) for k in range(CALLERS)]
    won = winners(together(urls, calls))
    assert len(won) == CALLERS // 2
    amount = calls[won[0]][2]["amount"]
    assert look(urls, name)["budget"]["granted"] == amount
    assert [record["amount"] for record in read_log(urls, name)] == [amount * 1_000_000]


def test_charges_with_one_unit_left(urls):
    """As with asks: what is left pays for one of them."""
    name = make(urls, budget={"initial": 1})
    calls = [("POST", f"{name}/charges", {"charge_id": f"c{k}", "amount": 1}) for k in range(32)] + decisions(name, 32)
    answers = together(urls, calls)
    charged = sum(status == 200 for status, _ in answers[:32])
    asked = sum(json.loads(raw)["ask"] for _, raw in answers[32:])
    assert charged + asked == 1
    assert {status for status, _ in answers[:32]} <= {200, 409} and {status for status, _ in answers[32:]} == {200}
    assert look(urls, name)["budget"] == {"granted": 1.0, "spent": 1.0, "held": 0.0, "left": 0.0}


def test_one_agent_made_with_different_bodies(urls):
    name = next(names)
    bodies = [AGENT | {"description": f"{k // 2 % 4}"} for k in range(CALLERS)]
    answers = together(urls, [("PUT", name, body) for body in bodies])
    (made,) = [place for place, (status, _) in enumerate(answers) if status == 201]
    for place, (status, _) in enumerate(answers):
        expected = 201 if place == made else 200 if bodies[place] == bodies[made] else 409
        assert status == expected, Counter(status for status, _ in answers)
    assert look(urls, name)["body"]["description"] == bodies[made]["description"]


def test_a_lease_is_activated_or_released(urls):
    """Of two leases; each ends in one way, whatever is tried at the same time."""
    name = make(urls, budget={"initial": 2})
    for event in "xy":
        told = call("POST", f"{urls[0]}/v1/agents/{name}/decisions", {"event_id": event, "defer": True})[1]
        assert told["ask"] and told["lease_expires_at"]
    steps = [(event, step) for event in "xy" for step in ("activate", "release") for _ in range(CALLERS // 4)]
    steps = steps[::7] + [step for place, step in enumerate(steps) if place % 7]  # mixed
    answers = together(urls, [("POST", f"{name}/decisions/{event}/{step}", {}) for event, step in steps])
    spent = 0
    for event in "xy":
        ends: dict[int, set[str]] = {200: set(), 409: set()}
        for (which, step), (status, _) in zip(steps, answers, strict=True):
            if which == event:
                ends[status].add(step)
        (won,), (lost,) = ends[200], ends[409]
        assert {won, lost} == {"activate", "release"}
        assert look(urls, f"{name}/decisions/{event}")["status"] == {"activate": "open", "release": "released"}[won]
        spent += won == "activate"
    assert look(urls, name)["budget"] == {"granted": 2.0, "spent": float(spent), "held": 0.0, "left": 2.0 - spent}
    assert len(read_log(urls, name)) == 4


def test_decisions_while_the_agent_is_deleted_and_made_again(urls):
    """Each decision is made by the old agent or by the new one, or there was none at that moment."""
    name = make(urls)
    calls = decisions(name, 60)
    calls[20:20] = [("DELETE", f"{name}?confirm={name}", None)]
    calls[40:40] = [("PUT", name, AGENT)]
    answers = together(urls, calls)
    assert {status for status, _ in answers} <= {200, 201, 404}, Counter(answers)
    assert call("PUT", f"{urls[0]}/v1/agents/{name}", AGENT)[0] in (200, 201)
    log = read_log(urls, name)
    assert [record["number"] for record in log] == list(range(1, len(log) + 1))
    assert all(record["spent"] <= record["granted"] for record in log)


# What takes a clock, or a look inside.


class Clock:
    """A clock that a test moves: microseconds."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "sqlite":
        return SqliteStore(tmp_path, clock=Clock())
    return PostgresStore(request.getfixturevalue("postgres").url(), clock=Clock())


@pytest.mark.parametrize(("step", "status"), [("activate", 409), ("release", 200), ("feedback", 409)])
def test_a_lease_that_expires_at_the_very_moment(store, step, status):
    """It is refunded once: what comes in the same batch as its expiry comes too late."""

    async def scenario() -> None:
        async with inside(store) as made:
            await made.put("agent", budget={"initial": 2}, lease=10)
            for event in ("first", "second"):
                assert (await made.decide("agent", event, defer=True)).json()["ask"]
                store.clock.pass_by(1)
            store.clock.pass_by(8.5)  # the first one's time has come
            body = {"reward": 1.0} if step == "feedback" else None
            answer = await made.call("POST", f"agent/decisions/first/{step}", body)
            assert answer.status_code == status, answer.text
            assert (await made.call("GET", "agent/decisions/first")).json()["status"] == "expired"
            assert await made.budget("agent") == {"granted": 2.0, "spent": 0.0, "held": 1.0, "left": 1.0}
            asks = [(await made.decide("agent", f"more{k}")).json()["ask"] for k in range(3)]
            assert asks == [True, False, False]

    asyncio.run(scenario())


@pytest.mark.parametrize("command", ["activate", "decide"])
def test_more_leases_that_expire_at_once_than_fit_into_one_transaction(store, command):
    """All of them have expired before the next command is carried out, and so has the one that it is about."""
    count = 2 * SWEEP + 1

    async def scenario() -> None:
        async with inside(store) as made:
            await made.put("agent", budget={"initial": count}, lease=10)
            events = [f"e{k}" for k in range(count)]
            asked = await asyncio.gather(*(made.decide("agent", event, defer=True) for event in events))
            assert all(answer.json()["ask"] for answer in asked)
            store.clock.pass_by(11)
            if command == "activate":
                last = await made.call("POST", f"agent/decisions/{events[-1]}/activate")
                assert last.status_code == 409 and "expired" in last.json()["detail"]
                assert (await made.budget("agent"))["held"] == 0
            else:
                told = (await made.decide("agent", "next")).json()
                assert told["ask"] and told["budget"]["held"] == 0 and told["budget"]["left"] == count - 1
            log = (await made.call("GET", "agent/log")).text.splitlines()
            assert sum('"kind":"expire"' in line for line in log) == count

    asyncio.run(scenario())


def test_an_answer_at_the_very_moment_at_which_an_ask_is_closed(store):
    """It is late, and counted once."""

    async def scenario() -> None:
        async with inside(store) as made:
            await made.put("agent", unanswered={"close_after": 10, "late": "learn"})
            for event in ("first", "second"):
                await made.decide("agent", event)
                store.clock.pass_by(1)
            store.clock.pass_by(8.5)
            answer = await made.call("POST", "agent/decisions/first/feedback", {"reward": 1.0})
            assert (answer.status_code, answer.json()["late"], answer.json()["learned"]) == (200, True, True)
            agent = (await made.call("GET", "agent")).json()
            assert (agent["asks"], agent["answers"], agent["open"], agent["unanswered"]) == (2, 1, 1, 0)

    asyncio.run(scenario())


def test_processes_create_the_same_agents_in_different_orders(postgres):
    """Each holds the names that it has created until its transaction ends: in one order, so that nobody deadlocks."""
    database = postgres.url()

    async def scenario() -> None:
        async with inside(PostgresStore(database)) as one, inside(PostgresStore(database)) as two:
            for turn in range(10):
                names = [f"t{turn}-{k}" for k in range(40)]
                calls = [one.call("PUT", name, AGENT) for name in names]
                calls += [two.call("PUT", name, AGENT) for name in reversed(names)]
                statuses = Counter(answer.status_code for answer in await asyncio.gather(*calls))
                assert statuses == {201: 40, 200: 40}

    asyncio.run(scenario())


def test_processes_save_the_same_snapshots_in_different_orders(postgres):
    """Each waited for a row that the other had: one of them lost its snapshots."""
    url, names = postgres.url("snapshots"), [f"agent-{n}" for n in range(40)]

    async def scenario() -> None:
        async with inside(PostgresStore(url)) as one, inside(PostgresStore(url)) as two:
            for name in names:
                await one.put(name)
                await asyncio.gather(*(made.decide(name, "e") for made in (one, two)))
            loop = asyncio.get_running_loop()
            for turn in range(5):
                saving = []
                for made, order in ((one, names), (two, names[::-1])):
                    writer = made.service.writer
                    texts = [(writer._live_agents[name], f"{turn}") for name in order]
                    saving.append(loop.run_in_executor(writer._pool, writer._store_snapshots, texts))
                await asyncio.gather(*saving)

    with capture_logs() as logs:
        asyncio.run(scenario())
    assert not [line for line in logs if "not saved" in line["event"]], logs


def test_the_schema_is_made_once(postgres):
    database = postgres.url()
    gate = threading.Barrier(8)

    def start(_: int) -> None:
        store = PostgresStore(database)
        gate.wait(60)
        store.open()
        store.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(start, range(8)))
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT name, value FROM meta ORDER BY name").fetchall() == [
            ("checked", 0),
            ("version", VERSION),
        ]
