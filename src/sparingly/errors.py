"""Every error that sparingly raises on purpose, as one small tree.

SparinglyError
├── InvalidInput      a value given by the caller is invalid; nothing was changed
│   ├── UnknownDecision   feedback for an id that was never given out
│   └── NotAwaited        feedback for a decision that expects none (answered, or never asked)
├── UnreadableFile    a saved agent is damaged, truncated, of another kind or from a newer version
├── MissingExtra      a feature needs packages of an optional extra
├── ServiceError      the decision service did not do what the client asked of it
│   ├── Conflict          409: the id was used with different content, or the state does not allow this step
│   ├── NotFound          404: there is no such agent or decision
│   ├── Refused           other 4xx: the request is invalid (also an InvalidInput)
│   ├── Unauthorized      401: the token is missing or wrong
│   └── Unavailable       no answer in time, or 429, 502, 503, 504, after all tries
└── ContractBroken    `sparingly.testing` found a learner or a rule that breaks its promise

Two are warnings. MigrationWarning: a saved agent used something that no longer exists, and goes on with a replacement.
BudgetWarning: the budget of a simulation is too small for what its rule promises.
"""

from __future__ import annotations

import json
from typing import Protocol
from urllib.parse import unquote


class SparinglyError(Exception):
    """The root of all errors raised by sparingly."""


class InvalidInput(SparinglyError, ValueError):
    """A value is invalid: the message says what was given, what was expected and what to do."""


class UnknownDecision(InvalidInput, KeyError):
    """Feedback was reported for a decision that this agent never made."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return Exception.__str__(self)


class NotAwaited(InvalidInput):
    """Feedback was reported for a decision that expects none: it was answered already, or never asked."""


class UnreadableFile(SparinglyError, ValueError):
    """A file cannot be read back: damaged, truncated, of another kind or from a newer version."""


class MigrationWarning(UserWarning):
    """A saved agent used something that no longer exists, and goes on with a replacement. Saving ends the warning."""


class MissingExtra(SparinglyError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra '{extra}': {install_command(extra)}")


def install_command(extra: str) -> str:
    """How to install an extra: from where this sparingly came, be it an index, a folder or a wheel."""
    from importlib import metadata  # only for this message

    try:
        origin = json.loads(metadata.distribution("sparingly").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        origin = {}
    url = str(origin.get("url", ""))
    if origin.get("dir_info", {}).get("editable") and url.startswith("file://"):
        return f"pip install -e '{unquote(url.removeprefix('file://'))}[{extra}]'"
    return f"pip install 'sparingly[{extra}]{' @ ' if url else ''}{url}'"


class ContractBroken(SparinglyError, AssertionError):
    """A learner or a rule does not do what every learner or rule must do."""


class BudgetWarning(UserWarning):
    """The simulation runs, but its budget is too small for what the rule promises."""


class ProblemDocument(Protocol):
    """What the service says about a refusal (RFC 9457); `sparingly.serve.contract.Problem` in full."""

    @property
    def type(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def status(self) -> int: ...
    @property
    def detail(self) -> str: ...
    @property
    def instance(self) -> str: ...


class ServiceError(SparinglyError):
    """The decision service did not do what it was asked to.

    `status` is that of its answer, None if there was none; `problem` is the document that came with it, or None.
    """

    def __init__(self, message: str, status: int | None = None, problem: ProblemDocument | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem


class Conflict(ServiceError):
    """The id was used before with different content, or the state does not allow this step. Nothing was changed."""


class NotFound(ServiceError):
    """There is no such agent or decision."""


class Refused(ServiceError, InvalidInput):
    """The request is invalid: the message has the service's reason. Nothing was changed."""


class Unauthorized(ServiceError):
    """The token is missing or wrong."""


class Unavailable(ServiceError):
    """No answer after all tries. The service may have done it anyway: repeat the call with the same id to find out.

    `id` is the event, grant or charge id of the call, also if the client made it up; None for calls without an id.
    """

    id: str | None = None
