"""/api/v1/system: whether the server answers, and who the caller is.

Clients and monitoring ask the first without a token.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query
from starlette.responses import Response

from services.task_definition.desk.store.tokens import LATEST, SQL
from shared.auth import RIGHTS, Caller, access, require
from shared.auth.caller import MARK_CHARACTERS
from shared.db.database import Database
from shared.web.envelope import Envelope
from shared.web.json_route import JsonRoute

Anyone = Annotated[Caller, Depends(require(access.OWN))]
#: of many marks
MOST_CHARACTERS = 2000
#: the names under which PanDA's client looks for what a certificate says of its holder
_CREDENTIAL = "GRST_CRED_AURI"


def system_routes(database: Database) -> APIRouter:
    """Two questions."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/system", tags=["system"])
    router.get("/is_alive")(is_alive)

    @router.get("/get_attributes")
    async def get_attributes(
        caller: Anyone,
        issued_at: Annotated[
            float | None, Query(ge=0, le=LATEST, description="of the token that this one was given for, since 1970")
        ] = None,
        marks: Annotated[str, Query(max_length=MOST_CHARACTERS, description="of tokens given since, with commas")] = "",
    ) -> Response:
        """As whom the caller is known: name, roles, groups, VOs and rights, as texts under `environment`.

        Refused as for an unknown caller where what the caller had at `issued_at` was revoked since then, or one of the
        tokens that have these `marks`: the first 16 hexadecimal digits of the SHA-256 of what a revocation names.
        """
        if issued_at is not None or marks:
            async with database.read() as connection:
                if await SQL.value(
                    connection, "was_revoked", subject=caller.name, issued_at=issued_at, marks=marks.split(","),
                    n_characters=MARK_CHARACTERS,
                ):  # fmt: skip
                    said = f"token refused: what {caller.name} got before was revoked"
                    raise HTTPException(401, said, headers={"WWW-Authenticate": "Bearer"})
        return Envelope({"environment": _told(caller)})

    return router


async def is_alive() -> Response:
    """Yes."""
    return Envelope()


def _told(caller: Caller) -> dict[str, str]:
    groups = sorted(caller.groups)
    told = {
        "REMOTE_USER": caller.name,
        "ROLES": ",".join(sorted(caller.roles)),
        "GROUPS": ",".join(groups),
        "VO": "every" if caller.vos is None else ",".join(sorted(caller.vos)),
        "RIGHTS": ",".join(sorted(RIGHTS if caller.rights is None else caller.rights)),
        f"{_CREDENTIAL}_0": f"dn:{caller.name}",
    }
    told |= {f"{_CREDENTIAL}_{place}": f"fqan:/{group}" for place, group in enumerate(groups, 1)}
    return told
