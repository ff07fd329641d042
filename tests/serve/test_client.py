"""The client: what it sends and reads, when it tries again, which errors it raises, and that both clients do the same.

Most tests answer in place of the service; the last ones run against the real one.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

import sparingly as sp
from sparingly.errors import Conflict, InvalidInput, NotFound, Refused, ServiceError, Unauthorized, Unavailable
from sparingly.serve import client, contract, sans_io
from tests.serve.serving import serving

URL = "http://service.test"
ROOT = Path(__file__).parents[2]
AT = "2026-01-31T12:00:00.000000Z"
BUDGET = contract.Budget(granted=20.0, spent=1.0, held=0.0, left=19.0)
BODY = contract.AgentBody(
    contract.UCB1(), actions=["small", "large"], budget=contract.BudgetBody(60.0, contract.ByDecisions(0.05))
)
AGENT = contract.Agent("router", BODY, AT, False, 1, 1, 0, 1, 0, 0, BUDGET)
DECISION = contract.Decision("router", "e1", 1, "small", 0, True, "width_reaches_threshold", 2.0, 1.2, BUDGET, None, AT)
FEEDBACK = contract.Feedback("router", "e1", 4.0, False, True, AT)
BOOKING = contract.Booking("router", "g1", 5.0, BUDGET, AT)
DELETED = contract.Deleted("router")


def event(number: int) -> contract.Event:
    return contract.Event(
        "router", f"e{number}", number, "small", 0, True, "width_reaches_threshold", 2.0, None, 1.0, "open", None,
        {"n": number}, None, False, AT, None, None,
    )  # fmt: skip


def reply(value: Any, status: int = 200, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx.Response(status, content=msgspec.json.encode(value), headers=names)


def problem(status: int, detail: str = "the reason", **headers: str) -> httpx.Response:
    return reply(contract.Problem(f"urn:sparingly:problem:{status}", "A title", status, detail), status, **headers)


class Twin:
    """Either client behind one face: an answer is a value, many answers are a list."""

    def __init__(self, client: Any, loop: asyncio.Runner) -> None:
        self.client = client
        self.loop = loop

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = getattr(self.client, name)(*args, **kwargs)
            if isinstance(self.client, sp.AsyncClient):
                result = self.loop.run(collect(result) if isinstance(result, AsyncIterator) else result)
            return list(result) if isinstance(result, Iterator) else result

        return call

    def answered_by(self, *replies: Any) -> list[httpx.Request]:
        """A fresh client that gets these replies in turn, the last one for ever; the list fills with its requests."""
        seen: list[httpx.Request] = []

        def handler(request: httpx.Request) -> httpx.Response:
            seen.append(request)
            answer = replies[min(len(seen), len(replies)) - 1]
            if isinstance(answer, Exception):
                raise answer
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

        self.client = type(self.client)(URL, transport=httpx.MockTransport(handler))
        return seen


async def collect(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


@pytest.fixture(params=["Client", "AsyncClient"])
def make(request):
    """Makes clients of one kind, and closes them at the end."""
    made: list[Twin] = []

    def new(url: str = URL, **options: Any) -> Twin:
        made.append(Twin(getattr(sp, request.param)(url, **options), loop))
        return made[-1]

    with asyncio.Runner() as loop:
        yield new
        for twin in made:
            twin.close()


@pytest.fixture
def pauses(monkeypatch):
    """No test waits: the pauses are written down instead."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(client.time, "sleep", found.append)
    monkeypatch.setattr(client.anyio, "sleep", sleep)
    return found


@pytest.fixture
def twin(make, pauses):
    return make()


# The same on both sides.


def public(kind: type) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def test_both_clients_have_the_same_methods():
    blocking, awaiting = public(sp.Client), public(sp.AsyncClient)
    assert set(blocking) == set(awaiting)
    assert set(blocking) == {
        "activate", "agent", "agents", "asks", "charge", "close", "create", "decide", "decisions", "delete",
        "estimates", "event", "frame", "grant", "health", "history", "log", "observe", "pause", "release", "resume",
        "update",
    }  # fmt: skip
    for name, method in blocking.items():
        assert inspect.signature(method) == inspect.signature(awaiting[name]), name
        assert method.__doc__ and method.__doc__ == awaiting[name].__doc__, name
    assert inspect.signature(sp.Client) == inspect.signature(sp.AsyncClient)
    assert str(inspect.signature(sp.Client("http://x").observe)).startswith("(agent: ")  # bound, for help()


