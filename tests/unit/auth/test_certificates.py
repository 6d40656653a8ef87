"""Client certificates that a TLS proxy tells in headers."""

from __future__ import annotations

from collections import Counter

import pytest

from shared.auth import Authority, Caller, NotAuthenticated
from shared.auth.authentication import Authentication
from shared.auth.certificates import group_of_fqan, normalised
from shared.auth.configuration import IdentityFile

ALICE = "/DC=ch/DC=cern/OU=Users/CN=alice/CN=Alice Smith"


@pytest.mark.parametrize(
    ("subject", "dn"),
    [
        ("CN=Alice Smith,CN=alice,OU=Users,DC=cern,DC=ch", ALICE),
        (" CN=Alice Smith , CN=alice, ou=Users,dc=cern,dc=ch ", ALICE),
        ("/DC=ch/DC=cern/OU=Users/CN=alice/CN=Alice Smith", ALICE),
        ("/dc=ch/dc=cern/ou=Users/cn=alice/cn=Alice Smith/CN=proxy/CN=limited proxy/CN=12345", ALICE),
        ("CN=987,CN=proxy,CN=Alice Smith,CN=alice,OU=Users,DC=cern,DC=ch", ALICE),
        ("/O=Grid/CN=host/pilots.example.org", "/O=Grid/CN=host/pilots.example.org"),
        ("CN=Smith\\, Alice,O=Grid", "/O=Grid/CN=Smith, Alice"),
        ("CN=Andr\\C3\\A9,O=Grid", "/O=Grid/CN=André"),
        ("E=a@b.c,O=Grid", "/O=Grid/EMAILADDRESS=a@b.c"),
    ],
)
def test_both_written_forms_of_a_name_are_one_name(subject: str, dn: str) -> None:
    assert normalised(subject) == dn


@pytest.mark.parametrize(
    "subject", ["", "alice", "CN=", "/CN", "CN=a,b", "CN=host/CN=admin,O=Grid", "CN=" + "x" * 1000]
)
def test_what_is_no_name_or_reads_like_another_one_is_refused(subject: str) -> None:
    with pytest.raises(ValueError, match="distinguished name"):
        normalised(subject)


@pytest.mark.parametrize(
    ("fqan", "group"),
    [("/atlas/Role=production/Capability=NULL", "atlas/production"), ("/atlas/de/Role=NULL", "atlas/de"),
     ("/atlas", "atlas"), ("atlas/Role=production", None), ("", None), ("/Role=production", None)],
)  # fmt: skip
def test_a_voms_attribute_is_a_group_with_its_role_last(fqan: str, group: str | None) -> None:
    assert group_of_fqan(fqan) == group


COUNTED: Counter[str] = Counter()


@pytest.fixture
def authentication() -> Authentication:
    COUNTED.clear()
    told = {
        "proxies": {
            "networks": ["10.1.0.0/16", "fd00::/8"],
            "subjects": {
                "CN=factory,O=Grid": {"name": "factory-1", "roles": ["production"], "groups": ["atlas"]},
                "/O=Grid/CN=bob": {"name": "robert"},
            },
        }
    }
    return Authentication(
        Authority.generate(), IdentityFile.model_validate(told), count=lambda why: COUNTED.update([why])
    )


def caller(authentication: Authentication, peer: str, **headers: str) -> Caller:
    named = {"dn": b"x-ssl-client-s-dn", "verify": b"x-ssl-client-verify", "fqan": b"x-ssl-client-fqan"}
    told = [(named.get(name, name.encode()), value.encode()) for name, value in headers.items()]
    return authentication.caller({"headers": told, "client": (peer, 4711)})


@pytest.mark.parametrize("peer", ["10.1.2.3", "fd00::1", "::ffff:10.1.2.3"])
def test_a_verified_certificate_of_a_trusted_proxy_names_the_caller(authentication: Authentication, peer: str) -> None:
    for dn, fqan, name, roles, vos in (
        ("/O=Grid/CN=factory", "", "factory-1", {"production", "user"}, {"atlas"}),
        ("/O=Grid/CN=bob/CN=proxy", "", "robert", {"user"}, set()),
        ("CN=Alice Smith,CN=alice,O=Grid", "/cms/Role=production/Capability=NULL,/cms",
         "/O=Grid/CN=alice/CN=Alice Smith", {"production", "user"}, {"cms"}),
    ):  # fmt: skip
        found = caller(authentication, peer, dn=dn, verify="SUCCESS", fqan=fqan)
        assert (found.name, found.roles, found.vos) == (name, roles, vos)
    claimed = caller(authentication, peer, dn="/O=Grid/CN=factory", verify="SUCCESS", origin="atlas.production")
    assert claimed.vo == "atlas"
    with pytest.raises(NotAuthenticated, match="Origin"):
        caller(authentication, peer, dn="/O=Grid/CN=bob", verify="SUCCESS", origin="atlas.production")


@pytest.mark.parametrize("peer", ["10.2.0.1", "127.0.0.1", "testclient", "::1"])
def test_a_header_from_elsewhere_is_ignored_and_counted(authentication: Authentication, peer: str) -> None:
    with pytest.raises(NotAuthenticated, match="Bearer"):
        caller(authentication, peer, dn="/O=Grid/CN=factory", verify="SUCCESS")
    assert COUNTED == {"certificate_from_elsewhere": 1}
    token = authentication.authority.issue("x", ["user"])
    assert (
        caller(authentication, peer, dn="/O=Grid/CN=factory", verify="SUCCESS", authorization=f"Bearer {token}").name
        == "x"
    )


@pytest.mark.parametrize(
    "told", [{"verify": "FAILED:expired"}, {"verify": "NONE"}, {}, {"verify": "SUCCESS", "dn": "?"}]
)
def test_a_certificate_that_the_proxy_did_not_verify_is_refused(
    authentication: Authentication, told: dict[str, str]
) -> None:
    with pytest.raises(NotAuthenticated, match="certificate refused"):
        caller(authentication, "10.1.2.3", **{"dn": "/O=Grid/CN=factory", **told})
    assert COUNTED == {"certificate": 1}


def test_two_names_in_one_request_are_refused(authentication: Authentication) -> None:
    twice = [(b"x-ssl-client-s-dn", b"/O=Grid/CN=bob"), (b"x-ssl-client-s-dn", b"/O=Grid/CN=factory"),
             (b"x-ssl-client-verify", b"SUCCESS")]  # fmt: skip
    with pytest.raises(NotAuthenticated, match="more than one"):
        authentication.caller({"headers": twice, "client": ("10.1.2.3", 1)})


def test_the_address_of_a_caller_is_taken_from_trusted_proxies_only(authentication: Authentication) -> None:
    def address(peer: str, forwarded: str) -> str:
        headers = [(b"x-forwarded-for", forwarded.encode())]
        return authentication.address({"headers": headers, "client": (peer, 1)})

    assert address("10.1.2.3", "192.0.2.1") == "192.0.2.1"
    assert address("10.1.2.3", "198.51.100.7, 192.0.2.1, 10.1.9.9") == "192.0.2.1"
    assert address("203.0.113.5", "192.0.2.1") == "203.0.113.5"
    assert address("10.1.2.3", "") == "10.1.2.3"
