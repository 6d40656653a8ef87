"""Who calls, and what they may do: name, roles, groups, VO and rights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from shared.model.visible_text import visible

Role = Literal["user", "pilot", "production", "operator"]
ROLES: tuple[str, ...] = get_args(Role)
#: what a token may be limited to; one that names none of them has all that its roles allow
Right = Literal["submit", "cancel", "modify"]
RIGHTS: tuple[str, ...] = get_args(Right)
#: the scopes that stand for them (WLCG Common JWT Profiles: capability-based authorization)
SCOPE_OF_RIGHT: Mapping[str, str] = {"submit": "compute.create", "cancel": "compute.cancel", "modify": "compute.modify"}
READ_SCOPE = "compute.read"
#: the key for everybody in a mapping of groups to roles
ANYBODY = "*"


#: how long after its end a token still tells what became of a job: as long as a job is kept without a sign of life
EXPIRED_WITHIN_S = 2 * 3600.0
#: of a mark of a token
MARK_CHARACTERS = 16


class NotAuthenticated(Exception):
    """The token is missing, malformed, expired, revoked, or signed by somebody else; the text says which."""


class TokenExpired(NotAuthenticated):
    """The token was good until its time was over."""


class ClaimRefused(NotAuthenticated):
    """The caller is known, but claims a VO or role that the token does not have."""


@dataclass(frozen=True)
class NamesOfSource:
    """Which names a source can give: they begin with `prefix`, and like those of no other source.

    The names of this installation's own tokens have no prefix. Without both every name can be theirs (shares_names).
    """

    prefix: str = ""
    of_others: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether a name is one of them.

        Example: with the prefix "" and others' "cms:", ada is one and cms:ada is none.
        """
        return name.startswith(self.prefix) and not name.startswith(self.of_others)

    @property
    def meaning(self) -> str:
        """What they look like, for refusals."""
        others = f" that do not begin with {', '.join(map(repr, self.of_others))}" if self.of_others else ""
        return (f"names that begin with {self.prefix!r}" if self.prefix else "names") + others


ANY_NAMES = NamesOfSource()


@dataclass(frozen=True)
class Caller:
    """`vo`: the one that was claimed for this request.

    `roles`: those that are held in every VO of the caller; `roles_in`: all that are held in each VO, where groups of
    several VOs give others. `is_of_every_vo`: what holds for a caller without groups. `rights` None: all that the roles
    allow. `names`: of the people whom the caller's source knows. `source`: who said so, "" for this installation's own
    tokens. `has_expired`: the token has, a while ago; such a caller tells the end of jobs that it acquired, and may
    nothing else. `acts_as_operator`: the role that was claimed is one that only operators hold without being given it.
    """

    name: str
    roles: frozenset[str]
    groups: frozenset[str]
    vo: str | None = None
    is_of_every_vo: bool = True
    rights: frozenset[str] | None = None
    roles_in: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    names: NamesOfSource = ANY_NAMES
    source: str = ""
    has_expired: bool = False
    acts_as_operator: bool = False

    def may(self, *wanted: str) -> bool:
        """Whether one of the wanted roles is held; an operator holds all."""
        return _holds(self.roles, wanted)

    def may_for(self, vo: str | None, *wanted: str) -> bool:
        """Whether the caller acts for a VO and holds one of the wanted roles there.

        An operator holds all, for every VO.

        Example: groups atlas/production and cms, without a claimed VO: production for atlas, a user for cms.
        """
        return self.may("operator") or (self.is_of(vo) and _holds(self.roles_in.get(vo or "", self.roles), wanted))

    def was_given(self, role: str, vo: str | None) -> bool:
        """Whether the caller acts for a VO and its token names the role there.

        An operator holds others unnamed.
        """
        return self.is_of(vo) and not self.acts_as_operator and role in self.roles_in.get(vo or "", self.roles)

    def has_right(self, right: str) -> bool:
        """Whether the token is not limited to other rights."""
        return self.rights is None or right in self.rights

    @cached_property
    def vos(self) -> frozenset[str] | None:
        """The VOs that the caller acts for; None: every one."""
        if self.vo is not None:
            return frozenset({self.vo})
        if not self.groups and self.is_of_every_vo:
            return None
        return frozenset(vo_of(group) for group in self.groups)

    def is_of(self, vo: str | None) -> bool:
        """Whether the caller acts for a VO; what belongs to none is for everybody."""
        return self.vos is None or not vo or vo in self.vos


def _holds(held: frozenset[str], wanted: Iterable[str]) -> bool:
    return "operator" in held or not held.isdisjoint(wanted)


def vo_of(group: str) -> str:
    """The VO of a group: atlas of atlas/production."""
    return group.partition("/")[0]


