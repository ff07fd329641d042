"""Metrics for Prometheus: requests and their durations, batches, and the budget of every agent."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from sparingly.ledger import UNIT
from sparingly.serve import idle, queries
from sparingly.serve.changes import CHANGED, Stored
from sparingly.serve.clock import SECOND
from sparingly.serve.connections import REFUSALS
from sparingly.serve.contract import BudgetBody
from sparingly.serve.factory import granted_by_now
from sparingly.serve.records import AgentRecord

if TYPE_CHECKING:
    from sparingly.serve.app import Service

MOST_BUDGETS = 20_000  # how budgets grow is kept of so many agents
KIND = b"text/plain; version=0.0.4; charset=utf-8"
TIMES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}  # others count as "other": labels stay few
GAUGES = {
    "granted": "Budget granted so far.",
    "spent": "Budget spent on asks.",
    "held": "Budget held by deferred asks.",
    "decisions": "Decisions made.",
    "asks": "Asks made or held.",
    "answers": "Answers taken in.",
    "open_asks": "Asks that await an answer.",
}


@dataclass(slots=True)
class Cell:
    """The requests with one set of labels: their number, their total duration, and a histogram over TIMES."""

    count: int = 0
    seconds: float = 0.0
    within: list[int] = field(default_factory=lambda: [0] * (len(TIMES) + 1))


class BudgetOnly(msgspec.Struct):
    """The part of an agent's body that says how its budget grows; the rest may be large."""

    budget: BudgetBody = BudgetBody()


