"""Finds who sent a request: by a token, ours or another issuer's, or by a verified certificate.

What was found is remembered by the bytes of the headers: a pilot's heartbeat costs a dictionary look-up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jwt

from shared.auth.addresses import Network, Proxies, counted_as
from shared.auth.authority import AUDIENCE, ISSUER, KEY_AUDIENCE, Authority
from shared.auth.call_rates import ADDRESS, CALLER, FAILED, CallLimits
from shared.auth.caller import EXPIRED_WITHIN_S, Caller, ClaimRefused, Credential, NotAuthenticated
from shared.auth.certificates import FORWARDED_HEADER, HEADERS, Certificates
from shared.auth.configuration import IdentityFile
from shared.auth.issuers import KeysWanted, OidcIssuer
from shared.auth.leeway import EXPIRED_LEEWAY_S
from shared.auth.refusals import why_refused
from shared.auth.revocation import Revocations

#: callers that are remembered, and for how long: then their token is verified again
REMEMBERED = 20_000
REMEMBERED_S = 600.0
LONGEST_HEADER = 16 * 1024
KEYS_LOOKED_AT_EVERY_S = 10.0

_Known = tuple[Caller, float]


class Authentication:
    """Believes or refuses callers.

    `count` is told why one was refused, in one of few words; `clock` is the time of day in seconds. `forwarders`: whose
    word on addresses is believed beside that of the TLS proxies.
    """

    def __init__(
        self,
        authority: Authority,
        identity: IdentityFile | None = None,
        *,
        limits: CallLimits | None = None,
        forwarders: Sequence[Network] = (),
        count: Callable[[str], None] = lambda why: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        identity = identity or IdentityFile()
        self.authority = authority
        self.authority.on_change = self.forget
        self.identity = identity
        self.revocations = Revocations(self.forget)
        names, proxies = identity.names_of, identity.proxies
        self.certificates = Certificates(proxies, identity) if proxies is not None else None
        self.issuers = {
            one.issuer: OidcIssuer(one, names=names(one.prefix), on_change=self.forget) for one in identity.issuers
        }
        self._own_names = names("")
        self.proxies = Proxies((*(proxies.networks if proxies is not None else ()), *forwarders))
        self.limits = limits or CallLimits()
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
        """Who sent a request.

        Raises NotAuthenticated, KeysWanted where `authenticated` would wait, TooManyCalls where too many tokens from
        the same address were refused: then no token is looked at that was not good a while ago.
        """
        authorization, origin = _headers_of(scope)
        if authorization is None:
            return self._by_certificate(scope, origin)
        if (known := self.known(authorization, origin)) is not None:
            return known
        address = counted_as(self.address(scope))
        self.limits.check(FAILED, address)
        try:
            return self._by_token(authorization, origin)
        except KeysWanted:
            raise
        except NotAuthenticated:
            self.limits.note(FAILED, address)
            raise

    def expired_caller(self, scope: Any) -> Caller:
        """Who sent a request with a token that has expired, not too long ago; nobody is remembered.

        Raises NotAuthenticated, KeysWanted.
        """
        authorization, origin = _headers_of(scope)
        if authorization is None or len(authorization) > LONGEST_HEADER:
            raise NotAuthenticated("a header 'Authorization: Bearer <token>' is needed")
        token = authorization.decode("latin-1").partition(" ")[2].strip()
        credential = self._credential(token, leeway_s=EXPIRED_WITHIN_S)
        caller, _ = self._checked(credential, origin, expired_for_s=EXPIRED_WITHIN_S)
        return replace(caller, has_expired=True)

    def count_call(self, scope: Any, caller: Caller | None) -> str:
        """Count a call of a caller, or from an address where there is none; under which name.

        Raises TooManyCalls.
        """
        who = counted_as(self.address(scope)) if caller is None else caller.name
        self.limits.take(ADDRESS if caller is None else CALLER, who)
        return f"the address {who}" if caller is None else who

    async def authenticated(self, scope: Any) -> Caller:
        """The same; reads the keys of the token's issuer first where they are not known.

        Raises NotAuthenticated, TooManyCalls.
        """
        try:
            return self.caller(scope)
        except KeysWanted as wanted:
            await wanted.issuer.read_keys()
        return self.caller(scope)

    def _by_token(self, authorization: bytes, origin: bytes) -> Caller:
        if len(authorization) > LONGEST_HEADER:
            self._count("token")
            raise NotAuthenticated(f"token refused: {len(authorization)} bytes; at most {LONGEST_HEADER} are read")
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAuthenticated("a header 'Authorization: Bearer <token>' is needed")
        try:
            caller, until = self._checked(self._credential(token.strip()), origin)
        except KeysWanted:
            raise
        except NotAuthenticated as error:
            self._count("claim" if isinstance(error, ClaimRefused) else "token")
            raise
        self._remember((authorization, origin), caller, until)
        return caller

    def _credential(self, token: str, *, leeway_s: float = EXPIRED_LEEWAY_S) -> Credential:
        if not self.issuers:
            return self._own(token, leeway_s=leeway_s)
        try:
            header = jwt.get_unverified_header(token)
            # only to find whose key it has to be verified with
            issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
        except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
            raise NotAuthenticated(f"token refused: {why_refused(error)}") from None
        found = self.issuers.get(issuer) if isinstance(issuer, str) and issuer != ISSUER else None
        if found is not None:
            return found.credential(token, header, leeway_s=leeway_s)
        return self._own(token, leeway_s=leeway_s)

    def _own(self, token: str, audience: str = AUDIENCE, *, leeway_s: float = EXPIRED_LEEWAY_S) -> Credential:
        """Of a token of our own issuer. Raises NotAuthenticated, also for a name that another source gives."""
        found = self.authority.credential(token, audience, leeway_s=leeway_s)
        if not self._own_names.has(found.name):
            allowed = self._own_names.meaning
            raise NotAuthenticated(f"token refused: the name {found.name!r} is of another source; allowed: {allowed}")
        return replace(found, names=self._own_names)

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

    def _checked(self, credential: Credential, origin: bytes, *, expired_for_s: float = 0.0) -> _Known:
        """The caller and until when that may be believed. Raises NotAuthenticated for what was revoked."""
        now = self._clock()
        if (said := self.revocations.refuse(credential, now - expired_for_s)) is not None:
            raise NotAuthenticated(f"token refused: {said}")
        caller = replace(credential.acting(origin.decode("latin-1").strip() or None), source=credential.source)
        return caller, min(credential.expires_at, now + REMEMBERED_S)

    def _remember(self, key: tuple[bytes, bytes], caller: Caller, until: float) -> None:
        if len(self._known) >= REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[key] = (caller, until)

    def key_owner(self, key: str, scope: Any = None) -> Caller:
        """Whose tokens a token key renews; `scope`: who asks.

        Raises NotAuthenticated; TooManyCalls like `caller`.
        """
        address = counted_as(self.address(scope)) if scope is not None else ""
        self.limits.check(FAILED, address)
        try:
            return self._owner_of(key)
        except NotAuthenticated:
            self.limits.note(FAILED, address)
            raise

    def _owner_of(self, key: str) -> Caller:
        if len(key) > LONGEST_HEADER:
            raise NotAuthenticated(f"token refused: {len(key)} characters; at most {LONGEST_HEADER} are read")
        credential = self._own(key, KEY_AUDIENCE)
        return self._checked(credential, b"")[0]

    def address(self, scope: Any) -> str:
        """The address of the caller: of a trusted proxy what it says in `X-Forwarded-For`."""
        peer = str((scope.get("client") or ("",))[0])
        if not self.proxies.trusts(peer):
            return peer
        forwarded = b",".join(value for name, value in scope["headers"] if name == FORWARDED_HEADER)
        return self.proxies.address(peer, forwarded.decode("latin-1"))

    async def keep_keys(self) -> None:
        """Runs for ever: reads our own issuer's keys when they have changed, and others' when they are due."""
        while self.issuers or self.authority.follows_file:
            self.authority.look()
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
