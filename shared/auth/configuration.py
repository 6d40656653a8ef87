"""Whom this installation believes beside its own issuer: other issuers of tokens, and TLS proxies.

A JSON file (`ORRERY_IDENTITY_FILE`); a field that is not known, or a value that cannot be, is refused at the start.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from shared.auth.caller import Role

Network = IPv4Network | IPv6Network
#: signatures with a private key only: a public key must never be taken for the secret of an HMAC
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # fmt: skip
ALGORITHMS: tuple[Algorithm, ...] = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
                                     "EdDSA")  # fmt: skip
RolesOfGroup = dict[str, tuple[Role, ...]]
#: groups of a VO give the roles of the same name; whoever is known is a user
USUAL_ROLES: RolesOfGroup = {"*/production": ("production",), "*/pilot": ("pilot",), "*": ("user",)}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class IssuerSection(_Section):
    """An OpenID Connect issuer. `audience`: one of them must be in a token."""

    issuer: str
    audience: Annotated[tuple[str, ...], Field(min_length=1)]
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = ALGORITHMS
    name_claims: Annotated[tuple[str, ...], Field(min_length=1)] = ("name", "preferred_username", "sub")
    group_claims: tuple[str, ...] = ("groups", "wlcg.groups")
    roles: RolesOfGroup = USUAL_ROLES
    keys_kept_s: Annotated[float, Field(ge=10, le=86_400)] = 3600.0

    @field_validator("issuer")
    @classmethod
    def _is_encrypted(cls, value: str) -> str:
        return encrypted(value)


class SubjectSection(_Section):
    """The holder of a certificate."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    roles: tuple[Role, ...] = ()
    groups: tuple[str, ...] = ()


class ProxySection(_Section):
    """TLS proxies: from these networks alone headers with certificates and addresses are believed.

    `subjects` by distinguished name; `roles` of VOMS attributes.
    """

    networks: Annotated[tuple[Network, ...], Field(min_length=1)]
    subjects: dict[str, SubjectSection] = {}
    roles: RolesOfGroup = USUAL_ROLES


class IdentityFile(_Section):
    """The whole file."""

    issuers: tuple[IssuerSection, ...] = ()
    proxies: ProxySection | None = None

    @classmethod
    def from_file(cls, path: Path) -> IdentityFile:
        """Raises OSError; ValueError that names each wrong field."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            lines = [f"{'.'.join(map(str, one['loc'])) or 'file'}: {one['msg']}" for one in error.errors()]
            raise ValueError("; ".join(lines)) from None


def encrypted(url: str) -> str:
    """An address whose answers nobody on the way can change: https, or this machine. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and _is_this_machine(parts.hostname or ""):
        return url
    raise ValueError(f"value {url!r} is not allowed; allowed: https://..., or http:// of this machine")


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
