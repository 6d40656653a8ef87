"""Texts that others wrote, made safe to show on a terminal, in a log or in a sentence.

A control character can clear a screen, set its title or write to the clipboard; a bidirectional mark reorders what
stands around it; a character without a width hides. None of them is shown as it is.
"""

from __future__ import annotations

import re

#: printable for Python, but drawn as nothing: fillers, joiners, selectors of variants, the blank braille pattern
_INVISIBLE = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_HAS_INVISIBLE = re.compile(f"[{_INVISIBLE}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
#: what a text of several lines may keep
_LAYOUT = frozenset("\n\t")


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with everything that is not seen written as an escape: `\x1b`, `\u202e`, `\U000e0041`.

    That is every control and format character, separators other than the blank, unassigned and private characters,
    lone surrogates, and what has no width. Line feeds and tabs stay where the caller shows `lines`.
    """
    if text.isprintable() and not _HAS_INVISIBLE.search(text):
        return text
    kept = _LAYOUT if lines else frozenset()
    return "".join(one if one in kept or _is_seen(one) else _escape(one) for one in text)


def _is_seen(one: str) -> bool:
    return one.isprintable() and not _HAS_INVISIBLE.match(one)


def _escape(one: str) -> str:
    code = ord(one)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return _SHORT.get(one) or (f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}")