class Metrics:
    """The counters of one process, and the state of all agents at the time of a scrape.

    Only one thread counts, so plain integers will do; the counters of prometheus_client take a lock each time.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._agents: Sequence[AgentRecord] = ()  # those of this scrape
        self._number = 0  # of all agents
        self._budgets: dict[int, BudgetOnly] = {}
        self._cells: dict[tuple[str, str, int], Cell] = {}
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def served(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        key = (method if method in METHODS else "other", path, status)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = Cell()
        cell.count += 1
        cell.seconds += seconds
        cell.within[bisect_left(TIMES, seconds)] += 1

    def collect(self) -> Iterator[Metric]:
        """All metrics (prometheus_client calls this on every scrape)."""
        yield from self._requests()
        writer = self.service.writer
        storage_ok = not writer.storage_error
        yield _gauge("sparingly_storage_ok", "1 unless the last batch could not be stored.", [((), storage_ok)])
        damaged = "Agents whose counters do not agree with their logs."
        yield _gauge("sparingly_damaged_agents", damaged, [((), len(writer.damaged | set(writer.broken)))])
        verified = "When all logs were last verified, in seconds since 1970; 0: not yet."
        yield _gauge("sparingly_verified_timestamp_seconds", verified, [((), self.service.watch.verified_at or 0.0)])
        yield from self._memory()
        yield _gauge("sparingly_batches", "Transactions since the start.", [((), writer.batches)])
        yield _gauge("sparingly_orders", "Commands in those transactions.", [((), writer.commands)])
        yield from self._connections()
        yield from self._forwarded()
        time = self.service.store.time
        now = time.now()
        jumps = CounterMetricFamily("sparingly_clock_jumps", "How often the clock has jumped ahead and was held.")
        jumps.add_metric((), time.jumps)
        yield jumps
        yield _gauge("sparingly_clock_ahead", "Seconds that a held clock is ahead.", [((), time.ahead / SECOND)])
        for name, about in GAUGES.items():
            values = [((record.name,), self._value(record, name, now)) for record in self._agents]
            yield _gauge(f"sparingly_agent_{name}", about, values, ["agent"])

    def _requests(self) -> Iterator[Metric]:
        counts = CounterMetricFamily(
            "sparingly_requests", "Requests by operation and status.", labels=["method", "path", "status"]
        )
        times = HistogramMetricFamily("sparingly_request_seconds", "Time until the answer left.", labels=["path"])
        paths: dict[str, Cell] = {}
        for (method, path, status), cell in self._cells.items():
            counts.add_metric([method, path, str(status)], cell.count)
            whole = paths.setdefault(path, Cell())
            whole.seconds += cell.seconds
            whole.within = [sum(pair) for pair in zip(whole.within, cell.within, strict=True)]
        for path, whole in paths.items():
            edges = [*map(str, TIMES), "+Inf"]
            buckets = list(zip(edges, itertools.accumulate(whole.within), strict=True))
            times.add_metric([path], buckets, whole.seconds)
        yield counts
        yield times

    def _connections(self) -> Iterator[Metric]:
        connections = self.service.connections
        yield _gauge("sparingly_connections", "Open connections.", [((), len(connections))])
        refused = CounterMetricFamily(
            "sparingly_refused", "Connections that were closed before a request could be answered.", labels=["reason"]
        )
        for reason in REFUSALS:
            refused.add_metric([reason], connections.refused[reason])
        yield refused

    def _forwarded(self) -> Iterator[Metric]:
        peers = self.service.peers
        alive = 1 if peers is None else len(peers.addresses)
        yield _gauge("sparingly_processes", "Processes on the same database that are known here.", [((), alive)])
        forwarded = CounterMetricFamily(
            "sparingly_forwarded", "Requests forwarded to the process in which their agent is at home.",
            labels=["outcome"],
        )  # fmt: skip
        forwarded.add_metric(["answered"], 0 if peers is None else peers.answered)
        forwarded.add_metric(["lost"], 0 if peers is None else peers.lost)
        yield forwarded

    def _memory(self) -> Iterator[Metric]:
        writer = self.service.writer
        yield _gauge("sparingly_agents", "Agents in the store.", [((), self._number)])
        live = writer.live_agents
        yield _gauge("sparingly_live_agents", "Agents in memory.", [((), len(live))])
        yield _gauge("sparingly_live_bytes", "About how much memory they take.", [((), sum(map(idle.size, live)))])
        for name, about, value in (
            ("loads", "Agents that were loaded beside the batches.", writer.loads),
            ("load_seconds", "How long that took.", writer.load_seconds),
            ("left_memory", "Agents that left memory because nobody used them.", writer.left_memory),
            ("snapshots", "Snapshots of agents that were saved.", writer.snapshots),
            ("snapshot_seconds", "How long that took.", writer.snapshot_seconds),
        ):
            counter = CounterMetricFamily(f"sparingly_{name}", about)
            counter.add_metric((), value)
            yield counter

    def read_agents(self, read: queries.Select, after: str, limit: int) -> tuple[list[AgentRecord], int]:
        """Read the state of some agents, and how many there are. Of their bodies only what is needed is kept."""
        records, number = queries.read_agent_counters(read, after, limit)
        if len(self._budgets) > MOST_BUDGETS:
            self._budgets = {}
        for record in records:
            if record.id not in self._budgets:
                self._budgets[record.id] = _budget(queries.read_body(read, record.id) or "{}")
        return records, number

    def text(self, agents: Sequence[AgentRecord], number: int) -> bytes:
        """All metrics in the text format of Prometheus, with those of these agents."""
        self._agents, self._number = agents, number
        return generate_latest(self.registry)

    def _value(self, record: AgentRecord, name: str, now: int) -> float:
        if name == "granted":
            return granted_by_now(record, self._budgets[record.id], now, record.decisions)[0] / UNIT
        value: int = getattr(record, name)
        return value / UNIT if name in ("spent", "held") else float(value)


def _budget(body: str) -> BudgetOnly:
    try:
        now = msgspec.json.decode(body, type=Stored).now if body.startswith(CHANGED) else msgspec.Raw(body.encode())
        return msgspec.json.decode(now, type=BudgetOnly)
    except msgspec.MsgspecError:  # damaged: what the counters say is shown all the same
        return BudgetOnly()


def _gauge(
    name: str, about: str, values: Iterable[tuple[Sequence[str], float]], labels: Sequence[str] = ()
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family
