"""Walks through a JSON text and tells every bracket and comma outside of its texts, without parsing."""

from __future__ import annotations

import re
from typing import Protocol

from shared.model.steps import Steps

_WINDOW_BYTES = 512
_CHECK_EVERY = 256
#: a short text as a whole, the quote of another one, or a sign of structure
_MARK = re.compile(rb'"[^"\\]{0,64}+"|["\[\]{},]')
_QUOTE = 0x22
COMMA, OPEN = 0x2C, (0x5B, 0x7B)
#: what was sent, as it came
Raw = bytes | bytearray


class Seen(Protocol):
    """What a walk through a text tells."""

    def sign(self, sign: int, at: int) -> None:
        """A bracket or comma outside of texts."""

    def check(self) -> None:
        """Called every few signs; may raise TooMuch."""


def walk(raw: Raw, seen: Seen) -> Steps[None]:
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


def _end_of_text(raw: Raw, at: int) -> Steps[int]:
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
