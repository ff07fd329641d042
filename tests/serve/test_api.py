"""What the service shows: logs as files, history, estimates, metrics, pages; and what it does when nobody calls."""

from __future__ import annotations

import asyncio
import io
import json
import re
import time
from contextlib import contextmanager

import pyarrow.parquet
import pytest
from prometheus_client.parser import text_string_to_metric_families

import sparingly as sp
from sparingly.serve import export, queries
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import SqliteStore
from tests.serve.postgres import server
from tests.serve.test_model import Driver

ARMS = {
    "learner": {"type": "UCB1"}, "actions": ["a", "b"], "contexts": ["x", "y"], "budget": {"initial": 20.0},
    "rewards": {"low": 1.0, "high": 5.0},
}  # fmt: skip
LINEAR = {"learner": {"type": "OFUL", "dim": 2}, "actions": ["a", "b"], "budget": {"initial": 20.0}}
ROWS = [[0.6, 0.8], [1.0, 0.0]]


@contextmanager
def driving(folder):
    """A service on SQLite in this process, with the real time."""
    driver = Driver(lambda clock: SqliteStore(folder), 1)
    try:
        yield driver
    finally:
        driver.close()


@pytest.fixture
def driver(tmp_path):
    with driving(tmp_path) as made:
        yield made


def ask(driver, method, path, body=None, status=200):
    got, text = driver.call(0, method, path, body)
    assert got == status, text
    return json.loads(text)


def fill(driver, count=12):
    """Decisions, answers, a grant, a lease that is released."""
    ask(driver, "PUT", "/v1/agents/one", ARMS, 201)
    for t in range(count):
        made = ask(
            driver, "POST", "/v1/agents/one/decisions",
            {"event_id": f"e{t}", "context": "xy"[t % 2], "payload": {"t": t, "text": "hé"}, "defer": t == 3},
        )  # fmt: skip
        if made["ask"] and t % 3 == 1:
            ask(driver, "POST", f"/v1/agents/one/decisions/e{t}/feedback", {"reward": 1 + t % 5})
    ask(driver, "POST", "/v1/agents/one/decisions/e3/release")
    ask(driver, "POST", "/v1/agents/one/grants", {"grant_id": "g", "amount": 2.5})


def lines(driver, query=""):
    status, text = driver.call(0, "GET", f"/v1/agents/one/log{query}")
    assert status == 200
    return [json.loads(line) for line in text.splitlines()]


def test_the_log_is_the_same_as_lines_and_as_parquet(driver, monkeypatch):
    monkeypatch.setattr(queries, "CHUNK", 3)  # so that there are many chunks
    monkeypatch.setattr(export, "CHUNK", 3)
    fill(driver)
    head, *records = lines(driver)
    assert (head["kind"], head["name"], head["body"]["actions"]) == ("agent", "one", ["a", "b"])
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert {record["kind"] for record in records} == {"decision", "feedback", "release", "grant"}
    assert [record["seq"] for record in lines(driver, "?after=5")] == [r["seq"] for r in records[5:]]
    status, data = driver.call(0, "GET", "/v1/agents/one/log?format=parquet")
    assert status == 200
    file = pyarrow.parquet.ParquetFile(io.BytesIO(data))
    assert json.loads(file.schema_arrow.metadata[b"sparingly.agent"]) == head
    rows = file.read().to_pylist()
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        assert (row["seq"], row["kind"], row["granted"], row["spent"]) == tuple(
            record[name] for name in ("seq", "kind", "granted", "spent")
        )
        if row["kind"] == "decision":
            assert json.loads(row["payload"]) == record["payload"]
            assert (row["action"], row["width"], row["status"]) == (record["action"], record["width"], record["status"])
            assert int(row["at"].timestamp() * 1e6) == pytest.approx(record["at"], abs=1)


def test_history_begins_at_birth_and_ends_now(driver):
    fill(driver)
    points = ask(driver, "GET", "/v1/agents/one/history")["points"]
    agent = ask(driver, "GET", "/v1/agents/one")
    assert points[0] == {
        "at": agent["created_at"], "asks": 0, "answers": 0, "granted": 20.0, "spent": 0.0, "held": 0.0
    }  # fmt: skip
    last = points[-1]
    assert (last["asks"], last["answers"]) == (agent["asks"], agent["answers"])
    assert {key: last[key] for key in ("granted", "spent", "held")} == {
        key: agent["budget"][key] for key in ("granted", "spent", "held")
    }
    assert sorted(points, key=lambda p: p["at"]) == points
    few = ask(driver, "GET", "/v1/agents/one/history?points=4")["points"]
    assert len(few) == 4 + 2
    assert all(point in points for point in few[:-1])


def test_estimates_are_on_the_scale_of_the_answers(driver):
    fill(driver)
    told = ask(driver, "GET", "/v1/agents/one/estimates?context=y")
    assert told["contexts"] == ["x", "y"]
    records = [r for r in lines(driver)[1:] if r["kind"] == "decision" and r["context"] == 1]
    for a, estimate in enumerate(told["estimates"]):
        rewards = [r["reward"] for r in records if r["action"] == a and r["reward"] is not None]
        asked = [r for r in records if r["action"] == a and r["status"] in ("open", "answered")]
        assert (estimate["answered"], estimate["asked"]) == (len(rewards), len(asked))
        if rewards:
            assert estimate["mean"] == pytest.approx(sum(rewards) / len(rewards))
            assert 1.0 <= estimate["low"] <= estimate["mean"] <= estimate["high"] <= 5.0
    assert ask(driver, "GET", "/v1/agents/one/estimates?context=z", status=422)["title"] == "Does not fit"


