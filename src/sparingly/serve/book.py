"""The one writer of a process: gathers what callers want into batches, and makes each batch durable in one go.

Callers hand in *orders* and wait. While one batch is being made durable the next one gathers, so that one wait for the
disk serves all who came meanwhile (group commit). An answer leaves only when its batch is durable. If anything about a
batch is in doubt nobody is told to ask, and the desks that took part are made again from the store.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from sparingly.errors import SparinglyError, UnreadableFile
from sparingly.serve.desk import Desk
from sparingly.serve.problems import InternalError, Missing, Problem, Unavailable
from sparingly.serve.rows import AgentRow
from sparingly.serve.store import StorageDoubt, Store

BATCH = 256  # orders in one transaction at the most
QUEUE = 10_000  # orders that may wait
PATIENCE = 5.0  # seconds that a caller waits at the most
SNAPSHOT = 5_000  # records between two snapshots
log = structlog.get_logger("sparingly")


class Order:
    """What a caller wants of one agent; `work` does it, with the desk, inside the transaction."""

    __slots__ = ("agent", "booking", "born", "event_id", "future", "outcome", "work")

    def __init__(
        self, agent: str, work: Callable[[Page], Any], event_id: str | None = None,
        booking: tuple[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.agent, self.work, self.event_id, self.booking = agent, work, event_id, booking
        self.born = time.monotonic()
        self.future: asyncio.Future[Any] | None = None
        self.outcome: Any = None


class Page:
    """One batch in its transaction: the agents that it is about, and their desks as far as they are needed."""

    def __init__(self, book: Book, orders: Sequence[Order], rows: dict[str, AgentRow], now: int) -> None:
        self.book, self.orders, self.rows, self.now = book, orders, rows, now
        self.desks: dict[str, Desk] = {}

    def desk(self, name: str) -> Desk:
        """The desk of an agent of this batch, up to date; what is due has expired."""
        if name in self.desks:
            return self.desks[name]
        if name not in self.rows:
            raise Missing(f"there is no agent {name}; PUT /v1/agents/{name} makes one")
        desk = self.book.desk(self.rows[name])
        desk.begin(self.rows[name], self.now)
        if desk.next_due is not None and desk.next_due <= desk.now:
            desk.sweep(self.book.store.find_due(desk.row.id, desk.now))
            desk.next_due = None  # the store knows the next one once this batch is written
            self.book.ask_for_due.add(name)
        self._look_up(name, desk)
        self.desks[name] = desk
        return desk

    def _look_up(self, name: str, desk: Desk) -> None:
        """Read what the store has of the ids that this batch is about."""
        mine = [order for order in self.orders if order.agent == name]
        ids = list({order.event_id for order in mine if order.event_id is not None})
        bookings = {order.booking for order in mine if order.booking is not None}
        if ids or bookings:
            store, agent = self.book.store, desk.row.id
            desk.knows(store.find_decisions(agent, ids), store.find_bookings(agent, bookings))

    def create(self, row: AgentRow) -> bool:
        """Make an agent; False if another process has made one of this name at the same moment."""
        made = False
        while row.name not in self.rows:
            made = self.book.store.insert_agent(row)
            self.rows |= self.book.store.find_agents([row.name])
        self.desk(row.name)
        return made

    def delete(self, name: str) -> None:
        """Take an agent's name from it: nobody finds it any more. Its records are removed bit by bit afterwards."""
        if name not in self.rows:
            raise Missing(f"there is no agent {name}")
        row = self.rows.pop(name)
        self.book.store.bury_agent(row.id)
        self.book.buried.add(row.id)
        self.book.forget([name])
        self.desks.pop(name, None)


