"""/api/v1/token: tokens that are no longer believed.

Operators revoke any; everybody what they got themselves, in every VO, by a token that is not limited to other rights.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends
from starlette.responses import Response

from services.task_definition.desk.store.audit import audit
from services.task_definition.desk.store.tokens import LATEST, SQL
from shared.auth import Caller, access, require
from shared.auth.caller import EXPIRED_WITHIN_S
from shared.db.database import Database
from shared.events import ConfigChanged
from shared.model.task_spec_problems import problem
from shared.web.envelope import BAD_REQUEST, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Page

#: as `shared.web.envelope`: the API's number for what the caller may not do
NOT_PERMITTED = 3
#: longer than any token that `orrery token` issues is valid
KEPT_S = 400 * 86_400.0
#: nobody may renew a session for longer without signing in
RENEWED_S = 31 * 86_400.0

Anyone = Annotated[Caller, Depends(require(access.OWN, right="modify"))]
Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator"))]
Name = Annotated[str | None, Body(min_length=1, max_length=1000)]


def token_routes(database: Database) -> APIRouter:
    """Revoke, and list what is revoked."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/token", tags=["tokens"])

    @router.post("/revoke")
    async def revoke(
        caller: Anyone,
        subject: Name = None,
        token_id: Name = None,
        expires_at: Annotated[float | None, Body(ge=0, le=LATEST, description="of the token, since 1970")] = None,
        reason: Annotated[str, Body(max_length=500)] = "",
    ) -> Response:
        """Revoke one token, or all that a subject got so far (certificates too); in force within seconds.

        Operators may revoke any, everybody else all of their own.
        """
        if (subject is None) == (token_id is None) or "\x00" in f"{subject}{token_id}{reason}":
            said = "allowed: either this or token_id, without the character NUL"
            return refused(BAD_REQUEST, problems=[problem("subject", subject, said)])
        if not caller.may("operator") and subject != caller.name:
            return refused(NOT_PERMITTED, f"{caller.name} may revoke what {caller.name} got; the rest is for operators")
        kind, name = ("subject", subject) if subject is not None else ("token", token_id)
        async with database.begin(reason=f"{kind} revoked by {caller.name}") as work:
            await SQL.run(work.connection, "forget_over", expired_within_s=EXPIRED_WITHIN_S)
            await SQL.run(
                work.connection,
                "revoke",
                kind=kind,
                name=name,
                expires_at=expires_at if kind == "token" else None,
                kept_s=KEPT_S,
                renewed_s=RENEWED_S,
                revoked_by=caller.name,
                reason=reason,
            )
            version = int(await SQL.value(work.connection, "next_version"))
            work.emit(ConfigChanged(config_version=int(await SQL.value(work.connection, "config_version"))))
            await audit(
                work.connection,
                caller=caller,
                verb="token.revoke",
                target=f"{kind}:{name}",
                details={"reason": reason},
            )
        return Envelope({"revocations_version": version}, f"{kind} {name} is revoked")

    @router.get("/revocations")
    async def revocations(caller: Operator, limit: Annotated[int, Page(10_000, 1000)] = 1000) -> Response:
        """What is revoked, by whom, and until when that matters."""
        async with database.read() as connection:
            rows = await SQL.rows(connection, "revoked", at_most=limit)
        return Envelope([dict(row) for row in rows])

    return router
