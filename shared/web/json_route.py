"""FastAPI routes whose JSON was parsed before: counted, in slices, by the system's own parser."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from shared.web.intake import PARSED
from shared.web.json_text import loaded


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

        async def with_parsed_body(request: Request) -> Response:
            return await handle(_ParsedRequest(request.scope, request.receive))

        return with_parsed_body