CALLS = [
    ("create", ("router",), {"learner": {"type": "X"}}, "PUT /v1/agents/router", {"learner": {"type": "X"}}, AGENT),
    ("create", ("router", BODY), {}, "PUT /v1/agents/router", msgspec.to_builtins(BODY), AGENT),
    (
        "create", ("router",),
        {"learner": sp.UCB1(2, scale=0.3), "budget": 10, "rewards": (1, 5), "rule": sp.ExactMatching()},
        "PUT /v1/agents/router", {
            "learner": {
                "type": "UCB1", "scale": 0.3, "ties": "random", "forget": 0.0, "prior": 0.5, "prior_weight": 0.0,
            },
            "actions": ["0", "1"],
            "budget": {"initial": 10}, "rewards": {"low": 1, "high": 5},
            "rule": {"type": "ExactMatching", "explore": "asked"},
        }, AGENT,
    ),
    (
        "create", ("r",), {"learner": sp.OFUL(2, costs=[1, 2]), "budget": sp.budgets.Linear(0.05)},
        "PUT /v1/agents/r", {
            "learner": {
                "type": "OFUL", "dim": 2, "noise": 0.1, "delta": 0.05, "ridge": 1.0, "length": 1.0, "norm": 1.0,
                "radius": "determinant", "scale": 1.0, "ties": "random",
            }, "costs": [1.0, 2.0], "budget": {"growth": {"by": "decisions", "rate": 0.05}},
        }, AGENT,
    ),
    (
        "update", ("router",), {"add_actions": ["huge"], "costs": [2], "granted": 50, "rule": sp.Never()},
        "PATCH /v1/agents/router", {
            "add_actions": ["huge"], "retire_actions": [], "add_contexts": [], "retire_contexts": [], "granted": 50,
            "costs": [2], "rule": {"type": "Never", "explore": "asked"},
        }, AGENT,
    ),
    ("agents", (), {}, "GET /v1/agents", None, contract.AgentList([AGENT])),
    ("agent", ("router",), {}, "GET /v1/agents/router", None, AGENT),
    ("delete", ("router",), {}, "DELETE /v1/agents/router?confirm=router", None, DELETED),
    ("pause", ("router",), {}, "POST /v1/agents/router/pause", {}, AGENT),
    ("resume", ("router",), {}, "POST /v1/agents/router/resume", {}, AGENT),
    (
        "decide", ("router", "code"), {"payload": {"a": [None]}, "event_id": "e1", "defer": True},
        "POST /v1/agents/router/decisions",
        {"event_id": "e1", "context": "code", "payload": {"a": [None]}, "defer": True}, DECISION,
    ),
    (
        "decide", ("router",), {"features": [[1, 2], [3, 4.5]], "event_id": "e1"}, "POST /v1/agents/router/decisions",
        {"event_id": "e1", "features": [[1.0, 2.0], [3.0, 4.5]]}, DECISION,
    ),
    ("observe", ("router", "e1", 4), {}, "POST /v1/agents/router/decisions/e1/feedback", {"reward": 4.0}, FEEDBACK),
    ("activate", ("router", "e1"), {}, "POST /v1/agents/router/decisions/e1/activate", {}, event(1)),
    ("release", ("router", "e1"), {}, "POST /v1/agents/router/decisions/e1/release", {}, event(1)),
    ("event", ("router", "e1"), {}, "GET /v1/agents/router/decisions/e1", None, event(1)),
    ("grant", ("router", 5, "g1"), {}, "POST /v1/agents/router/grants", {"grant_id": "g1", "amount": 5.0}, BOOKING),
    ("charge", ("router", 5, "c1"), {}, "POST /v1/agents/router/charges", {"charge_id": "c1", "amount": 5.0}, BOOKING),
    (
        "estimates", ("router", "a&b"), {}, "GET /v1/agents/router/estimates?context=a%26b", None,
        contract.Estimates([contract.Estimate("small", "a&b", None, None, None, 0, 0, 2.0)], None, ["a&b"]),
    ),
    (
        "history", ("router", 7), {}, "GET /v1/agents/router/history?points=7", None,
        contract.History([contract.Point(at=AT, asks=1, answers=0, granted=20.0, spent=1.0, held=0.0)]),
    ),
    ("health", (), {}, "GET /readyz", None, contract.Health("ok", "1.0")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs", "line", "body", "answer"), CALLS, ids=[call[0] for call in CALLS])
def test_a_call_sends_what_the_contract_says_and_returns_its_type(twin, name, args, kwargs, line, body, answer):
    seen = twin.answered_by(reply(answer))
    assert getattr(twin, name)(*args, **kwargs) == answer
    (request,) = seen
    assert f"{request.method} {request.url.raw_path.decode()}" == line
    assert (json.loads(request.content) if request.content else None) == body
    assert request.headers.get("content-type") == (None if body is None else "application/json")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"learner": sp.UCBVI(2, 2, 2)}, r"the service has no learner UCBVI; it has UCB1, MOSS, .*OFUL"),
        ({"learner": sp.UCB1(2), "actions": ["a"]}, "has 2 actions, but 1 names were given"),
        ({"learner": sp.UCB1(2), "budget": "50 a day"}, "a schedule such as"),
        ({"learner": sp.UCB1(2), "budget": sp.budgets.Bernoulli(0.1)}, r"it has budgets\.Linear"),
        ({"learner": sp.UCB1(2, 2, costs=[[1, 2], [2, 1]]), "budget": 1}, "the same in all contexts"),
    ],
)
def test_parts_that_the_service_does_not_have(twin, fields, message):
    with pytest.raises(InvalidInput, match=message):
        twin.create("router", **fields)


def test_agents_can_be_iterated_and_decisions_are_a_frame(twin):
    twin.answered_by(reply(contract.AgentList([AGENT])))
    listed = twin.agents()
    assert ([agent.name for agent in listed], len(listed)) == (["router"], 1)
    twin.answered_by(reply(contract.EventList([event(3), event(2)], 2)), reply(contract.EventList([event(1)], None)))
    frame = twin.frame("router")
    assert frame["number"].tolist() == [1, 2, 3]
    assert frame["payload"].tolist() == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert frame["decided_at"].iloc[0].year == 2026
    assert frame["answered_at"].isna().all()
    with pytest.raises(InvalidInput, match=r"write \['x'\]"):
        twin.update("router", add_actions="x")


