"""Stores of release 0.1.0: refused, tried, copied, brought up to date; then everything is as it was."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sparingly.serve.migrations import Migration, migrate
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import FILE, SqliteStore
from sparingly.serve.store import StorageError, Store
from sparingly.serve.verify import verify_store
from tests.serve.inside import inside
from tests.serve.old_stores import OLD, old_postgres, old_sqlite
from tests.serve.postgres import postgres

__all__ = ["postgres"]  # a fixture
NEW = ("chain", "chosen", "gain", "who")  # of a record; of an answer: "chosen", "explanation"

OLD_ENTRY = {  # as 0.1.0 writes it
    "agent": 1, "seq": 1_000, "at": 0, "granted": 0, "spent": 0, "held": 0, "asks": 0, "answers": 0, "kind": "pause",
    "key": "", "number": 0, "amount": 0, "learned": 0,
}  # fmt: skip


def made(store: Store) -> Store:
    return store.__class__(store.data if isinstance(store, SqliteStore) else store.url, lambda: OLD["now"])  # type: ignore[attr-defined]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sparingly.cli", *arguments], capture_output=True, text=True, timeout=120
    )


def without_new(text: str) -> Any:
    """An answer or a log without what later releases have added."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        for part in (line, *line.get("events", ())):
            for name in (*NEW, "explanation"):
                part.pop(name, None)
            part.pop("body", None)  # with the defaults of its release
    return lines


async def compare_answers(store: Store) -> None:
    """Whatever 0.1.0 answered is answered alike, and the agents go on."""
    async with inside(store) as service:
        for path, answer in OLD["reads"]:
            now = await service.call("GET", path)
            if not path.endswith("/estimates"):
                assert without_new(now.text) == without_new(answer), path
        for method, path, body, answer in OLD["calls"]:
            again = await service.call(method, path, body)
            assert without_new(again.text) == without_new(answer), path
        await service.decide("arms", "next", context="x")
        open_ask = json.loads((await service.call("GET", "arms/asks?status=open")).text)["events"][0]
        told = await service.call("POST", f"arms/decisions/{open_ask['event_id']}/feedback", {"reward": 3})
        assert told.status_code == 200, told.text
        assert (await service.call("GET", "/readyz")).status_code == 200
    store = made(store)
    store.open_to_read()
    said: list[str] = []
    assert verify_store(store, said.append) == 0, said
    store.close()


def refused_and_tried(store: Store) -> None:
    """Serving is refused with the way out; a dry run says what it would do, and changes nothing."""
    with pytest.raises(StorageError, match=r"version 1, .* `sparingly migrate`"):
        store.open()
    tried = Migration(dry_run=True)
    migrate(made(store), tried)
    assert len(tried.steps) == 1 and tried.records == sum(
        len(OLD["tables"][t]["rows"]) for t in ("decisions", "entries")
    )
    with pytest.raises(StorageError, match="version 1"):
        made(store).open()


def test_sqlite(tmp_path):
    store = SqliteStore(old_sqlite(tmp_path / "data"), lambda: OLD["now"])
    refused_and_tried(store)
    backup = tmp_path / "before.sqlite"
    migrate(made(store), Migration(backup=backup))
    copied = sqlite3.connect(backup)
    assert copied.execute("SELECT value FROM meta WHERE name = 'version'").fetchall() == [(1,)]
    assert copied.execute("SELECT COUNT(*) FROM decisions").fetchone()[0] == len(OLD["tables"]["decisions"]["rows"])
    copied.close()
    asyncio.run(compare_answers(made(store)))


def test_postgres(postgres):
    store = PostgresStore(old_postgres(postgres.url("old")), lambda: OLD["now"])
    refused_and_tried(store)
    migrate(made(store), Migration())
    names, values = zip(*OLD_ENTRY.items(), strict=True)
    sql = f"INSERT INTO entries ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"
    with psycopg.connect(store.url) as connection, pytest.raises(psycopg.errors.NotNullViolation, match="chain"):
        connection.execute(sql, values)  # a process of 0.1.0 that nobody has stopped
    asyncio.run(compare_answers(made(store)))


def test_an_interrupted_migration_leaves_everything_as_it_was(tmp_path, monkeypatch):
    store = SqliteStore(old_sqlite(tmp_path / "data"))

    def fail(*arguments: Any) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(SqliteStore, "run_many", fail)
    with pytest.raises(StorageError, match="full"):
        migrate(store, Migration())
    monkeypatch.undo()
    refused_and_tried(made(store))


def test_the_command_asks_for_a_backup(tmp_path):
    data = old_sqlite(tmp_path / "data")
    asked = command("migrate", "--data", str(data))
    assert asked.returncode == 2 and "--backup FILE" in asked.stderr
    backup = str(tmp_path / "before.sqlite")
    first = command("migrate", "--data", str(data), "--backup", backup)
    assert first.returncode == 0 and "1 to 2: checksums" in first.stdout, first.stderr
    again = command("migrate", "--data", str(data), "--backup", backup)
    assert again.returncode == 0 and "version 2 already" in again.stdout
    nowhere = command("migrate", "--data", str(tmp_path / "other"), "--no-backup")
    assert nowhere.returncode == 2 and "nothing to migrate" in nowhere.stderr
    assert Path(data / FILE).exists() and not (tmp_path / "other").exists()
