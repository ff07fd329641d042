"""The protocol of the clients without any I/O: requests, responses, retries, pagination and streaming of logs.

Every call is a generator of steps. It yields what to send, what to read, how long to pause, and the results for the
caller; it is sent the replies. The two clients drive these generators, one with blocking and one with async I/O.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import numpy as np

from sparingly import errors
from sparingly.errors import InvalidInput, ServiceError
from sparingly.serve import contract
from sparingly.validation import table
from sparingly.version import __version__

T = TypeVar("T")
Json: TypeAlias = dict[str, Any]

RETRY_STATUSES = frozenset({429, 502, 503, 504})  # the service, or a proxy in front of it, is busy
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds; pauses are uniform between zero and these ("full jitter")
ERRORS = {401: errors.Unauthorized, 403: errors.Unauthorized, 404: errors.NotFound, 409: errors.Conflict}
HINTS = {
    401: "give the client the token that the service was started with: Client(url, token=…)",
    403: "something in front of the service keeps this client out: ask who runs it",
    404: "check the name and the id; client.agents() lists the agents",
    409: "repeat the call with what was sent first, or take a new id",
}


# Calls and steps.


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and the type that its response is decoded to."""

    method: str
    path: str
    returns: type[T]
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: bytes | None = None
    id: tuple[str, str] | None = None  # the name and value of the id that makes a retry safe
    accepted: tuple[int, ...] = ()  # statuses that are not errors, besides 200 and 201
    if_not_found: T | None = None  # the result of a 404 after a try that may have succeeded


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request, and reply with the response or the error; with `stream`, the body is read in chunks."""

    call: Call[Any]
    timeout: float
    stream: bool

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """The request for httpx."""
        call = self.call
        kind = None if call.body is None else {"content-type": "application/json"}
        return http.build_request(
            call.method, call.path, params=call.query, content=call.body, headers=kind, timeout=self.timeout
        )


@dataclass(frozen=True, slots=True)
class Read:
    """Reply with the next chunk of the last response, b"" at its end, or the error."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit(Generic[T]):
    """Pass this item to the caller."""

    item: T


Reply: TypeAlias = httpx.Response | httpx.HTTPError | bytes | None
Step: TypeAlias = Send | Read | Pause | Emit[T]
Result: TypeAlias = Generator[Step[T], Reply, None]  # of a method with one result
Results: TypeAlias = Generator[Step[T], Reply, None]  # of a method that iterates


def advance(steps: Generator[Step[T], Reply, None], reply: Reply) -> Step[T] | None:
    """The next step, None at the end."""
    try:
        return steps.send(reply)
    except StopIteration:
        return None


# Requests.


def segment(value: str, what: str) -> str:
    """Quote a value as a single segment of a path."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{what} must be a string that is not empty, not {value!r}")
    try:
        quoted = quote(value, safe="")
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} must be text; {value!r} has half a surrogate pair") from None
    return quoted.replace(".", "%2E") if value in (".", "..") else quoted  # httpx resolves . and .. in a path


def agent_path(name: str, below: str = "") -> str:
    """The path of an agent, or of something below it."""
    return f"v1/agents/{segment(name, 'the name of the agent')}{'/' if below else ''}{below}"


def event_path(agent: str, event_id: str, below: str = "") -> str:
    """The path of a decision, or of something below it."""
    return agent_path(agent, f"decisions/{segment(event_id, 'event_id')}{'/' if below else ''}{below}")


def to_builtins(value: Any) -> Any:
    """Convert what JSON cannot encode: numpy arrays and scalars, and types of the contract."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


def as_json(value: Any, what: str) -> msgspec.Raw:
    """Encode anything as JSON. (msgspec would send NaN as null, which may mean something else.)"""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=to_builtins)
        return msgspec.Raw(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} must be something that JSON can represent: {error}") from None


def encode_body(body: Mapping[str, Any] | msgspec.Raw) -> bytes:
    """Encode a request body, without the fields that are None."""
    given = {k: v for k, v in body.items() if v is not None} if isinstance(body, Mapping) else body
    try:
        result = msgspec.json.encode(given, enc_hook=to_builtins)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"the values must be something that JSON can represent: {error}") from None
    if len(result) > contract.LARGEST_BODY:
        raise InvalidInput(
            f"the body has {len(result):,} bytes, the service takes {contract.LARGEST_BODY:,}: send a reference instead"
        )
    return result


def feature_rows(features: Any) -> list[list[float]]:
    """Convert features to a list of rows, one for each action."""
    rows = table(features, "features", "(actions, dim)")
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InvalidInput(f"features must be finite numbers, a row for each action; they have the shape {rows.shape}")
    result: list[list[float]] = rows.tolist()
    return result


# Responses.


