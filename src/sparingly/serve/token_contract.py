"""The types of bodies and responses that are about tokens, and about who did what."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from sparingly.serve.contract import Body, Name, Seconds, Time

Scope = Literal["decide", "answer", "grant", "administer", "read"]
NameOrPrefix = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\*?$(?!\n)")]
Agents = Annotated[list[NameOrPrefix], Meta(min_length=1, max_length=100)]


class TokenBody(Body, frozen=True):
    """A token for others: what it may do (`scopes`), and with which agents; a name that ends in * is a prefix.

    Without `agents` it is for all of them, without `lasts` for ever. `rate` limits its requests a second.
    """

    name: Name
    scopes: Annotated[list[Scope], Meta(min_length=1)]
    agents: Agents | None = None
    lasts: Seconds | None = None
    rate: Annotated[float, Meta(gt=0.0, le=1e6)] | None = None


class RotateBody(Body, frozen=True):
    """A new secret for a token. The old one is good for `keep_old` seconds more."""

    keep_old: Annotated[float, Meta(ge=0.0, le=3.2e9)] = 0.0


class Token(Struct, frozen=True):
    """A token, without its secret, which is not stored."""

    name: str
    scopes: list[str]
    agents: list[str] | None  # null: all
    rate: float | None
    created_at: Time
    expires_at: Time | None


class NewToken(Struct, frozen=True):
    """A token with its secret. This is the only time that it is shown."""

    token: str
    about: Token
    links: list[str]  # for people who answer: they open the answers of an agent, and nothing else


class TokenList(Struct, frozen=True):
    """All tokens, by name."""

    tokens: list[Token]


class Me(Struct, frozen=True):
    """Who is calling, and what they may do."""

    name: str
    scopes: list[str]
    agents: list[str] | None


class Act(Struct, frozen=True):
    """Something that was done to the service: an agent or a token made or deleted, a clock confirmed."""

    id: int
    at: Time
    who: str  # the name of the token; empty where the service has none
    what: str
    subject: str


class Audit(Struct, frozen=True):
    """Who did what, oldest first, and where to go on. What was done with an agent is in its log."""

    acts: list[Act]
    next: int | None
