"""The OpenAPI document against the running service, by Schemathesis: no 5xx, nothing undocumented, no invalid body.

Schemathesis runs as a program of its own and loads this file for its hooks: valid requests go to agents and decisions
that exist about as often as to others, so that both kinds of answers come.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
import schemathesis

from tests.serve.hostile import JSON, encoded, post, send
from tests.serve.serving import serving

EXAMPLES = 40  # per operation, besides the cases that its schema suggests by itself
CONFIG = f"""
hooks = "tests.serve.test_openapi"
request-timeout = 30.0
continue-on-failure = true
workers = 1

[generation]
deterministic = true
max-examples = {EXAMPLES}
database = "none"

# What a schema cannot say (low < high, a context of this agent) is refused with 422.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "404", "409", "422"]
"""
# One agent for each kind of learner, with what a decision needs to fit.
AGENTS = {
    "arms": ({"learner": {"type": "MOSS"}, "actions": ["a", "b"], "budget": {"initial": 1e6}}, {}),
    "cases": (
        {"learner": {"type": "UCB1"}, "actions": ["a", "b"], "contexts": ["x", "y"], "budget": {"initial": 1e6}},
        {"context": "x"},
    ),
    "lines": (
        {"learner": {"type": "OFUL", "dim": 2}, "rule": {"type": "Always"}, "budget": {"initial": 1e6}},
        {"features": [[0.6, 0.8], [1, 0]]},
    ),
}
EVENTS = ("open", "held", "answered")
TOKEN = "correct-horse-battery-staple"
RIGHT = (("Authorization", f"Bearer {TOKEN}"),)


@pytest.fixture
def url(tmp_path):
    """A service with a token, so that the document says where it is needed, and the agents."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    with serving("--data", str(tmp_path / "data"), "--token-file", str(tmp_path / "token")) as url:
        for name, (body, sight) in AGENTS.items():
            agent = f"/v1/agents/{name}"
            assert send(url, "PUT", agent, encoded(body), JSON + RIGHT).status == 201
            for event in EVENTS:
                decision = {"event_id": event, "defer": event == "held", **sight}
                assert post(url, f"{agent}/decisions", decision, RIGHT).json()["ask"] is True
            assert post(url, f"{agent}/decisions/answered/feedback", {"reward": 1}, RIGHT).status == 200
        yield url


