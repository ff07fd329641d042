"""The single writer of a process: collects commands into batches, and commits each batch in one transaction.

Callers submit *commands* and wait. While one batch is being committed, the next one fills up, so that a single disk
sync serves every command in it (group commit). A response is sent only after its batch is durable. If a commit fails or
its outcome is unknown, nobody is told to ask, and the live agents of that batch are rebuilt from the store.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from typing import Any

import structlog

from sparingly.errors import SparinglyError
from sparingly.serve import idle
from sparingly.serve.batch import Batch, Command, MoreDue
from sparingly.serve.http_errors import Damaged, HttpError, InternalError, Unavailable, Unreadable
from sparingly.serve.live_agent import LiveAgent
from sparingly.serve.loading import INLINE, Cold, check_cost, load, open_agent, weight
from sparingly.serve.records import AgentRecord
from sparingly.serve.store import StorageError, Store

BATCH = 256  # the most commands in one transaction
QUEUE = 10_000  # the most commands that may wait
TIMEOUT = 5.0  # seconds that a caller waits at most
SNAPSHOT = 5_000  # log records between two snapshots
SNAPSHOT_UNITS = 100_000  # the most that has to be applied again after a crash (see loading.py): some two seconds
SNAPSHOTS, SNAPSHOT_BYTES = 100, 8_000_000  # the most snapshots in one transaction, and about the most bytes
LOOK = 5.0  # seconds between two looks for agents that may leave memory, at the most
STOP = 10.0  # seconds in which snapshots are saved at the end; what is not saved by then is made from the log again
log = structlog.get_logger("sparingly")


class Writer:
    """All live agents of this process, and the queue of commands for them."""

    def __init__(self, store: Store, timeout: float = TIMEOUT) -> None:
        self.store, self.timeout = store, timeout
        self.storage_error = ""  # what is wrong with the storage at the moment; empty if nothing is
        self.batches = self.commands = 0  # how many were processed
        self.next_due_unknown: set[str] = set()  # agents whose next_due must be read from the store
        self.damaged: set[str] = set()  # agents whose counters do not agree with their logs
        self.idle_seconds, self.largest = idle.IDLE, idle.LARGEST  # when agents leave memory
        self.loads = self.left_memory = self.snapshots = 0  # how many agents were loaded beside the batches, and so on
        self.load_seconds = self.snapshot_seconds = 0.0
        self._look_for_idle = 0.0
        self._leaving: list[LiveAgent] = []
        self.broken: dict[str, str] = {}  # agents whose logs are damaged, and how
        self.deleted: set[int] = set()  # deleted agents that still have records in the store
        self._to_snapshot: list[LiveAgent] = []
        self._live_agents: dict[str, LiveAgent] = {}
        self._due_elsewhere: dict[str, int] = {}  # when asks are due of agents that are not live here
        self._queue: deque[Command] = deque()
        self._loading: dict[str, list[Command]] = {}  # the commands of agents that are being loaded
        self._load_here: set[str] = set()  # agents that could not be loaded: the next batch tries, and says why
        self._load_tasks: set[asyncio.Task[None]] = set()
        self._loaders = ThreadPoolExecutor(2, "sparingly-loader")
        self._in_progress: Sequence[Command] = ()
        self._wake = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, "sparingly-store")
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False

    async def start(self) -> None:
        """Start processing commands."""
        self._tasks = [asyncio.create_task(self._process()), asyncio.create_task(self._maintain())]

    async def stop(self) -> None:
        """Process what is in the queue, save snapshots, and stop."""
        self._stopped = True
        self._wake.set()
        # Cancelling a batch could leave it between its statements and its commit, so it gets time to finish.
        await asyncio.wait(self._tasks[:1], timeout=self.timeout)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._load_tasks, return_exceptions=True)
        self._loaders.shutdown()
        for command in self._queue:
            if command.future is not None and not command.future.done():
                command.future.set_exception(Unavailable("the service is stopping"))
        await asyncio.get_running_loop().run_in_executor(self._pool, self._save_all)
        self._pool.shutdown()

    async def pause_all(self) -> None:
        """Pause every agent, before any command is taken. No agent is loaded: that could take long."""
        await asyncio.get_running_loop().run_in_executor(self._pool, self.store.pause_all)

    async def submit(self, command: Command) -> Any:
        """Wait until a command is done and durable; returns its result, or raises its HttpError."""
        if self._stopped:
            raise Unavailable("the service is stopping")
        if len(self._queue) >= QUEUE:
            raise Unavailable(f"{QUEUE:,} requests are waiting already; try again later")
        command.future = asyncio.get_running_loop().create_future()
        self._queue.append(command)
        self._wake.set()
        return await command.future

    async def _process(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopped or self._queue:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._let_queue_fill()
                commands = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]
                commands = [command for command in commands if command.future is not None and not command.future.done()]
                if not commands:
                    continue
                self._in_progress = commands
                if self.store.inline:
                    if self._prepare(commands):
                        await loop.run_in_executor(self._pool, self._commit, commands)
                else:
                    await loop.run_in_executor(self._pool, self._prepare_and_commit, commands)
                self._in_progress = ()
                self.batches, self.commands = self.batches + 1, self.commands + len(commands)
                for command in commands:
                    if isinstance(command.outcome, Cold):
                        self._wait_for_loading(command)
                self._queue.extendleft(command for command in reversed(commands) if not _resolve(command))

    async def _let_queue_fill(self) -> None:
        """Let requests that have already arrived join the batch: a transaction costs the same for one as for many."""
        waiting = 0
        while waiting < len(self._queue) < BATCH:
            waiting = len(self._queue)
            await asyncio.sleep(0)

    def _prepare_and_commit(self, commands: Sequence[Command]) -> None:
        if self._prepare(commands):
            self._commit(commands)

    def _prepare(self, commands: Sequence[Command]) -> bool:
        """Run a batch up to its commit. False if it was rolled back; every command then has its outcome already."""
        names = sorted({command.agent for command in commands if command.agent})
        try:
            found, now = self.store.begin(names)
            self.forget([name for name in names if name not in found])  # another process may have deleted them
            batch = Batch(self, commands, found, now)
            for command in sorted(commands, key=attrgetter("agent")):  # agents are created in one order everywhere
                batch.who = command.who
                try:
                    command.outcome = command.work(batch)
                except (HttpError, MoreDue, Cold) as error:
                    command.outcome = error
            self._write(batch)
            return True
        except StorageError as error:
            self._fail(names, commands, error)
        except Exception as error:
            self._run_one_by_one(names, commands, error)
        return False

    def _write(self, batch: Batch) -> None:
        self.store.write([changes for live in batch.live_agents.values() if (changes := live.changes()) is not None])
        for name, live in batch.live_agents.items():
            if name in self.next_due_unknown:
                self.next_due_unknown.discard(name)
                live.next_due = self.store.next_due(live.record.id)
        if self.store.time.save_due:
            self.store.save_time()
        if batch.acts:
            self.store.note(batch.acts)
        self._to_snapshot = [
            live for live in batch.live_agents.values() if live.applied - live.snapshot_seq >= records_between(live)
        ]  # fmt: skip
        self._to_snapshot += self._leaving
        self._leaving = []

    def _commit(self, commands: Sequence[Command]) -> None:
        """Make a batch durable."""
        try:
            self.store.commit()
            if self.storage_error:
                log.info("storage is back", store=self.store.name)
            self.storage_error = ""
            self._save_snapshots(self._to_snapshot)
        except Exception as error:  # of any kind: the batch may or may not be stored
            failure = error if isinstance(error, StorageError) else StorageError(f"{self.store.name}: {error!r}")
            self._fail(sorted({command.agent for command in commands if command.agent}), commands, failure)

    def _fail(self, names: Sequence[str], commands: Sequence[Command], error: StorageError) -> None:
        """Treat a whole batch as not stored."""
        self._roll_back(names)
        if str(error) != self.storage_error:
            log.error("storage is in doubt: nothing is asked", reason=str(error))
        self.storage_error = str(error)
        for command in commands:
            command.outcome = Unavailable("the storage cannot be relied on at this moment; nothing is asked. Try again")

    def _run_one_by_one(self, names: Sequence[str], commands: Sequence[Command], error: Exception) -> None:
        """One command has hit a bug of ours: run each on its own, so that the others succeed."""
        self._roll_back(names)
        if len(commands) == 1:
            about = {"agent": commands[0].agent, "request_id": commands[0].request_id.decode(), "who": commands[0].who}
            log.error("a command failed", **about, exc_info=error)
            commands[0].outcome = InternalError("this should not have happened; the log of the service has the details")
            return
        for command in commands:
            self._prepare_and_commit([command])

    def _roll_back(self, names: Sequence[str]) -> None:
        self.store.rollback()
        self.store.time.save_failed()
        self.forget(names)

    def live_agent(self, record: AgentRecord) -> LiveAgent:
        """The live agent of a stored one, after all records of its log. Raises Cold if that would take long."""
        live, beside = self._live_agents.get(record.name), record.name not in self._load_here
        if live is None or live.record.id != record.id or live.applied > record.seq:
            try:
                if beside:
                    check_cost(self.store.select, record)
                live = self._live_agents[record.name] = open_agent(self.store.select, record)
            except Unreadable:
                self.note_broken(record.name, "its body cannot be read")
                raise
            self.damaged.discard(record.name)
        elif live.record.seq == record.seq and differs(live.record, record):
            del self._live_agents[record.name]
            self.note_damage([*self.damaged, record.name])
            raise Damaged(record.name)
        behind = record.seq - live.applied
        if behind:
            if beside and behind * weight(live.body) > INLINE:
                raise Cold
            try:
                live.apply(self.store.records(record.id, live.applied, record.seq))
            except Damaged:
                self.note_broken(record.name, "a record does not fit the one before it")
                raise
        self._load_here.discard(record.name)
        return live

    def note_damage(self, names: Iterable[str]) -> None:
        """Agents that do not agree with their logs: the service is not ready while there are any."""
        found = set(names)
        for name in sorted(found - self.damaged):
            log.error("an agent does not agree with its log: it is not asked about anything", agent=name)
        self.damaged = found

    def note_broken(self, name: str, why: str) -> None:
        """An agent whose log is damaged: it is not used, and the service is not ready, until that is repaired."""
        self.forget([name])
        if name not in self.broken:
            log.error("the log of an agent is damaged: it is not asked about anything", agent=name, reason=why)
        self.broken[name] = why

    # Loading agents beside the batches.

    def _wait_for_loading(self, command: Command) -> None:
        """Keep a command until its agent is loaded."""
        waiting = self._loading.setdefault(command.agent, [])
        waiting.append(command)
        if len(waiting) == 1:
            task = asyncio.create_task(self._load(command.agent))
            self._load_tasks.add(task)
            task.add_done_callback(self._load_tasks.discard)

    async def _load(self, name: str) -> None:
        """Load an agent in a thread, and go on with the commands that wait for it."""
        live = self._live_agents.pop(name, None)  # nobody else may use it meanwhile
        began = time.monotonic()
        try:
            loaded = await asyncio.get_running_loop().run_in_executor(
                self._loaders, load, self.store, name, live, lambda: self._stopped
            )
            self.loads, self.load_seconds = self.loads + 1, self.load_seconds + time.monotonic() - began
            if loaded is not None:
                loaded.live.used = time.monotonic()
                self._live_agents.setdefault(name, loaded.live)
                if loaded.snapshot is not None:
                    loaded.live.snapshot_seq = loaded.live.applied
                    self._enqueue(
                        Command("", partial(_save_snapshot, loaded.live, loaded.live.applied, loaded.snapshot))
                    )
        except Damaged:
            self.note_broken(name, "a record does not fit the one before it")
        except Exception as error:  # the log has gaps, or the storage fails: the batch will say so to the callers
            log.error("an agent could not be loaded", agent=name, reason=str(error) or repr(error))
            self._load_here.add(name)
        finally:
            self._queue.extendleft(reversed(self._loading.pop(name)))
            self._wake.set()

    def forget(self, names: Sequence[str]) -> None:
        """Drop live agents that may be ahead of the store; they are loaded again when they are next needed."""
        for name in names:
            self._live_agents.pop(name, None)
            self.next_due_unknown.discard(name)

    def _too_slow(self) -> str:
        return f"the storage took longer than {self.timeout:g} s; the same event_id tells later what became of it"

    def _save_snapshots(self, live_agents: Iterable[LiveAgent]) -> None:
        """Save snapshots, many in a transaction. If one is missing, the next start is slower, nothing more."""
        began = time.monotonic()
        waiting: list[tuple[LiveAgent, str]] = []
        for live in live_agents:
            live.snapshot_seq = live.applied  # even if this fails: do not try again at once
            try:
                waiting.append((live, live.snapshot()))
            except SparinglyError as error:
                log.warning("no snapshot was made", agent=live.record.name, reason=str(error))
            if len(waiting) == SNAPSHOTS or sum(len(text) for _, text in waiting) > SNAPSHOT_BYTES:
                self._store_snapshots(waiting)
                waiting = []
        if waiting:
            self._store_snapshots(waiting)
        self.snapshot_seconds += time.monotonic() - began

    def _store_snapshots(self, snapshots: Sequence[tuple[LiveAgent, str]]) -> None:
        try:
            self.snapshots += len(snapshots)
            self.store.begin([])
            for live, text in sorted(snapshots, key=lambda one: one[0].record.id):  # in one order in all processes
                self.store.save_snapshot(live.record.id, live.applied, text)
            self.store.commit()
        except StorageError as error:
            self.store.rollback()
            names = [live.record.name for live, _ in snapshots[:5]]
            log.warning("snapshots were not saved", count=len(snapshots), agents=names, reason=str(error))

    def _save_all(self) -> None:
        """Save what the next start begins with: the time, and a snapshot of each agent."""
        try:
            self.store.begin([])
            self.store.save_time()
            self.store.commit()
        except StorageError as error:
            self.store.rollback()
            log.warning("the time was not saved", reason=str(error))
        until = time.monotonic() + STOP
        unsaved = (live for live in self._live_agents.values() if live.applied > live.snapshot_seq)
        self._save_snapshots(itertools.takewhile(lambda live: time.monotonic() < until, unsaved))

    @property
    def alive(self) -> bool:
        """Whether both background tasks are still running."""
        return not any(task.done() for task in self._tasks)

    async def _maintain(self) -> None:
        """Four times a second: time out commands that waited too long, and expire asks even if nobody calls."""
        while True:
            await asyncio.sleep(0.25)
            try:
                self._time_out()
                if not self._queue and not self._stopped:
                    self._expire_and_purge()
                if not self._stopped:
                    self._let_idle_leave()
                    if self.store.time.save_due:
                        self._enqueue(Command("", lambda batch: None))
            except Exception as error:  # a bug of ours must not end this task
                log.error("maintenance failed; it runs again soon", exc_info=error)

    def _time_out(self) -> None:
        """Fail commands that waited too long, and drop those whose caller has gone."""
        oldest = time.monotonic() - self.timeout
        for command in itertools.chain.from_iterable(self._loading.values()):
            if command.submitted < oldest and command.future is not None and not command.future.done():
                command.future.set_exception(Unavailable(f"{command.agent} is being loaded from its log; try again"))
        for command in (*self._in_progress, *self._queue):
            if command.submitted < oldest and command.future is not None and not command.future.done():
                self.storage_error = self.storage_error or self._too_slow()  # until a batch is durable again
                command.future.set_exception(Unavailable(self._too_slow()))
        if any(command.future is None or command.future.done() for command in self._queue):
            self._queue = deque(command for command in self._queue if command.future and not command.future.done())

    def _expire_and_purge(self) -> None:
        """Let asks that are due expire, and remove a slice of the records of each deleted agent."""
        now, live_agents = self.store.time.now(), list(self._live_agents.items())
        due = [name for name, live in live_agents if live.next_due is not None and live.next_due <= now]
        elsewhere = [
            name for name, when in list(self._due_elsewhere.items()) if name not in self._live_agents and when <= now
        ]  # fmt: skip
        for name in (*due, *elsewhere):
            self._due_elsewhere.pop(name, None)
            self._enqueue(Command(name, lambda batch, name=name: batch.live_agent(name) and None))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        for agent in list(self.deleted):
            self._enqueue(Command("", lambda batch, agent=agent: self._purge_slice(agent)))  # type: ignore[misc]  # as above

    def _let_idle_leave(self) -> None:
        """Once in a while, let agents leave memory that nobody uses, and some if there are too many."""
        now = time.monotonic()
        if now >= self._look_for_idle:
            names = idle.to_leave(self._live_agents, now, self.idle_seconds, self.largest)
            self._look_for_idle = now + (0.0 if len(names) == idle.AT_ONCE else min(self.idle_seconds / 10, LOOK))
            if names:
                self._enqueue(Command("", lambda batch: self._let_leave(batch, names)))

    def _let_leave(self, batch: Batch, names: Sequence[str]) -> None:
        for name in names:
            live = self._live_agents.get(name)
            if live is None or name in batch.live_agents or any(c.agent == name for c in batch.commands):
                continue
            del self._live_agents[name]
            self.left_memory += 1
            if live.next_due is not None:
                self._due_elsewhere[name] = live.next_due
            if (live.applied - live.snapshot_seq) * weight(live.body) > INLINE // 10:
                self._leaving.append(live)

    @property
    def live_agents(self) -> list[LiveAgent]:
        """The agents in memory."""
        return list(self._live_agents.values())

    def _purge_slice(self, agent: int) -> None:
        if self.store.purge_slice(agent):
            self.deleted.discard(agent)

    def expect(self, due: dict[str, int], deleted: Iterable[int] = ()) -> None:
        """Take over what other processes, or this one before a restart, have left: due asks and deleted agents."""
        self._due_elsewhere = due
        self.deleted |= set(deleted)
        for name, when in due.items():
            live = self._live_agents.get(name)
            if live is not None:
                live.expect(when)

    def _enqueue(self, command: Command) -> None:
        """Queue a command that nobody waits for."""
        command.future = asyncio.get_running_loop().create_future()
        command.future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._queue.append(command)
        self._wake.set()


def differs(known: AgentRecord, stored: AgentRecord) -> bool:
    """Whether an agent was changed without a record; how far payloads were erased may change so."""
    return known != stored and dataclasses.replace(known, erased=stored.erased) != stored


def records_between(live: LiveAgent) -> int:
    """After how many records a snapshot is worth its time: often for agents whose records take long to apply."""
    return max(min(SNAPSHOT, SNAPSHOT_UNITS // weight(live.body)), 1)


def _save_snapshot(live: LiveAgent, seq: int, text: str, batch: Batch) -> None:
    batch.writer.store.save_snapshot(live.record.id, seq, text)


def _resolve(command: Command) -> bool:
    """Pass the outcome to the caller, if it is still waiting; False if the command is to be run again."""
    if command.future is None or command.future.done() or isinstance(command.outcome, Cold):
        return True
    if isinstance(command.outcome, MoreDue):
        return False
    if isinstance(command.outcome, HttpError):
        command.future.set_exception(command.outcome)
    else:
        command.future.set_result(command.outcome)
    return True
