"""How the clients talk to the service, without talking: requests as values, answers as types, tries, pages and logs.

A conversation is a generator of steps. It says what to send, what to read and how long to pause, is told what came of
it, and hands over what it found; whoever drives it does the waiting, blocking or not.
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
from sparingly.checks import table
from sparingly.errors import InvalidInput, ServiceError
from sparingly.serve import contract
from sparingly.version import __version__

T = TypeVar("T")
Json: TypeAlias = dict[str, Any]

AGAIN = frozenset({429, 502, 503, 504})  # the service, or what stands before it, cannot answer at this moment
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds; a pause is drawn evenly from zero up to these ("full jitter")
KINDS = {401: errors.Unauthorized, 403: errors.Unauthorized, 404: errors.NotFound, 409: errors.Conflict}
HINTS = {
    401: "give the client the token that the service was started with: Client(url, token=…)",
    403: "something in front of the service keeps this client out: ask who runs it",
    404: "check the name and the id; client.agents() lists the agents",
    409: "repeat the call with what was sent first, or take a new id",
}


# What a call is made of.


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and the type of its answer."""

    method: str
    path: str
    answer: type[T]
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: bytes | None = None
    id: tuple[str, str] | None = None  # under which name and id the service remembers it
    fine: tuple[int, ...] = ()  # statuses that are no errors here, besides 200 and 201
    if_gone: T | None = None  # the answer if an earlier try may have removed it already


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request, and tell the response or the error; with `stream`, its body is read in pieces."""

    call: Call[Any]
    timeout: float
    stream: bool

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """The same as httpx wants it."""
        call = self.call
        kind = None if call.body is None else {"content-type": "application/json"}
        return http.build_request(
            call.method, call.path, params=call.query, content=call.body, headers=kind, timeout=self.timeout
        )


@dataclass(frozen=True, slots=True)
class Read:
    """Tell the next piece of the last response, b"" at its end, or the error."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Hand this to the caller."""

    item: T


Reply: TypeAlias = httpx.Response | httpx.HTTPError | bytes | None
Step: TypeAlias = Send | Read | Pause | Found[T]
Answer: TypeAlias = Generator[Step[T], Reply, None]  # one item; from AsyncClient it must be awaited
Items: TypeAlias = Generator[Step[T], Reply, None]  # any number; from AsyncClient for `async for`


def advance(steps: Generator[Step[T], Reply, None], reply: Reply) -> Step[T] | None:
    """The next step, None at the end."""
    try:
        return steps.send(reply)
    except StopIteration:
        return None


# Requests.


def segment(value: str, what: str) -> str:
    """A piece of a path: whatever is in it, it stays one piece."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{what} must be a string that is not empty, not {value!r}")
    try:
        quoted = quote(value, safe="")
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} must be text; {value!r} has half a surrogate pair") from None
    return quoted.replace(".", "%2E") if value in (".", "..") else quoted  # dots would lead up the path


def agent_path(name: str, below: str = "") -> str:
    """Where an agent is, and what is below it."""
    return f"v1/agents/{segment(name, 'the name of the agent')}{'/' if below else ''}{below}"


def event_path(agent: str, event_id: str, below: str = "") -> str:
    """Where a decision is, and what is below it."""
    return agent_path(agent, f"decisions/{segment(event_id, 'event_id')}{'/' if below else ''}{below}")


def plain(value: Any) -> Any:
    """What JSON has no word for: arrays and numbers of numpy, types of the contract."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


def as_json(value: Any, what: str) -> msgspec.Raw:
    """JSON of anything. (msgspec would send NaN as null, which may mean something else.)"""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=plain)
        return msgspec.Raw(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} must be something that JSON can say: {error}") from None


def encoded(body: Mapping[str, Any] | msgspec.Raw) -> bytes:
    """A body to send; what is None is left out."""
    given = {k: v for k, v in body.items() if v is not None} if isinstance(body, Mapping) else body
    try:
        result = msgspec.json.encode(given, enc_hook=plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"the values must be something that JSON can say: {error}") from None
    if len(result) > contract.LARGEST_BODY:
        raise InvalidInput(
            f"the body has {len(result):,} bytes, the service takes {contract.LARGEST_BODY:,}: send a reference instead"
        )
    return result


