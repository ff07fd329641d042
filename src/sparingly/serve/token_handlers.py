"""The operations on tokens, and the audit: who made and deleted agents and tokens, and confirmed a clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sparingly.serve import contract, queries
from sparingly.serve.access import OPERATOR, SCOPES, Caller, digest_of, new_secret
from sparingly.serve.batch import Batch, Command
from sparingly.serve.factory import MICRO
from sparingly.serve.http import Query, Request, Response, Route, json_response
from sparingly.serve.http_errors import Conflict, Forbidden, NotFound
from sparingly.serve.token_contract import Act, Audit, Me, NewToken, RotateBody, Token, TokenBody, TokenList
from sparingly.serve.views import time_of

if TYPE_CHECKING:
    from sparingly.serve.app import Service


class TokenHandlers:
    """Handlers on top of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def routes(self) -> Iterator[Route]:
        """All operations of this kind."""
        token = "/v1/tokens/{name}"  # noqa: S105  a path
        yield Route("GET", "/v1/me", self.get_me, "Who am I, and what may I do?", gives=Me)
        yield Route("GET", "/v1/tokens", self.get_tokens, "List tokens", gives=TokenList)
        yield Route("POST", "/v1/tokens", self.post_token, "Make a token", TokenBody, NewToken, (201, 409))
        yield Route(
            "POST", token + "/rotate", self.post_rotate, "Give a token a new secret", RotateBody, NewToken, (404,)
        )
        yield Route("DELETE", token, self.delete_token, "Delete a token", gives=contract.Deleted)
        yield Route(
            "GET", "/v1/audit", self.get_audit, "Who made and deleted what, oldest first", gives=Audit,
            query={"limit": Query(100, least=1, most=1_000, about="How many at the most."),
                   "after": Query(0, about="Where the last page ended: its `next`.")},
        )  # fmt: skip

    async def get_me(self, request: Request) -> Response:
        who = request.caller
        agents = None if who.agents is None else list(who.agents)
        return json_response(Me(who.name, sorted(who.scopes), agents))

    async def get_tokens(self, request: Request) -> Response:
        rows = await self.service._read(queries.read_tokens)
        return json_response(TokenList([_shown(row) for row in rows]))

    async def post_token(self, request: Request) -> Response:
        body = await request.body(TokenBody)
        if self.service.access.token is None:
            raise Conflict("without --token-file everybody on this machine may do everything: start with one")
        if body.name == OPERATOR:
            raise Conflict(f"{OPERATOR} is the name of the token in the file; choose another one")
        beyond = set(body.scopes) - request.caller.scopes
        if beyond:
            raise Forbidden(f"the token {request.caller.name} cannot give what it does not have: {', '.join(beyond)}")
        secret = new_secret()
        scopes, agents = " ".join(s for s in SCOPES if s in body.scopes), None if body.agents is None else body.agents

        def work(batch: Batch) -> queries.TokenRow:
            expires = None if body.lasts is None else batch.now + round(body.lasts * MICRO)
            _check_limits(request.caller, "the token that you want", expires, body.rate)
            row = queries.TokenRow(
                body.name, digest_of(secret.encode()), scopes, None if agents is None else " ".join(agents), body.rate,
                batch.now, expires, None, None,
            )  # fmt: skip
            if not self.service.store.insert_token(row):
                raise Conflict(f"there is a token {body.name} already; rotate it, or choose another name")
            batch.note("token made", body.name)
            return row

        return await self._new(request, work, secret, 201)

    async def post_rotate(self, request: Request) -> Response:
        body = await request.body(RotateBody)
        name, secret = request.parts[2], new_secret()

        def work(batch: Batch) -> queries.TokenRow:
            row = self._found(name)
            self._check_reach(request, row)
            _check_limits(request.caller, f"the token {name}", row.expires, row.rate)
            old = (row.digest, batch.now + round(body.keep_old * MICRO)) if body.keep_old else (None, None)
            row = row._replace(digest=digest_of(secret.encode()), old_digest=old[0], old_expires=old[1])
            self.service.store.change_token(row)
            batch.note("token rotated", name)
            return row

        return await self._new(request, work, secret, 200)

    async def delete_token(self, request: Request) -> Response:
        name = request.parts[2]

        def work(batch: Batch) -> None:
            self._check_reach(request, self._found(name))
            self.service.store.delete_token(name)
            batch.note("token deleted", name)

        await self._submit(request, work)
        return json_response(contract.Deleted(name))

    async def get_audit(self, request: Request) -> Response:
        query = request.query()
        rows, more = await self.service._read(queries.read_audit, query["after"], query["limit"])
        acts = [Act(number, time_of(at), *rest) for number, at, *rest in rows]
        return json_response(Audit(acts, acts[-1].id if more else None))

    # Helpers.

    async def _new(self, request: Request, work: Any, secret: str, status: int) -> Response:
        about = _shown(await self._submit(request, work))
        links = []
        if about.scopes == ["answer"]:
            named = [name for name in about.agents or () if not name.endswith("*")]
            links = [f"/#/link/{secret}/agents/{name}/answer" for name in named]
        return json_response(NewToken(secret, about, links), status)

    async def _submit(self, request: Request, work: Any) -> Any:
        result = await self.service.writer.submit(Command("", work, who=request.caller.name))
        await self.service.read_tokens()
        return result

    def _found(self, name: str) -> queries.TokenRow:
        row = self.service.store.find_token(name)
        if row is None:
            raise NotFound(f"there is no token {name[:80]!r}; GET /v1/tokens lists them")
        return row

    def _check_reach(self, request: Request, row: queries.TokenRow) -> None:
        if not set(row.scopes.split()) <= request.caller.scopes:
            raise Forbidden(f"the token {row.name} may do more than yours")


def _check_limits(caller: Caller, which: str, expires: int | None, rate: float | None) -> None:
    """Refuse to hand out a token that lasts longer than the caller's own, or may be used more often."""
    if caller.expires is not None and (expires is None or expires > caller.expires):
        raise Forbidden(f"{which} would outlive yours, which is good until {time_of(caller.expires)}: give a `lasts`")
    if caller.rate is not None and (rate is None or rate > caller.rate):
        raise Forbidden(f"{which} would be for more requests a second than yours: give a `rate` of {caller.rate:g}")


def _shown(row: queries.TokenRow) -> Token:
    expires = None if row.expires is None else time_of(row.expires)
    agents = None if row.agents is None else row.agents.split()
    return Token(row.name, row.scopes.split(), agents, row.rate, time_of(row.created), expires)
