"""Who may do what: scopes, agents, expiry, rotation, rates; who did what; what is erased."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import typer.main
from structlog.testing import capture_logs

from sparingly import cli
from sparingly.serve.access import SCOPES
from sparingly.serve.live_agent import LiveAgent
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import SqliteStore
from sparingly.serve.verify import verify_store
from tests.serve.inside import Inside, inside
from tests.serve.postgres import postgres

__all__ = ["postgres"]  # a fixture

OPERATOR = "the-token-of-the-operator"
DAY = 86_400_000_000
EVENT = "one/decisions/e0"
# What each operation takes: any of these scopes.
OPERATIONS: dict[tuple[str, str], tuple[str, ...]] = {
    ("GET", "/v1/me"): SCOPES,
    ("GET", "/v1/agents"): ("read",),
    ("GET", "one"): ("read", "answer", "decide", "grant"),
    ("GET", "one/decisions"): ("read",),
    ("GET", EVENT): ("read", "answer", "decide"),
    ("GET", "one/asks"): ("read", "answer"),
    ("GET", "one/log"): ("read",),
    ("GET", "one/history"): ("read",),
    ("GET", "one/estimates"): ("read",),
    ("GET", "/metrics"): ("read",),
    ("GET", "/v1/clock"): ("read",),
    ("GET", "/v1/tokens"): ("administer",),
    ("GET", "/v1/audit"): ("administer",),
    ("POST", "one/decisions"): ("decide",),
    ("POST", f"{EVENT}/activate"): ("decide",),
    ("POST", f"{EVENT}/release"): ("decide",),
    ("POST", f"{EVENT}/feedback"): ("answer",),
    ("POST", "one/grants"): ("grant",),
    ("POST", "one/charges"): ("administer",),
    ("POST", "one/pause"): ("administer",),
    ("POST", "one/resume"): ("administer",),
    ("POST", f"{EVENT}/erase"): ("administer",),
    ("PUT", "new"): ("administer",),
    ("PATCH", "one"): ("administer",),
    ("DELETE", "new"): ("administer",),
    ("POST", "/v1/tokens"): ("administer",),
    ("POST", "/v1/tokens/x/rotate"): ("administer",),
    ("DELETE", "/v1/tokens/x"): ("administer",),
    ("POST", "/v1/clock/confirm"): ("administer",),
}


class People(Inside):
    """Calls with tokens."""

    async def as_(self, token: str, method: str, path: str, body: Any = None) -> httpx.Response:
        place = path if path.startswith("/") else f"/v1/agents/{path}"
        given = {} if body is None else {"json": body}
        return await self.client.request(method, place, headers={"authorization": f"Bearer {token}"}, **given)

    async def token(self, name: str, *scopes: str, by: str = OPERATOR, **other: Any) -> str:
        answer = await self.as_(by, "POST", "/v1/tokens", {"name": name, "scopes": scopes, **other})
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]


@asynccontextmanager
async def people(store: SqliteStore, **options: Any) -> AsyncIterator[People]:
    async with inside(store, token=OPERATOR, **options) as made:
        made.client.headers["authorization"] = f"Bearer {OPERATOR}"
        yield People(made.service, made.client)


def stored(folder: Any) -> tuple[SqliteStore, list[int]]:
    now = [1_780_000_000_000_000]
    return SqliteStore(folder, lambda: now[0]), now


def test_every_operation_takes_its_scope(tmp_path):
    """All routes are in the table above: what is added to the service needs a line here."""

    async def check() -> None:
        async with people(SqliteStore(tmp_path / "data")) as made:
            await made.put("one")
            assert (await made.decide("one", "e0")).status_code == 200
            guarded = [route for route in made.service.router.routes if route.guarded]
            known = [(method, path.split("?")[0]) for method, path in OPERATIONS]
            assert len(guarded) == len(known), "a route is missing in OPERATIONS"
            tokens = {scope: await made.token(f"t-{scope}", scope) for scope in SCOPES}
            for (method, path), needed in OPERATIONS.items():
                for scope in SCOPES:
                    body = None if method in ("GET", "DELETE") else {}
                    answer = await made.as_(tokens[scope], method, path, body)
                    assert (answer.status_code == 403) == (scope not in needed), (method, path, scope, answer.text)

    asyncio.run(check())


def test_a_token_is_for_its_agents(tmp_path):
    async def check() -> None:
        async with people(SqliteStore(tmp_path / "data")) as made:
            for name in ("one", "other", "label-a", "label-b"):
                await made.put(name)
            token = await made.token("some", "read", "decide", "administer", agents=["one", "label-*"])
            listed = (await made.as_(token, "GET", "/v1/agents")).json()["agents"]
            assert [agent["name"] for agent in listed] == ["label-a", "label-b", "one"]
            for name, status in (("one", 200), ("label-b", 200), ("other", 403), ("one-more", 403)):
                assert (await made.as_(token, "GET", name + "/log")).status_code == status
            assert (await made.as_(token, "PUT", "label-new", {})).status_code == 422  # may, but it is no agent
            for method, path in (("GET", "/metrics"), ("GET", "/v1/audit"), ("POST", "/v1/tokens")):
                assert (await made.as_(token, method, path)).status_code == 403  # or it could help itself to more
            me = (await made.as_(token, "GET", "/v1/me")).json()
            assert me == {"name": "some", "scopes": ["administer", "decide", "read"], "agents": ["one", "label-*"]}

    asyncio.run(check())


def test_a_list_names_no_other_agents(tmp_path):
    """Not even as the place where the next page begins."""

    async def check() -> None:
        async with people(SqliteStore(tmp_path / "data")) as made:
            for name in ("a-1", "a-2", "b-secret", "c-1"):
                await made.put(name)
            reader = await made.token("reader", "read", agents=["a-*", "c-1"])
            pages, after = [], ""
            while after is not None:
                answer = (await made.as_(reader, "GET", f"/v1/agents?limit=1&after={after}")).json()
                pages.append(([agent["name"] for agent in answer["agents"]], answer["next"]))
                after = answer["next"]
            assert pages == [(["a-1"], "a-1"), (["a-2"], "a-2"), (["c-1"], None)]
            assert (await made.as_(reader, "GET", "/v1/agents?limit=2")).json()["next"] == "a-2"

    asyncio.run(check())


def test_expiry_rotation_and_deletion_need_no_restart(tmp_path):
    async def check() -> None:
        store, now = stored(tmp_path / "data")
        async with people(store) as made:
            first = await made.token("ci", "read", lasts=86_400)
            for _ in range(2):
                assert (await made.as_(first, "GET", "/v1/agents")).status_code == 200
            rotated = (await made.as_(OPERATOR, "POST", "/v1/tokens/ci/rotate", {"keep_old": 3_600})).json()["token"]
            for token in (first, rotated):
                assert (await made.as_(token, "GET", "/v1/agents")).status_code == 200
            now[0] += DAY // 24
            assert (await made.as_(first, "GET", "/v1/agents")).status_code == 401
            assert (await made.as_(rotated, "GET", "/v1/agents")).status_code == 200
            now[0] += DAY
            expired = await made.as_(rotated, "GET", "/v1/agents")
            assert expired.status_code == 401 and "expired" in expired.json()["detail"]
            gone = await made.token("gone", "read")
            assert (
                await made.as_(OPERATOR, "POST", "/v1/tokens", {"name": "gone", "scopes": ["read"]})
            ).status_code == 409
            await made.as_(OPERATOR, "DELETE", "/v1/tokens/gone")
            assert (await made.as_(gone, "GET", "/v1/agents")).status_code == 401
            listed = (await made.as_(OPERATOR, "GET", "/v1/tokens")).text
            assert '"ci"' in listed and "gone" not in listed and rotated not in listed
        for file in (tmp_path / "data").iterdir():
            assert not any(token.encode() in file.read_bytes() for token in (first, rotated, gone))
        async with people(SqliteStore(tmp_path / "data")) as made:  # and a restart changes nothing
            assert (await made.as_(first, "GET", "/v1/agents")).status_code == 401

    asyncio.run(check())


def test_nobody_gives_what_they_do_not_have(tmp_path):
    async def check() -> None:
        async with people(SqliteStore(tmp_path / "data")) as made:
            token = await made.token("boss", "administer", "read")
            await made.token("clerk", "read", by=token)
            beyond = await made.as_(token, "POST", "/v1/tokens", {"name": "x", "scopes": ["decide"]})
            assert beyond.status_code == 403 and "does not have" in beyond.json()["detail"]
            await made.token("decider", "decide")
            for method, path, body in (("POST", "/rotate", {}), ("DELETE", "", None)):
                assert (await made.as_(token, method, "/v1/tokens/decider" + path, body)).status_code == 403

    asyncio.run(check())


def test_nobody_gives_what_lasts_longer_or_may_be_used_more_often(tmp_path):
    """A token that expires could make one that does not, and one with a rate one without."""

    async def check() -> None:
        async with people(SqliteStore(tmp_path / "data")) as made:
            token = await made.token("boss", "administer", "read", lasts=3_600, rate=50)
            await made.token("old", "read")
            wanted = [
                ({"rate": 5}, "outlive"),
                ({"lasts": 7_200, "rate": 5}, "outlive"),
                ({"lasts": 60}, "more requests"),
            ]
            for lasting, word in wanted:
                beyond = await made.as_(token, "POST", "/v1/tokens", {"name": "x", "scopes": ["read"], **lasting})
                assert beyond.status_code == 403 and word in beyond.json()["detail"], beyond.text
            rotated = await made.as_(token, "POST", "/v1/tokens/old/rotate", {})
            assert rotated.status_code == 403 and "outlive" in rotated.json()["detail"]
            await made.token("clerk", "read", by=token, lasts=60, rate=50)
            assert (await made.as_(token, "POST", "/v1/tokens/clerk/rotate", {})).status_code == 200
            assert (await made.as_(token, "DELETE", "/v1/tokens/old")).status_code == 200  # to take away is no gift

    asyncio.run(check())


def test_retention_is_no_damage_to_other_processes(postgres):
    """What one process has erased without a record, as there were no payloads, the others must not take for damage."""

    async def check() -> None:
        url, now = postgres.url("retention"), [1_780_000_000_000_000]
        async with (
            inside(PostgresStore(url, lambda: now[0]), keep_payloads=86_400.0) as first,
            inside(PostgresStore(url, lambda: now[0])) as second,
        ):
            await first.put("one")
            assert (await second.decide("one", "e0")).status_code == 200
            now[0] += 10 * DAY
            await first.service._look_once()
            with second.service.store.reader() as read:
                assert read("SELECT erased FROM agents") == [(1,)]
            assert (await second.decide("one", "e1")).status_code == 200
            assert (await second.call("GET", "/readyz")).status_code == 200

    asyncio.run(check())


def test_who_did_what_is_in_the_log(tmp_path):
    async def check() -> None:
        async with people(SqliteStore(tmp_path / "data")) as made:
            await made.put("one", lease=0.05)
            router = await made.token("router", "decide")
            person = await made.token("ada", "answer", agents=["one"])
            await made.as_(router, "POST", "one/decisions", {"event_id": "e1"})
            await asyncio.gather(  # in one batch
                made.as_(person, "POST", "one/decisions/e1/feedback", {"reward": 1}),
                made.as_(router, "POST", "one/decisions", {"event_id": "e2", "defer": True}),
                made.as_(OPERATOR, "POST", "one/grants", {"grant_id": "g", "amount": 1}),
            )
            await asyncio.sleep(0.1)
            await made.as_(router, "POST", "one/decisions", {"event_id": "e3"})  # before it the lease of e2 ends
            lines = (await made.call("GET", "one/log")).text.splitlines()
            who = {(r["kind"], r.get("key") or r.get("event_id")): r["who"] for r in map(json.loads, lines[1:])}
            assert who == {
                ("decision", "e1"): "router", ("feedback", "e1"): "ada", ("decision", "e2"): "router",
                ("grant", "g"): "operator", ("expire", "e2"): "", ("decision", "e3"): "router",
            }  # fmt: skip
            await made.call("DELETE", "one?confirm=one")
            acts = (await made.call("GET", "/v1/audit")).json()["acts"]
            assert [(act["who"], act["what"], act["subject"]) for act in acts] == [
                ("operator", "agent made", "one"), ("operator", "token made", "router"),
                ("operator", "token made", "ada"), ("operator", "agent deleted", "one"),
            ]  # fmt: skip
            page = (await made.call("GET", f"/v1/audit?limit=2&after={acts[0]['id']}")).json()
            assert page["acts"] == acts[1:3] and page["next"] == acts[2]["id"]

    asyncio.run(check())


def test_a_rate_is_kept(tmp_path, monkeypatch):
    async def check() -> None:
        clock = [100.0]
        monkeypatch.setattr("sparingly.serve.access.time.monotonic", lambda: clock[0])
        async with people(SqliteStore(tmp_path / "data")) as made:
            token = await made.token("slow", "read", rate=2)
            statuses = [(await made.as_(token, "GET", "/v1/agents")).status_code for _ in range(3)]
            assert statuses == [200, 200, 429]
            refused = await made.as_(token, "GET", "/v1/agents")
            assert refused.headers["retry-after"] == "1" and "2 requests a second" in refused.json()["detail"]
            clock[0] += 0.5
            statuses = [(await made.as_(token, "GET", "/v1/agents")).status_code for _ in range(2)]
            assert statuses == [200, 429]
            assert (await made.as_(OPERATOR, "GET", "/v1/agents")).status_code == 200

    asyncio.run(check())


def test_a_new_token_in_the_file(tmp_path, monkeypatch):
    """The old one is refused within a second; a file that cannot be used changes nothing."""

    async def check() -> None:
        file = tmp_path / "token"
        file.write_text(OPERATOR)
        file.chmod(0o600)
        clock = [100.0]
        monkeypatch.setattr("sparingly.serve.access.time.monotonic", lambda: clock[0])
        async with people(SqliteStore(tmp_path / "data"), token_file=file) as made:
            for text, right in (("another-token-of-mine", "another-token-of-mine"), ("short", "another-token-of-mine")):
                file.write_text(text)
                clock[0] += 2.0
                assert (await made.as_(right, "GET", "/v1/agents")).status_code == 200
                assert (await made.as_(OPERATOR, "GET", "/v1/agents")).status_code == 401

    asyncio.run(check())


def test_erased_payloads_leave_a_log_that_can_be_proved(tmp_path):
    async def check() -> None:
        store, now = stored(tmp_path / "data")
        async with people(store) as made:
            await made.put("one")
            answers = [await made.decide("one", f"e{n}", payload={"secret": f"mallard{n}" * 9}) for n in range(4)]
            erased = await made.call("POST", "one/decisions/e1/erase")
            assert erased.status_code == 200 and erased.json()["payload"] is None
            assert (await made.call("POST", "one/decisions/e1/erase")).json() == erased.json()
            again = await made.decide("one", "e1", payload={"secret": "mallard1" * 9})
            assert again.json() == answers[1].json()
            other = await made.decide("one", "e1", payload={"secret": "other"})
            assert other.status_code == 409
            now[0] += 10 * DAY
            await made.decide("one", "new", payload="kept")
            made.service.keep_payloads = 86_400.0
            await made.service._look_once()
            events = (await made.call("GET", "one/decisions")).json()["events"]
            assert [event["payload"] for event in events] == ["kept", None, None, None, None]
            kinds = [line for line in (await made.call("GET", "one/log")).text.splitlines() if '"kind":"erase"' in line]
            await made.service._look_once()  # nothing more to do
            assert len(kinds) == 2 and (await made.call("GET", "one/log")).text.count('"kind":"erase"') == 2
        assert b"mallard" not in b"".join(file.read_bytes() for file in (tmp_path / "data").iterdir())

    asyncio.run(check())
    store, said = SqliteStore(tmp_path / "data"), []
    store.open_to_read()
    assert verify_store(store, said.append) == 0, said
    store.close()


def test_requests_have_ids(tmp_path, monkeypatch):
    """In the answer, and in what is logged: the caller's own, if it is one."""

    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError

    async def check() -> None:
        async with people(SqliteStore(tmp_path / "data"), log_requests=True) as made:
            await made.put("one")
            ids = [(await made.client.get("/healthz")).headers["x-request-id"] for _ in range(2)]
            assert len(set(ids)) == 2
            mine = await made.client.get("/healthz", headers={"x-request-id": "abc-1"})
            assert mine.headers["x-request-id"] == "abc-1"
            bad = await made.client.get("/healthz", headers={"x-request-id": 'a"b'})
            assert bad.headers["x-request-id"] not in ('a"b', "abc-1")
            monkeypatch.setattr(LiveAgent, "decide", fail)
            with capture_logs() as logs:
                path, head = "/v1/agents/one/decisions", {"x-request-id": "broken-7"}
                assert (await made.client.post(path, json={}, headers=head)).status_code == 500
            failed, request = (next(e for e in logs if e["event"] == what) for what in ("a command failed", "request"))
            assert failed["request_id"] == request["request_id"] == "broken-7" and request["status"] == 500
            assert request["who"] == failed["who"] == "operator" and request["path"] == path

    asyncio.run(check())


def test_every_option_has_an_environment_variable():
    command = typer.main.get_command(cli.app).commands["serve"]  # type: ignore[attr-defined]
    for option in command.params:
        if option.name != "help":
            assert option.envvar == f"SPARINGLY_{option.name.upper()}", option.name


def test_identifying_a_caller_is_quick(tmp_path):
    """It is done for every request: a few microseconds, also with a thousand tokens."""

    async def check() -> None:
        async with people(SqliteStore(tmp_path / "data")) as made:
            token = await made.token("quick", "decide")
            access = made.service.access

            class Asked:
                def header(self, name: bytes) -> bytes:
                    return f"Bearer {token}".encode()

            best = min(_seconds(lambda: access.identify(Asked(), 0)) for _ in range(5))  # type: ignore[arg-type]
            assert best < 20e-6

    asyncio.run(check())


def _seconds(call: Any) -> float:
    began = time.perf_counter()
    for _ in itertools.repeat(None, 1_000):
        call()
    return (time.perf_counter() - began) / 1_000
