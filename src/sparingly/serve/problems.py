"""What the service says when it does not do what it was asked: problem documents (RFC 9457), each with its status.

Problem
├── Malformed 400    not JSON, or JSON that can be read in two ways
├── Unauthorized 401
├── Missing 404      no such agent, decision or path
├── WrongMethod 405
├── Conflict 409     the same id with another content, or a step that the state does not allow
├── TooLarge 413
├── WrongType 415    the body is not application/json
├── WrongHost 421    a name that is not this machine's
├── Unfit 422        well-formed, but it does not fit the contract or the agent
├── HeadersTooLarge 431
├── InternalError 500
└── Unavailable 503  the storage cannot be trusted at this moment: nothing is asked
"""

from __future__ import annotations

import msgspec

from sparingly.serve import contract


class Problem(Exception):
    """The root of all refusals; `headers` go with the answer."""

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


class InternalError(Problem):
    """A mistake of ours: the log of the service has the details."""


class Malformed(Problem):
    status, title = 400, "Malformed"


class Unauthorized(Problem):
    status, title = 401, "Unauthorized"
    headers = ((b"www-authenticate", b'Bearer realm="sparingly"'),)


class Missing(Problem):
    status, title = 404, "Not found"


class WrongMethod(Problem):
    status, title = 405, "Method not allowed"

    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"{method} is not possible here; {', '.join(allowed)} is")
        self.headers = ((b"allow", ", ".join(allowed).encode()),)


class Conflict(Problem):
    status, title = 409, "Conflict"


class TooLarge(Problem):
    status, title = 413, "Too large"


class WrongType(Problem):
    status, title = 415, "Wrong content type"


class WrongHost(Problem):
    status, title = 421, "Wrong host"


class Unfit(Problem):
    status, title = 422, "Does not fit"


class HeadersTooLarge(Problem):
    status, title = 431, "Headers too large"


class Unavailable(Problem):
    """Nothing was asked for, as far as the caller knows; the same event_id tells later what became of it."""

    status, title = 503, "Unavailable"
    headers = ((b"retry-after", b"1"),)