def test_pages_are_followed_to_the_end(twin):
    for name, onward in (("asks", "after"), ("decisions", "before")):
        pages = [
            contract.EventList([event(1), event(2)], 2),
            contract.EventList([], 9),
            contract.EventList([event(3)], None),
        ]
        seen = twin.answered_by(*(reply(page) for page in pages))
        assert getattr(twin, name)("router") == [event(1), event(2), event(3)]
        assert [request.url.params.get(onward) for request in seen] == [None, "2", "9"]
        assert {request.url.params.get("status") for request in seen} == {"open" if name == "asks" else None}


def test_pages_are_fetched_only_when_they_are_needed():
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return reply(contract.EventList([event(1), event(2)], 2))

    asks = sp.Client(URL, transport=httpx.MockTransport(handler)).asks("router")
    assert seen == []
    assert [next(asks), next(asks)] == [event(1), event(2)]
    assert len(seen) == 1


# The log.


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that arrives in pieces; an error among them breaks it off."""

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces
        self.taken = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            self.taken += 1
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def log_in(twin: Twin, *bodies: Any) -> list[str]:
    """A client that is sent these bodies in turn; the list fills with where it wanted to go on."""
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.params["after"])
        body = bodies[len(seen) - 1]
        return httpx.Response(200, stream=body) if isinstance(body, Pieces) else body

    twin.client = type(twin.client)(URL, transport=httpx.MockTransport(handler))
    return seen


def test_agents_come_from_all_pages(twin):
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.params.get("after"))
        return httpx.Response(200, json={"agents": [], "next": {None: "b", "b": "d"}.get(seen[-1])})

    twin.client = type(twin.client)(URL, transport=httpx.MockTransport(handler))
    assert twin.agents().agents == []
    assert seen == [None, "b", "d"]


def test_a_log_is_read_line_by_line_wherever_its_pieces_end(twin):
    text = '{"seq":1,"text":"a\u2028b\x85c\\n"}\n{"seq":2}\n\n{"seq":3}'.encode()
    for size in (1, 5, 1000):
        log_in(twin, Pieces(*(text[i : i + size] for i in range(0, len(text), size))))
        assert twin.log("router") == [{"seq": 1, "text": "a\u2028b\x85c\n"}, {"seq": 2}, {"seq": 3}]


def test_a_log_that_breaks_off_goes_on_after_the_last_whole_line(twin, pauses):
    seen = log_in(
        twin,
        Pieces(b'{"seq":5}\n{"se', httpx.ReadError("reset")),
        problem(503),
        Pieces(b'{"seq":6}\n', httpx.RemoteProtocolError("cut")),
        Pieces(b'{"seq":7}\n'),
    )
    assert twin.log("router", after=4) == [{"seq": 5}, {"seq": 6}, {"seq": 7}]
    assert seen == ["4", "5", "5", "6"]
    assert len(pauses) == 3
    head = b'{"seq":0,"kind":"agent"}\n'
    seen = log_in(twin, Pieces(head, httpx.ReadError("reset")), Pieces(head, b'{"seq":1}\n'))
    assert [line["seq"] for line in twin.log("router")] == [0, 1]  # the head comes with everything that starts at 0


def test_a_log_may_break_off_often_as_long_as_it_gets_further(twin, pauses):
    log_in(twin, *[Pieces(b'{"seq":%d}\n' % n, httpx.ReadError("reset")) for n in range(20)], Pieces(b""))
    assert [line["seq"] for line in twin.log("router")] == list(range(20))
    assert max(pauses) <= sans_io.FIRST_PAUSE


def test_a_log_that_gets_no_further_is_given_up(twin, pauses):
    log_in(twin, *[Pieces(b'{"se', httpx.ReadError("reset")) for _ in range(9)])
    with pytest.raises(Unavailable, match="reset; 5 tries"):
        twin.log("router")
    assert len(pauses) == 4


def test_a_log_is_not_kept_in_memory():
    body = Pieces(*(b'{"seq":%d}\n' % n for n in range(1, 100)))
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=body))
    lines = sp.Client(URL, transport=transport).log("router")
    assert next(lines) == {"seq": 1}
    assert body.taken < 3
    lines.close()


def test_a_log_that_is_refused_or_no_log_says_so(twin):
    log_in(twin, problem(404, "no agent is named 'router'"))
    with pytest.raises(NotFound, match="no agent is named 'router'"):
        twin.log("router")
    for line in (b"<html>\n", b"[1]\n", b'{"other": 1}\n'):
        log_in(twin, Pieces(line))
        with pytest.raises(ServiceError, match="no line of a log"):
            twin.log("router")


# Tries.

PASSING = [
    problem(503), problem(429), httpx.Response(502, text="<html>"), httpx.Response(504), httpx.ConnectError("refused"),
    httpx.ReadTimeout(""), httpx.ConnectTimeout(""), httpx.PoolTimeout(""), httpx.WriteError("broken pipe"),
    httpx.RemoteProtocolError("Server disconnected without sending a response."),
]  # fmt: skip


@pytest.mark.parametrize("failure", PASSING, ids=lambda f: getattr(f, "status_code", type(f).__name__))
@pytest.mark.parametrize(
    ("name", "args", "answer", "id"),
    [
        ("decide", (), DECISION, "event_id"),
        ("grant", (5,), BOOKING, "grant_id"),
        ("charge", (5,), BOOKING, "charge_id"),
    ],
)
def test_every_try_has_the_same_id(twin, pauses, failure, name, args, answer, id):
    seen = twin.answered_by(failure, failure, reply(answer))
    assert getattr(twin, name)("router", *args) == answer
    assert len(seen) == 3 and len(pauses) == 2
    assert len({request.content for request in seen}) == 1
    first = json.loads(seen[0].content)[id]
    assert re.fullmatch(contract.ID, first)
    getattr(twin, name)("router", *args)
    assert json.loads(seen[-1].content)[id] != first  # another call, another id


@pytest.mark.parametrize("failure", PASSING, ids=lambda f: getattr(f, "status_code", type(f).__name__))
def test_after_the_last_try_the_error_tells_how_to_go_on(twin, pauses, failure):
    seen = twin.answered_by(failure)
    with pytest.raises(Unavailable) as caught:
        twin.decide("router")
    assert len(seen) == 5 and len(pauses) == 4
    sent = json.loads(seen[0].content)["event_id"]
    assert caught.value.id == sent and f"event_id={sent!r}" in str(caught.value) and "5 tries" in str(caught.value)
    assert caught.value.status == getattr(failure, "status_code", None)
    assert (caught.value.problem is not None) == (caught.value.status in (503, 429))
    with pytest.raises(Unavailable) as caught:
        twin.agents()
    assert caught.value.id is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 411, 413, 415, 421, 422, 431, 500, 501, 301])
def test_what_no_further_try_would_change_is_sent_once(twin, pauses, status):
    seen = twin.answered_by(problem(status, "the reason", location="/elsewhere"))
    with pytest.raises(ServiceError, match=rf"POST v1/agents/router/decisions: {status} .*the reason"):
        twin.decide("router")
    assert len(seen) == 1 and pauses == []


def test_errors_of_the_caller_are_not_tried_again(twin, pauses):
    seen = twin.answered_by(httpx.UnsupportedProtocol("no such scheme"))
    with pytest.raises(ServiceError, match=r"no such scheme.*check the url"):
        twin.agents()
    assert len(seen) == 1 and pauses == []


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def play(
    failure: Any, per_try: float = 0.0, share: float = 1.0, **limits: Any
) -> tuple[Clock, list[float], list[float]]:
    """Let every try fail, each after `per_try` seconds or its time-out; the clock, the pauses and the time-outs."""
    clock, pauses, timeouts = Clock(), [], []
    options = {"timeout": 5.0, "retries": 4, "deadline": 30.0} | limits
    policy = sans_io.RetryPolicy(URL, **options, clock=clock, jitter=lambda longest: share * longest)
    steps = sans_io.result_of(sans_io.Call("GET", "v1/agents", contract.AgentList), policy)

    def drive() -> None:
        given = None
        while True:
            step = steps.send(given)
            if isinstance(step, sans_io.Pause):
                clock.now += step.seconds
                pauses.append(step.seconds)
                given = None
            else:
                timeouts.append(step.timeout)
                clock.now += min(per_try, step.timeout)
                given = failure

    with pytest.raises(Unavailable):
        drive()
    return clock, pauses, timeouts


def test_pauses_double_up_to_a_limit():
    _, pauses, _ = play(problem(503), retries=9, deadline=1e6)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    _, pauses, _ = play(problem(503), retries=1000, deadline=1e9)
    assert len(pauses) == 1000


def test_pauses_are_drawn_from_zero_on():
    drawn = [sans_io.jitter(2.0) for _ in range(1000)]  # all on one side of 1: chance 2·2^-1000
    assert 0.0 <= min(drawn) < 1.0 < max(drawn) <= 2.0


@pytest.mark.parametrize("deadline", [0.5, 3.0, 7.0, 20.0])
@pytest.mark.parametrize("per_try", [0.0, 0.7, 99.0])
def test_no_call_goes_on_after_its_deadline(deadline, per_try):
    clock, _, timeouts = play(httpx.ReadTimeout(""), per_try, retries=1000, deadline=deadline)
    assert clock.now - 1000.0 <= deadline + 1e-9
    assert max(timeouts) <= min(5.0, deadline)
    assert len(timeouts) > 1 or per_try >= deadline


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_retry_after_is_the_least_pause(share):
    _, pauses, _ = play(problem(503, retry_after="3"), share=share)
    assert pauses == pytest.approx([3.0 + share * pause for pause in (0.1, 0.2, 0.4, 0.8)])


def test_retry_after_may_be_a_date_or_nonsense():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=8), usegmt=True)
    _, pauses, _ = play(problem(429, retry_after=later), share=0.0)
    assert len(pauses) >= 3 and all(6.0 <= pause <= 8.0 for pause in pauses)
    past = format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)
    for word in (past, "soon", "-5", "1e9", "", "٣"):
        clock, pauses, _ = play(httpx.Response(503, headers=[(b"retry-after", word.encode())]), share=0.0)
        assert pauses == [0.0] * 4 and clock.now == 1000.0, word


def test_a_service_that_wants_more_time_than_there_is_is_left_at_once():
    clock, pauses, timeouts = play(problem(503, retry_after="31"))
    assert (clock.now, pauses, len(timeouts)) == (1000.0, [], 1)


def test_both_clients_wait_as_long_as_they_are_told(twin, pauses):
    twin.answered_by(problem(503, retry_after="2"), problem(503, retry_after="3"), reply(AGENT))
    assert twin.agent("router") == AGENT
    assert 2.0 <= pauses[0] <= 2.1 and 3.0 <= pauses[1] <= 3.2


def test_a_deleted_agent_is_deleted_however_often_it_took(twin):
    lost = httpx.ReadError("reset")
    for before in (lost, problem(503)):
        twin.answered_by(before, problem(404))
        assert twin.delete("router") == DELETED  # the first try may have done it
    for before in (httpx.ConnectError("refused"), problem(429)):  # those did nothing: there was no such agent
        twin.answered_by(before, problem(404))
        with pytest.raises(NotFound):
            twin.delete("router")
    twin.answered_by(problem(404))
    with pytest.raises(NotFound):
        twin.delete("router")


class Dropping(BaseHTTPRequestHandler):
    """A server that does what it is told, and twice hangs up before it has said so."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        if len(self.server.bodies) < 3:
            self.close_connection = True
            return
        answer = msgspec.json.encode(DECISION)
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        pass


