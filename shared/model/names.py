"""Names of datasets as catalogues write them: `scope:name`, a container with a slash at its end."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

#: stands for any characters in a name
WILDCARD = "*"
#: what the field's client asks for (pathena --dbRelease LATEST): the newest dataset with a database release
LATEST_RELEASE = "DBR_LATEST"
#: the names of all datasets with a database release
DATABASE_RELEASES = "ddo.*DBRelease*"


def stands_for_others(dataset: str) -> bool:
    """Whether the name of an input stands for the datasets that it describes."""
    return WILDCARD in dataset or dataset == LATEST_RELEASE


#: names that the field's catalogues take (Rucio: schema of data identifiers)
CATALOGUE_NAMES = "letters, digits, '.', '-' and '_', beginning with a letter or digit"
_CATALOGUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: characters of the name of a file
MAX_FILE_NAME = 250


def is_plain_name(name: str) -> bool:
    """Whether the field's catalogues take it as the name of a dataset, container or file."""
    return _CATALOGUE.fullmatch(name) is not None


def names_in(value: Any) -> tuple[str, ...]:
    """A list of names, or text separated by commas."""
    if not value:
        return ()
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip())


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a name with wildcards stands for, in their order: `OPQ*` for OPQ1 and OPQ2."""
    expression = re.compile(".*".join(re.escape(part) for part in pattern.split(WILDCARD)))
    return [name for name in names if expression.fullmatch(name)]


def bare_name(name: str) -> str:
    """A dataset's name without ``scope:`` in front and without the slash that marks a container."""
    return name.strip().rpartition(":")[2].removesuffix("/")


def scope_of(name: str) -> str:
    """The scope in front of a name, else the name's first field (two for user and group data)."""
    scope, colon, rest = name.strip().rpartition(":")
    if colon:
        return scope
    fields = rest.split(".")
    return ".".join(fields[:2]) if fields[0] in ("user", "group") and len(fields) > 1 else fields[0]


#: stands before the names of output that is still to be merged
UNMERGED_PREFIX = "panda.um."


def owning_scope(name: str) -> str:
    """The scope that says whose a dataset is: the one its own name begins with, whatever scope is stated.

    Names are unique among all scopes. `catalogue.owning_scope` says the same in SQL. Example: user.ada of
    panda.um.user.ada.results, and of mc23:user.ada.results.
    """
    bare = bare_name(name)
    while bare.startswith(UNMERGED_PREFIX):
        bare = bare.removeprefix(UNMERGED_PREFIX)
    return scope_of(bare)
