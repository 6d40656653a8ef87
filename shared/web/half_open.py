"""uvicorn's HTTP for slow callers: requests not whole in time, answers that nobody takes."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shared.web.connections import USUAL_PACE, Connections, Watch
from shared.web.whole_answers import takes_whole_answers

#: the request line and all headers; some reads carry thousands of ids in their address
LARGEST_HEAD_BYTES = 256 * 1024


class WholeRequestProtocol(HttpToolsProtocol):
    """uvicorn waits for ever for requests, and for those who take no answer: here that has an end.

    A connection that sends nothing after an answer is closed by uvicorn's own time-out. A timer exists only while a
    request is incomplete, so that ordinary requests, which arrive whole, cost nothing.
    """

    kept: Connections
    pace = USUAL_PACE
    _watch: Watch

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = True
        self._whole = False
        self._n_head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch = self.kept.opened(self, self.client[0] if self.client else "", self.pace)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.gone()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._whole:  # the first bytes of another request
            self._whole, self._in_head, self._n_head_bytes = False, True, 0
        if self._in_head:
            self._n_head_bytes += len(data)
        self._watch.received(len(data))
        super().data_received(data)
        if self._whole:
            self._watch.whole()
        elif self._in_head and self._n_head_bytes > LARGEST_HEAD_BYTES:
            self.cut(431, f"the headers are larger than {LARGEST_HEAD_BYTES} bytes")
        else:
            self._watch.wait()

    def on_message_begin(self) -> None:
        self._whole, self._in_head = False, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._watch.in_body()
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            takes_whole_answers(self.cycle)

    def on_message_complete(self) -> None:
        self._whole = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._whole and not self.pipeline:
            self._watch.idle()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch.answer_waits()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch.answer_goes_on()

    def waits_for_us(self) -> bool:
        """Nothing is read while the application works on what it has, or on the request before."""
        is_behind = bool(self.pipeline) or (
            self._in_head and self.cycle is not None and not self.cycle.response_complete
        )
        return is_behind or bool(self.flow.read_paused)

    def cut(self, status: int, text: str) -> None:
        """Say why, unless an answer is on its way already, and close."""
        self._watch.whole()
        if self.transport is None or self.transport.is_closing():
            return
        answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not answering:
            body = text.encode()
            head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.transport.close()


def protocol_with(connections: Connections) -> type[WholeRequestProtocol]:
    """The protocol of one server, which counts its connections there."""
    return type("CountedProtocol", (WholeRequestProtocol,), {"kept": connections})
