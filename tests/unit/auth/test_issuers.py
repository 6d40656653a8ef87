"""Tokens of an OpenID Connect issuer, which is a real HTTP server here."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from shared.auth import Authority, Caller, NotAuthenticated
from shared.auth.authentication import Authentication
from shared.auth.configuration import IdentityFile
from tests.unit.auth.issuer_of_tests import Issuer, ec_key, jwk_of, rsa_key


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with Issuer() as found:
        yield found


def believing(issuer: Issuer, **section: Any) -> Authentication:
    told = {"issuers": [{"issuer": issuer.url, "audience": ["orrery"], **section}], "shares_names": True}
    return Authentication(Authority.generate(), IdentityFile.model_validate(told))


async def caller(authentication: Authentication, token: str, origin: str | None = None) -> Caller:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    headers += [(b"origin", origin.encode())] if origin else []
    return await authentication.authenticated({"headers": headers, "client": ("192.0.2.1", 1)})


async def test_a_token_is_believed_with_a_key_that_its_issuer_publishes_and_its_groups_give_roles(
    issuer: Issuer,
) -> None:
    issuer.keys["ec-1"] = ec_key()
    authentication = believing(issuer)
    for token in (
        issuer.token(groups=["/atlas", "/atlas/production"]),
        issuer.token("ec-1", algorithm="ES256", **{"wlcg.groups": ["/atlas", "/atlas/production"]}),
        issuer.token(algorithm="PS512", groups=["atlas/production"]),
    ):
        found = await caller(authentication, token)
        assert (found.name, found.roles) == ("ada", {"user", "production"}) and found.vos == {"atlas"}
    assert issuer.asked == 1, "keys are kept"


@pytest.mark.parametrize(
    ("claims", "section", "name", "roles"),
    [
        ({"name": "operations"}, {}, "ada", {"user"}),
        ({"preferred_username": None}, {}, "3f-1", {"user"}),
        ({}, {"name_claims": ["name"]}, "Ada Byron", {"user"}),
        ({}, {"prefix": "iam:"}, "iam:ada", {"user"}),
        ({"groups": ["atlas/pilot"]}, {}, "ada", {"user", "pilot"}),
        ({"groups": ["cms"]}, {"roles": {"cms": ["production"]}}, "ada", {"production"}),
        ({"groups": ["atlas/production"]}, {"roles": {"cms": ["production"]}}, "ada", set()),
        ({"roles": ["operator"]}, {}, "ada", {"user"}),
        ({"aud": ["other", "orrery"]}, {}, "ada", {"user"}),
        ({"exp": -2, "nbf": 30}, {}, "ada", {"user"}),
    ],
    ids=["edited name", "no user name", "claim by choice", "prefix", "pilot", "mapping", "not in the mapping",
         "own roles", "audiences", "leeway"],
)  # fmt: skip
async def test_claims_make_the_caller_by_the_configuration(
    issuer: Issuer, claims: dict[str, Any], section: dict[str, Any], name: str, roles: set[str]
) -> None:
    found = await caller(believing(issuer, **section), issuer.token(**claims))
    assert (found.name, found.roles) == (name, roles)


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"aud": "other"}, "Audience"),
        ({"aud": None}, "aud"),
        ({"exp": -8}, "expired"),
        ({"exp": None}, "exp"),
        ({"nbf": 300}, "not yet valid"),
        ({"iss": "https://elsewhere.example"}, "refused"),
        ({"preferred_username": None, "sub": ""}, "none of the claims"),
        ({"preferred_username": "x" * 129}, "129 characters"),
    ],
)
async def test_a_token_for_somebody_else_or_out_of_its_time_is_refused(
    issuer: Issuer, claims: dict[str, Any], said: str
) -> None:
    with pytest.raises(NotAuthenticated, match=said):
        await caller(believing(issuer), issuer.token(**claims))


async def test_no_algorithm_but_that_of_the_key_is_believed(issuer: Issuer) -> None:
    public = issuer.keys["rsa-1"].public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    good = issuer.token()
    _, body, signature = good.split(".")
    secret = jwt.utils.base64url_encode(b"s" * 32).decode()
    issuer.more = [{"kty": "oct", "kid": "shared", "k": secret, "alg": "HS256"}]

    def headed(**header: str) -> str:
        return jwt.utils.base64url_encode(json.dumps({"typ": "JWT", "kid": "rsa-1", **header}).encode()).decode()

    forged = [
        f"{headed(alg='none')}.{body}.",
        f"{headed(alg='HS256')}.{body}." + jwt.utils.base64url_encode(
            jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
                f"{headed(alg='HS256')}.{body}".encode(), pem)).decode(),
        f"{headed(alg='ES256')}.{body}.{signature}",
        f"{headed(alg='RS256')}.{body}.{signature[:-4]}AAAA",
        jwt.encode({"iss": issuer.url, "aud": "orrery", "exp": time.time() + 60, "name": "x"}, b"s" * 32,
                   headers={"kid": "shared"}),
        issuer.token(key=rsa_key()),
    ]  # fmt: skip
    authentication = believing(issuer)
    await caller(authentication, good)
    for token in forged:
        with pytest.raises(NotAuthenticated):
            await caller(authentication, token)
    only = believing(issuer, algorithms=["ES256"])
    with pytest.raises(NotAuthenticated, match="not allowed"):
        await caller(only, good)


async def test_a_rotated_key_is_read_when_a_token_with_it_comes_and_the_old_one_is_no_longer_believed(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    authentication = believing(issuer)
    old = issuer.token()
    await caller(authentication, old)
    issuer.keys = {"rsa-2": rsa_key()}
    authentication.issuers[issuer.url]._asked_at = float("-inf")
    await caller(authentication, issuer.token("rsa-2"))
    assert issuer.asked == 2
    with pytest.raises(NotAuthenticated, match="no key 'rsa-1'"):
        await caller(authentication, old)
    for number in range(5):  # anybody can make these: they do not make us ask again and again
        with pytest.raises(NotAuthenticated):
            await caller(
                authentication, issuer.token("rsa-2", key=rsa_key() if number == 0 else issuer.keys["rsa-2"])[5:]
            )
        header = {"alg": "RS256", "kid": f"unknown-{number}"}
        with pytest.raises(NotAuthenticated, match="has no key"):
            await caller(authentication, jwt.encode({"iss": issuer.url}, issuer.keys["rsa-2"], "RS256", header))
    assert issuer.asked == 2


async def test_an_issuer_that_is_away_keeps_out_those_alone_whose_keys_are_not_known(issuer: Issuer) -> None:
    issuer.is_away = True
    authentication = believing(issuer)
    with pytest.raises(NotAuthenticated, match="cannot be asked"):
        await caller(authentication, issuer.token())
    assert (await caller(authentication, authentication.authority.issue("bob", ["user"]))).name == "bob"
    issuer.is_away = False
    await authentication.issuers[issuer.url].read_keys()
    issuer.is_away = True
    authentication.issuers[issuer.url]._read_at = float("-inf")
    await authentication.issuers[issuer.url].keep_keys()
    assert (await caller(authentication, issuer.token())).name == "ada"


async def test_a_vo_and_a_role_are_claimed_by_origin_and_checked_against_the_groups(issuer: Issuer) -> None:
    authentication = believing(issuer)
    token = issuer.token(groups=["atlas", "atlas/production", "atlas/dev", "cms", "vo.access.eu"])
    for origin, vo, roles in (
        ("atlas", "atlas", {"user", "production"}),
        ("atlas.production", "atlas", {"production"}),
        ("atlas:production", "atlas", {"production"}),
        ("atlas.dev", "atlas", {"user", "production"}),
        ("cms", "cms", {"user"}),
        ("vo.access.eu", "vo.access.eu", {"user"}),
        ("vo.access.eu.user", "vo.access.eu", {"user"}),
    ):
        found = await caller(authentication, token, origin)
        assert (found.vo, found.roles) == (vo, roles), origin
    for origin in ("cms.production", "lhcb", "lhcb.user", "atlas.operator", "atlas.nothing", "cms:pilot"):
        with pytest.raises(NotAuthenticated, match="Origin"):
            await caller(authentication, token, origin)
    for origin in ("https://monitor.example", "null"):
        assert (await caller(authentication, token, origin)).vos == {"atlas", "cms", "vo.access.eu"}
    assert (await caller(authentication, issuer.token())).vos == frozenset()


async def test_scopes_of_computing_limit_a_token_to_their_rights(issuer: Issuer) -> None:
    authentication = believing(issuer)
    for scope, rights in (
        ("openid profile", None),
        ("openid compute.read compute.create", {"submit"}),
        ("compute.cancel compute.modify", {"cancel", "modify"}),
        ("compute.read", set()),
    ):
        assert (await caller(authentication, issuer.token(scope=scope))).rights == rights


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"issuers": [{"issuer": "http://elsewhere.example", "audience": ["x"]}]}', "issuers.0.issuer.*https"),
        ('{"issuers": [{"issuer": "https://a.example", "audience": []}]}', "issuers.0.audience"),
        ('{"issuers": [{"issuer": "https://a.example", "audience": ["x"], "algorithms": ["HS256"]}]}', "algorithms"),
        ('{"issuers": [{"issuer": "https://a.example", "audience": ["x"], "roles": {"a": ["root"]}}]}', "roles.a"),
        ('{"proxies": {"networks": ["10.0.0.0/99"]}}', "proxies.networks"),
        ('{"proxy": {}}', "proxy: Extra inputs"),
        (
            '{"issuers": [{"issuer": "https://a.example", "audience": ["x"]}]}',
            "prefix: value '' of the issuer https://a.example .*token of this installation.*shares_names",
        ),
        ('{"proxies": {"networks": ["10.0.0.0/28"], "common_names": true}}', "prefix: value '' of the proxies"),
        (
            '{"issuers": [{"issuer": "https://a.example", "audience": ["x"], "prefix": "a:"}],'
            ' "proxies": {"networks": ["10.0.0.0/28"], "prefix": "a:"}}',
            "prefix: value 'a:'.*several issuers or of the proxies.*shares_names",
        ),
        (
            '{"issuers": [{"issuer": "https://a.example", "audience": ["x"], "prefix": "a:"},'
            ' {"issuer": "https://b.example", "audience": ["x"], "prefix": "a:"}]}',
            "prefix: value 'a:'",
        ),
        ("{", "JSON"),
    ],
)
def test_a_wrong_configuration_is_refused_by_field(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "identity.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=said):
        IdentityFile.from_file(path)


def test_a_key_that_is_for_encryption_or_of_an_unknown_kind_verifies_nothing() -> None:
    from shared.auth.issuers import keys_of

    good = jwk_of(ec_key(), "good")
    others = [{**good, "kid": "enc", "use": "enc"}, {**good, "kid": "curve", "crv": "secp256k1"}, {"kty": "oct"}, 7, {}]
    assert set(keys_of({"keys": [*others, good]})) == {"good"}
    assert keys_of({"keys": None}) == {} == keys_of({})
