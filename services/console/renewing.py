"""Renews a session with the refresh token of the issuer, where it gave one: who works goes on without signing in again.

The refresh token is kept at the browser, sealed, in a cookie of its own. A session is renewed shortly before its end,
or when somebody comes back later, until the console's own time for a session has passed since somebody signed in.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from services.console.asking import Api, Away, Refused, SignedOut
from services.console.identifying import Given, Issuer
from services.console.policy.sessions import Session
from services.console.signing import Signing

#: so long before a session is over it is renewed
BEFORE_S = 60.0
#: requests of one page that come together get one answer of the issuer: many take a refresh token once
KEPT_S = 30.0
AskAs = Callable[[Request, str], Api]


@dataclass(frozen=True)
class Kept:
    """What renews a session: `subject` as the issuer names the person, `ends`: then one signs in again."""

    session_id: str
    subject: str
    refresh_token: str
    ends: float

    @classmethod
    def of(cls, content: dict[str, Any] | None) -> Kept | None:
        """What was sealed; None where it is nothing, or of another version."""
        try:
            return None if content is None else cls(**content)
        except TypeError:
            return None


@dataclass(frozen=True)
class Renewed:
    """A session that goes on, and what renews it the next time; `kept` None: nothing does any more."""

    session: Session | None
    kept: Kept | None


class Renewing:
    """Keeps the renewals of the last half minute, and nothing else."""

    def __init__(self, signing: Signing, issuer: Issuer, clock: Callable[[], float] = time.time) -> None:
        self._signing, self._issuer, self._clock = signing, issuer, clock
        self._made: dict[str, tuple[float, asyncio.Task[Renewed]]] = {}

    def begin(self, response: Response, session: Session, given: Given) -> None:
        """Give the browser what renews its session, if the issuer gave something."""
        if given.refresh_token:
            ends = self._clock() + self._signing.session_s
            self._signing.remember_renewal(
                response, asdict(Kept(session.session_id, given.subject, given.refresh_token, ends)), ends
            )

    async def session_of(self, request: Request, session: Session | None, ask_as: AskAs) -> Renewed | None:
        """Renew the session of a browser that is over, or soon will be; None where nothing is to be changed."""
        now = self._clock()
        kept = Kept.of(self._signing.renewal_of(request))
        is_due = session is None or session.until - now < BEFORE_S
        if kept is None or not is_due or now >= kept.ends or await self._signing.was_ended(kept.session_id):
            return None
        if session is not None and session.session_id != kept.session_id:
            return None
        name = hashlib.sha256(kept.refresh_token.encode()).hexdigest()
        self._made = {one: made for one, made in self._made.items() if made[0] > now - KEPT_S}
        if name not in self._made:
            self._made[name] = now, asyncio.ensure_future(self._renewed(request, session, kept, ask_as))
        return await asyncio.shield(self._made[name][1])

    async def _renewed(self, request: Request, session: Session | None, kept: Kept, ask_as: AskAs) -> Renewed:
        try:
            given = await self._issuer.renewed(kept.refresh_token, kept.subject)
            found = await self._signing.session_for(ask_as(request, given.id_token), given.id_token)
        except Away:
            return Renewed(session, kept)
        except (Refused, SignedOut):
            return Renewed(session, None)
        going_on = replace(found, session_id=kept.session_id, until=min(found.until, kept.ends))
        return Renewed(going_on, replace(kept, refresh_token=given.refresh_token or kept.refresh_token))

    def tell(self, response: Response, renewed: Renewed) -> None:
        """Let the browser keep what was renewed."""
        if renewed.session is not None:
            self._signing.begin(response, renewed.session)
        if renewed.kept is not None:
            self._signing.remember_renewal(response, asdict(renewed.kept), renewed.kept.ends)
        else:
            self._signing.forget_renewal(response)
