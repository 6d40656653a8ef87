"""Client certificates that a TLS proxy tells in headers, believed from configured addresses only.

`X-SSL-Client-Verify: SUCCESS`, `X-SSL-Client-S-DN: <subject>` and, where the proxy reads VOMS attributes,
`X-SSL-Client-FQAN: <attribute>, ...`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from shared.auth.addresses import is_inside
from shared.auth.caller import Credential, NotAuthenticated, check_name
from shared.auth.configuration import IdentityFile, ProxySection, SubjectSection, name_of_source

DN_HEADER, VERIFY_HEADER, FQAN_HEADER = b"x-ssl-client-s-dn", b"x-ssl-client-verify", b"x-ssl-client-fqan"
HEADERS = frozenset({DN_HEADER, VERIFY_HEADER, FQAN_HEADER})
FORWARDED_HEADER = b"x-forwarded-for"
#: a certificate is looked at again after so long: revocations name its holder
BELIEVED_S = 300.0
LONGEST_DN = 1000
#: what proxy certificates add to the name of whom they stand for
_OF_PROXY = re.compile(r"(proxy|limited proxy|[0-9]+)", re.IGNORECASE)
_SAME_TYPE = {"E": "EMAILADDRESS", "EMAIL": "EMAILADDRESS", "USERID": "UID", "S": "ST"}
_ATTRIBUTE = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)+)\s*=\s*(.*?)\s*\Z", re.DOTALL)
#: a value with this inside would read like another name in the form with slashes
_PART_INSIDE = re.compile(r"/[A-Za-z][A-Za-z0-9-]*\s*=")
_ESCAPED = re.compile(r"\\([0-9A-Fa-f]{2}|.)")


def normalised(subject: str) -> str:
    """A distinguished name in the one form that is compared: /DC=ch/DC=cern/CN=alice. Raises ValueError.

    Both written forms are read (RFC 2253, the last part first, as nginx has it; and with slashes); types of attributes
    in capitals; parts that proxy certificates add are left out.

    Example: "CN=1234,CN=alice,DC=cern,DC=ch" and "/dc=ch/dc=cern/CN=alice/CN=proxy" are /DC=ch/DC=cern/CN=alice.
    """
    text = subject.strip()
    if not text or len(text) > LONGEST_DN:
        raise ValueError(f"a distinguished name of {len(text)} characters; allowed: 1 to {LONGEST_DN}")
    if text.startswith("/"):
        # a slash begins a part only where a type follows: names of services have slashes in them
        before, *parts = re.split(r"/(?=[A-Za-z][A-Za-z0-9-]*\s*=)", text)
        read = [_attribute(one) for one in ([before] if before or not parts else parts)]
    else:
        read = [_attribute(one) for one in _unquoted_parts(text)][::-1]
    while len(read) > 1 and read[-1][0] == "CN" and read[-2][0] == "CN" and _OF_PROXY.fullmatch(read[-1][1]):
        read.pop()
    return "".join(f"/{kind}={value}" for kind, value in read)


def _unquoted_parts(text: str) -> list[str]:
    """Parts of RFC 2253 text: a comma, or a plus sign, that is not escaped ends one."""
    parts, current, is_escaped = [], "", False
    for sign in text:
        if sign in ",+" and not is_escaped:
            parts.append(current)
            current = ""
        else:
            current += sign
        is_escaped = sign == "\\" and not is_escaped
    return [*parts, current]


def _attribute(part: str) -> tuple[str, str]:
    found = _ATTRIBUTE.match(part)
    if found is None or not found[2] or _PART_INSIDE.search(found[2]):
        raise ValueError(f"{part[:100]!r} is no part of a distinguished name; allowed: TYPE=value")
    kind = found[1].upper()
    return _SAME_TYPE.get(kind, kind), _unescaped(found[2])


def _unescaped(value: str) -> str:
    r"""RFC 2253: `\,` is a comma, `\C3\A9` two bytes of UTF-8."""
    if "\\" not in value:
        return value
    data = b""
    end = 0
    for one in _ESCAPED.finditer(value):
        data += value[end : one.start()].encode()
        data += bytes.fromhex(one[1]) if len(one[1]) == 2 else one[1].encode()
        end = one.end()
    return (data + value[end:].encode()).decode("utf-8", "replace")


def common_name(dn: str) -> str:
    """The last CN of a normalised name that is no number, else the whole name."""
    names = [part[3:] for part in re.split(r"/(?=[A-Z][A-Z0-9-]*=)", dn) if part.startswith("CN=")]
    return next((one for one in reversed(names) if not one.isdigit()), dn)


def group_of_fqan(fqan: str) -> str | None:
    """The group that a VOMS attribute stands for, its role last; None for something else.

    Example: /atlas/Role=production/Capability=NULL is atlas/production, /atlas/de/Role=NULL is atlas/de.
    """
    parts = [one for one in fqan.strip().split("/") if one and not one.startswith("Capability=")]
    if not fqan.strip().startswith("/") or not parts or "=" in parts[0]:
        return None
    role = next((one[5:] for one in parts if one.startswith("Role=")), "NULL")
    groups = [one for one in parts if "=" not in one]
    return "/".join(groups if role == "NULL" else [*groups, role])


class Certificates:
    """Holders of certificates, by the configuration."""

    def __init__(self, section: ProxySection, identity: IdentityFile) -> None:
        self._section = section
        names = identity.names_of(section.prefix)
        # without common names all that they give begins with the slash of a distinguished name
        is_plain = section.common_names or identity.shares_names
        self._names = names if is_plain else replace(names, prefix=f"{section.prefix}/")
        self._names_like = identity.names_like
        self._subjects: Mapping[str, SubjectSection] = {normalised(dn): one for dn, one in section.subjects.items()}
        self.trusts = lru_cache(10_000)(lambda host: is_inside(host, section.networks))

    def credential(self, headers: Iterable[tuple[bytes, bytes]], now: float) -> Credential:
        """The holder of the certificate that a trusted proxy verified. Raises NotAuthenticated."""
        given: dict[bytes, str] = {}
        for name, value in headers:
            if name in HEADERS:
                if name in given:
                    raise NotAuthenticated(f"certificate refused: more than one header {name.decode()}")
                given[name] = value.decode("utf-8", "replace")
        if given.get(VERIFY_HEADER, "").strip().upper() != "SUCCESS":
            raise NotAuthenticated("certificate refused: the proxy did not verify it")
        try:
            dn = check_name(normalised(given.get(DN_HEADER, "")))
            groups = {group_of_fqan(check_name(one.strip())) for one in given.get(FQAN_HEADER, "").split(",")} - {None}
        except ValueError as error:
            raise NotAuthenticated(f"certificate refused: {error}") from None
        known = self._subjects.get(dn, SubjectSection())
        return Credential(
            name=known.name or self._name_of(dn),
            roles=frozenset(known.roles),
            groups=frozenset(one for one in groups if one) | frozenset(known.groups),
            roles_of_group=self._section.roles,
            expires_at=now + BELIEVED_S,
            token_ids=(dn,),
            is_of_every_vo=False,
            names=self._names_like(known.name) if known.name else self._names,
            source="certificates",
        )

    def _name_of(self, dn: str) -> str:
        """What the configuration does not name. Raises NotAuthenticated for a name that another source could give."""
        name = common_name(dn) if self._section.common_names else dn
        try:
            return name_of_source(name, self._section.prefix, self._names.of_others)
        except ValueError as error:
            raise NotAuthenticated(f"certificate refused: {error}, or a name for it among the subjects") from None
