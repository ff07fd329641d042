"""Damage is noticed: changed rows, a write-ahead log that was cut, pages of garbage, an older copy put back."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from sparingly.serve.records import AGENT_COLUMNS, AgentRecord, EntryRecord
from sparingly.serve.sqlite import FILE, SEEN, SqliteStore
from sparingly.serve.store import StorageError
from sparingly.serve.verify import Ledger, verify_store
from tests.serve.inside import AGENT, inside

MATCHING = {
    "rule": {"type": "Always"},
    "budget": {"initial": 100},
    "actions": ["a", "b"],
    "unanswered": {"close_after": 60},
}
CHANGES = {  # what is written into the database, and what is said of it
    "an answer": ("UPDATE decisions SET reward = 1 WHERE event_id = 'e3'", "what has become of e3 is not what the log"),
    "an entry": ("UPDATE entries SET reward = 1 WHERE key = 'e3'", "record 5: its checksum does not fit"),
    "an action": ("UPDATE decisions SET action = 1 - action WHERE event_id = 'e4'", "its checksum does not fit"),
    "a payload": ("""UPDATE decisions SET payload = '{"n":7}' WHERE event_id = 'e5'""", "payload of e5 is not the one"),
    "a payload gone": ("UPDATE decisions SET payload = NULL WHERE event_id = 'e5'", "nobody has erased it"),
    "a record gone": ("DELETE FROM entries WHERE key = 'e3'", "record 5 is missing"),
    "an open ask": ("UPDATE decisions SET status = 'unanswered' WHERE event_id = 'e9'", "asks are open, and"),
    "the last records": (
        "DELETE FROM decisions WHERE event_id = 'e9'; UPDATE agents SET seq = seq - 1, decisions = 9, asks = 9, "
        "open_asks = open_asks - 1, spent = spent - 1000000 WHERE name = 'one'",
        "with its log: chain",
    ),
    "a body": ("""UPDATE agents SET body = '{"learner":' WHERE name = 'one'""", "its body cannot be read"),
    "a payload that is none": ("UPDATE decisions SET payload = '{' WHERE event_id = 'e5'", "payload of e5 is not the"),
    "words for a number": ("UPDATE decisions SET cost = 'much' WHERE event_id = 'e4'", "its checksum does not fit"),
    "more budget": ("UPDATE agents SET granted = granted + 64000000 WHERE name = 'one'", "with its log: granted"),
}  # fmt: skip


async def work(store: SqliteStore) -> None:
    async with inside(store) as service:
        await service.put("one", **MATCHING)
        for n in range(10):
            await service.decide("one", f"e{n}", **({"payload": {"n": n}} if n == 5 else {}))
            if n in (3, 6):
                await service.call("POST", f"one/decisions/e{n}/feedback", {"reward": 0.25})
        await service.put("other")


def findings(folder: Path) -> list[str]:
    store, said = SqliteStore(folder), []
    store.open_to_read()
    with closing(store):
        verify_store(store, said.append)
    return said


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """A folder with some work in it, after a clean stop."""
    folder = tmp_path_factory.mktemp("damage") / "data"
    asyncio.run(work(SqliteStore(folder)))
    assert findings(folder) == []
    return folder


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_in_the_database(worked, tmp_path, kind):
    """Verification finds it, and the running service too: it asks nothing of this agent, and is not ready."""
    folder = shutil.copytree(worked, tmp_path / "data")
    sql, said = CHANGES[kind]
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.executescript(sql)
    found = findings(folder)
    assert any(said in line for line in found) and all(line.startswith("one: ") for line in found), found

    async def serve() -> None:
        async with inside(SqliteStore(folder)) as service:
            await asyncio.get_running_loop().run_in_executor(None, service.service.watch._look, True)
            assert (await service.decide("one", "new")).status_code == 503
            ready = await service.call("GET", "/readyz")
            assert ready.status_code == 503 and ready.json()["detail"].startswith("one: ")
            assert (await service.decide("other", "new")).status_code == 200
            listed = [agent["name"] for agent in (await service.call("GET", "/v1/agents")).json()["agents"]]
            assert "other" in listed and ("one" in listed) == (kind != "a body")
            assert 'sparingly_agent_spent{agent="one"}' in (await service.call("GET", "/metrics")).text
            assert (await service.call("DELETE", "one?confirm=one")).status_code == 200  # a way out
            await service.service._look_once()
            assert (await service.call("GET", "/readyz")).status_code == 200

    asyncio.run(serve())


def test_a_body_that_cannot_be_read_is_noticed_without_a_verification(worked, tmp_path):
    folder = shutil.copytree(worked, tmp_path / "data")
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.executescript(CHANGES["a body"][0])

    async def serve() -> None:
        async with inside(SqliteStore(folder)) as service:
            service.service.watch._stopped = True
            for answer in (await service.decide("one", "new"), await service.call("GET", "one")):
                assert answer.status_code == 503 and "do not agree with its log" in answer.json()["detail"]
            assert (await service.call("GET", "/readyz")).status_code == 503

    asyncio.run(serve())


def test_verification_is_quick_whatever_was_erased():
    """Of each payload that is gone an entry tells further on. To look through all of them each time took minutes."""
    body = json.dumps({"learner": {"type": "UCB1"}, "actions": ["a"]})
    ledger = Ledger(AgentRecord(**{**dict.fromkeys(AGENT_COLUMNS, 0), "name": "one", "body": body, "chain": b""}))
    ledger.missing = {f"e{n}": n for n in range(100_000)}
    entry = EntryRecord(1, 1, 0, 0, 0, 0, 0, 0, "erase", "", 0, 0, None, 0)
    began = time.perf_counter()
    for n in range(50_000):
        ledger._entry(dataclasses.replace(entry, key=f"e{n}", number=n))
    for n in range(50_000, 100_000, 5_000):
        ledger._entry(dataclasses.replace(entry, number=n + 4_999))
        assert len(ledger.missing) == 95_000 - n
    assert time.perf_counter() - began < 2.0


def test_a_broken_chain_is_noticed_when_the_agent_is_loaded(worked, tmp_path):
    """Also before the whole store has been verified: without its snapshot every record is applied."""
    folder = shutil.copytree(worked, tmp_path / "data")
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.executescript(f"DELETE FROM snapshots; {CHANGES['an action'][0]}")

    async def serve() -> None:
        async with inside(SqliteStore(folder)) as service:
            answer = await service.decide("one", "new")
            assert answer.status_code == 503 and "do not agree with its log" in answer.json()["detail"]

    asyncio.run(serve())


def test_the_write_ahead_log_is_cut_while_it_runs(tmp_path):
    folder = tmp_path / "data"

    async def serve() -> None:
        async with inside(SqliteStore(folder)) as service:
            await service.put("one")
            for n in range(5):
                await service.decide("one", f"e{n}")
            wal = folder / f"{FILE}-wal"
            os.truncate(wal, wal.stat().st_size // 2)
            answer = await service.decide("one", "new")
            assert answer.status_code == 503
            ready = await service.call("GET", "/readyz")
            assert ready.status_code == 503 and "was cut while it was open" in ready.json()["detail"]

    asyncio.run(serve())


def test_a_checkpoint_that_shortens_the_log_is_no_damage(tmp_path):
    folder = tmp_path / "data"

    async def serve() -> None:
        async with inside(SqliteStore(folder)) as service:
            await service.put("one")
            with closing(sqlite3.connect(folder / FILE)) as other:
                assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
            assert (folder / f"{FILE}-wal").stat().st_size == 0
            assert (await service.decide("one", "new")).status_code == 200

    asyncio.run(serve())


def killed_while_serving(folder: Path) -> None:
    """Leave a folder as a kill would: the write-ahead log has what was stored last."""
    store = SqliteStore(folder)
    store.open()
    for _ in range(20):
        store.begin([])
        store.touch(1)
        store.commit()
    copy = shutil.copytree(folder, folder.with_name("killed"))
    store.close()
    shutil.rmtree(folder)
    copy.rename(folder)


def test_what_was_acknowledged_is_gone_after_a_kill(tmp_path):
    """SQLite itself would go on, with what is left, and say nothing."""
    folder = tmp_path / "data"
    killed_while_serving(folder)
    wal = folder / f"{FILE}-wal"
    os.truncate(wal, wal.stat().st_size // 2)
    said = findings(folder)
    assert len(said) == 1 and "has lost" in said[0]
    with pytest.raises(StorageError, match=r"has lost \d+ of the 21 transactions .* --paused"):
        SqliteStore(folder).open()
    store = SqliteStore(folder)
    store.accept_older = True
    store.open()  # `serve --paused`
    store.begin([])
    store.commit()
    store.close()
    assert int((folder / SEEN).read_text()) < 21
    with closing(SqliteStore(folder)) as again:
        again.open()


def test_an_older_copy_is_served_only_with_paused(worked, tmp_path):
    folder = shutil.copytree(worked, tmp_path / "data")
    with closing(SqliteStore(folder)) as store:
        store.open()
    shutil.copy(worked / FILE, folder / FILE)
    command = [sys.executable, "-m", "sparingly.cli", "serve", "--data", str(folder), "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert refused.returncode != 0 and "an older copy was put back" in refused.stderr


def test_pages_of_garbage(worked, tmp_path):
    """Two pages in the middle of the file: found by reading all of it at the start, beside the service."""
    folder = shutil.copytree(worked, tmp_path / "data")
    size = (folder / FILE).stat().st_size
    with (folder / FILE).open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(os.urandom(8192))
    assert "is damaged" in findings(folder)[0]

    async def serve() -> None:
        async with inside(SqliteStore(folder)) as service:
            await asyncio.get_running_loop().run_in_executor(None, service.service.watch._look, True)
            ready = await service.call("GET", "/readyz")
            assert ready.status_code == 503 and "sparingly verify" in ready.json()["detail"]
            assert (await service.decide("one", "new")).status_code == 503

    asyncio.run(serve())


def test_a_sound_agent_passes(tmp_path):
    """What happens to an agent in all its ways is no damage: leases, charges, pauses, late answers, erased payloads."""
    now = [1_780_000_000_000_000]
    folder = tmp_path / "data"

    async def serve() -> None:
        async with inside(SqliteStore(folder, lambda: now[0])) as service:
            await service.put("one", **(AGENT | MATCHING), lease=10)
            for n in range(12):
                await service.decide("one", f"e{n}", defer=n % 2 == 0, payload=[n, 2.0**70, "é"])
                now[0] += 1_000_000
            await service.call("POST", "one/decisions/e10/activate", {})
            await service.call("POST", "one/decisions/e8/release", {})
            await service.call("POST", "one/charges", {"charge_id": "c", "amount": 2})
            await service.call("POST", "one/grants", {"grant_id": "g", "amount": 3})
            await service.call("POST", "one/pause", {})
            await service.decide("one", "paused")
            now[0] += 100_000_000
            await service.call("POST", "one/resume", {})
            await service.call("POST", "one/decisions/e1/feedback", {"reward": 0.5})

    asyncio.run(serve())
    assert findings(folder) == []
