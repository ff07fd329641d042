"""The ASGI application: every operation of the service, from the request to the response."""

from __future__ import annotations

import asyncio
import contextlib
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

from sparingly.serve import chain, contract, export, metrics, openapi, peers, queries, static, store, views
from sparingly.serve.access import ANYBODY, Access
from sparingly.serve.batch import Batch, Command
from sparingly.serve.changes import roster, stored_body
from sparingly.serve.clock import TOLERANCE
from sparingly.serve.connections import Connections
from sparingly.serve.contract import (
    AgentBody,
    ChangeBody,
    ChargeBody,
    ConfirmBody,
    DecisionBody,
    FeedbackBody,
    GrantBody,
    NoBody,
)  # fmt: skip
from sparingly.serve.estimates import estimate_actions
from sparingly.serve.factory import check_body, units_of
from sparingly.serve.http import (
    PROBLEM,
    SAFE,
    Receive,
    Request,
    Response,
    Route,
    Router,
    Scope,
    Send,
    bare_json_response,
    json_response,
    request_id,
)
from sparingly.serve.http_errors import (
    Conflict,
    HttpError,
    InternalError,
    MisdirectedRequest,
    NotFound,
    Unauthorized,
    Unavailable,
    Unprocessable,
    Unreadable,
)
from sparingly.serve.records import AGENT_COLUMNS, AgentRecord
from sparingly.serve.routes import routes
from sparingly.serve.watch import Watch
from sparingly.serve.writer import Writer
from sparingly.version import __version__

