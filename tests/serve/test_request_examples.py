"""The examples of the API: each is a body that the service takes, and the page /docs shows it as a command."""

from __future__ import annotations

import html
import shlex

import msgspec
import pytest

from sparingly.serve import contract
from sparingly.serve.app import Service
from sparingly.serve.openapi import document
from sparingly.serve.request_examples import BODIES, command
from sparingly.serve.routes import routes
from sparingly.serve.static import docs


def test_every_body_has_an_example():
    taken = {route.takes for route in routes(Service)} - {None, contract.NoBody}
    assert taken == set(BODIES)


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_the_service_takes_the_example(kind):
    assert msgspec.convert(BODIES[kind], kind, strict=True) is not None


def test_the_page_shows_each_operation_as_a_command():
    page = html.unescape(docs(document(routes(Service), guarded=True)))
    put = command("PUT", "/v1/agents/{name}", BODIES[contract.AgentBody])
    assert put in page and shlex.split(put)[:4] == ["curl", "-X", "PUT", "http://127.0.0.1:8000/v1/agents/router"]
    for route in routes(Service):
        assert f'href="#{route.handler.__name__}"' in page and f'id="{route.handler.__name__}"' in page
        if route.path.startswith("/v1"):
            assert command(route.method, route.path, BODIES.get(route.takes)) in page
    assert command("GET", "/v1/agents", None) == "curl http://127.0.0.1:8000/v1/agents"
