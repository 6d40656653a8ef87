"""Calls the services over HTTP.

Every refusal becomes one `CommandFailure` that carries each problem the service listed.
"""

from __future__ import annotations

import json as json_text
import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from services.cli.addresses import Addresses, find_addresses
from services.cli.failures import CommandFailure, Refused, RejectedField, Unreachable
from services.cli.tokens import token_for

TIMEOUT_S = 30.0
API = "/api/v1"


class Client:
    """One caller. Opened lazily, so that a command that needs no service also needs no token."""

    def __init__(
        self,
        addresses: Addresses | None = None,
        *,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.addresses = addresses or find_addresses()
        self._token = token
        self._transport = transport
        self._http: httpx.Client | None = None

    def get(self, service: str, path: str, **query: Any) -> Any:
        """GET; arguments that are None are left out. Returns the envelope's data."""
        wanted = {key: value for key, value in query.items() if value is not None}
        return self.call("GET", service, path, params=wanted)

    def post(self, service: str, path: str, body: Any = None, *, timeout_s: float | None = None) -> Any:
        """POST JSON. Returns the envelope's data."""
        return self.call("POST", service, path, json=body if body is not None else {}, timeout_s=timeout_s)

    def call(self, method: str, service: str, path: str, *, timeout_s: float | None = None, **arguments: Any) -> Any:
        """One request, and what is in its envelope. Raises Refused or Unreachable."""
        return self.envelope(method, service, path, timeout_s=timeout_s, **arguments).get("data")

    def envelope(
        self, method: str, service: str, path: str, *, timeout_s: float | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """The whole answer `{"success", "message", "data"}` of a request that was not refused."""
        where = path if path.startswith("/") else f"{API}/{path}"
        problem = ""
        if "json" in arguments:
            # as it was given, NaN and half a surrogate pair included: the service names the field with all its problems
            arguments["content"] = json_text.dumps(arguments.pop("json")).encode()
            arguments["headers"] = {"Content-Type": "application/json"}
        for url in self.addresses.urls_of(service):
            try:
                response = self._open().request(method, url + where, timeout=timeout_s or TIMEOUT_S, **arguments)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                problem = f"{url} cannot be reached: {error}"  # nothing was sent: the next copy may be asked
                continue
            except httpx.TimeoutException:
                raise Unreachable(f"{service}: no answer from {url} within {timeout_s or TIMEOUT_S:g} s") from None
            except httpx.HTTPError as error:
                raise Unreachable(f"{service}: {url} broke off: {error}") from None
            return _content(service, response)
        raise Unreachable(f"{service}: {problem}")

    def close(self) -> None:
        """Give the connections back."""
        if self._http is not None:
            self._http.close()

    def _open(self) -> httpx.Client:
        if self._http is None:
            token = self._token or token_for(self.addresses)
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
            # a proxy meant for the outside world must not see calls to services of this machine
            is_elsewhere = self.addresses.elsewhere is not None
            verify = ssl.create_default_context() if is_elsewhere else True  # SSL_CERT_FILE, SSL_CERT_DIR
            self._http = httpx.Client(headers=headers, transport=self._transport, trust_env=is_elsewhere, verify=verify)
        return self._http


def _content(service: str, response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.status_code >= 500:
        raise Unreachable(f"{service} failed with {response.status_code}: {_said(body, response)}")
    if response.status_code >= 400:
        raise refusal(service, response.status_code, body, response.text)
    if not isinstance(body, dict):
        return {"success": True, "message": "", "data": body if body is not None else response.text}
    if body.get("success") is False:
        raise refusal(service, response.status_code, body, response.text)
    return body if "data" in body else {"success": True, "message": "", "data": body}


def refusal(service: str, status: int, body: Any, text: str) -> CommandFailure:
    """What a service refused and why, with every problem it listed."""
    problems = problems_in(body)
    message = ""
    if isinstance(body, Mapping):
        message = str(body.get("message") or "")
    if len(problems) > 1 or (problems and str(problems[0].allowed) in message):
        message = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"  # they are listed one by one
    elif not message and not problems:
        message = text[:500]
    if status == 401:
        return Refused(f"{service}: not authenticated: {message}", problems)
    if status == 403:
        return Refused(f"{service}: not allowed: {message}", problems)
    return Refused(f"{service} refused: {message}" if message else f"{service} refused", problems)


def problems_in(body: Any) -> list[RejectedField]:
    """The problems of a refusal, as every service lists them."""
    listed = body.get("problems") if isinstance(body, Mapping) else None
    return [_problem(one) for one in listed or ()]


def _problem(one: Mapping[str, Any]) -> RejectedField:
    """Of a file, its name and key stand before the field."""
    where = ": ".join(str(one[name]) for name in ("file", "key", "field") if one.get(name))
    return RejectedField(where, _shown(one.get("value")), str(one.get("allowed") or one.get("message") or ""))


def _shown(value: Any) -> str:
    if value is None or value == "":
        return ""
    text = value if isinstance(value, str) and value[:1] in ("'", '"') else repr(value)  # some services quote it
    return text if len(text) <= 120 else f"{text[:117]}..."


def _said(body: Any, response: httpx.Response) -> str:
    if isinstance(body, Mapping):
        return str(body.get("message") or "")[:500]
    return response.text[:500]