def without_unknown_fields(value: Any, info: msgspec.inspect.Type) -> Any:
    """Drop the fields that a type does not have: a newer service may send more than this client knows."""
    if isinstance(info, msgspec.inspect.ListType) and isinstance(value, list):
        return [without_unknown_fields(item, info.item_type) for item in value]
    options = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    for option in options:
        if isinstance(option, msgspec.inspect.StructType) and isinstance(value, dict):
            kinds = {item.encode_name: item.type for item in option.fields}
            tag = {} if option.tag_field is None else {option.tag_field: option.tag}
            if tag.items() <= value.items():
                return tag | {k: without_unknown_fields(value[k], kind) for k, kind in kinds.items() if k in value}
    return value


def decode(body: bytes, kind: type[T]) -> T:
    """Decode a response body: strict about the fields of the type, while unknown fields are ignored."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:  # types of request bodies forbid unknown fields, also inside a response
        value = without_unknown_fields(msgspec.json.decode(body), msgspec.inspect.type_info(kind))
        return msgspec.convert(value, kind)


def problem_of(response: httpx.Response) -> contract.Problem | None:
    """The problem document in a response, or None."""
    try:
        return decode(response.content, contract.Problem)
    except msgspec.DecodeError:
        return None


def reason_of(response: httpx.Response) -> str:
    """The reason of an error, in the words of the service if it sent any."""
    problem = problem_of(response)
    detail = "" if problem is None else problem.detail or problem.title
    return f"{response.status_code} {response.reason_phrase}{': ' if detail else ''}{detail}"


def error_of(call: Call[Any], response: httpx.Response, url: str) -> ServiceError:
    """The exception for an error response."""
    status, problem = response.status_code, problem_of(response)
    kind = ERRORS.get(status, errors.Refused if 400 <= status < 500 else ServiceError)
    hint = HINTS.get(status, "")
    if status >= 500:
        hint = "look into what the service has logged"
    elif problem is None:
        hint = f"this does not look like the service: check that {url} is its address"
    return kind(f"{call.method} {call.path}: {reason_of(response)}{'. To do: ' if hint else ''}{hint}", status, problem)


def decode_response(call: Call[T], response: httpx.Response, url: str) -> T:
    """Decode the response to a call, or raise the error that it holds."""
    if response.status_code not in (200, 201, *call.accepted):
        raise error_of(call, response, url)
    try:
        return decode(response.content, call.returns)
    except msgspec.DecodeError as error:
        if response.status_code in call.accepted:
            raise error_of(call, response, url) from None
        raise ServiceError(
            f"{call.method} {call.path}: the answer is no {call.returns.__name__} ({error}). "
            f"To do: check that {url} is the service, and that this client ({__version__}) is as new as it",
            response.status_code,
        ) from None


# Retries.


def seconds_to_wait(response: httpx.Response) -> float:
    """The seconds of the header Retry-After, which has a number or a date."""
    asked = response.headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdecimal():
        return float(asked)
    try:
        date = parsedate_to_datetime(asked)
    except ValueError:
        return 0.0
    return max((date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0.0)


def jitter(longest: float) -> float:
    """A random pause up to the longest, so that clients that failed together do not retry together."""
    return random.uniform(0.0, longest)  # noqa: S311 (no secret)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long and how often to retry."""

    url: str
    timeout: float
    retries: int
    deadline: float
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[float], float] = jitter


