"""JSON that others send: counted on the raw bytes before it is parsed, and parsed in slices where it is large.

A parser in C holds the interpreter until it has ended, in a thread as well: a body of 16 MB stops every other request
for a good part of a second. Here a large text is cut at the commas of its large lists and objects, each piece is parsed
alone, and the event loop runs in between.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from array import array
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol, TypeVar, cast

import orjson

#: a text of up to so many bytes is parsed at once, in well under a millisecond
SMALL_BYTES = 64 * 1024
#: one text or number; it cannot be cut
LARGEST_PIECE_BYTES = 1024 * 1024
#: the loop is given back after so long
SLICE_S = 0.002
#: digits of the smallest number that may not fit into 64 bits
_LONG_NUMBER = b"0" * 19
_DIGITS_AS_ZERO = bytes(0x30 if 0x30 <= one <= 0x39 else one for one in range(256))
_WINDOW_BYTES = 512
_CHECK_EVERY = 256
#: a short text as a whole, the quote of another one, or a sign of structure
_MARK = re.compile(rb'"[^"\\]{0,64}+"|["\[\]{},]')
_QUOTE, COMMA, OPEN = 0x22, 0x2C, (0x5B, 0x7B)
T = TypeVar("T")


@dataclass(frozen=True)
class BodyLimits:
    """What one call may send: bytes (after unpacking), values (members of all its lists and objects), nesting.

    `exact`: whole numbers beyond 64 bits stay whole, so that who checks them sees what was sent; otherwise they become
    floats, which every later step can write as JSON again.
    """

    n_bytes: int = SMALL_BYTES
    n_values: int = 10_000
    depth: int = 50
    exact: bool = True


class TooMuch(ValueError):
    """A text beyond its limits; nothing of it was parsed. The text names what was counted and what is allowed."""


@dataclass(slots=True)
class _Container:
    """A list or object that is too large for one piece: where it starts and ends, its commas, its large members."""

    start: int
    commas: array[int] = field(default_factory=lambda: array("q"))
    large: list[_Container] = field(default_factory=list)
    end: int = 0


async def parse_json(raw: bytes, limits: BodyLimits) -> Any:
    """The value of a JSON text. Raises TooMuch beyond the limits, orjson.JSONDecodeError for what is no JSON."""
    if is_plain(raw, limits):
        return loaded(raw, limits)
    return await in_slices(_parsed(raw, limits))


def parse_json_now(raw: bytes, limits: BodyLimits) -> Any:
    """The same without giving the loop back: for texts that are small, or were bounded by a limit that is."""
    if is_plain(raw, limits):
        return loaded(raw, limits)
    steps = _parsed(raw, limits)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value


def loaded(text: bytes, limits: BodyLimits = BodyLimits()) -> Any:
    """The value of a text that is small. Raises orjson.JSONDecodeError."""
    value = orjson.loads(text)
    if not limits.exact or _LONG_NUMBER not in text.translate(_DIGITS_AS_ZERO):
        return value
    return json.loads(text)  # the faster parser makes floats of such numbers, and has refused those without end


async def in_slices(steps: Generator[None, None, T]) -> T:
    """What a generator returns; the loop runs in between where it yields."""
    given_back = time.monotonic()
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return cast(T, ended.value)
        if time.monotonic() - given_back > SLICE_S:
            await asyncio.sleep(0)
            given_back = time.monotonic()


def is_plain(raw: bytes, limits: BodyLimits) -> bool:
    """Small, with so few brackets and commas (those in texts are counted, too) that nothing has to be looked at."""
    if len(raw) > limits.n_bytes:
        raise TooMuch(f"{len(raw)} bytes are not allowed; at most {limits.n_bytes} are")
    if len(raw) > SMALL_BYTES:
        return False
    n_open = raw.count(b"[") + raw.count(b"{")
    return n_open <= limits.depth and raw.count(b",") + n_open < limits.n_values


def _parsed(raw: bytes, limits: BodyLimits) -> Generator[None, None, Any]:
    whole = yield from _scan(raw, limits)
    if whole is None:
        if len(raw) > 2 * LARGEST_PIECE_BYTES:
            raise TooMuch(f"a text of {len(raw)} bytes is not allowed; at most {LARGEST_PIECE_BYTES} are")
        return loaded(raw, limits)
    _not_beside(raw[: whole.start])
    _not_beside(raw[whole.end + 1 :])
    value = yield from _built(raw, whole, limits)
    return value


def _not_beside(text: bytes) -> None:
    """Nothing stands before or behind the one value. Raises orjson.JSONDecodeError."""
    if text.strip(b" \t\r\n"):
        raise orjson.JSONDecodeError("unexpected content beside the value", text[:40].decode("latin-1"), 0)


class _Counted:
    """What a scan has seen so far: how much, and where the large lists and objects are."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._n_values = 1
        self._around: list[_Container] = []
        self._outermost: _Container | None = None

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
            self._around.append(_Container(at))
        elif self._around:
            self._close(self._around.pop(), at)

    def _close(self, ended: _Container, at: int) -> None:
        ended.end = at
        if at - ended.start > SMALL_BYTES:
            if self._around:
                self._around[-1].large.append(ended)
            else:
                self._outermost = self._outermost or ended

    def check(self) -> None:
        """Raises TooMuch when there were too many values."""
        if self._n_values > self._limits.n_values:
            raise TooMuch(f"more than {self._limits.n_values} values in lists and objects are not allowed")

    def whole(self) -> _Container | None:
        """The outermost list or object, if it is too large for one piece."""
        if self._around:
            raise orjson.JSONDecodeError("a list or object does not end", "", 0)
        return self._outermost


