"""Names of datasets as catalogues write them: `scope:name`, a container with a slash at its end."""

from __future__ import annotations


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