def as_rows(features: Any) -> list[list[float]]:
    """Features as a list of rows, one for each action."""
    rows = table(features, "features", "(actions, dim)")
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InvalidInput(f"features must be finite numbers, a row for each action; they have the shape {rows.shape}")
    result: list[list[float]] = rows.tolist()
    return result


# Answers.


def known(value: Any, info: msgspec.inspect.Type) -> Any:
    """A value without the fields that its type does not have: a newer service may say more than this client knows."""
    if isinstance(info, msgspec.inspect.ListType) and isinstance(value, list):
        return [known(item, info.item_type) for item in value]
    options = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    for option in options:
        if isinstance(option, msgspec.inspect.StructType) and isinstance(value, dict):
            kinds = {item.encode_name: item.type for item in option.fields}
            tag = {} if option.tag_field is None else {option.tag_field: option.tag}
            if tag.items() <= value.items():
                return tag | {k: known(value[k], kind) for k, kind in kinds.items() if k in value}
    return value


def parsed(body: bytes, kind: type[T]) -> T:
    """An answer as its type: strict about the fields that it knows, silent about others."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:  # bodies refuse what they do not know, also inside an answer
        return msgspec.convert(known(msgspec.json.decode(body), msgspec.inspect.type_info(kind)), kind)


def problem_of(response: httpx.Response) -> contract.Problem | None:
    """The problem document that came with a response, if one did."""
    try:
        return parsed(response.content, contract.Problem)
    except msgspec.DecodeError:
        return None


def reason_of(response: httpx.Response) -> str:
    """Why something was refused, in the words of the service if they came."""
    problem = problem_of(response)
    said = "" if problem is None else problem.detail or problem.title
    return f"{response.status_code} {response.reason_phrase}{': ' if said else ''}{said}"


def refusal(call: Call[Any], response: httpx.Response, url: str) -> ServiceError:
    """The error that a response stands for."""
    status, problem = response.status_code, problem_of(response)
    kind = KINDS.get(status, errors.Refused if 400 <= status < 500 else ServiceError)
    hint = HINTS.get(status, "")
    if status >= 500:
        hint = "look into what the service has logged"
    elif problem is None:
        hint = f"this does not look like the service: check that {url} is its address"
    return kind(f"{call.method} {call.path}: {reason_of(response)}{'. To do: ' if hint else ''}{hint}", status, problem)


def read_answer(call: Call[T], response: httpx.Response, url: str) -> T:
    """The answer of a call, or the error that came instead."""
    if response.status_code not in (200, 201, *call.fine):
        raise refusal(call, response, url)
    try:
        return parsed(response.content, call.answer)
    except msgspec.DecodeError as error:
        if response.status_code in call.fine:
            raise refusal(call, response, url) from None
        raise ServiceError(
            f"{call.method} {call.path}: the answer is no {call.answer.__name__} ({error}). "
            f"To do: check that {url} is the service, and that this client ({__version__}) is as new as it",
            response.status_code,
        ) from None


# Tries.


def seconds_to_wait(response: httpx.Response) -> float:
    """What the header Retry-After asks for: seconds, or a date."""
    asked = response.headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdecimal():
        return float(asked)
    try:
        date = parsedate_to_datetime(asked)
    except ValueError:
        return 0.0
    return max((date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0.0)


def jitter(longest: float) -> float:
    """A pause between zero and the longest, so that clients that failed together do not come back together."""
    return random.uniform(0.0, longest)  # noqa: S311 (no secret)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often to try, and with which clock and dice."""

    url: str
    timeout: float
    retries: int
    deadline: float
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[float], float] = jitter


