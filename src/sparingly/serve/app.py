"""The application: every operation of the service, from the request to the durable answer."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog
from msgspec import UNSET

from sparingly.serve import answers, contract, exporting, metrics, openapi, static, store
from sparingly.serve.book import Book, Order, Page
from sparingly.serve.contract import (
    AgentBody,
    ChargeBody,
    DecisionBody,
    FeedbackBody,
    GrantBody,
    NoBody,
)  # fmt: skip
from sparingly.serve.estimating import estimates
from sparingly.serve.http import (
    PROBLEM,
    SAFE,
    Answer,
    Receive,
    Request,
    Route,
    Router,
    Scope,
    Send,
    encoded,
    uncached,
)
from sparingly.serve.making import check_body, units_of
from sparingly.serve.problems import (
    Conflict,
    InternalError,
    Missing,
    Problem,
    Unauthorized,
    Unavailable,
    Unfit,
    WrongHost,
)
from sparingly.serve.routes import routes
from sparingly.serve.rows import AGENT_COLUMNS, AgentRow
from sparingly.version import __version__

NAME, ID = re.compile(contract.NAME), re.compile(contract.ID)
LOCAL = re.compile(rb"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
MINUTE = 60.0
T = TypeVar("T")
log = structlog.get_logger("sparingly")


class Service:
    """An ASGI application over a store. `token` guards it; without one only local names are answered."""

    def __init__(
        self, kept: store.Store, token: str | None = None, patience: float = 5.0, paused: bool = False
    ) -> None:
        self.store, self.token, self.paused = kept, token, paused
        self.book = Book(kept, patience)
        self.metrics = metrics.Metrics(self)
        self._readers = ThreadPoolExecutor(4, "sparingly-reader")
        self._exporters = ThreadPoolExecutor(2, "sparingly-export")  # of their own: a long log holds up nobody else
        self.router = Router(routes(self))
        self.document = openapi.document(self.router.routes, guarded=token is not None)
        self.pages = static.Pages(self.document)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def start(self) -> None:
        """Begin to work; the store is open."""
        await self.book.start()
        self._minding = asyncio.create_task(self._mind_the_asleep())
        if self.paused:
            for row in await self._read(store.read_agents):
                await self.book.submit(Order(row.name, functools.partial(_pause, row.name)))

    async def _mind_the_asleep(self) -> None:
        """Once a minute: asks of agents that no call has woken here expire too, also if another process made them."""
        while True:
            with contextlib.suppress(Unavailable, RuntimeError):  # the latter while the service stops
                self.book.expect(await self._read(store.read_due), await self._read(store.read_buried))
            await asyncio.sleep(MINUTE)

    async def stop(self) -> None:
        """Finish what was begun."""
        self._minding.cancel()
        await asyncio.gather(self._minding, return_exceptions=True)
        await self.book.stop()
        for pool in (self._readers, self._exporters):
            pool.shutdown(wait=False, cancel_futures=True)
        self.store.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        path, label = scope["path"], "unknown"
        try:
            request = Request(scope, receive)
            route = self._find(request, scope.get("raw_path") or path.encode())
            label = route.path
            if request.query_string:
                request.query()  # what is not known is refused, even where nothing is expected
            answer = await route.handler(request)
        except Problem as problem:
            answer = _refusal(problem, path)
        except Exception as error:
            log.error("a request failed", path=path, exc_info=error)
            answer = _refusal(InternalError("this should not have happened; the log has the details"), path)
        await _send(send, answer, receive)
        self.metrics.served(scope["method"], label, answer.status, time.perf_counter() - started)

    def _find(self, request: Request, raw_path: bytes) -> Route:
        """The route of a request, if its caller may come in; to strangers all paths but the open ones look alike."""
        try:
            route = self.router.find(request, raw_path)
        except Problem:
            self._admit(request, guarded=True)
            raise
        self._admit(request, route.guarded)
        return route

    def _admit(self, request: Request, guarded: bool) -> None:
        """Who may come in: with a token, who has it; without, who asked for this machine by a local name."""
        if self.token is not None:
            if guarded and not self._has_token(request):
                raise Unauthorized("send the header `authorization: Bearer TOKEN` with the token of this service")
            return
        host = request.header(b"host") or b""
        if not LOCAL.fullmatch(host):
            shown = host[:80].decode("latin-1")
            raise WrongHost(f"without a token only local names are answered, not {shown!r}; use 127.0.0.1")
        origin = request.header(b"origin")
        if origin is not None and origin.lower() != b"http://" + host.lower():
            raise WrongHost("without a token no page from elsewhere is answered")

    def _has_token(self, request: Request) -> bool:
        given = request.header(b"authorization") or b""
        return self.token is None or hmac.compare_digest(given, b"Bearer " + self.token.encode())

    # Helpers of the operations.

    async def _read(self, query: Callable[..., T], *arguments: Any, patience: float | None = None) -> T:
        """Read what is durable, in a thread, within the time that callers are promised."""
        limit = self.book.patience if patience is None else patience
        try:
            async with asyncio.timeout(limit):  # wait_for would miss a cancellation that comes with the result
                return await self._in(self._readers, query, *arguments)
        except TimeoutError:
            raise Unavailable(f"the storage was not read within {limit:g} s; try again") from None

    async def _in(self, pool: ThreadPoolExecutor, query: Callable[..., T], *arguments: Any) -> T:
        def work() -> T:
            with self.store.reader() as read:
                return query(read, *arguments)

        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except store.StorageDoubt as doubt:
            log.error("reading failed", reason=str(doubt))
            raise Unavailable("the storage cannot be read at this moment; try again") from None

    async def _agent(self, request: Request) -> tuple[AgentRow, AgentBody]:
        row = await self._read(agent_named, request.parts[2])
        return row, msgspec.json.decode(row.body, type=AgentBody)

    def _order(self, request: Request, work: Callable[[Page], Any], **about: Any) -> Any:
        name = request.parts[2]
        if not NAME.match(name):
            raise _no_agent(name)
        return self.book.submit(Order(name, work, **about))

    # Agents.

    async def put_agent(self, request: Request) -> Answer:
        name = request.parts[2]
        if not NAME.match(name):
            raise Unfit("a name has letters and digits, and . _ - inside; at most 64 characters")
        body = await request.body(AgentBody)
        check_body(body)

        def work(page: Page) -> tuple[contract.Agent, int]:
            made = name not in page.rows and page.create(_new_agent(name, body, page.now))
            row = page.desk(name).row
            if not made and msgspec.json.decode(row.body, type=AgentBody) != body:
                raise Conflict(f"there is an agent {name} already, and it is another one; choose another name")
            return answers.agent(row, page.now), 201 if made else 200

        answer, status = await self._order(request, work)
        return encoded(answer, status)

    async def get_agents(self, request: Request) -> Answer:
        rows = await self._read(store.read_agents)
        return encoded(contract.AgentList([answers.agent(row, self.store.clock()) for row in rows]))

    async def get_agent(self, request: Request) -> Answer:
        row, _ = await self._agent(request)
        return encoded(answers.agent(row, self.store.clock()))

    async def delete_agent(self, request: Request) -> Answer:
        name = request.parts[2]
        if request.query()["confirm"] != name:
            raise Unfit(f"to delete {name} with all of its records for ever, add ?confirm={name}")
        await self._order(request, lambda page: page.delete(name))
        return encoded(contract.Deleted(name))

    async def post_pause(self, request: Request) -> Answer:
        return await self._pause(request, True)

    async def post_resume(self, request: Request) -> Answer:
        return await self._pause(request, False)

    async def _pause(self, request: Request, paused: bool) -> Answer:
        await request.body(NoBody)

        def work(page: Page) -> contract.Agent:
            desk = page.desk(request.parts[2])
            desk.pause(paused)
            return answers.agent(desk.row, page.now)

        return encoded(await self._order(request, work))

    # Decisions and what follows them.

    async def post_decision(self, request: Request) -> Answer:
        body = await request.body(DecisionBody)
        event_id = None if body.event_id is UNSET else body.event_id
        name = request.parts[2]

        def work(page: Page) -> contract.Decision:
            desk = page.desk(name)
            return answers.decision(name, desk.body, desk.decide(body, event_id))

        return uncached(await self._order(request, work, event_id=event_id))

    async def post_feedback(self, request: Request) -> Answer:
        body = await request.body(FeedbackBody)
        name, event_id = request.parts[2], _event_id(request)

        def work(page: Page) -> contract.Feedback:
            return answers.feedback(name, page.desk(name).answer(event_id, body.reward + 0.0))

        return uncached(await self._order(request, work, event_id=event_id))

    async def post_activate(self, request: Request) -> Answer:
        return await self._lease(request, "activate")

    async def post_release(self, request: Request) -> Answer:
        return await self._lease(request, "release")

    async def _lease(self, request: Request, step: str) -> Answer:
        await request.body(NoBody)
        name, event_id = request.parts[2], _event_id(request)

        def work(page: Page) -> contract.Event:
            desk = page.desk(name)
            return answers.event(name, desk.body, getattr(desk, step)(event_id))

        return encoded(await self._order(request, work, event_id=event_id))

    async def post_grant(self, request: Request) -> Answer:
        body = await request.body(GrantBody)
        name = request.parts[2]

        def work(page: Page) -> contract.Booking:
            return answers.booking(name, page.desk(name).grant(body.grant_id, body.amount))

        return encoded(await self._order(request, work, booking=("grant", body.grant_id)))

    async def post_charge(self, request: Request) -> Answer:
        body = await request.body(ChargeBody)
        name = request.parts[2]

        def work(page: Page) -> contract.Booking:
            return answers.booking(name, page.desk(name).charge(body.charge_id, body.amount))

        return encoded(await self._order(request, work, booking=("charge", body.charge_id)))

    # Looking.

    async def get_decisions(self, request: Request) -> Answer:
        query = request.query()
        row, body = await self._agent(request)
        payload = query["payload"] == "true"
        found = await self._read(store.read_decisions, row.id, query["before"], query["limit"], payload)
        return encoded(answers.events(row.name, body, *found))

    async def get_decision(self, request: Request) -> Answer:
        row, body = await self._agent(request)
        found = await self._read(store.read_decision, row.id, _event_id(request))
        if found is None:
            raise Missing(f"agent {row.name} has made no decision with this event_id")
        return encoded(answers.event(row.name, body, found))

    async def get_asks(self, request: Request) -> Answer:
        query = request.query()
        row, body = await self._agent(request)
        found = await self._read(store.read_asks, row.id, query["status"], query["after"], query["limit"])
        return encoded(answers.events(row.name, body, *found))

    async def get_estimates(self, request: Request) -> Answer:
        context = request.query()["context"]
        return encoded(await self._order(request, lambda page: estimates(page.desk(request.parts[2]), context)))

    async def get_history(self, request: Request) -> Answer:
        points = request.query()["points"]
        row, _ = await self._agent(request)
        counters = await self._read(store.read_counters, row.id, answers.places(row.seq, points)) if row.seq else []
        return encoded(answers.history(row, counters, self.store.clock()))

    async def get_log(self, request: Request) -> Answer:
        query = request.query()
        row, _ = await self._agent(request)
        if query["format"] == "jsonl":
            first = await self._in(
                self._exporters, exporting.json_lines, row, query["after"]
            )  # a doubt is told at once
            return Answer(kind=b"application/x-ndjson", stream=self._log_pages(row, *first))
        folder = tempfile.TemporaryDirectory(prefix="sparingly-")
        path = Path(folder.name) / "log.parquet"
        await self._in(self._exporters, exporting.write_parquet, row, query["after"], path)
        disposition = (b"content-disposition", f'attachment; filename="{row.name}.parquet"'.encode())
        return Answer(
            kind=b"application/vnd.apache.parquet", headers=(*SAFE, disposition), stream=_file_chunks(path, folder)
        )

    async def _log_pages(self, row: AgentRow, page: bytes, last: int) -> AsyncIterator[bytes]:
        """Page after page, each read by itself: however slowly they are taken, nothing in the store waits for it."""
        yield page
        while last < row.seq:
            page, last = await self._in(self._exporters, exporting.json_lines, row, last)
            yield page

    # The service itself.

    async def get_health(self, request: Request) -> Answer:
        return encoded(contract.Health("ok", __version__))

    async def get_ready(self, request: Request) -> Answer:
        try:
            async with asyncio.timeout(2.0):
                await self.book.submit(Order("", lambda page: self.store.touch(page.now)))
        except (Unavailable, TimeoutError):
            reason = self.book.trouble or "the storage is slow"
            shown = reason if self._has_token(request) else "the storage is in doubt"  # names and paths are for friends
            return encoded(contract.Health("unavailable", __version__, shown), 503)
        if not self.book.alive:
            return encoded(contract.Health("unavailable", __version__, "a task has ended; restart the service"), 503)
        return encoded(contract.Health("ok", __version__))

    async def get_metrics(self, request: Request) -> Answer:
        try:
            rows = await self._read(store.read_agents, patience=1.0)
        except Unavailable:
            rows = []  # the counters of the process are worth showing all the same
        return Answer(self.metrics.text(rows), kind=metrics.KIND)

    async def get_document(self, request: Request) -> Answer:
        return Answer(self.pages.document)

    async def get_docs(self, request: Request) -> Answer:
        return self.pages.docs()

    async def get_page(self, request: Request) -> Answer:
        return self.pages.file("index.html")

    async def get_file(self, request: Request) -> Answer:
        return self.pages.file(request.parts[1])


def agent_named(read: store.Reading, name: str) -> AgentRow:
    """The agent of this name, as it is stored."""
    rows = store.read_agents(read, name) if NAME.match(name) else []
    if not rows:
        raise _no_agent(name)
    return rows[0]


def _new_agent(name: str, body: AgentBody, now: int) -> AgentRow:
    zero: dict[str, Any] = dict.fromkeys(AGENT_COLUMNS, 0)
    text, initial = msgspec.json.encode(body).decode(), units_of(body.budget.initial)
    return AgentRow(**{**zero, "name": name, "body": text, "created": now, "last_at": now, "granted": initial})


def _pause(name: str, page: Page) -> None:
    page.desk(name).pause(True)


def _no_agent(name: str) -> Missing:
    return Missing(f"there is no agent {name[:80]!r}; GET /v1/agents lists them")


def _event_id(request: Request) -> str:
    if not ID.match(request.parts[4]):
        raise Missing("there is no decision with this event_id: it has characters that no event_id has")
    return request.parts[4]


def _refusal(problem: Problem, path: str) -> Answer:
    return Answer(problem.body(path[:200]), problem.status, PROBLEM, (*SAFE, *problem.headers))


async def _file_chunks(path: Path, folder: tempfile.TemporaryDirectory[str]) -> AsyncIterator[bytes]:
    """The content of a file in a folder that is removed afterwards."""
    with folder, path.open("rb") as file:
        while chunk := file.read(65_536):
            yield chunk


async def _send(send: Send, answer: Answer, receive: Receive) -> None:
    headers = [(b"content-type", answer.kind), *answer.headers]
    if answer.stream is None:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if answer.stream is not None:
        gone = asyncio.ensure_future(receive())  # the next thing to hear of a caller is that it has hung up
        async for chunk in answer.stream:
            if gone.done() and gone.result()["type"] == "http.disconnect":
                break
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        gone.cancel()
    await send({"type": "http.response.body", "body": answer.body})
