"""Issues tokens with a private key and verifies them with its public half (EdDSA).

So a service which only verifies need not be able to issue.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shared.auth.caller import (
    READ_SCOPE,
    RIGHTS,
    ROLES,
    SCOPE_OF_RIGHT,
    Caller,
    Credential,
    NotAuthenticated,
    digest_of,
    rights_of,
)

ISSUER = "orrery"
AUDIENCE = "orrery"
#: of a key that renews a pilot's token, and is no token itself
KEY_AUDIENCE = "orrery-token-key"
ALGORITHM = "EdDSA"
CLOCK_LEEWAY_S = 60


class Authority:
    """Issues (with a private key) and verifies tokens."""

    def __init__(self, public_key: Ed25519PublicKey, private_key: Ed25519PrivateKey | None = None) -> None:
        self._public_key = public_key
        self._private_key = private_key

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
        rights: Collection[str] | None = None,
    ) -> str:
        """A signed token, limited to `rights` if they are given.

        Raises ValueError for an unknown role or right, PermissionError without a private key.
        """
        for what, given, allowed in (("role", roles, ROLES), ("right", rights or (), RIGHTS)):
            if unknown := sorted(set(given) - set(allowed)):
                raise ValueError(f"unknown {what} {unknown[0]!r}: allowed are {', '.join(allowed)}")
        if self._private_key is None:
            raise PermissionError("this authority has only a public key: it cannot issue tokens")
        issued_at = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": audience,
            "sub": name,
            "name": name,  # PanDA's client looks for both of these in a token
            "preferred_username": name,
            "iat": issued_at,
            "exp": issued_at + int(lifetime_s),
            "roles": sorted(roles),
            "groups": list(groups),
            "jti": uuid.uuid4().hex,
        }
        if rights is not None:
            claims["scope"] = " ".join([READ_SCOPE, *(SCOPE_OF_RIGHT[one] for one in sorted(rights))])
        return jwt.encode(claims, self._private_key, algorithm=ALGORITHM)

    def verify(self, token: str) -> Caller:
        """The subject of a token. Raises NotAuthenticated."""
        return self.credential(token).acting(None)

    def verify_key(self, key: str) -> Caller:
        """Whose tokens a key renews. Raises NotAuthenticated."""
        return self.credential(key, KEY_AUDIENCE).acting(None)

    def credential(self, token: str, audience: str = AUDIENCE) -> Credential:
        """What a token says of its holder. Raises NotAuthenticated."""
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
        roles, groups, scope = claims.get("roles", []), claims.get("groups", []), claims.get("scope")
        if not isinstance(roles, list) or not isinstance(groups, list):
            raise NotAuthenticated("token refused: roles and groups must be lists")
        token_id = claims.get("jti")
        return Credential(
            name=str(claims["sub"]),
            roles=frozenset(map(str, roles)) & frozenset(ROLES),
            groups=frozenset(map(str, groups)),
            rights=rights_of(scope.split()) if isinstance(scope, str) else None,
            issued_at=float(claims.get("iat", 0)),
            expires_at=float(claims["exp"]),
            token_ids=(token_id if isinstance(token_id, str) else digest_of(token),),
        )
