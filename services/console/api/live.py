"""Hints for open pages: an event stream that says when to ask again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from services.console.api.visits import Console
from services.console.asking import Away, Refused, SignedOut
from services.console.hinting import Listener
from services.console.policy.sessions import HOME
from services.console.showing.rendering import PRIVATE

#: a line without meaning, so that everybody between knows that the page is still open
KEEP_S = 15.0
#: then the page connects again, and its token is looked at again
LONGEST_S = 600.0
#: nginx hands each hint on as it comes
STREAM = {**PRIVATE, "X-Accel-Buffering": "no"}


def routes(console: Console) -> list[Route]:
    async def hints(request: Request) -> Response:
        """Tell a page of its subjects, as long as it is open."""
        session = await console.signing.session_of(request)
        told = console.signing.opened_hints(request.query_params.get("of", ""), session) if session else None
        if session is None or told is None:
            return PlainTextResponse("no page of this session asks so\n", 403, PRIVATE)
        try:
            await console.visit(request, session).api.get("system/get_attributes")
        except (SignedOut, Refused):
            return PlainTextResponse("the token is not believed any more\n", 401, PRIVATE)
        except Away:
            pass  # a token that was believed when the page was made: hints say nothing but that something changed
        return StreamingResponse(_stream(console, told, _last(request, told)), 200, STREAM, "text/event-stream")

    return [Route(f"{HOME}hints", hints, methods=["GET"])]


def _last(request: Request, told: Mapping[str, Any]) -> float:
    """Since when the page does not know what changed: its last hint, or when it was made."""
    try:
        return max(float(request.headers.get("last-event-id", "")), told["at"])
    except ValueError:
        return float(told["at"])


async def _stream(console: Console, told: Mapping[str, Any], last: float) -> AsyncIterator[str]:
    hints, subjects = console.hints, told["subjects"]
    listener = hints.listen(subjects)
    loop = asyncio.get_running_loop()
    until = loop.time() + LONGEST_S
    try:
        yield "retry: 1000\n\n"
        if hints.changed_since(subjects, last) != 0:
            listener.woken.set()
        while not hints.is_closed and loop.time() < until:
            if not await _woken(listener):
                yield ": \n\n"
            elif not hints.is_closed:
                listener.woken.clear()
                yield _message(console, told)
    finally:
        hints.leave(listener)


async def _woken(listener: Listener) -> bool:
    try:
        async with asyncio.timeout(KEEP_S):
            await listener.woken.wait()
    except TimeoutError:
        return False
    return True


def _message(console: Console, told: Mapping[str, Any]) -> str:
    """A hint: of a page about one thing its name, of a list what stands above it from now on."""
    head = f"id: {console.now().timestamp():.3f}\n"
    if not (shown := told.get("list")):
        return f"{head}event: hint\ndata: {quote(told['subjects'][0])}\n\n"
    n_changed = console.hints.changed_since(told["subjects"], told["at"])
    said = "Some may have changed" if n_changed is None else f"{n_changed} changed"
    link = Markup('<a href="{}">{}: show</a>').format(shown, said)
    return f"{head}data: {link}\n\n"
