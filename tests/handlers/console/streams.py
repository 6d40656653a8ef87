"""The stream of hints that an open page has, as a browser reads it."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
from urllib.parse import urlsplit

import httpx
from fastapi import FastAPI


class Stream:
    """One open page's stream of hints; a browser reads it line by line."""

    def __init__(self, web: FastAPI, browser: httpx.AsyncClient, address: str, last: str = "") -> None:
        parts = urlsplit(address)
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        headers = [(b"cookie", cookie.encode()), (b"accept-encoding", b"gzip"), (b"host", b"console")]
        self._scope = {
            "type": "http", "http_version": "1.1", "method": "GET", "path": parts.path, "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(), "root_path": "", "scheme": "http", "server": ("console", 80),
            "client": ("192.0.2.7", 4000), "asgi": {"version": "3.0"},
            "headers": [*headers, (b"last-event-id", last.encode())] if last else headers,
        }  # fmt: skip
        self._web, self._left = web, asyncio.Event()
        self._messages = asyncio.Queue[dict]()
        self.status, self.headers = 0, dict[str, str]()

    async def __aenter__(self) -> Stream:
        self._task = asyncio.create_task(self._web(self._scope, self._receive, self._messages.put))  # type: ignore[arg-type]
        begun = await self._next()
        self.status = begun["status"]
        self.headers = {name.decode(): value.decode() for name, value in begun["headers"]}
        return self

    async def __aexit__(self, *_: object) -> None:
        self._left.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _receive(self) -> dict:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _next(self) -> dict:
        async with asyncio.timeout(5):
            return await self._messages.get()

    async def hint(self) -> dict[str, str]:
        """The next message that is no comment and no setting."""
        while True:
            text = (await self._next())["body"].decode()
            fields = dict(line.split(": ", 1) for line in text.splitlines() if line and not line.startswith(":"))
            if "data" in fields:
                return fields

    def nothing_yet(self) -> bool:
        return all(b"data" not in one.get("body", b"") for one in self._messages._queue)  # type: ignore[attr-defined]

    def is_open(self) -> bool:
        return self.status == 200 and not self._task.done()

    async def rest(self) -> str:
        """What was said until the service closed the stream, without settings and signs of life."""
        async with asyncio.timeout(5):
            await self._task
        said = b"".join([self._messages.get_nowait().get("body", b"") for _ in range(self._messages.qsize())]).decode()
        return "\n".join(line for line in said.splitlines() if line and not line.startswith((":", "retry:")))


def stream_of(page: httpx.Response) -> str:
    """Where the page listens."""
    (address,) = re.findall(r'hx-sse:connect="([^"]*)"', page.text)
    return html.unescape(address)