class Tries:
    """The attempts of one call: how long the next may take, how long to pause before it, and when to give up."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self.made = 0
        self.unsure = False  # whether a failed attempt may have been carried out
        self.started = policy.clock()

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.started + self.policy.deadline - self.policy.clock()

    def timeout(self) -> float:
        """The network timeout of the next attempt."""
        return max(min(self.policy.timeout, self.left()), 0.001)

    def pause(self, call: Call[Any], reply: Reply) -> float:
        """How long to pause after this failure; raises if it was the last attempt."""
        if isinstance(reply, httpx.HTTPError) and not is_transient(reply):
            reason = describe(reply)
            raise ServiceError(f"{call.method} {call.path}: {reason}. To do: check the url {self.policy.url}")
        self.unsure = self.unsure or may_have_been_done(reply)
        wait = self.policy.jitter(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.made, 30)))
        self.made += 1
        if isinstance(reply, httpx.Response):
            wait += seconds_to_wait(reply)
        if self.made > self.policy.retries or wait >= self.left():
            raise self.given_up(call, reply, wait)
        return wait

    def given_up(self, call: Call[Any], reply: Reply, wait: float) -> errors.Unavailable:
        """The error after the last attempt."""
        took = self.policy.clock() - self.started
        tries = f"{self.made} {'try' if self.made == 1 else 'tries'} in {took:.1f} s"
        todo = "check that the service runs there, or wait"
        status = problem = None
        if isinstance(reply, httpx.Response):
            status, problem, reason = reply.status_code, problem_of(reply), reason_of(reply)
            todo = f"try again, not before {wait:.1f} s from now"
        else:
            reason = describe(reply)
        text = f"{self.policy.url} does not answer {call.method} {call.path}: {reason}; {tries}. To do: {todo}"
        if call.id is not None:
            text += f"; it may be done already, so repeat the call with {call.id[0]}={call.id[1]!r}"
        error = errors.Unavailable(text, status, problem)
        error.id = None if call.id is None else call.id[1]
        return error


def is_transient(error: httpx.HTTPError) -> bool:
    """Whether a retry may succeed."""
    return isinstance(error, httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError | httpx.ProxyError)


def may_have_been_done(reply: Reply) -> bool:
    """Whether the service may have carried out a request that failed like this."""
    if isinstance(reply, httpx.Response):
        return reply.status_code != 429
    return not isinstance(reply, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def describe(error: Reply) -> str:
    """Describe a network error; some have no text of their own."""
    name = type(error).__name__
    return str(error) or {"ReadTimeout": "no answer in time", "PoolTimeout": "no connection was free"}.get(name, name)


# Generators of steps.


def response_to(call: Call[Any], tries: Tries, stream: bool = False) -> Generator[Step[Any], Reply, httpx.Response]:
    """Send a request, and retry until there is a final response."""
    while True:
        reply = yield Send(call, tries.timeout(), stream)
        if isinstance(reply, httpx.Response) and reply.status_code not in RETRY_STATUSES - set(call.accepted):
            return reply
        yield Pause(tries.pause(call, reply))


def result_of(call: Call[T], policy: RetryPolicy) -> Result[T]:
    """Make a call, and emit its result."""
    tries = Tries(policy)
    response = yield from response_to(call, tries)
    if response.status_code == 404 and tries.unsure and call.if_not_found is not None:
        yield Emit(call.if_not_found)
    else:
        yield Emit(decode_response(call, response, policy.url))


def all_pages(
    call: Call[contract.EventList], onward: Literal["after", "before"], policy: RetryPolicy
) -> Results[contract.Event]:
    """Emit the events of all pages of a list."""
    while True:
        response = yield from response_to(call, Tries(policy))
        page = decode_response(call, response, policy.url)
        for event in page.events:
            yield Emit(event)
        if page.next is None:
            return
        call = replace(call, query={**call.query, onward: page.next})


def all_agents(call: Call[contract.AgentList], policy: RetryPolicy) -> Result[contract.AgentList]:
    """Emit the agents of all pages as one list."""
    agents: list[contract.Agent] = []
    while True:
        response = yield from response_to(call, Tries(policy))
        page = decode_response(call, response, policy.url)
        agents += page.agents
        if page.next is None:
            yield Emit(contract.AgentList(agents))
            return
        call = replace(call, query={**call.query, "after": page.next})


def collected(steps: Results[T], made: Callable[[list[T]], Any]) -> Result[Any]:
    """Emit one result, made of all the items that these steps emit."""
    items: list[T] = []
    reply: Reply = None
    while (step := advance(steps, reply)) is not None:
        reply = None
        if isinstance(step, Emit):
            items.append(step.item)
        else:
            reply = yield step
    yield Emit(made(items))


def all_lines(call: Call[Json], policy: RetryPolicy) -> Results[Json]:
    """Emit every line of a log once; if the connection breaks, resume after the last complete line."""
    tries, last = Tries(policy), -1
    while True:
        response = yield from response_to(call, tries, stream=True)
        if response.status_code != 200:
            raise error_of(call, response, policy.url)
        rest, came_further = b"", False
        while isinstance(piece := (yield Read()), bytes):
            *lines, rest = (rest + piece).split(b"\n")  # not splitlines: strings may contain other line separators
            for line in [*lines, rest] if not piece else lines:
                if line and (entry := decode_line(call, line, policy.url))["seq"] > last:
                    last, came_further = entry["seq"], True
                    call = replace(call, query={**call.query, "after": last})
                    yield Emit(entry)
            if not piece:
                return
        if came_further:  # the time that the caller spends on a line does not count
            tries = Tries(policy)
        yield Pause(tries.pause(call, piece))


def decode_line(call: Call[Json], line: bytes, url: str) -> Json:
    """Decode one line of a log."""
    try:
        entry = msgspec.json.decode(line, type=dict[str, Any])
        if isinstance(entry.get("seq"), int):
            return entry
    except msgspec.DecodeError:
        pass
    raise ServiceError(f"{call.method} {call.path}: {line[:80]!r} is no line of a log. To do: check the url {url}")
