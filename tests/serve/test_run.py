"""How the service starts and ends: what it refuses and why, what it keeps when it is told to stop, how it goes on."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import FILE, SqliteStore
from tests.serve.inside import AGENT
from tests.serve.postgres import postgres
from tests.serve.serving import call, command, running, serving, without_notices

__all__ = ["postgres"]  # a fixture
AGENTS: dict[str, dict[str, Any]] = {
    "arms": {
        "learner": {"type": "UCB1", "ties": "random"}, "actions": ["a", "b", "c"], "contexts": ["x", "y"], "seed": 3,
        "budget": {"initial": 12, "growth": {"by": "decisions", "rate": 0.2}},
    },
    "linear": {"learner": {"type": "OFUL", "dim": 2}, "budget": {"initial": 9}, "seed": 4},
}  # fmt: skip


def refused(*arguments: str, code: int = 2) -> str:
    """Start a service that must not start: one line that says why."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, cwd="/")
    assert done.returncode == code, done
    assert done.stdout == ""
    why = without_notices(done.stderr)
    assert re.fullmatch(r"sparingly: .+\n", why), why  # one line, no traceback
    return why


def new_store(folder: Path) -> Path:
    """A folder with an empty store; the path of its file."""
    store = SqliteStore(folder)
    store.open()
    store.close()
    return folder / FILE


# What is refused.


def test_a_second_process_on_the_same_data(tmp_path):
    with running("--data", str(tmp_path)) as first:
        why = refused("--data", str(tmp_path))
        assert "in use" in why and f"process {first.process.pid}" in why and "--database" in why
        assert call("GET", first.url + "/readyz")[0] == 200
        first.process.kill()
        first.process.wait()
        with serving("--data", str(tmp_path)) as url:  # a lock of the dead keeps nobody out
            assert call("GET", url + "/readyz")[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "service.example"])
def test_an_address_for_others_needs_a_token(tmp_path, host):
    why = refused("--data", str(tmp_path / "data"), "--host", host)
    assert host in why and "--token-file" in why
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "token", ["", "short", "fifteen-letters", "with a space in the middle", "schön-und-lang-genug"]
)
def test_a_token_that_is_none(tmp_path, token):
    (tmp_path / "token").write_text(token + "\n")
    why = refused("--data", str(tmp_path / "data"), "--token-file", str(tmp_path / "token"))
    assert "token" in why and "16" in why
    assert token not in why or not token  # it is a secret all the same


def test_a_token_that_is_missing_or_open_to_all(tmp_path):
    token = tmp_path / "token"
    assert str(token) in refused("--data", str(tmp_path / "data"), "--token-file", str(token), code=1)
    token.write_text("a-token-of-sixteen-letters\n")
    token.chmod(0o644)
    with running("--data", str(tmp_path / "data"), "--token-file", str(token)) as service:
        assert call("GET", service.url + "/v1/agents")[0] == 401
        assert call("GET", service.url + "/v1/agents", token="a-token-of-sixteen-letters")[0] == 200
        assert f"others can read {token}" in service.complaints()


