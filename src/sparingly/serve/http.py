"""The little of HTTP that the service needs on top of ASGI: requests, answers, routes, and strict query parameters.

Routes are data: the same table finds the handler, checks the query, and becomes the OpenAPI document.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from sparingly.serve.contract import LARGEST_BODY, NoBody
from sparingly.serve.problems import HeadersTooLarge, Malformed, Missing, TooLarge, Unfit, WrongMethod, WrongType
from sparingly.serve.reading import read

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
T = TypeVar("T")

RECENT = 1_000  # paths that are remembered
MOST_HEADERS, LARGEST_HEADERS = 100, 32_768
JSON, PROBLEM = b"application/json", b"application/problem+json"
TOO_LARGE = f"the body is larger than {LARGEST_BODY:,} bytes"
SAFE = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


@dataclass(frozen=True)
class Query:
    """One query parameter: a whole number in a range, or one of some words, or any short text."""

    default: int | str | None = None
    least: int = 0
    most: int = 2**53
    words: tuple[str, ...] = ()
    text: bool = False
    about: str = ""

    def value(self, name: str, given: str) -> int | str:
        """What was given, or the reason why it does not fit."""
        if self.words:
            if given not in self.words:
                raise Unfit(f"{name} must be one of {', '.join(self.words)}; not {given[:80]!r}")
            return given
        if self.text:
            return given
        if not re.fullmatch(r"[0-9]{1,16}", given, flags=re.ASCII) or not self.least <= int(given) <= self.most:
            raise Unfit(f"{name} must be a whole number in {self.least} … {self.most}, not {given[:80]!r}")
        return int(given)


@dataclass(slots=True)
class Answer:
    """A status, a body and its type; `stream` in place of a body for what is long."""

    body: bytes = b""
    status: int = 200
    kind: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = SAFE
    stream: AsyncIterator[bytes] | None = None


def encoded(value: Any, status: int = 200) -> Answer:
    """A value as JSON."""
    return Answer(msgspec.json.encode(value), status)


def uncached(value: Any) -> Answer:
    """The same in answer to a POST, which nobody caches anyway: every header takes its time."""
    return Answer(msgspec.json.encode(value), headers=())


class Request:
    """One request: its parts by name, its query, and its body."""

    __slots__ = (
        "_headers", "_raw_headers", "_receive", "_repeated", "method", "parts", "path", "query_string", "route",
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
        self.parts: list[str] = []
        self.route: Route

    def header(self, name: bytes) -> bytes | None:
        """A header; None if it is missing, an error if it stands there twice."""
        if self._repeated:
            times = sum(key == name for key, _ in self._raw_headers)
            if times > 1:
                raise Malformed(f"the header {name.decode()} stands there {times} times")
        return self._headers.get(name)

    def query(self) -> dict[str, Any]:
        """The query parameters, with defaults for those that are missing."""
        values: dict[str, Any] = {name: spec.default for name, spec in self.route.query.items()}
        if not self.query_string:
            return values
        try:
            text = self.query_string.decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=20)
        except ValueError:
            raise Unfit("the query cannot be read; a=1&b=2 in percent-encoded UTF-8 was expected") from None
        seen: set[str] = set()
        for name, given in pairs:
            if name not in self.route.query:
                known = ", ".join(self.route.query) or "none"
                raise Unfit(f"there is no query parameter {name[:80]!r} here; those are: {known}")
            if name in seen:
                raise Unfit(f"the query parameter {name} stands there twice")
            seen.add(name)
            values[name] = self.route.query[name].value(name, given)
        return values

    async def body(self, kind: type[T]) -> T:
        """The body as its type; where nothing has to be said, nothing may be sent."""
        raw = await self._raw_body()
        if not raw and kind is NoBody:
            return kind()
        self._check_type()
        return read(raw, kind)

    def _check_type(self) -> None:
        kind = self.header(b"content-type")
        if kind is None:
            raise WrongType("the header content-type is missing; application/json was expected")
        if kind != JSON:
            name, _, rest = kind.decode("latin-1").lower().partition(";")
            if name.strip() != "application/json" or rest.strip() not in ("", "charset=utf-8", 'charset="utf-8"'):
                raise WrongType(f"the body must be application/json in UTF-8, not {kind.decode('latin-1')[:80]!r}")
        if (self.header(b"content-encoding") or b"identity").lower() != b"identity":
            raise WrongType("the body must not be compressed")

    async def _raw_body(self) -> bytes:
        length = (self.header(b"content-length") or b"").lstrip(b"0")
        if len(length) > 7 or (length.isdigit() and int(length) > LARGEST_BODY):
            raise TooLarge(TOO_LARGE)
        body, more = await self._chunk()
        if not more and len(body) <= LARGEST_BODY:  # as nearly always
            return body
        chunks, size = [body], len(body)
        while more and size <= LARGEST_BODY:
            chunk, more = await self._chunk()
            chunks.append(chunk)
            size += len(chunk)
        if size > LARGEST_BODY:
            raise TooLarge(TOO_LARGE)
        return b"".join(chunks)

    async def _chunk(self) -> tuple[bytes, bool]:
        """The next part of the body, and whether there are more."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Malformed("the connection was closed before the body was complete")
        return message.get("body", b""), message.get("more_body", False)


