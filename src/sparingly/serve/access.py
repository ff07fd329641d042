"""Who may do what: the token of the operator, which may do everything, and tokens in the store, which may do less.

Of a token the store has only a digest. Tokens are long and random, so a plain hash is enough: nothing can be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import structlog

from sparingly.errors import InvalidInput
from sparingly.serve import queries
from sparingly.serve.http import Request, Route
from sparingly.serve.http_errors import Forbidden, TooManyRequests, Unauthorized
from sparingly.serve.token_contract import Scope

SCOPES: tuple[str, ...] = get_args(Scope)
OPERATOR = "operator"  # the name of the token in the file
PREFIX = "sp_"
CACHED = 10_000
# What an operation takes, if not "read" to look and "administer" to change something.
NEEDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("GET", "/v1/me"): SCOPES,
    ("GET", "/v1/tokens"): ("administer",),
    ("GET", "/v1/audit"): ("administer",),
    ("GET", "/v1/agents/{name}"): ("read", "answer", "decide", "grant"),
    ("GET", "/v1/agents/{name}/asks"): ("read", "answer"),
    ("GET", "/v1/agents/{name}/decisions/{event_id}"): ("read", "answer", "decide"),
    ("POST", "/v1/agents/{name}/decisions"): ("decide",),
    ("POST", "/v1/agents/{name}/decisions/{event_id}/activate"): ("decide",),
    ("POST", "/v1/agents/{name}/decisions/{event_id}/release"): ("decide",),
    ("POST", "/v1/agents/{name}/decisions/{event_id}/feedback"): ("answer",),
    ("POST", "/v1/agents/{name}/grants"): ("grant",),
}
WHOLE = ("/v1/tokens", "/v1/audit", "/v1/clock", "/metrics")  # not for tokens of some agents only
log = structlog.get_logger("sparingly")


@dataclass(frozen=True)
class Caller:
    """Who calls: the name of the token, and what it may do."""

    name: str = ""
    scopes: frozenset[str] = frozenset(SCOPES)
    agents: tuple[str, ...] | None = None  # names, or prefixes that end in *; None: all
    rate: float | None = None
    expires: int | None = None

    def reaches(self, agent: str) -> bool:
        """Whether it is for this agent."""
        return self.agents is None or any(
            agent.startswith(name[:-1]) if name.endswith("*") else agent == name for name in self.agents
        )


ANYBODY = Caller()


class Access:
    """Finds out who calls, and refuses what they may not do. One for each process; the tokens are read now and then."""

    def __init__(self, token: str | None, file: Path | None = None) -> None:
        self.token, self._file = token, file
        self._checked, self._stamp = 0.0, _stamp(file)
        self._tokens: dict[str, Caller] = {}  # by digest
        self._callers: dict[bytes, Caller] = {}  # by header
        self._buckets: dict[str, list[float]] = {}  # of each token with a rate: what is left, and of when

    def take(self, rows: Iterable[queries.TokenRow], now: int) -> None:
        """Take over the tokens of the store."""
        found: dict[str, Caller] = {}
        for row in rows:
            agents = None if row.agents is None else tuple(row.agents.split())
            about = (row.name, frozenset(row.scopes.split()), agents, row.rate)
            found[row.digest] = Caller(*about, row.expires)
            if row.old_digest is not None and row.old_expires is not None and row.old_expires > now:
                old = row.old_expires if row.expires is None else min(row.expires, row.old_expires)
                found[row.old_digest] = Caller(*about, old)
        if found != self._tokens:
            self._tokens = found
            self._callers.clear()

    def identify(self, request: Request, now: int) -> Caller:
        """Who sends a request; Unauthorized if nobody that is known."""
        if self.token is None:
            return ANYBODY
        header = request.header(b"authorization") or b""
        self._look_at_file()
        caller = self._callers.get(header)
        if caller is None:
            caller = self._find(header)
            if len(self._callers) >= CACHED:
                self._callers.clear()
            self._callers[header] = caller
        if caller.expires is not None and caller.expires <= now:
            raise Unauthorized(f"the token {caller.name} has expired; ask for a new one")
        return caller

    def _find(self, header: bytes) -> Caller:
        scheme, _, given = header.partition(b" ")
        given = given.strip(b" ")
        if scheme.lower() == b"bearer":
            if self.token is not None and hmac.compare_digest(given, self.token.encode()):
                return Caller(OPERATOR)
            caller = self._tokens.get(digest_of(given))
            if caller is not None:
                return caller
        raise Unauthorized("send the header `authorization: Bearer TOKEN` with a token of this service")

    def check(self, caller: Caller, request: Request, route: Route) -> None:
        """Refuse what this caller may not do, or not that often."""
        if caller is ANYBODY or caller.name == OPERATOR:
            return
        needed = NEEDS.get((route.method, route.path), ("read",) if route.method == "GET" else ("administer",))
        if caller.scopes.isdisjoint(needed):
            raise Forbidden(f"the token {caller.name} may {', '.join(sorted(caller.scopes))}; this takes {needed[0]}")
        if route.path.startswith("/v1/agents/{name}"):
            if not caller.reaches(request.parts[2]):
                raise Forbidden(f"the token {caller.name} is not for this agent")
        elif caller.agents is not None and route.path.startswith(WHOLE):
            raise Forbidden(f"the token {caller.name} is for some agents only")
        if caller.rate is not None:
            self._draw(caller.name, caller.rate)

    def _draw(self, name: str, rate: float) -> None:
        """Count a request; TooManyRequests if there were too many. What was not used is kept for a second."""
        now, most = time.monotonic(), max(rate, 1.0)
        bucket = self._buckets.setdefault(name, [most, now])
        left = min(bucket[0] + (now - bucket[1]) * rate, most)
        if left < 1.0:
            bucket[:] = left, now
            raise TooManyRequests(f"the token {name} is for {rate:g} requests a second", (1.0 - left) / rate)
        bucket[:] = left - 1.0, now

    def _look_at_file(self) -> None:
        """Once a second: a new token in the file takes the place of the old one."""
        now = time.monotonic()
        if self._file is None or now < self._checked + 1.0:
            return
        self._checked = now
        stamp = _stamp(self._file)
        if stamp != self._stamp:
            from sparingly.serve.run import read_token

            self._stamp = stamp
            try:
                self.token = read_token(self._file)
            except (OSError, InvalidInput) as error:
                log.error("the file with the token cannot be used: the old token stays", reason=str(error))
                return
            self._callers.clear()
            log.info("the token was read anew", file=str(self._file))


def _stamp(file: Path | None) -> tuple[int, int, int] | None:
    """What changes when a file is written anew."""
    try:
        about = None if file is None else file.stat()
    except OSError:
        return None
    return None if about is None else (about.st_mtime_ns, about.st_size, about.st_ino)


def new_secret() -> str:
    """A token that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(token: bytes) -> str:
    """What the store has of a token."""
    return hashlib.sha256(token).hexdigest()
