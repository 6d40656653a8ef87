"""Names of callers from several issuers and certificates: no source gives a name that another one could give."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.auth import KEY_AUDIENCE, Authority, Caller, NotAuthenticated
from shared.auth.access import may_name
from shared.auth.authentication import Authentication
from shared.auth.configuration import IdentityFile
from tests.unit.auth.issuer_of_tests import Issuer

PROXIES = {"networks": ["10.1.0.0/16"], "subjects": {"/O=Grid/CN=factory": {"name": "factory"}}}


@pytest.fixture
async def issuers() -> AsyncIterator[tuple[Issuer, Issuer]]:
    async with Issuer() as first, Issuer() as second:
        yield first, second


def believing(issuers: tuple[Issuer, ...], *prefixes: str, **more: Any) -> Authentication:
    told = [
        {"issuer": one.url, "audience": ["orrery"], "prefix": prefix}
        for one, prefix in zip(issuers, prefixes, strict=True)
    ]
    return Authentication(Authority.generate(), IdentityFile.model_validate({"issuers": told, **more}))


async def caller_of(authentication: Authentication, token: str) -> Caller:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    return await authentication.authenticated({"headers": headers, "client": ("192.0.2.1", 1)})


async def name_of(authentication: Authentication, token: str) -> str:
    return (await caller_of(authentication, token)).name


def holder_of(authentication: Authentication, dn: str) -> Caller:
    told = [(b"x-ssl-client-s-dn", dn.encode()), (b"x-ssl-client-verify", b"SUCCESS")]
    return authentication.caller({"headers": told, "client": ("10.1.2.3", 4711)})


async def test_two_people_of_one_name_from_two_issuers_are_two_callers(issuers: tuple[Issuer, Issuer]) -> None:
    authentication = believing(issuers, "i:", "i:cms:")
    assert [await name_of(authentication, one.token()) for one in issuers] == ["i:ada", "i:cms:ada"]
    with pytest.raises(NotAuthenticated, match="'i:cms:ada' begins like those of another source"):
        await name_of(authentication, issuers[0].token(preferred_username="cms:ada"))


async def test_a_name_of_an_own_token_is_never_that_of_an_issuer(issuers: tuple[Issuer, Issuer]) -> None:
    with pytest.raises(ValueError, match=r"prefix: value '' of the issuer .* a token of this installation"):
        believing(issuers, "", "cms:")
    authentication = believing(issuers, "iam:", "cms:")
    own = authentication.authority.issue("ada", ["user"])
    names = [await name_of(authentication, token) for token in (own, *(one.token() for one in issuers))]
    assert names == ["ada", "iam:ada", "cms:ada"]


async def test_sources_that_share_names_need_no_prefixes(issuers: tuple[Issuer, Issuer]) -> None:
    authentication = believing(issuers, "", "", shares_names=True, proxies={**PROXIES, "common_names": True})
    assert [await name_of(authentication, one.token()) for one in issuers] == ["ada", "ada"]
    assert holder_of(authentication, "CN=ada,O=Grid").name == "ada"


def test_certificates_of_one_common_name_from_two_authorities_are_two_callers() -> None:
    authentication = believing((), proxies={**PROXIES, "prefix": "x509:"})
    holders = [holder_of(authentication, dn).name for dn in ("CN=ada,O=Grid", "CN=ada,O=Other", "CN=factory,O=Grid")]
    assert holders == ["x509:/O=Grid/CN=ada", "x509:/O=Other/CN=ada", "factory"]
    with pytest.raises(NotAuthenticated, match=r"certificate refused: a name of .* among the subjects"):
        holder_of(authentication, "CN=" + "a" * 200)


async def test_whoever_submits_for_others_names_people_of_the_own_source_and_operators_anybody(
    issuers: tuple[Issuer, Issuer],
) -> None:
    subjects = {"/O=Grid/CN=factory": {"name": "factory"}, "/O=Grid/CN=robot": {"name": "cms:robot"}}
    proxies = {"networks": ["10.1.0.0/16"], "subjects": subjects}
    authentication = believing(issuers, "iam:", "cms:", proxies=proxies)
    own, root = (authentication.authority.issue("prod", [role]) for role in ("production", "operator"))
    callers = {
        "own": await caller_of(authentication, own),
        "operator": await caller_of(authentication, root),
        "cms": await caller_of(authentication, issuers[1].token()),
        "listed": holder_of(authentication, "/O=Grid/CN=factory"),
        "listed for cms": holder_of(authentication, "/O=Grid/CN=robot"),
        "certificate": holder_of(authentication, "/O=Grid/CN=bob"),
    }
    people = ("ada", "iam:ada", "cms:ada", "/O=Grid/CN=eve")
    may = {who: [one for one in people if may_name(caller, one)] for who, caller in callers.items()}
    assert may == {
        "own": ["ada", "/O=Grid/CN=eve"],
        "operator": list(people),
        "cms": ["cms:ada"],
        "listed": ["ada", "/O=Grid/CN=eve"],
        "listed for cms": ["cms:ada"],
        "certificate": ["/O=Grid/CN=eve"],
    }
    shared = believing(issuers, "iam:", "cms:", shares_names=True)
    assert may_name(await caller_of(shared, issuers[1].token()), "ada")


async def test_a_token_or_token_key_of_ours_with_a_name_of_an_issuer_is_refused(issuers: tuple[Issuer, Issuer]) -> None:
    authentication = believing(issuers, "iam:", "cms:")
    with pytest.raises(NotAuthenticated, match="'cms:ada' is of another source; allowed: names that do not begin with"):
        await caller_of(authentication, authentication.authority.issue("cms:ada", ["user"]))
    with pytest.raises(NotAuthenticated, match="'iam:p' is of another source"):
        authentication.key_owner(authentication.authority.issue("iam:p", ["pilot"], audience=KEY_AUDIENCE))


NOT_SEEN = [
    "ada\x1b[2J",
    "ada\x00",
    "ada\nbob",
    "a\u202eda",
    "ad\u200ba",
    "ada ",
    "\tada",
    "ad\ra",
    "a\x9bda",
    "a\u2066da",
]


@pytest.mark.parametrize("name", NOT_SEEN)
async def test_a_name_that_is_not_seen_whole_is_refused_from_every_source(
    issuers: tuple[Issuer, Issuer], name: str
) -> None:
    authentication = believing(issuers, "i:", "c:", proxies=PROXIES | {"common_names": True, "prefix": "p:"})
    for claims in ({"preferred_username": name}, {"groups": [f"atlas/{name}"]}, {"groups": [name, "atlas"]}):
        with pytest.raises(
            NotAuthenticated, match=r"token refused: the name '.*'; allowed: without control characters"
        ) as e:
            await name_of(authentication, issuers[0].token(**claims))
        assert str(e.value).isprintable()
    for given in ((name, ["user"]), ("ada", ["user"], [name])):
        with pytest.raises(ValueError, match="allowed: without control characters"):
            authentication.authority.issue(*given)
    if name.strip() == name and "\x00" not in name:
        with pytest.raises(NotAuthenticated, match="certificate refused"):
            holder_of(authentication, f"/DC=ch/CN={name}")