def test_two_stores_at_once(tmp_path, postgres):
    why = refused("--data", str(tmp_path / "data"), "--database", postgres.url())
    assert "one of --data and --database" in why
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("version", "words"), [(3, "upgrade"), (999, "upgrade"), (0, "not made by a release")])
def test_another_version_of_the_schema(tmp_path, postgres, version, words):
    change = f"UPDATE meta SET value = {version} WHERE name = 'version'"
    path = new_store(tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
    before = path.read_bytes()
    why = refused("--data", str(tmp_path))
    assert f"version {version}" in why and words in why
    assert path.read_bytes() == before
    if version != 999:
        return
    database = postgres.url()
    store = PostgresStore(database)
    store.open()
    store.close()
    with psycopg.connect(database) as connection:
        connection.execute(change)
    assert "upgrade" in refused("--database", database)


def test_a_damaged_file(tmp_path):
    """Whether it was never a database, or is one no longer."""
    (tmp_path / FILE).write_bytes(b"This is not a database, and never was one. " * 1_000)
    why = refused("--data", str(tmp_path))
    assert str(tmp_path / FILE) in why and "not a database" in why
    (tmp_path / FILE).unlink()
    path = new_store(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    why = refused("--data", str(tmp_path))
    assert str(path) in why and "malformed" in why


def test_a_database_of_someone_else(tmp_path):
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("CREATE TABLE agents (name TEXT)")
        connection.execute("INSERT INTO agents VALUES ('Bond')")
    assert "agents" in refused("--data", str(tmp_path))
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("agents",)]
        assert connection.execute("SELECT * FROM agents").fetchall() == [("Bond",)]


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "data").write_text("")
    assert str(tmp_path / "data") in refused("--data", str(tmp_path / "data"), code=1)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://nobody:secret@localhost/x", "postgresql://"),
        ("postgresql://nobody:secret@127.0.0.1:1/x", "cannot be reached"),
    ],
)
def test_a_database_that_cannot_be(url, words):
    why = refused("--database", url)
    assert words in why and "secret" not in why


def test_a_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        why = refused("--data", str(tmp_path), "--port", str(port))
        assert f"127.0.0.1:{port}" in why and "--port" in why


