"""Agents that forget, over HTTP: a late answer weighs as one of the round it is about, also after a restart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sparingly.serve.sqlite import SqliteStore
from tests.serve.inside import Inside, inside

FORGETS = {"type": "UCB1", "forget": 0.2, "ties": "first"}


async def estimate(made: Inside) -> dict[str, Any]:
    answer = await made.call("GET", "one/estimates")
    assert answer.status_code == 200, answer.text
    return answer.json()["estimates"][0]


def test_a_late_answer_weighs_as_one_of_its_round(tmp_path):
    """Rounds 1 and 7 are answered after round 7, the first by a 1: it weighs 0.8⁶ against the other's 1."""

    async def play() -> None:
        async with inside(SqliteStore(tmp_path)) as made:
            await made.put("one", learner=FORGETS)
            for k in range(7):
                await made.decide("one", f"e{k}")
            for event, reward in (("e6", 0.0), ("e0", 1.0)):
                answer = await made.call("POST", f"one/decisions/{event}/feedback", {"reward": reward})
                assert answer.status_code == 200, answer.text
            before = await estimate(made)
            assert before["mean"] == pytest.approx(0.8**6 / (0.8**6 + 1))
        store = SqliteStore(tmp_path)
        store.open()
        store.begin([])
        store.run("DELETE FROM snapshots")
        store.commit()
        store.close()
        async with inside(SqliteStore(tmp_path)) as made:
            assert await estimate(made) == before

    asyncio.run(play())


def test_bad_shares_are_refused(tmp_path):
    async def ask() -> None:
        async with inside(SqliteStore(tmp_path)) as made:
            for wrong in (-0.1, 0.9, 1e-9):
                body = {"learner": FORGETS | {"forget": wrong}, "actions": ["a"], "rule": {"type": "Always"}}
                answer = await made.call("PUT", "one", body | {"budget": {"initial": 10}})
                assert answer.status_code == 422 and "forget" in answer.text

    asyncio.run(ask())