def check_name(name: str) -> str:
    """A name of a person, service or group, as it is. Raises ValueError for one that is not seen whole."""
    if name != name.strip() or visible(name) != name:
        raise ValueError(
            f"the name '{visible(name[:100])}'; allowed: without control characters, bidirectional marks and others "
            "that are not seen, and without blanks around it"
        )
    return name


def rights_of(scopes: Iterable[str]) -> frozenset[str] | None:
    """The rights that scopes limit a token to; None where none of them is about computing.

    Example: "openid compute.read compute.create" may submit and not cancel; "openid" alone limits nothing.
    """
    given = {one for one in scopes if one.startswith("compute.")}
    return frozenset(right for right, scope in SCOPE_OF_RIGHT.items() if scope in given) if given else None


@dataclass(frozen=True)
class Credential:
    """What a token or a certificate says of its holder, verified.

    `roles` hold in every VO; `roles_of_group` maps groups to further ones. Times in seconds since the epoch;
    `token_ids`: what a revocation may name. `is_of_every_vo` as in Caller.
    """

    name: str
    roles: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    roles_of_group: Mapping[str, Iterable[str]] = field(default_factory=dict)
    rights: frozenset[str] | None = None
    issued_at: float = 0.0
    expires_at: float = 0.0
    token_ids: tuple[str, ...] = ()
    is_of_every_vo: bool = True
    names: NamesOfSource = ANY_NAMES
    source: str = ""

    def acting(self, origin: str | None) -> Caller:
        """The caller of a request with this header `Origin`: `<vo>`, `<vo>.<role>` or `<vo>:<role>`.

        A VO limits the groups to its own, a role the roles to that one. What browsers send (an address, "null") claims
        nothing: then a role that one of several VOs gives holds for that VO alone. Raises ClaimRefused for a VO or role
        that the credential does not have.
        """
        everything = self._caller(self.groups)
        if not origin or "://" in origin or origin == "null":
            return everything
        vo, role = self._claimed(origin)
        if everything.vos is not None and vo not in everything.vos:
            raise ClaimRefused(f"Origin: {self.name} is not of the VO {vo}; allowed: {_listed(everything.vos)}")
        own = self._caller(frozenset(group for group in self.groups if vo_of(group) == vo))
        if role is None:
            return replace(own, vo=vo)
        if role in ROLES and own.may(role):
            return replace(own, vo=vo, roles=frozenset({role}), acts_as_operator=role not in own.roles)
        if role not in ROLES and f"{vo}/{role}" in self.groups:
            return replace(own, vo=vo)
        raise ClaimRefused(f"Origin: {self.name} has not the role {role} of {vo}; allowed: {_listed(own.roles)}")

    def _claimed(self, origin: str) -> tuple[str, str | None]:
        """VO and role; a VO may have dots in its name."""
        if ":" not in origin and any(vo_of(group) == origin for group in self.groups):
            return origin, None
        vo, sign, role = origin.rpartition(":" if ":" in origin else ".")
        return (vo, role) if sign and vo and role else (origin, None)

    def _caller(self, groups: frozenset[str]) -> Caller:
        """Of several VOs' roles those alone hold everywhere that each of the VOs gives."""
        vos = frozenset(map(vo_of, groups))
        if len(vos) < 2:
            roles = self.roles | roles_of(groups, self.roles_of_group)
            return Caller(self.name, roles, groups, None, self.is_of_every_vo, self.rights, names=self.names)
        own = {vo: frozenset(group for group in groups if vo_of(group) == vo) for vo in vos}
        roles_in = {vo: self.roles | roles_of(own[vo], self.roles_of_group) for vo in vos}
        roles = frozenset.intersection(*roles_in.values())
        return Caller(self.name, roles, groups, None, self.is_of_every_vo, self.rights, roles_in, self.names)


def roles_of(groups: Iterable[str], mapping: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """The roles of these groups; `*/production` stands for that group of any VO, `*` for everybody.

    Example: {"*/production": ["production"], "*": ["user"]} makes of atlas/production both, of atlas a user.
    """
    found = set(mapping.get(ANYBODY, ()))
    for group in groups:
        found |= {*mapping.get(group, ())}
        _, sign, rest = group.partition("/")
        if sign:
            found |= {*mapping.get(f"{ANYBODY}/{rest}", ())}
    return frozenset(found)


def digest_of(token: str) -> str:
    """What names a token that has no id of its own; the token cannot be made of it."""
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()[:32]


def names_of_token(claims: Mapping[str, object], token: str) -> tuple[str, ...]:
    """What a revocation may name a token of an issuer by: its id, if it has one, and its digest."""
    token_id = claims.get("jti")
    ids = (f"{claims.get('iss')}#{token_id}",) if isinstance(token_id, str) and token_id else ()
    return (*ids, digest_of(token))


def mark_of(name: str) -> str:
    """A short mark of what a revocation names; a statement of task definition makes the same."""
    return hashlib.sha256(name.encode()).hexdigest()[:MARK_CHARACTERS]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
