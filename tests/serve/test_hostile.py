"""The service under attack: whatever is wrong is refused with a reason, stores nothing and never ends in a 5xx.

What is merely odd is taken, and comes back as it was sent. The requests themselves are in hostile.py.
"""

from __future__ import annotations

import json
import math

import msgspec
import pytest

from sparingly.serve import contract
from tests.serve.hostile import (
    AGENTS,
    ATTACKS,
    BEFORE,
    DECIDE,
    EVENT,
    EXTREMES,
    FEEDBACK,
    GOOD,
    JSON,
    LARGEST,
    LINEAR,
    ON_EVERY_STORE,
    PAYLOADS,
    check_problem,
    connect,
    encoded,
    everything,
    head,
    padded,
    post,
    prepare,
    receive,
    send,
)  # fmt: skip
from tests.serve.postgres import postgres
from tests.serve.serving import serving

__all__ = ["postgres"]  # a fixture
TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with serving("--data", str(tmp_path_factory.mktemp("attacked"))) as url:
        prepare(url)
        yield url


@pytest.fixture(scope="module")
def on_postgres(postgres):
    with serving("--database", postgres.url("attacked")) as url:
        prepare(url)
        yield url


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "token").write_text(TOKEN + "\n")
    (folder / "token").chmod(0o600)
    with serving("--data", str(folder / "data"), "--token-file", str(folder / "token")) as url:
        prepare(url, right())
        yield url


def right():
    return (("Authorization", f"Bearer {TOKEN}"),)


def check_attack(url, attack):
    before = everything(url)
    answer = send(url, attack.method, attack.target, attack.body, attack.headers, chunked=attack.chunked)
    assert answer.status in attack.expected, answer
    if not attack.plain or "problem+json" in answer.header("content-type"):
        check_problem(answer)
    if answer.status == 405:
        assert attack.method not in answer.header("allow").split(", ") and answer.header("allow"), answer
    assert not answer.header("access-control-allow-origin")
    assert everything(url) == before


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.title)
def test_an_attack_is_refused_and_stores_nothing(url, attack):
    check_attack(url, attack)


@pytest.mark.parametrize("attack", ON_EVERY_STORE, ids=lambda attack: attack.title)
def test_an_attack_is_refused_and_stores_nothing_on_postgres(on_postgres, attack):
    check_attack(on_postgres, attack)


def test_the_attacks_would_be_noticed(url):
    """The same request without the flaw is taken, and shows in all that the tests look at."""
    before = everything(url)
    assert post(url, "/v1/agents/quiet/decisions", {"event_id": "noticed"}).status == 200
    after = everything(url)
    assert after["agents"] != before["agents"]
    assert after["quiet"][1] != before["quiet"][1]


def canonical(value):
    """A text in which 1 and 1.0, 0.0 and −0.0 differ, but not the order of keys."""
    return json.dumps(value, sort_keys=True)


def check_payload(url, text, event_id):
    body = f'{{"event_id": "{event_id}", "context": "code", "payload": {text}}}'.encode()
    first = send(url, "POST", DECIDE, body, JSON)
    assert first.status == 200, first
    again = send(url, "POST", DECIDE, body, JSON)
    assert (again.status, again.body) == (200, first.body)
    sent = canonical(json.loads(text))
    event = send(url, "GET", f"{DECIDE}/{event_id}")
    assert event.status == 200, event
    assert canonical(event.json()["payload"]) == sent
    for target in (DECIDE, "/v1/agents/stars/asks"):
        page = send(url, "GET", f"{target}?limit=1000").json()["events"]
        assert [canonical(each["payload"]) for each in page if each["event_id"] == event_id] == [sent]
    assert all(isinstance(json.loads(line), dict) for line in log(url).splitlines())


def log(url):
    answer = send(url, "GET", "/v1/agents/stars/log")
    assert answer.status == 200
    return answer.body


