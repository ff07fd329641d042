"""Verifies the store beside the service: at its start and once a day, as gently as there is other work to do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import structlog

from sparingly.serve.http_errors import Unavailable
from sparingly.serve.queries import read_agent_names, read_agents
from sparingly.serve.records import AgentRecord
from sparingly.serve.store import StorageError, Store
from sparingly.serve.verify import verify_agent
from sparingly.serve.writer import Writer

EVERY = 86_400.0  # seconds between the beginnings of two verifications
AGAIN = 60.0  # seconds until agents in which something was found are verified once more
log = structlog.get_logger("sparingly")


class Watch:
    """Tells the writer which agents are broken."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self.store, self.writer = store, writer
        self.verified_at: float | None = None  # when the last whole verification ended
        self.seconds = 0.0  # and how long it took
        self._stopped = False
        self._pool = ThreadPoolExecutor(1, "sparingly-watch")

    async def run(self) -> None:
        """Verify for as long as the service runs."""
        due = 0.0
        while True:
            whole = time.monotonic() >= due
            if whole:
                due = time.monotonic() + EVERY
            if whole or self.writer.broken:
                await asyncio.get_running_loop().run_in_executor(self._pool, self._look, whole)
            await asyncio.sleep(AGAIN)

    def stop(self) -> None:
        self._stopped = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _look(self, whole: bool) -> None:
        began = time.monotonic()
        with contextlib.suppress(StorageError, Unavailable):  # the next command will say so
            if whole and (problem := self.store.check()):
                log.error("the database is damaged: nothing is asked", reason=problem)
            with self.store.reader() as read:
                names = read_agent_names(read) if whole else sorted(self.writer.broken)
            for name in names:
                if self._stopped:
                    return
                self._verify(name)
            if whole:
                self.verified_at, self.seconds = time.time(), time.monotonic() - began

    def _verify(self, name: str) -> None:
        agent = self._read(name)
        found = None if agent is None else next(verify_agent(self.store, agent, self._is_stopped, gently=True), None)
        if self._stopped:
            return
        if found is None:
            self.writer.broken.pop(name, None)
        elif self._read(name) is not None:  # not if it was deleted meanwhile
            self.writer.note_broken(name, found)

    def _is_stopped(self) -> bool:
        return self._stopped

    def _read(self, name: str) -> AgentRecord | None:
        with self.store.reader() as read:
            return next(iter(read_agents(read, name)), None)
