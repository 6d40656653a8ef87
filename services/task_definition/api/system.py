"""/api/v1/system: whether the server answers, which clients and monitoring ask without a token."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from shared.web.envelope import Envelope
from shared.web.json_route import JsonRoute


def system_routes() -> APIRouter:
    """One question."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/system", tags=["system"])
    router.get("/is_alive")(is_alive)
    return router


async def is_alive() -> Response:
    """Yes."""
    return Envelope()
