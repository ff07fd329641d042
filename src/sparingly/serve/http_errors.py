"""The errors of the service. Each has an HTTP status, and becomes a problem document (RFC 9457).

HttpError
├── BadRequest 400            not JSON, or ambiguous JSON
├── Unauthorized 401
├── Forbidden 403             the token is known, but not for this
├── NotFound 404              no such agent, decision or path
├── MethodNotAllowed 405
├── Conflict 409              an id was used for something else, or the current status does not allow the operation
├── ContentTooLarge 413
├── UnsupportedMediaType 415  the body is not application/json
├── MisdirectedRequest 421    the host name is not local
├── Unprocessable 422         valid JSON, but it does not fit the contract or the agent
├── TooManyRequests 429       more requests than the token is for
├── HeadersTooLarge 431
├── InternalError 500
└── Unavailable 503           the storage cannot be trusted at the moment, so nothing is asked
    └── Damaged               … because an agent does not agree with its log
"""

from __future__ import annotations

import math

import msgspec

from sparingly.serve import contract


class HttpError(Exception):
    """The base of all errors of the service; `headers` are added to the response."""

    status = 500
    title = "Internal error"
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def body(self, instance: str = "") -> bytes:
        """The problem document."""
        kind = f"urn:sparingly:problem:{self.title.lower().replace(' ', '-')}"
        return msgspec.json.encode(contract.Problem(kind, self.title, self.status, self.detail, instance))


class InternalError(HttpError):
    """A bug in the service; its log has the details."""


class BadRequest(HttpError):
    status, title = 400, "Malformed"


class Unauthorized(HttpError):
    status, title = 401, "Unauthorized"
    headers = ((b"www-authenticate", b'Bearer realm="sparingly"'),)


class Forbidden(HttpError):
    status, title = 403, "Forbidden"


class NotFound(HttpError):
    status, title = 404, "Not found"


class MethodNotAllowed(HttpError):
    status, title = 405, "Method not allowed"

    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"{method} is not possible here; {', '.join(allowed)} is")
        self.headers = ((b"allow", ", ".join(allowed).encode()),)


class Conflict(HttpError):
    status, title = 409, "Conflict"


class ContentTooLarge(HttpError):
    status, title = 413, "Too large"


class UnsupportedMediaType(HttpError):
    status, title = 415, "Wrong content type"


class MisdirectedRequest(HttpError):
    status, title = 421, "Wrong host"


class Unprocessable(HttpError):
    status, title = 422, "Does not fit"


class TooManyRequests(HttpError):
    status, title = 429, "Too many requests"

    def __init__(self, detail: str, seconds: float) -> None:
        super().__init__(detail)
        self.headers = ((b"retry-after", str(max(math.ceil(seconds), 1)).encode()),)


class HeadersTooLarge(HttpError):
    status, title = 431, "Headers too large"


class Unavailable(HttpError):
    """The outcome is unknown to the caller; a retry with the same event_id will tell."""

    status, title = 503, "Unavailable"
    headers = ((b"retry-after", b"1"),)


class Damaged(Unavailable):
    """The counters of an agent do not agree with its log: somebody or something has changed the data."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the counters of {name} do not agree with its log; nothing is asked until this is repaired")


class Unreadable(Damaged):
    """The stored body of an agent is none any more."""
