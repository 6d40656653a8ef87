"""One visit of a page: who asks, and what becomes of what goes wrong."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import httpx
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from services.console.asking import LARGE_BYTES, Api, Away, NotPermitted, NotThere, Refused, SignedOut
from services.console.hinting import Hints
from services.console.policy.sessions import HOME, Session, path_after
from services.console.renewing import Renewed, Renewing
from services.console.sharing import Sharing
from services.console.showing.pages import Page, problem_page
from services.console.showing.rendering import HEADERS, Renderer, again, packed, wants_json
from services.console.signing import ForgedForm, Said, Signing

log = logging.getLogger(__name__)

#: fields of a form, and characters of each
MOST_FIELDS, MOST_CHARACTERS = 200, 20_000
SEARCH_HINT = "The search finds tasks by id or name, jobs by id, queues and people by name."


@dataclass(frozen=True)
class Visit:
    """What a page knows of the one who opened it."""

    request: Request
    session: Session
    api: Api
    now: datetime

    def word(self, name: str) -> str:
        """What stands behind the ? of the address under this name; empty where nothing does."""
        return self.request.query_params.get(name, "").strip()

    def id(self, name: str) -> int:
        """A number of the path."""
        return int(self.request.path_params[name])


@dataclass(frozen=True)
class Done:
    """What became of a form: where to go on, and what is told there."""

    to: str
    said: Said


MakesPage = Callable[[Visit], Awaitable[Page]]
CarriesOut = Callable[[Visit, Mapping[str, str]], Awaitable[Done]]


class _Id(IntegerConvertor):
    """Every id there can be; a longer number is no page, and would be no number for Python."""

    regex = r"[0-9]{1,18}"


register_url_convertor("id", _Id())


class Console:
    """What all addresses share."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        renderer: Renderer,
        signing: Signing,
        api_url: str | None,
        clock: Callable[[], float] = time.time,
        hints: Hints | None = None,
        renewing: Renewing | None = None,
    ) -> None:
        self._http, self._api_url, self._clock = http, api_url, clock
        self.renderer, self.signing = renderer, signing
        self.hints = hints or Hints(clock)
        self.sharing = Sharing()
        self.renewing = renewing

    def page(self, path: str, make: MakesPage, takes: tuple[str, ...] = (), about: tuple[str, ...] = ()) -> Route:
        """A page for people and programs; `takes`: names that may stand behind the ? of its address.

        `about`: what it is about, as hints name it, with names of its path. Example: task {task_id}.
        """

        async def made(request: Request, session: Session) -> Response:
            try:
                if unknown := sorted(set(request.query_params) - set(takes)):
                    return self.shown(request, _unknown_words(unknown, takes), session)
                visit = self.visit(request, session)
                page = await make(visit)
                if visit.api.n_bytes < LARGE_BYTES:
                    return self.shown(request, page, session, visit.now)
                return await asyncio.to_thread(self.shown, request, page, session, visit.now)
            except SignedOut:
                return await self._not_believed(request, session)
            except Exception as error:
                return self.shown(request, _page_of(error), session)

        async def answer(request: Request, session: Session) -> Response:
            if "hx-request" not in request.headers:
                return await made(request, session)
            subjects = (one.format(**request.path_params) for one in about)
            changed_at = max(map(self.hints.told_at, subjects), default=float("-inf"))
            is_packed = "gzip" in request.headers.get("accept-encoding", "")
            question = session.session_id, _address(request), is_packed, request.headers.get("accept")

            async def part() -> Response:
                response = await made(request, session)
                if not is_packed:
                    return response
                if len(response.body) < LARGE_BYTES:
                    return packed(response)
                return await asyncio.to_thread(packed, response)

            return again(await self.sharing.get(question, changed_at, part))

        return Route(f"{HOME}{path}", self._signed_in(answer), methods=["GET"])

    def form(self, path: str, carry_out: CarriesOut) -> Route:
        """What a form is sent to."""

        async def answer(request: Request, session: Session) -> Response:
            back = _page_before(request)
            try:
                fields = await fields_of(request)
                self.signing.check_form(request, fields, session.session_id)
                done = await carry_out(self.visit(request, session), fields)
            except SignedOut:
                return await self._not_believed(request, session)
            except ForgedForm as error:
                return self.shown(request, problem_page("Nothing was done", str(error), status=403), session)
            except (Refused, Away) as error:
                done = Done(back, Said(_sentence(error), good=False))
            except Exception as error:
                return self.shown(request, _page_of(error), session)
            response = RedirectResponse(done.to, 303, HEADERS)
            self.signing.say(response, done.said)
            return response

        return Route(f"{HOME}{path}", self._signed_in(answer), methods=["POST"])

    def _signed_in(
        self, answer: Callable[[Request, Session], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """What answers whoever is signed in, with a session that is renewed where it can be; others sign in first."""

        async def answered(request: Request) -> Response:
            session, renewed = await self.session_of(request)
            if session is not None:
                response = await answer(request, session)
            elif renewed is not None and renewed.away:
                response = self.shown(request, _page_of(Away(renewed.away)), None)
            else:
                response = self.to_sign_in(request)
            await self.tell(response, renewed)
            return response

        return answered

    async def session_of(self, request: Request) -> tuple[Session | None, Renewed | None]:
        """Tell who signed in at a browser, after a renewal where one is due; the second is for `tell`."""
        session = await self.signing.session_of(request)
        renewed = await self.renewing.session_of(request, session, self.api) if self.renewing else None
        return (renewed.session if renewed else session), renewed

    async def tell(self, response: Response, renewed: Renewed | None) -> None:
        """Let a browser keep what was renewed for it."""
        if renewed is not None and self.renewing is not None:
            await self.renewing.tell(response, renewed)

    async def _not_believed(self, request: Request, session: Session) -> Response:
        """End a session whose token the API refuses: another token that the issuer gives would be believed."""
        await self.signing.end(session.session_id)
        response = self.to_sign_in(request)
        self.signing.forget(response)
        return response

    def visit(self, request: Request, session: Session) -> Visit:
        """The visit of somebody who is signed in."""
        return Visit(request, session, self.api(request, session.token), self.now())

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def api(self, request: Request, token: str) -> Api:
        """The API, asked with this token for whoever sent this request."""
        came = request.headers.getlist("x-forwarded-for")
        peer = [request.client.host] if request.client else []
        base_url = self._api_url or f"http://{_listener(request)}"
        return Api(self._http, base_url, token, ", ".join([*came, *peer]))

    def shown(self, request: Request, page: Page, session: Session | None, now: datetime | None = None) -> Response:
        """The page in the form that was asked for; `now`: when its data were asked for."""
        if wants_json(request.headers.get("accept", "")):
            return self.renderer.json(page)
        said = self.signing.said_to(request) if "hx-request" not in request.headers else None
        now = now or self.now()
        around = {
            "session": session,
            "form": self.signing.form_word(session.session_id) if session else "",
            "hints": self._hints_word(request, page, session, now),
            "address": _address(request),
            "said": said,
        }
        response = self.renderer.html(page, now, around)
        if said is not None:
            self.signing.forget_said(response)
        return response

    def _hints_word(self, request: Request, page: Page, session: Session | None, now: datetime) -> str:
        """What the page brings to be told of changes; empty where there is nothing to tell."""
        if session is None or not (page.about or page.is_list) or "hx-request" in request.headers:
            return ""
        content: dict[str, Any] = {"subjects": list(page.about), "at": now.timestamp()}
        if page.is_list:
            content |= {"list": _address(request), "others": page.others}
        return self.signing.hints_word(session, content)

    def to_sign_in(self, request: Request) -> Response:
        """Send somebody to sign in, and back afterwards: to the page, or to the one with the form."""
        address = _address(request) if request.method == "GET" else _page_before(request)
        to = f"{HOME}sign-in?next={quote(path_after(address), safe='')}"
        if "hx-request" in request.headers:  # the part that asked is not the place for another page
            return Response(status_code=204, headers={**HEADERS, "HX-Redirect": to})
        if wants_json(request.headers.get("accept", "")):
            page = problem_page("Sign in", "nobody is signed in at this browser", status=401)
            return self.renderer.json(page)
        return RedirectResponse(to, 303, HEADERS)


async def fields_of(request: Request) -> dict[str, str]:
    """Read the fields of a form, the last of each name. Raises Refused."""
    try:
        text = (await request.body()).decode()
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Refused(f"the form is broken, or has more than {MOST_FIELDS} fields") from None
    if any(len(value) > MOST_CHARACTERS for _, value in pairs):
        raise Refused(f"a field is longer than {MOST_CHARACTERS} characters")
    return dict(pairs)


def _address(request: Request) -> str:
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path


def _page_before(request: Request) -> str:
    """The page with the form, where it is one of ours."""
    parts = urlsplit(request.headers.get("referer", ""))
    return path_after(f"{parts.path}?{parts.query}" if parts.query else parts.path)


def _listener(request: Request) -> str:
    """Where this request arrived: the one address of a process that has every service."""
    host, port = request.scope.get("server") or ("127.0.0.1", 8080)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _sentence(error: Exception) -> str:
    """What is told of a refusal, with every value that was refused."""
    problems = getattr(error, "problems", ())
    listed = [f"{one.get('field')}: {one.get('allowed') or one.get('message')}" for one in problems]
    text = str(error)
    missing = [one for one in listed if one not in text]
    return "; ".join([text, *missing]) if text else "; ".join(listed) or "it was refused"


def _unknown_words(unknown: Sequence[str], takes: Sequence[str]) -> Page:
    allowed = ", ".join(takes) or "nothing"
    what = f"{', '.join(unknown)}: allowed: {allowed}"
    return problem_page("This address has a word too many", what, status=400)


def _page_of(error: Exception) -> Page:
    """What is shown where a page cannot be made."""
    if isinstance(error, NotThere):
        return problem_page("There is no such thing here", _sentence(error), status=404, hint=SEARCH_HINT)
    if isinstance(error, NotPermitted):
        return problem_page("This is for others", _sentence(error), status=403)
    if isinstance(error, Away):
        return problem_page("A service is away", str(error), status=503, hint="Try again in a moment.")
    if isinstance(error, Refused):
        return problem_page("This cannot be asked", _sentence(error), status=400)
    log.error("a page failed", exc_info=error)
    return problem_page("This page failed", "It is our mistake; the log of the console says more.", status=500)