NAME, ID = re.compile(contract.NAME), re.compile(contract.ID)
LOCAL = re.compile(rb"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
MINUTE, TOKENS_EVERY = 60.0, 2.0
T = TypeVar("T")
log = structlog.get_logger("sparingly")


class Service:
    """An ASGI application on top of a store.

    With a `token`, callers must send it. Without one, only requests to a local host name are answered.
    """

    def __init__(
        self, opened: store.Store, token: str | None = None, timeout: float = 5.0, paused: bool = False,
        connections: Connections | None = None, token_file: Path | None = None, keep_payloads: float | None = None,
        log_requests: bool = False, peer: str | None = None,
    ) -> None:  # fmt: skip
        self.keep_payloads, self.log_requests = keep_payloads, log_requests  # seconds; None: for ever
        self.store, self.access, self.paused = opened, Access(token, token_file), paused
        self.connections = Connections() if connections is None else connections
        self.peers = None if peer is None else peers.Peers(peer)
        self.writer = Writer(opened, timeout)
        self.watch = Watch(opened, self.writer)
        self.metrics = metrics.Metrics(self)
        self._readers = ThreadPoolExecutor(4, "sparingly-reader")
        self._exporters = ThreadPoolExecutor(2, "sparingly-export")  # a long export must not block other reads
        self.router = Router(routes(self))
        self.document = openapi.document(self.router.routes, guarded=token is not None)
        self.static = static.StaticFiles(self.document)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def start(self) -> None:
        """Start the background tasks. The store must be open."""
        if self.paused:
            await self.writer.pause_all()
        await self.writer.start()
        await self.read_tokens()
        self._own_tasks = [asyncio.create_task(self._look_for_due_asks()), asyncio.create_task(self.watch.run())]
        self._own_tasks.append(asyncio.create_task(self._look_for_tokens()))
        if self.peers is not None:
            self._own_tasks.append(asyncio.create_task(self._keep_in_touch(self.peers)))

    async def _keep_in_touch(self, others: peers.Peers) -> None:
        """Show the other processes that this one is alive, and look which of them are."""
        name = peers.PREFIX + others.own
        while True:
            with contextlib.suppress(Unavailable, RuntimeError):  # RuntimeError: the service is stopping
                others.database = await self.writer.submit(Command("", lambda batch: self._show_life(name, batch)))
                others.take(await self._read(peers.read_peers, self.store.time.now() - peers.ALIVE))
            await asyncio.sleep(peers.BEAT)

    def _show_life(self, name: str, batch: Batch) -> bytes:
        self.store.show_life(name, batch.now)
        return b"%d" % self.store.identity()

    async def _look_for_due_asks(self) -> None:
        """Once a minute, find asks that expire although nobody has called their agent here, and damaged agents."""
        while True:
            await self._look_once()
            await asyncio.sleep(MINUTE)

    async def _look_once(self) -> None:
        with contextlib.suppress(Unavailable, RuntimeError):  # RuntimeError: the service is stopping
            due = await self._read(queries.read_due)
            mine = due if self.peers is None else {name: due[name] for name in filter(self.peers.is_home, due)}
            self.writer.expect(mine, await self._read(queries.read_deleted))
            self.writer.note_damage(await self._read(queries.read_damaged))
            if self.keep_payloads is not None:
                before = self.store.time.now() - round(self.keep_payloads * 1_000_000)
                for name in await self._read(queries.read_with_old, before):
                    await self._erase_old(name, before)

    async def _erase_old(self, name: str, before: int) -> None:
        """Erase the payloads of decisions from before this time, a slice in each transaction."""

        def work(batch: Batch) -> bool:
            live = batch.live_agent(name)
            erased = self.store.erase_old(live.record, before)
            if erased is not None:
                live.note_erased(*erased)
            return erased is not None

        with contextlib.suppress(HttpError):  # deleted meanwhile, damaged or cold: the next look comes
            while await self.writer.submit(Command(name, work)):
                pass

    async def _look_for_tokens(self) -> None:
        """Follow what other processes do with tokens."""
        while True:
            await asyncio.sleep(TOKENS_EVERY)
            with contextlib.suppress(RuntimeError):  # the service is stopping
                await self.read_tokens()

    async def read_tokens(self) -> None:
        """Take over the tokens of the store; those that are known stay if it cannot be read."""
        with contextlib.suppress(Unavailable):
            self.access.take(await self._read(queries.read_tokens), self.store.time.now())

    async def stop(self) -> None:
        """Finish the requests in progress, and close the store."""
        for task in self._own_tasks:
            task.cancel()
        await asyncio.gather(*self._own_tasks, return_exceptions=True)
        self.watch.stop()
        if self.peers is not None:
            self.peers.close()
            name = peers.PREFIX + self.peers.own
            with contextlib.suppress(Unavailable):
                await self.writer.submit(Command("", lambda batch: self.store.forget_life(name)))
        await self.writer.stop()
        for pool in (self._readers, self._exporters):
            pool.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(TimeoutError):  # reads that take longer keep the store's locks until they are done
            async with asyncio.timeout(1.0):
                await asyncio.to_thread(self._readers.shutdown)
        self.store.close()

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        path, label = scope["path"], "unknown"
        request: Request | None = None
        try:
            request = Request(scope, receive)
            route = self._route(request, scope.get("raw_path") or path.encode())
            label = route.path
            if request.query_string:
                request.query()  # refuses unknown parameters, also on routes that take none
            response = await self._answer(request, route, scope)
        except HttpError as error:
            response = _error_response(error, path)
        except Exception as error:
            about = {"request_id": request.id.decode() if request else "", "path": path}
            log.error("a request failed", **about, exc_info=error)
            response = _error_response(InternalError("this should not have happened; the log has the details"), path)
        name = request_id(scope) if request is None else request.id
        response.headers = (*response.headers, (b"x-request-id", name))
        if request is None or request.unread:  # do not read on for an answer that is known already
            response.headers = (*response.headers, (b"connection", b"close"))
        await _send(send, response, receive)
        took = time.perf_counter() - started
        self.metrics.served(scope["method"], label, response.status, took)
        if self.log_requests:
            who = getattr(getattr(request, "caller", None), "name", "")
            log.info(
                "request", request_id=name.decode(), method=scope["method"], path=path[:200], status=response.status,
                milliseconds=round(1_000 * took, 3), who=who,
            )  # fmt: skip

    async def _answer(self, request: Request, route: Route, scope: Scope) -> Response:
        """The answer of the handler, or of the process in which the agent is at home."""
        forwarded = request.header(peers.FORWARDED)
        if forwarded is not None and (self.peers is None or forwarded != self.peers.database):
            raise MisdirectedRequest("this was forwarded by a process on another database: look at its --peer")
        if self.peers is not None and forwarded is None and self.peers.concerns(request):
            target = scope.get("raw_path") or scope["path"].encode()
            if request.query_string:
                target += b"?" + request.query_string
            answer = await self.peers.forward(request, target)
            if answer is not None:
                return answer
        return await route.handler(request)

    def _route(self, request: Request, raw_path: bytes) -> Route:
        """The route of a request, if its caller is authorized. Others cannot tell which guarded paths exist."""
        try:
            route = self.router.find(request, raw_path)
        except HttpError:
            self._authorize(request, guarded=True)
            raise
        self._authorize(request, route.guarded)
        if route.guarded:
            self.access.check(request.caller, request, route)
        return route

    def _authorize(self, request: Request, guarded: bool) -> None:
        """Check the token if the service has one; otherwise check that the request is for a local host name."""
        if self.access.token is not None:
            if guarded:
                request.caller = self.access.identify(request, self.store.time.now())
            return
        request.caller = ANYBODY
        host = request.header(b"host") or b""
        if not LOCAL.fullmatch(host):
            shown = host[:80].decode("latin-1")
            raise MisdirectedRequest(f"without a token only local names are answered, not {shown!r}; use 127.0.0.1")
        origin = request.header(b"origin")
        if origin is not None and origin.lower() != b"http://" + host.lower():
            raise MisdirectedRequest("without a token no page from elsewhere is answered")

    def _may_know(self, request: Request) -> bool:
        """Whether to tell a caller details of what is wrong, such as paths and names of agents."""
        try:
            caller = self.access.identify(request, self.store.time.now())
        except Unauthorized:
            return False
        return caller.agents is None and not caller.scopes.isdisjoint(("read", "administer"))

    # Helpers for the handlers.

    async def _read(self, query: Callable[..., T], *arguments: Any, timeout: float | None = None) -> T:
        """Run a query on committed data in a thread, within the time limit."""
        limit = self.writer.timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(limit):  # wait_for loses a cancellation that arrives together with the result
                return await self._run_in(self._readers, query, *arguments)
        except TimeoutError:
            raise Unavailable(f"the storage was not read within {limit:g} s; try again") from None

    async def _run_in(self, pool: ThreadPoolExecutor, query: Callable[..., T], *arguments: Any) -> T:
        def work() -> T:
            with self.store.reader() as read:
                return query(read, *arguments)

        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except store.StorageError as error:
            log.error("reading failed", reason=str(error))
            raise Unavailable("the storage cannot be read at this moment; try again") from None

    async def _stored_agent(self, request: Request) -> tuple[AgentRecord, AgentBody]:
        record = await self._read(agent_named, request.parts[2])
        return record, stored_body(record)

    def _submit(self, request: Request, work: Callable[[Batch], Any], **about: Any) -> Any:
        name = request.parts[2]
        if not NAME.match(name):
            raise _no_agent(name)
        about |= {"who": request.caller.name, "request_id": request.id}
        return self.writer.submit(Command(name, work, **about))

    # Agents.

    async def put_agent(self, request: Request) -> Response:
        name = request.parts[2]
        if not NAME.match(name):
            raise Unprocessable("a name has letters and digits, and . _ - inside; at most 64 characters")
        body = await request.body(AgentBody)
        check_body(body)

        def work(batch: Batch) -> tuple[contract.Agent, int]:
            created = name not in batch.found and batch.create(_new_agent(name, body, batch.now))
            if created:
                batch.note("agent made", name)
            record = batch.live_agent(name).record
            known = roster(record)
            if not created and body not in (known.body, known.first):
                raise Conflict(
                    f"there is an agent {name} already, and it is another one: choose another name, or change it "
                    f"with PATCH /v1/agents/{name}"
                )
            return views.agent(record, batch.now), 201 if created else 200

        agent, status = await self._submit(request, work)
        return json_response(agent, status)

    async def patch_agent(self, request: Request) -> Response:
        body = await request.body(ChangeBody)
        name = request.parts[2]

        def work(batch: Batch) -> contract.Agent:
            live = batch.live_agent(name)
            live.change(body)
            return views.agent(live.record, batch.now)

        return json_response(await self._submit(request, work))

    async def get_agents(self, request: Request) -> Response:
        query = request.query()
        if query["after"] and not NAME.match(query["after"]):
            raise Unprocessable("after must be the name of an agent: the `next` of the last page")
        caller = request.caller
        reaches = None if caller.agents is None else caller.reaches
        records, more = await self._read(queries.read_agent_page, query["after"], query["limit"], reaches)
        now, next_page, shown = self.store.time.now(), records[-1].name if more else None, []
        for record in records:
            try:
                shown.append(views.agent(record, now))
            except Unreadable:  # the others are shown all the same; /readyz tells of this one
                self.writer.note_broken(record.name, "its body cannot be read")
        return json_response(contract.AgentList(shown, next_page))

    async def get_agent(self, request: Request) -> Response:
        record, _ = await self._stored_agent(request)
        return json_response(views.agent(record, self.store.time.now()))

    async def delete_agent(self, request: Request) -> Response:
        name = request.parts[2]
        if request.query()["confirm"] != name:
            raise Unprocessable(f"to delete {name} with all of its records for ever, add ?confirm={name}")

        def work(batch: Batch) -> None:
            batch.delete(name)
            batch.note("agent deleted", name)

        await self._submit(request, work)
        return json_response(contract.Deleted(name))

    async def post_pause(self, request: Request) -> Response:
        return await self._pause(request, True)

    async def post_resume(self, request: Request) -> Response:
        return await self._pause(request, False)

    async def _pause(self, request: Request, paused: bool) -> Response:
        await request.body(NoBody)

        def work(batch: Batch) -> contract.Agent:
            live = batch.live_agent(request.parts[2])
            live.pause(paused)
            return views.agent(live.record, batch.now)

        return json_response(await self._submit(request, work))

    # Decisions, feedback and budget.

    async def post_decision(self, request: Request) -> Response:
        body = await request.body(DecisionBody)
        event_id = None if body.event_id is UNSET else body.event_id
        name = request.parts[2]

        def work(batch: Batch) -> contract.Decision:
            live = batch.live_agent(name)
            return views.decision(name, live.body, live.decide(body, event_id))

        return bare_json_response(await self._submit(request, work, event_id=event_id))

    async def post_feedback(self, request: Request) -> Response:
        body = await request.body(FeedbackBody)
        name, event_id = request.parts[2], _event_id(request)

        def work(batch: Batch) -> contract.Feedback:
            return views.feedback(name, batch.live_agent(name).answer(event_id, body))

        return bare_json_response(await self._submit(request, work, event_id=event_id))

    async def post_activate(self, request: Request) -> Response:
        return await self._lease(request, "activate")

    async def post_release(self, request: Request) -> Response:
        return await self._lease(request, "release")

    async def _lease(self, request: Request, step: str) -> Response:
        await request.body(NoBody)
        name, event_id = request.parts[2], _event_id(request)

        def work(batch: Batch) -> contract.Event:
            live = batch.live_agent(name)
            return views.event(name, live.body, getattr(live, step)(event_id))

        return json_response(await self._submit(request, work, event_id=event_id))

    async def post_erase(self, request: Request) -> Response:
        return await self._lease(request, "erase")

    async def post_grant(self, request: Request) -> Response:
        body = await request.body(GrantBody)
        name = request.parts[2]

        def work(batch: Batch) -> contract.Booking:
            return views.booking(name, batch.live_agent(name).grant(body.grant_id, body.amount))

        return json_response(await self._submit(request, work, booking=("grant", body.grant_id)))

    async def post_charge(self, request: Request) -> Response:
        body = await request.body(ChargeBody)
        name = request.parts[2]

        def work(batch: Batch) -> contract.Booking:
            return views.booking(name, batch.live_agent(name).charge(body.charge_id, body.amount))

        return json_response(await self._submit(request, work, booking=("charge", body.charge_id)))

    # Reading.

    async def get_decisions(self, request: Request) -> Response:
        query = request.query()
        record, body = await self._stored_agent(request)
        payload = query["payload"] == "true"
        found = await self._read(queries.read_decisions, record.id, query["before"], query["limit"], payload)
        return json_response(views.events(record.name, body, *found))

    async def get_decision(self, request: Request) -> Response:
        record, body = await self._stored_agent(request)
        found = await self._read(queries.read_decision, record.id, _event_id(request))
        if found is None:
            raise NotFound(f"agent {record.name} has made no decision with this event_id")
        return json_response(views.event(record.name, body, found))

    async def get_asks(self, request: Request) -> Response:
        query = request.query()
        record, body = await self._stored_agent(request)
        found = await self._read(queries.read_asks, record.id, query["status"], query["after"], query["limit"])
        return json_response(views.events(record.name, body, *found))

    async def get_estimates(self, request: Request) -> Response:
        context = request.query()["context"]
        name = request.parts[2]
        return json_response(
            await self._submit(request, lambda batch: estimate_actions(batch.live_agent(name), context))
        )

    async def get_history(self, request: Request) -> Response:
        points = request.query()["points"]
        record, _ = await self._stored_agent(request)
        places = views.places(record.seq, points)
        counters = await self._read(queries.read_counters, record.id, places) if places else []
        return json_response(views.history(record, counters, self.store.time.now()))

    async def get_log(self, request: Request) -> Response:
        query = request.query()
        record, _ = await self._stored_agent(request)
        if query["format"] == "jsonl":
            # The first chunk is read before the headers are sent, so that an error in it still becomes a 503.
            first = await self._run_in(self._exporters, export.json_lines, record, query["after"])
            return Response(kind=b"application/x-ndjson", stream=self._log_chunks(record, *first))
        folder = tempfile.TemporaryDirectory(prefix="sparingly-")
        path = Path(folder.name) / "log.parquet"
        try:
            await self._run_in(self._exporters, export.write_parquet, record, query["after"], path)
        except BaseException:
            folder.cleanup()
            raise
        disposition = (b"content-disposition", f'attachment; filename="{record.name}.parquet"'.encode())
        return Response(
            kind=b"application/vnd.apache.parquet", headers=(*SAFE, disposition), stream=_file_chunks(path, folder)
        )

    async def _log_chunks(self, record: AgentRecord, chunk: bytes, last: int) -> AsyncIterator[bytes]:
        """The log in chunks. Each is read on its own, so that a slow client does not keep a transaction open."""
        yield chunk
        while last < record.seq:
            chunk, last = await self._run_in(self._exporters, export.json_lines, record, last)
            yield chunk

    # The service itself.

    async def get_clock(self, request: Request) -> Response:
        return json_response(await self.writer.submit(Command("", lambda batch: views.clock(self.store.time))))

    async def post_confirm(self, request: Request) -> Response:
        body = await request.body(ConfirmBody)
        given = round(body.now.timestamp() * 1_000_000)

        def work(batch: Batch) -> None:
            shown = self.store.clock()
            if abs(shown - given) > TOLERANCE:
                raise Conflict(
                    f"the clock shows {views.time_of(shown)}, which is not the time that you give: set it right. It is "
                    "trusted again by itself then"
                )
            self.store.confirm_clock()
            batch.note("clock confirmed", views.time_of(shown))

        await self.writer.submit(Command("", work, who=request.caller.name))
        return await self.get_clock(request)  # after the commit, so that it is followed

    async def get_health(self, request: Request) -> Response:
        return json_response(contract.Health("ok", __version__))

    async def get_ready(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(2.0):
                await self.writer.submit(Command("", lambda batch: self.store.touch(batch.now)))
        except (Unavailable, TimeoutError):
            reason = self.writer.storage_error or "the storage is slow"
            if not self._may_know(request):
                reason = "the storage is in doubt"  # details, such as paths, only for callers with the token
            return json_response(contract.Health("unavailable", __version__, reason), 503)
        damaged = self.writer.damaged | set(self.writer.broken)
        if damaged or not self.writer.alive or any(task.done() for task in self._own_tasks):
            reason = "a task has ended; restart the service"
            if damaged:
                names = ", ".join(sorted(damaged)[:5]) if self._may_know(request) else "some agents"
                reason = f"{names}: the counters do not agree with the log; see the guide to deployment, Damage"
            return json_response(contract.Health("unavailable", __version__, reason), 503)
        return json_response(contract.Health("ok", __version__))

    async def get_metrics(self, request: Request) -> Response:
        query = request.query()
        try:
            found = await self._read(self.metrics.read_agents, query["after"], query["agents"], timeout=1.0)
        except Unavailable:
            found = [], 0  # show the counters of the process anyway
        return Response(self.metrics.text(*found), kind=metrics.KIND)

    async def get_document(self, request: Request) -> Response:
        return Response(self.static.document)

    async def get_docs(self, request: Request) -> Response:
        return self.static.docs()

    async def get_page(self, request: Request) -> Response:
        return self.static.file("index.html")

    async def get_file(self, request: Request) -> Response:
        return self.static.file(request.parts[1])


def agent_named(read: queries.Select, name: str) -> AgentRecord:
    """The stored agent of this name, or NotFound."""
    records = queries.read_agents(read, name) if NAME.match(name) else []
    if not records:
        raise _no_agent(name)
    return records[0]


def _new_agent(name: str, body: AgentBody, now: int) -> AgentRecord:
    zero: dict[str, Any] = dict.fromkeys(AGENT_COLUMNS, 0)
    text, initial = msgspec.json.encode(body).decode(), units_of(body.budget.initial)
    first = chain.start(name, now)
    given = {"name": name, "body": text, "created": now, "last_at": now, "granted": initial, "chain": first}
    return AgentRecord(**{**zero, **given})


def _no_agent(name: str) -> NotFound:
    return NotFound(f"there is no agent {name[:80]!r}; GET /v1/agents lists them")


def _event_id(request: Request) -> str:
    if not ID.match(request.parts[4]):
        raise NotFound("there is no decision with this event_id: it has characters that no event_id has")
    return request.parts[4]


def _error_response(error: HttpError, path: str) -> Response:
    return Response(error.body(path[:200]), error.status, PROBLEM, (*SAFE, *error.headers))


async def _file_chunks(path: Path, folder: tempfile.TemporaryDirectory[str]) -> AsyncIterator[bytes]:
    """The content of a file, in chunks; its temporary folder is removed afterwards."""
    with folder, path.open("rb") as file:
        while chunk := file.read(65_536):
            yield chunk


async def _send(send: Send, response: Response, receive: Receive) -> None:
    headers = [(b"content-type", response.kind), *response.headers]
    if response.stream is None:
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if response.stream is not None:
        gone = asyncio.ensure_future(receive())  # the only message that can follow is a disconnect
        try:
            async for chunk in response.stream:
                if gone.done() and gone.result()["type"] == "http.disconnect":
                    break
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except Unavailable:
            return  # without its end, so that the caller notices: the server breaks the connection
        finally:
            gone.cancel()
    await send({"type": "http.response.body", "body": response.body})
