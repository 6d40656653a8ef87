"""Finds who sent a request: by a token, ours or another issuer's, or by a verified certificate.

What was found is remembered by the bytes of the headers: a pilot's heartbeat costs a dictionary look-up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import jwt

from shared.auth.authority import ISSUER, KEY_AUDIENCE, Authority
from shared.auth.caller import Caller, ClaimRefused, Credential, NotAuthenticated
from shared.auth.certificates import FORWARDED_HEADER, HEADERS, Certificates
from shared.auth.configuration import IdentityFile
from shared.auth.issuers import KeysWanted, OidcIssuer
from shared.auth.revocation import Revocations

#: callers that are remembered, and for how long: then their token is verified again
REMEMBERED = 20_000
REMEMBERED_S = 600.0
LONGEST_HEADER = 16 * 1024
KEYS_LOOKED_AT_EVERY_S = 10.0

_Known = tuple[Caller, float]


class Authentication:
    """Believes or refuses callers.

    `count` is told why one was refused, in one of few words; `clock` is the time of day in seconds.
    """

    def __init__(
        self,
        authority: Authority,
        identity: IdentityFile | None = None,
        *,
        count: Callable[[str], None] = lambda why: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        identity = identity or IdentityFile()
        self.authority = authority
        self.revocations = Revocations(self.forget)
        others = identity.prefixes_of_others
        proxies = identity.proxies
        self.certificates = Certificates(proxies, others(proxies.prefix)) if proxies is not None else None
        self.issuers = {
            one.issuer: OidcIssuer(one, of_others=others(one.prefix), on_change=self.forget) for one in identity.issuers
        }
        self._count = count
        self._clock = clock
        self._known: dict[tuple[bytes, bytes], _Known] = {}

    def forget(self) -> None:
        """Keys or revocations changed: everybody is verified again."""
        self._known.clear()

    def known(self, authorization: bytes, origin: bytes = b"") -> Caller | None:
        """Who sends these headers, if that was verified a while ago: a look-up, for calls that must be fast."""
        found = self._known.get((authorization, origin))
        return found[0] if found is not None and found[1] > self._clock() else None

    def caller(self, scope: Any) -> Caller:
        """Who sent a request. Raises NotAuthenticated, or KeysWanted where `authenticated` would wait."""
        authorization, origin = _headers_of(scope)
        if authorization is not None:
            return self.known(authorization, origin) or self._by_token(authorization, origin)
        return self._by_certificate(scope, origin)

    async def authenticated(self, scope: Any) -> Caller:
        """The same; reads the keys of the token's issuer first where they are not known.

        Raises NotAuthenticated.
        """
        try:
            return self.caller(scope)
        except KeysWanted as wanted:
            await wanted.issuer.read_keys()
        return self.caller(scope)

    def _by_token(self, authorization: bytes, origin: bytes) -> Caller:
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAuthenticated("a header 'Authorization: Bearer <token>' is needed")
        try:
            caller, until = self._checked(self._credential(token.strip(), len(authorization)), origin)
        except KeysWanted:
            raise
        except NotAuthenticated as error:
            self._count("claim" if isinstance(error, ClaimRefused) else "token")
            raise
        self._remember((authorization, origin), caller, until)
        return caller

    def _credential(self, token: str, size: int) -> Credential:
        if size > LONGEST_HEADER:
            raise NotAuthenticated(f"token refused: {size} bytes; at most {LONGEST_HEADER} are read")
        if not self.issuers:
            return self.authority.credential(token)
        try:
            header = jwt.get_unverified_header(token)
            # only to find whose key it has to be verified with
            issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
        except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
            raise NotAuthenticated(f"token refused: {error}") from None
        found = self.issuers.get(issuer) if isinstance(issuer, str) and issuer != ISSUER else None
        return found.credential(token, header) if found is not None else self.authority.credential(token)

    def _by_certificate(self, scope: Any, origin: bytes) -> Caller:
        told = [(name, value) for name, value in scope["headers"] if name in HEADERS]
        if told:
            peer = (scope.get("client") or ("",))[0]
            if self.certificates is not None and self.certificates.trusts(peer):
                key = (b"\n".join(name + b":" + value for name, value in told), origin)
                if (known := self.known(*key)) is not None:
                    return known
                try:
                    caller, until = self._checked(self.certificates.credential(told, self._clock()), origin)
                except NotAuthenticated as error:
                    self._count("claim" if isinstance(error, ClaimRefused) else "certificate")
                    raise
                self._remember(key, caller, until)
                return caller
            self._count("certificate_from_elsewhere")
        raise NotAuthenticated("a header 'Authorization: Bearer <token>' is needed")

    def _checked(self, credential: Credential, origin: bytes) -> _Known:
        """The caller and until when that may be believed. Raises NotAuthenticated for what was revoked."""
        now = self._clock()
        if (said := self.revocations.refuse(credential, now)) is not None:
            raise NotAuthenticated(f"token refused: {said}")
        caller = credential.acting(origin.decode("latin-1").strip() or None)
        return caller, min(credential.expires_at, now + REMEMBERED_S)

    def _remember(self, key: tuple[bytes, bytes], caller: Caller, until: float) -> None:
        if len(self._known) >= REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[key] = (caller, until)

    def key_owner(self, key: str) -> Caller:
        """Whose tokens a token key renews. Raises NotAuthenticated."""
        credential = self.authority.credential(key, KEY_AUDIENCE)
        return self._checked(credential, b"")[0]

    def address(self, scope: Any) -> str:
        """The address of the caller: of a trusted proxy what it says in `X-Forwarded-For`."""
        peer = str((scope.get("client") or ("",))[0])
        if self.certificates is None or not self.certificates.trusts(peer):
            return peer
        forwarded = b",".join(value for name, value in scope["headers"] if name == FORWARDED_HEADER)
        return self.certificates.address(peer, forwarded.decode("latin-1"))

    async def keep_keys(self) -> None:
        """Runs for ever: reads the issuers' keys when they are due."""
        while self.issuers:
            await asyncio.gather(*(one.keep_keys() for one in self.issuers.values()))
            await asyncio.sleep(KEYS_LOOKED_AT_EVERY_S)


def _headers_of(scope: Any) -> tuple[bytes | None, bytes]:
    authorization, origin = None, b""
    for name, value in scope["headers"]:
        if name == b"authorization":
            authorization = value
        elif name == b"origin":
            origin = value
    return authorization, origin
