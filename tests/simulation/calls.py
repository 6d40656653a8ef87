"""Requests to a service's routes in this process, without sockets: what pilots and users of the simulation send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

Application = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Caller:
    """POSTs JSON to the application that `find` answers with at that moment: a restarted service is another one."""

    def __init__(self, find: Callable[[], Application], token: str) -> None:
        self._find = find
        self._headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]

    async def post(self, path: str, body: object, headers: dict[str, str] | None = None) -> Reply:
        content = orjson.dumps(body)
        sent = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        length = (b"content-length", str(len(content)).encode())
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST",
            "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
            "headers": [*self._headers, length, *sent], "client": ("simulation", 0), "server": ("simulation", 80),
        }  # fmt: skip
        incoming = [{"type": "http.request", "body": content, "more_body": False}]
        outgoing: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not incoming:
                await asyncio.get_running_loop().create_future()  # the caller waits for its answer
            return incoming.pop()

        async def send(message: dict[str, Any]) -> None:
            outgoing.append(message)

        await self._find()(scope, receive, send)
        return Reply(outgoing[0]["status"], b"".join(message.get("body", b"") for message in outgoing[1:]))