@pytest.mark.parametrize("title", PAYLOADS)
def test_a_payload_comes_back_as_it_was_sent(url, title):
    check_payload(url, PAYLOADS[title], f"payload-{list(PAYLOADS).index(title)}")


@pytest.mark.parametrize("title", PAYLOADS)
def test_a_payload_comes_back_as_it_was_sent_on_postgres(on_postgres, title):
    check_payload(on_postgres, PAYLOADS[title], f"payload-{list(PAYLOADS).index(title)}")


ODD = {
    "a body of the largest size": (padded(LARGEST, "largest"), JSON),
    "charset": (GOOD, (("Content-Type", "application/json; charset=utf-8"),)),
    "charset in quotes and capitals": (GOOD, (("Content-Type", 'APPLICATION/JSON;Charset="UTF-8"'),)),
    "white space around": (b"\r\n\t " + GOOD + b"\n\n", JSON),
    "context by number": (encoded({"event_id": EVENT, "context": 0}), JSON),
    "escaped keys": (GOOD.replace(b"event_id", b"event\\u005fid"), JSON),
    "an id of 128": (GOOD.replace(EVENT.encode(), b"e" * 128), JSON),
    "an id of signs": (GOOD.replace(EVENT.encode(), b"a.b_c:d~e@f-1"), JSON),
    "no id": (b'{"context": "code"}', JSON),
    "host localhost": (GOOD, (*JSON, ("Host", "localhost"))),
    "host in capitals": (GOOD, (*JSON, ("Host", "LOCALHOST:1"))),
    "host by IPv6": (GOOD, (*JSON, ("Host", "[::1]:8080"))),
}


@pytest.mark.parametrize("title", ODD)
def test_what_is_merely_odd_is_taken(url, title):
    body, headers = ODD[title]
    answer = send(url, "POST", DECIDE, body.replace(b'"evil"', b'"odd-%d"' % list(ODD).index(title)), headers)
    assert answer.status == 200, answer
    assert msgspec.json.decode(answer.body, type=contract.Decision).ask


def test_a_body_in_chunks_is_taken_or_its_length_asked_for(url):
    answer = send(url, "POST", DECIDE, GOOD.replace(b"evil", b"chunks"), JSON, chunked=True)
    assert answer.status in (200, 411), answer


@pytest.mark.parametrize("text", ["1", "5", "1.0", "5.0", "1e0", "50e-1", "3"])
def test_rewards_at_the_ends_and_whole_numbers_are_taken(url, text):
    event_id = f"ends-{text}"
    assert post(url, DECIDE, {"event_id": event_id, "context": "chat"}).json()["ask"] is True
    answer = send(url, "POST", f"{DECIDE}/{event_id}/feedback", f'{{"reward": {text}}}'.encode(), JSON)
    assert answer.status == 200, answer
    assert answer.json()["reward"] == float(text)
    again = post(url, f"{DECIDE}/{event_id}/feedback", {"reward": float(text)})
    assert (again.status, again.json()) == (200, answer.json())


@pytest.mark.parametrize("text", ["0", "-0.0", "1e-400", "-1e-400", "5e-324", "1"])
def test_what_rounds_to_an_end_of_the_range_is_taken(url, text):
    event_id = f"small{text}"
    features = f'{{"event_id": "{event_id}", "features": [[{text}, 0], [0, 1]]}}'
    assert send(url, "POST", LINEAR, features.encode(), JSON).status == 200
    answer = send(url, "POST", f"{LINEAR}/{event_id}/feedback", f'{{"reward": {text}}}'.encode(), JSON)
    assert answer.status == 200, answer
    assert answer.json()["reward"] == float(text)


