"""Requests that a service on a network must survive: malformed, contradictory, oversized, forged, or merely odd.

Each attack says which statuses are right; the tests send it as raw bytes and look whether anything was stored.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Headers = tuple[tuple[str, str | bytes], ...]

JSON: Headers = (("Content-Type", "application/json"),)
LARGEST = 256 * 1024  # bytes of a body
DEEPEST = 32  # levels of nesting
EVENT = "evil"  # the event_id that every attack would like to store

# The agents that are attacked: arms with contexts and stars as rewards, arms that never ask, and a linear one.
AGENTS: dict[str, dict[str, Any]] = {
    "stars": {
        "learner": {"type": "UCB1"},
        "actions": ["small", "large"],
        "contexts": ["code", "chat"],
        "rule": {"type": "Always"},
        "budget": {"initial": 1000},
        "rewards": {"low": 1, "high": 5},
    },
    "quiet": {"learner": {"type": "MOSS"}, "actions": ["a", "b"], "rule": {"type": "Never"}},
    "lines": {"learner": {"type": "OFUL", "dim": 2}, "rule": {"type": "Always"}, "budget": {"initial": 1000}},
}
# What happened to them before: an ask that is answered with 3, one that is open, one that is held, one not asked.
BEFORE: list[tuple[str, dict[str, Any]]] = [
    ("/v1/agents/stars/decisions", {"event_id": "answered", "context": "code"}),
    ("/v1/agents/stars/decisions/answered/feedback", {"reward": 3}),
    ("/v1/agents/stars/decisions", {"event_id": "open", "context": "chat", "payload": {"q": 1}}),
    ("/v1/agents/stars/decisions", {"event_id": "held", "context": "chat", "defer": True}),
    ("/v1/agents/quiet/decisions", {"event_id": "silent"}),
    ("/v1/agents/lines/decisions", {"event_id": "open", "features": [[1, 0], [0, 1]]}),
    ("/v1/agents/stars/grants", {"grant_id": "first", "amount": 5}),
]


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    def json(self) -> Any:
        """The body, read strictly: no NaN, no key twice."""

        def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            assert len({key for key, _ in pairs}) == len(pairs), f"a key twice: {self.body!r}"
            return dict(pairs)

        def never(word: str) -> None:
            raise AssertionError(f"{word} is not JSON: {self.body!r}")

        return json.loads(self.body, object_pairs_hook=once, parse_constant=never)


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def head(method: str, target: str, headers: Iterable[tuple[str, str | bytes]]) -> bytes:
    """The first lines of a request, exactly as they are given."""
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1")]
    lines += [name.encode("latin-1") + b": " + (v if isinstance(v, bytes) else v.encode()) for name, v in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def receive(stream: socket.socket, method: str) -> Answer:
    response = http.client.HTTPResponse(stream, method=method)
    try:
        response.begin()
        return Answer(response.status, response.getheaders(), response.read())
    finally:
        response.close()


def send(
    url: str,
    method: str,
    target: str,
    body: bytes | None = None,
    headers: Headers = (),
    *,
    chunked: bool = False,
    host: str | None = None,
) -> Answer:
    """One request on a connection of its own. Host and length are added unless `headers` has them."""
    given = {name.lower() for name, _ in headers}
    lines = [] if "host" in given else [("Host", urlsplit(url).netloc if host is None else host)]
    lines += headers
    if chunked:
        lines.append(("Transfer-Encoding", "chunked"))
    elif body is not None and "content-length" not in given:
        lines.append(("Content-Length", str(len(body))))
    data = body or b""
    if chunked:
        parts = [data[i : i + 16384] for i in range(0, len(data), 16384)]
        data = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    with connect(url) as stream:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused early and hung up: the answer is there to read
            stream.sendall(head(method, target, lines) + data)
        return receive(stream, method)


def post(url: str, target: str, document: Any, headers: Headers = ()) -> Answer:
    return send(url, "POST", target, encoded(document), JSON + headers)


def encoded(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def prepare(url: str, headers: Headers = ()) -> None:
    """The agents, and what happened to them before the attacks."""
    for name, body in AGENTS.items():
        answer = send(url, "PUT", f"/v1/agents/{name}", encoded(body), JSON + headers)
        assert answer.status in (200, 201), answer
    for target, document in BEFORE:
        answer = post(url, target, document, headers)
        assert answer.status == 200, answer


def everything(url: str, headers: Headers = ()) -> dict[str, Any]:
    """All that is stored, as far as it can be seen: counters, budgets, logs, and whether there is an evil event."""
    seen: dict[str, Any] = {"agents": send(url, "GET", "/v1/agents", headers=headers).json()}
    for name in AGENTS:
        log = send(url, "GET", f"/v1/agents/{name}/log", headers=headers)
        event = send(url, "GET", f"/v1/agents/{name}/decisions/{EVENT}", headers=headers)
        seen[name] = log.status, log.body, event.status
    return seen


def check_problem(answer: Answer) -> dict[str, Any]:
    """Assert that an answer is a problem document (RFC 9457) that gives a reason."""
    assert answer.header("content-type").split(";")[0].strip() == "application/problem+json", answer
    problem = answer.json()
    assert isinstance(problem, dict), answer
    assert problem["status"] == answer.status, answer
    for member in ("type", "title", "detail"):
        assert isinstance(problem[member], str) and problem[member], (member, answer)
    assert isinstance(problem.get("instance", ""), str), answer
    return problem


@dataclass(frozen=True)
class Attack:
    """One request and the statuses that are right for it. `plain`: the HTTP is broken, so no document is asked for."""

    title: str
    method: str
    target: str
    body: bytes | None
    expected: tuple[int, ...]
    headers: Headers = ()
    chunked: bool = False
    plain: bool = False


ATTACKS: list[Attack] = []
DECIDE = "/v1/agents/stars/decisions"
FEEDBACK = "/v1/agents/stars/decisions/open/feedback"
QUIET, LINEAR, GRANTS = "/v1/agents/quiet/decisions", "/v1/agents/lines/decisions", "/v1/agents/stars/grants"


def attack(
    title: str,
    *expected: int,
    target: str = DECIDE,
    body: bytes | str | dict[str, Any] | list[Any] | None = None,
    method: str = "POST",
    headers: Headers | None = None,
    chunked: bool = False,
    plain: bool = False,
) -> None:
    """Enter an attack; a text is sent as it is, a document as JSON."""
    if isinstance(body, str):
        body = body.encode()
    elif body is not None and not isinstance(body, bytes):
        body = encoded(body)
    if headers is None:
        headers = JSON if body is not None else ()
    ATTACKS.append(Attack(title, method, target, body, expected, headers, chunked, plain))


# Bodies that are no JSON, or could be read in two ways.
for title, text in {
    "empty": "",
    "spaces": " \n\t ",
    "word": "hello",
    "half": '{"event_id": "evil", "context": "code"',
    "single quotes": "{'event_id': 'evil', 'context': 'code'}",
    "trailing comma": '{"event_id": "evil", "context": "code",}',
    "comment": '{"event_id": "evil", /* why */ "context": "code"}',
    "trailing garbage": '{"event_id": "evil", "context": "code"} x',
    "trailing NUL": '{"event_id": "evil", "context": "code"}\0',
    "two documents": '{"event_id": "evil", "context": "code"}{"event_id": "evil2", "context": "code"}',
    "two lines": '{"event_id": "evil", "context": "code"}\n{"event_id": "evil2", "context": "code"}',
    "byte order mark": '\ufeff{"event_id": "evil", "context": "code"}',
    "a key twice": '{"event_id": "evil", "context": "code", "context": "chat"}',
    "a key twice, the same value": '{"event_id": "evil", "context": "code", "context": "code"}',
    "a key twice, once escaped": '{"event_id": "evil", "event\\u005fid": "evil", "context": "code"}',
    "a key twice in the payload": '{"event_id": "evil", "context": "code", "payload": {"a": {"b": 1, "b": 2}}}',
    "a key twice in a list": '{"event_id": "evil", "context": "code", "payload": [{"b": 1, "b": 1}]}',
    "NaN in the payload": '{"event_id": "evil", "context": "code", "payload": {"x": NaN}}',
    "Infinity in the payload": '{"event_id": "evil", "context": "code", "payload": [Infinity]}',
    "-Infinity as payload": '{"event_id": "evil", "context": "code", "payload": -Infinity}',
    "1e999 in the payload": '{"event_id": "evil", "context": "code", "payload": {"x": 1e999}}',
    "-1e999 in the payload": '{"event_id": "evil", "context": "code", "payload": {"x": -1e999}}',
    "1e999 as payload": '{"event_id": "evil", "context": "code", "payload": 1e999}',
    "-1e999 in a list": '{"event_id": "evil", "context": "code", "payload": [0, -1e999]}',
    "5,000 digits in a list": '{"event_id": "evil", "context": "code", "payload": [%s]}' % ("9" * 5000),
    "a long number with a short exponent": '{"event_id": "evil", "context": "code", "payload": 1%se99}' % ("0" * 250),
    "the same in an object": '{"event_id": "evil", "context": "code", "payload": {"x": 1%s.0e99}}' % ("0" * 250),
    "500 digits in an object": '{"event_id": "evil", "context": "code", "payload": {"x": %s}}' % ("9" * 500),
    "500 digits": '{"event_id": "evil", "context": "code", "payload": %s}' % ("9" * 500),
    "5,000 digits in the payload": '{"event_id": "evil", "context": "code", "payload": %s}' % ("9" * 5000),
    "5,000 digits as context": '{"event_id": "evil", "context": %s}' % ("1" * 5000),
    "leading zero": '{"event_id": "evil", "context": 00}',
    "plus sign": '{"event_id": "evil", "context": +0}',
    "hexadecimal": '{"event_id": "evil", "context": 0x0}',
    "raw line feed in a string": '{"event_id": "evil", "context": "code", "payload": "a\nb"}',
    "raw NUL in a string": '{"event_id": "evil", "context": "code", "payload": "a\0b"}',
    "unknown escape": '{"event_id": "evil", "context": "code", "payload": "\\x41"}',
    "half an escape": '{"event_id": "evil", "context": "code", "payload": "\\u12"}',
    "lone high surrogate as id": '{"event_id": "evil\\ud800", "context": "code"}',
    "lone high surrogate as context": '{"event_id": "evil", "context": "\\udbff"}',
    "lone high surrogate in the payload": '{"event_id": "evil", "context": "code", "payload": "\\ud800"}',
    "lone low surrogate in the payload": '{"event_id": "evil", "context": "code", "payload": ["x\\udc00y"]}',
    "lone surrogate as a key": '{"event_id": "evil", "context": "code", "payload": {"\\udfff": 1}}',
    "surrogates in the wrong order": '{"event_id": "evil", "context": "code", "payload": "\\udc00\\ud800"}',
    "arrays, 10,000 deep": '{"event_id": "evil", "context": "code", "payload": %s}' % ("[" * 10000 + "]" * 10000),
    "objects, 10,000 deep": '{"event_id": "evil", "context": "code", "payload": %s}'
    % ('{"a":' * 10000 + "1" + "}" * 10000),
    "arrays, 10,000 deep and never closed": "[" * 10000,
    "arrays, 200 deep": '{"event_id": "evil", "context": "code", "payload": %s}' % ("[" * 200 + "]" * 200),
    "objects, 200 deep": '{"event_id": "evil", "context": "code", "payload": %s}' % ('{"a":' * 200 + "1" + "}" * 200),
    "objects, 10,000 deep and never closed": '{"a":' * 10000,
    "one level too deep": '{"event_id": "evil", "context": "code", "payload": %s}' % ("[" * DEEPEST + "]" * DEEPEST),
    "one level too deep, in objects": '{"event_id": "evil", "context": "code", "payload": %s}'
    % ('{"a":' * DEEPEST + "1" + "}" * DEEPEST),
}.items():
    attack(title, 400, body=text)
for title, raw in {
    "a byte that is no UTF-8": b'{"event_id": "evil", "context": "code", "payload": "\xff"}',
    "overlong UTF-8": b'{"event_id": "evil", "context": "code", "payload": "\xc0\x80"}',
    "a surrogate in UTF-8": b'{"event_id": "evil", "context": "code", "payload": "\xed\xa0\x80"}',
    "beyond Unicode": b'{"event_id": "evil", "context": "code", "payload": "\xf4\x90\x80\x80"}',
    "half a character": b'{"event_id": "evil", "context": "code", "payload": "\xe2\x82"}',
    "Latin-1": '{"event_id": "evil", "context": "code", "payload": "é"}'.encode("latin-1"),
    "UTF-16": '{"event_id": "evil", "context": "code"}'.encode("utf-16"),
    "UTF-16 without a mark": '{"event_id": "evil", "context": "code"}'.encode("utf-16-le"),
    "UTF-32": '{"event_id": "evil", "context": "code"}'.encode("utf-32"),
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xabV*K-*\xce\xcc\xcfS\xb2R2T\xaa\x05\x00",
}.items():
    attack(title, 400, body=raw)
for word in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5000):
    attack(f"reward {word[:9]}", 400, target=FEEDBACK, body=f'{{"reward": {word}}}')
    attack(f"feature {word[:9]}", 400, target=LINEAR, body=f'{{"features": [[{word}, 0]]}}')
    attack(f"grant {word[:9]}", 400, target=GRANTS, body=f'{{"grant_id": "evil", "amount": {word}}}')
    attack(f"seed {word[:9]}", 400, target="/v1/agents/evil", method="PUT",
           body=f'{{"learner": {{"type": "UCB1"}}, "actions": ["a"], "seed": {word}}}')  # fmt: skip

# JSON that does not fit: types, fields, ids.
for title, document in {
    "no object": [],
    "a list of one": [{"event_id": EVENT, "context": "code"}],
    "unknown field": {"event_id": EVENT, "context": "code", "colour": "red"},
    "a field in capitals": {"EVENT_ID": EVENT, "context": "code"},
    "id null": {"event_id": None, "context": "code"},
    "id a number": {"event_id": 7, "context": "code"},
    "id a list": {"event_id": [EVENT], "context": "code"},
    "id empty": {"event_id": "", "context": "code"},
    "id with NUL": {"event_id": "evil\0", "context": "code"},
    "id with a line feed": {"event_id": "evil\n", "context": "code"},
    "id with a space": {"event_id": "evil evil", "context": "code"},
    "id with a slash": {"event_id": "evil/evil", "context": "code"},
    "id with a percent sign": {"event_id": "evil%2Fevil", "context": "code"},
    "id a dot": {"event_id": ".", "context": "code"},
    "id two dots": {"event_id": "..", "context": "code"},
    "id dots": {"event_id": ".....", "context": "code"},
    "id with an umlaut": {"event_id": "evül", "context": "code"},
    "id in wide letters": {"event_id": "ｅｖｉｌ", "context": "code"},
    "id of 129": {"event_id": "e" * 129, "context": "code"},
    "id of 100,000": {"event_id": "e" * 100_000, "context": "code"},
    "defer a number": {"event_id": EVENT, "context": "code", "defer": 1},
    "defer a word": {"event_id": EVENT, "context": "code", "defer": "true"},
    "defer null": {"event_id": EVENT, "context": "code", "defer": None},
    "no context": {"event_id": EVENT},
    "context null": {"event_id": EVENT, "context": None},
    "context true": {"event_id": EVENT, "context": True},
    "context a fraction": {"event_id": EVENT, "context": 0.5},
    "context a list": {"event_id": EVENT, "context": ["code"]},
    "context empty": {"event_id": EVENT, "context": ""},
    "context unknown": {"event_id": EVENT, "context": "poem"},
    "context in capitals": {"event_id": EVENT, "context": "CODE"},
    "context a digit in quotes": {"event_id": EVENT, "context": "0"},
    "context out of range": {"event_id": EVENT, "context": 2},
    "context below zero": {"event_id": EVENT, "context": -1},
    "context of 400 digits": {"event_id": EVENT, "context": 10**399},
    "context 2^63": {"event_id": EVENT, "context": 2**63},
    "features for arms": {"event_id": EVENT, "features": [[1.0, 0.0]]},
    "context and features": {"event_id": EVENT, "context": "code", "features": [[1.0, 0.0]]},
}.items():
    attack(title, 422, body=document)
attack("context where there is none", 422, target=QUIET, body={"event_id": EVENT, "context": "a"})
attack("features where there are none", 422, target=QUIET,
       body={"event_id": EVENT, "features": [[1.0, 0.0]]})  # fmt: skip
for title, document in {
    "neither context nor features": {"event_id": EVENT},
    "context for a linear agent": {"event_id": EVENT, "context": 0},
    "both": {"event_id": EVENT, "context": 0, "features": [[1, 0]]},
    "features null": {"event_id": EVENT, "features": None},
    "features a number": {"event_id": EVENT, "features": 1},
    "features a row": {"event_id": EVENT, "features": [1, 0]},
    "features words": {"event_id": EVENT, "features": [["1", "0"]]},
    "features true": {"event_id": EVENT, "features": [[True, False]]},
    "features null inside": {"event_id": EVENT, "features": [[None, 0]]},
    "no rows": {"event_id": EVENT, "features": []},
    "an empty row": {"event_id": EVENT, "features": [[]]},
    "ragged": {"event_id": EVENT, "features": [[1, 0], [1]]},
    "one too few": {"event_id": EVENT, "features": [[1]]},
    "one too many": {"event_id": EVENT, "features": [[1, 0, 0]]},
    "257 wide": {"event_id": EVENT, "features": [[0.01] * 257]},
    "1,001 rows": {"event_id": EVENT, "features": [[1, 0]] * 1001},
    "rows that are too long": {"event_id": EVENT, "features": [[3.0, 4.0]]},
    "one row that is too long": {"event_id": EVENT, "features": [[1, 0], [0, 1.1]]},
    "too large": {"event_id": EVENT, "features": [[1e13, 0]]},
    "huge": {"event_id": EVENT, "features": [[1e308, 1e308]]},
    "400 digits": {"event_id": EVENT, "features": [[10**399, 0]]},
    "three levels": {"event_id": EVENT, "features": [[[1, 0]]]},
    "objects": {"event_id": EVENT, "features": [{"0": 1, "1": 0}]},
}.items():
    attack(f"linear: {title}", 422, target=LINEAR, body=document)

# Feedback.
for title, document in {
    "missing": {},
    "null": {"reward": None},
    "true": {"reward": True},
    "a word": {"reward": "3"},
    "a list": {"reward": [3]},
    "unknown field": {"reward": 3, "colour": "red"},
    "below the range": {"reward": 0.999999},
    "above the range": {"reward": 5.000001},
    "minus zero": {"reward": -0.0},
    "too large": {"reward": 1e13},
    "huge": {"reward": 1.7e308},
    "400 digits": {"reward": 10**399},
    "not an object": 3,
}.items():
    attack(f"reward {title}", 422, target=FEEDBACK, body=document if isinstance(document, dict) else str(document))
attack("reward that underflows", 422, target=FEEDBACK, body='{"reward": 1e-400}')
attack("reward without a body", 400, target=FEEDBACK, body="")
attack("feedback twice, another value", 409, target="/v1/agents/stars/decisions/answered/feedback", body={"reward": 4})
attack("feedback for what was not asked", 409, target="/v1/agents/quiet/decisions/silent/feedback", body={"reward": 1})
attack("feedback for a held ask", 409, target="/v1/agents/stars/decisions/held/feedback", body={"reward": 1})
attack("feedback for an unknown decision", 404, target="/v1/agents/stars/decisions/evil/feedback", body={"reward": 3})
attack("feedback to an unknown agent", 404, target="/v1/agents/nobody/decisions/open/feedback", body={"reward": 3})
attack("the same id with another context", 409, body={"event_id": "open", "context": "code", "payload": {"q": 1}})
attack("the same id with another payload", 409, body={"event_id": "open", "context": "chat", "payload": {"q": 2}})
attack("the same id without the payload", 409, body={"event_id": "open", "context": "chat"})
attack("the same id, deferred", 409, body={"event_id": "open", "context": "chat", "payload": {"q": 1}, "defer": True})
for step in ("activate", "release"):
    path = f"/v1/agents/stars/decisions/%s/{step}"
    attack(f"{step} what was not deferred", 409, target=path % "open")
    attack(f"{step} what was not asked", 409, target=f"/v1/agents/quiet/decisions/silent/{step}")
    attack(f"{step} an unknown decision", 404, target=path % "evil")
    attack(f"{step} with a field", 422, target=path % "held", body={"force": True})
    attack(f"{step} with a list", 422, target=path % "held", body=[])
    attack(f"{step} with half a document", 400, target=path % "held", body="{")
    attack(f"{step} with text", 415, target=path % "held", body="{}", headers=(("Content-Type", "text/plain"),))

# Grants and charges.
for kind in ("grant", "charge"):
    for title, document in {
        "missing id": {"amount": 1},
        "missing amount": {f"{kind}_id": EVENT},
        "negative": {f"{kind}_id": EVENT, "amount": -1},
        "a bit negative": {f"{kind}_id": EVENT, "amount": -1e-9},
        "true": {f"{kind}_id": EVENT, "amount": True},
        "a word": {f"{kind}_id": EVENT, "amount": "1"},
        "null": {f"{kind}_id": EVENT, "amount": None},
        "too large": {f"{kind}_id": EVENT, "amount": 4.1e12},
        "400 digits": {f"{kind}_id": EVENT, "amount": 10**399},
        "an id with a slash": {f"{kind}_id": "a/b", "amount": 1},
        "an id with NUL": {f"{kind}_id": "a\0b", "amount": 1},
        "the other's id": {f"{'charge' if kind == 'grant' else 'grant'}_id": EVENT, "amount": 1},
    }.items():
        attack(f"{kind}: {title}", 422, target=f"/v1/agents/stars/{kind}s", body=document)
    attack(f"{kind} to an unknown agent", 404, target=f"/v1/agents/nobody/{kind}s",
           body={f"{kind}_id": EVENT, "amount": 1})  # fmt: skip
attack("grant again with another amount", 409, target=GRANTS, body={"grant_id": "first", "amount": 6})
for amount in (1006, 1e9, 1e12, 4e12):
    attack(f"charge {amount:g}, more than is left", 409, target="/v1/agents/stars/charges",
           body={"charge_id": EVENT, "amount": amount})  # fmt: skip

# Agents that contradict themselves.
ARMS = {"learner": {"type": "UCB1"}, "actions": ["a", "b"]}
LINES = {"learner": {"type": "OFUL", "dim": 2}}
for title, document in {
    "no learner": {"actions": ["a", "b"]},
    "learner a word": {"learner": "UCB1", "actions": ["a", "b"]},
    "learner without a type": {"learner": {}, "actions": ["a", "b"]},
    "unknown learner": {"learner": {"type": "EXP3"}, "actions": ["a", "b"]},
    "learner with a field of another": {"learner": {"type": "UCB1", "dim": 2}, "actions": ["a", "b"]},
    "unknown field": ARMS | {"colour": "red"},
    "UCB1 without actions": {"learner": {"type": "UCB1"}},
    "MOSS without actions": {"learner": {"type": "MOSS"}, "contexts": ["x"]},
    "actions null": {"learner": {"type": "UCB1"}, "actions": None},
    "no actions": ARMS | {"actions": []},
    "an action twice": ARMS | {"actions": ["a", "b", "a"]},
    "an action without a name": ARMS | {"actions": ["a", ""]},
    "an action with NUL": ARMS | {"actions": ["a", "b\0"]},
    "an action that is a number": ARMS | {"actions": ["a", 1]},
    "an action of 201 letters": ARMS | {"actions": ["a", "b" * 201]},
    "1,001 actions": ARMS | {"actions": [f"a{i}" for i in range(1001)]},
    "no contexts": ARMS | {"contexts": []},
    "a context twice": ARMS | {"contexts": ["x", "x"]},
    "too many cells": {
        "learner": {"type": "UCB1"},
        "actions": [f"a{i}" for i in range(1000)],
        "contexts": [f"{i:x}" for i in range(101)],
    },
    "too few costs": ARMS | {"costs": [1]},
    "too many costs": ARMS | {"costs": [1, 1, 1]},
    "no costs": ARMS | {"costs": []},
    "negative costs": ARMS | {"costs": [1, -1]},
    "costs true": ARMS | {"costs": [True, True]},
    "low is high": ARMS | {"rewards": {"low": 1, "high": 1}},
    "low above high": ARMS | {"rewards": {"low": 1, "high": 0}},
    "rewards too large": ARMS | {"rewards": {"low": -1e13, "high": 1e13}},
    "unknown rule": ARMS | {"rule": {"type": "Sometimes"}},
    "rule a word": ARMS | {"rule": "Greedy"},
    "Matching without alpha": ARMS | {"rule": {"type": "Matching"}},
    "alpha zero": ARMS | {"rule": {"type": "Matching", "alpha": 0}},
    "beta above one": ARMS | {"rule": {"type": "Matching", "alpha": 1, "beta": 1.5}},
    "no policies": ARMS | {"rule": {"type": "Greedy", "policies": 0}},
    "negative budget": ARMS | {"budget": {"initial": -1}},
    "budget a number": ARMS | {"budget": 100},
    "unknown growth": ARMS | {"budget": {"growth": {"by": "magic"}}},
    "growth in no time": ARMS | {"budget": {"growth": {"by": "clock", "amount": 1, "every": 0}}},
    "growth backwards": ARMS | {"budget": {"growth": {"by": "decisions", "rate": -0.1}}},
    "seed negative": ARMS | {"seed": -1},
    "seed a fraction": ARMS | {"seed": 0.5},
    "seed true": ARMS | {"seed": True},
    "seed too large": ARMS | {"seed": 2**53 + 1},
    "seed of 400 digits": ARMS | {"seed": 10**399},
    "lease zero": ARMS | {"lease": 0},
    "closed at once": ARMS | {"unanswered": {"close_after": 0}},
    "late: maybe": ARMS | {"unanswered": {"late": "maybe"}},
    "description too long": ARMS | {"description": "x" * 2001},
    "OFUL without dim": {"learner": {"type": "OFUL"}},
    "OFUL, dim zero": {"learner": {"type": "OFUL", "dim": 0}},
    "OFUL, dim 257": {"learner": {"type": "OFUL", "dim": 257}},
    "OFUL, dim a fraction": {"learner": {"type": "OFUL", "dim": 2.5}},
    "OFUL with contexts": LINES | {"contexts": ["x", "y"]},
    "OFUL, no ridge": {"learner": {"type": "OFUL", "dim": 2, "ridge": 0}},
    "OFUL, delta one": {"learner": {"type": "OFUL", "dim": 2, "delta": 1}},
}.items():
    attack(f"agent: {title}", 422, target="/v1/agents/evil", method="PUT", body=document)
attack("agent: another body", 409, target="/v1/agents/quiet", method="PUT", body=AGENTS["quiet"] | {"seed": 1})
for title, name in {
    "a dot": ".",
    "two dots": "..",
    "dots": "...",
    "a dot in code": "%2e",
    "two dots in code": "%2e%2e",
    "a slash in code": "evil%2Fevil",
    "a backslash": "evil%5Cevil",
    "NUL": "evil%00",
    "a line feed": "evil%0A",
    "a space": "evil%20evil",
    "a plus": "evil+evil",
    "no UTF-8": "evil%FF",
    "a surrogate": "%ED%A0%80",
    "half a code": "evil%",
    "a wrong code": "evil%zz",
    "an umlaut": "ev%C3%BCl",
    "a semicolon": "evil;x=1",
    "65 letters": "e" * 65,
    "5,000 letters": "e" * 5000,
    "an underscore first": "_evil",
    "a dash last": "evil-",
}.items():
    attack(f"agent named {title}", 400, 404, 414, 422, 431, target=f"/v1/agents/{name}", method="PUT", body=ARMS)
    attack(f"decision of an agent named {title}", 400, 404, 405, 414, 422, 431, target=f"/v1/agents/{name}/decisions",
           body={"event_id": EVENT})  # fmt: skip
    attack(f"feedback to an event named {title}", 400, 404, 405, 414, 422, 431,
           target=f"/v1/agents/stars/decisions/{name}/feedback", body={"reward": 3})  # fmt: skip
attack("unknown agent", 404, target="/v1/agents/nobody/decisions", body={"event_id": EVENT})
attack("an agent in capitals", 404, target="/v1/agents/STARS/decisions", body={"event_id": EVENT, "context": "code"})

# DELETE wants to be asked twice.
attack("delete without confirm", 422, method="DELETE", target="/v1/agents/stars")
for title, query in {
    "nothing": "confirm=",
    "another": "confirm=quiet",
    "true": "confirm=true",
    "capitals": "confirm=STARS",
    "more": "confirm=stars%00",
    "a space": "confirm=stars%20",
    "two names": "confirm=stars&confirm=quiet",
    "its name twice": "confirm=stars&confirm=stars",
    "something unknown": "confirm=stars&force=1",
    "a wrong key": "Confirm=stars",
}.items():
    attack(f"delete, confirm {title}", 400, 422, method="DELETE", target=f"/v1/agents/stars?{query}")
attack("delete an unknown agent", 404, method="DELETE", target="/v1/agents/nobody?confirm=nobody")

# Queries.


def short(value: str) -> str:
    return value if len(value) < 20 else f"{len(value)} digits"


for target, key in [
    ("/v1/agents/stars/decisions", "limit"),
    ("/v1/agents/stars/asks", "limit"),
    ("/v1/agents/stars/history", "points"),
]:
    for value in ["0", "-1", "1e9", "1000000000", "abc", "", "1.5", "%2B1", "%201", "1_0", "0x10", "%EF%BC%91",
                  "%D9%A1", "1%00", "NaN", "true", "9" * 30, "9" * 5000, "%FF"]:  # fmt: skip
        attack(
            f"{target.split('/')[-1]}: {key}={short(value)}", 400, 422, method="GET", target=f"{target}?{key}={value}"
        )
    attack(f"{target.split('/')[-1]}: {key} twice", 400, 422, method="GET", target=f"{target}?{key}=5&{key}=6")
    attack(f"{target.split('/')[-1]}: unknown", 400, 422, method="GET", target=f"{target}?{key}=5&colour=red")
for target in ("decisions?before", "asks?after", "log?after"):
    for value in ["-1", "abc", "", "1.5", "9" * 30, "9" * 5000, "1_0"]:
        attack(f"{target}={short(value)}", 400, 422, method="GET", target=f"/v1/agents/stars/{target}={value}")
for query in ("asks?status=closed", "asks?status=", "asks?status=open&status=held", "asks?status=OPEN",
              "log?format=csv", "log?format=", "log?format=jsonl&format=parquet", "log?since=0",
              "estimates?context=poem", "estimates?x=1", "estimates?context=code&context=chat", "estimates?context=%FF",
              "decisions?after=1"):  # fmt: skip
    attack(f"query {query}", 400, 404, 422, method="GET", target=f"/v1/agents/stars/{query}")
attack(
    "a query where none belongs", 400, 422, target=f"{DECIDE}?dry_run=1", body={"event_id": EVENT, "context": "code"}
)

# Methods and paths.
for method, target in [
    ("POST", "/v1/agents"), ("PUT", "/v1/agents"), ("DELETE", "/v1/agents"), ("PATCH", "/v1/agents"),
    ("POST", "/v1/agents/stars"), ("PUT", DECIDE), ("DELETE", f"{DECIDE}/open"), ("PUT", FEEDBACK), ("GET", FEEDBACK),
    ("GET", f"{DECIDE}/held/activate"), ("GET", f"{DECIDE}/held/release"), ("GET", "/v1/agents/stars/grants"),
    ("GET", "/v1/agents/stars/pause"), ("GET", "/v1/agents/stars/resume"), ("POST", "/v1/agents/stars/asks"),
    ("POST", "/v1/agents/stars/log"), ("POST", "/healthz"), ("DELETE", "/readyz"), ("PUT", "/metrics"),
    ("POST", "/openapi.json"), ("POST", "/"), ("OPTIONS", DECIDE), ("TRACE", "/v1/agents"), ("PROPFIND", "/v1/agents"),
]:  # fmt: skip
    attack(f"method {method} {target}", 405, method=method, target=target)
attack("method in small letters", 400, 405, method="get", target="/v1/agents", plain=True)
attack("method unknown", 400, 405, 501, method="BREW", target="/v1/agents", plain=True)
for target in ("/v1", "/v1/", "/v2/agents", "/agents", "/v1/agents/stars/decide", "/v1/agents/stars/decisions/open/x",
               "//v1/agents", "/v1//agents", "/v1/agents/", "/v1/agents/stars/", "/V1/agents", "/.git/config",
               "/v1/agents/nobody", "/v1/agents/nobody/log", "/v1/agents/stars/decisions/evil", "/openapi.json/",
               "/admin", "/page/", "/page/..", "/page/../contract.py", "/page/%2e%2e/contract.py",
               "/page/..%2fcontract.py", "/page/..%5ccontract.py", "/page//etc/passwd", "/page/%2fetc%2fpasswd",
               "/page/%00", "/page/%ff", "/page/" + "a" * 5000,
               "/v1/agents/%3Cscript%3Ealert(1)%3C/script%3E"):  # fmt: skip
    attack(f"path {target[:40]}", 400, 404, 414, method="GET", target=target)

# Content types, encodings, sizes, and HTTP itself.
GOOD = encoded({"event_id": EVENT, "context": "code"})
attack("no content type", 415, body=GOOD, headers=())
for value in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp",
              "application/xml", "json", "", "*/*", "application/*", "application/json-patch+json", "text/json",
              "application/jsonapplication/json", "application/json, text/plain", "text/plain; application/json",
              "application/json; charset=utf-16", "application/json; charset=latin-1"):  # fmt: skip
    attack(f"content type {value!r}", 415, body=GOOD, headers=(("Content-Type", value),))
attack("two content types", 400, 415, body=GOOD, headers=(*JSON, ("Content-Type", "text/plain")))
for encoding in ("gzip", "deflate", "br", "zstd", "identity, gzip", "nonsense"):
    attack(f"content encoding {encoding}", 415, body=GOOD, headers=(*JSON, ("Content-Encoding", encoding)))


def padded(size: int, event_id: str = EVENT) -> bytes:
    """A decision of exactly so many bytes."""
    start, end = f'{{"event_id": "{event_id}", "context": "code", "payload": "'.encode(), b'"}'
    return start + b"x" * (size - len(start) - len(end)) + end


attack("one byte too many", 413, body=padded(LARGEST + 1))
attack("one byte too many, in chunks", 413, body=padded(LARGEST + 1), chunked=True)
attack("eight times too large", 413, body=padded(8 * LARGEST))
attack("eight times too large, in chunks", 413, body=padded(8 * LARGEST), chunked=True)
attack("spaces around a small document", 413, body=GOOD + b" " * LARGEST)
attack("a terabyte is announced", 413, body=b"{", headers=(*JSON, ("Content-Length", str(10**12))))
attack("feedback that is too large", 413, target=FEEDBACK, body=b'{"reward": 3}' + b" " * LARGEST)
attack("an agent that is too large", 413, target="/v1/agents/evil", method="PUT", body=b" " * (LARGEST + 1))
attack("a step that is too large", 413, target=f"{DECIDE}/held/activate", body=b" " * (LARGEST + 1))
for value in ("abc", "-1", "1e3", "0x10", "+39", "39, 40", "9" * 40):
    attack(f"length {value[:9]}", 400, 413, body=GOOD, headers=(*JSON, ("Content-Length", value)), plain=True)
attack("two lengths", 400, body=GOOD, plain=True, headers=(*JSON, ("Content-Length", "39"), ("Content-Length", "3")))
attack("a length and chunks", 400, body=GOOD, chunked=True, plain=True, headers=(*JSON, ("Content-Length", "39")))
attack("an unknown transfer coding", 400, 501, body=GOOD, plain=True, headers=(*JSON, ("Transfer-Encoding", "magic")))
attack("a header of a megabyte", 400, 431, method="GET", target="/v1/agents", plain=True,
       headers=(("X-Long", "x" * 2**20),))  # fmt: skip
attack("ten thousand headers", 400, 431, method="GET", target="/v1/agents", plain=True,
       headers=tuple((f"X-{i}", "x" * 50) for i in range(10_000)))  # fmt: skip
attack("a target of 200,000 letters", 400, 404, 414, 431, method="GET", target="/v1/" + "a" * 200_000, plain=True)
attack("a header without a colon", 400, method="GET", target="/v1/agents", plain=True,
       headers=(("X-A", b"1\r\nnonsense"),))  # fmt: skip
attack("a header name with a space", 400, method="GET", target="/v1/agents", plain=True, headers=(("X A", "1"),))

# Names of the host: a page of a stranger that has its name point at this machine must not get in.
for host in ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "evil-localhost",
             "127.0.0.2", "0.0.0.0", "10.0.0.1", "[::2]", "[::1", "::1", "", "localhost:abc", "localhost@evil.example",
             "evil.example#localhost", "evil.example/localhost", "localhost, evil.example", "2130706433", "localhost..",
             "\xa0localhost"):  # fmt: skip
    attack(f"host {host!r}", 400, 421, body=GOOD, headers=(*JSON, ("Host", host)), plain=host in ("", "\xa0localhost"))
attack("host of a stranger, reading", 421, method="GET", target="/v1/agents", headers=(("Host", "evil.example"),))
attack("host of a stranger, the page", 421, method="GET", target="/", headers=(("Host", "evil.example"),))
attack("two hosts", 400, 421, body=GOOD, headers=(*JSON, ("Host", "localhost"), ("Host", "evil.example")), plain=True)
attack("a preflight", 421, method="OPTIONS", target=DECIDE, headers=(
    ("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST"),
    ("Access-Control-Request-Headers", "content-type")))  # fmt: skip
attack("a form of a stranger", 421, body=GOOD, headers=(("Origin", "https://evil.example"),
       ("Content-Type", "text/plain;charset=UTF-8")))  # fmt: skip

# On PostgreSQL too: where a store could differ in what it takes.
STORED = (
    "lone",
    "raw NUL",
    "id with NUL",
    "id of 129",
    "1e999",
    "context of",
    "context 2^63",
    "feedback t",
    "the same id",
)
ON_EVERY_STORE = [
    each
    for each in ATTACKS
    if each.title.startswith(STORED)
    or each.title.endswith(("digits", "an id with NUL", "another amount", "more than is left"))
    or each.title in ("agent: another body", "delete without confirm", "one byte too many")
]

# Odd, but right: the payload comes back as it was sent.
PAYLOADS: dict[str, str] = {
    "null": "null",
    "zero": "0",
    "minus zero": "-0.0",
    "false": "false",
    "no text": '""',
    "no list": "[]",
    "no object": "{}",
    "empty key": '{"": {"": ""}}',
    "numbers": "[0.1, 1e22, 1e-7, 123456789.123456789, 5e-324, 1.7976931348623157e308, 1.0, 1, -1, 1E5]",
    "underflow": "[1e-400, -1e-400]",
    "whole numbers": "[9007199254740993, 9223372036854775807, 9223372036854775808, -9223372036854775809, "
    "18446744073709551616, 123456789012345678901234567890]",
    "300 digits": "9" * 300,
    "languages": '{"ключ": "значение", "鍵": "値", "مفتاح": "قيمة", "🔑": "👩‍👩‍👧‍👦"}',
    "composed and not": '["\\u00e9", "e\\u0301"]',
    "keys that look alike": '{"\\u00e9": 1, "e\\u0301": 2}',
    "escapes": '"\\u0041\\n\\t\\r\\b\\f\\/\\\\\\""',
    "a pair of surrogates": '"\\ud83d\\ude00"',
    "the ends of Unicode": '"\\u007f\\u0080\\u2028\\u2029\\ufeff\\ufffd\\uffff\\udbff\\udfff"',
    "NUL": '"a\\u0000b"',
    "NUL in a key": '{"a\\u0000b": "\\u0001"}',
    "markup": '"<script>alert(1)</script>&lt;\'\\""',
    "SQL": '"\'; drop table agents; -- "',
    "format": '"%s {0} ${x} $1 ?"',
    "pollution": '{"__proto__": {"x": 1}, "constructor": 1, "toString": 1}',
    "arrays, as deep as it goes": "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1),
    "objects, as deep as it goes": '{"a":' * (DEEPEST - 1) + "null" + "}" * (DEEPEST - 1),
    "brackets in a text": '"%s"' % ("[{" * 5000),
    "many": json.dumps(list(range(30_000))),
    "many keys": json.dumps({f"k{i}": i for i in range(10_000)}),
}

# Valid, and extreme: such an agent is taken and works, or is refused as one that does not fit.
EXTREMES: dict[str, dict[str, Any]] = {
    "one action": {"learner": {"type": "UCB1"}, "actions": ["only"]},
    "all zero": ARMS | {"learner": {"type": "UCB1", "scale": 0}, "costs": [0, 0]},
    "great scale": ARMS | {"learner": {"type": "MOSS", "scale": 1e6, "ties": "random"}, "seed": 2**53},
    "tiny costs": ARMS | {"costs": [1e-9, 1e-300]},
    "great costs": ARMS | {"costs": [1e6, 1e6]},
    "all the budget": ARMS | {"budget": {"initial": 4e12, "growth": {"by": "decisions", "rate": 1e6}}},
    "all at once": ARMS | {"budget": {"initial": 4e12, "growth": {"by": "clock", "amount": 4e12, "every": 1e-300}}},
    "for ever": ARMS | {"budget": {"growth": {"by": "clock", "amount": 1e-300, "every": 3.2e9}}},
    "a tiny rate": ARMS | {"budget": {"growth": {"by": "decisions", "rate": 5e-324}}},
    "long times": ARMS | {"lease": 3.2e9, "unanswered": {"close_after": 3.2e9, "late": "keep"}},
    "short times": ARMS | {"lease": 5e-324, "unanswered": {"close_after": 5e-324}},
    "wide rewards": ARMS | {"rewards": {"low": -1e12, "high": 1e12}},
    "narrow rewards": ARMS | {"rewards": {"low": 0, "high": 5e-324}},
    "rewards far off": ARMS | {"rewards": {"low": 1e12 - 0.001, "high": 1e12}},
    "names": {
        "learner": {"type": "UCB1"},
        "actions": ["<b>", "' or 1=1", "👍", "a" * 200],
        "contexts": ["\u00e9", "e\u0301"],
    },
    "many actions": {"learner": {"type": "UCB1"}, "actions": [str(i) for i in range(1000)]},
    "many contexts": {"learner": {"type": "MOSS"}, "actions": ["a"], "contexts": [str(i) for i in range(20_000)]},
    "paper": ARMS | {"rule": {"type": "PaperMatching"}, "budget": {"initial": 0}},
    "matching": ARMS | {"rule": {"type": "Matching", "alpha": 1e-300, "beta": 0}, "budget": {"initial": 1e-6}},
    "greedy": ARMS | {"rule": {"type": "Greedy", "policies": 64}, "budget": {"initial": 5e-7}},
    "linear, silent": {"learner": {"type": "OFUL", "dim": 1, "noise": 0, "norm": 0, "scale": 0}},
    "linear, no ridge": {"learner": {"type": "OFUL", "dim": 2, "ridge": 5e-324, "length": 1e6, "norm": 1e6}},
    "linear, great": {
        "learner": {"type": "OFUL", "dim": 2, "noise": 1e6, "delta": 5e-324, "ridge": 1e6, "length": 1e6, "scale": 1e6},
        "rewards": {"low": -1e12, "high": 1e12},
    },
    "linear, without bounds": {
        "learner": {"type": "OFUL", "dim": 2, "noise": 1e6, "delta": 5e-324, "radius": "simple"},
        "rule": {"type": "Always"},
        "budget": {"initial": 100},
    },
    "linear, tiny": {"learner": {"type": "OFUL", "dim": 2, "length": 5e-324, "radius": "simple"}},
    "linear, wide": {"learner": {"type": "OFUL", "dim": 256}},
}