def test_a_connection_that_drops_before_the_answer(make, pauses):
    with ThreadingHTTPServer(("127.0.0.1", 0), Dropping) as server:
        server.bodies = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        twin = make(f"http://127.0.0.1:{server.server_port}")
        assert twin.decide("router") == DECISION
        twin.close()
        server.shutdown()
    assert len(server.bodies) == 3 and len(set(server.bodies)) == 1
    assert "event_id" in json.loads(server.bodies[0])


def test_nobody_listens_and_nobody_answers(make, pauses):
    with ThreadingHTTPServer(("127.0.0.1", 0), Dropping) as server:  # it listens, but does not serve
        silent = make(f"http://127.0.0.1:{server.server_port}", timeout=0.05, retries=1)
        with pytest.raises(Unavailable, match="2 tries"):
            silent.health()
        silent.close()
    closed = make(f"http://127.0.0.1:{server.server_port}", retries=2)
    with pytest.raises(Unavailable, match=r"3 tries.*check that the service runs there") as caught:
        closed.health()
    assert caught.value.status is None and caught.value.problem is None
    closed.close()


# Errors.


@pytest.mark.parametrize(
    ("status", "error", "todo"),
    [
        (400, Refused, ""), (401, Unauthorized, "token"), (403, Unauthorized, "in front"), (404, NotFound, "agents()"),
        (409, Conflict, "new id"), (413, Refused, ""), (415, Refused, ""), (421, Refused, ""), (422, Refused, ""),
        (500, ServiceError, "logged"),
    ],
)  # fmt: skip
def test_problem_documents_become_errors(twin, status, error, todo):
    document = contract.Problem("urn:sparingly:problem:x", "A title", status, "features must have 3 rows")
    twin.answered_by(reply(document, status))
    with pytest.raises(ServiceError, match="features must have 3 rows") as caught:
        twin.decide("router")
    assert type(caught.value) is error and isinstance(caught.value, sp.SparinglyError)
    assert isinstance(caught.value, InvalidInput) == (error is Refused)
    assert caught.value.status == status
    assert caught.value.problem == document
    assert todo in str(caught.value) and ("To do" in str(caught.value)) == bool(todo)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.status, again.problem) == (str(caught.value), status, caught.value.problem)


