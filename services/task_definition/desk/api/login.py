"""/auth/VO_auth_config.json: where members of a VO get a token.

PanDA's client and `orrery login` read it. For anybody: who asks has no token yet.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from shared.auth import authentication_of
from shared.auth.configuration import IdentityFile
from shared.auth.issuers import DISCOVERY
from shared.web.json_route import JsonRoute


def login_routes() -> APIRouter:
    """One question."""
    router = APIRouter(route_class=JsonRoute, tags=["login"])
    router.get("/auth/{vo}_auth_config.json")(login_of_vo)
    return router


async def login_of_vo(request: Request, vo: str) -> Response:
    """The issuer, and the client of it that the device flow names; 404 where nobody of the VO logs in."""
    found = login_document(authentication_of(request.scope).identity, vo)
    if found is None:
        message = f"nobody of the VO {vo} logs in here: ORRERY_IDENTITY_FILE names no issuer with a login for it"
        return JSONResponse({"success": False, "message": message, "data": None}, status_code=404)
    return JSONResponse(found)


def login_document(identity: IdentityFile, vo: str) -> dict[str, Any] | None:
    """The fields that PanDA's client reads; None where no issuer has a login for the VO."""
    section = identity.login_of(vo)
    if section is None or section.login is None:
        return None
    login = section.login
    return {
        "oidc_config_url": section.issuer.rstrip("/") + DISCOVERY,
        "client_id": login.client_id,
        "client_secret": login.client_secret,
        "audience": login.audience,
        "vo": vo,
    }
