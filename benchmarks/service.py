"""How many durable decisions a second the service makes, against an application that does nothing but one insert.

Both run as processes of their own on loopback, in turns, under the same load: connections that send their next request
as soon as the last one is answered. The best second of each counts, the spread is shown. `make bench-service` runs it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar

import uvloop

FIVE_PERCENT = {"growth": {"by": "decisions", "rate": 0.05}}
AGENTS = {
    "UCB1, 10 actions": (
        {"learner": {"type": "UCB1"}, "actions": [f"a{i}" for i in range(10)], "budget": FIVE_PERCENT},
        {},
    ),
    "UCB1, asking always": (
        {"learner": {"type": "UCB1"}, "actions": ["a", "b"], "rule": {"type": "Always"}, "budget": {"initial": 1e9}},
        {},
    ),
    "OFUL, 10 actions, d = 16": (
        {"learner": {"type": "OFUL", "dim": 16, "length": 4.0}, "budget": FIVE_PERCENT},
        {"features": [[((i * 7 + j * 3) % 11) / 11 for j in range(16)] for i in range(10)]},
    ),
}  # fmt: skip


class Caller(asyncio.Protocol):
    """One connection: sends a request, waits for the answer, sends the next."""

    def __init__(self, make, left: Iterator[int], done: asyncio.Event, total: int) -> None:
        self.make, self.left, self.done, self.total = make, left, done, total
        self.buffer = b""

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.send_next()

    def send_next(self) -> None:
        number = next(self.left)
        if number < self.total:
            self.transport.write(self.make(number))
        elif number == self.total + Caller.open - 1:
            self.done.set()

    open = 0
    failed: ClassVar[list[bytes]] = []

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, mark, body = self.buffer.partition(b"\r\n\r\n")
        if not mark:
            return
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        if len(body) < length:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.failed.append(self.buffer[:300])
            self.done.set()
        self.buffer = b""
        self.send_next()


async def load(url: str, make, connections: int, total: int) -> float:
    """Requests a second for `total` requests over some connections."""
    host, port = url.removeprefix("http://").split(":")
    loop, left, done = asyncio.get_running_loop(), count(), asyncio.Event()
    Caller.open = connections
    start = time.perf_counter()
    made = [
        await loop.create_connection(lambda: Caller(make, left, done, total), host, int(port))
        for _ in range(connections)
    ]
    await asyncio.wait_for(done.wait(), 120)
    seconds = time.perf_counter() - start
    if Caller.failed:
        raise SystemExit(f"unexpected answer: {Caller.failed[0]!r}")
    for transport, _ in made:
        transport.close()
    return total / seconds


@contextmanager
def process(*command: str) -> Iterator[tuple[str, Callable[[], float]]]:
    """A server of ours: its address, and a clock of the processor time that it has used."""
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    stat, tick = Path(f"/proc/{started.pid}/stat"), os.sysconf("SC_CLK_TCK")

    def used() -> float:
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / tick

    try:
        yield started.stdout.readline().split()[-1], used
    finally:
        started.terminate()
        started.wait()


def requests(path: str, extra: dict[str, object]) -> Callable[[int], bytes]:
    """Makes the n-th request, with an event_id of its own; quickly, so that the caller does not hold up the service."""
    body = json.dumps({"event_id": "event-00000000", **extra})
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    first, _, last = f"{head}content-length: {len(body)}\r\n\r\n{body}".partition("00000000")
    return lambda n: f"{first}{n:08d}{last}".encode()


@dataclass
class Turn:
    """One turn: answers a second, and processor time of the server for each, in microseconds."""

    rate: float
    cost: float


def turn(
    url: str, used: Callable[[], float], path: str, extra: dict[str, object], connections: int, total: int
) -> Turn:
    before = used()
    rate = uvloop.run(load(url, requests(path, extra), connections, total))
    return Turn(rate, 1e6 * (used() - before) / total)


def bare(folder: Path, kind: str, connections: int, total: int) -> Turn:
    with process(sys.executable, "-m", "benchmarks.bare", str(folder)) as (url, used):
        return turn(url, used, "/rows", AGENTS[kind][1], connections, total)


def service(folder: Path, kind: str, connections: int, total: int, database: str | None) -> Turn:
    where = ["--database", database] if database else ["--data", str(folder)]
    agent, extra = AGENTS[kind]
    name = f"bench-{time.time_ns()}"
    with process(sys.executable, "-m", "sparingly.cli", "serve", *where, "--port", "0") as (url, used):
        put = urllib.request.Request(f"{url}/v1/agents/{name}", json.dumps(agent).encode(), method="PUT")
        put.add_header("content-type", "application/json")
        urllib.request.urlopen(put).read()
        done = turn(url, used, f"/v1/agents/{name}/decisions", extra, connections, total)
        told = json.loads(urllib.request.urlopen(f"{url}/v1/agents/{name}").read())
        assert told["decisions"] == total and told["budget"]["left"] >= 0, told
        return done


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--total", type=int, default=20_000, help="requests in one turn")
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--database", help="a PostgreSQL database for the service, in place of SQLite")
    chosen = options.parse_args()
    sizes = (chosen.connections, chosen.total)
    print(f"{sizes[0]} connections, {sizes[1]:,} requests a turn, best of {chosen.turns} turns (worst in brackets)")
    for kind in AGENTS:
        turns: dict[str, list[Turn]] = {"bare": [], "ours": []}
        for _ in range(chosen.turns):
            with tempfile.TemporaryDirectory() as folder:
                turns["bare"].append(bare(Path(folder), kind, *sizes))
            with tempfile.TemporaryDirectory() as folder:
                turns["ours"].append(service(Path(folder), kind, *sizes, chosen.database))
        rates = {name: [one.rate for one in made] for name, made in turns.items()}
        costs = {name: min(one.cost for one in made) for name, made in turns.items()}
        told = [
            f"{name} {max(rates[name]):7,.0f} a second ({min(rates[name]):,.0f}), {costs[name]:4.0f} µs of processor"
            for name in turns
        ]
        ratio = f"{max(rates['ours']) / max(rates['bare']):.2f} (processor time {costs['bare'] / costs['ours']:.2f})"
        print(f"{kind:26} {'   '.join(told)}   ratio {ratio}", flush=True)


if __name__ == "__main__":
    main()