@schemathesis.hook
def before_call(context, case, kwargs):
    """Aim most valid cases at what exists, with bodies that fit it; which ones hangs on the case alone."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    lot = zlib.crc32(repr((case.path, case.path_parameters, case.query, case.body)).encode())
    if lot % 8 == 0:
        return
    if "file" in case.path_parameters:
        case.path_parameters["file"] = "page.css"
    elif case.method == "PUT" and isinstance(case.body, dict):
        case.body = fitting(case.body)
    elif case.method == "PATCH" and isinstance(case.body, dict):  # what stands in the document, but not of this agent
        case.path_parameters["name"], case.body = "cases", {"granted": case.body.get("granted")}
    elif "name" in case.path_parameters and case.method != "DELETE" and case.path.startswith("/v1/agents"):
        name = case.path_parameters["name"] = list(AGENTS)[lot // 8 % 3]
        if "event_id" in case.path_parameters:
            case.path_parameters["event_id"] = EVENTS[lot // 24 % 3]
        if isinstance(case.body, dict) and case.path.endswith("/decisions"):
            body = {key: value for key, value in case.body.items() if key not in ("context", "features")}
            case.body = body | AGENTS[name][1]
        elif isinstance(case.body, dict) and "reward" in case.body:
            case.body = {"reward": min(max(case.body["reward"], 0.0), 1.0)}


def fitting(body):
    """The body of an agent without what contradicts itself."""
    body = dict(body)
    if body["learner"]["type"] == "OFUL":
        for key in ("contexts", "actions", "costs"):
            body.pop(key, None)
    else:
        body["actions"] = list(dict.fromkeys(body.get("actions") or ["a"]))
        body["contexts"] = list(dict.fromkeys(body.get("contexts") or ["x"]))
        body["costs"] = [1.0] * len(body["actions"])
    body.pop("rewards", None)
    return body


def test_the_service_does_what_its_document_says(url, tmp_path):
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [
        Path(sys.executable).with_name("schemathesis"), "--config-file", config, "run", f"{url}/openapi.json",
        "--checks", "all", "--header", f"Authorization: Bearer {TOKEN}", "--no-color",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stdout + run.stderr


AGENT, EVENT = "/v1/agents/{name}", "/v1/agents/{name}/decisions/{event_id}"
# For every operation a request that must succeed: parts of the path, query and body, or what makes the body.
FINE = {
    f"PUT {AGENT}": ({"name": "new"}, {}, AGENTS["arms"][0]),
    f"PATCH {AGENT}": ({"name": "new"}, {}, {"add_actions": ["one more"], "granted": 50}),
    f"GET {AGENT}": ({"name": "cases"}, {}, None),
    "GET /v1/agents": ({}, {}, None),
    f"POST {AGENT}/pause": ({"name": "new"}, {}, {}),
    f"POST {AGENT}/resume": ({"name": "new"}, {}, {}),
    f"POST {AGENT}/decisions": ({"name": "lines"}, {}, {"payload": [1], **AGENTS["lines"][1]}),
    f"GET {AGENT}/decisions": ({"name": "lines"}, {"limit": 1}, None),
    f"GET {EVENT}": ({"name": "lines", "event_id": "answered"}, {}, None),
    f"POST {EVENT}/feedback": ({"name": "arms", "event_id": "open"}, {}, {"reward": 0.5}),
    f"POST {EVENT}/activate": ({"name": "arms", "event_id": "held"}, {}, {}),
    f"POST {EVENT}/release": ({"name": "cases", "event_id": "held"}, {}, {}),
    f"GET {AGENT}/asks": ({"name": "cases"}, {"status": "released"}, None),
    f"POST {AGENT}/grants": ({"name": "cases"}, {}, {"grant_id": "more", "amount": 2.5}),
    f"POST {AGENT}/charges": ({"name": "cases"}, {}, {"charge_id": "less", "amount": 0.5}),
    f"GET {AGENT}/estimates": ({"name": "cases"}, {"context": "x"}, None),
    f"GET {AGENT}/history": ({"name": "cases"}, {"points": 5}, None),
    f"GET {AGENT}/log": ({"name": "cases"}, {"format": "parquet"}, None),
    f"POST {EVENT}/erase": ({"name": "lines", "event_id": "open"}, {}, {}),
    "GET /v1/me": ({}, {}, None),
    "POST /v1/tokens": ({}, {}, {"name": "reader", "scopes": ["read"], "agents": ["l*"], "lasts": 60, "rate": 5}),
    "POST /v1/tokens/{name}/rotate": ({"name": "reader"}, {}, {"keep_old": 10}),
    "GET /v1/tokens": ({}, {}, None),
    "DELETE /v1/tokens/{name}": ({"name": "reader"}, {}, None),
    "GET /v1/audit": ({}, {"limit": 2}, None),
    "GET /v1/clock": ({}, {}, None),
    "POST /v1/clock/confirm": ({}, {}, lambda: {"now": datetime.now(UTC).isoformat()}),
    "GET /healthz": ({}, {}, None),
    "GET /readyz": ({}, {}, None),
    "GET /metrics": ({}, {}, None),
    "GET /docs": ({}, {}, None),
    "GET /": ({}, {}, None),
    "GET /page/{file}": ({"file": "page.css"}, {}, None),
    f"DELETE {AGENT}": ({"name": "new"}, {"confirm": "new"}, None),
}


def test_every_operation_succeeds_as_documented(url):
    """The random requests could all have been refused; these may not."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", config=schemathesis.Config.from_dict({}))
    operations = {each.ok().label: each.ok() for each in schema.get_all_operations()}
    assert operations.keys() == FINE.keys()
    for label, (parts, query, body) in FINE.items():
        given = {} if body is None else {"body": body() if callable(body) else body, "media_type": "application/json"}
        case = operations[label].Case(path_parameters=dict(parts), query=query, **given)
        response = case.call_and_validate(headers=dict(RIGHT))
        assert response.status_code in (200, 201), (label, response.content)
