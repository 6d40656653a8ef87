"""Hints for open pages: an event stream that says when to ask again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from services.console import hinting
from services.console.api.visits import Console
from services.console.asking import Away, Refused, SignedOut
from services.console.hinting import Listener
from services.console.policy.sessions import HOME, Session
from services.console.showing.rendering import PRIVATE

#: a line without meaning, so that everybody between knows that the page is still open; the session is looked at, too
KEEP_S = 15.0
#: then the page connects again, and its token is looked at again
LONGEST_S = 600.0
#: a list with a filter may have other rows after so long
OTHERS_S = 60.0
#: nginx hands each hint on as it comes
STREAM = {**PRIVATE, "X-Accel-Buffering": "no"}


def routes(console: Console) -> list[Route]:
    async def hints(request: Request) -> Response:
        """Tell a page of its subjects, as long as it is open."""
        session, renewed = await console.session_of(request)
        response = await answered(request, session)
        await console.tell(response, renewed)
        return response

    async def answered(request: Request, session: Session | None) -> Response:
        told = console.signing.opened_hints(request.query_params.get("of", ""), session) if session else None
        if session is None or told is None:
            return PlainTextResponse("no page of this session asks so\n", 403, PRIVATE)
        try:
            await console.visit(request, session).api.get("system/get_attributes")
        except (SignedOut, Refused):
            return PlainTextResponse("the token is not believed any more\n", 401, PRIVATE)
        except Away:
            pass  # a token that was believed when the page was made: hints say nothing but that something changed
        return StreamingResponse(
            _stream(console, session, told, _last(request, told)), 200, STREAM, "text/event-stream"
        )

    return [Route(f"{HOME}hints", hints, methods=["GET"])]


def _last(request: Request, told: Mapping[str, Any]) -> float:
    """Since when the page does not know what changed: its last hint, or when it was made."""
    try:
        return max(float(request.headers.get("last-event-id", "")), told["at"])
    except ValueError:
        return float(told["at"])


async def _stream(console: Console, session: Session, told: Mapping[str, Any], last: float) -> AsyncIterator[str]:
    """Messages, `EVERY_S` or more from each other, until the session is over or the page should connect again."""
    hints, subjects, said = console.hints, _listened(told), ""
    listener, loop = hints.listen(subjects), asyncio.get_running_loop()
    looked_at = begun_at = loop.time()
    lasts_s = min(LONGEST_S, session.until - console.now().timestamp())
    try:
        yield "retry: 1000\n\n"
        if hints.changed_since(subjects, last) != 0:
            listener.woken.set()
        while not hints.is_closed and (left_s := begun_at + lasts_s - loop.time()) > 0:
            is_told = await _woken(listener, min(KEEP_S, left_s))
            if is_told:
                await asyncio.sleep(random.random() * hints.spread_s(listener))
                listener.woken.clear()
            if loop.time() - looked_at >= KEEP_S:
                looked_at = loop.time()
                if await console.signing.is_over(session):
                    return
            before, said = said, _message(console, told, is_told=is_told)
            is_new = said not in ("", before) or (is_told and "list" not in told)
            if hints.is_closed:
                return
            yield f"id: {console.now().timestamp():.3f}\n{said}\n\n" if is_new else ": \n\n"
            await asyncio.sleep(hinting.EVERY_S if is_new else 0)
    finally:
        hints.leave(listener)


def _listened(told: Mapping[str, Any]) -> Sequence[str]:
    return [*told["subjects"], *([told["others"]] if told.get("others") else [])]


async def _woken(listener: Listener, wait_s: float) -> bool:
    try:
        async with asyncio.timeout(wait_s):
            await listener.woken.wait()
    except TimeoutError:
        return False
    return True


def _message(console: Console, told: Mapping[str, Any], *, is_told: bool) -> str:
    """A hint: of a page about one thing its name, of a list what stands above it from now on; mostly none."""
    if not (shown := told.get("list")):
        return f"event: hint\ndata: {quote(told['subjects'][0])}" if is_told else ""
    n_changed = console.hints.changed_since(told["subjects"], told["at"])
    if n_changed is None:
        said = "Some may have changed"
    elif _may_have_others(console, told):
        said = f"{n_changed} changed, others may have come" if n_changed else "Others may have come"
    else:
        said = f"{n_changed} changed" if n_changed else ""
    return str(Markup('data: <a href="{}">{}: show</a>').format(shown, said)) if said else ""


def _may_have_others(console: Console, told: Mapping[str, Any]) -> bool:
    """Whether a list may have other rows by now: a filter is asked again, nobody computes whom an event brings in."""
    if others := told.get("others"):
        return console.hints.changed_since([others], told["at"]) != 0
    return console.now().timestamp() - float(told["at"]) >= OTHERS_S
