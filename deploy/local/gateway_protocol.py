"""The gateway's side of HTTP: connections are counted, slow ones cut, and nothing is quoted."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from shared.auth.authentication import LONGEST_HEADER
from shared.web.connections import Connections, Pace, Watch

log = logging.getLogger(__name__)

#: bytes: a pilot whose disk is full reports in the address
LONGEST_ADDRESS = 60_000


class WatchedHandler(RequestHandler):
    """aiohttp waits for headers, bodies and those who take no answer: here that has an end."""

    __slots__ = ("_kept", "_pace", "watch")

    def __init__(self, server: web.Server, connections: Connections, pace: Pace, **named: Any) -> None:
        super().__init__(server, **named)
        self._kept = connections
        self._pace = pace
        self.watch: Watch | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.watch = self._kept.opened(self, peer[0] if peer else "", self._pace)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.watch is not None:
            self.watch.gone()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.watch is not None:
            self.watch.received(len(data))
            if data and self._current_request is None:
                self.watch.wait()
        super().data_received(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.watch is not None:
            self.watch.answer_waits()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.watch is not None:
            self.watch.answer_goes_on()

    def waits_for_us(self) -> bool:
        """Nothing is read while what came is not handed on."""
        return bool(self._reading_paused)

    def cut(self, status: int, text: str) -> None:
        """Say why, where nothing was said, and close."""
        if self.transport is None or self.transport.is_closing():
            return
        request = self._current_request
        if request is None or not request.writer.output_size:
            body = text.encode()
            head = f"HTTP/1.1 {status} Request Timeout\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
            self.transport.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        self.transport.close()

    async def finish_response(self, *arguments: Any) -> tuple[web.StreamResponse, bool]:
        """Answered: the connection waits for the next request."""
        found = await super().finish_response(*arguments)
        if self.watch is not None:
            self.watch.whole()
            self.watch.idle()
        return found

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what cannot be read without quoting it: the library's text has the header, token and all."""
        if status < 500:
            log.info("a request from %s cannot be read: %s", request.remote, type(exc).__name__)
            text = f"the request cannot be read ({type(exc).__name__}); a header has at most {LONGEST_HEADER} bytes\n"
        else:
            log.error("a request from %s failed", request.remote, exc_info=exc)
            text = "internal error\n"
        answer = web.Response(status=status, text=text)
        answer.force_close()
        return answer


class WatchedServer(web.Server):
    """The server of such connections."""

    def __init__(self, handler: Any, connections: Connections, pace: Pace) -> None:
        # a body stays as it was packed, and a caller that has gone ends the request at the service too
        super().__init__(handler, handler_cancellation=True)
        self._kept = connections
        self._pace = pace

    def __call__(self) -> RequestHandler:
        return WatchedHandler(
            self,
            self._kept,
            self._pace,
            loop=self._loop,
            auto_decompress=False,
            access_log=None,
            max_line_size=LONGEST_ADDRESS,
            max_field_size=LONGEST_HEADER + 100,
            keepalive_timeout=75.0,
            lingering_time=2.0,
        )
