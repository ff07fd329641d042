"""A fixed script of requests, answered as it was when the answers were recorded: status, content type and body.

`python -m tests.serve.test_recorded_answers --write` records the answers again, after a change that callers shall see.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sparingly.serve.app import Service
from sparingly.serve.sqlite import SqliteStore
from sparingly.version import __version__

RECORDED = Path(__file__).with_name("recorded_answers.json")
TOKEN = "correct-horse-battery-staple"
START = 1_767_225_600_000_000  # microseconds; the clock moves only where the script waits, so times can be compared


@dataclass(frozen=True)
class Request:
    """One request of the script."""

    method: str
    path: str
    body: Any = None  # sent as JSON; bytes are sent as they are
    headers: tuple[tuple[str, str], ...] = ()
    guarded: bool = False  # to a second service, which has a token

    def __str__(self) -> str:
        return f"{self.method} {self.path}{' (with a token)' if self.guarded else ''}"


@dataclass(frozen=True)
class Wait:
    """Let the clock go on."""

    seconds: float


Step = Request | Wait

ARMS = {"learner": {"type": "UCB1"}, "actions": ["a", "b", "c"], "seed": 3}
AGENTS: dict[str, dict[str, Any]] = {
    "contexts": {
        **ARMS, "contexts": ["x", "y"], "costs": [1.0, 2.0, 0.5], "budget": {"initial": 30.0}, "lease": 60.0,
        "rewards": {"low": 1.0, "high": 5.0}, "unanswered": {"close_after": 600.0}, "description": "hé",
    },
    "clock": {
        **ARMS, "rule": {"type": "PaperMatching"}, "unanswered": {"close_after": 5.0},
        "budget": {"initial": 40.0, "growth": {"by": "clock", "amount": 90.0, "every": 60.0}},
    },
    "moss": {
        "learner": {"type": "MOSS", "scale": 0.5, "ties": "random"}, "actions": ["a", "b"], "seed": 7,
        "rule": {"type": "Matching", "alpha": 2.0, "beta": 0.75},
        "budget": {"growth": {"by": "decisions", "rate": 0.4}},
    },
    "greedy": {
        **ARMS, "rule": {"type": "Greedy", "policies": 2}, "budget": {"initial": 6.0},
        "unanswered": {"close_after": 5.0, "late": "keep"},
    },
    "always": {**ARMS, "rule": {"type": "Always"}, "budget": {"initial": 3.5}, "costs": [1.0, 0.0, 2.0]},
    "never": {**ARMS, "rule": {"type": "Never"}, "budget": {"initial": 3.0}},
    "linear": {
        "learner": {"type": "OFUL", "dim": 2, "noise": 0.2, "radius": "simple"}, "actions": ["left", "right"],
        "budget": {"initial": 8.0, "growth": {"by": "grants"}},
    },
    "nameless": {
        "learner": {"type": "OFUL", "dim": 3, "scale": 0.5}, "rule": {"type": "Greedy"}, "budget": {"initial": 4.0},
    },
}  # fmt: skip
UNFIT: tuple[dict[str, Any], ...] = (
    {},
    {"learner": {"type": "UCB1"}},
    {"learner": {"type": "EXP3"}, "actions": ["a"]},
    {"learner": {"type": "OFUL", "dim": 0}},
    {"learner": {"type": "OFUL", "dim": 2}, "contexts": ["x"]},
    {**ARMS, "actions": ["a", "a"]},
    {**ARMS, "actions": []},
    {**ARMS, "costs": [1.0]},
    {**ARMS, "costs": [1.0, -1.0, 1.0]},
    {**ARMS, "budget": {"initial": -1.0}},
    {**ARMS, "budget": {"growth": {"by": "luck"}}},
    {**ARMS, "rule": {"type": "Matching"}},
    {**ARMS, "rule": {"type": "Greedy", "policies": 65}},
    {**ARMS, "rewards": {"low": 1.0, "high": 1.0}},
    {**ARMS, "color": "red"},
    {"learner": {"type": "OFUL", "dim": 200}, "rule": {"type": "Greedy", "policies": 64}},
)


def agent(name: str, below: str = "") -> str:
    return f"/v1/agents/{name}{below}"


def event(name: str, event_id: str, below: str = "") -> str:
    return agent(name, f"/decisions/{event_id}{below}")


def creating() -> Iterator[Step]:
    yield Request("GET", "/v1/agents")
    for name, body in AGENTS.items():
        yield Request("PUT", agent(name), body)
    yield Request("PUT", agent("contexts"), AGENTS["contexts"])
    yield Request("PUT", agent("contexts"), AGENTS["clock"])
    for body in UNFIT:
        yield Request("PUT", agent("unfit"), body)
    yield Request("PUT", agent("-unfit"), ARMS)
    yield Request("GET", agent("contexts", "/history"))
    yield Request("GET", agent("linear", "/estimates"))


def sight(name: str, t: int) -> dict[str, Any]:
    """What an agent is shown in round t."""
    if name == "contexts":
        return {"context": ["x", "y", 1, "x"][t % 4]}
    if name == "linear":
        return {"features": [[[0.6, 0.8], [1.0, 0.0]], [[0.1, -0.9], [0.3, 0.3]], [[0, 1], [-0.5, 0.5]]][t % 3]}
    if name == "nameless":
        return {"features": [[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]] + [[0.3, 0.3, t / 20]] * (t % 2)}
    return {}


def waiting(seconds: float) -> Iterator[Step]:
    """Let time pass, and what is due expire at once: a call about an agent sees to that."""
    yield Wait(seconds)
    for name in AGENTS:
        yield Request("GET", agent(name, "/estimates"))


def playing() -> Iterator[Step]:
    """Decisions of all agents, some of them deferred, and feedback for most."""
    for t in range(10):
        for name in AGENTS:
            body = {"event_id": f"e{t}", **sight(name, t), "defer": t in (3, 5, 6)}
            if t % 4 == 0:
                body["payload"] = {"t": t, "text": "hé"}
            yield Request("POST", agent(name, "/decisions"), body)
            if t in (3, 5):
                yield Request("POST", event(name, f"e{t}", "/activate" if t == 3 else "/release"))
            if t not in (2, 5, 6):
                yield Request("POST", event(name, f"e{t}", "/feedback"), {"reward": 1 if t % 3 else 0.5 + t / 18})
        yield from waiting(1.5)


def repeating() -> Iterator[Step]:
    """The same again, which changes nothing, and something else under the same id, which is refused."""
    first = {"event_id": "e0", "context": "x", "defer": False, "payload": {"text": "hé", "t": 0}}
    yield Request("POST", agent("contexts", "/decisions"), first)
    yield Request("POST", agent("contexts", "/decisions"), {**first, "context": "y"})
    yield Request("POST", agent("contexts", "/decisions"), {**first, "payload": 1})
    yield Request("POST", event("contexts", "e1", "/feedback"), {"reward": 1.0})
    yield Request("POST", event("contexts", "e1", "/feedback"), {"reward": 2.0})
    yield Request("POST", event("contexts", "e2", "/feedback"), {"reward": 5.5})
    yield Request("POST", event("contexts", "e2", "/feedback"), {"reward": 4.5})
    yield Request("POST", event("contexts", "e2", "/feedback"), {"reward": 4.5})
    for step in ("activate", "release"):
        for t in (2, 3, 5):
            yield Request("POST", event("contexts", f"e{t}", f"/{step}"))
    yield Request("POST", event("always", "e9", "/feedback"), {"reward": 0.5})
    yield Request("POST", event("never", "e0", "/feedback"), {"reward": 0.5})


def booking() -> Iterator[Step]:
    for kind in ("grant", "charge"):
        for key, amount in (("one", 1.25), ("one", 1.25), ("one", 2.0), ("two", 0.0000005), ("three", 1e12)):
            yield Request("POST", agent("contexts", f"/{kind}s"), {f"{kind}_id": key, "amount": amount})
    yield Request("POST", agent("contexts", "/grants"), {"grant_id": "four", "amount": -1})
    yield Request("POST", agent("contexts", "/grants"), {"amount": 1})
    yield Request("POST", agent("greedy", "/grants"), {"grant_id": "one", "amount": 3})
    yield Request("POST", agent("greedy", "/decisions"), {"event_id": "later"})


def pausing() -> Iterator[Step]:
    yield Request("POST", agent("linear", "/grants"), {"grant_id": "one", "amount": 20})
    for step in ("pause", "pause", "resume"):
        yield Request("POST", agent("linear", f"/{step}"), {} if step == "resume" else None)
        yield Request("POST", agent("linear", "/decisions"), {"event_id": f"{step}d", **sight("linear", 1)})
    yield Request("POST", agent("linear", "/pause"), {"until": "tomorrow"})


def being_late() -> Iterator[Step]:
    """Asks that expire, that are closed, and that are answered afterwards."""
    for name in ("contexts", "greedy"):
        body = {**sight(name, 0), "defer": False}
        yield Request("POST", agent(name, "/decisions"), {"event_id": "open", **body})
        yield Request("POST", agent(name, "/decisions"), {"event_id": "held", **body, "defer": True})
    yield from waiting(61.0)
    yield Request("POST", event("contexts", "held", "/activate"))
    yield Request("POST", event("contexts", "held", "/release"))
    yield from waiting(600.0)
    for name in ("contexts", "greedy"):
        yield Request("GET", event(name, "open"))
        yield Request("POST", event(name, "open", "/feedback"), {"reward": 1.0})
        yield Request("GET", event(name, "open"))
        yield Request("GET", agent(name, "/estimates"))


def looking() -> Iterator[Step]:
    yield Request("GET", "/v1/agents")
    for name in AGENTS:
        yield Request("GET", agent(name))
        yield Request("GET", agent(name, "/decisions"))
        yield Request("GET", agent(name, "/history"))
        yield Request("GET", agent(name, "/log"))
    for status in ("open", "held", "answered", "unanswered", "released", "expired"):
        yield Request("GET", agent("contexts", f"/asks?status={status}"))
    yield Request("GET", agent("contexts", "/asks"))
    yield Request("GET", agent("contexts", "/asks?status=answered&limit=2&after=3"))
    yield Request("GET", agent("contexts", "/decisions?limit=3&before=9&payload=false"))
    yield Request("GET", agent("contexts", "/estimates?context=y"))
    yield Request("GET", agent("contexts", "/history?points=4"))
    yield Request("GET", agent("contexts", "/log?after=12"))
    yield Request("GET", agent("contexts", "/log?format=parquet"))
    yield Request("GET", event("contexts", "e0"))
    yield Request("HEAD", agent("contexts"))
    yield Request("GET", "/v1/clock")
    for moment in ("2026-01-01T00:11:16Z", "2036-01-01T00:00:00Z", "2026-01-01T00:00:00", "noon"):
        yield Request("POST", "/v1/clock/confirm", {"now": moment})
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/", "/page/page.js"):
        yield Request("GET", path)


def mistaking() -> Iterator[Step]:
    """Requests that are refused."""
    decisions = agent("contexts", "/decisions")
    for body in (
        b"", b" ", b"{", b"[1, 2", b'{"event_id": "a", "event_id": "b"}', b'{"payload": NaN}', b'{"payload": 1e999}',
        b'{"payload": "\\ud800"}', b"\xff", b'{"payload": ' + b"[" * 40 + b"]" * 40 + b"}", b"[]", b"null", b'"text"',
        b'{"payload": ' + b"1" * 500 + b"}", b" " * 300_000,
    ):  # fmt: skip
        yield Request("POST", decisions, body)
    for wrong in (
        {}, {"context": "z"}, {"context": 2}, {"context": 1.5}, {"context": "x", "features": [[1.0]]},
        {"context": "x", "event_id": "-"}, {"context": "x", "event_id": "a" * 129}, {"context": "x", "more": 1},
        {"context": "x", "defer": "yes"},
    ):  # fmt: skip
        yield Request("POST", decisions, wrong)
    for rows in ([[1.0, 0.0]], [[1.0], [0.0]], [[1.0, 0.0], [0.0]], [[9.0, 0.0], [0.0, 0.0]], []):
        yield Request("POST", agent("linear", "/decisions"), {"event_id": "no", "features": rows})
    yield Request("POST", agent("linear", "/decisions"), {"event_id": "no", "context": "x"})
    yield Request("POST", agent("never", "/decisions"), {"event_id": "no", "context": "x"})
    yield Request("POST", event("contexts", "e2", "/feedback"), {"reward": "much"})
    yield Request("POST", event("contexts", "nothing", "/feedback"), {"reward": 1.0})
    yield Request("GET", event("contexts", "nothing"))
    yield Request("GET", event("contexts", "%00"))
    yield Request("POST", event("contexts", "nothing", "/activate"))
    for path in ("/nothing", "/v1", "/v1/agents/nobody", "/v1/agents/%2e%2e", "/page/nothing.js", "//v1/agents"):
        yield Request("GET", path)
    yield Request("POST", agent("nobody", "/decisions"), {})
    yield Request("POST", agent("nobody", "/grants"), {"grant_id": "one", "amount": 1})
    yield Request("DELETE", "/v1/agents")
    yield Request("POST", agent("contexts"))
    for query in ("limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "color=red", "payload=no", "%ff=1"):
        yield Request("GET", f"{decisions}?{query}")
    yield Request("GET", "/healthz?a=1")
    yield Request("GET", agent("contexts", "/estimates?context=z"))
    yield Request("GET", agent("contexts", "/asks?status=lost"))
    yield Request("GET", agent("contexts", "/log?format=csv"))
    for kind in ("text/plain", "application/json; charset=latin-1"):
        yield Request("POST", decisions, {"context": "x"}, (("content-type", kind),))
    yield Request("POST", decisions, {"context": "x"}, (("content-encoding", "gzip"),))
    yield Request("GET", "/v1/agents", headers=(("host", "example.com"),))
    yield Request("GET", "/v1/agents", headers=(("origin", "http://example.com"),))
    yield Request("GET", "/v1/agents", headers=(("x-long", "a" * 40_000),))


def deleting() -> Iterator[Step]:
    yield Request("DELETE", agent("never"))
    yield Request("DELETE", agent("never", "?confirm=always"))
    for _ in range(2):
        yield Request("DELETE", agent("never", "?confirm=never"))
    yield Request("GET", agent("never"))
    yield Request("PUT", agent("never"), AGENTS["never"])
    yield Request("GET", "/v1/agents")


def entering() -> Iterator[Step]:
    """A service with a token."""
    right, wrong = (("authorization", f"Bearer {TOKEN}"),), (("authorization", "Bearer of-something-else"),)
    for path in ("/v1/agents", "/v1/agents/nobody", "/nothing", "/healthz", "/metrics", "/openapi.json"):
        yield Request("GET", path, guarded=True)
    yield Request("GET", "/v1/agents", headers=wrong, guarded=True)
    yield Request("GET", "/v1/agents", headers=right, guarded=True)
    yield Request("PUT", agent("one"), ARMS, right, guarded=True)
    yield Request("GET", "/nothing", headers=right, guarded=True)


def script() -> Iterator[Step]:
    for part in (
        creating, playing, repeating, booking, pausing, being_late, looking, mistaking, deleting, entering,
    ):  # fmt: skip
        yield from part()


class Player:
    """Two services in this process, one without and one with a token, and the clock of both."""

    def __init__(self, folder: Path) -> None:
        self.runner, self.now = asyncio.Runner(), START
        self.services = [self._started(folder / "open", None), self._started(folder / "guarded", TOKEN)]

    def _started(self, folder: Path, token: str | None) -> Service:
        store = SqliteStore(folder, lambda: self.now)
        store.open()

        async def start() -> Service:
            service = Service(store, token)
            await service.start()
            return service

        return self.runner.run(start())

    def close(self) -> None:
        for service in self.services:
            self.runner.run(service.stop())
        self.runner.close()

    def answer(self, request: Request) -> dict[str, Any]:
        """Send a request; what came back, as it is recorded."""
        data = request.body if isinstance(request.body, bytes) else json.dumps(request.body).encode()
        path, _, query = request.path.partition("?")
        headers = {"host": "localhost", "content-type": "application/json"} | dict(request.headers)
        scope = {
            "type": "http", "method": request.method, "path": path, "raw_path": path.encode(),
            "query_string": query.encode(), "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }  # fmt: skip
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"" if request.body is None else data}

        async def send(message: Any) -> None:
            sent.append(message)

        self.runner.run(self.services[request.guarded](scope, receive, send))
        kind = dict(sent[0]["headers"])[b"content-type"].decode()
        text = b"".join(message.get("body", b"") for message in sent[1:])
        return {"request": str(request), "status": sent[0]["status"], "type": kind, "body": readable(kind, text)}


def readable(kind: str, text: bytes) -> Any:
    """A body as it is recorded: of files only what matters to their readers."""
    if kind in ("application/json", "application/problem+json"):
        return plain(json.loads(text))
    if kind == "application/x-ndjson":
        return [plain(json.loads(line)) for line in text.splitlines()]
    if kind == "application/vnd.apache.parquet":
        table = pyarrow.parquet.read_table(io.BytesIO(text))
        return {"columns": [str(field) for field in table.schema], "rows": table.num_rows}
    if kind.startswith("text/plain"):
        return sorted(
            f"{sample.name} {family.type} {','.join(sorted(sample.labels))}"
            for family in text_string_to_metric_families(text.decode())
            for sample in {s.name: s for s in family.samples}.values()
        )
    return "…"  # pages have tests of their own


def plain(value: Any, name: str = "") -> Any:
    """JSON with a placeholder for the version, and with numbers to nine digits."""
    if isinstance(value, dict):
        return {key: plain(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if name == "version" and value == __version__:
        return "VERSION"
    return float(f"{value:.9g}") if isinstance(value, float) else value


def answers() -> Iterator[dict[str, Any]]:
    """What the services answer to the script."""
    with tempfile.TemporaryDirectory() as folder:
        player = Player(Path(folder))
        try:
            for step in script():
                if isinstance(step, Wait):
                    player.now += round(step.seconds * 1_000_000)
                else:
                    yield player.answer(step)
        finally:
            player.close()


def written(recorded: list[dict[str, Any]]) -> str:
    """The file: an answer a line, so that a difference is easy to find."""
    lines = (json.dumps(answer, ensure_ascii=False) for answer in recorded)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def test_every_answer_is_as_recorded():
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    count = 0
    for count, (got, wanted) in enumerate(zip(answers(), recorded, strict=True), 1):  # noqa: B007
        assert got == wanted
    assert count == len(recorded) > 300


def test_the_script_meets_every_kind_of_answer():
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert {200, 201, 400, 401, 404, 405, 409, 413, 415, 421, 422, 431} <= {answer["status"] for answer in recorded}
    bodies = [answer["body"] for answer in recorded if isinstance(answer["body"], dict)]
    reasons = {body["reason"] for body in bodies if "reason" in body}
    wanted = {
        "width_reaches_threshold",
        "below_threshold",
        "reserve",
        "worth_it",
        "better_rounds",
        "budget_exhausted",
        "paused",
    }
    assert reasons == wanted
    statuses = {found["status"] for body in bodies for found in body.get("events", [])}
    assert statuses == {"not_asked", "open", "answered", "unanswered", "released", "expired"}
    assert {(body["late"], body["learned"]) for body in bodies if "learned" in body} >= {(True, True), (True, False)}


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(pytest.main([__file__]))
    RECORDED.write_text(written(list(answers())), encoding="utf-8")
