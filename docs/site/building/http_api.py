"""The directive `http-api`: every operation and every body of the service, from its own OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from building.tables import paragraph, section, table
from sparingly.serve.request_examples import command

Json = Mapping[str, Any]
REFUSAL = "application/problem+json"
LIMITS = {
    "minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters", "maxLength": "at most {} characters",
    "minItems": "at least {} items", "maxItems": "at most {} items",
}  # fmt: skip


class HttpApi(SphinxDirective):
    """A table of all operations, a section for each, and one for each type that goes over the wire."""

    def run(self) -> list[nodes.Node]:
        from sparingly.serve.app import Service
        from sparingly.serve.openapi import document
        from sparingly.serve.routes import routes

        api = document(routes(Service), guarded=True)  # the class will do: handlers are named, not called
        operations = [
            (method.upper(), path, operation)
            for path, methods in api["paths"].items()
            for method, operation in methods.items()
        ]
        rows = [(f"[`{m} {p}`](#{_id(o)})", o["summary"]) for m, p, o in operations]
        types = section(self, "Bodies and answers", "http-types")
        types += [self._type(name, schema) for name, schema in api["components"]["schemas"].items()]
        made = section(self, "Operations", "http-operations")
        made += [self._operation(*operation) for operation in operations]
        refusals = self._refusals(operation for _, _, operation in operations)
        return [table(self, ("operation", "what it does"), rows), made, refusals, types]

    def _operation(self, method: str, path: str, operation: Json) -> nodes.section:
        made = section(self, f"{method} {path}", _id(operation), literal=True)
        made += paragraph(
            self, f"{operation['summary']}." if operation["summary"][-1] not in "?." else operation["summary"]
        )
        if "parameters" in operation:
            rows = [
                (f"`{p['name']}`", p["in"], _kind(p["schema"]), _about(p["schema"], p.get("description", "")))
                for p in operation["parameters"]
            ]
            made += table(self, ("parameter", "in", "type", ""), rows)
        if "requestBody" in operation:
            body = operation["requestBody"]
            kinds = ", ".join(_kind(content["schema"]) for content in body["content"].values())
            made += paragraph(self, f"**Body:** {kinds}{'' if body['required'] else ', or none'}.")
            example = body["content"].get("application/json", {}).get("example")
            if example is not None:
                typed = command(method, path, example)
                made += nodes.literal_block(typed, typed, language="sh")
        if "security" not in operation:
            made += paragraph(self, "Needs no token.")
        answers = operation["responses"].items()
        plain = [
            f"{status} {_content(answer['content'])}" for status, answer in answers if REFUSAL not in answer["content"]
        ]
        refusals = [f"[{status}](#http-status-{status})" for status, answer in answers if REFUSAL in answer["content"]]
        made += paragraph(self, f"**Answers:** {', '.join(plain)}. Refusals: {', '.join(refusals)}.")
        return made

    def _refusals(self, operations: Iterable[Json]) -> nodes.section:
        """What each status means: the same in all operations."""
        answers = [item for operation in operations for item in operation["responses"].items()]
        rows = sorted({(status, answer["description"]) for status, answer in answers if REFUSAL in answer["content"]})
        made = section(self, "Refusals", "http-refusals")
        made += paragraph(self, f"A refusal says why: its body is a [`Problem`](#http-type-problem), as `{REFUSAL}`.")
        made += table(self, ("status", "when"), rows)
        for row, (status, _) in zip(made.findall(lambda n: isinstance(n.parent, nodes.tbody)), rows, strict=True):
            row["ids"] = row["names"] = [f"http-status-{status}"]
            self.state.document.note_explicit_target(row)
        return made

    def _type(self, name: str, schema: Json) -> nodes.section:
        made = section(self, name, f"http-type-{name.lower()}", literal=True)
        if schema.get("description"):
            made += paragraph(self, schema["description"])
        required = set(schema.get("required", ()))
        rows = [
            (f"`{field}`", _kind(part), "needed" if field in required else _default(part), _about(part))
            for field, part in schema.get("properties", {}).items()
        ]
        if rows:
            made += table(self, ("field", "type", "default", ""), rows)
        return made


def _id(operation: Json) -> str:
    return f"http-{operation['operationId'].replace('_', '-')}"


def _kind(schema: Json) -> str:
    """The type of a value, in words, with links to the types of our own."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#http-type-{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    kind = schema.get("type", "anything")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _content(content: Json) -> str:
    """What comes back: a type of our own, or a kind of file."""
    return ", ".join(
        _kind(part["schema"]) if "$ref" in part["schema"] else f"`{kind}`" for kind, part in content.items()
    )


def _default(schema: Json) -> str:
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def _about(schema: Json, description: str = "") -> str:
    """What is said of a value, and its limits."""
    says = description or schema.get("description", "")
    limits = ", ".join(_limits(schema))
    return f"{says} {limits[:1].upper()}{limits[1:]}{'.' if limits else ''}".strip()


def _limits(schema: Json) -> Iterator[str]:
    for part in (schema, *schema.get("anyOf", ())):
        for key, words in LIMITS.items():
            if key in part:
                yield words.format(f"{part[key]:,}" if isinstance(part[key], int) else f"{part[key]:g}")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("http-api", HttpApi)
    return {"parallel_read_safe": True}
