"""Checks records with long lists in parts: one check of the whole blocks the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from shared.model.batches import batches
from shared.model.problems import Problem, problems_of
from shared.model.steps import Steps

#: members that are checked in one step
CHECKED_TOGETHER = 50
#: sets of names
N_PARTS = 1024
FILE = "catalogue"
Model = TypeVar("Model", bound=BaseModel)
Members = Callable[[str, list[Any], str, list[Problem]], Steps[list[Any]]]
"""Checks a list: the key of its record, its members, its field; adds to the problems."""


def in_parts(member: Any) -> Members:
    """A list whose members have this type."""
    adapter = TypeAdapter(list[member])

    def check(key: str, members: list[Any], field: str, problems: list[Problem]) -> Steps[list[Any]]:
        good: list[Any] = []
        n_checked = 0
        for some in batches(members, CHECKED_TOGETHER):
            yield
            try:
                good += adapter.validate_python(some)
            except ValidationError as error:
                problems += problems_of(FILE, key, error, field, n_checked)
            n_checked += len(some)
        return good

    return check


def checked(
    model: type[Model], key: str, record: Any, lists: Mapping[str, Members], problems: list[Problem], within: str = ""
) -> Steps[Model | None]:
    """A record whose `lists` are checked in parts; `within`: the field that it is.

    The problems are those, and in the order of the fields, that a check of the whole tells.
    """
    prefix = f"{within}." if within else ""
    long = {name: record[name] for name in lists if record.get(name)} if isinstance(record, dict) else {}
    good: dict[str, list[Any]] = {}
    found: list[Problem] = []
    for name, members in long.items():
        if isinstance(members, list):
            good[name] = yield from lists[name](key, members, prefix + name, found)
    short = {name: good[name][:1] if name in good else one for name, one in record.items()} if good else record
    parsed = None
    try:
        parsed = model.model_validate(short)
    except ValidationError as error:
        shortened = {prefix + name for name in good}  # nothing is left of a list where every member is wrong
        found = [
            one for one in problems_of(FILE, key, error, within, model=model) if one.field not in shortened
        ] + found
    if found:
        order = {prefix + name: place for place, name in enumerate(model.model_fields)}
        start = len(prefix)
        problems += sorted(found, key=lambda one: order.get(prefix + one.field[start:].partition(".")[0], len(order)))
        return None
    return None if parsed is None else parsed.model_copy(update=good)


class Names:
    """Millions of names in many small sets: a large one is rehashed, and freed, as a whole."""

    def __init__(self) -> None:
        self._parts: list[set[str]] = [set() for _ in range(N_PARTS)]

    def add(self, name: str) -> None:
        """One more, or one that is known."""
        self._parts[hash(name) % N_PARTS].add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._parts[hash(name) % N_PARTS]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def forget(self) -> Steps[None]:
        """Free them all."""
        for part in self._parts:
            part.clear()
            yield
