"""Killed at random moments, again and again, while four clients write: nothing acknowledged is lost or changed.

And not one ask goes beyond the budget. The log that is left is checked against what the clients were told, record by
record, and against a ledger that is kept here in the plainest way. SPARINGLY_KILLS sets how often it is killed.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from sparingly.ledger import UNIT
from sparingly.serve import run
from sparingly.serve.estimates import estimate_actions
from sparingly.serve.live_agent import LiveAgent
from sparingly.serve.sqlite import FILE
from sparingly.serve.store import Store
from tests.serve.crashing import Acknowledged, Life, Nursery, WritingClient, nursery, quiet_port
from tests.serve.postgres import postgres

__all__ = ["postgres"]  # a fixture
KILLS = int(os.environ.get("SPARINGLY_KILLS", "100"))
WRITERS = 4
# Both want to ask every time: the budget alone stops them, and it is always nearly exhausted. Leases are so short that
# many expire while the service is dead.
COMMON = {"budget": {"initial": 3, "growth": {"by": "decisions", "rate": 0.3}}, "lease": 0.3}
AGENTS: dict[str, dict[str, Any]] = {
    "arms": {
        "learner": {"type": "UCB1", "ties": "random"}, "actions": ["a", "b", "c"], "contexts": ["x", "y"],
        "costs": [1, 0.5, 2.25], "rule": {"type": "Always"}, "unanswered": {"close_after": 1.5}, "seed": 7, **COMMON,
    },
    "linear": {"learner": {"type": "OFUL", "dim": 3}, "rule": {"type": "Always"}, "seed": 8, **COMMON},
}  # fmt: skip


def test_killed_on_sqlite(tmp_path):
    """One process, four connections."""
    data = tmp_path / "data"
    with nursery(tmp_path, data=data) as made:
        logs, shown = check(made, [Life(quiet_port())])
    check_memory(run.open_store(data, None), logs, shown)
    connection = sqlite3.connect(data / FILE)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_killed_on_postgres(tmp_path, postgres):
    """Four processes on one database; a random one is killed, and its client goes on with another one."""
    database = postgres.url("killed")
    with nursery(tmp_path, database=database) as made:
        logs, shown = check(made, [Life(quiet_port()) for _ in range(WRITERS)])
    check_memory(run.open_store(None, database), logs, shown)


def check(made: Nursery, lives: list[Life]) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Everything that can be seen from outside; gives the logs, and the estimates of every process."""
    started = time.monotonic()
    for life in lives:
        made.bear(life)
    for life in lives:
        made.await_service(life)
    writers = write_and_kill(made, lives)
    took = time.monotonic() - started
    done = [one for writer in writers for one in writer.acknowledged]
    check_retries(lives, writers)
    await_rest(lives[0])
    logs = {name: read_log(lives[0], name) for name in AGENTS}
    for name, log in logs.items():
        final = check_ledger(AGENTS[name], log)
        check_told([one for one in done if one.agent == name], log, final)
        assert [read(life, f"/v1/agents/{name}")["budget"] for life in lives] == [final.budget()] * len(lives)
    shown = {name: [read(life, f"/v1/agents/{name}/estimates") for life in lives] for name in AGENTS}
    assert made.complaints() == ""
    kinds, cut, found = Counter(one.kind for one in done), sum(w.cut for w in writers), sum(w.found for w in writers)
    print(
        f"{KILLS} kills in {took:.0f} s: {kinds['decisions']:,} decisions, {kinds['feedback']:,} answers and "
        f"{kinds['grants']:,} grants acknowledged; {cut} calls cut off, {found} of them after they were stored; "
        f"all checked in {time.monotonic() - started - took:.0f} s"
    )
    assert kinds["decisions"] > 2 * KILLS and cut > KILLS // 4, "hardly a kill hit anything"
    assert found > 0, "no kill hit the moment between storing and answering"
    return logs, shown


def write_and_kill(made: Nursery, lives: list[Life]) -> list[WritingClient]:
    """Four clients at work while services die; all services are alive at the end."""
    stop, chance, ports = threading.Event(), random.Random(1), [life.port for life in lives]
    writers = [WritingClient(f"w{k}", ports[k % len(ports) :] + ports[: k % len(ports)], stop) for k in range(WRITERS)]
    for name, body in AGENTS.items():
        assert writers[0].call("PUT", f"/v1/agents/{name}", body)[0] == 201
    for writer in writers:
        writer.start()
    for _ in range(KILLS):
        life = chance.choice(lives)
        if chance.random() < 0.9:  # one in ten dies before it has answered anything
            made.await_service(life)
        time.sleep(chance.uniform(0.02, 0.15))
        made.kill(life)
        made.bear(life)
        assert all(writer.is_alive() for writer in writers), [writer.failure for writer in writers]
    for life in lives:
        made.await_service(life)
    time.sleep(0.2)
    stop.set()
    for writer in writers:
        writer.join(120)
        assert not writer.is_alive() and writer.failure is None, writer.failure
    return writers