@pytest.mark.parametrize("amount", [0.0, 1e-6, 0.1, 123456789.123456, 1e9, 1e12, 3e12])
def test_a_budget_is_what_was_granted(url, amount):
    name = f"granted-{amount}"
    body = {"learner": {"type": "UCB1"}, "actions": ["a", "b"], "budget": {"initial": amount}}
    assert send(url, "PUT", f"/v1/agents/{name}", encoded(body), JSON).status == 201
    assert post(url, f"/v1/agents/{name}/grants", {"grant_id": "g", "amount": amount / 4}).status == 200
    assert (
        send(url, "GET", f"/v1/agents/{name}").json()["budget"]["granted"] == amount + math.floor(amount * 25e4) / 1e6
    )


@pytest.mark.parametrize("amount", [0.0, -0.0, 5e-324, 1e-9, 4e-7, 9.9e-7, 1.5e-6])
@pytest.mark.parametrize("kind", ["grant", "charge"])
def test_less_than_a_millionth_is_rounded_against_spending_or_refused(url, kind, amount):
    before = send(url, "GET", "/v1/agents/stars").json()["budget"]
    answer = post(url, f"/v1/agents/stars/{kind}s", {f"{kind}_id": f"tiny{amount}", "amount": amount})
    assert answer.status in (200, 422), answer
    after = send(url, "GET", "/v1/agents/stars").json()["budget"]
    if kind == "grant":
        assert 0 <= round(after["granted"] - before["granted"], 7) <= amount
    elif answer.status == 200:
        assert amount <= round(after["spent"] - before["spent"], 7) <= amount + 1e-6


def test_more_budget_than_can_be_counted_is_refused(url):
    """Grants beyond the largest budget: what no longer fits is refused, the others count, and the agent decides."""
    body = {"learner": {"type": "UCB1"}, "actions": ["a", "b"], "budget": {"initial": 4e12}}
    assert send(url, "PUT", "/v1/agents/rich", encoded(body), JSON).status == 201
    statuses = [post(url, "/v1/agents/rich/grants", {"grant_id": f"g{i}", "amount": 4e12}).status for i in range(5)]
    assert set(statuses) <= {200, 409, 422}
    budget = send(url, "GET", "/v1/agents/rich").json()["budget"]
    assert budget["granted"] == 4e12 * (1 + statuses.count(200))
    assert budget["left"] + budget["spent"] + budget["held"] == budget["granted"]
    assert post(url, "/v1/agents/rich/decisions", {"event_id": "rich"}).status == 200


def tour(url, name, body):
    """Use an agent a little, whatever it is; all answers, none of them a 5xx and all of them of their type."""
    base, learner = f"/v1/agents/{name}", body["learner"]
    sight = {}
    if learner["type"] == "OFUL":
        length, dim = learner.get("length", 1.0), learner["dim"]
        sight = {"features": [[length] + [0.0] * (dim - 1), [0.0] * (dim - 1) + [-length / 2]]}
    elif "contexts" in body:
        sight = {"context": body["contexts"][-1]}
    rewards = {"low": 0.0, "high": 1.0} | body.get("rewards", {})
    for number in range(4):
        answer = post(url, f"{base}/decisions", {"event_id": f"e{number}", "defer": number == 3, **sight})
        assert answer.status == 200, answer
        decision = msgspec.json.decode(answer.body, type=contract.Decision)
        budget = decision.budget
        assert 0 <= budget.left <= budget.granted
        assert math.isclose(budget.left + budget.spent + budget.held, budget.granted, rel_tol=1e-12, abs_tol=1e-6)
        reward = rewards["high"] if number % 2 else rewards["low"]
        answer = post(url, f"{base}/decisions/e{number}/feedback", {"reward": reward})
        assert answer.status == (200 if decision.ask and number < 3 else 409), answer
        assert post(url, f"{base}/decisions/e{number}/activate", {}).status in (200, 409)
    assert post(url, f"{base}/grants", {"grant_id": "g", "amount": 1e-6}).status in (200, 409, 422)
    assert post(url, f"{base}/charges", {"charge_id": "c", "amount": 1e-6}).status in (200, 409, 422)
    for path, kind in [
        ("", contract.Agent), ("/estimates", contract.Estimates), ("/history", contract.History),
        ("/decisions", contract.EventList), ("/asks?status=open", contract.EventList),
    ]:  # fmt: skip
        if path == "/estimates" and "contexts" in body:
            continue  # these need a context
        answer = send(url, "GET", base + path)
        assert answer.status == 200, (path, answer)
        msgspec.json.decode(answer.body, type=kind)
        answer.json()
    assert send(url, "GET", f"{base}/log").status == 200
    assert send(url, "GET", f"{base}/log?format=parquet").status == 200
    assert send(url, "GET", "/metrics").status == 200


