"""The client of the decision service, blocking (`Client`) and for async programs (`AsyncClient`), on httpx.

Every method is written once, in `Methods`, as a generator of steps (see sans_io.py); the two clients only do the I/O.
Needs the extra `client`; `import sparingly` does not import it.
"""

from __future__ import annotations

import time
import types
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from sparingly.errors import InvalidInput, MissingExtra
from sparingly.validation import number, whole
from sparingly.version import __version__

try:
    import anyio  # a dependency of httpx; sleeps on any event loop that httpx supports
    import httpx

    from sparingly.serve import contract  # needs msgspec
    from sparingly.serve.described import described
except ImportError:
    raise MissingExtra("the client", "client") from None

from sparingly.serve.sans_io import (
    Call,
    Emit,
    Json,
    Pause,
    Read,
    Reply,
    Result,
    Results,
    RetryPolicy,
    Send,
    advance,
    agent_path,
    all_agents,
    all_lines,
    all_pages,
    as_json,
    collected,
    encode_body,
    event_path,
    feature_rows,
    result_of,
    to_builtins,
)

__all__ = ["AsyncClient", "Client"]

P = ParamSpec("P")
T = TypeVar("T")
Transport = TypeVar("Transport")

PAGE_SIZE = 200  # events in one request
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Single(Generic[P, T]):
    """A method with one result: `Client` returns it, `AsyncClient` returns a coroutine."""

    run = "_one"

    def __init__(self, build: Callable[Concatenate[Any, P], Result[T]]) -> None:
        run = self.run

        @wraps(build)
        def method(client: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
            return getattr(client, run)(build(client, *args, **kwargs))

        self._method: types.FunctionType = method  # type: ignore[assignment]  # mypy takes it for a method of this class
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Result[T]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._method.__get__(client, owner)


class Listed(Single[P, T]):
    """A method with many results: an iterator from `Client`, an async iterator from `AsyncClient`."""

    run = "_all"

    @overload  # type: ignore[override]  # an iterator in place of one result
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Results[T]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._method.__get__(client, owner)


class Methods(Generic[Transport]):
    """The methods of both clients."""

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

        `timeout`: the network timeout of one attempt, in seconds. `retries`: how many more attempts to make if the
        service cannot be reached or is busy. `deadline`: seconds after which no further attempt starts. `transport`: a
        transport for httpx, for tests and for special networks.
        """
        try:
            host, scheme = httpx.URL(url).host, httpx.URL(url).scheme
        except (httpx.InvalidURL, TypeError):
            host = scheme = ""
        if scheme not in ("http", "https") or not host:
            raise InvalidInput(f"url must be like http://127.0.0.1:8000, not {url!r}")
        headers = {"accept": "application/json", "user-agent": f"sparingly/{__version__}"}
        if token is not None:
            token = token.strip()  # it may come from a file, with a line feed
            if not token.isascii() or not token.isprintable() or " " in token or not token:
                raise InvalidInput("token must be printable ASCII without spaces, and not empty")
            headers["authorization"] = f"Bearer {token}"
        self._policy = RetryPolicy(
            url,
            number(timeout, "timeout", least=0.0, above=True),
            whole(retries, "retries", least=0, most=1_000),
            number(deadline, "deadline", least=0.0, above=True),
        )
        # Ignore proxies from the environment for this machine: they cannot reach it.
        self._connect(base_url=url, headers=headers, transport=transport, trust_env=host not in LOOPBACK)

    def _connect(self, **options: Any) -> None:
        raise NotImplementedError  # each of the two clients does

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._policy.url!r})"

    def _call(self, method: str, path: str, returns: type[T], body: Any = None, **more: Any) -> Result[T]:
        content = None if body is None else encode_body(body)
        return result_of(Call(method, path, returns, body=content, **more), self._policy)

    @Single
    def create(
        self, /, name: str, body: contract.AgentBody | Mapping[str, Any] | None = None, **fields: Any
    ) -> Result[contract.Agent]:
        """Create an agent from a body or from its fields. Repeating this is safe; a different body is a Conflict.

        Fields may be parts of the library: `learner=sp.UCB1(2)`, `rule=sp.ExactMatching()`, `budget=10`,
        `budget=sp.budgets.Linear(0.05)`, `rewards=(1, 5)`. Without names actions are called "0", "1", ….
        """
        if (body is None) == (not fields):
            raise InvalidInput("create takes either a body or its fields: learner=…, actions=…, budget=…")
        given = described(fields if body is None else body) if body is None or isinstance(body, Mapping) else body
        content = as_json(given, "the body")
        return self._call("PUT", agent_path(name), contract.Agent, content)

    @Single
    def update(
        self,
        name: str,
        *,
        add_actions: Iterable[str] = (),
        costs: Iterable[float] | None = None,
        retire_actions: Iterable[str] = (),
        add_contexts: Iterable[str] = (),
        retire_contexts: Iterable[str] = (),
        rule: Any = None,
        granted: float | None = None,
    ) -> Result[contract.Agent]:
        """Change the actions, contexts, rule or budget of an agent. What it has learnt stays. Repeating this is safe.

        `costs` are those of the added actions. `granted` raises the budget to so much in all. A retired action or
        context is never chosen again, and returns if it is added again.
        """
        named = {
            "add_actions": add_actions, "retire_actions": retire_actions, "add_contexts": add_contexts,
            "retire_contexts": retire_contexts,
        }  # fmt: skip
        for what, names in named.items():
            if isinstance(names, str):
                raise InvalidInput(f"{what} must be a list of names, not the text {names!r}; write [{names!r}]")
        body: Json = {what: list(names) for what, names in named.items()} | {"granted": granted}
        body |= {"costs": None if costs is None else list(costs), "rule": described({"rule": rule}).get("rule")}
        return self._call("PATCH", agent_path(name), contract.Agent, body)

    @Single
    def agents(self) -> Result[contract.AgentList]:
        """All agents, from all pages."""
        return all_agents(Call("GET", "v1/agents", contract.AgentList), self._policy)

    @Single
    def agent(self, name: str) -> Result[contract.Agent]:
        """An agent and its counters."""
        return self._call("GET", agent_path(name), contract.Agent)

    @Single
    def delete(self, name: str) -> Result[contract.Deleted]:
        """Delete an agent with all of its records. This cannot be undone."""
        gone = contract.Deleted(name)
        return self._call("DELETE", agent_path(name), contract.Deleted, query={"confirm": name}, if_not_found=gone)

    @Single
    def pause(self, name: str) -> Result[contract.Agent]:
        """Pause an agent: it still decides, but does not ask."""
        return self._call("POST", agent_path(name, "pause"), contract.Agent, {})

    @Single
    def resume(self, name: str) -> Result[contract.Agent]:
        """Let a paused agent ask again."""
        return self._call("POST", agent_path(name, "resume"), contract.Agent, {})

    @Single
    def decide(
        self,
        agent: str,
        context: str | int | None = None,
        features: Any = None,
        payload: Any = None,
        event_id: str | None = None,
        defer: bool = False,
    ) -> Result[contract.Decision]:
        """Decide what to do, and whether to ask for feedback.

        The same `event_id` always gets the same decision. By default the client generates one before the first attempt,
        so that the service decides once, however often the client retries. `features`: a row for each action, as lists
        or as an array. `payload`: any JSON value, shown to those who answer. `defer`: hold an ask until `activate` or
        `release`.
        """
        body: Json = {"event_id": new_id() if event_id is None else event_id, "context": context}
        if features is not None:
            body["features"] = feature_rows(features)
        if payload is not None:
            body["payload"] = as_json(payload, "payload")
        if defer:
            body["defer"] = True
        where = agent_path(agent, "decisions")
        return self._call("POST", where, contract.Decision, body, id=("event_id", body["event_id"]))

    @Single
    def observe(
        self, agent: str, event_id: str, reward: float | None = None, *, label: str | int | None = None
    ) -> Result[contract.Feedback]:
        """Report the reward of a decision, on the agent's scale, or which action was right. Repeating this is safe."""
        if (reward is None) == (label is None):
            raise InvalidInput("give either the reward of the action, or label=…, the action that was right")
        body: Json = {"label": label} if reward is None else {"reward": number(reward, "reward")}
        return self._call("POST", event_path(agent, event_id, "feedback"), contract.Feedback, body)

    @Single
    def activate(self, agent: str, event_id: str) -> Result[contract.Event]:
        """Activate a held ask: it is shown to someone now, and spent."""
        return self._call("POST", event_path(agent, event_id, "activate"), contract.Event, {})

    @Single
    def release(self, agent: str, event_id: str) -> Result[contract.Event]:
        """Release a held ask that nobody has seen: it is refunded."""
        return self._call("POST", event_path(agent, event_id, "release"), contract.Event, {})

    @Single
    def event(self, agent: str, event_id: str) -> Result[contract.Event]:
        """A decision with its current status."""
        return self._call("GET", event_path(agent, event_id), contract.Event)

    @Single
    def grant(self, agent: str, amount: float, grant_id: str | None = None) -> Result[contract.Booking]:
        """Add to the budget, once for each `grant_id`."""
        return self._book_amount(agent, "grants", "grant_id", grant_id, amount)

    @Single
    def charge(self, agent: str, amount: float, charge_id: str | None = None) -> Result[contract.Booking]:
        """Spend budget for asks that happened but are not in the store, once for each `charge_id`."""
        return self._book_amount(agent, "charges", "charge_id", charge_id, amount)

    def _book_amount(self, agent: str, kind: str, name: str, id: str | None, amount: float) -> Result[contract.Booking]:
        body = {name: new_id() if id is None else id, "amount": number(amount, "amount", least=0.0)}
        return self._call("POST", agent_path(agent, kind), contract.Booking, body, id=(name, body[name]))

    @Listed
    def asks(self, agent: str, status: contract.Status = "open") -> Results[contract.Event]:
        """The asks of an agent with this status, oldest first."""
        call = Call("GET", agent_path(agent, "asks"), contract.EventList, {"status": status, "limit": PAGE_SIZE})
        return all_pages(call, "after", self._policy)

    @Listed
    def decisions(self, agent: str) -> Results[contract.Event]:
        """The decisions of an agent, newest first."""
        call = Call("GET", agent_path(agent, "decisions"), contract.EventList, {"limit": PAGE_SIZE})
        return all_pages(call, "before", self._policy)

    @Listed
    def log(self, agent: str, after: int = 0) -> Results[Json]:
        """The log of an agent, oldest first, as it arrives; `after` skips the lines up to this `seq`."""
        query: dict[str, str | int] = {"format": "jsonl", "after": whole(after, "after", least=0)}
        return all_lines(Call("GET", agent_path(agent, "log"), dict, query), self._policy)

    @Single
    def frame(self, agent: str) -> Result[Any]:
        """All decisions of an agent as a pandas data frame, oldest first: one row each, with what became of it."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("Client.frame", "lab") from None

        def made(events: list[contract.Event]) -> Any:
            frame = pandas.DataFrame(
                [to_builtins(event) for event in reversed(events)], columns=list(contract.Event.__struct_fields__)
            )
            for column in ("decided_at", "due_at", "answered_at"):
                frame[column] = pandas.to_datetime(frame[column], utc=True)
            return frame

        call = Call("GET", agent_path(agent, "decisions"), contract.EventList, {"limit": PAGE_SIZE})
        return collected(all_pages(call, "before", self._policy), made)

    @Single
    def estimates(self, agent: str, context: str | None = None) -> Result[contract.Estimates]:
        """The estimates of all actions, in one context."""
        query = {} if context is None else {"context": context}
        return self._call("GET", agent_path(agent, "estimates"), contract.Estimates, query=query)

    @Single
    def history(self, agent: str, points: int = 200) -> Result[contract.History]:
        """The budget, the asks and the answers over time."""
        query = {"points": whole(points, "points")}
        return self._call("GET", agent_path(agent, "history"), contract.History, query=query)

    @Single
    def health(self) -> Result[contract.Health]:
        """Whether the service can decide. If it runs but cannot, the status is "unavailable"."""
        return self._call("GET", "readyz", contract.Health, accepted=(503,))


def new_id() -> str:
    """A new unique id."""
    return str(uuid.uuid4())


class Client(Methods[httpx.BaseTransport]):
    """A blocking client of the decision service; threads may share it.

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

    def _one(self, steps: Result[T]) -> T:
        (result,) = self._all(steps)
        return result

    def _all(self, steps: Results[T]) -> Iterator[T]:
        reply: Reply = None
        pieces: Iterator[bytes] = iter(())
        with ExitStack() as opened:
            while (step := advance(steps, reply)) is not None:
                reply = None
                try:
                    if isinstance(step, Send):
                        opened.close()  # the previous response has been read
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
                elif isinstance(step, Emit):
                    yield step.item


class AsyncClient(Methods[httpx.AsyncBaseTransport]):
    """An async client of the decision service, with the methods of `Client`; tasks may share it.

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

    async def _one(self, steps: Result[T]) -> T:
        (result,) = [item async for item in self._all(steps)]
        return result

    async def _all(self, steps: Results[T]) -> AsyncIterator[T]:
        reply: Reply = None
        pieces: AsyncIterator[bytes] | None = None
        async with AsyncExitStack() as opened:
            while (step := advance(steps, reply)) is not None:
                reply = None
                try:
                    if isinstance(step, Send):
                        await opened.aclose()  # the previous response has been read
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
                elif isinstance(step, Emit):
                    yield step.item
