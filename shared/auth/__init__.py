"""Who is calling, and what they may do: bearer tokens, four roles, one FastAPI dependency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared.auth.authority import AUDIENCE, KEY_AUDIENCE, ROLES, Authority, Caller, NotAuthenticated, Role

if TYPE_CHECKING:
    from shared.auth.web import caller_of, give_authority, require

__all__ = [
    "AUDIENCE",
    "KEY_AUDIENCE",
    "ROLES",
    "Authority",
    "Caller",
    "NotAuthenticated",
    "Role",
    "caller_of",
    "give_authority",
    "require",
]


def __getattr__(name: str) -> Any:
    """The web half is loaded when it is first asked for: the command line issues tokens and has no use for FastAPI."""
    if name in ("caller_of", "give_authority", "require"):
        from shared.auth import web

        return getattr(web, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
