"""Reads JSON that others send: counted as raw bytes before it is parsed, parsed in slices if large.

A parser in C holds the interpreter until it has ended, in a thread as well: a body of 16 MB stops every other request
for a good part of a second. Here a large text is cut at the commas of its large lists and objects, each piece is parsed
alone, and the event loop runs in between.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import orjson

from shared.model.steps import Steps, at_once
from shared.web.json_walk import COMMA, OPEN, Raw, walk
from shared.web.slices import freed, in_slices, without_collections

#: a text of up to so many bytes is parsed at once, in well under a millisecond
SMALL_BYTES = 64 * 1024
#: one text or number; it cannot be cut
LARGEST_PIECE_BYTES = 1024 * 1024
#: larger texts are parsed in pieces of about so many bytes
PIECE_BYTES = 16 * 1024
#: members of one object; it is rehashed as a whole when it grows
MOST_NAMES = 100_000
#: digits of the smallest number that may not fit into 64 bits
_LONG_NUMBER = b"0" * 19
_DIGITS_AS_ZERO = bytes(0x30 if 0x30 <= one <= 0x39 else one for one in range(256))
_CLOSE_OBJECT = 0x7D


@dataclass(frozen=True)
class BodyLimits:
    """What one call may send: bytes (unpacked), values (members of all lists and objects), nesting.

    `exact`: whole numbers beyond 64 bits stay whole, so that who checks them sees what was sent; otherwise they become
    floats, which every later step can write as JSON again. `odd`: what pilots' own writers put into JSON is taken, too
    (`odd_json`). `streamed`: the route reads the body itself, in pieces, and keeps its own limit.
    """

    n_bytes: int = SMALL_BYTES
    n_values: int = 10_000
    depth: int = 50
    exact: bool = True
    odd: bool = False
    streamed: bool = False


class TooMuch(ValueError):
    """A text beyond its limits; nothing of it was parsed.

    The text names what was counted and what is allowed.
    """


@dataclass(slots=True)
class _LargeContainer:
    """A list or object too large for one piece: start, end, commas and large members."""

    start: int
    commas: array[int] = field(default_factory=lambda: array("q"))
    large: list[_LargeContainer] = field(default_factory=list)
    end: int = 0


async def parse_json(raw: Raw, limits: BodyLimits) -> Any:
    """The value of a JSON text.

    Raises TooMuch beyond the limits, orjson.JSONDecodeError for what is no JSON.
    """
    if is_plain(raw, limits):
        return loaded(raw, limits)
    with without_collections():
        return await in_slices(_parsed(raw, limits))


def parse_json_now(raw: Raw, limits: BodyLimits) -> Any:
    """The same without giving the loop back: for texts that are small, or were bounded by a limit that is."""
    if is_plain(raw, limits):
        return loaded(raw, limits)
    return at_once(_parsed(raw, limits))


def loaded(text: Raw, limits: BodyLimits = BodyLimits()) -> Any:
    """The value of a text that is small. Raises orjson.JSONDecodeError."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not limits.odd:
            raise
        return _odd_or(error, text)
    if not limits.exact or _LONG_NUMBER not in text.translate(_DIGITS_AS_ZERO):
        return value
    return json.loads(text)  # the faster parser makes floats of such numbers, and has refused those without end


def odd_json(text: Raw) -> Any:
    """The value of an unusual JSON text; ValueError for what is no JSON.

    Unusual are NaN, Infinity, halves of surrogate pairs, control characters or bytes that are no UTF-8 (the last three
    become readable text).
    """
    try:
        return _without_surrogates(json.loads(text.decode("utf-8", "replace"), strict=False))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(one) for one in value]
    return value


def _odd_or(error: orjson.JSONDecodeError, text: Raw) -> Any:
    """The value of an odd text. Raises the error of what is not even that."""
    try:
        return odd_json(text)
    except ValueError:
        raise error from None


def is_plain(raw: Raw, limits: BodyLimits) -> bool:
    """Small, with so few brackets and commas (those in texts count, too) that no more checks are needed."""
    if len(raw) > limits.n_bytes:
        raise TooMuch(f"{len(raw)} bytes are not allowed; at most {limits.n_bytes} are")
    if len(raw) > SMALL_BYTES:
        return False
    n_open = raw.count(b"[") + raw.count(b"{")
    return n_open <= limits.depth and raw.count(b",") + n_open < limits.n_values


def _parsed(raw: Raw, limits: BodyLimits) -> Steps[Any]:
    whole = yield from _scan(raw, limits)
    if whole is None:
        _not_too_long(raw, 2 * LARGEST_PIECE_BYTES)  # with blanks around it
        return loaded(raw, limits)
    _not_beside(raw[: whole.start])
    _not_beside(raw[whole.end + 1 :])
    value = _empty(raw, whole)
    try:
        yield from _fill(value, raw, whole, limits)
    except ValueError:
        yield from freed(value)
        raise
    return value


