"""A minimal HTTP layer on top of ASGI: requests, responses, routing, and strict query parameters.

Routes are data: the same table is used to find handlers, to check queries, and to generate the OpenAPI document.
"""

from __future__ import annotations

import functools
import itertools
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from sparingly.serve import json_body
from sparingly.serve.contract import LARGEST_BODY, SMALL_BODY, AgentBody, ChangeBody, DecisionBody, NoBody
from sparingly.serve.http_errors import (
    BadRequest,
    ContentTooLarge,
    HeadersTooLarge,
    MethodNotAllowed,
    NotFound,
    Unprocessable,
    UnsupportedMediaType,
)

if TYPE_CHECKING:
    from sparingly.serve.access import Caller

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
T = TypeVar("T")

CACHED_PATHS = 1_000
MOST_HEADERS, LARGEST_HEADERS = 100, 32_768
JSON, PROBLEM = b"application/json", b"application/problem+json"
SAFE = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


@dataclass(frozen=True)
class Query:
    """A query parameter: an integer in a range, one of some words, or any text."""

    default: int | str | None = None
    least: int = 0
    most: int = 2**53
    words: tuple[str, ...] = ()
    text: bool = False
    about: str = ""

    def value(self, name: str, given: str) -> int | str:
        """Check and convert what was given. Raises Unprocessable with the reason."""
        if self.words:
            if given not in self.words:
                raise Unprocessable(f"{name} must be one of {', '.join(self.words)}; not {given[:80]!r}")
            return given
        if self.text:
            return given
        if not re.fullmatch(r"[0-9]{1,16}", given, flags=re.ASCII) or not self.least <= int(given) <= self.most:
            raise Unprocessable(f"{name} must be a whole number in {self.least} … {self.most}, not {given[:80]!r}")
        return int(given)


@dataclass(slots=True)
class Response:
    """A response: status, content type (`kind`), and a body, or a `stream` for long ones."""

    body: bytes = b""
    status: int = 200
    kind: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = SAFE
    stream: AsyncIterator[bytes] | None = None


def json_response(value: Any, status: int = 200) -> Response:
    """A response with this value as JSON."""
    return Response(msgspec.json.encode(value), status)


def bare_json_response(value: Any) -> Response:
    """The same for a POST, without the headers against caching: POST responses are not cached, and this is faster."""
    return Response(msgspec.json.encode(value), headers=())


