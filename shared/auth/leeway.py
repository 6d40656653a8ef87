"""How far the clocks of whoever signs tokens may be from ours."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jwt

#: a token may begin to be good so long after now: its issuer's clock is ahead of ours
CLOCK_LEEWAY_S = 60
#: but is believed no longer than this after its end: who waits for the end of a token waits for seconds
EXPIRED_LEEWAY_S = 5


def check_expiry(claims: Mapping[str, Any], leeway_s: float = EXPIRED_LEEWAY_S) -> None:
    """Raises jwt.ExpiredSignatureError for a token that ended longer ago than so many seconds."""
    if claims["exp"] + leeway_s <= time.time():
        raise jwt.ExpiredSignatureError("Signature has expired")
