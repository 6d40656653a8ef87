"""Tokens, roles and the dependency."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import jwt
import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from shared.auth import Authority, Caller, NotAuthenticated, require
from shared.auth.authentication import Authentication
from shared.web.service import install


def test_a_token_says_who_holds_it() -> None:
    authority = Authority.generate()
    token = authority.issue("alice", ["user", "production"], ["higgs"])
    caller = authority.verify(token)
    assert caller == Caller("alice", frozenset({"user", "production"}), frozenset({"higgs"}))
    authentication, scope = Authentication(authority), {"headers": [(b"authorization", f"Bearer {token}".encode())]}
    assert authentication.caller(scope) == caller
    assert authentication.caller(scope) is authentication.caller(scope), "a known token costs no signature check"


def test_a_verifier_needs_only_the_public_key() -> None:
    authority = Authority.generate()
    verifier = Authority.from_pem(authority.public_pem())
    assert verifier.verify(authority.issue("pilot1", ["pilot"])).may("pilot")
    with pytest.raises(PermissionError):
        verifier.issue("x", ["user"])


def test_an_operator_may_do_everything_and_a_user_only_his_own() -> None:
    assert Caller("o", frozenset({"operator"}), frozenset()).may("pilot")
    assert not Caller("u", frozenset({"user"}), frozenset()).may("pilot", "production")


def test_an_unknown_role_cannot_be_issued() -> None:
    with pytest.raises(ValueError, match="unknown role 'root': allowed are user, pilot, production, operator"):
        Authority.generate().issue("x", ["root"])


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "é"])
def test_nonsense_is_refused(token: str) -> None:
    with pytest.raises(NotAuthenticated):
        Authority.generate().verify(token)


def test_another_issuers_token_is_refused() -> None:
    with pytest.raises(NotAuthenticated, match="Signature verification failed"):
        Authority.generate().verify(Authority.generate().issue("x", ["user"]))


def test_an_expired_token_is_refused() -> None:
    authority = Authority.generate()
    with pytest.raises(NotAuthenticated, match="expired"):
        authority.verify(authority.issue("x", ["user"], lifetime_s=-3600))


def test_an_unsigned_token_is_refused() -> None:
    claims = {"iss": "orrery", "aud": "orrery", "sub": "x", "exp": int(time.time()) + 60, "roles": ["operator"]}
    with pytest.raises(NotAuthenticated):
        Authority.generate().verify(jwt.encode(claims, None, algorithm="none"))


def test_the_key_file_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "private" / "token_key.pem"
    first, second = Authority.create_file(path), Authority.create_file(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert second.verify(first.issue("x", ["user"])).name == "x"
    assert [entry.name for entry in path.parent.iterdir()] == ["token_key.pem"]


@pytest.mark.parametrize("pem", ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"])
def test_a_bad_key_is_refused(pem: str) -> None:
    with pytest.raises(ValueError, match="PEM"):
        Authority.from_pem(pem)


@pytest.fixture
def client() -> TestClient:
    web = FastAPI()

    @web.get("/whoami")
    def whoami(caller: Caller = Depends(require("production"))) -> str:  # noqa: B008
        return caller.name

    install(web, AUTHORITY)
    return TestClient(web)


AUTHORITY = Authority.generate()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("Basic eDp5", 401),
        ("Bearer", 401),
        ("Bearer nonsense", 401),
        (f"Bearer {AUTHORITY.issue('u', ['user'])}", 403),
        (f"Bearer {AUTHORITY.issue('p', ['production'])}", 200),
        (f"bearer {AUTHORITY.issue('o', ['operator'])}", 200),
    ],
)
def test_an_endpoint_asks_for_a_role(client: TestClient, header: str | None, status: int) -> None:
    answer = client.get("/whoami", headers={"Authorization": header} if header else {})
    assert answer.status_code == status, answer.text
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"


def test_an_endpoint_cannot_ask_for_a_role_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="unknown role"):
        require("admin")
