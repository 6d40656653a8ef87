"""An OpenID Connect issuer over HTTP, with the server of Authlib: code flow with PKCE, renewal, discovery, keys.

Its page asks for a name and nothing else. One of `people` may sign in; whoever else is refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import flask
import pytest
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import AuthorizationCodeMixin, OpenIDCode
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

PAGE = """<!doctype html><html lang="en"><title>Issuer</title><form method="post">
<label>Name <input name="name"></label> <button>Sign in</button></form></html>"""


@dataclass
class KnownClient(ClientMixin):
    """One that may send people here; without a secret it is a public one. `renews`: it gets refresh tokens."""

    client_id: str
    redirect_uris: Sequence[str]
    secret: str = ""
    renews: bool = False

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return self.redirect_uris[0]

    def get_allowed_scope(self, scope: str) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.redirect_uris

    def check_client_secret(self, client_secret: str) -> bool:
        return bool(self.secret) and client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == ("client_secret_basic" if self.secret else "none")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code" or (self.renews and grant_type == "refresh_token")


class Code(SimpleNamespace, AuthorizationCodeMixin):
    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int:
        return self.auth_time

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


@dataclass
class Renewal(TokenMixin):
    """What a refresh token stands for."""

    user: str
    client_id: str
    scope: str

    def check_client(self, client: KnownClient) -> bool:
        return client.client_id == self.client_id

    def get_scope(self) -> str:
        return self.scope


@dataclass
class AuthlibIssuer:
    """`people`: the claims of each by name; `lifetime_s`: of ID tokens that are given from now on.

    `renewals` by refresh token, each of which is taken once, `n_renewed`: how many were; `revoked`: refresh tokens that
    were brought back. `left`: what was asked for by who signed out there; `lets_leave`: the discovery names where.
    """

    people: Mapping[str, Mapping[str, Any]]
    clients: list[KnownClient] = field(default_factory=list)
    lifetime_s: int = 600
    url: str = ""
    codes: dict[str, Code] = field(default_factory=dict)
    renewals: dict[str, Renewal] = field(default_factory=dict)
    n_renewed: int = 0
    revoked: list[str] = field(default_factory=list)
    left: list[dict[str, str]] = field(default_factory=list)
    lets_leave: bool = True
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"}))

    def application(self) -> flask.Flask:
        app = flask.Flask(__name__)
        app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True
        server = AuthorizationServer(app, self._client, self._save)
        server.register_grant(_grant_of(self), [_tokens_of(self)(require_nonce=True), CodeChallenge(required=True)])
        server.register_grant(_renewing_grant_of(self), [_tokens_of(self)(require_nonce=False)])
        app.add_url_rule("/revoke", view_func=self._revoke, methods=["POST"])
        app.add_url_rule("/leave", view_func=self._leave)
        app.add_url_rule("/.well-known/openid-configuration", view_func=self._discovery)
        app.add_url_rule("/keys", view_func=lambda: {"keys": [self.key.as_dict(private=False)]})
        app.add_url_rule("/token", view_func=server.create_token_response, methods=["POST"])

        @app.route("/authorize", methods=["GET", "POST"])
        def authorize() -> Any:
            try:
                grant = server.get_consent_grant(end_user=None)
            except OAuth2Error as error:
                return f"{error.error}: {error.description}", 400
            if flask.request.method == "GET":
                return PAGE
            name = flask.request.form["name"]
            return server.create_authorization_response(grant=grant, grant_user=name if name in self.people else None)

        return app

    def _client(self, client_id: str) -> KnownClient | None:
        return next((one for one in self.clients if one.client_id == client_id), None)

    def _save(self, token: Mapping[str, Any], request: Any) -> None:
        if "refresh_token" in token:
            of = Renewal(request.user, request.client.client_id, token["scope"])
            self.renewals[token["refresh_token"]] = of

    def _revoke(self) -> Any:
        """Forget a refresh token, which may be unknown (RFC 7009)."""
        self.revoked.append(flask.request.form["token"])
        self.renewals.pop(flask.request.form["token"], None)
        return ""

    def _leave(self) -> Any:
        """End the session of whoever comes, and send them back."""
        self.left.append(dict(flask.request.args))
        return flask.redirect(flask.request.args["post_logout_redirect_uri"])

    def _discovery(self) -> dict[str, Any]:
        leaving = {"end_session_endpoint": f"{self.url}/leave"} if self.lets_leave else {}
        return {
            **leaving,
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "revocation_endpoint": f"{self.url}/revoke",
            "jwks_uri": f"{self.url}/keys",
        }


def _grant_of(issuer: AuthlibIssuer) -> type[AuthorizationCodeGrant]:
    class Grant(AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ["none", "client_secret_basic"]

        def save_authorization_code(self, code: str, request: Any) -> None:
            asked = request.payload.data
            issuer.codes[code] = Code(
                client_id=request.client.client_id, redirect_uri=request.payload.redirect_uri, scope=request.scope,
                nonce=asked.get("nonce"), auth_time=int(time.time()), user=request.user,
                code_challenge=asked.get("code_challenge"), code_challenge_method=asked.get("code_challenge_method"),
            )  # fmt: skip

        def query_authorization_code(self, code: str, client: KnownClient) -> Code | None:
            found = issuer.codes.get(code)
            return found if found and found.client_id == client.client_id else None

        def delete_authorization_code(self, authorization_code: Code) -> None:
            issuer.codes = {code: one for code, one in issuer.codes.items() if one is not authorization_code}

        def authenticate_user(self, authorization_code: Code) -> str:
            return authorization_code.user

    return Grant


def _renewing_grant_of(issuer: AuthlibIssuer) -> type[RefreshTokenGrant]:
    class Grant(RefreshTokenGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ["none", "client_secret_basic"]
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, refresh_token: str) -> Renewal | None:
            return issuer.renewals.get(refresh_token)

        def authenticate_user(self, refresh_token: Renewal) -> str:
            return refresh_token.user

        def revoke_old_credential(self, refresh_token: Renewal) -> None:
            issuer.n_renewed += 1
            issuer.renewals = {name: one for name, one in issuer.renewals.items() if one is not refresh_token}

    return Grant


def _tokens_of(issuer: AuthlibIssuer) -> type[OpenIDCode]:
    class Tokens(OpenIDCode):
        def exists_nonce(self, nonce: str, request: Any) -> bool:
            return any(one.nonce == nonce for one in issuer.codes.values())

        def resolve_client_private_key(self, client: KnownClient) -> RSAKey:
            return issuer.key

        def get_client_algorithm(self, client: KnownClient) -> str:
            return "RS256"

        def get_encode_header(self, client: KnownClient) -> dict[str, str]:
            return {"alg": "RS256", "kid": "one"}

        def get_client_claims(self, client: KnownClient) -> dict[str, Any]:
            return {"iss": issuer.url, "aud": [client.client_id], "exp": int(time.time()) + issuer.lifetime_s}

        def generate_user_info(self, user: str, scope: str) -> dict[str, Any]:
            return {"sub": user, "preferred_username": user, **issuer.people[user]}

    return Tokens


@contextmanager
def running(people: Mapping[str, Mapping[str, Any]]) -> Iterator[AuthlibIssuer]:
    """It answers at a port of its own as long as the block runs."""
    issuer = AuthlibIssuer(people)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")  # this machine alone asks it
        server = make_server("127.0.0.1", 0, issuer.application(), threaded=True)
        issuer.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join(10)
            server.server_close()
