"""Connections, and what is limited before anybody has shown a token: bytes, time, and how many there are.

uvicorn parses HTTP. Here a connection is closed that sends too much around a body, or takes too long to send a request,
and one that has waited longest makes room if there are too many. None of this is logged line by line: it is counted.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sparingly.serve.http import PROBLEM
from sparingly.serve.http_errors import BadRequest, HeadersTooLarge, HttpError

REFUSALS = ("malformed", "too_large", "too_slow", "crowded_out")  # the reasons for which connections are closed
LARGEST_BUFFER = 65_536  # bytes that are collected before they are sent
FRAMING = 8  # the most bytes around each byte of a chunked body; a chunk for each takes six
LINGER_SECONDS, LINGER_BYTES = 2.0, 1_048_576  # what is read and dropped after an answer that came before the body


@dataclass(frozen=True)
class Limits:
    """What callers may take before they have shown a token."""

    connections: int = 4_096  # half of them from one address
    head_bytes: int = 65_536  # the headers of a request; also what stands around its body, trailers included
    head_seconds: float = 10.0  # from the beginning of a request, or of the connection, to the end of the headers
    body_seconds: float = 30.0  # from the end of the headers to the end of the body
    idle_seconds: int = 5  # between an answer and the next request

    @property
    def per_peer(self) -> int:
        return max(self.connections // 2, 1)


class Connections:
    """All open connections, by peer, and those that wait for a request in the order in which they began to wait."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.refused: Counter[str] = Counter()  # by reason
        self._peers: Counter[str] = Counter()
        self._waiting: dict[HttpProtocol, None] = {}
        self._waiting_by_peer: defaultdict[str, dict[HttpProtocol, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return self._peers.total()

    def add(self, new: HttpProtocol) -> bool:
        """Take in a connection, if need be in place of one that waits; False if all others are busy."""
        if self._peers[new.peer] >= self.limits.per_peer:
            room = self._waiting_by_peer[new.peer]
        elif len(self) >= self.limits.connections:
            room = self._waiting
        else:
            room = None
        if room is not None:
            self.refused["crowded_out"] += 1
            if not room:
                return False
            oldest = next(iter(room))
            self.remove(oldest)
            oldest.transport.abort()
        self._peers[new.peer] += 1
        new.counted = True
        self.waits(new)
        return True

    def remove(self, connection: HttpProtocol) -> None:
        """Forget a connection."""
        if connection.counted:
            connection.counted = False
            self.is_busy(connection)
            self._peers[connection.peer] -= 1
            if not self._peers[connection.peer]:
                del self._peers[connection.peer]
                self._waiting_by_peer.pop(connection.peer, None)

    def waits(self, connection: HttpProtocol) -> None:
        """A connection waits for its next request."""
        self._waiting[connection] = self._waiting_by_peer[connection.peer][connection] = None

    def is_busy(self, connection: HttpProtocol) -> None:
        """A connection has sent the headers of a request."""
        self._waiting.pop(connection, None)
        self._waiting_by_peer.get(connection.peer, {}).pop(connection, None)


def peer_of(address: tuple[str, int] | None) -> str:
    """Whom a connection counts for: an IPv4 address, or a network of IPv6, of which a host may have many addresses."""
    host = address[0].partition("%")[0] if address else ""
    return str(ipaddress.ip_network((host, 64), strict=False)) if ":" in host else host


class BufferedTransport:
    """A transport that sends everything written in one turn of the event loop at once.

    uvicorn writes the headers and the body of a response separately, and a system call for each takes longer than a
    decision does. `linger` may take over when the connection is to be closed.
    """

    def __init__(self, transport: asyncio.Transport, linger: Callable[[], bool]) -> None:
        self._transport, self._loop, self._linger = transport, asyncio.get_running_loop(), linger
        self._waiting: list[bytes] = []
        self._size = 0
        self._closing = False

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        self._size += len(data)
        if self._size > LARGEST_BUFFER:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting:
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))

    def close(self) -> None:
        self._flush()
        if not self._closing:
            self._closing = True
            if not self._linger():
                self._transport.close()

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol within limits."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self.all, self.limits = connections, connections.limits
        self.peer = ""
        self.counted = False  # whether it is one of `all`
        self._begun = False  # whether a part of a request has come …
        self._in_body = False  # … and its headers are complete
        self._same_part = True  # whether all of the last data belongs to the part that had begun before
        self._around = self._body = self._body_before = 0  # bytes of this part, around a body and in it
        self._timer: asyncio.TimerHandle | None = None
        self._raw: asyncio.Transport | None = None
        self._to_drop = 0  # bytes that may still come after the answer

    # The connection.

    def connection_made(self, transport: Any) -> None:
        self._raw = transport
        super().connection_made(BufferedTransport(transport, self._linger))  # type: ignore[arg-type]  # it has all methods that uvicorn uses
        self.peer = peer_of(self.client)
        if not self.all.add(self):
            self.transport.abort()
            return
        self._start_timer(self.limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.all.remove(self)
        super().connection_lost(exc)

    def _start_timer(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(seconds, self._close, "too_slow")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self, reason: str) -> None:
        """Close the connection at once, and count why."""
        self.all.refused[reason] += 1
        self.transport.abort()

    def _linger(self) -> bool:
        """The answer came before the end of the request: let the caller read it. To close now would destroy it."""
        assert self._raw is not None
        self._stop_timer()
        if not self._begun or self._raw.is_closing() or not self._raw.can_write_eof():
            return False
        self._to_drop = LINGER_BYTES
        self._raw.write_eof()
        self._raw.resume_reading()
        self._timer = self.loop.call_later(LINGER_SECONDS, self._raw.abort)
        return True

    # The requests.

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            self._drop(len(data))
            return
        self._unset_keepalive_if_required()
        self._same_part, self._body_before = True, self._body
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.cycle.keep_alive = False  # the request is answered as any other, and what follows is not read
        except httptools.HttpParserError:
            self.all.refused["malformed"] += 1
            self._refuse(b"400 Bad Request", BadRequest("this is no request in HTTP/1.0 or 1.1: it could not be read"))
        else:
            self._check(len(data))

    def _drop(self, size: int) -> None:
        self._to_drop -= size
        if self._to_drop < 0:
            self.transport.abort()

    def _refuse(self, status: bytes, error: HttpError) -> None:
        body = error.body()
        head = b"HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, PROBLEM, len(body)) + body)
        self.transport.close()

    def _check(self, size: int) -> None:
        """Check the size of a part that is not complete yet, and see to it that it will be."""
        if not self._begun:
            return
        if self._same_part:
            self._around += size - (self._body - self._body_before)
        if self._around <= self.limits.head_bytes + FRAMING * self._body:
            self._start_timer(self.limits.body_seconds if self._in_body else self.limits.head_seconds)
        elif self._in_body or (self.cycle is not None and not self.cycle.response_complete):
            self._close("too_large")
        else:
            self.all.refused["too_large"] += 1
            error = HeadersTooLarge(f"the headers are larger than {self.limits.head_bytes:,} bytes")
            self._refuse(b"431 Request Header Fields Too Large", error)

    def _begin_part(self, begun: bool, in_body: bool) -> None:
        self._begun, self._in_body, self._same_part = begun, in_body, False
        self._around = self._body = 0
        self._stop_timer()

    def on_message_begin(self) -> None:
        self._begin_part(True, False)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:  # trailers are read, and left alone
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            raise ValueError("another version of HTTP")  # ends in `data_received` as what cannot be read
        self._begin_part(True, True)
        self.all.is_busy(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._begin_part(False, False)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.counted and not self.pipeline and not self._in_body:
            self.all.waits(self)