@pytest.mark.parametrize("title", EXTREMES)
def test_an_extreme_agent_works_or_is_refused(url, title):
    name = "extreme-" + title.translate(str.maketrans(" ", "-", ","))
    answer = send(url, "PUT", f"/v1/agents/{name}", encoded(EXTREMES[title]), JSON)
    if answer.status == 422:
        check_problem(answer)
        return
    assert answer.status == 201, answer
    tour(url, name, EXTREMES[title])


@pytest.mark.parametrize(
    "target", ["/healthz", "/v1/agents", "/v1/agents/stars", "/v1/agents/nobody", DECIDE, "/", "/x"]
)
def test_head_has_no_body(url, target):
    get, answer = send(url, "GET", target), send(url, "HEAD", target)
    assert answer.status in (get.status, 405), answer
    assert answer.body == b""
    with connect(url) as stream:  # and nothing follows that would be taken for the next answer
        stream.sendall(head("HEAD", target, [("Host", "localhost")]))
        receive(stream, "HEAD")
        try:
            stream.sendall(head("GET", "/healthz", [("Host", "localhost")]))
            following = receive(stream, "GET")
        except OSError:  # it has hung up instead
            return
        assert (following.status, following.json()["status"]) == (200, "ok")


REFUSED = {
    "a body that is too large": (padded(LARGEST + 1), ()),
    "a body without a type": (GOOD, (("Content-Type", "text/plain"),)),
    "a stranger's host": (GOOD, (("Content-Type", "application/json"), ("Host", "evil.example"))),
    "an unknown agent": (b'{"event_id": "evil"}', (("Content-Type", "application/json"),)),
}


@pytest.mark.parametrize("title", REFUSED)
def test_the_body_of_a_refused_request_is_not_taken_for_the_next_one(url, title):
    """A request inside a body must not be executed: the rest is read to its end, or the connection is closed."""
    body, headers = REFUSED[title]
    smuggled = head("POST", "/v1/agents/quiet/decisions", [("Host", "localhost"), *JSON, ("Content-Length", "20")])
    body += smuggled + b'{"event_id": "evil"}'
    target = "/v1/agents/nobody/decisions" if title == "an unknown agent" else DECIDE
    host = () if any(name == "Host" for name, _ in headers) else (("Host", "localhost"),)
    lines = [*host, *headers, ("Content-Length", str(len(body)))]
    before = everything(url)
    with connect(url) as stream:
        try:
            stream.sendall(head("POST", target, lines) + body + head("GET", "/healthz", [("Host", "localhost")]))
            first = receive(stream, "POST")
            assert 400 <= first.status < 500
            following = receive(stream, "GET")
            assert (following.status, following.json()["status"]) == (200, "ok")
        except OSError:  # it has hung up
            pass
    assert everything(url) == before


def test_half_a_request_stores_nothing(url):
    before = everything(url)
    for length in (len(GOOD) + 1, LARGEST):
        with connect(url) as stream:
            lines = [("Host", "localhost"), *JSON, ("Content-Length", str(length))]
            stream.sendall(head("POST", DECIDE, lines) + GOOD)
    with connect(url) as stream:
        lines = [("Host", "localhost"), *JSON, ("Transfer-Encoding", "chunked")]
        stream.sendall(head("POST", DECIDE, lines) + b"%x\r\n%s\r\n" % (len(GOOD), GOOD))
    with connect(url) as stream:
        stream.sendall(b"POST /v1/agents/stars/deci")
    assert everything(url) == before
    assert send(url, "GET", "/healthz").status == 200


