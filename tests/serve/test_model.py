"""The service and a model of it, driven in step by Hypothesis: equal answers, on SQLite and on PostgreSQL.

On SQLite the service is now and then stopped and started again; on PostgreSQL two services work on one database, and
any call goes to either of them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from sparingly.serve import writer
from sparingly.serve.app import Service
from sparingly.serve.live_agent import LiveAgent
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.queries import read_agents, read_answers, read_log
from sparingly.serve.sqlite import SqliteStore
from tests.serve.model import Model, Refused
from tests.serve.postgres import server

NAMES = itertools.count(1)
TEN = [f"e{i}" for i in range(10)]
IDS, BIT = st.sampled_from(TEN), st.integers(0, 1)
MOMENTS = st.sampled_from([1, 999, 1_000_000, 7_000_000, 60_000_000, 3_600_000_000])
GROWTH = st.sampled_from(
    [
        {"by": "grants"}, {"by": "clock", "amount": 50.0, "every": 86_400.0},
        {"by": "clock", "amount": 1.0, "every": 7.0}, {"by": "decisions", "rate": 0.05},
        {"by": "decisions", "rate": 0.7},
    ]
)  # fmt: skip
RULES = st.sampled_from([{"type": "ExactMatching"}, {"type": "Greedy", "policies": 2}, {"type": "Always"}])
FEATURES = [[[0.6, 0.8], [1.0, 0.0], [0.0, 0.5]], [[0.1, -0.9], [0.3, 0.3], [0.0, 1.0]]]


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Agents of all kinds, with little budget."""
    linear = draw(st.booleans())
    body: dict[str, Any] = {
        "learner": {"type": "OFUL", "dim": 2} if linear else {"type": draw(st.sampled_from(["UCB1", "MOSS"]))},
        "actions": ["a", "b", "c"],
        "rule": draw(RULES),
        "budget": {"initial": draw(st.sampled_from([0.0, 1.0, 3.0, 12.5, 40.0])), "growth": draw(GROWTH)},
        "unanswered": {
            "close_after": draw(st.sampled_from([None, 5.0, 600.0])), "late": draw(st.sampled_from(["learn", "keep"]))
        },
        "rewards": draw(st.sampled_from([{"low": 0.0, "high": 1.0}, {"low": 1.0, "high": 5.0}])),
        "lease": draw(st.sampled_from([2.0, 60.0])),
        "seed": draw(st.integers(0, 3)),
    }  # fmt: skip
    if draw(st.booleans()):
        body["costs"] = draw(st.sampled_from([[1.0, 2.0, 0.5], [0.25, 0.25, 0.25], [1.0, 0.0, 3.0]]))
    if not linear:
        body["contexts"] = ["x", "y"]
    return body


class Driver:
    """Services that are called in this process, without a network."""

    def __init__(self, make: Any, count: int) -> None:
        self.runner, self.make, self.now = asyncio.Runner(), make, 1_000_000_000
        self.services = [self._started() for _ in range(count)]

    def _started(self) -> Service:
        store = self.make(lambda: self.now)
        store.open()

        async def start() -> Service:
            service = Service(store)
            await service.start()
            return service

        return self.runner.run(start())

    def restart(self, which: int) -> None:
        self.runner.run(self.services[which].stop())
        self.services[which] = self._started()

    def call(self, which: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }  # fmt: skip
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": data}

        async def send(message: Any) -> None:
            sent.append(message)

        self.runner.run(self.services[which](scope, receive, send))
        text = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], text

    def close(self) -> None:
        for service in self.services:
            self.runner.run(service.stop())
        self.runner.close()


