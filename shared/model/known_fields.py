"""Which fields a record may have at a place of it, for the refusal of one that it does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel


def known_fields(model: Any, place: Sequence[str | int]) -> list[str]:
    """Names of the fields of the record at `place` of a model, in their order; none where it is no record.

    `place`: names of fields and numbers of members, as pydantic's errors have them, without the unknown field.
    """
    at = list(_records(model))
    for part in place:
        if isinstance(part, str):
            at = [inner for one in at for inner in _inside(one, part)]
    return list(dict.fromkeys(name for one in at for name in _names(one)))


def _names(model: type[BaseModel]) -> Iterator[str]:
    return (str(field.alias or name) for name, field in model.model_fields.items())


def _inside(model: type[BaseModel], name: str) -> Iterator[type[BaseModel]]:
    for own, field in model.model_fields.items():
        if name in (own, field.alias):
            yield from _records(field.annotation)


def _records(annotation: Any) -> Iterable[type[BaseModel]]:
    """Models of an annotation: itself, or those of a list, a choice or an annotated type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for one in get_args(annotation) for found in _records(one)]
