"""Tokens of OpenID Connect issuers, whose keys are read, kept, and read again when they change.

An issuer that cannot be reached keeps nobody out whose key is known (OpenID Connect Discovery; RFC 7517, 7519, 8725).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import jwt
import orjson

from shared.auth.caller import (
    ANY_NAMES,
    Credential,
    NamesOfSource,
    NotAuthenticated,
    TokenExpired,
    check_name,
    names_of_token,
    rights_of,
)
from shared.auth.configuration import IssuerSection, encrypted, name_of_source
from shared.auth.leeway import CLOCK_LEEWAY_S, EXPIRED_LEEWAY_S, check_expiry
from shared.auth.refusals import shown_id, why_refused

log = logging.getLogger(__name__)

FETCH_TIMEOUT_S = 5.0
#: tokens with keys that nobody knows, which anybody can make, cause one question in this time
ASK_AGAIN_AFTER_S = 5.0
LARGEST_ANSWER_BYTES = 512 * 1024
DISCOVERY = "/.well-known/openid-configuration"
#: which signatures a key can have made; a key for HMAC (`oct`) never verifies anything here
_ALGORITHMS_OF_KEY: Mapping[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}


class KeysWanted(NotAuthenticated):
    """The token may be good: the keys of its issuer have to be read first."""

    def __init__(self, issuer: OidcIssuer, text: str) -> None:
        super().__init__(text)
        self.issuer = issuer


class OidcIssuer:
    """One issuer and its keys; `on_change` is called when they are others than before.

    `names`: those that it can give.
    """

    def __init__(
        self,
        section: IssuerSection,
        *,
        names: NamesOfSource = ANY_NAMES,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.section = section
        self._names = names
        self._clock = clock
        self._on_change = on_change
        self._keys: dict[str | None, tuple[jwt.PyJWK, tuple[str, ...]]] = {}
        self._document: dict[str, Any] = {}
        self._read_at = float("-inf")
        self._asked_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    def credential(self, token: str, header: Mapping[str, Any], *, leeway_s: float = EXPIRED_LEEWAY_S) -> Credential:
        """Who holds the token; `leeway_s`: so long it may have expired.

        Raises KeysWanted where its key is not known, NotAuthenticated.
        """
        key, algorithms = self._key_for(header)
        allowed = [one for one in algorithms if one in self.section.algorithms]
        if header.get("alg") not in allowed:
            raise NotAuthenticated(
                f"token refused: its algorithm is not allowed for its key; allowed: {', '.join(allowed) or 'none'}"
            )
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=allowed,
                audience=self.section.audience,
                issuer=self.section.issuer,
                leeway=max(leeway_s, CLOCK_LEEWAY_S),
                options={"require": ["exp"]},
            )
            check_expiry(claims, leeway_s)
        except jwt.ExpiredSignatureError as error:
            raise TokenExpired(f"token refused: {why_refused(error)}") from None
        except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
            raise NotAuthenticated(f"token refused: {why_refused(error)}") from None
        return self._credential_of(claims, token)

    def _key_for(self, header: Mapping[str, Any]) -> tuple[jwt.PyJWK, tuple[str, ...]]:
        key_id = header.get("kid")
        found = self._keys.get(key_id)
        if found is None and key_id is None and len(self._keys) == 1:
            (found,) = self._keys.values()
        if found is not None:
            return found
        said = f"token refused: its issuer {self.section.issuer} has no key {shown_id(key_id)}"
        if self._clock() - self._asked_at >= ASK_AGAIN_AFTER_S or self._reading is not None:
            raise KeysWanted(self, said)
        raise NotAuthenticated(said if self._keys else f"token refused: {self.section.issuer} cannot be asked for keys")

    def _credential_of(self, claims: Mapping[str, Any], token: str) -> Credential:
        section = self.section
        names = (claims.get(name) for name in section.name_claims)
        name = next((one for one in names if isinstance(one, str) and one.strip()), "")
        if not name:
            raise NotAuthenticated(f"token refused: it has none of the claims {', '.join(section.name_claims)}")
        try:
            name = name_of_source(name, section.prefix, self._names.of_others)
            groups = groups_of(claims, section.group_claims)
        except ValueError as error:
            raise NotAuthenticated(f"token refused: {error}") from None
        scope = claims.get("scope")
        return Credential(
            name=name,
            groups=groups,
            roles_of_group=section.roles,
            rights=rights_of(scope.split()) if isinstance(scope, str) else None,
            issued_at=_number(claims.get("iat")),
            expires_at=_number(claims.get("exp")),
            token_ids=names_of_token({**claims, "iss": section.issuer}, token),
            is_of_every_vo=False,
            names=self._names,
            source=section.issuer,
        )

    async def read_keys(self) -> None:
        """Read the keys, unless it is being done: then wait for it. What cannot be read changes nothing."""
        if self._reading is None:
            self._asked_at = self._clock()
            self._reading = asyncio.get_running_loop().create_task(self._read())
            self._reading.add_done_callback(self._has_read)
        await asyncio.shield(self._reading)

    def _has_read(self, task: asyncio.Task[None]) -> None:
        self._reading = None

    async def keep_keys(self) -> None:
        """Read them when they are due; after a failure soon again."""
        if self._clock() - self._read_at >= self.section.keys_kept_s:
            await self.read_keys()

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_S), httpx.AsyncClient(timeout=FETCH_TIMEOUT_S) as client:
                document = await _object_at(client, self.section.issuer.rstrip("/") + DISCOVERY)
                if document.get("issuer") != self.section.issuer:
                    raise ValueError(f"the document is that of the issuer {document.get('issuer')!r}")
                found = await _object_at(client, encrypted(str(document.get("jwks_uri"))))
            keys = keys_of(found)
            if not keys:
                raise ValueError("there is no key that can be used")
        except (httpx.HTTPError, OSError, TimeoutError, ValueError) as error:
            text = f"{type(error).__name__}: {error}"
            log.warning("keys of the issuer %s could not be read, known ones go on: %s", self.section.issuer, text)
            return
        is_new = found != self._document
        self._keys, self._document, self._read_at = keys, found, self._clock()
        if is_new:
            self._on_change()


async def _object_at(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """A JSON object. Raises ValueError for anything else, or too much of it."""
    body = bytearray()
    async with client.stream("GET", url) as answer:
        answer.raise_for_status()
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > LARGEST_ANSWER_BYTES:
                raise ValueError(f"{url}: more than {LARGEST_ANSWER_BYTES} bytes")
    found = orjson.loads(body)
    if not isinstance(found, dict):
        raise ValueError(f"{url}: no JSON object")
    return found


def keys_of(document: Mapping[str, Any]) -> dict[str | None, tuple[jwt.PyJWK, tuple[str, ...]]]:
    """Keys that verify signatures, by their id, each with its algorithms; others are left out."""
    found: dict[str | None, tuple[jwt.PyJWK, tuple[str, ...]]] = {}
    listed = document.get("keys")
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict) or one.get("use", "sig") != "sig":
            continue
        kind = str(one.get("kty"))
        algorithms = _ALGORITHMS_OF_KEY.get((kind, None if kind == "RSA" else one.get("crv")))
        if algorithms is None:
            continue
        stated = one.get("alg")
        if stated is not None:
            algorithms = tuple(name for name in algorithms if name == stated)
        try:
            key = jwt.PyJWK(one, algorithms[0] if algorithms else None)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
            log.warning("a key of an issuer is left out: %s", error)
            continue
        key_id = one.get("kid")
        found[key_id if isinstance(key_id, str) else None] = (key, algorithms)
    return found


def groups_of(claims: Mapping[str, Any], names: tuple[str, ...]) -> frozenset[str]:
    """Groups without the slash in front that some issuers write: atlas/production of /atlas/production.

    Raises ValueError for one whose name is not seen whole.
    """
    found = set[str]()
    for name in names:
        listed = claims.get(name)
        found |= {str(one).strip("/") for one in listed} if isinstance(listed, list) else set()
    return frozenset(check_name(one) for one in found if one)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