def read(life: Life, path: str) -> Any:
    return json.loads(get(life, path))


def get(life: Life, path: str) -> bytes:
    reader = WritingClient("reader", [life.port], threading.Event())
    try:
        status, raw = reader.call("GET", path)
    finally:
        reader.close()
    assert status == 200, raw
    return raw


def read_log(life: Life, name: str, seed: int | None = None) -> list[dict[str, Any]]:
    head, *log = [json.loads(line) for line in get(life, f"/v1/agents/{name}/log").splitlines()]
    assert head["kind"] == "agent" and head["body"]["seed"] == (AGENTS[name]["seed"] if seed is None else seed)
    return log


def check_retries(lives: list[Life], writers: list[WritingClient]) -> None:
    """Every acknowledged write once more: the same answer, byte for byte, from whichever process."""

    def again(number: int) -> None:
        port = lives[number % len(lives)].port
        client = WritingClient("again", [port], threading.Event())
        try:
            for one in writers[(number + 1) % WRITERS].acknowledged:  # by way of another process than before
                told = client.insist(one.path, one.body, also=one.status)
                assert told.status == one.status, (one, told)
                if one.kind == "activate" and one.status == 200:  # what it tells goes on: it may be answered by now
                    assert unchanging(told.raw) == unchanging(one.raw)
                else:
                    assert told.raw == one.raw
        finally:
            client.close()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(again, range(WRITERS)))


def await_rest(life: Life) -> None:
    """Wait until every lease has expired and every ask that can be is closed: from then on nothing happens."""
    until = time.monotonic() + 30
    while any(read(life, f"/v1/agents/{name}/asks?status=held")["events"] for name in AGENTS) or any(
        event["due_at"] for event in read(life, "/v1/agents/arms/asks?status=open")["events"]
    ):
        assert time.monotonic() < until, "leases do not expire"
        time.sleep(0.1)


def unchanging(raw: bytes) -> dict[str, Any]:
    changing = ("status", "reward", "late", "due_at", "answered_at")
    return {name: value for name, value in json.loads(raw).items() if name not in changing}


