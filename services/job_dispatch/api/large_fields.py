"""Leaves out fields of a JSON object that are too large before the rest is parsed.

So only these fields are lost, not the whole object.

The text is walked through in slices; the value of a field that is too large, too deep or of too many values becomes a
short text that says so and that nobody outside can write (`left_out`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shared.model.steps import Steps
from shared.web.json_text import LARGEST_PIECE_BYTES, SMALL_BYTES, BodyLimits
from shared.web.json_walk import COMMA, OPEN, Raw, walk
from shared.web.slices import in_slices

#: one field is parsed as part of one piece
LARGEST_FIELD_BYTES = LARGEST_PIECE_BYTES - SMALL_BYTES
_NOTABLE_BYTES, _NOTABLE_VALUES = 4096, 100
_MARKER = f"left out {secrets.token_hex(16)}: "
_NAME = re.compile(rb'\s*+("(?:[^"\\]|\\.){0,256}+")\s*+:')
_NO_NAME = b'""'


def left_out(value: Any) -> str | None:
    """Why a field was left out; None for a value that was sent."""
    return value.removeprefix(_MARKER) if isinstance(value, str) and value.startswith(_MARKER) else None


def marked(reason: str) -> str:
    """What stands for the value of a field that is left out."""
    return _MARKER + reason


async def without_large_fields(raw: Raw, level: int, each: BodyLimits, whole: BodyLimits) -> bytes:
    """The text without the fields that are too large.

    Fields of the objects at nesting `level` (1: the outermost) are kept within the limits `each`, and the largest of
    them are left out until the text is within `whole`, where that is possible.
    """
    return await in_slices(_without_large_fields(raw, level, each, whole))


@dataclass(slots=True)
class _Field:
    start: int
    end: int = 0
    n_values: int = 1
    depth: int = 0

    @property
    def n_bytes(self) -> int:
        return self.end - self.start


class _Fields:
    """The fields at one level; those that are large enough to matter are kept."""

    def __init__(self, level: int) -> None:
        self.notable: list[_Field] = []
        self.n_values = 1
        self._level = level
        self._depth = 0
        self._is_object = False
        self._field: _Field | None = None

    def sign(self, sign: int, at: int) -> None:
        """A bracket or comma outside of texts."""
        depth = self._depth
        if sign == COMMA:
            self.n_values += 1
            if depth == self._level and self._is_object:
                self._end(at)
                self._field = _Field(at + 1)
            elif self._field is not None:
                self._field.n_values += 1
        elif sign in OPEN:
            self.n_values += 1
            self._depth = depth = depth + 1
            if depth == self._level:
                self._is_object = sign == OPEN[1]
                self._field = _Field(at + 1) if self._is_object else None
            elif self._field is not None:
                self._field.n_values += 1
                self._field.depth = max(self._field.depth, depth - self._level)
        else:
            if depth == self._level and self._is_object:
                self._end(at)
                self._field = None
            self._depth = depth - 1

    def check(self) -> None:
        """Nothing is refused here."""

    def _end(self, at: int) -> None:
        field = self._field
        if field is not None:
            field.end = at
            if field.n_bytes > _NOTABLE_BYTES or field.n_values > _NOTABLE_VALUES or field.depth > 1:
                self.notable.append(field)


def _without_large_fields(raw: Raw, level: int, each: BodyLimits, whole: BodyLimits) -> Steps[bytes]:
    seen = _Fields(level)
    yield from walk(raw, seen)
    reasons: dict[int, str] = {}
    n_bytes, n_values = len(raw), seen.n_values
    for field in sorted(seen.notable, key=lambda one: (-one.n_bytes, one.start)):
        reason = _too_large(field, each)
        if reason is None and (n_bytes > whole.n_bytes or n_values > whole.n_values):
            reason = f"{field.n_bytes} bytes and {field.n_values} values, too much beside the others"
        if reason is not None:
            reasons[field.start] = reason
            n_bytes, n_values = n_bytes - field.n_bytes, n_values - field.n_values
    return b"".join(_parts(raw, [one for one in seen.notable if one.start in reasons], reasons))


def _too_large(field: _Field, each: BodyLimits) -> str | None:
    if field.n_bytes > each.n_bytes:
        return f"{field.n_bytes} bytes; at most {each.n_bytes} are read"
    if field.n_values > each.n_values:
        return f"{field.n_values} values in lists and objects; at most {each.n_values} are read"
    if field.depth > each.depth:
        return f"lists and objects nested {field.depth} deep; at most {each.depth} are read"
    return None


def _parts(raw: Raw, gone: list[_Field], reasons: dict[int, str]) -> Iterator[Raw]:
    at = 0
    for field in gone:
        yield raw[at : field.start]
        name = _NAME.match(raw, field.start, field.end)
        yield b'%b:"%b"' % (name.group(1) if name else _NO_NAME, marked(reasons[field.start]).encode())
        at = field.end
    yield raw[at:]
