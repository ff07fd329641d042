"""The client of the decision service, blocking (`Client`) and for async programs (`AsyncClient`), on httpx.

Every method is written once, in `Methods`, as a conversation; the two clients only carry out its steps. Needs the extra
`client`; `import sparingly` does not import it.
"""

from __future__ import annotations

import time
import types
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from sparingly.checks import number, whole
from sparingly.errors import InvalidInput, MissingExtra
from sparingly.version import __version__

try:
    import anyio  # httpx needs it too: pauses on whatever loop httpx runs on
    import httpx

    from sparingly.serve import contract  # needs msgspec
except ImportError:
    raise MissingExtra("the client", "client") from None

from sparingly.serve.calling import (
    Answer,
    Call,
    Found,
    Items,
    Json,
    Patience,
    Pause,
    Read,
    Reply,
    Send,
    advance,
    agent_path,
    all_lines,
    all_pages,
    answer_to,
    as_json,
    as_rows,
    encoded,
    event_path,
)

__all__ = ["AsyncClient", "Client"]

P = ParamSpec("P")
T = TypeVar("T")
Transport = TypeVar("Transport")

PAGE = 200  # decisions at a time
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Answered(Generic[P, T]):
    """A method with one answer: a value from `Client`, to be awaited from `AsyncClient`."""

    run = "_one"

    def __init__(self, build: Callable[Concatenate[Any, P], Answer[T]]) -> None:
        run = self.run

        @wraps(build)
        def method(client: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
            return getattr(client, run)(build(client, *args, **kwargs))

        self._method: types.FunctionType = method  # type: ignore[assignment]  # mypy takes it for a method of this class
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Answer[T]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._method.__get__(client, owner)


class Listed(Answered[P, T]):
    """A method with many answers: an iterator from `Client`, an asynchronous one from `AsyncClient`."""

    run = "_all"

    @overload  # type: ignore[override]  # an iterator in place of one answer
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Items[T]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._method.__get__(client, owner)


class Methods(Generic[Transport]):
    """What both clients can do."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        timeout: float = 5.0,
        retries: int = 4,
        *,
        deadline: float = 30.0,
        transport: Transport | None = None,
    ) -> None:
        """Connect to the service at `url`; nothing is sent yet.

        `timeout`: seconds that one try waits for the network. `retries`: further tries if the service cannot be reached
        or cannot answer at the moment. `deadline`: seconds after which no further try begins. `transport`: how httpx
        shall send, for tests and for special networks.
        """
        try:
            host, scheme = httpx.URL(url).host, httpx.URL(url).scheme
        except (httpx.InvalidURL, TypeError):
            host = scheme = ""
        if scheme not in ("http", "https") or not host:
            raise InvalidInput(f"url must be like http://127.0.0.1:8000, not {url!r}")
        headers = {"accept": "application/json", "user-agent": f"sparingly/{__version__}"}
        if token is not None:
            token = token.strip()  # as it is read from a file
            if not token.isascii() or not token.isprintable() or " " in token or not token:
                raise InvalidInput("token must be printable ASCII without spaces, and not empty")
            headers["authorization"] = f"Bearer {token}"
        self._patience = Patience(
            url,
            number(timeout, "timeout", least=0.0, above=True),
            whole(retries, "retries", least=0, most=1_000),
            number(deadline, "deadline", least=0.0, above=True),
        )
        # A proxy of the environment cannot know the way to this machine.
        self._connect(base_url=url, headers=headers, transport=transport, trust_env=host not in LOOPBACK)

    def _connect(self, **options: Any) -> None:
        raise NotImplementedError  # by each of the two clients

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._patience.url!r})"

    def _answer(self, method: str, path: str, answer: type[T], body: Any = None, **more: Any) -> Answer[T]:
        content = None if body is None else encoded(body)
        return answer_to(Call(method, path, answer, body=content, **more), self._patience)

    @Answered
    def create(
        self, /, name: str, body: contract.AgentBody | Mapping[str, Any] | None = None, **fields: Any
    ) -> Answer[contract.Agent]:
        """Create an agent, from a body or from its fields; the same again is fine, another body is a Conflict."""
        if (body is None) == (not fields):
            raise InvalidInput("create takes either a body or its fields: learner=…, actions=…, budget=…")
        content = as_json(fields if body is None else body, "the body")
        return self._answer("PUT", agent_path(name), contract.Agent, content)

    @Answered
    def agents(self) -> Answer[contract.AgentList]:
        """All agents."""
        return self._answer("GET", "v1/agents", contract.AgentList)

    @Answered
    def agent(self, name: str) -> Answer[contract.Agent]:
        """An agent and its counters."""
        return self._answer("GET", agent_path(name), contract.Agent)

    @Answered
    def delete(self, name: str) -> Answer[contract.Deleted]:
        """Delete an agent with all that it has learnt. There is no way back."""
        gone = contract.Deleted(name)
        return self._answer("DELETE", agent_path(name), contract.Deleted, query={"confirm": name}, if_gone=gone)

    @Answered
    def pause(self, name: str) -> Answer[contract.Agent]:
        """Let an agent decide without asking anything."""
        return self._answer("POST", agent_path(name, "pause"), contract.Agent, {})

    @Answered
    def resume(self, name: str) -> Answer[contract.Agent]:
        """Let a paused agent ask again."""
        return self._answer("POST", agent_path(name, "resume"), contract.Agent, {})

    @Answered
    def decide(
        self,
        agent: str,
        context: str | int | None = None,
        features: Any = None,
        payload: Any = None,
        event_id: str | None = None,
        defer: bool = False,
    ) -> Answer[contract.Decision]:
        """What to do, and whether to ask what it was worth.

        The same `event_id` gets the same decision for ever. Without one the client makes one up, before the first try:
        the service decides once, however often the client has to try. `features`: a row for each action, as lists or as
        an array. `payload`: anything that JSON can say, for those who answer. `defer`: an ask is held until `activate`
        or `release`.
        """
        body: Json = {"event_id": new_id() if event_id is None else event_id, "context": context}
        if features is not None:
            body["features"] = as_rows(features)
        if payload is not None:
            body["payload"] = as_json(payload, "payload")
        if defer:
            body["defer"] = True
        where = agent_path(agent, "decisions")
        return self._answer("POST", where, contract.Decision, body, id=("event_id", body["event_id"]))

    @Answered
    def observe(self, agent: str, event_id: str, reward: float) -> Answer[contract.Feedback]:
        """Report what a decision was worth, on the agent's scale; the same again is fine."""
        body = {"reward": number(reward, "reward")}
        return self._answer("POST", event_path(agent, event_id, "feedback"), contract.Feedback, body)

    @Answered
    def activate(self, agent: str, event_id: str) -> Answer[contract.Event]:
        """Ask what was held: from now on it is spent."""
        return self._answer("POST", event_path(agent, event_id, "activate"), contract.Event, {})

    @Answered
    def release(self, agent: str, event_id: str) -> Answer[contract.Event]:
        """Withdraw an ask that was held and that nobody has seen; it is refunded."""
        return self._answer("POST", event_path(agent, event_id, "release"), contract.Event, {})

    @Answered
    def event(self, agent: str, event_id: str) -> Answer[contract.Event]:
        """A decision with what has become of it."""
        return self._answer("GET", event_path(agent, event_id), contract.Event)

    @Answered
    def grant(self, agent: str, amount: float, grant_id: str | None = None) -> Answer[contract.Booking]:
        """More budget; the same `grant_id` is booked once."""
        return self._book(agent, "grants", "grant_id", grant_id, amount)

    @Answered
    def charge(self, agent: str, amount: float, charge_id: str | None = None) -> Answer[contract.Booking]:
        """Count asks as spent that happened but are not in the store; the same `charge_id` is booked once."""
        return self._book(agent, "charges", "charge_id", charge_id, amount)

    def _book(self, agent: str, kind: str, name: str, id: str | None, amount: float) -> Answer[contract.Booking]:
        body = {name: new_id() if id is None else id, "amount": number(amount, "amount", least=0.0)}
        return self._answer("POST", agent_path(agent, kind), contract.Booking, body, id=(name, body[name]))

    @Listed
    def asks(self, agent: str, status: contract.Status = "open") -> Items[contract.Event]:
        """The asks of an agent with this status, oldest first, page by page."""
        call = Call("GET", agent_path(agent, "asks"), contract.EventList, {"status": status, "limit": PAGE})
        return all_pages(call, "after", self._patience)

    @Listed
    def decisions(self, agent: str) -> Items[contract.Event]:
        """The decisions of an agent, newest first, page by page."""
        call = Call("GET", agent_path(agent, "decisions"), contract.EventList, {"limit": PAGE})
        return all_pages(call, "before", self._patience)

    @Listed
    def log(self, agent: str, after: int = 0) -> Items[Json]:
        """All that happened to an agent, oldest first, line by line as it arrives; `after` the `seq` of a line."""
        query: dict[str, str | int] = {"format": "jsonl", "after": whole(after, "after", least=0)}
        return all_lines(Call("GET", agent_path(agent, "log"), dict, query), self._patience)

    @Answered
    def estimates(self, agent: str, context: str | None = None) -> Answer[contract.Estimates]:
        """What is known about each action, in one context."""
        query = {} if context is None else {"context": context}
        return self._answer("GET", agent_path(agent, "estimates"), contract.Estimates, query=query)

    @Answered
    def history(self, agent: str, points: int = 200) -> Answer[contract.History]:
        """How budget, asks and answers went."""
        query = {"points": whole(points, "points")}
        return self._answer("GET", agent_path(agent, "history"), contract.History, query=query)

    @Answered
    def health(self) -> Answer[contract.Health]:
        """Whether the service can decide; if it runs but cannot, its status is "unavailable"."""
        return self._answer("GET", "readyz", contract.Health, fine=(503,))


def new_id() -> str:
    """An id that nobody else has."""
    return str(uuid.uuid4())


class Client(Methods[httpx.BaseTransport]):
    """A client of the decision service that waits for each answer; threads may share it.

    `with Client(url) as client:` closes its connections at the end.
    """

    def _connect(self, **options: Any) -> None:
        self._http = httpx.Client(**options)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _one(self, steps: Answer[T]) -> T:
        (answer,) = self._all(steps)
        return answer

    def _all(self, steps: Items[T]) -> Iterator[T]:
        reply: Reply = None
        pieces: Iterator[bytes] = iter(())
        with ExitStack() as opened:
            while (step := advance(steps, reply)) is not None:
                reply = None
                try:
                    if isinstance(step, Send):
                        opened.close()  # the answer before this one has been read
                        reply = self._http.send(step.request(self._http), stream=step.stream)
                        opened.callback(reply.close)
                        pieces = reply.iter_bytes()
                        if not reply.is_success:
                            reply.read()
                    elif isinstance(step, Read):
                        reply = next(pieces, b"")
                except httpx.HTTPError as error:
                    reply = error
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                elif isinstance(step, Found):
                    yield step.item


class AsyncClient(Methods[httpx.AsyncBaseTransport]):
    """A client of the decision service with the methods of `Client`, to be awaited; tasks may share it.

    `async with AsyncClient(url) as client:` closes its connections at the end.
    """

    def _connect(self, **options: Any) -> None:
        self._http = httpx.AsyncClient(**options)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _one(self, steps: Answer[T]) -> T:
        (answer,) = [item async for item in self._all(steps)]
        return answer

    async def _all(self, steps: Items[T]) -> AsyncIterator[T]:
        reply: Reply = None
        pieces: AsyncIterator[bytes] | None = None
        async with AsyncExitStack() as opened:
            while (step := advance(steps, reply)) is not None:
                reply = None
                try:
                    if isinstance(step, Send):
                        await opened.aclose()  # the answer before this one has been read
                        reply = await self._http.send(step.request(self._http), stream=step.stream)
                        opened.push_async_callback(reply.aclose)
                        pieces = reply.aiter_bytes()
                        if not reply.is_success:
                            await reply.aread()
                    elif isinstance(step, Read) and pieces is not None:
                        reply = await anext(pieces, b"")
                except httpx.HTTPError as error:
                    reply = error
                if isinstance(step, Pause):
                    await anyio.sleep(step.seconds)
                elif isinstance(step, Found):
                    yield step.item
