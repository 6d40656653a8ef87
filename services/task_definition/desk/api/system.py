"""/api/v1/system: whether the server answers, and who the caller is.

Clients and monitoring ask the first without a token.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from shared.auth import RIGHTS, Caller, access, require
from shared.web.envelope import Envelope
from shared.web.json_route import JsonRoute

Anyone = Annotated[Caller, Depends(require(access.OWN))]
#: the names under which PanDA's client looks for what a certificate says of its holder
_CREDENTIAL = "GRST_CRED_AURI"


def system_routes() -> APIRouter:
    """Two questions."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/system", tags=["system"])
    router.get("/is_alive")(is_alive)
    router.get("/get_attributes")(get_attributes)
    return router


async def is_alive() -> Response:
    """Yes."""
    return Envelope()


async def get_attributes(caller: Anyone) -> Response:
    """As whom the caller is known: name, roles, groups, VOs and rights, as texts under `environment`."""
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
    return Envelope({"environment": told})
