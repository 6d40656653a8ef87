"""Who sent a request: a FastAPI dependency, and the same for plain Starlette routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from fastapi import HTTPException
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.types import Scope

from shared.auth.access import AccessRule
from shared.auth.authentication import Authentication
from shared.auth.authority import Authority
from shared.auth.caller import RIGHTS, ROLES, Caller, ClaimRefused, NotAuthenticated
from shared.auth.issuers import KeysWanted

#: where a request carries its caller, or why it has none, once that was looked at
CALLER = "orrery.caller"


def give_authority(web: Starlette, authority: Authority | Authentication) -> None:
    """What judges the tokens of this application."""
    web.state.authentication = authority if isinstance(authority, Authentication) else Authentication(authority)


def authentication_of(scope: Any) -> Authentication:
    """What judges the callers of the application that a request is for."""
    found: Authentication = scope["app"].state.authentication
    return found


async def identify(scope: Any) -> None:
    """Look at who sent a request; waits only where the keys of the token's issuer have to be read first.

    Called before a request is handed to its route: then `caller_of` never waits. Raises TooManyCalls.
    """
    if CALLER not in scope:
        try:
            authentication = authentication_of(scope)
            try:
                scope[CALLER] = authentication.caller(scope)
            except KeysWanted:
                scope[CALLER] = await authentication.authenticated(scope)
        except NotAuthenticated as error:
            scope[CALLER] = error


def identify_expired(scope: Any) -> None:
    """The same for a request whose token has expired, not too long ago. Raises NotAuthenticated."""
    scope[CALLER] = authentication_of(scope).expired_caller(scope)


class Asks(NamedTuple):
    """What a route asks of its caller: the rule about what it tells or changes, roles, and a right."""

    rule: AccessRule
    roles: tuple[str, ...]
    right: str | None


class HasScope(Protocol):
    """A request, of the framework or not."""

    @property
    def scope(self) -> Scope: ...


def caller_of(request: HasScope) -> Caller:
    """Who sent this request; it is looked at once. Raises NotAuthenticated."""
    return caller_of_scope(request.scope)


def caller_of_scope(scope: Any) -> Caller:
    """The same for plain ASGI."""
    known: Caller | NotAuthenticated | None = scope.get(CALLER)
    if known is None:
        known = scope[CALLER] = authentication_of(scope).caller(scope)
    if isinstance(known, NotAuthenticated):
        raise known
    return known


def require(rule: AccessRule, *roles: str, right: str | None = None) -> Callable[[HTTPConnection], Caller]:
    """A dependency: the caller, if they hold one of `roles` and the right; else 401 or 403.

    An operator holds every role. A token that is limited to other rights does not have it, whatever its roles. `rule`
    says to whom the route answers, or for whom it acts: the endpoint asks it of what it found.
    """
    for role in roles:
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}: allowed are {', '.join(ROLES)}")
    if right is not None and right not in RIGHTS:
        raise ValueError(f"unknown right {right!r}: allowed are {', '.join(RIGHTS)}")

    def dependency(request: HTTPConnection) -> Caller:
        try:
            caller = caller_of(request)
        except ClaimRefused as error:
            raise HTTPException(403, str(error)) from None
        except NotAuthenticated as error:
            raise HTTPException(401, str(error), headers={"WWW-Authenticate": "Bearer"}) from None
        if roles and not caller.may(*roles):
            raise HTTPException(403, f"{caller.name} needs the role {' or '.join(roles)}")
        if right is not None and not caller.has_right(right):
            raise HTTPException(403, f"{caller.name} needs the right {right}, to which the token is not limited")
        return caller

    dependency.asks_for = Asks(rule, roles, right)  # type: ignore[attr-defined]  # for the contract of endpoints
    return dependency
