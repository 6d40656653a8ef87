"""Issues tokens with a private key and verifies them with its public half (EdDSA).

So a service which only verifies need not be able to issue.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Role = Literal["user", "pilot", "production", "operator"]
ROLES: tuple[str, ...] = get_args(Role)

ISSUER = "orrery"
AUDIENCE = "orrery"
#: of a key that renews a pilot's token, and is no token itself
KEY_AUDIENCE = "orrery-token-key"
ALGORITHM = "EdDSA"
CLOCK_LEEWAY_S = 60
REMEMBERED_TOKENS = 20_000


class NotAuthenticated(Exception):
    """The token is missing, malformed, expired, or signed by somebody else; the text says which."""


@dataclass(frozen=True)
class Caller:
    name: str
    roles: frozenset[str]
    groups: frozenset[str]

    def may(self, *wanted: str) -> bool:
        """Whether one of the wanted roles is held; an operator holds all."""
        return "operator" in self.roles or not self.roles.isdisjoint(wanted)


class Authority:
    """Issues (with a private key) and verifies tokens.

    Verified tokens are remembered until they expire: a pilot's heartbeat costs a dictionary look-up, not a signature
    check.
    """

    def __init__(self, public_key: Ed25519PublicKey, private_key: Ed25519PrivateKey | None = None) -> None:
        self._public_key = public_key
        self._private_key = private_key
        self._remembered: OrderedDict[str, tuple[Caller, float]] = OrderedDict()

    @classmethod
    def generate(cls) -> Authority:
        """A fresh key that lives in this object only (tests, embedded runs)."""
        private_key = Ed25519PrivateKey.generate()
        return cls(private_key.public_key(), private_key)

    @classmethod
    def from_pem(cls, pem: str | bytes) -> Authority:
        """From a private key (may issue) or a public key (may only verify).

        Raises ValueError for anything else.
        """
        data = pem.encode() if isinstance(pem, str) else pem
        try:
            if b"PRIVATE" in data:
                private_key = serialization.load_pem_private_key(data, password=None)
                if isinstance(private_key, Ed25519PrivateKey):
                    return cls(private_key.public_key(), private_key)
            else:
                public_key = serialization.load_pem_public_key(data)
                if isinstance(public_key, Ed25519PublicKey):
                    return cls(public_key)
        except (ValueError, TypeError) as error:
            raise ValueError(f"not a PEM key: {error}") from None
        raise ValueError("must be an Ed25519 key in PEM form")

    @classmethod
    def from_file(cls, path: Path) -> Authority:
        return cls.from_pem(path.read_bytes())

    @classmethod
    def create_file(cls, path: Path) -> Authority:
        """The key in `path`, made there (readable by its owner only) if there is none: the development issuer."""
        if path.exists():
            return cls.from_file(path)
        authority = cls.generate()
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(authority.private_pem())
        try:
            os.link(temporary, path)  # fails if another process was faster: then its key is the one
        except FileExistsError:
            return cls.from_file(path)
        finally:
            temporary.unlink()
        return authority

    def private_pem(self) -> bytes:
        if self._private_key is None:
            raise PermissionError("this authority has only a public key")
        return self._private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def public_pem(self) -> bytes:
        return self._public_key.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def issue(
        self,
        name: str,
        roles: Collection[str],
        groups: Sequence[str] = (),
        *,
        lifetime_s: float = 7 * 86400,
        audience: str = AUDIENCE,
    ) -> str:
        """A signed token. Raises ValueError for an unknown role, PermissionError without a private key."""
        unknown = sorted(set(roles) - set(ROLES))
        if unknown:
            raise ValueError(f"unknown role {unknown[0]!r}: allowed are {', '.join(ROLES)}")
        if self._private_key is None:
            raise PermissionError("this authority has only a public key: it cannot issue tokens")
        issued_at = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": audience,
            "sub": name,
            "iat": issued_at,
            "exp": issued_at + int(lifetime_s),
            "roles": sorted(roles),
            "groups": list(groups),
        }
        return jwt.encode(claims, self._private_key, algorithm=ALGORITHM)

    def verify(self, token: str) -> Caller:
        """The subject of a token. Raises NotAuthenticated."""
        known = self._remembered.get(token)
        if known is not None and known[1] > time.time():
            return known[0]
        caller, expires_at = self._verified(token, AUDIENCE)
        self._remembered[token] = (caller, expires_at)
        if len(self._remembered) > REMEMBERED_TOKENS:
            self._remembered.popitem(last=False)
        return caller

    def verify_key(self, key: str) -> Caller:
        """Whose tokens a key renews. Raises NotAuthenticated."""
        return self._verified(key, KEY_AUDIENCE)[0]

    def _verified(self, token: str, audience: str) -> tuple[Caller, float]:
        """The subject of a token, and when it ends. Raises NotAuthenticated."""
        try:
            claims = jwt.decode(
                token,
                self._public_key,
                algorithms=[ALGORITHM],
                audience=audience,
                issuer=ISSUER,
                leeway=CLOCK_LEEWAY_S,
                options={"require": ["sub", "exp"]},
            )
        except jwt.InvalidTokenError as error:
            raise NotAuthenticated(f"token refused: {error}") from None
        roles, groups = claims.get("roles", []), claims.get("groups", [])
        if not isinstance(roles, list) or not isinstance(groups, list):
            raise NotAuthenticated("token refused: roles and groups must be lists")
        caller = Caller(str(claims["sub"]), frozenset(map(str, roles)) & frozenset(ROLES), frozenset(map(str, groups)))
        return caller, float(claims["exp"])
