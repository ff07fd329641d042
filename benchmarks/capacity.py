"""What a deployment of the service can expect, as the table of docs/deployment.md: speed, start-up, memory, disk.

    python -m benchmarks.capacity --postgres --write docs/deployment.md

fills in the table there, between its two comments; without --write it is printed. Some ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import uvloop

from benchmarks.documents import put_between
from benchmarks.service import AGENTS, FIVE_PERCENT, bare, load, requests, service
from sparingly.serve.sqlite import FILE
from sparingly.serve.writer import SNAPSHOT

BEGIN, END = "<!-- capacity: begin -->", "<!-- capacity: end -->"
TEN = "UCB1, 10 actions"
LINEAR = next(kind for kind in AGENTS if kind.startswith("OFUL"))


@dataclass
class Running:
    """A service that runs: where, and its process."""

    url: str
    process: subprocess.Popen[str]

    def call(self, method: str, path: str, body: object) -> None:
        """One call; whatever is not 2xx is an error."""
        head = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode(), head, method=method)
        urllib.request.urlopen(request).read()

    def memory(self) -> int:
        """Bytes of memory that the process uses."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    """The service on the data in a folder; stopped politely at the end, unless it has been killed."""
    command = [sys.executable, "-m", "sparingly.cli", "serve", "--data", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield Running(process.stdout.readline().split()[-1], process)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def speed(kind: str, connections: int, total: int, turns: int, database: str | None = None) -> tuple[float, float]:
    """Decisions a second of the bare application and of the service: the best of some turns each, taken in turns."""
    best = {"bare": 0.0, "ours": 0.0}
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as folder:
            best["bare"] = max(best["bare"], bare(Path(folder), kind, connections, total).rate)
        with tempfile.TemporaryDirectory() as folder:
            best["ours"] = max(best["ours"], service(Path(folder), kind, connections, total, database).rate)
    return best["bare"], best["ours"]


def seconds_to_first_decision(folder: Path, event_id: str) -> float:
    """From the start of the process to the answer of a decision of the agent that has the long log."""
    start = time.perf_counter()
    with running(folder) as service:
        service.call("POST", "/v1/agents/long/decisions", {"event_id": event_id})
        return time.perf_counter() - start


def start_ups(decisions: int) -> dict[str, float]:
    """Seconds until the first decision with a log of this length: after a clean stop, a kill, and without snapshots."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found["nothing"] = _first_ever(folder / "empty")
        data = folder / "data"
        with running(data) as service:
            service.call("PUT", "/v1/agents/long", AGENTS[TEN][0])
            _make(service, "long", decisions)
        found["clean"] = seconds_to_first_decision(data, "first-1")
        with running(data) as service:
            _make(service, "long", SNAPSHOT - 10, offset=decisions)  # as far as it goes without a snapshot
            service.process.send_signal(signal.SIGKILL)
            service.process.wait()
        found["killed"] = seconds_to_first_decision(data, "first-2")
        with closing(sqlite3.connect(data / FILE)) as database:
            database.execute("DELETE FROM snapshots")
            database.commit()
        found["whole"] = seconds_to_first_decision(data, "first-3")
    return found


def _first_ever(folder: Path) -> float:
    start = time.perf_counter()
    with running(folder) as service:
        service.call("PUT", "/v1/agents/long", AGENTS[TEN][0])
        service.call("POST", "/v1/agents/long/decisions", {"event_id": "first"})
        return time.perf_counter() - start


def _make(service: Running, agent: str, total: int, extra: dict[str, object] | None = None, offset: int = 0) -> None:
    """Let an agent make many decisions."""
    make = requests(f"/v1/agents/{agent}/decisions", extra or {})
    uvloop.run(load(service.url, lambda n: make(n + offset), 64, total))


def bytes_a_decision(kind: str, decisions: int) -> float:
    """What a decision adds to the database of SQLite, without a payload; about one in twenty is an ask."""
    body, extra = AGENTS[kind]
    with tempfile.TemporaryDirectory() as name:
        with running(Path(name)) as service:
            service.call("PUT", "/v1/agents/sized", body)
        before = (Path(name) / FILE).stat().st_size
        with running(Path(name)) as service:
            _make(service, "sized", decisions, extra)
        return ((Path(name) / FILE).stat().st_size - before) / decisions


