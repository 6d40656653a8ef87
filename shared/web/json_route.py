"""FastAPI routes whose JSON was parsed before: counted, in slices, by the system's own parser."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from typing import Any

import orjson
from fastapi import APIRouter, FastAPI, Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from starlette.responses import Response

from shared.model.problems import FieldProblem
from shared.web.intake import PARSED
from shared.web.json_text import loaded
from shared.web.problems import WrongRequest


def add_routes(web: FastAPI, *routers: APIRouter) -> None:
    """Add the routes of routers to an application.

    `include_router` would look at the parameters of every route a second time, at the first request for one of them.
    """
    for router in routers:
        web.router.routes.extend(router.routes)


class _ParsedRequest(Request):
    async def body(self) -> bytes:
        """The body; empty bytes where it is empty.

        Of one that was parsed only the beginning, because no more is used.
        """
        if PARSED not in self.scope:
            return await super().body()
        message = await self.receive()
        return bytes(message.get("body", b"")[:1])

    async def json(self) -> Any:
        """The value of the body. Raises orjson.JSONDecodeError, which FastAPI answers as a wrong request."""
        if PARSED not in self.scope:
            return loaded(await self.body())
        value = self.scope[PARSED]
        if isinstance(value, orjson.JSONDecodeError):
            raise value
        return value


class JsonRoute(APIRoute):
    """The route class of every service: `APIRouter(route_class=JsonRoute)`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = self.known_parameters()

        async def with_parsed_body(request: Request) -> Response:
            if request.method == "GET" and known is not None:
                _refuse_unknown(request, known)
            return await handle(_ParsedRequest(request.scope, request.receive))

        return with_parsed_body

    def known_parameters(self) -> frozenset[str] | None:
        """What may stand behind the ? of a question; None: the route reads its request itself."""
        if self.dependant.request_param_name is not None:
            return None
        taken = (params.Query, params.Path)  # what the path says may be said again
        return frozenset(one.alias for one in get_flat_params(self.dependant) if isinstance(one.field_info, taken))


def _refuse_unknown(request: Request, known: frozenset[str]) -> None:
    """A misspelt filter would be answered with everything. Raises WrongRequest."""
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        names = ", ".join(sorted(known)) or "none"
        problems = []
        for name in unknown:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.append(FieldProblem(name, "", f"unknown parameter{hint}; allowed: {names}"))
        raise WrongRequest(problems)
