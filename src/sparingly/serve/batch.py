"""Commands for agents, and the batches in which they are run: one transaction each (see writer.py)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sparingly.serve.http_errors import Damaged, NotFound
from sparingly.serve.live_agent import LiveAgent
from sparingly.serve.loading import Cold
from sparingly.serve.records import AgentRecord, DecisionRecord
from sparingly.serve.store import SWEEP

if TYPE_CHECKING:
    from sparingly.serve.writer import Writer


class Command:
    """What a caller wants from one agent. `work` does it, inside the transaction of a batch."""

    __slots__ = ("agent", "booking", "event_id", "future", "outcome", "request_id", "submitted", "who", "work")

    def __init__(
        self, agent: str, work: Callable[[Batch], Any], event_id: str | None = None,
        booking: tuple[str, str] | None = None, who: str = "", request_id: bytes = b"",
    ) -> None:  # fmt: skip
        self.request_id = request_id
        self.agent, self.work, self.event_id, self.booking, self.who = agent, work, event_id, booking, who
        self.submitted = time.monotonic()
        self.future: asyncio.Future[Any] | None = None
        self.outcome: Any = None


class MoreDue(Exception):
    """More asks of the agent are due than expire in one transaction: the command is for a later one."""


class Batch:
    """The commands of one transaction, the stored agents that they name, and the live agents that they have used."""

    def __init__(self, writer: Writer, commands: Sequence[Command], found: dict[str, AgentRecord], now: int) -> None:
        self.writer, self.commands, self.found, self.now = writer, commands, found, now
        self.live_agents: dict[str, LiveAgent] = {}
        self.who = ""  # who wants the command that is being run
        self.acts: list[tuple[int, str, str, str]] = []  # for the audit
        self._decisions: dict[int, list[DecisionRecord]] | None = None  # those that the commands name, by agent
        self._more_due: set[str] = set()
        self._cold: set[str] = set()

    def live_agent(self, name: str) -> LiveAgent:
        """The live agent of this name, up to date with the log; asks that are due have expired."""
        if name in self._more_due:
            raise MoreDue
        if name in self._cold:
            raise Cold
        if name in self.writer.broken:
            raise Damaged(name)
        if name in self.live_agents:
            live = self.live_agents[name]
            live.who = self.who
            return live
        if name not in self.found:
            raise NotFound(f"there is no agent {name}; PUT /v1/agents/{name} makes one")
        try:
            live = self.writer.live_agent(self.found[name])
        except Cold:
            self._cold.add(name)
            raise
        live.used, live.who = time.monotonic(), ""
        live.begin(self.found[name], self.now)
        if live.next_due is not None and live.next_due <= live.clock:
            due = self.writer.store.find_due(live.record.id, live.clock)
            live.sweep(due)
            live.next_due = None  # read from the store again, once this batch is written
            self.writer.next_due_unknown.add(name)
            if len(due) == SWEEP:
                self.live_agents[name] = live
                self._more_due.add(name)
                raise MoreDue
        self._look_up(name, live)
        self.live_agents[name], live.who = live, self.who
        return live

    def _look_up(self, name: str, live: LiveAgent) -> None:
        """Read what the store has under the ids that this batch mentions."""
        mine = [command for command in self.commands if command.agent == name]
        if self._decisions is None:  # of all agents at once: to a database it is one round trip instead of many
            ids: dict[int, list[str]] = {}
            for command in self.commands:
                if command.event_id is not None and command.agent in self.found:
                    ids.setdefault(self.found[command.agent].id, []).append(command.event_id)
            self._decisions = self.writer.store.find_decisions_of({a: list(set(of)) for a, of in ids.items()})
        bookings = {command.booking for command in mine if command.booking is not None}
        decisions = self._decisions.get(live.record.id, ())
        if decisions or bookings:
            live.add_found(decisions, self.writer.store.find_bookings(live.record.id, bookings))

    def note(self, what: str, subject: str) -> None:
        """Note what the one who is served has done, for the audit."""
        self.acts.append((self.now, self.who, what, subject))

    def create(self, record: AgentRecord) -> bool:
        """Create an agent; False if another process created one of this name at the same moment."""
        created = False
        while record.name not in self.found:
            created = self.writer.store.insert_agent(record)
            self.found |= self.writer.store.find_agents([record.name])
        self.live_agent(record.name)
        return created

    def delete(self, name: str) -> None:
        """Mark an agent as deleted, so that nobody finds it. Its records are removed later, a slice at a time."""
        if name not in self.found:
            raise NotFound(f"there is no agent {name}")
        record = self.found.pop(name)
        self.writer.store.mark_deleted(record.id)
        self.writer.deleted.add(record.id)
        self.writer.broken.pop(name, None)
        self.writer.forget([name])
        self.live_agents.pop(name, None)