@pytest.mark.parametrize("status", [404, 405, 418, 301])
def test_something_else_at_the_address_is_recognised(twin, status):
    twin.answered_by(httpx.Response(status, text="<html>Not here</html>"))
    with pytest.raises(ServiceError, match=f"does not look like the service: check that {URL}") as caught:
        twin.agents()
    assert caught.value.problem is None and caught.value.status == status


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"null", b"[]", b"{}", msgspec.json.encode(DECISION).replace(b'"ask":true', b'"ask":"yes"')],
    ids=lambda body: body[:8].decode(),
)
def test_an_answer_that_is_none_is_an_error(twin, body):
    twin.answered_by(httpx.Response(200, content=body))
    with pytest.raises(ServiceError, match="the answer is no Decision"):
        twin.decide("router")


def test_a_newer_service_may_say_more(twin):
    twin.answered_by(reply(msgspec.to_builtins(DECISION) | {"mood": "good"}))
    assert twin.decide("router") == DECISION
    said = msgspec.to_builtins(AGENT)
    said["body"]["mood"] = said["body"]["learner"]["mood"] = said["body"]["budget"]["growth"]["mood"] = said["mood"] = (
        "good"
    )
    twin.answered_by(reply(said))
    assert twin.agent("router") == AGENT  # also where a body of the same shape would be refused
    twin.answered_by(reply({"agents": [said, said]}))
    assert twin.agents() == contract.AgentList([AGENT, AGENT])
    said["body"]["learner"]["scale"] = "large"
    twin.answered_by(reply(said))
    with pytest.raises(ServiceError, match=r"scale"):
        twin.agent("router")


