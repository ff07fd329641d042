"""What an agent takes: nothing for asks that nobody answers, and no memory once nobody uses it."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

import pytest

from sparingly.saving import dumps
from sparingly.serve import idle
from sparingly.serve.live_agent import LiveAgent
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import SqliteStore
from sparingly.serve.store import Store
from tests.serve.inside import Inside, inside
from tests.serve.postgres import postgres

__all__ = ["postgres"]  # a fixture
KINDS: dict[str, dict[str, Any]] = {
    "arms": {"learner": {"type": "UCB1"}, "actions": ["a", "b"], "contexts": ["x", "y"], "costs": [1, 2]},
    "greedy": {"learner": {"type": "MOSS"}, "actions": ["a", "b"], "rule": {"type": "Greedy", "policies": 2}},
    "linear": {"learner": {"type": "OFUL", "dim": 2}, "actions": ["a", "b"], "costs": [1, 2]},
}
COMMON = {"budget": {"initial": 300}, "seed": 3, "lease": 30, "unanswered": {"close_after": 40, "late": "learn"}}


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    """A store of each kind with a clock in hand."""
    now = [1_780_000_000_000_000]
    if request.param == "sqlite":
        made: Store = SqliteStore(tmp_path / "data", lambda: now[0])
    else:
        made = PostgresStore(request.getfixturevalue("postgres").url("memory"), lambda: now[0])
    made.now = now  # type: ignore[attr-defined]
    return made


def again(store: Store) -> Store:
    kind, place = (SqliteStore, store.data) if isinstance(store, SqliteStore) else (PostgresStore, store.url)  # type: ignore[attr-defined]
    made = kind(place, store.clock)
    made.now = store.now  # type: ignore[attr-defined]
    return made


def body_of(kind: str, chance: random.Random) -> dict[str, Any]:
    if kind == "linear":
        return {"features": [[round(chance.uniform(-0.6, 0.6), 3) for _ in range(2)] for _ in range(2)]}
    return {"context": chance.choice("xy")} if kind == "arms" else {}


async def play(made: Inside, store: Any, kind: str, rounds: range, chance: random.Random, asks: list[str]) -> None:
    """Rounds with deferred and open asks; some are answered late, taken back, or expire."""
    for n in rounds:
        defer = chance.random() < 0.5
        answer = await made.decide(kind, f"e{n}", defer=defer, **body_of(kind, chance))
        assert answer.status_code == 200, answer.text
        told = answer.json()
        store.now[0] += 1_000_000
        if told["ask"]:
            asks.append(told["event_id"])
        if asks and chance.random() < 0.5:
            event = asks.pop(chance.randrange(len(asks)))
            step = chance.choice(["activate", "release", "feedback"])
            await made.call("POST", f"{kind}/decisions/{event}/{step}", {"reward": 0.5} if step == "feedback" else {})


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_awaited_is_in_the_store_alone(store, kind):
    """The agent in memory, the one from a snapshot, and the one from the whole log are the same, and await nothing."""

    async def check() -> None:
        chance, asks = random.Random(5), list[str]()
        async with inside(store, timeout=60) as made:
            await made.put(kind, **(COMMON | {"rule": {"type": "BalancedMatching"}} | KINDS[kind]))
            await play(made, store, kind, range(60), chance, asks)
        second = again(store)  # with a snapshot from the stop
        async with inside(second, timeout=60) as made:
            await play(made, second, kind, range(60, 120), chance, asks)
            rows, _ = second.begin([kind])
            live, record = made.service.writer._live_agents[kind], rows[kind]
            snapshot = second.snapshot(record.id)
            assert snapshot is not None and 0 < snapshot[0] < record.seq
            assert json.loads(snapshot[1])["awaited"] is None and live.agent.awaited == ()
            states = [dumps(live.agent, check=False, awaited=False)]
            for one in (LiveAgent.load(record), LiveAgent.load(record, snapshot)):
                one.apply(second.records(record.id, one.applied, record.seq))
                assert one.agent.awaited == () and one.chain == record.chain
                one.agent.ledger.granted_units = live.agent.ledger.granted_units
                states.append(dumps(one.agent, check=False, awaited=False))
            assert states == [states[0]] * 3
            kinds = {row[0] for row in second.select("SELECT DISTINCT kind FROM entries")}
            assert kinds >= {"feedback", "release", "expire", "activate"}
            second.rollback()

    asyncio.run(check())


def test_open_asks_cost_no_memory_and_no_time(tmp_path):
    """The snapshot of an agent with 600 open asks is as long as one with ten; it grew by 340 bytes for each (D8)."""

    async def check() -> None:
        async with inside(SqliteStore(tmp_path / "data"), timeout=60) as made:
            await made.put("many", **{**KINDS["linear"], "budget": {"initial": 1e6}})
            sizes = []
            for total in (10, 600):
                before = 0 if total == 10 else 10
                await asyncio.gather(
                    *(made.decide("many", f"e{n}", features=[[0.1, 0.2], [0.3, 0.1]]) for n in range(before, total))
                )
                live = made.service.writer._live_agents["many"]
                assert live.record.open_asks == total
                sizes.append(len(live.snapshot()))
            assert sizes[1] < sizes[0] + 100, sizes

    asyncio.run(check())


def test_agents_that_nobody_uses_leave_memory(store):
    async def check() -> None:
        async with inside(store, timeout=60) as made:
            writer = made.service.writer
            for name in ("idle", "due"):
                await made.put(name, lease=30)
                for n in range(60):
                    await made.decide(name, f"e{n}", defer=name == "due")
            budget = await made.budget("idle")
            writer.idle_seconds, writer._look_for_idle = 0.0, 0.0
            await until(lambda: not writer.live_agents)
            writer.idle_seconds = 600.0
            text = (await made.call("GET", "/metrics")).text
            assert "sparingly_left_memory_total 2.0" in text and "sparingly_live_agents 0.0" in text
            rows, _ = store.begin(["idle"])
            assert store.snapshot(rows["idle"].id)[0] == 60  # it comes back from here
            store.rollback()
            assert (await made.budget("due"))["held"] == 10
            store.now[0] += 31_000_000
            await until(lambda: writer._live_agents)  # its leases end, although nobody calls
            await asyncio.sleep(0.3)
            assert (await made.budget("due"))["held"] == 0
            assert (await made.decide("idle", "e3")).status_code == 200
            assert await made.budget("idle") == budget

    asyncio.run(check())


def test_too_many_agents_leave_memory_oldest_first(tmp_path):
    async def check() -> None:
        async with inside(SqliteStore(tmp_path / "data")) as made:
            writer = made.service.writer
            for n in range(6):
                await made.put(f"agent-{n}")
            one = idle.size(writer._live_agents["agent-0"])
            assert idle.to_leave(writer._live_agents, time.monotonic(), 600, 4 * one) == ["agent-0", "agent-1"]
            assert idle.to_leave(writer._live_agents, time.monotonic(), 600, 6 * one) == []
            assert idle.size(await large(made)) > 16 * 90_000

    asyncio.run(check())


async def large(made: Inside) -> LiveAgent:
    """An agent with many cells: most of what it takes is not its body."""
    names = [f"context-{n}" for n in range(9_000)]
    await made.put("large", actions=[str(n) for n in range(10)], contexts=names)
    return made.service.writer._live_agents["large"]


async def until(condition: Any) -> None:
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen")


def test_metrics_show_a_page_of_agents(tmp_path):
    async def check() -> None:
        async with inside(SqliteStore(tmp_path / "data")) as made:
            for n in range(5):
                await made.put(f"agent-{n}")
            text = (await made.call("GET", "/metrics?agents=2&after=agent-1")).text
            assert "sparingly_agents 5.0" in text
            shown = {line for line in text.splitlines() if line.startswith("sparingly_agent_granted{")}
            assert shown == {f'sparingly_agent_granted{{agent="agent-{n}"}} 10.0' for n in (2, 3)}

    asyncio.run(check())
