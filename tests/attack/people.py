"""Who attacks and who is attacked: people of two VOs and three issuers, with good, limited and bad tokens."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any

import httpx

from shared.auth import Authority, Caller
from shared.auth.caller import Credential
from tests.attack.answers import Answer
from tests.attack.system import EGI, IAM, ROLES, AttackedSystem

#: how often somebody whose calls are limited comes again, and after how long
TRIES, PAUSE_S = 40, 0.25
VOS = ("atlas", "cms")


@dataclass(frozen=True)
class Person:
    """Somebody with a token. `caller`: what the services must make of it; None where they must believe nothing."""

    label: str
    token: str | None
    caller: Caller | None
    http: httpx.Client
    origin: str | None = None

    @property
    def name(self) -> str:
        """What the services call them."""
        return self.caller.name if self.caller is not None else ""

    def acting(self, origin: str) -> Person:
        """The same person who claims a VO or role."""
        return replace(self, origin=origin)

    def ask(self, method: str, path: str, **given: Any) -> Answer:
        """The answer to one request; a limit of calls is waited for, as clients do."""
        headers = dict(given.pop("headers", None) or {})
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.origin is not None:
            headers["Origin"] = self.origin
        for _ in range(TRIES):
            before = time.perf_counter()
            response = self.http.request(method, path, headers=headers, **given)
            answer = Answer(path, response.status_code, response.content, time.perf_counter() - before)
            if not is_limited(answer):
                break
            time.sleep(PAUSE_S)
        return answer

    def get(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", path, params=query)

    def post(self, path: str, body: Any = None, **given: Any) -> Answer:
        headers = {"Content-Type": "application/json"}
        return self.ask("POST", path, content=json.dumps({} if body is None else body), headers=headers, **given)

    def done(self, answer: Answer) -> Any:
        """The data of an answer that must be a success: what is arranged, not what is attacked."""
        if not answer.is_success:
            raise RuntimeError(f"{self.label}: {answer.path}: {answer}")
        return answer.data


def is_limited(answer: Answer) -> bool:
    """Whether the caller is asked to come again later."""
    return answer.status == 429 or (answer.status == 503 and "later" in answer.text)


class People:
    """Everybody, by label: `name@vo`, with the prefix of the issuer."""

    def __init__(self, system: AttackedSystem, http: httpx.Client) -> None:
        self._system, self._http = system, http
        own, authority = self._own, system.authority
        known = [own("ada", vo, "user") for vo in VOS] + [own("bob", vo, "user") for vo in VOS]
        for vo in VOS:
            known += [own(role, vo, role) for role in ("production", "pilot", "operator")]
        known += [self._outside(IAM, "ada", "atlas"), self._outside(EGI, "ada", "cms")]
        known += [self._outside(IAM, "production", "cms", "production"), self._outside(EGI, "pilot", "cms", "pilot")]
        known += [self._outside(EGI, "production", "atlas", "production")]
        known += [self._outside(IAM, "pilot", "atlas", "pilot"), self._outside(IAM, "operator", "atlas", "admins")]
        self.by_label = {one.label: one for one in known}
        self.operator = self._person("operator", authority.issue("operator", ["operator"]))
        limited = authority.issue("ada", ["user"], ["atlas"], rights=[])
        self.limited = self._person("ada@atlas (compute.read)", limited)
        self.nobody = Person("nobody", None, None, http)

    def __getitem__(self, label: str) -> Person:
        return self.by_label[label]

    def believed(self) -> list[Person]:
        """Everybody whose token is good."""
        return [*self.by_label.values(), self.operator, self.limited]

    def not_believed(self, revoked: str) -> list[Person]:
        """Tokens that must be worth nothing. `revoked`: one that was, long enough ago."""
        authority, soon = self._system.authority, -3600
        bad = {
            "no token": None,
            "expired": authority.issue("ada", ["operator"], ["atlas"], lifetime_s=soon),
            "revoked": revoked,
            "of another key": Authority.generate().issue("ada", ["operator"], ["atlas"]),
            "key of a pilot": authority.issue("ada", ["operator"], ["atlas"], audience="orrery-token-key"),
            "for another audience": self._system.iam.token(preferred_username="ada", aud="other", groups=["atlas"]),
            "expired of iam": self._system.iam.token(preferred_username="ada", exp=soon, groups=["atlas"]),
            "signed by egi as iam": self._system.iam.token(
                key=self._system.egi.keys["rsa-1"], preferred_username="ada", groups=["atlas"]
            ),
            "unsigned": _unsigned(authority.issue("ada", ["operator"], ["atlas"])),
        }
        return [Person(label, token, None, self._http) for label, token in bad.items()]

    def with_token(self, label: str, token: str) -> Person:
        """Somebody with a token of our own issuer."""
        return self._person(label, token)

    def _own(self, name: str, vo: str, role: str) -> Person:
        """ada and bob are one person in both VOs; whoever has a role for a VO is called by both."""
        called = name if role == "user" else f"{name}-{vo}"
        return self._person(f"{name}@{vo}", self._system.authority.issue(called, [role], [vo]))

    def _person(self, label: str, token: str) -> Person:
        return Person(label, token, self._system.authority.verify(token), self._http)

    def _outside(self, prefix: str, name: str, vo: str, role: str = "") -> Person:
        """Somebody of another issuer, with the name of somebody else."""
        issuer = self._system.iam if prefix == IAM else self._system.egi
        groups = [f"{vo}/{role}"] if role else [vo]
        token = issuer.token(sub=name, preferred_username=name, name=name, groups=groups, exp=7200)
        held = frozenset(groups)
        credential = Credential(prefix + name, groups=held, roles_of_group=ROLES[prefix], is_of_every_vo=False)
        return Person(f"{prefix}{name}@{vo}", token, credential.acting(None), self._http)


def _unsigned(token: str) -> str:
    """The same claims with the algorithm none."""
    _, claims, _ = token.split(".")
    return f"eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{claims}."