def test_health_is_an_answer_also_when_it_is_bad(twin, pauses):
    ill = contract.Health("unavailable", "1.0", "the disk is full")
    seen = twin.answered_by(reply(ill, 503))
    assert twin.health() == ill and len(seen) == 1
    twin.answered_by(httpx.Response(503, text="<html>"))
    with pytest.raises(ServiceError, match="503"):
        twin.health()


# What is sent.


def test_arrays_and_numbers_of_numpy_are_taken(twin):
    seen = twin.answered_by(reply(DECISION))
    features = np.arange(6.0, dtype=np.float32).reshape(2, 3).T
    payload = {"embedding": np.array([0.5, 1.5]), "n": np.int64(3), "ok": np.bool_(True), "of": contract.Rewards(1, 5)}
    twin.decide("router", np.int64(2), features, payload, "e1")
    assert json.loads(seen[0].content) == {
        "event_id": "e1", "context": 2, "features": [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]],
        "payload": {"embedding": [0.5, 1.5], "n": 3, "ok": True, "of": {"low": 1.0, "high": 5.0}},
    }  # fmt: skip
    twin.answered_by(reply(FEEDBACK))
    assert twin.observe("router", "e1", np.float32(4)) == FEEDBACK
    seen = twin.answered_by(reply(AGENT))
    twin.create("router", learner=contract.OFUL(dim=3), costs=np.array([1.0, 2.0]))
    assert (
        json.loads(seen[0].content)["costs"] == [1.0, 2.0] and json.loads(seen[0].content)["learner"]["type"] == "OFUL"
    )


NAN = float("nan")
SELF: list[Any] = []
SELF.append(SELF)


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("decide", ("a",), {"features": [[1.0, NAN]]}),
        ("decide", ("a",), {"features": np.array([1.0, 2.0])}),
        ("decide", ("a",), {"features": [[1.0], [1.0, 2.0]]}),
        ("decide", ("a",), {"features": "abc"}),
        ("decide", ("a",), {"payload": {"a": [NAN]}}),
        ("decide", ("a",), {"payload": np.array([np.inf])}),
        ("decide", ("a",), {"payload": {1, 2}}),
        ("decide", ("a",), {"payload": "\ud800"}),
        ("decide", ("a",), {"payload": SELF}),
        ("decide", ("a",), {"payload": "x" * contract.LARGEST_BODY}),
        ("decide", ("a",), {"context": "\ud800"}),
        ("decide", ("a",), {"context": object()}),
        ("decide", ("",), {}),
        ("decide", (None,), {}),
        ("decide", ("\ud800",), {}),
        ("event", ("a", ""), {}),
        ("event", ("a", 7), {}),
        ("observe", ("a", "e1", NAN), {}),
        ("observe", ("a", "e1", True), {}),
        ("observe", ("a", "e1", "4"), {}),
        ("grant", ("a", -1), {}),
        ("grant", ("a", NAN), {}),
        ("charge", ("a", None), {}),
        ("create", ("a",), {}),
        ("create", ("a", BODY), {"seed": 1}),
        ("create", ("a",), {"learner": {"type": "UCB1"}, "lease": NAN}),
        ("history", ("a", 0), {}),
        ("log", ("a", -1), {}),
        ("asks", ("",), {}),
    ],
)
def test_what_cannot_be_meant_is_not_sent(twin, name, args, kwargs):
    seen = twin.answered_by(reply(DECISION))
    with pytest.raises(InvalidInput):
        getattr(twin.client, name)(*args, **kwargs)  # at once, not when the answer is awaited or read
    assert seen == []


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b", "a%2Fb"), ("a?b=c#d", "a%3Fb%3Dc%23d"), ("100%", "100%25"), ("%2F", "%252F"), ("ä b", "%C3%A4%20b"),
        ("..", "%2E%2E"), (".", "%2E"), ("a..b", "a..b"), ("x:~@-_.y", "x%3A~%40-_.y"), ("a\nb", "a%0Ab"),
    ],
)  # fmt: skip
def test_names_stay_one_piece_of_the_path(twin, name, path):
    seen = twin.answered_by(reply(event(1)))
    twin.event(name, name)
    assert seen[0].url.raw_path.decode() == f"/v1/agents/{path}/decisions/{path}"
    seen = twin.answered_by(reply(DELETED))
    twin.delete(name)
    assert seen[0].url.path == f"/v1/agents/{name}" and seen[0].url.params["confirm"] == name


def test_the_service_may_live_below_a_path(make):
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return reply(AGENT)

    for url in ("https://example.test/sparingly", "https://example.test/sparingly/"):
        make(url, transport=httpx.MockTransport(handler)).agent("router")
    assert seen == ["https://example.test/sparingly/v1/agents/router"] * 2


def test_the_token_goes_with_every_request_and_is_shown_nowhere(make):
    def handler(request: httpx.Request) -> httpx.Response:
        return problem(401) if request.headers.get("authorization") != "Bearer s3cret" else reply(AGENT)

    good = make(token="s3cret\n", transport=httpx.MockTransport(handler))
    assert good.agent("router") == AGENT
    assert "s3cret" not in repr(good.client)
    bad = make(token="wr0ng", transport=httpx.MockTransport(handler))
    with pytest.raises(Unauthorized) as caught:
        bad.agent("router")
    assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"url": "127.0.0.1:8000"}, {"url": "ftp://x"}, {"url": ""}, {"url": "http://"}, {"url": None},
        {"url": "http://x:port"}, {"token": ""}, {"token": "two words"}, {"token": "geheimß"}, {"timeout": 0},
        {"timeout": None}, {"retries": -1}, {"retries": 1.5}, {"deadline": NAN},
    ],
    ids=str,
)  # fmt: skip
def test_a_client_that_cannot_work_is_not_made(make, options):
    with pytest.raises(InvalidInput) as caught:
        make(**options)
    assert options.get("token") in (None, "") or options["token"] not in str(caught.value)


