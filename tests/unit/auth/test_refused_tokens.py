"""Tokens that are refused: nothing of them is told, and so many from one address that no other is looked at."""

from __future__ import annotations

import base64
import json
import logging
from ipaddress import ip_network
from typing import Any

import jwt
import pytest

from shared.auth import Authority, NotAuthenticated
from shared.auth.addresses import Proxies, counted_as, networks_of
from shared.auth.authentication import LONGEST_HEADER, Authentication
from shared.auth.call_rates import FAILED, CallLimits, TooManyCalls
from shared.auth.configuration import IdentityFile

MARK = "s3cr3tMARK"
ISSUER = {"issuers": [{"issuer": "https://iam.example.org/", "audience": ["orrery"]}], "shares_names": True}


def scope(authorization: str, peer: str = "192.0.2.1", forwarded: str = "") -> dict[str, Any]:
    headers = [(b"authorization", authorization.encode("utf-8", "replace"))]
    headers += [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
    return {"headers": headers, "client": (peer, 1)}


def part(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def forged(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return f"{part(header)}.{part(claims)}.{MARK}"


OF_ISSUER = {"iss": "https://iam.example.org/", "aud": "orrery", "exp": 4e9, "sub": MARK}
WRONG = {
    "no token": MARK,
    "bytes that are no text": base64.urlsafe_b64encode(MARK.encode() + b"\xff").decode() + ".a.b",
    "a header that is no JSON": f"{MARK}.{MARK}.{MARK}",
    "an algorithm": forged({"alg": MARK}, OF_ISSUER),
    "an algorithm of HMAC": jwt.encode({"sub": MARK, "iss": MARK}, MARK * 8, "HS256"),
    "a key id": forged({"alg": "RS256", "kid": f"\x1b]0;{MARK}\x07\n{MARK}"}, OF_ISSUER),
    "a long key id": forged({"alg": "RS256", "kid": f"{'k' * 30}{MARK}"}, OF_ISSUER),
    "a critical extension": forged({"alg": "EdDSA", "crit": [MARK], MARK: 1}, OF_ISSUER),
    "an unknown extension": forged({"alg": "EdDSA", "crit": [f"{MARK}x"]}, {"iss": "orrery"}),
    "a deep header": f"{base64.urlsafe_b64encode(b'[' * 9000).decode()}.{MARK}.{MARK}",
    "a long number": f"{base64.urlsafe_b64encode(b'9' * 9000).decode()}.{MARK}.{MARK}",
    "too long": forged({"alg": "EdDSA"}, {"x": MARK * 3000}),
    "another scheme": f"Basic {MARK}",
}


@pytest.mark.parametrize("identity", [IdentityFile(), IdentityFile.model_validate(ISSUER)], ids=["own", "two issuers"])
@pytest.mark.parametrize("token", WRONG.values(), ids=WRONG)
def test_neither_answer_nor_log_holds_what_stands_in_a_token_that_is_refused(
    token: str, identity: IdentityFile, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    authentication = Authentication(Authority.generate(), identity)
    with pytest.raises(NotAuthenticated) as refused:
        authentication.caller(scope(token if token.startswith("Basic") else f"Bearer {token}"))
    said = str(refused.value)
    assert MARK not in said and MARK not in caplog.text and len(said) < 200 and said.isprintable()
    with pytest.raises(NotAuthenticated) as refused:
        authentication.key_owner(token)
    assert MARK not in str(refused.value) and len(str(refused.value)) < 200


def test_a_header_over_the_limit_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    authentication = Authentication(Authority.generate())
    monkeypatch.setattr(Authentication, "_credential", lambda *_: pytest.fail("it was read"))
    with pytest.raises(NotAuthenticated, match="at most 16384 are read"):
        authentication.caller(scope("Bearer " + "x" * LONGEST_HEADER))


def test_after_too_many_refused_tokens_no_other_from_that_address_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, authority = [0.0], Authority.generate()
    limits = CallLimits({FAILED: 1.0}, burst_s=10, clock=lambda: now[0])
    authentication = Authentication(authority, limits=limits, forwarders=[ip_network("127.0.0.1/32")])
    good = f"Bearer {authority.issue('ada', ['user'])}"
    known = f"Bearer {authority.issue('bob', ['user'])}"
    assert authentication.caller(scope(known)).name == "bob"
    for _ in range(10):
        with pytest.raises(NotAuthenticated):
            authentication.caller(scope("Bearer x.y.z"))
    looked = Authentication._credential
    monkeypatch.setattr(Authentication, "_credential", lambda *_: pytest.fail("it was looked at"))
    for one in ("Bearer x.y.z", good):
        with pytest.raises(TooManyCalls, match=r"more than 1 refused tokens/s from 192\.0\.2\.1") as put_off:
            authentication.caller(scope(one))
        assert put_off.value.retry_after_s == 1
    with pytest.raises(TooManyCalls):
        authentication.key_owner("x.y.z", scope(""))
    assert authentication.caller(scope(known)).name == "bob", "who was known goes on"
    monkeypatch.setattr(Authentication, "_credential", looked)
    assert authentication.caller(scope(good, "192.0.2.2")).name == "ada", "from another address"
    assert authentication.caller(scope(good, "127.0.0.1", "192.0.2.1, 192.0.2.3")).name == "ada", "behind the gateway"
    now[0] += 1
    other = f"Bearer {authority.issue('eve', ['user'])}"
    assert authentication.caller(scope(other)).name == "eve"


def test_the_address_of_a_caller_is_what_trusted_proxies_say_and_of_ipv6_the_network_counts() -> None:
    proxies = Proxies(networks_of("10.0.0.0/8, 127.0.0.1"))
    assert proxies.address("10.1.1.1", "8.8.8.8, 192.0.2.1, 10.2.2.2") == "192.0.2.1"
    assert proxies.address("192.0.2.7", "8.8.8.8") == "192.0.2.7", "who is no proxy may say what they like"
    assert proxies.address("127.0.0.1", "") == "127.0.0.1"
    assert counted_as("2001:db8:1:2:a::1") == counted_as("2001:db8:1:2:b::9") == "2001:db8:1:2::/64"
    assert counted_as("2001:db8:1:3::1") != counted_as("2001:db8:1:2::1")
    assert counted_as("::ffff:192.0.2.1") == counted_as("192.0.2.1") == "192.0.2.1"
    with pytest.raises(ValueError, match="allowed: addresses and networks"):
        networks_of("10.0.0.1/8")
