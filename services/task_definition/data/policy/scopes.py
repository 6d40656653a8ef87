"""Whose names of datasets are: a scope belongs to a VO, and to a person where it is a user's. Pure.

Who first writes in a scope takes it, if it can be theirs: user.NAME is NAME's in their VO, group.NAME is for members of
a group, others are for production of a VO. Of two people with one name the second, of another VO or issuer, has
user.NAME-VO or user.PREFIX-NAME, and of two groups the second group.NAME-VO: what ends with a VO is that VO's alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from shared.auth.access import Whose
from shared.model.names import bare_name, owning_scope, scope_of
from shared.model.problems import FieldProblem

_USER, _GROUP = "user.", "group."
_NOT_IN_SCOPES = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class NameWriter:
    """Who is about to write names.

    `vo`: for which VO ("": for none that was named); `user_name`: who owns what is written. `may_write`: whether a rule
    lets them write what belongs to somebody; `is_producer`: of that VO. `is_owner`: whether it is written in their own
    name. `approved`: scopes that they may write in for having been allowed before. `is_of_task`: what is written must
    be the VO's.
    `takes_any`: whoever sets the installation up, to whom every scope of nobody is open.
    """

    vo: str
    user_name: str
    may_write: Callable[[Whose], bool]
    is_producer: bool = False
    is_owner: bool = True
    groups: frozenset[str] = frozenset()
    approved: frozenset[str] = frozenset()
    is_of_task: bool = True
    takes_any: bool = False


@dataclass(frozen=True, order=True)
class ForeignName(FieldProblem):
    """A name that is refused because it is somebody else's; what is told besides, to those whose it is."""

    scope: str = ""
    dataset: str = ""
    cause: str = ""


@dataclass(frozen=True)
class NameWanted:
    """A dataset or container that is to be written, the field that names it, and the scopes that it needs."""

    field: str
    name: str
    scopes: tuple[str, ...]


def wanted(field: str, name: str, stated: str | None = None) -> NameWanted:
    """What a name needs: the scope it begins with, and the one that is stated with it.

    Example: mc23:user.ada.results needs user.ada and mc23.
    """
    other = stated if stated is not None else scope_of(name) if ":" in name else None
    scopes = [owning_scope(name), *([owning_scope(other)] if other else [])]
    return NameWanted(field, bare_name(name), tuple(dict.fromkeys(scopes)))


def own_scopes(user_name: str, vo: str) -> tuple[str, ...]:
    """The scopes of a person in a VO. What a scope cannot have in it, such as a dot, is a hyphen there.

    Example: of ada in atlas user.ada and user.ada-atlas; of iam:ada user.iam-ada and user.iam-ada-atlas.
    """
    name = _NOT_IN_SCOPES.sub("-", user_name)
    return (f"{_USER}{name}", f"{_USER}{name}{_ending(vo)}")


def takeable_scopes(user_name: str, vo: str) -> tuple[str, ...]:
    """The scopes that a person may take: their own, and that of the name without an issuer's prefix.

    Clients write the latter; who is first has it.

    Example: of iam:ada also user.ada, unless another ada has it.
    """
    return (*own_scopes(user_name, vo), *own_scopes(user_name.rpartition(":")[2], vo))


def owner_of_scope(scope: str, writer: NameWriter) -> str:
    """The person to whom a new scope belongs; "": the VO's production."""
    if scope in takeable_scopes(writer.user_name, writer.vo):
        return writer.user_name
    return scope.removeprefix(_USER) if scope.startswith(_USER) else ""


def may_take(scope: str, writer: NameWriter, vos: Collection[str]) -> bool:
    """Whether a scope of nobody can be the writer's; `vos`: those that the installation knows.

    Production takes names of its VO, and of people and groups those that end with it: user.bob stays free for bob, also
    where production writes in bob's name.
    Example: user.bob-atlas is for bob of atlas and production of atlas, also where eve of cms is called bob-atlas.
    """
    if writer.takes_any or scope in writer.approved:
        return True
    is_personal = scope.startswith((_USER, _GROUP))
    ends_with = {vo for vo in (*vos, writer.vo) if vo and scope.endswith(_ending(vo))} if is_personal else set()
    if ends_with and writer.vo not in ends_with:
        return False
    is_own = writer.is_owner and scope in takeable_scopes(writer.user_name, writer.vo)
    if is_own or _is_of_group(scope, writer):
        return True
    return writer.is_producer and (not is_personal or bool(ends_with))


