"""How long callers wait at half load, and what a decision costs, as the table of docs/deployment.md.

    python -m benchmarks.latency --write docs/deployment.md

Each row first finds the most decisions a second (64 connections to each process, that send as soon as they are
answered), and then sends half as many at even times: waits count from the moment at which a request was due, not from
when a connection was free. Processor time is that of the process of the service that takes most, of all of them, and of
the database. On a machine with a core for each process, the first says how many decisions a second there can be.
`--source DIR` measures another version: the `src` of a checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks.documents import put_between
from benchmarks.service import AGENTS

BEGIN, END = "<!-- latency: begin -->", "<!-- latency: end -->"
BODY = AGENTS["UCB1, 10 actions"][0]
TICK = os.sysconf("SC_CLK_TCK")
CONNECTIONS = 64
PEER, ROUTED = "`--peer`", "callers send each agent to one of them"
ROWS = [  # the store, agents, processes, and how an agent comes to live in one of these
    ("SQLite", 1, 1, ""), ("SQLite", 64, 1, ""), ("PostgreSQL", 1, 1, ""), ("PostgreSQL", 64, 1, ""),
    ("PostgreSQL", 64, 3, ""), ("PostgreSQL", 64, 3, PEER), ("PostgreSQL", 64, 3, ROUTED),
]  # fmt: skip


@dataclass
class Row:
    """What was measured of one arrangement."""

    rate: float  # decisions a second, at most
    busiest: float  # microseconds of processor time for each decision, of the process that takes most
    service: float  # microseconds of processor time for each, of all processes of the service
    database: float
    waits: list[float]  # seconds, sorted, at half load

    def wait(self, share: float) -> float:
        return 1_000 * self.waits[min(int(share * len(self.waits)), len(self.waits) - 1)]


def processor(pid: int) -> float:
    """Seconds of processor time of a process."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICK


def with_children(pid: int) -> list[int]:
    """A process and those that it has started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


@contextmanager
def services(where: list[str], count: int, source: Path | None, peers: bool) -> Iterator[tuple[list[str], list[int]]]:
    """Processes of the service on one store: their addresses and pids."""
    environment = os.environ | ({} if source is None else {"PYTHONPATH": str(source)})
    started = []
    try:
        for _ in range(count):
            port = str(free_port())
            command = [sys.executable, "-m", "sparingly.cli", "serve", *where, "--port", port]
            command += ["--peer", f"http://127.0.0.1:{port}"] if peers else []
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
            started[-1].address = started[-1].stdout.readline().split()[-1]
        if peers:
            time.sleep(3.0)  # until they know each other
        yield [one.address for one in started], [one.pid for one in started]
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def send(
    urls: list[str], agents: int, total: int, rate: float | None, mark: str, routed: bool = False
) -> tuple[float, list[float]]:
    """Send decisions over all addresses, at this rate or as fast as they are answered: seconds, and sorted waits."""
    waits: list[float] = []
    begin = time.perf_counter() + 0.05
    left = iter(range(total))

    async def caller(place: int) -> None:
        each = agents // len(urls)
        host, port = urls[place].removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for number in left:
            due = time.perf_counter() if rate is None else begin + number / rate
            await asyncio.sleep(max(due - time.perf_counter(), 0.0))
            agent = place * each + number % each if routed else number % agents
            body = json.dumps({"event_id": f"{mark}-{number}"})
            head = f"POST /v1/agents/agent-{agent}/decisions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write((head + body).encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"unexpected answer: {answer!r}")
            waits.append(time.perf_counter() - due)
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(caller(k % len(urls)) for k in range(CONNECTIONS * len(urls))))
    return time.perf_counter() - start, sorted(waits)


def measure(kind: str, agents: int, processes: int, how: str, total: int, turns: int, source: Path | None) -> Row:
    """One arrangement: the best of some turns at full speed, then half of that."""
    with ExitStack() as stack:
        where, database = ["--data", stack.enter_context(tempfile.TemporaryDirectory())], 0
        if kind == "PostgreSQL":
            from tests.serve.postgres import server

            postgres = stack.enter_context(server())
            where, database = ["--database", postgres.url("latency")], postgres.process.pid
        urls, pids = stack.enter_context(services(where, processes, source, how == PEER))
        for number in range(agents):
            put = urllib.request.Request(f"{urls[0]}/v1/agents/agent-{number}", json.dumps(BODY).encode(), method="PUT")
            put.add_header("content-type", "application/json")
            urllib.request.urlopen(put).read()
        uvloop.run(send(urls, agents, 2_000, None, "warm", how == ROUTED))
        best = Row(0.0, 0.0, 0.0, 0.0, [])
        for turn in range(turns):
            servers = with_children(database) if database else []
            before = list(map(processor, pids)), sum(map(processor, servers))
            seconds, _ = uvloop.run(send(urls, agents, total, None, f"full-{turn}", how == ROUTED))
            used = [processor(pid) - earlier for pid, earlier in zip(pids, before[0], strict=True)]
            spent = max(used), sum(used), sum(map(processor, servers)) - before[1]
            costs = [1e6 * one / total for one in spent]
            if total / seconds > best.rate:
                best = Row(total / seconds, *costs, [])
        _, best.waits = uvloop.run(send(urls, agents, total, best.rate / 2, "half", how == ROUTED))
        return best


def table(total: int, turns: int, source: Path | None, wanted: str = "") -> str:
    """All rows, as Markdown."""
    lines = [
        "| decisions of UCB1 with ten actions | at most, a second "
        "| processor time each: busiest process, all, database | p50 at half load | p99 | p99.9 |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind, agents, processes, how in ROWS:
        if wanted not in f"{kind} {agents} {processes} {how}" or (how == PEER and source is not None):
            continue
        row = measure(kind, agents, processes, how, total, turns, source)
        what = f"{kind}, {agents} agent{'s' if agents > 1 else ''}, {processes} process{'es' if processes > 1 else ''}"
        what += f", {how}" if how else ""
        costs = ", ".join(f"{one:.0f} µs" for one in (row.busiest, row.service, row.database))
        waits = " | ".join(f"{row.wait(share):.1f} ms" for share in (0.5, 0.99, 0.999))
        lines.append(f"| {what} | {row.rate:,.0f} | {costs} | {waits} |")
        print(lines[-1], file=sys.stderr, flush=True)
    load = os.getloadavg()[1]
    lines += [
        "",
        f"Measured on {os.cpu_count()} cores, which also ran the callers and the database; the load over the last\n"
        f"five minutes was {load:.1f}. {total:,} requests in each of {turns} turns, of which the best counts.",
    ]
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", type=Path, help="the document whose table is filled in")
    options.add_argument("--total", type=int, default=20_000, help="requests in a turn")
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--only", default="", help="rows whose words have this, as 'PostgreSQL 64 3'")
    options.add_argument("--source", type=Path, help="the src of another version")
    chosen = options.parse_args()
    text = table(chosen.total, chosen.turns, chosen.source, chosen.only)
    if chosen.write:
        put_between(chosen.write, BEGIN, END, text)
    print(text)


if __name__ == "__main__":
    main()