class Ledger:
    """The budget, kept by hand: units are millionths."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.initial, self.rate = body["budget"]["initial"] * UNIT, round(body["budget"]["growth"]["rate"] * UNIT)
        self.decisions = self.grants = self.spent = self.held = self.asks = self.answers = 0
        self.statuses: dict[str, str] = {}
        self.costs: dict[str, int] = {}

    @property
    def granted(self) -> int:
        return self.initial + self.rate * self.decisions + self.grants

    def budget(self) -> dict[str, float]:
        left = self.granted - self.spent - self.held
        return {
            "granted": self.granted / UNIT,
            "spent": self.spent / UNIT,
            "held": self.held / UNIT,
            "left": left / UNIT,
        }

    def enter(self, record: dict[str, Any]) -> None:
        """Live through one record; a step that cannot be raises."""
        if record["kind"] == "decision":
            self._decide(record)
        elif record["kind"] == "grant":
            self.grants += record["amount"]
        else:
            getattr(self, record["kind"])(record["key"])

    def _decide(self, record: dict[str, Any]) -> None:
        event = record["event_id"]
        assert event not in self.statuses
        self.decisions += 1
        assert record["number"] == self.decisions
        self.costs[event] = record["cost"]
        self.statuses[event] = "not_asked"
        if record["ask"]:
            self.asks += 1
            deferred = record["lease"] is not None
            self.statuses[event] = "held" if deferred else "open"
            self.held += deferred * record["cost"]
            self.spent += (not deferred) * record["cost"]

    def _step(self, event: str, before: tuple[str, ...], after: str) -> int:
        assert self.statuses[event] in before, f"{event}: from {self.statuses[event]} to {after}"
        self.statuses[event] = after
        return self.costs[event]

    def activate(self, event: str) -> None:
        cost = self._step(event, ("held",), "open")
        self.held, self.spent = self.held - cost, self.spent + cost

    def release(self, event: str) -> None:
        self.held -= self._step(event, ("held",), "released")
        self.asks -= 1

    def expire(self, event: str) -> None:
        self.held -= self._step(event, ("held",), "expired")
        self.asks -= 1

    def close(self, event: str) -> None:
        self._step(event, ("open",), "unanswered")

    def feedback(self, event: str) -> None:
        self._step(event, ("open", "unanswered"), "answered")
        self.answers += 1


def check_ledger(body: dict[str, Any], log: list[dict[str, Any]], kept: Ledger | None = None) -> Ledger:
    """No gap, no step back in time, and after every record the counters that a ledger kept by hand has, too."""
    ledger, last_at = kept or Ledger(body), 0
    for seq, record in enumerate(log, start=1):
        assert record["seq"] == seq
        assert record["at"] >= last_at
        last_at = record["at"]
        ledger.enter(record)
        mine = [ledger.granted, ledger.spent, ledger.held, ledger.asks, ledger.answers]
        assert [record[name] for name in ("granted", "spent", "held", "asks", "answers")] == mine, record
        assert ledger.spent + ledger.held <= ledger.granted, record
    for record in log:
        if record["kind"] == "decision":
            assert ledger.statuses[record["event_id"]] == record["status"]
    return ledger


def check_told(done: list[Acknowledged], log: list[dict[str, Any]], final: Ledger, exhausted: bool = True) -> None:
    """Every acknowledged write is in the log once, as it was told; there is nothing else in it."""
    decisions = {record["event_id"]: record for record in log if record["kind"] == "decision"}
    entries = Counter((record["kind"], record["key"]) for record in log if record["kind"] != "decision")
    amounts = {(record["kind"], record["key"]): record for record in log if record["kind"] != "decision"}
    asked, wanted = 0, Counter[str]()
    for one in done:
        answer, kind = one.answer, one.kind
        wanted[kind] += 1
        if kind == "decisions":
            record = decisions[one.body["event_id"]]
            assert told(record) == {name: answer[name] for name in told(record)}
            refunded = final.statuses[record["event_id"]] in ("released", "expired")
            asked += answer["ask"] * (not refunded) * record["cost"]
            continue
        event = one.path.split("/")[5] if kind != "grants" else one.body["grant_id"]
        entry = {"grants": "grant"}.get(kind, kind)
        if kind == "release" and answer["status"] == "expired":
            entry = "expire"
        if one.status == 409:
            assert entries["activate", event] == 0 and entries["expire", event] == 1
        else:
            assert entries[entry, event] == 1, (entry, event)
        if kind == "feedback":
            assert amounts[entry, event]["reward"] == one.body["reward"] == answer["reward"]
        if kind == "grants":
            assert amounts[entry, event]["amount"] == one.body["amount"] * UNIT == answer["amount"] * UNIT
    assert wanted["decisions"] == len(decisions) and wanted["grants"] == sum(r["kind"] == "grant" for r in log)
    assert wanted["feedback"] == sum(record["kind"] == "feedback" for record in log)
    assert asked == final.spent + final.held <= final.granted
    left = final.granted - asked
    assert not exhausted or left < 0.2 * final.granted, "the budget was not nearly exhausted: the test shows nothing"


def told(record: dict[str, Any]) -> dict[str, Any]:
    """What the caller of a decision must have been told, as far as it stands in the log."""
    left = record["granted"] - record["spent"] - record["held"]
    counters = {name: record[name] / UNIT for name in ("granted", "spent", "held")} | {"left": left / UNIT}
    return {
        "event_id": record["event_id"], "number": record["number"], "action_index": record["action"],
        "ask": bool(record["ask"]), "reason": record["reason"], "width": record["width"],
        "threshold": record["threshold"], "budget": counters, "decided_at": record["time"],
    }  # fmt: skip


def check_memory(store: Store, logs: dict[str, list[Any]], shown: dict[str, list[Any]]) -> None:
    """What was learned: the same from the whole log, from the last snapshot on, and in every process that served."""
    try:
        rows, now = store.begin(sorted(AGENTS))
        for name, row in rows.items():
            assert row.seq >= len(logs[name])
            snapshot = store.snapshot(row.id)
            assert snapshot is not None and 0 < snapshot[0] <= row.seq
            whole, short = LiveAgent.load(row), LiveAgent.load(row, snapshot)
            for live in (whole, short):
                live.apply(store.records(row.id, live.applied, row.seq))
            assert whole.snapshot() == short.snapshot()
            live.begin(row, now)
            here = msgspec.to_builtins(estimate_actions(whole, None))
            assert shown[name] == [here] * len(shown[name])
        store.rollback()
    finally:
        store.close()
