"""PATCH: an agent of the service changes while it lives, durably, and a replay of its log comes to the same agent."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pyarrow.parquet
import pytest

from sparingly.serve.live_agent import LiveAgent
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import SqliteStore
from sparingly.serve.store import Store
from tests.serve.inside import Inside, inside
from tests.serve.postgres import postgres

__all__ = ["postgres"]  # a fixture
SHOP = {"actions": ["small", "large"], "contexts": ["m", "w"], "rule": {"type": "BalancedMatching"}, "seed": 4}
WORTH = {"small": 0.2, "large": 0.5, "huge": 0.9}


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path) -> Store:
    if request.param == "sqlite":
        return SqliteStore(tmp_path)
    return PostgresStore(request.getfixturevalue("postgres").url("changes"))


async def play(service: Inside, name: str, ids: range, contexts: str = "mw") -> list[dict[str, Any]]:
    """Decide, and answer what is asked about, but for every fifth."""
    made = []
    for k in ids:
        answer = await service.decide(name, f"e{k}", context=contexts[k % len(contexts)])
        assert answer.status_code == 200, answer.text
        d = answer.json()
        made.append(d)
        if d["ask"] and k % 5:
            reward = {"reward": WORTH.get(d["action"], 0.5)}
            assert (await service.call("POST", f"{name}/decisions/e{k}/feedback", reward)).status_code == 200
    return made


async def replayed(store: Store, name: str) -> str:
    """The agent that the whole log leads to, without a snapshot, as text."""
    found, _ = store.begin([name])
    try:
        live = LiveAgent.load(found[name])
        live.apply(store.records(found[name].id, 0, found[name].seq))
        return live.snapshot()
    finally:
        store.rollback()


CHANGES = [
    {"add_actions": ["huge"]},
    {"retire_actions": ["small"], "granted": 60},
    {"add_contexts": ["t"], "rule": {"type": "ExactMatching"}},
    {"add_actions": ["small", "tiny"], "retire_contexts": ["m"]},
]


def test_what_was_learnt_stays_and_a_replay_comes_to_the_same(store):
    async def run() -> None:
        async with inside(store) as service:
            await service.put("shop", **SHOP, budget={"initial": 30, "growth": {"by": "decisions", "rate": 0.2}})
            for turn, change in enumerate(CHANGES):
                await play(service, "shop", range(40 * turn, 40 * turn + 40), "mw" if turn < 3 else "wtw")
                before = (await service.call("GET", "shop/estimates?context=w")).json()["estimates"]
                answer = await service.call("PATCH", "shop", change)
                assert answer.status_code == 200, answer.text
                after = {
                    e["action"]: e for e in (await service.call("GET", "shop/estimates?context=w")).json()["estimates"]
                }
                for known in before:
                    if known["action"] in after:
                        assert after[known["action"]]["answered"] == known["answered"]
                        assert after[known["action"]]["mean"] == known["mean"]
            last = await play(service, "shop", range(200, 260), "wt")
            assert {d["action"] for d in last} <= {"small", "large", "huge", "tiny"}
            agent = (await service.call("GET", "shop")).json()
            assert agent["body"]["actions"] == ["small", "large", "huge", "tiny"]
            assert agent["body"]["contexts"] == ["m", "w", "t"]
            assert agent["body"]["rule"]["type"] == "ExactMatching"
            assert agent["retired_contexts"] == ["m"]
            assert "retired_actions" not in agent
            live = service.service.writer._live_agents["shop"].snapshot()
            assert await replayed(store, "shop") == live
        async with inside(store) as again:  # after a restart
            assert (await again.call("GET", "shop")).json() == agent
            assert (await again.decide("shop", "e200", context="w")).json() == last[0]
            await play(again, "shop", range(300, 320), "wt")

    asyncio.run(run())


def test_sent_again_it_changes_nothing_more(tmp_path):
    async def run() -> None:
        async with inside(SqliteStore(tmp_path)) as service:
            await service.put("shop", **SHOP, budget={"initial": 10})
            change = {"add_actions": ["huge"], "retire_actions": ["small"], "granted": 25}
            first = (await service.call("PATCH", "shop", change)).json()
            assert first["budget"]["granted"] == 25
            assert first["retired_actions"] == ["small"]
            log = (await service.call("GET", "shop/log")).text
            assert (await service.call("PATCH", "shop", change)).json() == first
            assert (await service.call("PATCH", "shop", {})).json() == first
            assert (await service.call("PATCH", "shop", {"granted": 5})).json() == first  # a budget never shrinks
            assert (await service.call("GET", "shop/log")).text == log
            # The program that makes the agent at its start may go on doing so.
            body = {"learner": {"type": "UCB1"}, "budget": {"initial": 10}} | SHOP
            again = await service.call("PUT", "shop", body)
            assert (again.status_code, again.json()) == (200, first)
            assert (await service.call("PUT", "shop", body | {"seed": 5})).status_code == 409

    asyncio.run(run())


def test_the_log_tells_of_changes_and_begins_with_the_first_body(tmp_path):
    async def run() -> None:
        async with inside(SqliteStore(tmp_path)) as service:
            await service.put("shop", **SHOP, budget={"initial": 10})
            await service.call("PATCH", "shop", {"add_actions": ["huge"], "costs": [2], "granted": 12})
            lines = [json.loads(line) for line in (await service.call("GET", "shop/log")).text.splitlines()]
            assert lines[0]["body"]["actions"] == ["small", "large"]
            assert (lines[1]["kind"], lines[1]["amount"]) == ("change", 2_000_000)
            assert lines[1]["change"] == [["add_action", None, 2.0]]
            table = pyarrow.parquet.read_table(
                io.BytesIO((await service.call("GET", "shop/log?format=parquet")).content)
            )
            assert table["kind"].to_pylist() == ["change"]

    asyncio.run(run())


REFUSED = {
    "unknown action": ({"retire_actions": ["tiny"]}, "there is no action 'tiny' to retire"),
    "the last action": ({"retire_actions": ["small", "large"]}, "the last of the actions: add another one first"),
    "costs": ({"add_actions": ["huge"], "costs": [1, 2]}, "as many numbers as names"),
    "too many": ({"add_contexts": [f"c{k}" for k in range(60_000)]}, "must be at most 100,000"),
    "no field": ({"actions": ["a"]}, "unknown field"),
    "no rule": ({"rule": {"type": "Exact"}}, "ExactMatching"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_changes_nothing(tmp_path, case):
    body, message = REFUSED[case]

    async def run() -> None:
        async with inside(SqliteStore(tmp_path)) as service:
            await service.put("shop", **SHOP, budget={"initial": 10})
            before = (await service.call("GET", "shop")).json()
            answer = await service.call("PATCH", "shop", body)
            if case == "too many":
                assert answer.status_code in (413, 422)
            else:
                assert (answer.status_code, message in answer.json()["detail"]) == (422, True), answer.text
            assert (await service.call("GET", "shop")).json() == before
            assert (await service.call("PATCH", "nobody", {"granted": 1})).status_code == 404

    asyncio.run(run())


def test_retired_contexts_and_retries_of_their_decisions(tmp_path):
    async def run() -> None:
        async with inside(SqliteStore(tmp_path)) as service:
            await service.put("shop", **SHOP, budget={"initial": 10})
            first = (await service.decide("shop", "e1", context="m")).json()
            await service.call("PATCH", "shop", {"retire_contexts": ["m"], "retire_actions": [first["action"]]})
            assert (await service.decide("shop", "e1", context="m")).json() == first
            refused = await service.decide("shop", "e2", context="m")
            assert refused.status_code == 422
            assert "'m' was retired" in refused.json()["detail"]
            late = await service.call("POST", "shop/decisions/e1/feedback", {"reward": 1})
            assert (late.status_code, late.json()["learned"]) == (200, True)

    asyncio.run(run())


def test_with_features_names_of_rows_can_be_added(tmp_path):
    async def run() -> None:
        async with inside(SqliteStore(tmp_path)) as service:
            oful = {"learner": {"type": "OFUL", "dim": 2}, "actions": ["a", "b"]}
            await service.put("rows", **oful)
            early = await service.decide("rows", "e0", features=[[0.6, 0.8]] * 2)
            rows = [[0.6, 0.8]] * 3
            assert (await service.decide("rows", "e1", features=rows)).status_code == 422
            assert (await service.call("PATCH", "rows", {"add_actions": ["c"]})).status_code == 200
            assert (await service.decide("rows", "e1", features=rows)).status_code == 200
            again = await service.decide("rows", "e0", features=[[0.6, 0.8]] * 2)  # a retry gets its answer for ever
            assert again.json() == early.json()
            assert (await service.decide("rows", "e2", features=[[0.6, 0.8]] * 2)).status_code == 422
            refused = await service.call("PATCH", "rows", {"retire_actions": ["a"]})
            assert (refused.status_code, "rows of each decision" in refused.json()["detail"]) == (422, True)

    asyncio.run(run())


def test_another_process_follows(tmp_path):
    """A snapshot from before a change, and the change in the log after it."""

    async def run() -> None:
        store = SqliteStore(tmp_path)
        async with inside(store) as service:
            await service.put("shop", **SHOP, budget={"initial": 30})
            await play(service, "shop", range(20))
        async with inside(store) as service:  # has the snapshot of the first
            await service.call("PATCH", "shop", {"add_actions": ["huge"], "retire_actions": ["small"]})
            await play(service, "shop", range(20, 60))
            service.service.writer.forget(["shop"])  # as if another process had written all of it
            assert {d["action"] for d in await play(service, "shop", range(60, 90))} <= {"large", "huge"}
            live = service.service.writer._live_agents["shop"].snapshot()
            assert await replayed(store, "shop") == live

    asyncio.run(run())