class Machine(RuleBasedStateMachine):
    """One agent, called in all ways."""

    driver: Driver
    count = 1

    @initialize(body=bodies())
    def create(self, body: dict[str, Any]) -> None:
        self.name = f"agent-{next(NAMES)}"
        self.path = f"/v1/agents/{self.name}"
        assert self.driver.call(0, "PUT", self.path, body)[0] == 201
        assert self.driver.call(0, "PUT", self.path, body)[0] == 200
        assert self.driver.call(0, "PUT", self.path, {**body, "seed": 4})[0] == 409
        self.model = Model(self.name, body, self.driver.now)

    def call(self, which: int, method: str, path: str, body: Any, expected: Any) -> Any:
        """Call the service and the model; both must say the same. `expected` is called after the model's sweep."""
        self.model.sweep(self.driver.now)
        try:
            wanted: tuple[int, Any] = 200, expected()
        except Refused as refused:
            wanted = refused.status, None
        status, text = self.driver.call(which, method, self.path + path, body)
        assert status == wanted[0], (text, wanted)
        got = json.loads(text)
        if wanted[1] is not None:
            assert got == wanted[1]
        return got

    @rule(event_id=IDS, u=BIT, payload=st.sampled_from(["", "hé", None]), defer=st.booleans(), which=BIT)
    def decide(self, event_id: str, u: int, payload: Any, defer: bool, which: int) -> None:
        body: dict[str, Any] = {"event_id": event_id, "defer": defer}
        if payload != "":
            body["payload"] = payload
        body |= {"features": FEATURES[u]} if self.model.body["learner"]["type"] == "OFUL" else {"context": "xy"[u]}
        self.call(which % self.count, "POST", "/decisions", body, lambda: self.model.decide(body))

    @rule(event_id=IDS, reward=st.sampled_from([0.0, 0.5, 1.0, 4.0, 5.0]), which=BIT)
    def feedback(self, event_id: str, reward: float, which: int) -> None:
        path, body = f"/decisions/{event_id}/feedback", {"reward": reward}
        self.call(which % self.count, "POST", path, body, lambda: self.model.feedback(event_id, reward))

    @rule(event_id=IDS, step=st.sampled_from(["activate", "release"]), which=BIT)
    def lease(self, event_id: str, step: str, which: int) -> None:
        statuses: list[str] = []
        path = f"/decisions/{event_id}/{step}"
        got = self.call(
            which % self.count, "POST", path, None, lambda: statuses.append(getattr(self.model, step)(event_id))
        )
        if statuses:
            assert got["status"] == statuses[0]

    @rule(
        kind=st.sampled_from(["grant", "charge"]), key=st.sampled_from("xyz"), amount=st.sampled_from([0.5, 2.0, 7.25]),
        which=BIT,
    )  # fmt: skip
    def book(self, kind: str, key: str, amount: float, which: int) -> None:
        body = {f"{kind}_id": key, "amount": amount}
        self.call(which % self.count, "POST", f"/{kind}s", body, lambda: self.model.book(kind, key, amount))

    @rule(paused=st.booleans(), which=BIT)
    def pause(self, paused: bool, which: int) -> None:
        self.call(which % self.count, "POST", "/pause" if paused else "/resume", None, lambda: None)
        self.model.paused = paused

    @rule(step=MOMENTS)
    def wait(self, step: int) -> None:
        self.driver.now += step

    @rule(which=BIT)
    def restart(self, which: int) -> None:
        self.driver.restart(which % self.count)

    @rule(event_id=IDS, which=BIT)
    def look(self, event_id: str, which: int) -> None:
        self.settle(which % self.count)
        status, text = self.driver.call(which % self.count, "GET", f"{self.path}/decisions/{event_id}")
        known = self.model.events.get(event_id)
        assert (status == 200) == (known is not None)
        if known is not None:
            got = json.loads(text)
            assert (got["status"], got["reward"], got["late"]) == (known.status, known.reward, known.late)
            assert got["payload"] == known.body.get("payload")

    def settle(self, which: int) -> dict[str, Any]:
        """Let what is due expire, on both sides; the service's estimates."""
        self.model.sweep(self.driver.now)
        status, text = self.driver.call(which, "GET", f"{self.path}/estimates")
        assert status == 200, text
        return json.loads(text)

    @invariant()
    def counters_and_estimates_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        for which in range(self.count):
            told = self.settle(which)
            agent = json.loads(self.driver.call(which, "GET", self.path)[1])
            assert {key: agent[key] for key in self.model.counters()} == self.model.counters()
            assert agent["budget"]["left"] >= 0
            if self.model.body["learner"]["type"] != "OFUL":
                assert [e["asked"] for e in told["estimates"]] == self.model.agent.asked[0].tolist()
                assert [e["answered"] for e in told["estimates"]] == self.model.agent.answered[0].tolist()

    def teardown(self) -> None:
        """The log has no gaps, never exceeds the budget, and gives the agent again, from its very beginning."""
        if not hasattr(self, "model"):
            return
        self.settle(0)
        with self.driver.services[0].store.reader() as read:
            row = read_agents(read, self.name)[0]
            records = list(read_log(read, row.id, 0, row.seq))
            read_answers(read, row.id, records)
        assert [record.seq for record in records] == list(range(1, row.seq + 1))
        assert all(record.spent + record.held <= record.granted for record in records)
        replayed = LiveAgent.load(row)
        replayed.apply(records)
        live = self.driver.services[0].writer.live_agent(row)
        assert replayed.snapshot() == live.snapshot()
        assert (replayed.agent.ledger.spent, replayed.agent.decisions) == ((row.spent + row.held) / 1e6, row.decisions)


STEPS = settings(max_examples=40, stateful_step_count=40)


def test_on_sqlite(monkeypatch):
    monkeypatch.setattr(writer, "SNAPSHOT", 7)  # so that restarts meet old and new snapshots
    folder = Path(tempfile.mkdtemp())
    driver = Driver(lambda clock: SqliteStore(folder, clock), 1)
    try:
        run_state_machine_as_test(type("OnSqlite", (Machine,), {"driver": driver, "count": 1}), settings=STEPS)
    finally:
        driver.close()
        shutil.rmtree(folder)


def test_on_postgresql_with_two_services(monkeypatch):
    monkeypatch.setattr(writer, "SNAPSHOT", 7)
    with server() as database:
        url = database.url()
        driver = Driver(lambda clock: PostgresStore(url, clock), 2)
        try:
            run_state_machine_as_test(type("OnPostgres", (Machine,), {"driver": driver, "count": 2}), settings=STEPS)
        finally:
            driver.close()
