"""The PostgreSQL server that the tests of the service run on: it starts, stops, comes back, and leaves nothing.

And what the service asks of it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess

import psycopg
import pytest

from sparingly.serve.postgres import PostgresStore
from tests.serve.inside import inside
from tests.serve.postgres import ROOT, postgres, programs, server

__all__ = ["postgres"]  # a fixture


def value(url: str, query: str):
    with psycopg.connect(url, connect_timeout=5) as connection:
        return connection.execute(query).fetchone()[0]


def test_every_database_is_new_and_durable_by_default(postgres):
    first, second = postgres.url(), postgres.url()
    assert first != second
    with psycopg.connect(first) as connection:
        connection.execute("create table here (x int)")
    tables = "select count(*) from pg_tables where tablename = 'here'"
    assert (value(first, tables), value(second, tables)) == (1, 0)
    for setting, expected in [("fsync", "on"), ("synchronous_commit", "on"), ("listen_addresses", "127.0.0.1")]:
        assert value(first, f"show {setting}") == expected
    assert value(first, "show server_encoding") == "UTF8"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_it_goes_and_comes_back_with_its_data(mode):
    with server() as own:
        url, folder, process = own.url("books"), own.folder, own.process
        with psycopg.connect(url) as connection:
            connection.execute("create table kept as select 42 as x")
        own.stop(mode)
        assert process.poll() is not None
        with pytest.raises(psycopg.OperationalError, match="refused"):
            value(url, "select x from kept")
        own.start()
        assert value(url, "select x from kept") == 42
        assert ("not properly shut down" in own.log()) == (mode == "immediate")
        process = own.process
    assert process.poll() is not None
    assert not folder.exists()


def test_a_setting_can_be_given():
    with server(max_connections=7) as own:
        assert value(own.url(), "show max_connections") == "7"


def test_commits_are_durable_whatever_the_server_does():
    """A test cannot cut the power, so it looks at the setting."""
    with server(synchronous_commit="off") as own:
        store = PostgresStore(own.url())
        store.open()
        store.begin([])
        assert store.run("SHOW synchronous_commit").fetchone()[0] == "on"
        store.rollback()
        store.close()


def test_without_it_ci_fails_and_others_may_leave_it_out(monkeypatch, tmp_path):
    """With a script that finds nothing."""
    monkeypatch.delenv("SPARINGLY_NO_POSTGRES", raising=False)
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "postgres.sh").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "scripts" / "postgres.sh").chmod(0o755)
    monkeypatch.setattr("tests.serve.postgres.ROOT", tmp_path)
    with pytest.raises(pytest.fail.Exception, match="install one"):
        programs()
    monkeypatch.setenv("SPARINGLY_NO_POSTGRES", "1")
    with pytest.raises(pytest.skip.Exception, match="left out"):
        programs()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="install one"):
        programs()


def test_the_script_says_what_is_left_out():
    environment = {k: v for k, v in os.environ.items() if k != "CI"} | {"SPARINGLY_NO_POSTGRES": "1"}
    run = subprocess.run([ROOT / "scripts" / "postgres.sh"], env=environment, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "")
    assert "left out" in run.stderr


def test_a_batch_reads_what_it_needs_and_not_the_whole_log(postgres):
    """Also with plans that were made while the tables were empty, which is when a service prepares its statements."""
    url, batches, size = postgres.url(), 60, 20

    async def scenario() -> None:
        async with inside(PostgresStore(url)) as made:
            await made.put("agent")
            for batch in range(batches):
                await asyncio.gather(*(made.decide("agent", f"{batch}-{k}") for k in range(size)))

    asyncio.run(scenario())
    count = (
        "select sum(idx_tup_read) + sum(coalesce(seq_tup_read, 0)) from pg_stat_user_indexes join pg_stat_user_tables"
    )
    read = value(url, f"{count} using (relid) where pg_stat_user_indexes.relname = 'decisions'")
    assert value(url, "select count(*) from decisions") == batches * size
    assert read < 10 * batches * size  # the whole log for each batch would be thirty times as much as one look for each
