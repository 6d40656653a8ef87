"""Names of callers from several issuers and certificates: no source gives a name that another one could give."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.auth import Authority, Caller, NotAuthenticated
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


async def name_of(authentication: Authentication, token: str) -> str:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    return (await authentication.authenticated({"headers": headers, "client": ("192.0.2.1", 1)})).name


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
