"""Signing in and out: the sealed cookie of a session, links of the command line, tokens of forms."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jwt
from starlette.requests import Request
from starlette.responses import Response

from services.console.asking import Api, Refused
from services.console.ending import Ended
from services.console.policy.sessions import MOST_TOKEN_CHARACTERS, ROOT, Kept, Session
from services.console.sealing import Seals

SESSION_COOKIE, VISITOR_COOKIE, SAID_COOKIE = "orrery_console", "orrery_console_visitor", "orrery_console_said"
RENEWAL_COOKIE = "orrery_console_renewal"
#: one for each question, so that several pages may ask at once
ASKED_COOKIE, MOST_ASKED = "orrery_console_asked_", 5
#: of each kind of sealed word, so that none is taken for another
SESSION, LINK, FORM, SAID = "console session", "console link", "console form", "console said"
HINTS, RENEWAL = "console hints", "console renewal"
#: a link of the command line is opened at once, or made anew
LINK_S = 120.0
#: a form may stay open as long as a working day
FORM_S = 12 * 3600.0
#: characters of a sealed word: browsers drop cookies of more than 4096 bytes, with their names, without a sound
MOST_COOKIE_CHARACTERS = 3800
#: of what is told on the next page
MOST_SAID_CHARACTERS = 1500
#: what browsers send where the page with the form is ours, or is nobody's
OWN_SITES = frozenset({"same-origin", "none"})


class ForgedForm(Exception):
    """A form that no page of ours to this person had; nothing was done."""


@dataclass(frozen=True)
class Said:
    """What is told on the next page about something that was done, or was refused."""

    text: str
    good: bool


class Signing:
    """Keeps nothing but what is over before its time (`ending`): what a browser brings says the rest."""

    def __init__(
        self,
        seals: Seals,
        ended: Ended,
        *,
        session_s: float,
        public_url: str | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._seals = seals
        self._ended = ended
        self.session_s = session_s
        self.public_url = public_url
        self._is_secure = (public_url or "").startswith("https://")
        self._clock = clock

    async def session_of(self, request: Request) -> Session | None:
        """Tell who signed in at this browser; None: nobody, too long ago, or signed out since then."""
        word = request.cookies.get(SESSION_COOKIE, "")
        session = Session.of(self._seals.open(word, SESSION)) if word else None
        return None if session is None or await self.is_over(session) else session

    async def is_over(self, session: Session) -> bool:
        """Tell whether somebody has to sign in again: too long ago, or signed out since then."""
        return session.is_over(self._clock()) or await self._ended.has(session.session_id)

    async def session_for(self, api: Api, token: str, kept: Kept | None = None) -> Session:
        """Ask the API who holds a token. Raises SignedOut, Refused, Away.

        `kept`: what this token was given for; the API does not believe it either if what the person got until they
        signed in was revoked, or one of the tokens that were given since.
        """
        if len(token) > MOST_TOKEN_CHARACTERS:
            raise Refused(f"the token has {len(token)} characters; at most {MOST_TOKEN_CHARACTERS} fit into a cookie")
        issued_at, marks = (kept.issued_at, kept.marks) if kept else (None, ())
        found = await api.get("system/get_attributes", issued_at=issued_at, marks=",".join(marks))
        known = found["environment"]
        session = Session(
            secrets.token_urlsafe(12),
            token,
            known["REMOTE_USER"],
            known["ROLES"],
            known["VO"],
            known["RIGHTS"],
            min(self._clock() + self.session_s, _expiry_of(token)),
        )
        n_characters = len(self._seals.seal(session.content(), SESSION))
        if n_characters > MOST_COOKIE_CHARACTERS:
            raise Refused(
                f"the token, with name, roles, VOs and rights, is {n_characters} characters when it is sealed; at most "
                f"{MOST_COOKIE_CHARACTERS} fit into a cookie: use a token with fewer groups or roles"
            )
        return session

    def begin(self, response: Response, session: Session) -> None:
        """Give the browser its session."""
        seconds = max(1, int(session.until - self._clock()))
        self._set(response, SESSION_COOKIE, self._seals.seal(session.content(), SESSION), seconds)

    async def end(self, session_id: str) -> None:
        """End a session: copies of its cookies are worth nothing from now on."""
        await self._ended.end(session_id, self._clock() + self.session_s)

    def forget(self, response: Response) -> None:
        """Take the session away from the browser, and what renews it."""
        response.delete_cookie(SESSION_COOKIE, path=ROOT)
        self.forget_renewal(response)

    async def was_ended(self, session_id: str) -> bool:
        """Tell whether somebody signed out of it."""
        return await self._ended.has(session_id)

    def remember_renewal(self, response: Response, kept: Kept) -> None:
        """Let the browser keep what renews its session; where that is too long for a cookie nothing is kept."""
        word = self._seals.seal(kept.content(), RENEWAL)
        if len(word) <= MOST_COOKIE_CHARACTERS:
            self._set(response, RENEWAL_COOKIE, word, max(1, int(kept.ends - self._clock())))
        else:
            self.forget_renewal(response)

    async def renewal_of(self, request: Request) -> Kept | None:
        """Read what renews the session of this browser; None: nothing, or nothing any more."""
        word = request.cookies.get(RENEWAL_COOKIE, "")
        kept = Kept.of(self._seals.open(word, RENEWAL)) if word else None
        is_over = kept is None or self._clock() >= kept.ends or await self._ended.has(kept.session_id)
        return None if is_over else kept

    def forget_renewal(self, response: Response) -> None:
        """Let nothing renew it any more."""
        response.delete_cookie(RENEWAL_COOKIE, path=ROOT)

    def link_word(self, session: Session) -> str:
        """What stands in a link that signs a browser in, once and soon."""
        content = {"session": session.content(), "until": self._clock() + LINK_S}
        return self._seals.seal(content, LINK)

    async def opened_link(self, word: str, *, use: bool) -> Session | None:
        """Open a link: whom it signs in; None for one that is too old or was used."""
        content = self._seals.open(word, LINK)
        session = Session.of(content["session"]) if content else None
        if content is None or session is None or self._clock() >= content["until"]:
            return None
        if not use:
            return None if await self._ended.has(session.session_id) else session
        if not await self._ended.end(session.session_id, content["until"]):
            return None
        return replace(session, session_id=secrets.token_urlsafe(12))

    def visitor_of(self, request: Request) -> str:
        """What ties the form for signing in to this browser; a new one where it has none."""
        return request.cookies.get(VISITOR_COOKIE) or secrets.token_urlsafe(18)

    def remember_visitor(self, response: Response, visitor: str) -> None:
        """Let the browser bring it with the form."""
        self._set(response, VISITOR_COOKIE, visitor, int(FORM_S))

    def remember_asked(self, request: Request, response: Response, question: str, word: str, seconds: float) -> None:
        """Let the browser bring back what it asked an issuer; of many questions some are forgotten."""
        asked = [name for name in request.cookies if name.startswith(ASKED_COOKIE)]
        for name in asked[: max(0, len(asked) + 1 - MOST_ASKED)]:
            response.delete_cookie(name, path=ROOT)
        self._set(response, _asked_cookie(question), word, int(seconds))

    def asked_of(self, request: Request, question: str) -> str:
        """What this browser asked an issuer under this name; empty where it asked nothing."""
        return request.cookies.get(_asked_cookie(question), "")

    def forget_asked(self, response: Response, question: str) -> None:
        """Let it be answered once."""
        response.delete_cookie(_asked_cookie(question), path=ROOT)

    def form_word(self, whose: str) -> str:
        """What a form carries; `whose`: the session or the visitor that it is for."""
        return self._seals.seal({"until": self._clock() + FORM_S}, FORM, whose)

    def check_form(self, request: Request, fields: Mapping[str, str], whose: str) -> None:
        """Let through what a form of our own pages sends. Raises ForgedForm."""
        site = request.headers.get("sec-fetch-site", "same-origin")
        content = self._seals.open(fields.get("form", ""), FORM, whose)
        if site not in OWN_SITES or content is None or self._clock() >= content["until"]:
            raise ForgedForm("this form is not of a page that you opened here, or is too old: open the page again")

    def hints_word(self, session: Session, content: Mapping[str, Any]) -> str:
        """What a page brings to be told of changes: of what its session was told in full."""
        return self._seals.seal(content, HINTS, session.session_id)

    def opened_hints(self, word: str, session: Session) -> dict[str, Any] | None:
        """What such a page is about; None for what was not made for this session."""
        return self._seals.open(word, HINTS, session.session_id)

    def say(self, response: Response, said: Said) -> None:
        """Tell something on the next page, of a text that is too long for a cookie its beginning."""
        text = said.text[:MOST_SAID_CHARACTERS].encode(errors="replace").decode()
        while len(word := self._seals.seal({"text": text, "good": said.good}, SAID)) > MOST_COOKIE_CHARACTERS:
            text = text[: len(text) * 9 // 10]
        self._set(response, SAID_COOKIE, word, 60)

    def said_to(self, request: Request) -> Said | None:
        """What is to be told on this page."""
        word = request.cookies.get(SAID_COOKIE)
        content = self._seals.open(word, SAID) if word else None
        return None if content is None else Said(str(content["text"]), bool(content["good"]))

    def forget_said(self, response: Response) -> None:
        """Tell it once."""
        response.delete_cookie(SAID_COOKIE, path=ROOT)

    def _set(self, response: Response, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            name, value, max_age=seconds, path=ROOT, secure=self._is_secure, httponly=True, samesite="lax"
        )


def _asked_cookie(question: str) -> str:
    return ASKED_COOKIE + hashlib.sha256(question.encode()).hexdigest()[:16]


def _expiry_of(token: str) -> float:
    """When a token expires, in seconds since the epoch; never where it does not say. The API verifies it."""
    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return float("inf")
    until = claims.get("exp")
    return float(until) if isinstance(until, int | float) else float("inf")
