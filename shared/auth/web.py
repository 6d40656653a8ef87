"""The bearer token of a request: a FastAPI dependency, and the same for plain Starlette routes."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import HTTPException
from starlette.applications import Starlette
from starlette.requests import HTTPConnection

from shared.auth.authority import ROLES, Authority, Caller, NotAuthenticated

#: where a request carries its caller, once the token was verified
CALLER = "orrery.caller"


def give_authority(web: Starlette, authority: Authority) -> None:
    """The authority that judges the tokens of this application."""
    web.state.authority = authority


def caller_of(request: HTTPConnection) -> Caller:
    """Who sent this request; its token is looked at once. Raises NotAuthenticated."""
    scope = request.scope
    known: Caller | None = scope.get(CALLER)
    if known is not None:
        return known
    header = next((value for name, value in scope["headers"] if name == b"authorization"), b"").decode("latin-1")
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise NotAuthenticated("a header 'Authorization: Bearer <token>' is needed")
    authority: Authority = scope["app"].state.authority
    caller = scope[CALLER] = authority.verify(token.strip())
    return caller


def require(*roles: str) -> Callable[[HTTPConnection], Caller]:
    """A dependency: the caller, if they hold one of `roles` (an operator always does); else 401 or 403."""
    for role in roles:
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}: allowed are {', '.join(ROLES)}")

    def dependency(request: HTTPConnection) -> Caller:
        try:
            caller = caller_of(request)
        except NotAuthenticated as error:
            raise HTTPException(401, str(error), headers={"WWW-Authenticate": "Bearer"}) from None
        if roles and not caller.may(*roles):
            raise HTTPException(403, f"{caller.name} needs the role {' or '.join(roles)}")
        return caller

    return dependency
