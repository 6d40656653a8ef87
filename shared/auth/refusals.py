"""Why a token is refused, said without what stands in it: answers and logs are read by others."""

from __future__ import annotations

import re
from typing import Any

import jwt

#: the most that is shown of an id of a key
_SHOWN = 16
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
#: the first that fits
_SAID: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "Signature has expired"),
    (jwt.ImmatureSignatureError, "it is not yet valid"),
    (jwt.InvalidAudienceError, "Audience doesn't match"),
    (jwt.InvalidIssuerError, "Invalid issuer"),
    (jwt.InvalidSignatureError, "Signature verification failed"),
    (jwt.InvalidAlgorithmError, "its algorithm is not allowed"),
    (jwt.InvalidKeyError, "its key cannot be used"),
    (jwt.InvalidIssuedAtError, "the claim iat is no number"),
    (jwt.DecodeError, "it is no JSON Web Token: three parts, separated by dots, are allowed"),
)


def why_refused(error: Exception) -> str:
    """Why, in our words: those of the library quote the token."""
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"it lacks the claim {error.claim}"
    return next((said for kind, said in _SAID if isinstance(error, kind)), "it cannot be read")


def shown_id(key_id: Any) -> str:
    """The id of a key as its token names it: the beginning of a plain one, else that it is none."""
    if not isinstance(key_id, str) or not _PLAIN.fullmatch(key_id):
        return "of that id" if key_id is not None else "without an id"
    return repr(key_id if len(key_id) <= _SHOWN else f"{key_id[:_SHOWN]}...")
