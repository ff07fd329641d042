"""Processes on one database: each agent is at home in one of them, and the others forward its requests there.

A process that decides about an agent has to live through everything that others have decided about it meanwhile, and
waits for their locks. So requests go where the agent is at home: a hash of its name and of the addresses of all
processes says where. Nothing rests on it. Whoever cannot be reached is passed over, and then any process decides, as
without this: the database has the locks and the last word.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from sparingly.errors import InvalidInput
from sparingly.serve.contract import DecisionBody
from sparingly.serve.http import Request, Response
from sparingly.serve.http_errors import MisdirectedRequest, Unavailable

if TYPE_CHECKING:
    from sparingly.serve.queries import Select

ADDRESS = re.compile(r"http://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})")
PREFIX = "peer "  # of the rows in `meta` that say which processes there are
FORWARDED = b"x-sparingly-forwarded"
PASSED_ON = (b"host", b"origin", b"authorization", b"content-type", b"content-encoding")  # of the request
KEPT_BACK = (b"connection", b"content-length", b"content-type", b"x-request-id")  # of the answer: they are made anew
BEAT = 1.0  # seconds between two signs of life
ALIVE = 8_000_000  # microseconds after which a process without one is taken for gone
PATIENCE = 5.0  # seconds for an answer
AVOID = 3.0  # seconds in which nothing is sent to a process that could not be reached
IDLE = 2.5  # seconds after which a connection is not used any more: the other side closes it soon
MOST_IDLE = 256  # connections that are kept for each process
CACHED = 10_000


class Lost(Exception):
    """A process could not be reached, or went away before it had answered. One that is only slow is not lost:

    to do its work elsewhere would make all of them slower.
    """

    def __init__(self, sent: bool) -> None:
        super().__init__()
        self.sent = sent  # whether it may have done what was wanted


class Connection(asyncio.Protocol):
    """A connection to another process; one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.used = 0.0
        self.closed = False
        self._got = b""
        self._waiting: asyncio.Future[Response] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # that of a stream

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.give_up()

    def give_up(self) -> None:
        """Nobody will answer any more."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Lost(sent=True))

    def data_received(self, data: bytes) -> None:
        self._got += data
        if self._waiting is not None and not self._waiting.done() and (answer := self._answer()) is not None:
            self._waiting.set_result(answer)

    async def send(self, request: bytes) -> Response:
        loop = asyncio.get_running_loop()
        self._got, self._waiting = b"", loop.create_future()
        self.transport.write(request)
        timer = loop.call_later(PATIENCE, self._time_out)  # less work than a timeout around the await
        try:
            answer = await self._waiting
        finally:
            timer.cancel()
        self.used = time.monotonic()
        return answer

    def _time_out(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(
                Unavailable(
                    f"the process in which this agent lives did not answer within {PATIENCE:g} s; the same id tells "
                    "later what became of it"
                )
            )

    def _answer(self) -> Response | None:
        """The answer, once all of it is there: our own services send its length."""
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not end:
            return None
        first, *lines = head.split(b"\r\n")
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        about = dict(headers)
        if len(body) < int(about[b"content-length"]):
            return None
        if about.get(b"connection", b"").lower() == b"close":
            self.closed = True
            self.transport.close()
        kept = tuple(pair for pair in headers if pair[0] not in KEPT_BACK)
        return Response(body, int(first.split(b" ")[1]), about[b"content-type"], kept)


class Peers:
    """The other processes on the same database, as this one knows them."""

    def __init__(self, own: str) -> None:
        self.own = check_address(own)
        self.addresses: tuple[str, ...] = (own,)  # of all that are alive
        self.database = b""  # which one it is, as its processes tell each other; empty: not known yet
        self.answered = self.lost = 0
        self._avoided: dict[str, float] = {}  # until when
        self._homes: dict[str, str] = {}  # of agents
        self._idle: dict[str, list[Connection]] = {}
        self._busy: dict[Connection, str] = {}  # that wait for an answer of this process

    def take(self, addresses: Iterable[str]) -> None:
        """Take over which processes are alive."""
        alive = tuple(sorted({self.own, *(one for one in addresses if ADDRESS.fullmatch(one))}))
        now = time.monotonic()
        gone = [one for one, until in self._avoided.items() if until <= now]
        for one in gone:
            del self._avoided[one]
        if alive != self.addresses or gone:
            self.addresses = alive
            self._homes.clear()
        for connection, address in list(self._busy.items()):
            if address not in alive:
                connection.give_up()
        for address, idle in self._idle.items():
            if address not in alive:
                self._close(idle)
            self._idle[address] = [one for one in idle if self._usable(one)]

    def home(self, agent: str) -> str:
        """The address of the process in which an agent is at home."""
        home = self._homes.get(agent)
        if home is None:
            if len(self._homes) >= CACHED:
                self._homes.clear()
            among = [one for one in self.addresses if one not in self._avoided]
            home = self._homes[agent] = max(among, key=lambda one: _score(one, agent))
        return home

    def is_home(self, agent: str) -> bool:
        """Whether this process is the one."""
        return self.home(agent) == self.own

    def concerns(self, request: Request) -> bool:
        """Whether a request is for an agent that is at home elsewhere. What only reads is answered here."""
        route = request.route
        return (
            route.path.startswith("/v1/agents/{name}")
            and (route.method != "GET" or (route.path.endswith("/estimates") and request.method == "GET"))
            and not self.is_home(request.parts[2])
        )

    async def forward(self, request: Request, target: bytes) -> Response | None:
        """The answer of the process in which the agent is at home; None if it could not be reached."""
        address = self.home(request.parts[2])
        body = await request.keep_body()
        head = [b"%b %b HTTP/1.1" % (request.method.encode(), target)]
        given = ((name, request.header(name)) for name in PASSED_ON)
        head += [b"%b: %b" % (name, value) for name, value in given if value is not None]
        head += [
            b"%b: %b" % (FORWARDED, self.database),
            b"x-request-id: %b" % request.id,
            b"content-length: %d" % len(body),
            b"",
            body,
        ]
        try:
            answer = await self._exchange(address, b"\r\n".join(head))
            if answer.status == MisdirectedRequest.status:  # it has another database, or does not know its own yet
                raise Lost(sent=False)
        except Lost as lost:
            self.lost += 1
            self._avoided[address] = time.monotonic() + AVOID
            self._homes.clear()
            self._close(self._idle.pop(address, []))
            if lost.sent and _is_new_each_time(request, body):
                raise Unavailable(
                    "the process in which this agent lives has gone, so nobody knows whether it has decided. "
                    "With an event_id of your own you can ask again"
                ) from None
            return None
        self.answered += 1
        return answer

    async def _exchange(self, address: str, request: bytes) -> Response:
        idle = self._idle.setdefault(address, [])
        connection: Connection | None = None
        while idle and connection is None:
            one = idle.pop()
            if self._usable(one):
                connection = one
            else:
                one.transport.close()
        if connection is None:
            connection = await self._connect(address)
        self._busy[connection] = address
        try:
            answer = await connection.send(request)
        except BaseException:
            connection.transport.abort()
            raise
        finally:
            del self._busy[connection]
        if not connection.closed and len(idle) < MOST_IDLE:
            idle.append(connection)
        elif not connection.closed:
            connection.transport.close()
        return answer

    async def _connect(self, address: str) -> Connection:
        found = ADDRESS.fullmatch(address)
        assert found is not None
        try:
            async with asyncio.timeout(PATIENCE):
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(Connection, found[1].strip("[]"), int(found[2]))
        except (OSError, TimeoutError):
            raise Lost(sent=False) from None
        return connection

    def _usable(self, connection: Connection) -> bool:
        return not connection.closed and connection.used > time.monotonic() - IDLE

    def _close(self, connections: Iterable[Connection]) -> None:
        for connection in connections:
            connection.transport.close()

    def close(self) -> None:
        """Close all connections."""
        for idle in self._idle.values():
            self._close(idle)
        self._idle.clear()


def check_address(address: str) -> str:
    """The address, if it is one."""
    if ADDRESS.fullmatch(address) is None:
        raise InvalidInput(f"--peer must be how others reach this process, as http://10.0.0.5:8000; not {address!r}")
    return address


def _score(address: str, agent: str) -> bytes:
    return blake2b(f"{address} {agent}".encode(), digest_size=8).digest()


def _is_new_each_time(request: Request, body: bytes) -> bool:
    """Whether a request that is sent again is another one: a decision without an id."""
    if request.route.takes is not DecisionBody:
        return False
    try:
        return msgspec.json.decode(body, type=DecisionBody).event_id is UNSET
    except msgspec.MsgspecError:
        return False


def read_peers(read: Select, after: int) -> list[str]:
    """The addresses of processes that have shown a sign of life after this time."""
    rows = read("SELECT name FROM meta WHERE value > ?", (after,))
    return [name.removeprefix(PREFIX) for (name,) in rows if name.startswith(PREFIX)]