class Book:
    """All desks of this process, and the queue in front of them."""

    def __init__(self, store: Store, patience: float = PATIENCE) -> None:
        self.store, self.patience = store, patience
        self.trouble = ""  # what is wrong with the storage at this moment
        self.batches = self.orders = 0
        self.ask_for_due: set[str] = set()
        self.buried: set[int] = set()  # agents that were deleted and whose records are still there
        self._to_keep: list[Desk] = []
        self._desks: dict[str, Desk] = {}
        self._asleep: dict[str, int] = {}
        self._queue: deque[Order] = deque()
        self._working: Sequence[Order] = ()
        self._wake = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, "sparingly-store")
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False

    async def start(self) -> None:
        """Begin to work through orders."""
        self._tasks = [asyncio.create_task(self._work()), asyncio.create_task(self._watch())]

    async def stop(self) -> None:
        """Finish what is waiting, keep snapshots, and stop."""
        self._stopped = True
        self._wake.set()
        # Cut short, a batch could be left between its transaction and its commit; it is given time to end by itself.
        await asyncio.wait(self._tasks[:1], timeout=self.patience)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(self._pool, self._keep_all)
        self._pool.shutdown()

    async def submit(self, order: Order) -> Any:
        """Wait until an order is done and durable; its answer, or the problem with it."""
        if self._stopped:
            raise Unavailable("the service is stopping")
        if len(self._queue) >= QUEUE:
            raise Unavailable(f"{QUEUE:,} requests are waiting already; try again later")
        order.future = asyncio.get_running_loop().create_future()
        self._queue.append(order)
        self._wake.set()
        return await order.future

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopped or self._queue:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._gather()
                orders = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]
                orders = [order for order in orders if order.future is not None and not order.future.done()]
                if not orders:
                    continue
                self._working = orders
                if self.store.inline:
                    if self._prepare(orders):
                        await loop.run_in_executor(self._pool, self._finish, orders)
                else:
                    await loop.run_in_executor(self._pool, self._both, orders)
                self._working = ()
                self.batches, self.orders = self.batches + 1, self.orders + len(orders)
                for order in orders:
                    _settle(order)

    async def _gather(self) -> None:
        """Let all who are at the door come in: a transaction costs the same for one as for many."""
        waiting = 0
        while waiting < len(self._queue) < BATCH:
            waiting = len(self._queue)
            await asyncio.sleep(0)

    def _both(self, orders: Sequence[Order]) -> None:
        if self._prepare(orders):
            self._finish(orders)

    def _prepare(self, orders: Sequence[Order]) -> bool:
        """Do a batch up to its commit; False if it came to nothing, and every order has its outcome already."""
        names = sorted({order.agent for order in orders if order.agent})
        try:
            rows, now = self.store.begin(names)
            self.forget([name for name in names if name not in rows])  # another process may have deleted them
            page = Page(self, orders, rows, now)
            for order in orders:
                try:
                    order.outcome = order.work(page)
                except Problem as problem:
                    order.outcome = problem
            self._write(page)
            return True
        except StorageDoubt as doubt:
            self._give_up(names, orders, doubt)
        except Exception as error:
            self._isolate(names, orders, error)
        return False

    def _write(self, page: Page) -> None:
        for name, desk in page.desks.items():
            changes = desk.changes()
            if changes is not None:
                self.store.write(changes)
            if name in self.ask_for_due:
                self.ask_for_due.discard(name)
                desk.next_due = self.store.next_due(desk.row.id)
        self._to_keep = [desk for desk in page.desks.values() if desk.folded - desk.kept >= SNAPSHOT]

    def _finish(self, orders: Sequence[Order]) -> None:
        """Make a batch durable."""
        try:
            self.store.commit()
            if self.trouble:
                log.info("storage is back", store=self.store.name)
            self.trouble = ""
            self._keep(self._to_keep)
        except Exception as error:  # of whatever kind: nobody knows what became of the batch
            doubt = error if isinstance(error, StorageDoubt) else StorageDoubt(f"{self.store.name}: {error!r}")
            self._give_up(sorted({order.agent for order in orders if order.agent}), orders, doubt)

    def _give_up(self, names: Sequence[str], orders: Sequence[Order], doubt: StorageDoubt) -> None:
        """Nothing of a batch counts, as far as we know."""
        self.store.rollback()
        self.forget(names)
        if str(doubt) != self.trouble:
            log.error("storage is in doubt: nothing is asked", reason=str(doubt))
        self.trouble = str(doubt)
        for order in orders:
            order.outcome = Unavailable("the storage cannot be relied on at this moment; nothing is asked. Try again")

    def _isolate(self, names: Sequence[str], orders: Sequence[Order], error: Exception) -> None:
        """One order has met a mistake of ours: the others are done one by one, without it."""
        self.store.rollback()
        self.forget(names)
        if len(orders) == 1:
            log.error("an order failed", agent=orders[0].agent, exc_info=error)
            orders[0].outcome = InternalError("this should not have happened; the log of the service has the details")
            return
        for order in orders:
            self._both([order])

    def desk(self, row: AgentRow) -> Desk:
        """The desk of an agent, having lived through its whole log."""
        desk = self._desks.get(row.name)
        if desk is None or desk.row.id != row.id or desk.folded > row.seq:
            desk = self._open(row)
            self._desks[row.name] = desk
        if desk.folded < row.seq:
            desk.fold(self.store.records(row.id, desk.folded, row.seq))
        return desk

    def _open(self, row: AgentRow) -> Desk:
        """A desk from the last snapshot; from the whole log, if there is none that can be read."""
        try:
            desk = Desk.of(row, self.store.snapshot(row.id))
        except UnreadableFile as error:
            log.error("a snapshot is of no use, the whole log is read", agent=row.name, reason=str(error))
            desk = Desk.of(row)
        desk.next_due = self.store.next_due(row.id)
        desk.look_back(self.store.latest_context(row.id, desk.folded))
        return desk

    def forget(self, names: Sequence[str]) -> None:
        """Desks whose memory may be ahead of the store are made again when they are next needed."""
        for name in names:
            self._desks.pop(name, None)
            self.ask_for_due.discard(name)

    def _too_slow(self) -> str:
        return f"the storage took longer than {self.patience:g} s; the same event_id tells later what became of it"

    def _keep(self, desks: Iterable[Desk]) -> None:
        """Snapshots, each in a transaction of its own. Without one the next start takes longer, and that is all."""
        for desk in desks:
            desk.kept = desk.folded  # not tried again at once, however it ends
            try:
                text = desk.snapshot()
                self.store.begin([])
                self.store.keep_snapshot(desk.row.id, desk.folded, text)
                self.store.commit()
            except SparinglyError as error:
                self.store.rollback()
                log.warning("no snapshot was kept", agent=desk.row.name, reason=str(error))

    def _keep_all(self) -> None:
        self._keep([desk for desk in self._desks.values() if desk.folded > desk.kept])

    @property
    def alive(self) -> bool:
        """Whether the work goes on: neither of the two tasks has ended."""
        return not any(task.done() for task in self._tasks)

    async def _watch(self) -> None:
        """Four times a second: nobody waits too long, and what is due expires even if nobody calls."""
        while True:
            await asyncio.sleep(0.25)
            try:
                self._give_up_waiting()
                if not self._queue and not self._stopped:
                    self._tidy()
            except Exception as error:  # a mistake of ours must not end the watch
                log.error("the watch stumbled", exc_info=error)

    def _give_up_waiting(self) -> None:
        """Who has waited too long is told so; orders that nobody waits for any more are dropped with their bodies."""
        edge = time.monotonic() - self.patience
        for order in (*self._working, *self._queue):
            if order.born < edge and order.future is not None and not order.future.done():
                self.trouble = self.trouble or self._too_slow()  # until a batch is durable again
                order.future.set_exception(Unavailable(self._too_slow()))
        if any(order.future is None or order.future.done() for order in self._queue):
            self._queue = deque(order for order in self._queue if order.future and not order.future.done())

    def _tidy(self) -> None:
        """Let what is due expire, and remove a slice of the records of deleted agents."""
        now, desks = self.store.clock(), list(self._desks.items())
        due = [name for name, desk in desks if desk.next_due is not None and desk.next_due <= now]
        asleep = [name for name, when in list(self._asleep.items()) if name not in self._desks and when <= now]
        for name in (*due, *asleep):
            self._asleep.pop(name, None)
            self._enqueue(Order(name, lambda page, name=name: page.desk(name) and None))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        for agent in list(self.buried):
            self._enqueue(Order("", lambda page, agent=agent: self._remove_slice(agent)))  # type: ignore[misc]  # as above

    def _remove_slice(self, agent: int) -> None:
        if self.store.remove_slice(agent):
            self.buried.discard(agent)

    def expect(self, due: dict[str, int], buried: Iterable[int] = ()) -> None:
        """What other processes, or this one before a restart, have left to do: asks that are due, deleted agents."""
        self._asleep = due
        self.buried |= set(buried)
        for name, when in due.items():
            desk = self._desks.get(name)
            if desk is not None:
                desk.expect(when)

    def _enqueue(self, order: Order) -> None:
        """An order that nobody waits for."""
        order.future = asyncio.get_running_loop().create_future()
        order.future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._queue.append(order)
        self._wake.set()


def _settle(order: Order) -> None:
    """Tell the caller how it went, if it is still waiting."""
    if order.future is None or order.future.done():
        return
    if isinstance(order.outcome, Problem):
        order.future.set_exception(order.outcome)
    else:
        order.future.set_result(order.outcome)
