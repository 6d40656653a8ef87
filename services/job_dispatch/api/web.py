"""The web application: pilots' routes first, because most requests are theirs, FastAPI for the rest.

There is one OpenAPI document.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.requests import Request as StarletteRequest
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from services.job_dispatch.api.call import Direct, PlainCall
from services.job_dispatch.api.document import document_of
from services.job_dispatch.api.failures import Form, UnansweredRequest, enveloped, internal, later
from services.job_dispatch.api.legacy_answers import always_json
from services.job_dispatch.api.legacy_methods import PREFIX as LEGACY_PREFIX
from services.job_dispatch.api.legacy_methods import LegacyMethod, forms_of, routes_of
from services.job_dispatch.api.pilot import PREFIX
from services.job_dispatch.api.requests import FAILED
from shared.web.intake import SEAT, Crowded, Room
from shared.web.json_route import add_routes
from shared.web.panda_paths import why_not
from shared.web.whole_answers import answer_json

log = logging.getLogger(__name__)

TITLE = "Orrery job-dispatch"


class DispatchWeb(FastAPI):
    """FastAPI with pilots' routes in a table, without middleware, which costs more than the answer itself.

    Their requests have limits of their own: so many at a time, so many bytes.
    """

    def give_way(self, routes: Sequence[Route], forms: Mapping[str, Form], direct: Mapping[str, Direct]) -> None:
        """Serve these routes by the short way; they stay in the routing table for whoever looks there.

        `forms`: in which form each path tells failures, the envelope where it is not named. `direct`: POST to these
        paths, most of all requests, is answered with bytes, without a framework's request and response.
        """
        self.router.routes[:0] = routes
        self._direct = dict(direct)
        self._room = Room()
        self._forms = forms
        self._short = {
            (method, route.path): route.endpoint for route in routes for method in sorted(route.methods or ())
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._short.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if endpoint is None:
            is_pilot = scope["type"] == "http" and scope["path"].startswith((f"{PREFIX}/", f"{LEGACY_PREFIX}/"))
            await (self._no_such_method if is_pilot else super().__call__)(scope, receive, send)
            return
        scope["app"], scope["endpoint"] = self, endpoint
        form = self._forms.get(scope["path"], enveloped)
        direct = self._direct.get(scope["path"]) if scope["method"] == "POST" else None
        try:
            with self._room.seat() as seat:
                scope[SEAT] = seat
                if direct is None:
                    response = await endpoint(StarletteRequest(scope, receive, send))
                else:
                    found = await direct(PlainCall(scope, receive))
                    if isinstance(found, bytes):
                        await answer_json(scope, send, found)
                        return
                    response = found
        except Crowded as error:
            response = form(later(str(error)))
        except Exception:
            log.exception("%s failed", scope["path"])
            response = form(internal())
        await response(scope, receive, send)

    async def _no_such_method(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What pilots call and this version does not have: told with a status code of their protocol."""
        allowed = sorted(method for method, path in self._short if path == scope["path"])
        text = f"{scope['method']} {scope['path']}: {'Method Not Allowed' if allowed else 'Not Found'}"
        text = why_not(scope["path"]) or text
        form = enveloped if scope["path"].startswith(f"{PREFIX}/") else always_json
        response = form(UnansweredRequest(FAILED, text, 405 if allowed else 404))
        if allowed:
            response.headers["Allow"] = ", ".join(allowed)
        await response(scope, receive, send)


def make_web(
    pilots: Sequence[Route], legacy: Sequence[LegacyMethod], direct: Mapping[str, Direct], routers: Sequence[APIRouter]
) -> FastAPI:
    """Routes and the document that describes them."""
    web = DispatchWeb(title=TITLE, docs_url="/docs", redoc_url=None)
    add_routes(web, *routers)
    web.give_way([*pilots, *routes_of(legacy)], forms_of(legacy), direct)

    def openapi() -> dict[str, Any]:
        if web.openapi_schema is None:
            web.openapi_schema = document_of(web, TITLE)
        return web.openapi_schema

    web.openapi = openapi  # type: ignore[method-assign]
    return web
