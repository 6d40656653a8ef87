"""Issues tokens with a private key and verifies them with its public half (EdDSA).

So a service which only verifies need not be able to issue. A file has one key or several: the first signs, all verify,
so that tokens live through a rotation. Processes read the file again when it has changed.
"""

from __future__ import annotations

import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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
    TokenExpired,
    check_name,
    digest_of,
    rights_of,
)
from shared.auth.leeway import CLOCK_LEEWAY_S, EXPIRED_LEEWAY_S, check_expiry
from shared.auth.refusals import why_refused

ISSUER = "orrery"
AUDIENCE = "orrery"
#: of a key that renews a pilot's token, and is no token itself
KEY_AUDIENCE = "orrery-token-key"
ALGORITHM = "EdDSA"
#: older keys that a rotation keeps
KEPT_KEYS = 3
_BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----\s*", re.DOTALL)

log = logging.getLogger(__name__)


class IssuerKeys(NamedTuple):
    """The key that signs, if it is known here, and those that verify: the newest first."""

    private: Ed25519PrivateKey | None
    public: tuple[Ed25519PublicKey, ...]


class Authority:
    """Issues (with a private key) and verifies tokens; `path` is the file that the keys are from, if any."""

    def __init__(self, keys: IssuerKeys, path: Path | None = None) -> None:
        self._keys = keys
        self._path = path
        self._changed_at = _changed_at(path)
        self.on_change: Callable[[], None] = lambda: None

    @classmethod
    def generate(cls) -> Authority:
        """A fresh key that lives in this object only (tests, embedded runs)."""
        private_key = Ed25519PrivateKey.generate()
        return cls(IssuerKeys(private_key, (private_key.public_key(),)))

    @classmethod
    def from_pem(cls, pem: str | bytes) -> Authority:
        """From keys of which the first is private (may issue) or public (may only verify).

        Raises ValueError for anything else.
        """
        return cls(_keys_of(pem.encode() if isinstance(pem, str) else pem))

    @classmethod
    def from_file(cls, path: Path) -> Authority:
        """Raises OSError, ValueError."""
        return cls(_keys_of(path.read_bytes()), path)

    @property
    def follows_file(self) -> bool:
        """Whether there is a file to look at again."""
        return self._path is not None

    def look(self) -> bool:
        """Read the file again if it has changed; whether it had. One that cannot be read changes nothing."""
        changed_at = _changed_at(self._path)
        if self._path is None or changed_at in (None, self._changed_at):
            return False
        self._changed_at = changed_at
        try:
            self._keys = _keys_of(self._path.read_bytes())
        except (OSError, ValueError) as error:
            log.error("the issuer's keys in %s are not read, known ones go on: %s", self._path, error)
            return False
        self.on_change()
        return True

    @classmethod
    def create_file(cls, path: Path) -> Authority:
        """The key in `path`, made there (readable by its owner only) if there is none: the development issuer."""
        if path.exists():
            return cls.from_file(path)
        authority = cls.generate()
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _written(path, authority.private_pem())
        try:
            os.link(temporary, path)  # fails if another process was faster: then its key is the one
        except FileExistsError:
            return cls.from_file(path)
        finally:
            temporary.unlink()
        return authority

    def private_pem(self) -> bytes:
        if self._keys.private is None:
            raise PermissionError("this authority has only a public key")
        return self._keys.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def public_pem(self) -> bytes:
        """Public halves of all keys, the newest first."""
        return _public_pem(self._keys.public)

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

        Raises ValueError for an unknown role or right or a name that is not seen whole, PermissionError without a
        private key.
        """
        for what, given, allowed in (("role", roles, ROLES), ("right", rights or (), RIGHTS)):
            if unknown := sorted(set(given) - set(allowed)):
                raise ValueError(f"unknown {what} {unknown[0]!r}: allowed are {', '.join(allowed)}")
        for one in (name, *groups):
            check_name(one)
        if self._keys.private is None:
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
        return jwt.encode(claims, self._keys.private, algorithm=ALGORITHM)

    def verify(self, token: str) -> Caller:
        """The subject of a token. Raises NotAuthenticated."""
        return self.credential(token).acting(None)

    def verify_key(self, key: str) -> Caller:
        """Whose tokens a key renews. Raises NotAuthenticated."""
        return self.credential(key, KEY_AUDIENCE).acting(None)

    def credential(self, token: str, audience: str = AUDIENCE, *, leeway_s: float = EXPIRED_LEEWAY_S) -> Credential:
        """What a token says of its holder; `leeway_s`: so long it may have expired. Raises NotAuthenticated."""
        try:
            claims = self._claims(token, audience, leeway_s)
        except jwt.ExpiredSignatureError as error:
            raise TokenExpired(f"token refused: {why_refused(error)}") from None
        except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
            raise NotAuthenticated(f"token refused: {why_refused(error)}") from None
        roles, groups, scope = claims.get("roles", []), claims.get("groups", []), claims.get("scope")
        if not isinstance(roles, list) or not isinstance(groups, list):
            raise NotAuthenticated("token refused: roles and groups must be lists")
        try:
            for one in (str(claims["sub"]), *map(str, groups)):
                check_name(one)
        except ValueError as error:
            raise NotAuthenticated(f"token refused: {error}") from None
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

    def _claims(self, token: str, audience: str, leeway_s: float) -> dict[str, Any]:
        """What a token says that one of the keys signed, also one that is new in the file.

        Raises jwt.InvalidTokenError.
        """
        try:
            return _claims_by(self._keys.public, token, audience, leeway_s)
        except jwt.InvalidSignatureError:
            if not self.look():
                raise
            return _claims_by(self._keys.public, token, audience, leeway_s)


def rotate_file(path: Path) -> None:
    """Put a new key first; of the newest others the public halves stay, so that their tokens go on.

    Raises OSError; ValueError for a file without a private key.
    """
    before = _keys_of(path.read_bytes())
    if before.private is None:
        raise ValueError("it has no private key: rotate the file that it was made from")
    kept = _public_pem(before.public[:KEPT_KEYS])
    _written(path, Authority.generate().private_pem() + kept).replace(path)


def drop_older_keys(path: Path) -> int:
    """Leave the newest key alone: tokens of the others end; how many others there were.

    Raises OSError, ValueError.
    """
    authority = Authority.from_file(path)
    newest = IssuerKeys(authority._keys.private, authority._keys.public[:1])
    pem = _public_pem(newest.public) if newest.private is None else authority.private_pem()
    _written(path, pem).replace(path)
    return len(authority._keys.public) - 1


def _claims_by(keys: Sequence[Ed25519PublicKey], token: str, audience: str, leeway_s: float) -> dict[str, Any]:
    """Of a token that one of the keys signed. Raises jwt.InvalidTokenError."""
    for place, key in enumerate(keys, 1):
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=audience,
                issuer=ISSUER,
                leeway=max(leeway_s, CLOCK_LEEWAY_S),
                options={"require": ["sub", "exp"]},
            )
        except jwt.InvalidSignatureError:
            if place == len(keys):
                raise
        else:
            check_expiry(claims, leeway_s)
            return claims
    raise jwt.InvalidSignatureError("there is no key")


def _keys_of(data: bytes) -> IssuerKeys:
    """The keys of a text in PEM form. Raises ValueError."""
    blocks = [found[0] for found in _BLOCK.finditer(data)] or [data]
    private, public = None, list[Ed25519PublicKey]()
    try:
        for place, block in enumerate(blocks):
            if b"PRIVATE" in block:
                key = serialization.load_pem_private_key(block, password=None)
                if isinstance(key, Ed25519PrivateKey):
                    private = key if place == 0 else private
                    public.append(key.public_key())
            elif isinstance(known := serialization.load_pem_public_key(block), Ed25519PublicKey):
                public.append(known)
    except (ValueError, TypeError) as error:
        raise ValueError(f"not a PEM key: {error}") from None
    if len(public) < len(blocks):
        raise ValueError("must be an Ed25519 key in PEM form")
    return IssuerKeys(private, tuple(public))


def _public_pem(keys: Sequence[Ed25519PublicKey]) -> bytes:
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return b"".join(one.public_bytes(*form) for one in keys)


def _changed_at(path: Path | None) -> tuple[int, int] | None:
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_ino)


def _written(path: Path, pem: bytes) -> Path:
    """A file beside `path`, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
    return temporary