def _scan(raw: bytes, limits: BodyLimits) -> Generator[None, None, _Container | None]:
    """Count values and depth; the outermost list or object, if it is too large for one piece. Raises TooMuch."""
    seen = _Counted(limits)
    yield from walk(raw, seen)
    return seen.whole()


class Seen(Protocol):
    """What a walk through a text tells."""

    def sign(self, sign: int, at: int) -> None:
        """A bracket or comma outside of texts."""

    def check(self) -> None:
        """Called every few signs; may raise TooMuch."""


def walk(raw: bytes, seen: Seen) -> Generator[None, None, None]:
    """Tell every sign of structure; yields every few microseconds."""
    at, size = 0, len(raw)
    while at < size:
        window_ends = min(at + _WINDOW_BYTES, size)
        for mark in _MARK.finditer(raw, at, window_ends):
            here = mark.start()
            if raw[here] != _QUOTE:
                seen.sign(raw[here], here)
            elif mark.end() == here + 1:  # a long text, or one with escapes: go on behind its end
                at = yield from _end_of_text(raw, here + 1)
                break
        else:
            at = window_ends
        seen.check()
        yield


def _end_of_text(raw: bytes, at: int) -> Generator[None, None, int]:
    """The place behind the quote that ends the text that began before `at`."""
    n_steps = 0
    while True:
        n_steps += 1
        if n_steps % _CHECK_EVERY == 0:
            yield
        quote = raw.find(b'"', at)
        if quote < 0:
            return len(raw)  # it never ends: the parser says so
        before = quote - 1
        while before >= at and raw[before] == 0x5C:
            before -= 1
            if (quote - before) % 4096 == 0:
                yield
        at = quote + 1
        if (quote - 1 - before) % 2 == 0:
            return at


def _built(raw: bytes, container: _Container, limits: BodyLimits) -> Generator[None, None, Any]:
    """The value of a large list or object: neighbours that are small are parsed together."""
    is_list = raw[container.start] == 0x5B
    if raw[container.end] != (0x5D if is_list else 0x7D):
        raise orjson.JSONDecodeError("a bracket does not fit the one that it closes", "", 0)
    value: Any = [] if is_list else {}
    if not container.commas and not container.large and not raw[container.start + 1 : container.end].strip():
        return value
    for first, last, large in _pieces(container):
        if large is None:
            part = _piece(raw[first:last], limits, is_list)
            value.extend(part) if is_list else value.update(part)
        else:
            member = yield from _built(raw, large, limits)
            _not_beside(raw[large.end + 1 : last])
            if is_list:
                _not_beside(raw[first : large.start])
                value.append(member)
            else:
                value[_name(raw[first : large.start])] = member
        yield
    return value


def _pieces(container: _Container) -> Iterator[tuple[int, int, _Container | None]]:
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
        elif comma - begin > SMALL_BYTES:
            yield begin, comma, None
            begin = comma + 1
        start = comma + 1
    if begin <= container.end:
        yield begin, container.end, None


def _piece(text: bytes, limits: BodyLimits, is_list: bool) -> Any:
    if len(text) > LARGEST_PIECE_BYTES:
        raise TooMuch(f"a text of {len(text)} bytes is not allowed; at most {LARGEST_PIECE_BYTES} are")
    if not text.strip(b" \t\r\n"):
        raise orjson.JSONDecodeError("a value is missing", "", 0)
    return loaded(b"[" + text + b"]" if is_list else b"{" + text + b"}", limits)


def _name(text: bytes) -> str:
    """`"name" :` before a large member."""
    return str(next(iter(orjson.loads(b"{" + text + b"0}"))))