def test_this_machine_is_reached_without_a_proxy(make, pauses, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Dropping) as server:
        server.bodies = [b"", b""]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        twin = make(f"http://127.0.0.1:{server.server_port}")
        assert twin.decide("router") == DECISION
        twin.close()
        server.shutdown()


def test_context_managers_close_the_connections():
    with sp.Client(URL) as blocking:
        assert not blocking._http.is_closed
    assert blocking._http.is_closed

    async def main() -> sp.AsyncClient:
        async with sp.AsyncClient(URL) as awaiting:
            assert not awaiting._http.is_closed
        return awaiting

    assert asyncio.run(main())._http.is_closed


# The package.


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("missing", ["httpx", "msgspec"])
def test_without_its_packages_the_client_names_the_extra(missing):
    said = python(f"""
        import sys
        sys.modules[{missing!r}] = None
        from sparingly import *
        import sparingly
        assert "httpx" not in sys.modules or sys.modules["httpx"] is None
        for name in ("Client", "AsyncClient"):
            try:
                getattr(sparingly, name)
            except sparingly.MissingExtra as error:
                print(error)
        try:
            sparingly.Nonsense
        except AttributeError as error:
            print(error)
    """)
    first, second, last = said.split("\n")
    assert first == second and re.fullmatch(r"the client needs the extra 'client': pip install .*\[client\]'", first)
    assert last == "module 'sparingly' has no attribute 'Nonsense'"


def test_the_client_needs_nothing_of_the_server():
    python("""
        import sys
        for name in ("uvicorn", "psycopg", "prometheus_client", "structlog", "httptools", "uvloop", "typer", "rich"):
            sys.modules[name] = None
        import sparingly
        assert not {"httpx", "msgspec"} & set(sys.modules)
        from sparingly import AsyncClient, Client
        assert Client is sparingly.Client and "sparingly.serve.client" in sys.modules
    """)


