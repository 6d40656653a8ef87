"""Whom this installation believes beside its own issuer: other issuers of tokens, and TLS proxies.

A JSON file (`ORRERY_IDENTITY_FILE`); a field that is not known, or a value that cannot be, is refused at the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from shared.auth.caller import NamesOfSource, Role, check_name

Network = IPv4Network | IPv6Network
#: signatures with a private key only: a public key must never be taken for the secret of an HMAC
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # fmt: skip
ALGORITHMS: tuple[Algorithm, ...] = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
                                     "EdDSA")  # fmt: skip
#: tasks store their owner with so many characters
LONGEST_NAME = 128
RolesOfGroup = dict[str, tuple[Role, ...]]
#: groups of a VO give the roles of the same name; whoever is known is a user
USUAL_ROLES: RolesOfGroup = {"*/production": ("production",), "*/pilot": ("pilot",), "*": ("user",)}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Source(_Section):
    """Where callers come from; `prefix` stands before the names of all of them."""

    prefix: Annotated[str, Field(max_length=50)] = ""


class LoginSection(_Section):
    """The client of the issuer with which people log in at a terminal (RFC 8628).

    It is told to whoever asks: a secret that all copies of a program have is none (RFC 8252, section 8.5). `vos`: whose
    members log in here; none is everybody. `audience` is sent where an issuer gives tokens for what is asked for.
    """

    client_id: Annotated[str, Field(min_length=1)]
    client_secret: str = ""
    audience: str = ""
    vos: tuple[str, ...] = ()


class IssuerSection(_Source):
    """An OpenID Connect issuer. `audience`: one of them must be in a token.

    `name_claims`: the first that a token has is its holder's name. A claim that holders may edit, as many issuers let
    them edit `name`, lets them be anybody.
    """

    issuer: str
    audience: Annotated[tuple[str, ...], Field(min_length=1)]
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = ALGORITHMS
    name_claims: Annotated[tuple[str, ...], Field(min_length=1)] = ("preferred_username", "sub")
    group_claims: tuple[str, ...] = ("groups", "wlcg.groups")
    roles: RolesOfGroup = USUAL_ROLES
    keys_kept_s: Annotated[float, Field(ge=10, le=86_400)] = 3600.0
    login: LoginSection | None = None

    @field_validator("issuer")
    @classmethod
    def _is_encrypted(cls, value: str) -> str:
        return encrypted(value)

    @model_validator(mode="after")
    def _tokens_of_a_login_are_believed(self) -> IssuerSection:
        if self.login is not None and self.login.client_id not in self.audience:
            raise ValueError(
                f"login.client_id: value {self.login.client_id!r} is not in audience: the ID tokens of the "
                f"login name it there, and would be refused; allowed: {', '.join(self.audience)}"
            )
        return self


class SubjectSection(_Section):
    """The holder of a certificate."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    roles: tuple[Role, ...] = ()
    groups: tuple[str, ...] = ()


class ProxySection(_Source):
    """TLS proxies: from these networks alone headers with certificates and addresses are believed.

    `subjects` by distinguished name; `roles` of VOMS attributes. `common_names`: holders of other certificates are
    called by the common name, which several authorities may give to different people, not by the distinguished name.
    """

    networks: Annotated[tuple[Network, ...], Field(min_length=1)]
    subjects: dict[str, SubjectSection] = {}
    roles: RolesOfGroup = USUAL_ROLES
    common_names: bool = False


class IdentityFile(_Section):
    """The whole file. `shares_names`: one name from several sources is one person.

    This installation's own tokens are a source, too: their names have no prefix.
    """

    issuers: tuple[IssuerSection, ...] = ()
    proxies: ProxySection | None = None
    shares_names: bool = False

    @model_validator(mode="after")
    def _names_are_of_one_source(self) -> IdentityFile:
        if self.shares_names:
            return self
        plain = [f"the issuer {one.issuer}" for one in self.issuers if not one.prefix]
        if self.proxies is not None and self.proxies.common_names and not self.proxies.prefix:
            plain.append("the proxies with common_names")
        if plain:
            raise ValueError(
                f"prefix: value '' of {plain[0]} is not allowed: a name could be that of a token of this installation;"
                " allowed: a prefix of its own such as 'iam:', or shares_names: true where one name is one person"
            )
        prefixes = [one.prefix for one in self._sources()]
        twice = sorted({one for one in prefixes if prefixes.count(one) > 1})
        if twice:
            raise ValueError(
                f"prefix: value {twice[0]!r} is that of several issuers or of the proxies too, who could give the same"
                " name to different people; allowed: a prefix of its own for each, or shares_names: true"
            )
        return self

    def _sources(self) -> list[_Source]:
        return [*self.issuers, *([self.proxies] if self.proxies is not None else [])]

    def prefixes_of_others(self, prefix: str) -> tuple[str, ...]:
        """What names of a source must not begin with: longer prefixes of other sources that it could imitate.

        Example: sources with the prefixes "" and "cms:": none of the first may be called cms:bob.
        """
        if self.shares_names:
            return ()
        found = {one.prefix for one in self._sources() if one.prefix != prefix and one.prefix.startswith(prefix)}
        return tuple(sorted(found))

    def names_of(self, prefix: str) -> NamesOfSource:
        """The names that the source with a prefix can give."""
        return NamesOfSource("" if self.shares_names else prefix, self.prefixes_of_others(prefix))

    def names_like(self, name: str) -> NamesOfSource:
        """The names of the source that a name belongs to, whoever chose it."""
        found = [one.prefix for one in self._sources() if name.startswith(one.prefix)]
        return self.names_of(max(found, key=len, default=""))

    def login_of(self, vo: str) -> IssuerSection | None:
        """Where members of a VO log in: the issuer that names the VO, else the first that names none."""
        found = [one for one in self.issuers if one.login is not None]
        named = (one for one in found if one.login is not None and vo in one.login.vos)
        return next(named, next((one for one in found if one.login is not None and not one.login.vos), None))

    @classmethod
    def from_file(cls, path: Path) -> IdentityFile:
        """Raises OSError; ValueError that names each wrong field."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            lines = [f"{'.'.join(map(str, one['loc'])) or 'file'}: {one['msg']}" for one in error.errors()]
            raise ValueError("; ".join(lines)) from None


def name_of_source(name: str, prefix: str, of_others: Iterable[str]) -> str:
    """A caller's name with the prefix of its source.

    Raises ValueError for one that another source could give.

    A name that is too long is refused: cut off, it would be somebody else's. So is one with characters that are not
    seen: it would read like somebody else's.
    """
    whole = prefix + check_name(name)
    if len(whole) > LONGEST_NAME:
        raise ValueError(f"a name of {len(whole)} characters; allowed: at most {LONGEST_NAME}")
    if taken := next((one for one in of_others if whole.startswith(one)), None):
        raise ValueError(f"the name {whole!r} begins like those of another source; allowed: without {taken!r} in front")
    return whole


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
