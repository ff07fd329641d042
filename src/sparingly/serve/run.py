"""Starts the service: reads the token, opens the store, and serves until a signal arrives."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import gc
import ipaddress
import logging
import resource
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from structlog.typing import Processor

from sparingly.agent import Agent
from sparingly.errors import InvalidInput
from sparingly.learners import OFUL, UCB1
from sparingly.serve.app import Service
from sparingly.serve.connections import Connections, HttpProtocol, Limits
from sparingly.serve.peers import check_address
from sparingly.serve.sqlite import SqliteStore
from sparingly.serve.store import Store

SHORTEST_TOKEN = 16
SPARE_DESCRIPTORS = 128  # for files, the database and what else is not a connection of a caller


def serve(
    data: Path | None, database: str | None, host: str, port: int, token_file: Path | None, paused: bool = False,
    keep_payloads: float | None = None, log_requests: bool = False, peer: str | None = None,
) -> None:  # fmt: skip
    """Run the service until a signal stops it."""
    token = read_token(token_file) if token_file is not None else None
    if token is None and not is_loopback(host):
        raise InvalidInput(
            f"{host} can be reached by others: give --token-file with a token of your own, or listen on 127.0.0.1. "
            "A good token: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    if peer is not None:
        check_address(peer)
        if database is None:
            raise InvalidInput("--peer is for processes on one --database; with --data there is only one process")
    log_as_json()
    store = open_store(data, database, accept_older=paused)
    warm_up()
    seconds = None if keep_payloads is None else keep_payloads * 86_400.0
    options: dict[str, Any] = {
        "peer": peer,
        "paused": paused,
        "token_file": token_file,
        "keep_payloads": seconds,
        "log_requests": log_requests,
    }
    serve_from(store, host, port, token, **options)


def serve_from(store: Store, host: str, port: int, token: str | None = None, **options: Any) -> None:
    """Serve an open store until a signal stops it; the options are those of `Service`."""
    service = Service(store, token, connections=Connections(possible_limits(Limits())), **options)
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


def open_store(data: Path | None, database: str | None, accept_older: bool = False) -> Store:
    """Open the store that the options name."""
    store = make_store(data, database)
    store.accept_older = accept_older
    store.open()
    return store


def make_store(data: Path | None, database: str | None) -> Store:
    """The store that the options name, not open yet."""
    if data is not None and database is not None:
        raise InvalidInput("choose one of --data and --database")
    if database is None:
        return SqliteStore(data or Path("sparingly-data"))
    from sparingly.serve.postgres import PostgresStore

    return PostgresStore(database)


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


def possible_limits(limits: Limits) -> Limits:
    """As many connections as the system allows, leaving some descriptors for other files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + SPARE_DESCRIPTORS
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return dataclasses.replace(limits, connections=max(min(limits.connections, soft - SPARE_DESCRIPTORS), 2))


class Server:
    """A uvicorn server that prints its address once it accepts requests."""

    def __init__(self, service: Service, listening: socket.socket) -> None:
        self.listening = listening
        protocol: Any = functools.partial(HttpProtocol, service.connections)
        self.config = uvicorn.Config(
            service, lifespan="on", log_config=None, access_log=False, server_header=False, date_header=False,
            proxy_headers=False, timeout_graceful_shutdown=10, backlog=2048, http=protocol, ws="none",
            timeout_keep_alive=service.connections.limits.idle_seconds,
        )  # fmt: skip

        self._server = uvicorn.Server(self.config)

    def stop(self) -> None:
        """Let `run_until_stopped` come to its end, as a signal does."""
        self._server.should_exit = True

    async def run_until_stopped(self) -> None:
        """Serve, and print the address as soon as requests can be answered."""
        server = self._server
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