def _not_too_long(text: Raw, most_bytes: int = LARGEST_PIECE_BYTES) -> None:
    """What cannot be cut is short enough to be parsed at once. Raises TooMuch."""
    if len(text) > most_bytes:
        raise TooMuch(f"a text of {len(text)} bytes is not allowed; at most {LARGEST_PIECE_BYTES} are")


def _not_beside(text: Raw) -> None:
    """Nothing stands before or behind the one value. Raises TooMuch, orjson.JSONDecodeError."""
    _not_too_long(text)
    if text.strip(b" \t\r\n"):
        raise orjson.JSONDecodeError("unexpected content beside the value", text[:40].decode("latin-1"), 0)


class _Scan:
    """What a scan has seen so far: how much, and where the large lists and objects are."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._n_values = 1
        self._around: list[_LargeContainer] = []
        self._outermost: _LargeContainer | None = None

    def sign(self, sign: int, at: int) -> None:
        """A bracket or comma outside of texts. Raises TooMuch."""
        if sign == COMMA:
            self._n_values += 1
            if self._around:
                self._around[-1].commas.append(at)
        elif sign in OPEN:
            self._n_values += 1
            if len(self._around) >= self._limits.depth:
                raise TooMuch(f"lists and objects nested deeper than {self._limits.depth} are not allowed")
            self._around.append(_LargeContainer(at))
        elif self._around:
            ended = self._around.pop()
            if sign == _CLOSE_OBJECT and len(ended.commas) >= MOST_NAMES:
                raise TooMuch(f"more than {MOST_NAMES} members of one object are not allowed")
            self._close(ended, at)

    def _close(self, ended: _LargeContainer, at: int) -> None:
        ended.end = at
        if at - ended.start > PIECE_BYTES:
            if self._around:
                self._around[-1].large.append(ended)
            else:
                self._outermost = self._outermost or ended

    def check(self) -> None:
        """Raises TooMuch when there were too many values."""
        if self._n_values > self._limits.n_values:
            raise TooMuch(f"more than {self._limits.n_values} values in lists and objects are not allowed")

    def whole(self) -> _LargeContainer | None:
        """The outermost list or object, if it is too large for one piece."""
        if self._around:
            raise orjson.JSONDecodeError("a list or object does not end", "", 0)
        return self._outermost


def _scan(raw: Raw, limits: BodyLimits) -> Steps[_LargeContainer | None]:
    """Count values and depth; the outermost list or object, if it is too large for one piece. Raises TooMuch."""
    seen = _Scan(limits)
    yield from walk(raw, seen)
    return seen.whole()


def _empty(raw: Raw, container: _LargeContainer) -> Any:
    """An empty list or object for the value of a large one. Raises orjson.JSONDecodeError."""
    is_list = raw[container.start] == OPEN[0]
    if (raw[container.end] == _CLOSE_OBJECT) == is_list:
        raise orjson.JSONDecodeError("a bracket does not fit the one that it closes", "", 0)
    return [] if is_list else {}


def _fill(value: Any, raw: Raw, container: _LargeContainer, limits: BodyLimits) -> Steps[None]:
    """The members of a large list or object: neighbours that are small are parsed together.

    A large member is put into it before its own members are known, so that all can be freed from the outermost where
    the text is no JSON.
    """
    is_list = isinstance(value, list)
    if not container.commas and not container.large and not raw[container.start + 1 : container.end].strip():
        return
    for first, last, large in _pieces(container):
        if large is None:
            part = _piece(raw[first:last], limits, is_list)
            value.extend(part) if is_list else value.update(part)
        else:
            _not_beside(raw[large.end + 1 : last])
            member = _empty(raw, large)
            if is_list:
                _not_beside(raw[first : large.start])
                value.append(member)
            else:
                value[_name(raw[first : large.start], limits)] = member
            yield from _fill(member, raw, large, limits)
        yield


def _pieces(container: _LargeContainer) -> Iterator[tuple[int, int, _LargeContainer | None]]:
    """(start, end, large member or None) of what is parsed together, without the commas around it."""
    large = iter(container.large)
    next_large = next(large, None)
    begin = start = container.start + 1
    for comma in chain(container.commas, (container.end,)):
        if next_large is not None and start <= next_large.start < comma:
            if begin < start:
                yield begin, start - 1, None
            yield start, comma, next_large
            next_large, begin = next(large, None), comma + 1
        elif comma - begin > PIECE_BYTES:
            yield begin, comma, None
            begin = comma + 1
        start = comma + 1
    if begin <= container.end:
        yield begin, container.end, None


def _piece(text: Raw, limits: BodyLimits, is_list: bool) -> Any:
    _not_too_long(text)
    if not text.strip(b" \t\r\n"):
        raise orjson.JSONDecodeError("a value is missing", "", 0)
    return loaded(b"[" + text + b"]" if is_list else b"{" + text + b"}", limits)


def _name(text: Raw, limits: BodyLimits) -> str:
    """`"name" :` before a large member."""
    _not_too_long(text)
    return str(next(iter(loaded(b"{" + text + b"0}", limits))))
