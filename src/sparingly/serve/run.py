"""Starts the service: reads the token, opens the store, and serves until a signal arrives."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from structlog.typing import Processor
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sparingly.agent import Agent
from sparingly.errors import InvalidInput
from sparingly.learners import OFUL, UCB1
from sparingly.serve.app import Service
from sparingly.serve.sqlite import SqliteStore
from sparingly.serve.store import Store

SHORTEST_TOKEN = 16
LARGEST_BUFFER = 65_536  # bytes that are collected before they are sent
LARGEST_HEAD = 2_097_152  # bytes until the end of the headers; may include a small body


def serve(
    data: Path | None, database: str | None, host: str, port: int, token_file: Path | None, paused: bool = False
) -> None:
    """Run the service until a signal stops it."""
    token = read_token(token_file) if token_file is not None else None
    if token is None and not is_loopback(host):
        raise InvalidInput(
            f"{host} can be reached by others: give --token-file with a token of your own, or listen on 127.0.0.1. "
            "A good token: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    log_as_json()
    store = open_store(data, database)
    warm_up()
    serve_from(store, host, port, token, paused)


def serve_from(store: Store, host: str, port: int, token: str | None = None, paused: bool = False) -> None:
    """Serve an open store until a signal stops it."""
    service = Service(store, token, paused=paused)
    try:
        listening = bind(host, port)
    except OSError as error:
        store.close()
        raise InvalidInput(f"{host}:{port} cannot be listened on: {error.strerror}; choose another --port") from None
    gc.collect()
    gc.freeze()  # what is loaded stays: scanning it again and again would take a tenth of the time
    gc.set_threshold(20_000, 20, 20)  # a batch makes thousands of objects, but hardly any cycles
    server = Server(service, listening)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.run_until_stopped())


def warm_up() -> None:
    """Load or compile the machine code before the first request arrives."""
    features = [[1.0, 0.0], [0.0, 1.0]]
    for learner, context in ((UCB1(2), None), (OFUL(2), features)):
        agent = Agent(learner, budget=10, seed=0)
        agent.observe(agent.decide(context).id, 0.5)
        agent.withdraw(agent.decide(context).id)
        agent.replay(context, 1, True)  # as when records of another process are applied
        assert agent.threshold >= 0.0  # for the estimates, like the next line
    agent.predict(features)


def open_store(data: Path | None, database: str | None) -> Store:
    """Open the store that the options name."""
    if data is not None and database is not None:
        raise InvalidInput("choose one of --data and --database")
    if database is None:
        store: Store = SqliteStore(data or Path("sparingly-data"))
    else:
        from sparingly.serve.postgres import PostgresStore

        store = PostgresStore(database)
    store.open()
    return store


def read_token(path: Path) -> str:
    """Read the token; warns if others can read the file too."""
    token = path.read_text(encoding="utf-8").strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            f"{path} must hold one token of at least {SHORTEST_TOKEN} printable ASCII characters without spaces"
        )
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        print(f"sparingly: others can read {path}; chmod 600 keeps them out", file=sys.stderr)
    return token


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket; for port 0 the system chooses a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)
    except OSError:
        listening.close()
        raise
    return listening


class BufferedTransport:
    """A transport that sends everything written in one turn of the event loop at once.

    uvicorn writes the headers and the body of a response separately, and a system call for each takes longer than a
    decision does.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._loop = transport, asyncio.get_running_loop()
        self._waiting: list[bytes] = []
        self._size = 0

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
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a BufferedTransport, which also closes connections that send endless headers."""

    head: int | None = 0  # bytes since the last complete request; None while a body is read

    def connection_made(self, transport: Any) -> None:
        super().connection_made(BufferedTransport(transport))  # type: ignore[arg-type]  # it has all methods that uvicorn uses

    def data_received(self, data: bytes) -> None:
        if self.head is not None:
            self.head += len(data)
            if self.head > LARGEST_HEAD:
                self.transport.close()
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self.head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.head = 0
        super().on_message_complete()


class Server:
    """A uvicorn server that prints its address once it accepts requests."""

    def __init__(self, service: Service, listening: socket.socket) -> None:
        self.listening = listening
        self.config = uvicorn.Config(
            service, lifespan="on", log_config=None, access_log=False, server_header=False, date_header=False,
            proxy_headers=False, timeout_graceful_shutdown=10, backlog=2048, http=HttpProtocol,
        )  # fmt: skip

    async def run_until_stopped(self) -> None:
        """Serve, and print the address as soon as requests can be answered."""
        server = uvicorn.Server(self.config)
        serving = asyncio.create_task(server.serve(sockets=[self.listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            host, port = self.listening.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            print(f"sparingly: serving on http://{shown}:{port}", flush=True)
        await serving


def log_as_json() -> None:
    """Log one JSON object per line to stderr, including the messages of uvicorn."""
    steps: list[Processor] = [
        structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]  # fmt: skip
    render = structlog.processors.JSONRenderer()
    structlog.configure(processors=[*steps, render], logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    handler = logging.StreamHandler(sys.stderr)
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, render]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=steps, processors=last))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