def test_estimates_for_features_are_those_of_the_agent(driver):
    ask(driver, "PUT", "/v1/agents/two", LINEAR, 201)
    assert ask(driver, "GET", "/v1/agents/two/estimates")["estimates"] == []
    twin = sp.Agent(sp.OFUL(2), budget=20, seed=0)
    for t in range(9):
        made = ask(driver, "POST", "/v1/agents/two/decisions", {"event_id": f"e{t}", "features": ROWS})
        d = twin.decide(ROWS)
        assert (made["action_index"], made["ask"], made["width"]) == (d.action, d.ask, d.width)
        if d.ask:
            ask(driver, "POST", f"/v1/agents/two/decisions/e{t}/feedback", {"reward": 0.25})
            twin.observe(d.id, 0.25)
    told = ask(driver, "GET", "/v1/agents/two/estimates")
    values, halves, widths = twin.predict(ROWS)
    for a, estimate in enumerate(told["estimates"]):
        assert estimate["mean"] == pytest.approx(values[a])
        assert (estimate["low"], estimate["high"]) == pytest.approx((values[a] - halves[a], values[a] + halves[a]))
        assert (estimate["width"], estimate["asked"]) == (pytest.approx(widths[a]), None)


def test_metrics_count_requests_and_show_budgets(driver):
    fill(driver)
    ask(driver, "GET", "/v1/agents/nobody", status=404)
    status, text = driver.call(0, "GET", "/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    path = "/v1/agents/{name}/decisions"
    assert found["sparingly_requests_total", (("method", "POST"), ("path", path), ("status", "200"))] == 12
    assert found["sparingly_request_seconds_count", (("path", path),)] == 12
    assert found["sparingly_requests_total", (("method", "GET"), ("path", "/v1/agents/{name}"), ("status", "404"))] == 1
    agent = ask(driver, "GET", "/v1/agents/one")
    assert found["sparingly_agent_spent", (("agent", "one"),)] == agent["budget"]["spent"]
    assert found["sparingly_agent_granted", (("agent", "one"),)] == 22.5
    assert found["sparingly_storage_ok", ()] == 1


def test_lists_go_on_where_a_page_ended(driver):
    fill(driver)
    seen, before = [], ""
    while True:
        page = ask(driver, "GET", f"/v1/agents/one/decisions?limit=5&payload=false{before}")
        seen += page["events"]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert [event["number"] for event in seen] == list(range(12, 0, -1))
    assert all(event["payload"] is None for event in seen)
    opened, after = [], ""
    while True:
        page = ask(driver, "GET", f"/v1/agents/one/asks?limit=2{after}")
        opened += page["events"]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert [e["number"] for e in opened] == [e["number"] for e in reversed(seen) if e["status"] == "open"]
    assert opened[0]["payload"] == {"t": opened[0]["number"] - 1, "text": "hé"}


def test_an_ask_of_an_agent_that_nobody_calls_expires_after_a_restart(driver):
    ask(driver, "PUT", "/v1/agents/one", {**ARMS, "lease": 1.0}, 201)
    ask(driver, "POST", "/v1/agents/one/decisions", {"event_id": "e", "context": "x", "defer": True})
    driver.restart(0)
    assert ask(driver, "GET", "/v1/agents/one")["held"] == 1
    deadline = time.monotonic() + 10
    while ask(driver, "GET", "/v1/agents/one")["held"] and time.monotonic() < deadline:
        driver.runner.run(asyncio.sleep(0.1))
    agent = ask(driver, "GET", "/v1/agents/one")
    assert (agent["held"], agent["asks"], agent["budget"]["left"]) == (0, 0, 20.0)
    assert ask(driver, "GET", "/v1/agents/one/decisions/e")["status"] == "expired"


def test_an_agent_that_is_deleted_and_made_again_is_a_new_one_everywhere():
    with server() as database:
        url = database.url()
        driver = Driver(lambda clock: PostgresStore(url), 2)
        try:
            for which in (0, 1):
                assert driver.call(0, "PUT", "/v1/agents/one", ARMS)[0] == 201
                for t in range(3):
                    body = {"event_id": f"e{t}", "context": "x"}
                    assert driver.call(1, "POST", "/v1/agents/one/decisions", body)[0] == 200
                assert json.loads(driver.call(0, "GET", "/v1/agents/one")[1])["decisions"] == 3
                assert driver.call(which, "DELETE", "/v1/agents/one")[0] == 422
                assert driver.call(which, "DELETE", "/v1/agents/one?confirm=one")[0] == 200
                assert driver.call(1 - which, "GET", "/v1/agents/one")[0] == 404
                assert driver.call(1 - which, "POST", "/v1/agents/one/decisions", {"context": "x"})[0] == 404
        finally:
            driver.close()


def test_the_pages_need_nothing_from_outside(driver):
    for path in ("/", "/docs", "/page/page.js", "/page/page.css"):
        status, text = driver.call(0, "GET", path)
        assert status == 200
        for address in re.findall(rb"""\b(?:src|href|url|import|from)\s*[=(]?\s*["'(]?(https?:|//)[^"')\s]*""", text):
            pytest.fail(f"{path} refers to {address!r}")
    document = ask(driver, "GET", "/openapi.json")
    shown = driver.call(0, "GET", "/docs")[1].decode()
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in shown
    assert driver.call(0, "GET", "/page/..%2fapp.py")[0] == 404
    assert driver.call(0, "GET", "/page/nothing.js")[0] == 404