class Tries:
    """The tries of one call: how long the next may take, how long to pause before it, and when to give up."""

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.made = 0
        self.unsure = False  # whether a try that failed may have been carried out all the same
        self.started = patience.clock()

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.started + self.patience.deadline - self.patience.clock()

    def timeout(self) -> float:
        """How long the next try may wait for the network."""
        return max(min(self.patience.timeout, self.left()), 0.001)

    def pause(self, call: Call[Any], reply: Reply) -> float:
        """How long to wait after this failure, or an error if it was the last try."""
        if isinstance(reply, httpx.HTTPError) and not passing(reply):
            raise ServiceError(f"{call.method} {call.path}: {said(reply)}. To do: check the url {self.patience.url}")
        self.unsure = self.unsure or perhaps_done(reply)
        wait = self.patience.jitter(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.made, 30)))
        self.made += 1
        if isinstance(reply, httpx.Response):
            wait += seconds_to_wait(reply)
        if self.made > self.patience.retries or wait >= self.left():
            raise self.given_up(call, reply, wait)
        return wait

    def given_up(self, call: Call[Any], reply: Reply, wait: float) -> errors.Unavailable:
        """The error after the last try."""
        took = self.patience.clock() - self.started
        tries = f"{self.made} {'try' if self.made == 1 else 'tries'} in {took:.1f} s"
        todo = "check that the service runs there, or wait"
        status = problem = None
        if isinstance(reply, httpx.Response):
            status, problem, reason = reply.status_code, problem_of(reply), reason_of(reply)
            todo = f"try again, not before {wait:.1f} s from now"
        else:
            reason = said(reply)
        text = f"{self.patience.url} does not answer {call.method} {call.path}: {reason}; {tries}. To do: {todo}"
        if call.id is not None:
            text += f"; it may be done already, so repeat the call with {call.id[0]}={call.id[1]!r}"
        error = errors.Unavailable(text, status, problem)
        error.id = None if call.id is None else call.id[1]
        return error


def passing(error: httpx.HTTPError) -> bool:
    """Whether it may go better next time."""
    return isinstance(error, httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError | httpx.ProxyError)


def perhaps_done(reply: Reply) -> bool:
    """Whether a request that failed so may have been carried out."""
    if isinstance(reply, httpx.Response):
        return reply.status_code != 429
    return not isinstance(reply, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def said(error: Reply) -> str:
    """An error of the network in words; some have none."""
    name = type(error).__name__
    return str(error) or {"ReadTimeout": "no answer in time", "PoolTimeout": "no connection was free"}.get(name, name)


# Conversations.


def response_to(call: Call[Any], tries: Tries, stream: bool = False) -> Generator[Step[Any], Reply, httpx.Response]:
    """Send until there is a response that no further try would change."""
    while True:
        reply = yield Send(call, tries.timeout(), stream)
        if isinstance(reply, httpx.Response) and (reply.status_code not in AGAIN or reply.status_code in call.fine):
            return reply
        yield Pause(tries.pause(call, reply))


def answer_to(call: Call[T], patience: Patience) -> Answer[T]:
    """A call and its answer."""
    tries = Tries(patience)
    response = yield from response_to(call, tries)
    if response.status_code == 404 and tries.unsure and call.if_gone is not None:
        yield Found(call.if_gone)
    else:
        yield Found(read_answer(call, response, patience.url))


def all_pages(
    call: Call[contract.EventList], onward: Literal["after", "before"], patience: Patience
) -> Items[contract.Event]:
    """The events of a page and of those after it."""
    while True:
        response = yield from response_to(call, Tries(patience))
        page = read_answer(call, response, patience.url)
        for event in page.events:
            yield Found(event)
        if page.next is None:
            return
        call = replace(call, query={**call.query, onward: page.next})


def all_lines(call: Call[Json], patience: Patience) -> Items[Json]:
    """The lines of a log, each once; where the connection breaks, it goes on after the last whole line."""
    tries, last = Tries(patience), -1
    while True:
        response = yield from response_to(call, tries, stream=True)
        if response.status_code != 200:
            raise refusal(call, response, patience.url)
        rest, came_further = b"", False
        while isinstance(piece := (yield Read()), bytes):
            *lines, rest = (rest + piece).split(b"\n")  # not splitlines: strings may hold other ends of lines
            for line in [*lines, rest] if not piece else lines:
                if line and (entry := read_line(call, line, patience.url))["seq"] > last:
                    last, came_further = entry["seq"], True
                    call = replace(call, query={**call.query, "after": last})
                    yield Found(entry)
            if not piece:
                return
        if came_further:  # time that the caller took over a line does not count
            tries = Tries(patience)
        yield Pause(tries.pause(call, piece))


def read_line(call: Call[Json], line: bytes, url: str) -> Json:
    """One line of a log."""
    try:
        entry = msgspec.json.decode(line, type=dict[str, Any])
        if isinstance(entry.get("seq"), int):
            return entry
    except msgspec.DecodeError:
        pass
    raise ServiceError(f"{call.method} {call.path}: {line[:80]!r} is no line of a log. To do: check the url {url}")
