"""Renews a session with the refresh token of the issuer, where it gave one.

The refresh token is kept at the browser, sealed, in a cookie of its own. A session is renewed shortly before its end,
or when somebody comes back later, until the console's own time for a session has passed since somebody signed in.
An issuer may take a refresh token once: what it gave for one is told to whoever brings the same again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import jwt
from starlette.requests import Request
from starlette.responses import Response

from services.console.asking import Api, Away, Refused, SignedOut
from services.console.identifying import TIMEOUT_S, Given, Issuer
from services.console.policy.sessions import Kept, Session
from services.console.sealing import Seals
from services.console.signing import Signing
from shared.auth.caller import mark_of, names_of_token
from shared.cache import Cache

log = logging.getLogger(__name__)

#: so long before a session is over it is renewed, and not before three quarters of its token's lifetime
BEFORE_S, PART = 60.0, 0.25
#: what was given for a refresh token is told so long to pages that bring the same one
KEPT_S = 300.0
#: another copy that renews a session has an answer by then, or never
OTHER_COPY_S, LOOK_AGAIN_S = TIMEOUT_S + 5.0, 0.1
KEY, CLAIM = "console/renewed/{}", "console/renewing/{}"
#: of the sealed words that tell other copies what was given
RENEWED = "console renewed"
AskAs = Callable[[Request, str], Api]


@dataclass(frozen=True)
class Renewed:
    """A session that goes on, and what renews it the next time; `kept` None: nothing does any more.

    `away`: what did not answer, so that there is no new session yet.
    """

    session: Session | None
    kept: Kept | None
    away: str = ""


class Renewals:
    """What was given for refresh tokens within the last minutes, by their digests.

    It is kept here, and in Redis for other copies. While Redis is away each copy knows its own.
    """

    def __init__(self, cache: Cache, seals: Seals, clock: Callable[[], float]) -> None:
        self._cache, self._seals, self._clock = cache, seals, clock
        self._known: dict[str, tuple[float, Renewed]] = {}

    async def claim(self, name: str) -> bool:
        """Have this copy ask the issuer; False where another one does."""
        return await self._cache.put_new(CLAIM.format(name), True, lifetime_s=OTHER_COPY_S) is not False

    async def give_up(self, name: str) -> None:
        """Let others ask: the refresh token was not taken."""
        await self._cache.delete(CLAIM.format(name))

    async def keep(self, name: str, renewed: Renewed) -> None:
        """Tell it to whoever brings the same refresh token."""
        now = self._clock()
        self._known = {one: known for one, known in self._known.items() if known[0] > now}
        self._known[name] = now + KEPT_S, renewed
        content = {
            "session": renewed.session.content() if renewed.session else None,
            "kept": renewed.kept.content() if renewed.kept else None,
            "away": renewed.away,
        }
        await self._cache.put_new(KEY.format(name), self._seals.seal(content, RENEWED, name), lifetime_s=KEPT_S)

    async def find(self, name: str) -> Renewed | None:
        """Find what was given for it, here or at another copy."""
        until, known = self._known.get(name, (0.0, None))
        if known is not None and until > self._clock():
            return known
        told = await self._cache.get(KEY.format(name))
        content = self._seals.open(str(told.value), RENEWED, name) if told else None
        if content is None:
            return None
        return Renewed(Session.of(content["session"]), Kept.of(content["kept"]), content["away"])

    async def wait_for(self, name: str) -> Renewed | None:
        """Wait for what another copy is given."""
        for _ in range(int(OTHER_COPY_S / LOOK_AGAIN_S)):
            if found := await self.find(name):
                return found
            await asyncio.sleep(LOOK_AGAIN_S)
        return None


class Renewing:
    """Takes each refresh token to the issuer once, however many pages bring it."""

    def __init__(
        self, signing: Signing, issuer: Issuer, renewals: Renewals, clock: Callable[[], float] = time.time
    ) -> None:
        self._signing, self._issuer, self._renewals, self._clock = signing, issuer, renewals, clock
        self._under_way: dict[str, asyncio.Task[Renewed]] = {}

    def begin(self, response: Response, session: Session, given: Given) -> None:
        """Give the browser what renews its session, if the issuer gave something."""
        if given.refresh_token:
            ends = self._clock() + self._signing.session_s
            marks = marks_of(given.id_token)
            kept = Kept(session.session_id, given.subject, given.refresh_token, given.issued_at, ends, marks)
            self._signing.remember_renewal(response, kept)
        else:
            self._signing.forget_renewal(response)

    async def session_of(self, request: Request, session: Session | None, ask_as: AskAs) -> Renewed | None:
        """Renew the session of a browser that is over, or soon will be; None where nothing is to be changed."""
        kept = await self._signing.renewal_of(request)
        if kept is None:
            return None
        if session is not None and session.session_id != kept.session_id:
            return Renewed(session, None)
        if session is not None and not self._is_due(session, kept):
            return None
        name = hashlib.sha256(kept.refresh_token.encode()).hexdigest()
        if name not in self._under_way:
            task = asyncio.ensure_future(self._renewed(name, request, session, kept, ask_as))
            self._under_way[name] = task
            task.add_done_callback(lambda _: self._under_way.pop(name, None))
        renewed = await asyncio.shield(self._under_way[name])
        if await self._signing.was_ended(kept.session_id):  # meanwhile
            return Renewed(None, None)
        return renewed

    def _is_due(self, session: Session, kept: Kept) -> bool:
        """A session that lasts until one signs in again anyhow is not renewed."""
        left_s = session.until - self._clock()
        return session.until < kept.ends and left_s < BEFORE_S and left_s < PART * _lifetime_s(session.token)

    async def _renewed(
        self, name: str, request: Request, session: Session | None, kept: Kept, ask_as: AskAs
    ) -> Renewed:
        """Look whether another page or copy renewed it already, or is about to, before the issuer is asked."""
        if found := await self._renewals.find(name):
            return found
        is_ours = await self._renewals.claim(name)
        if not is_ours and (found := await self._renewals.wait_for(name)):
            return found
        try:
            renewed = await self._asked(request, session, kept, ask_as)
        except Exception as error:
            log.error("a session cannot be renewed", exc_info=error)
            renewed = Renewed(session, kept, "the session cannot be renewed: the log of the console says why")
        if renewed.kept == kept and renewed.away:
            await self._renewals.give_up(name)
        elif renewed.kept is None and (found := await self._renewals.find(name)):
            return found
        elif renewed.kept is not None:
            await self._renewals.keep(name, renewed)
        return renewed

    async def _asked(self, request: Request, session: Session | None, kept: Kept, ask_as: AskAs) -> Renewed:
        """Ask the issuer, then the API; what the issuer gave is kept though the API may be away."""
        try:
            given = await self._issuer.renewed(kept.refresh_token, kept.subject)
        except Away as error:
            return Renewed(session, kept, str(error))
        except Refused:
            return Renewed(session, None)
        going_on = kept.followed_by(given.refresh_token, marks_of(given.id_token))
        try:
            found = await self._signing.session_for(ask_as(request, given.id_token), given.id_token, kept)
        except Away as error:
            return Renewed(session, going_on, str(error))
        except SignedOut:  # what the person got was revoked: no copy of the cookies is worth anything
            await self._signing.end(kept.session_id)
            return Renewed(None, None)
        except Refused:
            return Renewed(session, None)
        return Renewed(replace(found, session_id=kept.session_id, until=min(found.until, kept.ends)), going_on)

    async def tell(self, response: Response, renewed: Renewed) -> None:
        """Let the browser keep what was renewed, unless somebody signed out meanwhile."""
        if renewed.kept is not None and await self._signing.was_ended(renewed.kept.session_id):
            return
        if renewed.session is not None:
            self._signing.begin(response, renewed.session)
        if renewed.kept is not None:
            self._signing.remember_renewal(response, renewed.kept)
        else:
            self._signing.forget_renewal(response)


def marks_of(token: str) -> list[str]:
    """What the API knows a token by, if it was revoked: it may be named by its id, or by its digest."""
    return [mark_of(one) for one in names_of_token(jwt.decode(token, options={"verify_signature": False}), token)]


def _lifetime_s(token: str) -> float:
    """From when a token was issued until it expires; endless where it does not say."""
    claims = jwt.decode(token, options={"verify_signature": False})
    until, issued_at = claims.get("exp"), claims.get("iat")
    if isinstance(until, int | float) and isinstance(issued_at, int | float):
        return float(until - issued_at)
    return float("inf")