def refusal(scope: str, known: Whose | None, writer: NameWriter, vos: Collection[str] = ()) -> tuple[str, str] | None:
    """Why a scope is not to be written in: the cause, and words; `known` None: it is nobody's."""
    if known is None and writer.is_producer and _is_not_owners(scope, known, writer):
        return "another person", f"scope {scope} is not of {writer.user_name}, who owns the task"
    if known is None:
        if may_take(scope, writer, vos):
            return None
        is_theirs = not writer.is_owner and scope in takeable_scopes(writer.user_name, writer.vo)
        words = "to take first, by a task of their own" if is_theirs else "to take"
        return "not theirs", f"scope {scope} is {'' if is_theirs else 'not '}{writer.user_name}'s {words}"
    if known.vo and known.vo != writer.vo and (writer.is_of_task or writer.vo):
        return "another VO", f"scope {scope} belongs to the VO {known.vo}"
    is_groups = known.vo == writer.vo and not known.owner and _is_of_group(scope, writer)
    if scope in writer.approved or is_groups or writer.may_write(known):
        if _is_not_owners(scope, known, writer):
            return "another person", f"scope {scope} is not of {writer.user_name}, who owns the task"
        return None
    if known.owner:
        return "another person", f"scope {scope} belongs to somebody else"
    return "production", f"scope {scope} belongs to production of {f'the VO {known.vo}' if known.vo else 'every VO'}"


def _is_not_owners(scope: str, known: Whose | None, writer: NameWriter) -> bool:
    """Whether a task of one person would write in the scope of another."""
    return writer.is_of_task and scope.startswith(_USER) and not _is_own(scope, known, writer)


def refusals(
    names: Iterable[NameWanted],
    known: Mapping[str, Whose],
    writer: NameWriter,
    vos_outside: Mapping[str, str],
    vos: Collection[str] = (),
) -> list[ForeignName]:
    """Each name that the writer must not write, with what is allowed.

    `vos_outside`: the VOs in whose catalogues outside datasets are, by name. `vos` as in `may_take`.
    """
    found = []
    for one in names:
        for scope in one.scopes:
            told = refusal(scope, known.get(scope), writer, vos)
            if told is None and one.name in vos_outside:
                told = refusal(scope, Whose(known.get(scope, Whose()).owner, vos_outside[one.name]), writer)
            if told is not None:
                cause, words = told
                allowed = f"{words}; allowed: {_allowed(known, writer, vos)}"
                found.append(ForeignName(one.field, repr(one.name), allowed, "", scope, one.name, cause))
                break
    return found


def _allowed(known: Mapping[str, Whose], writer: NameWriter, vos: Collection[str]) -> str:
    plain, with_vo = own_scopes(writer.user_name, writer.vo)
    is_open = not writer.vo or refusal(plain, known.get(plain), writer, vos) is None
    own = f"names that begin with {plain if is_open else with_vo}."
    whose = f"the VO {writer.vo}" if writer.vo else "every VO"
    return f"{own}, or with a scope of {whose} or of nobody" if writer.is_producer else own


def _is_own(scope: str, known: Whose | None, writer: NameWriter) -> bool:
    """Whether a person's scope is that of who owns a task: also production writes nobody's results as another's."""
    if scope in writer.approved or (known is not None and known.owner == writer.user_name):
        return True
    return scope in takeable_scopes(writer.user_name, writer.vo)


def _is_of_group(scope: str, writer: NameWriter) -> bool:
    group = scope.removeprefix(_GROUP)
    names = (group, group.removesuffix(_ending(writer.vo)))
    return scope.startswith(_GROUP) and any(f"{writer.vo}/{name}" in writer.groups for name in names)


def _ending(vo: str) -> str:
    """What the scopes of people and groups of a VO end with, whoever has the shorter ones."""
    return f"-{_NOT_IN_SCOPES.sub('-', vo)}"