@pytest.mark.parametrize("rubbish", [b"\0" * 100, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500,
                                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                                     b"hello\r\n\r\n", b"\r\n" * 1000])  # fmt: skip
def test_what_is_no_http_at_all_does_no_harm(url, rubbish):
    before = everything(url)
    with connect(url) as stream:
        try:
            stream.sendall(rubbish)
            stream.shutdown(1)
            received = stream.recv(65536)
        except ConnectionResetError:
            received = b""
        assert not received.startswith(b"HTTP/1.1 5") and b" 200 " not in received.split(b"\r\n")[0]
    assert everything(url) == before


STRANGERS = {
    "nothing": (),
    "no value": (("Authorization", ""),),
    "no token": (("Authorization", "Bearer "),),
    "a wrong token": (("Authorization", "Bearer wrong"),),
    "half of it": (("Authorization", f"Bearer {TOKEN[:-1]}"),),
    "more than it": (("Authorization", f"Bearer {TOKEN}x"),),
    "in capitals": (("Authorization", f"Bearer {TOKEN.upper()}"),),
    "without the scheme": (("Authorization", TOKEN),),
    "another scheme": (("Authorization", f"Basic {TOKEN}"),),
    "a second word": (("Authorization", f"Bearer {TOKEN} x"),),
    "in quotes": (("Authorization", f'Bearer "{TOKEN}"'),),
    "right, then wrong": (*right(), ("Authorization", "Bearer wrong")),
    "wrong, then right": (("Authorization", "Bearer wrong"), *right()),
    "no text": (("Authorization", b"Bearer \xff\xfe"),),
    "a long one": (("Authorization", "Bearer " + "x" * 10_000),),
    "in another header": (("X-Authorization", f"Bearer {TOKEN}"), ("Cookie", f"token={TOKEN}")),
}


@pytest.mark.parametrize("title", STRANGERS)
def test_without_the_token_nothing_is_seen_and_nothing_stored(guarded, title):
    headers = STRANGERS[title]
    before = everything(guarded, right())
    attempts = [
        ("GET", "/v1/agents", None), ("GET", "/v1/agents/stars", None), ("GET", "/v1/agents/nobody", None),
        ("GET", f"/v1/agents?token={TOKEN}", None), ("GET", "/metrics", None), ("GET", "/v1/agents/stars/log", None),
        ("POST", DECIDE, GOOD), ("POST", DECIDE, b"{"),
        ("POST", FEEDBACK, b'{"reward": 3}'), ("PUT", "/v1/agents/evil", encoded(AGENTS["quiet"])),
        ("DELETE", "/v1/agents/stars?confirm=stars", None),
    ]  # fmt: skip
    for method, target, body in attempts:
        answer = send(guarded, method, target, body, (*(JSON if body else ()), *headers))
        assert answer.status in (
            (400, 401) if title in ("no text", "right, then wrong", "wrong, then right") else (401,)
        )
        check_problem(answer)
        assert answer.status == 400 or answer.header("www-authenticate").startswith("Bearer")
        assert TOKEN.encode() not in answer.body
    assert everything(guarded, right()) == before


def test_with_the_token_all_is_open(guarded):
    for method, target, body in [("GET", "/v1/agents", None), ("GET", "/metrics", None), ("POST", *BEFORE[0])]:
        answer = send(guarded, method, target, body and encoded(body), (*(JSON if body else ()), *right()))
        assert answer.status == 200, answer
    for target in ("/", "/docs", "/openapi.json", "/healthz", "/readyz"):
        assert send(guarded, "GET", target).status == 200
    stranger = (("Host", "evil.example"), *right())  # its page would not know the token
    assert send(guarded, "GET", "/v1/agents", headers=stranger).status == 200
