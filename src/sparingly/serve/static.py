"""Serves the web page, and the OpenAPI document as HTML. Both work offline."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any

from sparingly.serve.http import Response
from sparingly.serve.http_errors import NotFound
from sparingly.serve.request_examples import command

KINDS = {
    "html": b"text/html; charset=utf-8", "js": b"text/javascript; charset=utf-8", "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml", "png": b"image/png", "ico": b"image/x-icon",
}  # fmt: skip
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY), (b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)  # fmt: skip


class StaticFiles:
    """The files of the web page and the API docs, read once at the start."""

    def __init__(self, document: dict[str, Any]) -> None:
        folder = files("sparingly.serve") / "page"
        self._files = {
            item.name: item.read_bytes() for item in folder.iterdir() if item.name.rpartition(".")[2] in KINDS
        }
        self.document = json.dumps(document, ensure_ascii=False).encode()
        self._docs = docs(document).encode()

    def file(self, name: str) -> Response:
        """A file of the web page."""
        if name not in self._files:
            raise NotFound("the page has no such part")
        return Response(self._files[name], kind=KINDS[name.rpartition(".")[2]], headers=HEADERS)

    def docs(self) -> Response:
        """The API docs as HTML."""
        return Response(self._docs, kind=KINDS["html"], headers=HEADERS)


def docs(document: dict[str, Any]) -> str:
    """Render an OpenAPI document as plain HTML: the operations, then the types of their bodies and responses."""
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>sparingly: API</title>",
        '<meta name=viewport content="width=device-width, initial-scale=1"><link rel=icon href="data:,">',
        '<link rel=stylesheet href="/page/page.css"></head><body><main class="docs">',
        f"<h1>{html.escape(document['info']['title'])} {html.escape(document['info']['version'])}</h1>",
        f"<p>{html.escape(document['info']['description'])}</p>",
        '<p><a href="/">The page</a> · <a href="/openapi.json">This document as OpenAPI</a></p>',
        "<p>The examples are for a service on this machine. If yours has a token, add "
        "<code>-H 'authorization: Bearer TOKEN'</code>.</p><h2>Operations</h2>",
    ]
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    links = [
        f'<li><a href="#{operation["operationId"]}">{html.escape(operation["summary"])}</a></li>'
        for _, _, operation in operations
    ]
    parts += ['<ul class="contents">', *links, "</ul>"]
    parts += [_operation(path, method, operation) for path, method, operation in operations]
    parts.append("<h2>Types</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts.append(_schema(name, schema))
    return "".join([*parts, "</main></body></html>"])


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    title = f'<h3 id="{operation["operationId"]}"><code>{method.upper()} {html.escape(path)}</code></h3>'
    rows = [f"{title}<p>{html.escape(operation['summary'])}</p>"]
    if path.startswith("/v1"):
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
        rows.append(f"<pre>{html.escape(command(method.upper(), path, body))}</pre>")
    rows.append("<ul>")
    for parameter in operation.get("parameters", []):
        about = parameter.get("description", "")
        rows.append(f"<li><code>{parameter['name']}</code> ({parameter['in']}) {html.escape(about)}</li>")
    if "requestBody" in operation:
        rows.append(f"<li>takes {_link(operation['requestBody'])}</li>")
    refusals: list[str] = []
    for status, response in operation["responses"].items():
        line = f"<li>{status}: {html.escape(response['description'])} {_link(response)}</li>"
        (rows if int(status) < 400 else refusals).append(line)
    known = ", ".join(status for status in operation["responses"] if int(status) >= 400)
    rows.append(f"<li><details><summary>refusals: {known}</summary><ul>{''.join(refusals)}</ul></details></li>")
    return "".join([*rows, "</ul>"])


def _link(part: dict[str, Any]) -> str:
    links = []
    for kind, content in part.get("content", {}).items():
        name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
        links.append(f'<a href="#{name}">{name}</a>' if name else f"<code>{html.escape(kind)}</code>")
    return ", ".join(links)


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = [f'<h3 id="{name}">{name}</h3><p>{html.escape(schema.get("description", ""))}</p><ul>']
    for field, kind in schema.get("properties", {}).items():
        need = " (required)" if field in schema.get("required", []) else ""
        told = html.escape(json.dumps(kind, ensure_ascii=False).replace("#/components/schemas/", ""))
        rows.append(f"<li><code>{field}</code>{need}: <code>{told}</code></li>")
    return "".join([*rows, "</ul>"])
