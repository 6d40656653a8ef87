"""Regular expressions that people write: in tasks, queues and shares.

They are matched by RE2, in time linear in the text: Python's own engine tries `(a+)+b` on forty letters for hours, and
everything else of its process waits. What RE2 has no linear way for (look-ahead, look-behind, back references) is
refused where the expression enters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

ALLOWED = "allowed: RE2 syntax, which has no look-ahead, look-behind or back references"

# Larger programs are refused. This keeps the worst match of a name within a millisecond; what people write needs a
# hundredth of it.
MAX_PROGRAM_BYTES = 128 * 1024
_UNBOUNDED_BELOW = re.compile(r"\{,\d+\}")


class InvalidExpression(ValueError):
    """An expression that cannot be used; the message says why and what is allowed."""


@dataclass(frozen=True)
class Expression:
    """A checked expression."""

    text: str

    def matches_all_of(self, value: str) -> bool:
        """Whether it matches the whole value."""
        return _compiled(self.text).fullmatch(_bytes(value)) is not None

    def matches_start_of(self, value: str) -> bool:
        """Whether it matches from the value's first letter."""
        return _compiled(self.text).match(_bytes(value)) is not None

    def is_found_in(self, value: str) -> bool:
        """Whether it matches some part of the value."""
        return _compiled(self.text).search(_bytes(value)) is not None


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Expression:
    """Check an expression. Raises InvalidExpression."""
    # RE2 would take the braces as letters, where the field's Python means a repetition.
    if _UNBOUNDED_BELOW.search(text):
        raise InvalidExpression(f"{text!r}: a repetition needs a lower bound; allowed: {{0,N}}")
    try:
        _compiled(text)
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidExpression(f"{text!r} is not a regular expression: {_reason(error)}; {ALLOWED}") from error
    return Expression(text)


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PROGRAM_BYTES
    return re2.compile(text.encode(), options)


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "replace")


def _reason(error: Exception) -> str:
    """RE2 gives its reasons as bytes."""
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(error)
