"""Answers that leave in one piece: status, headers and body in one write.

An ASGI server writes the head of an answer and its body apart, and looks at every header. That costs half as much again
as a short answer. Where the server can, `answer_json` hands over the body alone.
"""

from __future__ import annotations

from typing import Any

from starlette.types import Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

#: name of the ASGI extension, and type of its message: {"type": WHOLE, "body": bytes}
WHOLE = "orrery.whole"
_JSON = b"content-type: application/json\r\ncontent-length: %d\r\n"


async def answer_json(scope: Scope, send: Send, body: bytes) -> None:
    """HTTP 200 with a body that is JSON."""
    if WHOLE in scope.get("extensions", ()):
        await send({"type": WHOLE, "body": body})
        return
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class WholeAnswerCycle(RequestResponseCycle):
    """uvicorn's answer to one request, which also takes the message of the extension."""

    async def send(self, message: Any) -> None:
        if message["type"] != WHOLE:
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if self.response_started:
            raise RuntimeError("an answer was begun before: a whole one cannot follow")
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        body: bytes = message["body"]
        head = [STATUS_LINE[200], *(b"%s: %s\r\n" % one for one in self.default_headers), _JSON % len(body)]
        if not self.keep_alive:
            head.append(b"connection: close\r\n")
        self.transport.write(b"".join([*head, b"\r\n", body]))
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def takes_whole_answers(cycle: RequestResponseCycle) -> None:
    """Let a request that was just read be answered by the extension."""
    cycle.__class__ = WholeAnswerCycle
    cycle.scope["extensions"] = {WHOLE: {}}
