"""Signs people in at an OpenID Connect issuer by code flow with PKCE; renews, and signs out there.

OpenID Connect Core 1.0, RP-Initiated Logout 1.0; RFC 6749, RFC 7636, RFC 9207. What ties an answer to the browser that
asked is sealed in a cookie of that browser. The ID token comes from the issuer itself over an encrypted connection; the
API verifies its signature when it is asked with it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
import jwt

from services.console.asking import Away, Refused
from services.console.policy.sessions import HOME
from services.console.sealing import Seals
from shared.auth.configuration import encrypted

log = logging.getLogger(__name__)

ASKED = "console asked issuer"
#: as long as somebody may take to sign in there
SIGN_IN_S = 900.0
TIMEOUT_S = 10.0
DISCOVERY = "/.well-known/openid-configuration"
ENDPOINTS = ("authorization_endpoint", "token_endpoint")
#: where the issuer has them
LEAVING, REVOKING = "end_session_endpoint", "revocation_endpoint"
#: nobody waits longer for a refresh token to be revoked
REVOKE_S = 3.0
#: then the issuer is asked again where they are
DISCOVERED_S = 3600.0
#: where the issuer sends the browser back to
BACK = f"{HOME}sign-in/back"
AGAIN = "sign in again"


@dataclass(frozen=True)
class Client:
    """What the issuer knows the console as; without `secret` PKCE alone protects it."""

    issuer: str
    client_id: str
    secret: str
    scopes: str
    redirect_uri: str


@dataclass(frozen=True)
class Asked:
    """Where the browser is sent, and what it keeps until it comes back; `question`: the state of OAuth."""

    address: str
    question: str
    word: str


@dataclass(frozen=True)
class Given:
    """What the issuer gave for a person, whom it names `subject`.

    `refresh_token`: empty where it gave none. `issued_at`: of the ID token, in seconds since the epoch.
    """

    id_token: str
    subject: str
    refresh_token: str
    issued_at: float


class Issuer:
    """Keeps nothing but the issuer's addresses."""

    def __init__(self, client: Client, seals: Seals, clock: Callable[[], float] = time.time) -> None:
        self._client, self._seals, self._clock = client, seals, clock
        self._known: dict[str, str] = {}
        self._known_until = 0.0

    @property
    def name(self) -> str:
        """Where one signs in."""
        return httpx.URL(self._client.issuer).host

    async def ask(self, path_after: str) -> Asked:
        """Begin: another state, nonce and verifier each time. Raises Away, Refused."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": self._client.redirect_uri,
            "scope": self._client.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = await self._endpoint("authorization_endpoint")
        kept = {"state": state, "nonce": nonce, "verifier": verifier, "next": path_after}
        word = self._seals.seal({**kept, "until": self._clock() + SIGN_IN_S}, ASKED)
        return Asked(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", state, word)

    def path_after(self, word: str) -> str:
        """Where somebody goes on who asked with this word; empty where nobody did."""
        kept = self._seals.open(word, ASKED) if word else None
        return "" if kept is None else str(kept["next"])

    async def given(self, word: str, told: Mapping[str, str]) -> Given:
        """Take the code that a browser came back with to the issuer. Raises Away, Refused."""
        kept = self._seals.open(word, ASKED) if word else None
        if kept is None or self._clock() >= kept["until"]:
            raise Refused(f"nobody asked to sign in at this browser, or too long ago: {AGAIN}")
        if not secrets.compare_digest(told.get("state", "").encode(), kept["state"].encode()):
            raise Refused(f"the issuer answers another question than this browser asked: {AGAIN}")
        if told.get("iss", self._client.issuer) != self._client.issuer:
            raise Refused(f"another issuer answers than the one that was asked: {AGAIN}")
        if "code" not in told:
            raise Refused(
                f"the issuer refused: {told.get('error_description') or told.get('error') or 'without a word'}"
            )
        answer = await self._exchanged(
            grant_type="authorization_code",
            code=told["code"],
            redirect_uri=self._client.redirect_uri,
            code_verifier=kept["verifier"],
        )
        return self._checked(answer, {"nonce": kept["nonce"]})

    async def renewed(self, refresh_token: str, subject: str) -> Given:
        """Ask for another ID token of the same person. Raises Away, Refused."""
        answer = await self._exchanged(grant_type="refresh_token", refresh_token=refresh_token)
        return self._checked(answer, {"sub": subject})

    def subject_of(self, token: str) -> str:
        """Tell whom the issuer named in a token for this console; empty for a token of others."""
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except jwt.InvalidTokenError:
            return ""
        is_ours = claims.get("iss") == self._client.issuer and self._is_meant(claims)
        return str(claims.get("sub", "")) if is_ours else ""

    async def leaving(self, subject: str) -> str:
        """Find where a browser ends the session at the issuer, too; empty: nowhere, or the issuer is away.

        The ID token is no hint there: the services believe it, and addresses stand in logs. The issuer may ask whoever
        comes whether they want to sign out.
        """
        client = self._client
        try:
            endpoint = await self._endpoint(LEAVING)
        except (Away, Refused):
            return ""
        if not endpoint:
            return ""
        back = client.redirect_uri.removesuffix(BACK) + f"{HOME}sign-in"
        query = {"client_id": client.client_id, "logout_hint": subject, "post_logout_redirect_uri": back}
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def revoke(self, refresh_token: str) -> None:
        """Have the issuer forget a refresh token (RFC 7009), if it can and answers in time."""
        form = {"client_id": self._client.client_id, "token": refresh_token, "token_type_hint": "refresh_token"}
        try:
            async with asyncio.timeout(REVOKE_S):
                if endpoint := await self._endpoint(REVOKING):
                    async with httpx.AsyncClient() as http:
                        answer = await http.post(endpoint, data=form, auth=self._proof())
                    answer.raise_for_status()
        except (Away, Refused, TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
            log.warning("the issuer %s did not revoke a refresh token: %s", self.name, error or "no answer")

    async def _exchanged(self, **words: str) -> dict[str, Any]:
        client = self._client
        form = {"client_id": client.client_id, **words}
        return await self._answer("POST", await self._endpoint("token_endpoint"), data=form, auth=self._proof())

    def _proof(self) -> httpx.Auth:
        client = self._client
        return httpx.BasicAuth(client.client_id, client.secret) if client.secret else httpx.Auth()

    def _is_meant(self, claims: Mapping[str, Any]) -> bool:
        """Whether a token was made for this console."""
        audience = claims.get("aud")
        return self._client.client_id in (audience if isinstance(audience, list) else [audience])

    def _checked(self, answer: Mapping[str, Any], asked: Mapping[str, str]) -> Given:
        """What was given, if its claims are those that were asked for. Raises Refused."""
        client, token = self._client, answer.get("id_token")
        if not isinstance(token, str):
            raise Refused("the issuer gave no ID token: is `openid` among the scopes of the console?")
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except jwt.InvalidTokenError:
            raise Refused("the issuer gave something else than an ID token") from None
        checks = {
            "iss": claims.get("iss") == client.issuer,
            "aud": self._is_meant(claims),
            **{
                name: secrets.compare_digest(str(claims.get(name, "")).encode(), value.encode())
                for name, value in asked.items()
            },
        }
        if wrong := [name for name, is_right in checks.items() if not is_right]:
            raise Refused(f"the ID token was made for something else ({', '.join(wrong)}): {AGAIN}")
        issued_at = claims.get("iat")
        return Given(
            token,
            str(claims.get("sub", "")),
            str(answer.get("refresh_token") or ""),
            float(issued_at) if isinstance(issued_at, int | float) else 0.0,
        )

    async def _endpoint(self, name: str) -> str:
        if self._clock() >= self._known_until:
            self._known = await self._discovered()
            self._known_until = self._clock() + DISCOVERED_S
        return self._known[name]

    async def _discovered(self) -> dict[str, str]:
        """The addresses that the issuer names, each of which can be used. Raises Away, Refused."""
        found = await self._answer("GET", self._client.issuer.rstrip("/") + DISCOVERY)
        if found.get("issuer") != self._client.issuer:
            raise Refused(f"the issuer calls itself {found.get('issuer')!r}, not {self._client.issuer!r}")
        addresses = dict[str, str]()
        for name in ENDPOINTS:
            try:
                addresses[name] = encrypted(str(found.get(name)))
            except ValueError as error:
                raise Refused(f"{name} of the issuer: {error}") from None
        for name in (LEAVING, REVOKING):
            try:
                addresses[name] = encrypted(str(found[name])) if found.get(name) else ""
            except ValueError:
                addresses[name] = ""
        return addresses

    async def _answer(self, method: str, url: str, **arguments: Any) -> dict[str, Any]:
        try:
            async with httpx.AsyncClient(timeout=TIMEOUT_S) as http:
                answer = await http.request(method, url, **arguments)
            found = answer.json()
        except httpx.HTTPError as error:
            raise Away(f"the issuer {self.name} cannot be asked: {type(error).__name__}") from None
        except ValueError:
            raise Away(f"the issuer {self.name} does not answer with JSON (HTTP {answer.status_code})") from None
        if answer.status_code >= 500:
            raise Away(f"the issuer {self.name} failed with HTTP {answer.status_code}")
        if not isinstance(found, dict) or not answer.is_success:
            told = found if isinstance(found, dict) else {}
            raise Refused(
                f"the issuer refused: {told.get('error_description') or told.get('error') or answer.status_code}"
            )
        return found