def bytes_an_agent(kind: str, agents: int) -> float:
    """What an agent adds to the memory of a process once it has decided."""
    body, extra = AGENTS[kind]
    with tempfile.TemporaryDirectory() as name, running(Path(name)) as service:
        for number in range(agents + 50):
            if number == 50:  # the first ones fill caches
                before = service.memory()
            service.call("PUT", f"/v1/agents/agent-{number}", {**body, "budget": FIVE_PERCENT})
            service.call("POST", f"/v1/agents/agent-{number}/decisions", extra)
        return (service.memory() - before) / agents


def machine() -> str:
    """On what this was measured."""
    text = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", text)
    name = " ".join(model[1].split()) if model else platform.machine()
    return f"{os.cpu_count()} cores ({name}), Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"


def table(chosen: argparse.Namespace, database: str | None, version: str) -> str:
    """All figures, as Markdown."""
    sizes = (chosen.connections, chosen.total, chosen.turns)
    rows = ["| durable decisions a second | a bare insert | the service | ratio |", "|---|---:|---:|---:|"]
    for kind in AGENTS:
        least, ours = speed(kind, *sizes)
        rows.append(f"| SQLite, {kind} | {least:,.0f} | {ours:,.0f} | {ours / least:.2f} |")
        print(rows[-1], file=sys.stderr, flush=True)
    if database:
        ours = speed(TEN, *sizes, database)[1]
        rows.append(f"| {version}, {TEN}, one process | | {ours:,.0f} | |")
    alone = speed(TEN, 1, max(chosen.total // 10, 100), chosen.turns)[1]
    rows.append(f"| SQLite, {TEN}, one caller that waits for each answer | | {alone:,.0f} | |")
    starts = start_ups(chosen.log)
    rows += ["", "| start-up: from the start of the process to its first decision | |", "|---|---:|"]
    for key, words in {
        "nothing": "with no data",
        "clean": f"with a log of {chosen.log:,} decisions, after a clean stop",
        "killed": f"the same, killed just before a snapshot ({SNAPSHOT:,} records to live through)",
        "whole": "the same, with no snapshot at all (every record to live through)",
    }.items():
        rows.append(f"| {words} | {starts[key]:.1f} s |")
    rows += ["", "| size | |", "|---|---:|"]
    for kind in (TEN, LINEAR):
        size = bytes_a_decision(kind, chosen.total)
        rows.append(f"| database, a decision without a payload, {kind} | {size:,.0f} bytes |")
    for kind in (TEN, LINEAR):
        rows.append(f"| memory, an agent in use, {kind} | {bytes_an_agent(kind, chosen.agents) / 1024:,.0f} KiB |")
    with tempfile.TemporaryDirectory() as name, running(Path(name)) as service:
        rows.append(f"| memory, the process itself | {service.memory() / 2**20:,.0f} MiB |")
    about = (
        f"Measured on {machine()}; {chosen.connections} connections on loopback, each of which sends its next request\n"
        f"when the last one is answered; the best of {chosen.turns} turns of {chosen.total:,} requests each."
    )
    return "\n".join([*rows, "", about])


def put_into(path: Path, text: str) -> None:
    """Replace what stands between the two comments of a document."""
    put_between(path, BEGIN, END, text)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", type=Path, help="the document whose table is filled in")
    options.add_argument("--postgres", action="store_true", help="also on a PostgreSQL that the tests would start")
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--total", type=int, default=20_000, help="requests in one turn")
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--log", type=int, default=100_000, help="decisions in the log for the start-up")
    options.add_argument("--agents", type=int, default=500, help="agents for the memory of one")
    chosen = options.parse_args()
    if chosen.postgres:
        from tests.serve.postgres import server

        with server() as postgres:
            url = postgres.url("capacity")
            with psycopg.connect(url) as connection:
                version = connection.execute("SHOW server_version").fetchone()[0].split()[0]
            text = table(chosen, url, f"PostgreSQL {version}")
    else:
        text = table(chosen, None, "")
    if chosen.write:
        put_into(chosen.write, text)
    print(text)


if __name__ == "__main__":
    main()
