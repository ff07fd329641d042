"""Agents with long logs are loaded beside the batches: nobody else waits for them, in no process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sparingly.serve import loading, writer
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import SqliteStore
from sparingly.serve.store import Store
from tests.serve.inside import Inside, inside
from tests.serve.postgres import postgres

__all__ = ["postgres"]  # a fixture
RECORDS = 60


@pytest.fixture(params=["sqlite", "postgres"])
def make(request, tmp_path):
    """Makes stores on one database; on SQLite one after the other."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres").url("loading")

    def made() -> Store:
        return SqliteStore(tmp_path) if url is None else PostgresStore(url)

    return made


@pytest.fixture
def gate(monkeypatch) -> Iterator[threading.Event]:
    """Few records are many, and an agent is loaded only once the gate is open."""
    opened, real = threading.Event(), loading.load

    def slow(*arguments: Any) -> Any:
        assert opened.wait(60)
        return real(*arguments)

    monkeypatch.setattr(loading, "INLINE", 20)
    monkeypatch.setattr(writer, "INLINE", 20)
    monkeypatch.setattr(writer, "load", slow)
    yield opened
    opened.set()


async def fill(made: Inside) -> None:
    await made.put("large", budget={"initial": 1_000})
    await made.put("small")
    for k in range(RECORDS):
        await made.decide("large", f"e{k}")


async def forget_snapshots(store: Store) -> None:
    store.open()
    store.begin([])
    store.run("DELETE FROM snapshots")
    store.commit()
    store.close()


async def until_loading(made: Inside) -> None:
    while not made.service.writer._loading:
        await asyncio.sleep(0.001)


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, 120))


def test_others_do_not_wait_for_an_agent_that_is_being_loaded(make, gate):
    async def scenario() -> None:
        async with inside(make()) as made:
            await fill(made)
        await forget_snapshots(make())
        async with inside(make()) as made:
            first = [asyncio.create_task(made.decide("large", f"f{k}")) for k in range(3)]
            await until_loading(made)
            for k in range(5):
                assert (await made.decide("small", f"e{k}")).json()["ask"]
            assert (await made.call("GET", "large")).status_code == 200
            assert not any(task.done() for task in first)
            gate.set()
            numbers = [task.json()["number"] for task in await asyncio.gather(*first)]
            assert numbers == [RECORDS + 1, RECORDS + 2, RECORDS + 3]  # in the order in which they came
            assert (await made.call("POST", "large/decisions/f0/feedback", {"reward": 1.0})).status_code == 200

    run(scenario())


def test_who_waits_too_long_is_told_so_and_the_storage_is_not_blamed(make, gate):
    async def scenario() -> None:
        async with inside(make()) as made:
            await fill(made)
        await forget_snapshots(make())
        async with inside(make(), timeout=0.1) as made:
            answer = await made.decide("large", "f")
            assert answer.status_code == 503 and "being loaded" in answer.json()["detail"]
            assert made.service.writer.storage_error == ""
            gate.set()
            while (answer := await made.decide("large", "f")).status_code == 503:
                await asyncio.sleep(0.01)
            assert answer.json()["number"] == RECORDS + 1

    run(scenario())


def test_a_snapshot_is_kept_after_a_long_load(make, gate, monkeypatch):
    monkeypatch.setattr(loading, "KEEP", RECORDS - 1)
    gate.set()

    async def scenario() -> None:
        async with inside(make()) as made:
            await fill(made)
        await forget_snapshots(make())
        async with inside(make()) as made:
            await made.decide("large", "f")
            while not (found := await made.service._read(lambda read: read("SELECT seq FROM snapshots"))):
                await asyncio.sleep(0.01)
            assert found == [(RECORDS,)]

    run(scenario())


def test_a_stop_does_not_wait_for_an_agent_that_is_being_loaded(make, gate):
    async def scenario() -> None:
        async with inside(make()) as made:
            await fill(made)
        await forget_snapshots(make())
        async with inside(make()) as made:
            waiting = asyncio.create_task(made.decide("large", "f"))
            await until_loading(made)
            made.service.writer._stopped = True
            gate.set()
        assert (await waiting).status_code == 503

    run(scenario())


def test_an_agent_that_cannot_be_loaded_takes_nobody_along(make, gate):
    gate.set()

    async def scenario() -> None:
        async with inside(make()) as made:
            await fill(made)
        await forget_snapshots(store := make())
        store.open()
        store.begin([])
        store.run("DELETE FROM decisions WHERE seq = 7")
        store.commit()
        store.close()
        async with inside(make()) as made:
            large, small = await asyncio.gather(made.decide("large", "f"), made.decide("small", "f"))
            assert large.status_code == 503 and small.json()["ask"]
            assert "do not agree with its log" in large.json()["detail"]

    run(scenario())


def test_a_process_that_loads_does_not_lock_the_agent(postgres, gate):
    url = postgres.url("loading")

    async def scenario() -> None:
        async with inside(PostgresStore(url)) as one, inside(PostgresStore(url)) as two:
            await fill(one)
            waiting = asyncio.create_task(two.decide("large", "f"))
            await until_loading(two)
            assert (await one.decide("large", "g")).json()["number"] == RECORDS + 1
            gate.set()
            assert (await waiting).json()["number"] == RECORDS + 2

    run(scenario())


@pytest.mark.parametrize(("learner", "records"), [({"type": "UCB1"}, 5_000), ({"type": "OFUL", "dim": 256}, 389)])
def test_snapshots_are_made_as_often_as_loading_is_costly(tmp_path, learner, records):
    async def scenario() -> None:
        async with inside(SqliteStore(tmp_path)) as made:
            actions = {} if "dim" in learner else {"actions": ["a"]}
            assert (await made.call("PUT", "agent", {"learner": learner, **actions})).status_code == 201
            await made.call("GET", "agent/estimates")
            live = made.service.writer._live_agents["agent"]
            assert writer.records_between(live) == records

    run(scenario())