def test_help_has_examples():
    environment = os.environ | {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
    words = [sys.executable, "-m", "sparingly.cli", "serve", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0
    assert "Examples" in done.stdout and "sparingly serve --data sparingly-data" in done.stdout
    assert "--database postgresql://" in done.stdout
    for option in ("--data", "--database", "--host", "--port", "--token-file", "--paused"):
        assert option in done.stdout


# Starting paused, after the restore of an older copy.


def test_paused_until_resumed(tmp_path):
    arguments = ("--data", str(tmp_path))
    with serving(*arguments) as url:
        for name in ("one", "two"):
            assert call("PUT", f"{url}/v1/agents/{name}", AGENT)[0] == 201
            assert call("POST", f"{url}/v1/agents/{name}/decisions", {"event_id": "before"})[1]["ask"]
    with serving(*arguments, "--paused") as url:
        for name in ("one", "two"):
            for defer in (False, True):
                told = call(
                    "POST", f"{url}/v1/agents/{name}/decisions", {"event_id": f"paused{defer}", "defer": defer}
                )[1]
                assert (told["ask"], told["reason"]) == (False, "paused")
        # Seven asks were lost with the newer copy; they are known from elsewhere.
        status, told = call("POST", f"{url}/v1/agents/one/charges", {"charge_id": "lost", "amount": 7})
        assert (status, told["budget"]) == (200, {"granted": 10.0, "spent": 8.0, "held": 0.0, "left": 2.0})
        assert call("POST", f"{url}/v1/agents/one/charges", {"charge_id": "lost", "amount": 7}) == (status, told)
        assert call("POST", f"{url}/v1/agents/one/charges", {"charge_id": "more", "amount": 3})[0] == 409
        answer = call("POST", f"{url}/v1/agents/one/decisions/before/feedback", {"reward": 1})
        assert answer[0] == 200 and answer[1]["learned"]  # who was asked before may answer
        assert call("POST", f"{url}/v1/agents/one/resume")[1]["paused"] is False
    with serving(*arguments) as url:  # it is remembered who was resumed, and who was not
        asks = [call("POST", f"{url}/v1/agents/one/decisions", {"event_id": f"e{k}"})[1]["ask"] for k in range(3)]
        assert asks == [True, True, False]
        assert call("POST", f"{url}/v1/agents/two/decisions", {"event_id": "e"})[1]["reason"] == "paused"
        assert [agent["paused"] for agent in call("GET", f"{url}/v1/agents")[1]["agents"]] == [False, True]


# Ending.


def write_until_refused(url: str, writer: int, told: dict[str, bytes]) -> None:
    """Decide, one after the other, until nobody answers any more."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        for step in range(100_000):
            event = f"w{writer}-{step}"
            try:
                body = json.dumps({"event_id": event})
                connection.request("POST", "/v1/agents/agent/decisions", body, {"content-type": "application/json"})
                with connection.getresponse() as answer:
                    raw = answer.read()
            except (OSError, http.client.HTTPException):
                return
            assert answer.status == 200, raw
            told[event] = raw


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_in_good_order(tmp_path, number):
    """What was in flight is answered: what is in the log and what callers know is the same. Snapshots are kept."""
    told: dict[str, bytes] = {}
    with running("--data", str(tmp_path)) as service, ThreadPoolExecutor(8) as pool:
        assert call("PUT", f"{service.url}/v1/agents/agent", AGENT)[0] == 201
        writers = [pool.submit(write_until_refused, service.url, k, told) for k in range(8)]
        while len(told) < 200:
            time.sleep(0.01)
        service.process.send_signal(number)
        started = time.monotonic()
        service.process.wait(60)
        assert time.monotonic() - started < 9, "it has waited for someone"
        assert service.process.returncode in (0, -number, 128 + number)
        assert service.complaints() == ""
        for writer in writers:
            writer.result()
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        assert {row[0] for row in connection.execute("SELECT event_id FROM decisions")} == set(told)
        (seq,) = connection.execute("SELECT seq FROM agents").fetchone()
        assert connection.execute("SELECT seq FROM snapshots").fetchall() == [(seq,)] and seq == len(told)
    with serving("--data", str(tmp_path)) as url:
        for event in list(told)[::37]:
            assert call("POST", f"{url}/v1/agents/agent/decisions", {"event_id": event})[1] == json.loads(told[event])


def test_it_ends_although_someone_dawdles(tmp_path):
    """Half a request, or a connection that is kept for later, holds nothing up for long."""
    with running("--data", str(tmp_path)) as service:
        place = urlsplit(service.url)
        with (
            socket.create_connection((place.hostname, place.port)) as half,
            closing(http.client.HTTPConnection(place.netloc)) as kept,
        ):
            half.sendall(b"POST /v1/agents/agent/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{")
            kept.request("GET", "/healthz")
            kept.getresponse().read()
            service.process.terminate()
            service.process.wait(25)


def test_a_restart_changes_no_decision(tmp_path):
    """A service that is stopped and killed now and then decides as its twin that was left alone."""
    said: dict[str, list[Any]] = {"alone": [], "restarted": []}
    with serving("--data", str(tmp_path / "alone")) as url:
        live("alone", url, range(60), said)
    for part, end in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGINT)):
        with running("--data", str(tmp_path / "restarted")) as service:
            live("restarted", service.url, range(20 * part, 20 * part + 20), said)
            service.process.send_signal(end)
            service.process.wait(60)
    assert said["alone"] == said["restarted"]
    asks = [told["ask"] for told in said["alone"] if "ask" in told]
    assert any(asks) and not all(asks)


def live(who: str, url: str, steps: range, said: dict[str, list[Any]]) -> None:
    """A part of a life: decisions of two agents, answers to some of their asks, at last the estimates."""
    for name, body in AGENTS.items():
        assert call("PUT", f"{url}/v1/agents/{name}", body)[0] in (200, 201)
    for step in steps:
        for name, wanted in (
            ("arms", {"context": "xy"[step % 3 % 2]}),
            ("linear", {"features": [[0.1 * (step % 7), 0.3], [0.5, -0.1 * (step % 5)]]}),
        ):
            event = f"{url}/v1/agents/{name}/decisions"
            status, told = call("POST", event, {"event_id": f"e{step}", "defer": step % 5 == 4, **wanted})
            assert status == 200
            said[who].append({key: value for key, value in told.items() if not key.endswith("_at")})
            if told["ask"] and step % 5 == 4:
                assert call("POST", f"{event}/e{step}/{'activate' if step % 2 else 'release'}")[0] == 200
            elif told["ask"] and step % 3:
                assert call("POST", f"{event}/e{step}/feedback", {"reward": step % 4 / 3})[0] == 200
    said[who] += [call("GET", f"{url}/v1/agents/{name}/estimates")[1] for name in AGENTS if steps[-1] == 59]
