"""The embedded store: who may open its files, and who may read them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sparingly.errors import InvalidInput
from sparingly.serve.sqlite import FILE, SqliteStore
from tests.serve.serving import call, running, serving
from tests.serve.test_run import refused

LEAVE_WAL = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('PRAGMA journal_mode = DELETE')"


def linked(folder: Path, other: Path) -> Path:
    """Another folder with a hard link to the database."""
    other.mkdir()
    os.link(folder / FILE, other / FILE)
    return other


def opened(folder: Path) -> SqliteStore:
    store = SqliteStore(folder)
    store.open()
    return store


def test_a_second_process_on_a_hard_link(tmp_path):
    opened(tmp_path / "a").close()
    other = linked(tmp_path / "a", tmp_path / "b")
    with running("--data", str(tmp_path / "a")) as first:
        why = refused("--data", str(other))
        assert str(other / FILE) in why and "hard link" in why
        assert call("GET", first.url + "/readyz")[0] == 200
        first.process.kill()
        first.process.wait()
        with serving("--data", str(other)) as url:  # a lock of the dead keeps nobody out
            assert call("GET", url + "/readyz")[0] == 200


def test_a_refused_store_leaves_the_locks_of_the_first_in_place(tmp_path):
    """SQLite's locks belong to the process: closing any descriptor of the file would drop them."""
    first = opened(tmp_path / "a")
    other = linked(tmp_path / "a", tmp_path / "b")
    try:
        for _ in range(2):
            with pytest.raises(InvalidInput, match="another path"):
                opened(other)
        done = subprocess.run(
            [sys.executable, "-c", LEAVE_WAL, str(tmp_path / "a" / FILE)], capture_output=True, text=True, timeout=60
        )
        assert "database is locked" in done.stderr
    finally:
        first.close()
    opened(other).close()


def test_a_reader_keeps_the_lock_until_it_is_done(tmp_path):
    first = opened(tmp_path)
    with first.reader() as read:
        first.close()
        with pytest.raises(InvalidInput, match="in use"):
            opened(tmp_path)
        assert read("SELECT COUNT(*) FROM agents")[0][0] == 0
    opened(tmp_path).close()


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}


def test_files_are_for_their_owner_alone(tmp_path, capsys):
    """Those of an earlier release were open to all. A folder that was there before is left as it is."""
    folder = tmp_path / "data"
    before = os.umask(0o022)
    try:
        store = opened(folder)
        with store.reader() as read:  # also the files that exist only while it is open
            read("SELECT COUNT(*) FROM agents")
            names = modes(folder)
        store.close()
    finally:
        os.umask(before)
    assert names.pop("data") == 0o700 and len(names) == 5 and set(names.values()) == {0o600}
    assert capsys.readouterr().err == ""
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755 if path == folder else 0o644)
    opened(folder).close()
    names = modes(folder)
    assert names.pop("data") == 0o755 and set(names.values()) == {0o600}
    assert f"others can look into {folder}" in capsys.readouterr().err


def test_commits_are_durable(tmp_path):
    """On disk before the answer is sent: a test cannot cut the power, so it looks at the settings."""
    store = opened(tmp_path)
    assert store.run("PRAGMA synchronous").fetchone()[0] == 2  # FULL
    assert store.run("PRAGMA journal_mode").fetchone()[0] == "wal"
    store.close()


def test_a_snapshot_never_goes_back(tmp_path):
    """Of two processes the slower one may save the older snapshot last."""
    store = opened(tmp_path)
    store.begin([])
    store.run("PRAGMA defer_foreign_keys = 1")
    for seq, body in ((3, "old"), (5, "new"), (4, "late"), (5, "again")):
        store.save_snapshot(1, seq, body)
    assert store.snapshot(1) == (5, "new")
    store.rollback()
    store.close()


def test_a_size_from_before_a_commit_is_no_loss(tmp_path):
    """The log may have grown since its size was taken: only what is missing now is lost."""
    with closing(SqliteStore(tmp_path)) as store:
        store.open()
        wal = tmp_path / "sparingly.sqlite-wal"
        store._wal_size = wal.stat().st_size
        store._check_wal(wal, 0)
        assert not store.damage
