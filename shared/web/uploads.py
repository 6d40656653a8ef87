"""Reads a file that is sent as a form (multipart/form-data), a piece at a time as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from aiohttp import BodyPartReader, MultipartReader, StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.hdrs import CONTENT_TYPE
from aiohttp.http_exceptions import HttpProcessingError
from starlette.requests import ClientDisconnect, Request

from shared.model.task_spec_problems import problem
from shared.web.problems import WrongRequest

FORM = "multipart/form-data"
#: read ahead of who stores it
AHEAD_BYTES = 256 * 1024
_ALLOWED = f"allowed: one file in a form ({FORM}) under this name"


@dataclass(frozen=True)
class UploadedFile:
    """A file on its way: the name that its sender gives it, and its bytes."""

    name: str
    part: BodyPartReader

    async def pieces(self, size: int) -> AsyncIterator[bytes]:
        """All of it, every piece but the last with so many bytes.

        Raises ClientDisconnect where the sender has gone before the end, WrongRequest where the form is broken.
        """
        gathered = bytearray()
        try:
            while not self.part.at_eof():
                gathered += await self.part.read_chunk(size)
                while len(gathered) >= size:
                    yield bytes(gathered[:size])
                    del gathered[:size]
        except (ValueError, AssertionError, HttpProcessingError) as error:
            raise WrongRequest([problem("body", None, f"{_ALLOWED}; the form is broken: {error}")]) from None
        if gathered:
            yield bytes(gathered)


class _Flow(BaseProtocol):
    """Says whether more may be read: the stream asks for a pause when too much waits in it."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self.may_read = asyncio.Event()
        self.may_read.set()

    @property
    def connected(self) -> bool:
        """What comes is put into the stream by us, not by a transport."""
        return True

    def pause_reading(self) -> None:
        self.may_read.clear()

    def resume_reading(self, resume_parser: bool = True) -> None:
        self.may_read.set()


@asynccontextmanager
async def uploaded_file(request: Request, field: str) -> AsyncIterator[UploadedFile]:
    """The file in the first field of a form. Raises WrongRequest, ClientDisconnect."""
    content_type = request.headers.get(CONTENT_TYPE, "")
    if not content_type.lower().startswith(FORM):
        raise WrongRequest([problem("Content-Type", content_type, f"allowed: {FORM}")])
    flow = _Flow()
    stream = StreamReader(flow, AHEAD_BYTES, loop=asyncio.get_running_loop())
    reading = asyncio.create_task(_read(request, stream, flow))
    try:
        yield await _first_part(content_type, stream, field)
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


async def _first_part(content_type: str, stream: StreamReader, field: str) -> UploadedFile:
    try:
        part = await MultipartReader({CONTENT_TYPE: content_type}, stream).next()
    except (ValueError, AssertionError, HttpProcessingError) as error:
        raise WrongRequest([problem(field, None, f"{_ALLOWED}; the form is broken: {error}")]) from None
    if not isinstance(part, BodyPartReader) or part.name != field or not part.filename:
        raise WrongRequest([problem(field, getattr(part, "name", None), _ALLOWED)])
    return UploadedFile(part.filename.replace("\\", "/").rpartition("/")[2], part)


async def _read(request: Request, stream: StreamReader, flow: _Flow) -> None:
    while True:
        await flow.may_read.wait()
        message = await request.receive()
        if message["type"] != "http.request":
            stream.set_exception(ClientDisconnect())
            return
        stream.feed_data(message.get("body", b""))
        if not message.get("more_body", False):
            stream.feed_eof()
            return