Handler = Callable[[Request], Awaitable[Answer]]


@dataclass(frozen=True)
class Route:
    """One operation: its method and path, who handles it, and what it takes and gives."""

    method: str
    path: str  # /v1/agents/{name}/decisions
    handler: Handler
    summary: str
    takes: Any = None  # the type of the body
    gives: Any = None  # the type of the answer, or a content type
    statuses: tuple[int, ...] = ()  # besides 200 and those that every operation can have
    query: dict[str, Query] = field(default_factory=dict)

    @property
    def guarded(self) -> bool:
        """Whether it needs the token, if there is one."""
        return self.path.startswith("/v1") or self.path == "/metrics"


class Router:
    """Finds the route for a method and a path; parameters may stand at the third and fifth place of a path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._table: dict[tuple[str, ...], dict[str, Route]] = {}
        self._recent: dict[bytes, tuple[list[str], dict[str, Route]]] = {}
        for route in self.routes:
            methods = self._table.setdefault(_shape(route.path.strip("/").split("/")), {})
            methods[route.method] = route

    def find(self, request: Request, raw_path: bytes) -> Route:
        """The route, with the request's parts filled in."""
        request.parts, methods = self._parts(raw_path)
        method = "GET" if request.method == "HEAD" else request.method
        if method not in methods:
            raise WrongMethod(request.method, tuple(methods) + (("HEAD",) if "GET" in methods else ()))
        request.route = methods[method]
        return request.route

    def _parts(self, raw_path: bytes) -> tuple[list[str], dict[str, Route]]:
        """The parts of a path and what can be done there; those of the last paths are remembered."""
        known = self._recent.get(raw_path)
        if known is not None:
            return known
        first, *rest = raw_path.split(b"/")
        parts = [_plain(part) for part in rest]
        methods = None if first else self._table.get(_shape(parts))  # a path begins with a stroke
        if methods is None:
            raise Missing("there is nothing at this path; /docs lists what there is")
        if len(raw_path) <= 256:
            if len(self._recent) >= RECENT:
                self._recent.clear()
            self._recent[raw_path] = parts, methods
        return parts, methods


def _shape(parts: list[str]) -> tuple[str, ...]:
    """A path with stars in place of its parameters."""
    if len(parts) > 2 and parts[0] == "v1" and parts[1] == "agents":
        return ("v1", "agents", "*", *parts[3:4], *("*" for _ in parts[4:5]), *parts[5:])
    return ("page", "*") if len(parts) == 2 and parts[0] == "page" else tuple(parts)


def _plain(part: bytes) -> str:
    """A part of a path without its percent signs; what is no text matches no name."""
    return unquote_to_bytes(part).decode("utf-8", errors="replace")
