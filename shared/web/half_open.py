"""Requests that never become whole: a connection whose request is not complete in time is closed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shared.web.whole_answers import takes_whole_answers

#: from the first byte of a request (or from the connection) to the last
WHOLE_WITHIN_S = 30.0
#: the request line and all headers; some reads carry thousands of ids in their address
LARGEST_HEAD_BYTES = 256 * 1024


class WholeRequestProtocol(HttpToolsProtocol):
    """uvicorn's HTTP, which waits for ever for headers and bodies, with an end to the waiting.

    A connection that sends nothing after an answer is closed by uvicorn's own time-out. One timer exists only while a
    request is incomplete, so that ordinary requests, which arrive whole, cost nothing.
    """

    whole_within_s = WHOLE_WITHIN_S

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = True
        self._whole = False
        self._n_head_bytes = 0
        self._closes: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._closes = self.loop.call_later(self.whole_within_s, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._whole:  # the first bytes of another request
            self._whole, self._in_head, self._n_head_bytes = False, True, 0
        if self._in_head:
            self._n_head_bytes += len(data)
        super().data_received(data)
        if self._whole:
            self._stop_waiting()
        elif self._in_head and self._n_head_bytes > LARGEST_HEAD_BYTES:
            self._close(431, f"the headers are larger than {LARGEST_HEAD_BYTES} bytes")
        elif self._closes is None:
            self._closes = self.loop.call_later(self.whole_within_s, self._too_slow)

    def on_message_begin(self) -> None:
        self._whole, self._in_head = False, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            takes_whole_answers(self.cycle)

    def on_message_complete(self) -> None:
        self._whole = True
        super().on_message_complete()

    def _stop_waiting(self) -> None:
        if self._closes is not None:
            self._closes.cancel()
            self._closes = None

    def _too_slow(self) -> None:
        self._closes = None
        if self._is_behind_another():
            self._closes = self.loop.call_later(self.whole_within_s, self._too_slow)
            return
        self._close(408, f"the request was not complete after {self.whole_within_s:g} s")

    def _is_behind_another(self) -> bool:
        """Sent before the answer to the request before it: nothing more is read until that was given."""
        return bool(self.pipeline) or (self._in_head and self.cycle is not None and not self.cycle.response_complete)

    def _close(self, status: int, text: str) -> None:
        """Say why, unless an answer is on its way already, and close."""
        self._stop_waiting()
        if self.transport is None or self.transport.is_closing():
            return
        answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not answering:
            body = text.encode()
            head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.transport.close()
