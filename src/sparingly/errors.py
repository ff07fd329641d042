"""Every error that sparingly raises on purpose, as one small tree.

SparinglyError
├── InvalidInput      a value given by the caller does not fit; nothing was changed
│   ├── UnknownDecision   feedback for an id that was never given out
│   └── NotAwaited        feedback for a decision that awaits none (answered, or never asked)
├── UnreadableFile    a saved agent is damaged, truncated, of another kind or from a newer version
├── MissingExtra      a feature needs packages of an optional extra
└── ContractBroken    `sparingly.testing` found a learner or a rule that breaks its promise
"""

from __future__ import annotations


class SparinglyError(Exception):
    """The root of all errors raised by sparingly."""


class InvalidInput(SparinglyError, ValueError):
    """A value does not fit: the message says what was given, what was expected and what to do."""


class UnknownDecision(InvalidInput, KeyError):
    """Feedback was reported for a decision that this agent never made."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return Exception.__str__(self)


class NotAwaited(InvalidInput):
    """Feedback was reported for a decision that awaits none."""


class UnreadableFile(SparinglyError, ValueError):
    """A file cannot be read back: damaged, truncated, of another kind or from a newer version."""


class MissingExtra(SparinglyError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra '{extra}': pip install 'sparingly[{extra}]'")


class ContractBroken(SparinglyError, AssertionError):
    """A learner or a rule does not do what every learner or rule must do."""
