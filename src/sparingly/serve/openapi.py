"""Generates the OpenAPI document from the routes and the types of the contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sparingly.serve import contract
from sparingly.serve.http import Query, Route
from sparingly.serve.request_examples import BODIES
from sparingly.version import __version__

REFERENCE = "#/components/schemas/{name}"
PATH = {
    "name": msgspec.json.schema(contract.Name),
    "event_id": msgspec.json.schema(contract.Id),
    "file": {"type": "string"},
}
WORDS = {
    200: "Done", 201: "Created", 400: "Not JSON, or ambiguous JSON",
    401: "The token is missing or wrong", 403: "The token does not allow this", 404: "No such agent, decision or path",
    409: "The id was used with different content, or the state does not allow this", 413: "The body is too large",
    415: "The body is not application/json", 421: "The host name is not local, and the service has no token",
    422: "Well-formed, but invalid", 429: "More requests than the token allows",
    503: "The storage is in doubt: nothing is asked",
}  # fmt: skip


def document(routes: Iterable[Route], guarded: bool) -> dict[str, Any]:
    """Generate the document; `guarded` says whether the service has a token."""
    listed = list(routes)
    kinds = {kind for route in listed for kind in (route.takes, route.gives) if _is_struct(kind)} | {contract.Problem}
    ordered = sorted(kinds, key=lambda kind: str(kind.__name__))
    _, schemas = msgspec.json.schema_components(ordered, ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for route in listed:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, guarded)
    components: dict[str, Any] = {"schemas": schemas}
    if guarded:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sparingly",
            "version": __version__,
            "description": "Decide what to do, and whether to ask what it was worth, under a hard budget.",
        },
        "paths": paths,
        "components": components,
    }


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _operation(route: Route, guarded: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "responses": {str(status): _response(route, status) for status in _statuses(route, guarded)},
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": PATH[name]}
        for name in PATH
        if f"{{{name}}}" in route.path
    ] + [
        {"name": name, "in": "query", "required": False, "schema": _query_schema(spec), "description": spec.about}
        for name, spec in route.query.items()
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.takes is not None:
        content: dict[str, Any] = {"schema": {"$ref": REFERENCE.format(name=route.takes.__name__)}}
        if route.takes in BODIES:
            content["example"] = BODIES[route.takes]
        operation["requestBody"] = {
            "required": route.takes is not contract.NoBody, "content": {"application/json": content}
        }  # fmt: skip
    if guarded and route.guarded:
        operation["security"] = [{"token": []}]
    return operation


def _statuses(route: Route, guarded: bool) -> list[int]:
    statuses = {200, *route.statuses}
    if route.path.startswith("/v1"):
        statuses |= {422, 503}
    if "{" in route.path:
        statuses.add(404)
    if route.query:
        statuses.add(422)
    if route.takes is not None:
        statuses |= {400, 413, 415}
    if route.path == "/readyz":
        statuses.add(503)
    if route.guarded or not guarded:
        statuses |= {401, 403, 429} if guarded else {421}
    return sorted(statuses | {400})


def _response(route: Route, status: int) -> dict[str, Any]:
    if status >= 400 and not (route.gives is contract.Health and status == 503):
        content = {"application/problem+json": {"schema": {"$ref": REFERENCE.format(name="Problem")}}}
    elif isinstance(route.gives, tuple):
        content = {kind: {"schema": {"type": "string"}} for kind in route.gives}
    elif _is_struct(route.gives):
        content = {"application/json": {"schema": {"$ref": REFERENCE.format(name=route.gives.__name__)}}}
    else:
        content = {"application/json": {"schema": {}}}
    return {"description": WORDS[status], "content": content}


def _query_schema(spec: Query) -> dict[str, Any]:
    if spec.words:
        schema: dict[str, Any] = {"type": "string", "enum": list(spec.words)}
    elif spec.text:
        schema = {"type": "string"}
    else:
        schema = {"type": "integer", "minimum": spec.least, "maximum": spec.most}
    return schema if spec.default is None else {**schema, "default": spec.default}