class Request:
    """A request: the parts of its path, its headers, its query and its body."""

    __slots__ = (
        "_headers",
        "_kept",
        "_raw_headers",
        "_receive",
        "_repeated",
        "caller",
        "id",
        "method",
        "parts",
        "path",
        "query_string",
        "route",
        "unread",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: bytes = scope["query_string"]
        self._raw_headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._headers = dict(self._raw_headers)
        self._repeated = len(self._headers) < len(self._raw_headers)
        values = (value for _, value in self._raw_headers) if self._repeated else self._headers.values()
        if len(self._raw_headers) > MOST_HEADERS or sum(map(len, values)) > LARGEST_HEADERS:
            raise HeadersTooLarge(f"at most {MOST_HEADERS} headers of {LARGEST_HEADERS:,} bytes in all are read")
        self._receive = receive
        length = self._headers.get(b"content-length", b"0")
        self.unread = length != b"0" or b"transfer-encoding" in self._headers  # whether a body is still to be read
        self._kept: bytes | None = None
        self.parts: list[str] = []
        self.id = request_id(scope)
        self.caller: Caller  # who sends it, as `access` has found out
        self.route: Route

    def header(self, name: bytes) -> bytes | None:
        """The value of a header, or None. Raises BadRequest if the header is repeated."""
        if self._repeated:
            times = sum(key == name for key, _ in self._raw_headers)
            if times > 1:
                raise BadRequest(f"the header {name.decode()} was sent {times} times")
        return self._headers.get(name)

    def query(self) -> dict[str, Any]:
        """All query parameters, with the defaults for those that are missing."""
        values: dict[str, Any] = {name: spec.default for name, spec in self.route.query.items()}
        if not self.query_string:
            return values
        try:
            text = self.query_string.decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=20)
        except ValueError:
            raise Unprocessable("the query cannot be read; a=1&b=2 in percent-encoded UTF-8 was expected") from None
        seen: set[str] = set()
        for name, given in pairs:
            if name not in self.route.query:
                known = ", ".join(self.route.query) or "none"
                raise Unprocessable(f"there is no query parameter {name[:80]!r} here; those are: {known}")
            if name in seen:
                raise Unprocessable(f"the query parameter {name} was given twice")
            seen.add(name)
            values[name] = self.route.query[name].value(name, given)
        return values

    async def body(self, kind: type[T]) -> T:
        """Decode the body as this type. For `NoBody`, an empty body is accepted too."""
        raw = await self._raw_body()
        if not raw and kind is NoBody:
            return kind()
        self._check_type()
        return json_body.decode(raw, kind)

    def _check_type(self) -> None:
        kind = self.header(b"content-type")
        if kind is None:
            raise UnsupportedMediaType("the header content-type is missing; application/json was expected")
        if kind != JSON:
            name, _, rest = kind.decode("latin-1").lower().partition(";")
            if name.strip() != "application/json" or rest.strip() not in ("", "charset=utf-8", 'charset="utf-8"'):
                raise UnsupportedMediaType(
                    f"the body must be application/json in UTF-8, not {kind.decode('latin-1')[:80]!r}"
                )
        if (self.header(b"content-encoding") or b"identity").lower() != b"identity":
            raise UnsupportedMediaType("the body must not be compressed")

    async def keep_body(self) -> bytes:
        """The body as it came; it can be decoded afterwards."""
        self._kept = await self._raw_body()
        return self._kept

    async def _raw_body(self) -> bytes:
        if self._kept is not None:
            return self._kept
        length, largest = (self.header(b"content-length") or b"").lstrip(b"0"), self.route.largest
        if len(length) > 7 or (length.isdigit() and int(length) > largest):
            raise self._too_large()
        body, more = await self._chunk()
        if not more and len(body) <= largest:  # the usual case
            return body
        chunks, size = [body], len(body)
        while more and size <= largest:
            chunk, more = await self._chunk()
            chunks.append(chunk)
            size += len(chunk)
        if size > largest:
            raise self._too_large()
        return b"".join(chunks)

    def _too_large(self) -> ContentTooLarge:
        return ContentTooLarge(f"the body is larger than {self.route.largest:,} bytes")

    async def _chunk(self) -> tuple[bytes, bool]:
        """The next chunk of the body, and whether more will follow."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise BadRequest("the connection was closed before the body was complete")
        self.unread = message.get("more_body", False)
        return message.get("body", b""), self.unread


REQUEST_ID = re.compile(rb"[A-Za-z0-9._:~@-]{1,128}")
_process, _count = secrets.token_hex(4), itertools.count(1)


def request_id(scope: Scope) -> bytes:
    """What a request is called in the log and in its answer: the caller's own name for it, or one of ours."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
            return bytes(value)
    return f"{_process}-{next(_count):x}".encode()


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Route:
    """An operation: its method and path, its handler, and the types of its body and response."""

    method: str
    path: str  # /v1/agents/{name}/decisions
    handler: Handler
    summary: str
    takes: Any = None  # type of the request body
    gives: Any = None  # type of the response body, or content types
    statuses: tuple[int, ...] = ()  # in addition to 200 and the common ones
    query: dict[str, Query] = field(default_factory=dict)

    @property
    def guarded(self) -> bool:
        """Whether the operation needs the token, if the service has one."""
        return self.path.startswith("/v1") or self.path == "/metrics"

    @functools.cached_property
    def largest(self) -> int:
        """The most bytes that the body of a request may have."""
        return LARGEST_BODY if self.takes in (AgentBody, ChangeBody, DecisionBody) else SMALL_BODY


class Router:
    """Finds the route for a method and a path. The third and the fifth part of a path may be parameters."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._table: dict[tuple[str, ...], dict[str, Route]] = {}
        self._recent: dict[bytes, tuple[list[str], dict[str, Route]]] = {}
        for route in self.routes:
            methods = self._table.setdefault(_shape(route.path.strip("/").split("/")), {})
            methods[route.method] = route

    def find(self, request: Request, raw_path: bytes) -> Route:
        """Find the route of a request, and set `request.parts`."""
        request.parts, methods = self._parts(raw_path)
        method = "GET" if request.method == "HEAD" else request.method
        if method not in methods:
            raise MethodNotAllowed(request.method, tuple(methods) + (("HEAD",) if "GET" in methods else ()))
        request.route = methods[method]
        return request.route

    def _parts(self, raw_path: bytes) -> tuple[list[str], dict[str, Route]]:
        """The decoded parts of a path, and the routes there by method; recent paths are cached."""
        known = self._recent.get(raw_path)
        if known is not None:
            return known
        first, *rest = raw_path.split(b"/")
        parts = [_decoded(part) for part in rest]
        methods = None if first else self._table.get(_shape(parts))  # paths start with a slash
        if methods is None:
            raise NotFound("there is nothing at this path; /docs lists what there is")
        if len(raw_path) <= 256:
            if len(self._recent) >= CACHED_PATHS:
                self._recent.clear()
            self._recent[raw_path] = parts, methods
        return parts, methods


def _shape(parts: list[str]) -> tuple[str, ...]:
    """The parts of a path, with * for parameters."""
    if len(parts) > 2 and parts[0] == "v1" and parts[1] in ("agents", "tokens"):
        return ("v1", parts[1], "*", *parts[3:4], *("*" for _ in parts[4:5]), *parts[5:])
    return ("page", "*") if len(parts) == 2 and parts[0] == "page" else tuple(parts)


def _decoded(part: bytes) -> str:
    """Percent-decode a part of a path. Bytes that are not UTF-8 become a character that no name has."""
    return unquote_to_bytes(part).decode("utf-8", errors="replace")
