"""Gets a token for somebody at a terminal, who confirms it in a browser anywhere (RFC 8628)."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx

from services.cli.failures import Refused, Unreachable, WrongUsage
from services.cli.logins import SystemLogin

SCOPES = "openid profile email offline_access"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
TIMEOUT_S, USUAL_INTERVAL_S, SLOWER_BY_S = 30.0, 5.0, 5.0


def log_in(document: Mapping[str, Any], say: Callable[[str], None]) -> SystemLogin:
    """A token of the issuer that a system names for its logins (`/auth/VO_auth_config.json`).

    `say` is told what the person has to do. Raises Refused, Unreachable, WrongUsage.
    """
    with outside() as http:
        endpoints = _answer(http.get(_encrypted(document["oidc_config_url"])), "its discovery document")
        client = {"client_id": str(document["client_id"])}
        secret = {"client_secret": str(document["client_secret"])} if document.get("client_secret") else {}
        audience = {"audience": str(document["audience"])} if document.get("audience") else {}
        where = endpoints.get("device_authorization_endpoint")
        if not where:
            raise Refused("the issuer has no device flow: paste a token of it, `orrery login URL --token`")
        asked = http.post(_encrypted(where), data={**client, **secret, **audience, "scope": SCOPES})
        begun = _answer(asked, "a device code")
        say(_what_to_do(begun))
        token_endpoint = _encrypted(endpoints["token_endpoint"])
        form = {**client, **secret, "grant_type": DEVICE_GRANT, "device_code": str(begun["device_code"])}
        told = _confirmed(http, token_endpoint, form, begun)
    return _login(told, SystemLogin("", 0.0, "", token_endpoint, client["client_id"], secret.get("client_secret", "")))


def renewed(login: SystemLogin) -> SystemLogin:
    """The same with a new token. Raises Refused where the issuer gives none, Unreachable."""
    form = {"client_id": login.client_id, "grant_type": "refresh_token", "refresh_token": login.refresh_token}
    if login.client_secret:
        form["client_secret"] = login.client_secret
    with outside() as http:
        return _login(_answer(http.post(_encrypted(login.token_endpoint), data=form), "a new token"), login)


def expiry_of(token: str) -> float:
    """When a token expires; its signature is the system's concern. 0 where it does not say, or is none."""
    import jwt

    try:
        found = jwt.decode(token, options={"verify_signature": False}).get("exp")
    except jwt.InvalidTokenError:
        return 0.0
    return float(found) if isinstance(found, int | float) else 0.0


@contextmanager
def outside() -> Iterator[httpx.Client]:
    """A client for other people's servers.

    Certificates are as OpenSSL finds them, proxies as the environment names them. Raises Unreachable for a server that
    does not answer.
    """
    try:
        with httpx.Client(timeout=TIMEOUT_S, verify=ssl.create_default_context()) as http:
            yield http
    except httpx.RequestError as error:
        raise Unreachable(f"{error.request.url} cannot be reached: {error}") from None


def _what_to_do(begun: Mapping[str, Any]) -> str:
    whole, short, code = (begun.get(name) for name in ("verification_uri_complete", "verification_uri", "user_code"))
    if whole:
        return f"open {whole} in a browser and confirm the code {code}" if code else f"open {whole} in a browser"
    return f"open {short} in a browser and enter the code {code}"


def _confirmed(http: httpx.Client, url: str, form: Mapping[str, str], begun: Mapping[str, Any]) -> dict[str, Any]:
    """The issuer's answer once the person has confirmed; asked as often as it allows."""
    interval_s = float(begun.get("interval") or USUAL_INTERVAL_S)
    deadline = time.monotonic() + float(begun.get("expires_in") or 600)
    while time.monotonic() < deadline:
        answer = http.post(url, data=dict(form))
        problem = "" if answer.is_success else _problem(answer)
        if problem == "slow_down":
            interval_s += SLOWER_BY_S
        elif problem != "authorization_pending":
            return _answer(answer, "a token")
        time.sleep(interval_s)
    raise Refused("the code expired before it was confirmed: log in again")


def _login(told: Mapping[str, Any], before: SystemLogin) -> SystemLogin:
    """The ID token, as PanDA's client takes it; of an issuer without one the access token."""
    token = told.get("id_token") or told.get("access_token")
    if not isinstance(token, str):
        raise Refused("the issuer gave no token")
    kept = told.get("refresh_token") or before.refresh_token
    return replace(before, token=token, expires_at=expiry_of(token), refresh_token=str(kept))


def _problem(answer: httpx.Response) -> str:
    """The error code of an answer (RFC 6749, section 5.2)."""
    try:
        found = answer.json()
    except ValueError:
        return ""
    return str(found.get("error", "")) if isinstance(found, dict) else ""


def _answer(answer: httpx.Response, wanted: str) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        found = None
    if answer.is_success and isinstance(found, dict):
        return found
    told = found.get("error_description") or found.get("error") if isinstance(found, dict) else answer.text[:200]
    raise Refused(f"the issuer at {answer.url.host} gave no answer to the question for {wanted}: {told}")


def _encrypted(url: Any) -> str:
    from shared.auth.configuration import encrypted

    try:
        return encrypted(str(url))
    except ValueError as error:
        raise WrongUsage(f"an address of the issuer: {error}") from None
