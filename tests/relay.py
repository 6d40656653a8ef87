"""The way to a server on this machine, which can be cut or fall silent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

CHUNK_BYTES = 65_536


class Relay:
    """Passes bytes to a server on this machine.

    `cut` ends all connections and refuses new ones until `restore`. `silence` keeps connections and passes nothing on,
    as a network that drops packets does: nothing at all, or (`only_answers`) nothing that the server says. What was
    held back arrives after `speak`.
    """

    def __init__(self, url: str) -> None:
        self._to = urlsplit(url)
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._port = 0
        self._asks, self._answers = asyncio.Event(), asyncio.Event()
        self._asks.set()
        self._answers.set()

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

    def silence(self, *, only_answers: bool = False) -> None:
        self._loop.call_soon_threadsafe(self._answers.clear)
        if not only_answers:
            self._loop.call_soon_threadsafe(self._asks.clear)

    def speak(self) -> None:
        self._loop.call_soon_threadsafe(self._answers.set)
        self._loop.call_soon_threadsafe(self._asks.set)

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
            await asyncio.gather(_copy(reader, back, self._asks), _copy(there, writer, self._answers))
        finally:
            self._writers -= {writer, back}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may_pass: asyncio.Event) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            await may_pass.wait()
            writer.write(data)
            await writer.drain()
    writer.close()
