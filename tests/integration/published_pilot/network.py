"""What the pilot may reach: nothing but this machine; and the way to the database, which can be cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit, urlunsplit

CHUNK_BYTES = 65_536


class Relay:
    """Passes bytes to a server on this machine; `cut` ends all connections and refuses new ones until `restore`."""

    def __init__(self, url: str) -> None:
        self._to = urlsplit(url)
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The same server by way of the relay."""
        user = self._to.netloc.rpartition("@")[0]
        return urlunsplit(
            self._to._replace(netloc=f"{user}@127.0.0.1:{self._port}" if user else f"127.0.0.1:{self._port}")
        )

    @contextmanager
    def running(self) -> Iterator[Relay]:
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        try:
            self.restore()
            yield self
        finally:
            self.cut()
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(10)

    def cut(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(10)

    def restore(self) -> None:
        asyncio.run_coroutine_threadsafe(self._restore(), self._loop).result(10)

    async def _restore(self) -> None:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(self._to.hostname, self._to.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            self._writers -= {writer, back}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


class Outside:
    """Stands for all that is not this machine: a proxy that has some pages and refuses the rest; `asked` keeps it."""

    def __init__(self, pages: dict[str, bytes]) -> None:
        self.asked: list[str] = []
        outside = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outside.asked.append(self.path)
                body = pages.get(self.path)
                self.send_response(403 if body is None else 200)
                self.end_headers()
                self.wfile.write(body or b"")

            do_POST = do_CONNECT = do_GET

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)

    @property
    def environment(self) -> dict[str, str]:
        """Sends whatever is asked of other machines here."""
        here = f"http://127.0.0.1:{self._server.server_address[1]}"
        names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
        return dict.fromkeys(names, here) | dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost")

    @contextmanager
    def running(self) -> Iterator[Outside]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join(10)
