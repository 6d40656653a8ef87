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
from shared.auth.access import PRODUCTION
from shared.auth.authentication import Authentication
from shared.auth.authority import drop_older_keys, rotate_file
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
    for ended_s_ago in (8, 3600):
        with pytest.raises(NotAuthenticated, match="expired"):
            authority.verify(authority.issue("x", ["user"], lifetime_s=-ended_s_ago))


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


def test_tokens_live_through_a_rotation_and_end_when_the_older_keys_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "token_key.pem"
    running, elsewhere = Authority.create_file(path), tmp_path / "public.pem"
    running = Authority.from_file(path)
    authentication = Authentication(running)
    old = running.issue("ada", ["user"])
    elsewhere.write_bytes(running.public_pem())
    verifier = Authority.from_file(elsewhere)

    rotate_file(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    new = Authority.from_file(path).issue("ada", ["user"])
    assert path.read_text().count("PRIVATE KEY") == 2, "the old private key is gone, its public half stays"
    # a process that runs takes both, without a restart; one that has the public halves as soon as they are copied
    for token in (old, new):
        assert _believed(authentication, token) and running.verify(token).name == "ada"
    assert verifier.verify(old).name == "ada"
    with pytest.raises(NotAuthenticated):
        verifier.verify(new)
    elsewhere.write_bytes(Authority.from_file(path).public_pem())
    assert verifier.verify(new).name == verifier.verify(old).name == "ada"
    assert jwt.decode(running.issue("ada", []), options={"verify_signature": False})["sub"] == "ada"
    Authority.from_file(path).verify(running.issue("ada", ["user"]))

    assert drop_older_keys(path) == 1
    running.look()
    assert _believed(authentication, new) and not _believed(authentication, old), "what was remembered is forgotten"


def test_a_key_file_that_is_broken_while_processes_run_changes_nothing(tmp_path: Path) -> None:
    running = Authority.create_file(path := tmp_path / "key.pem")
    running = Authority.from_file(path)
    token = running.issue("ada", ["user"])
    path.write_text("-----BEGIN")
    assert running.look() is False and running.verify(token).name == "ada"


def test_each_rotation_keeps_the_newest_older_keys_only(tmp_path: Path) -> None:
    tokens = [Authority.create_file(path := tmp_path / "key.pem").issue("t0", ["user"])]
    for number in range(1, 5):
        rotate_file(path)
        tokens.append(Authority.from_file(path).issue(f"t{number}", ["user"]))
    last = Authority.from_file(path)
    assert [last.verify(one).name for one in tokens[1:]] == ["t1", "t2", "t3", "t4"]
    with pytest.raises(NotAuthenticated):
        last.verify(tokens[0])
    public = tmp_path / "public.pem"
    public.write_bytes(last.public_pem())
    with pytest.raises(ValueError, match="has no private key"):
        rotate_file(public)


def _believed(authentication: Authentication, token: str) -> bool:
    try:
        authentication.caller({"headers": [(b"authorization", f"Bearer {token}".encode())]})
    except NotAuthenticated:
        return False
    return True


@pytest.mark.parametrize("pem", ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"])
def test_a_bad_key_is_refused(pem: str) -> None:
    with pytest.raises(ValueError, match="PEM"):
        Authority.from_pem(pem)


@pytest.fixture
def client() -> TestClient:
    web = FastAPI()

    @web.get("/whoami")
    def whoami(caller: Caller = Depends(require(PRODUCTION, "production"))) -> str:  # noqa: B008
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
        require(PRODUCTION, "admin")
