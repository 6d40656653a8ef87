"""Whole numbers as people write them, and as our pages show them."""

from __future__ import annotations

#: what stands between thousands, on our own pages too
_SPACES = dict.fromkeys(map(ord, " _'\u00a0\u2009\u202f"))
#: more would be no whole number of any need
_MOST = 1e15


def whole_number(text: str) -> str:
    """The digits of a whole number; any other text as it is, for whoever says what is allowed.

    Example: 6 200, 6200.0 and 6.2e3 are 6200; 1.5 and many stay.
    """
    try:
        number = float(text.translate(_SPACES))
    except ValueError:
        return text
    return str(int(number)) if abs(number) < _MOST and number.is_integer() else text
