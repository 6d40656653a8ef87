"""Who is calling, and what they may do.

Tokens of our own issuer (`authority`) or of OpenID Connect issuers (`issuers`), certificates that a TLS proxy verified
(`certificates`); the VO and role that a request claims, four roles, three rights (`caller`); what was revoked
(`revocation`). `authentication` puts them together, `web` is the FastAPI dependency. Who may see and do what: `access`;
`reach` is the same for statements with filters, `state_view` what the others see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared.auth.authority import AUDIENCE, KEY_AUDIENCE, Authority
from shared.auth.caller import RIGHTS, ROLES, Caller, ClaimRefused, NotAuthenticated, Role, TokenExpired

if TYPE_CHECKING:
    from shared.auth.web import (
        authentication_of,
        caller_of,
        caller_of_scope,
        give_authority,
        identify,
        identify_expired,
        require,
    )

__all__ = [
    "AUDIENCE",
    "KEY_AUDIENCE",
    "RIGHTS",
    "ROLES",
    "Authority",
    "Caller",
    "ClaimRefused",
    "NotAuthenticated",
    "Role",
    "TokenExpired",
    "authentication_of",
    "caller_of",
    "caller_of_scope",
    "give_authority",
    "identify",
    "identify_expired",
    "require",
]


_OF_WEB = frozenset(
    {"authentication_of", "caller_of", "caller_of_scope", "give_authority", "identify", "identify_expired", "require"}
)


def __getattr__(name: str) -> Any:
    """The web half is loaded when it is first asked for: the command line issues tokens and has no use for FastAPI."""
    if name in _OF_WEB:
        from shared.auth import web

        return getattr(web, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