def test_types_are_known_to_type_checkers(tmp_path):
    source = tmp_path / "program.py"
    source.write_text(
        textwrap.dedent("""
        import sparingly as sp
        from sparingly import AsyncClient, Client

        def blocking(client: Client) -> list[str]:
            decision = client.decide("router", "code", event_id="e1")
            reveal_type(decision.ask)
            reveal_type(client.observe)
            return [event.event_id for event in client.asks("router")]

        async def awaiting(client: sp.AsyncClient) -> list[int]:
            reveal_type((await client.decide("router")).ask)
            return [line["seq"] async for line in client.log("router")]
        """)
    )
    run = subprocess.run([sys.executable, "-m", "mypy", "--strict", source], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    shown = re.findall(r'Revealed type is "(.*)"', run.stdout)
    assert shown[0].endswith("bool") and shown[2].endswith("bool")
    assert shown[1] == (
        "def (agent: str, event_id: str, reward: float | None =, *, label: str | int | None =) -> "
        "sparingly.serve.contract.Feedback"
    )


# Against the real service.

STARS = {
    "learner": {"type": "UCB1"},
    "actions": ["small", "large"],
    "contexts": ["code", "chat"],
    "rule": {"type": "Always"},
    "budget": {"initial": 20, "growth": {"by": "grants"}},
    "rewards": {"low": 1, "high": 5},
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving("--data", str(tmp_path_factory.mktemp("service"))) as url:
        yield url


@pytest.fixture
def real(make, service, request):
    twin = make(service)
    twin.name = f"a{abs(hash(request.node.name))}"
    twin.create(twin.name, STARS)
    return twin


def test_every_method_against_the_service(real):
    name = real.name
    assert real.health().status == "ok"
    assert real.create(name, **STARS) == real.agent(name)
    with pytest.raises(Conflict):
        real.create(name, **STARS | {"seed": 1})
    assert name in [agent.name for agent in real.agents().agents]

    first = real.decide(name, "code", payload={"text": "a\u2028b"}, event_id="e1")
    assert first.ask and first == real.decide(name, "code", payload={"text": "a\u2028b"}, event_id="e1")
    with pytest.raises(Conflict):
        real.decide(name, "chat", event_id="e1")
    with pytest.raises(Refused, match="context"):
        real.decide(name, "poetry")
    assert real.observe(name, "e1", 4).learned
    with pytest.raises(Conflict):
        real.observe(name, "e1", 5)
    assert real.event(name, "e1").status == "answered" and real.event(name, "e1").reward == 4.0

    held = real.decide(name, 1, defer=True)
    assert held.lease_expires_at and held.budget.held == 1.0
    assert real.activate(name, held.event_id).status == "open"
    other = real.decide(name, "chat", defer=True)
    assert real.release(name, other.event_id).status == "released"
    assert [ask.event_id for ask in real.asks(name)] == [held.event_id]
    assert [ask.event_id for ask in real.asks(name, status="released")] == [other.event_id]
    assert [event.number for event in real.decisions(name)] == [3, 2, 1]

    assert real.grant(name, 5, "g1") == real.grant(name, 5, "g1")
    with pytest.raises(Conflict):
        real.grant(name, 6, "g1")
    assert real.charge(name, 2).budget == contract.Budget(granted=25.0, spent=4.0, held=0.0, left=21.0)
    assert real.pause(name).paused and not real.resume(name).paused
    assert {estimate.context for estimate in real.estimates(name, "code").estimates} == {"code"}
    assert real.history(name).points[-1].spent == 4.0
    lines = real.log(name)
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert lines[1]["payload"] == {"text": "a\u2028b"}
    assert [line["seq"] for line in real.log(name, after=3)] == list(range(4, len(lines)))

    assert real.delete(name) == contract.Deleted(name)
    for call in (lambda: real.agent(name), lambda: real.log(name), lambda: real.event("..", "a/b")):
        with pytest.raises(NotFound):
            call()


def test_many_pages_and_features(real):
    name = real.name + "f"
    real.create(name, learner=contract.OFUL(dim=2), actions=["a", "b"], rule=contract.Always(), budget={"initial": 999})
    made = [real.decide(name, features=np.eye(2) * 0.5).event_id for _ in range(client.PAGE_SIZE + 3)]
    assert [ask.event_id for ask in real.asks(name)] == made
    assert [event.event_id for event in real.decisions(name)] == made[::-1]
    with pytest.raises(Refused):
        real.decide(name, features=np.eye(3))


class Lossy(httpx.HTTPTransport):
    """Delivers every request; of three answers two are lost on the way back."""

    sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        response.read()
        self.sent += 1
        if self.sent % 3:
            raise httpx.ReadError("the connection was reset")
        return response


class AsyncLossy(httpx.AsyncHTTPTransport):
    """The same for tasks."""

    sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        await response.aread()
        self.sent += 1
        if self.sent % 3:
            raise httpx.ReadError("the connection was reset")
        return response


def test_answers_that_are_lost_change_nothing(real, make, service, pauses):
    transport = AsyncLossy() if isinstance(real.client, sp.AsyncClient) else Lossy()
    lossy = make(service, transport=transport)
    decided = [lossy.decide(real.name, "code") for _ in range(5)]
    assert [decision.number for decision in decided] == [1, 2, 3, 4, 5]
    lossy.grant(real.name, 7)
    lossy.charge(real.name, 3)
    assert lossy.observe(real.name, decided[0].event_id, 5).learned
    assert transport.sent == 8 * 3
    agent = real.agent(real.name)
    assert (agent.decisions, agent.asks, agent.answers) == (5, 5, 1)
    assert agent.budget == contract.Budget(granted=27.0, spent=8.0, held=0.0, left=19.0)
    lossy.delete(real.name)
    with pytest.raises(NotFound):
        real.agent(real.name)


def test_threads_share_a_client(service):
    with sp.Client(service) as shared, ThreadPoolExecutor(16) as pool:
        shared.create("shared", STARS)
        decided = list(pool.map(lambda n: shared.decide("shared", n % 2), range(100)))
        agent = shared.agent("shared")
    assert sorted(decision.number for decision in decided) == list(range(1, 101))
    assert len({decision.event_id for decision in decided}) == 100
    assert sum(decision.ask for decision in decided) == agent.budget.spent == 20.0  # the budget, and not one more


def test_tasks_share_a_client(service):
    async def main() -> list[contract.Decision]:
        async with sp.AsyncClient(service) as shared:
            await shared.create("tasks", STARS)
            return await asyncio.gather(*(shared.decide("tasks", n % 2) for n in range(100)))

    decided = asyncio.run(main())
    assert sorted(decision.number for decision in decided) == list(range(1, 101))
    assert sum(decision.ask for decision in decided) == 20


def test_a_service_with_a_token(make, tmp_path):
    path = tmp_path / "token"
    path.write_text("a-token-that-is-long-enough\n")
    path.chmod(0o600)
    with serving("--data", str(tmp_path / "data"), "--token-file", str(path)) as url:
        assert make(url, token=path.read_text()).agents() == contract.AgentList([])
        assert make(url).health().status == "ok"
        for token in (None, "another-token-that-is-long"):
            with pytest.raises(Unauthorized, match="token"):
                make(url, token=token).agents()


def test_a_service_that_comes_back_is_waited_for(make, service, tmp_path):
    """Nobody listens at first: the client tries until somebody does."""
    with serving("--data", str(tmp_path)) as url:
        make(url).create("router", STARS)
    port = url.rsplit(":", 1)[1]
    patient = make(url, retries=100)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(patient.decide, "router", "code")
        with serving("--data", str(tmp_path), "--port", port):
            assert waiting.result(timeout=30).number == 1


# The example.


def test_the_quickstart_accounts_for_everything():
    command = [sys.executable, ROOT / "examples" / "quickstart_service.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    count = {name: float(value) for name, value in re.findall(r"^ *([a-z ]+?) {2,}([0-9.]+)", done.stdout, flags=re.M)}
    assert count["granted"] == pytest.approx(count["spent"] + count["held"] + count["left"])
    assert count["asks"] == count["answered"] + count["still open"] + count["unanswered"] == count["spent"]
    assert min(count["answered"], count["unanswered"]) > 0
