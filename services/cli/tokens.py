"""As whom the command line calls.

`ORRERY_TOKEN`, the token of a login, or one made with the development issuer's key.
"""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from services.cli.addresses import KEY_VARIABLE, PROJECT, Addresses
from services.cli.failures import Refused, WrongUsage
from services.cli.logins import SystemLogin, read_logins, write_logins

TOKEN_VARIABLE = "ORRERY_TOKEN"  # noqa: S105 - the name of a variable
LIFETIME_S = 3600.0
#: a token of a login is renewed so long before it expires, so that it lives through the command
RENEWED_BEFORE_S = 60.0


def token_for(addresses: Addresses) -> str:
    """The caller's token. Raises WrongUsage when there is neither a token nor a key to make one."""
    given = os.environ.get(TOKEN_VARIABLE)
    if given:
        return given.strip()
    if addresses.elsewhere is not None and addresses.token_key_file is None:
        return _of_login(addresses.elsewhere, addresses.login)
    return issue(addresses, caller_name(), ("operator",), lifetime_s=LIFETIME_S)


def _of_login(url: str, login: SystemLogin | None) -> str:
    """The token with which somebody logged in at another machine, a new one where it is about to expire."""
    if login is None:
        raise WrongUsage(f"no token for {url}: log in (`orrery login {url}`), or set {TOKEN_VARIABLE}")
    if not login.expires_at or time.time() < login.expires_at - RENEWED_BEFORE_S:
        return login.token
    if login.renews:
        from services.cli.device_flow import renewed

        try:
            login = renewed(login)
        except Refused as refusal:
            raise WrongUsage(f"{refusal.message}; log in again: `orrery login {url}`") from None
        write_logins(read_logins().renewed(url, login))
        return login.token
    if time.time() >= login.expires_at:
        at = datetime.fromtimestamp(login.expires_at, UTC)
        raise WrongUsage(f"the token for {url} expired at {at:%Y-%m-%d %H:%M} UTC: log in again (`orrery login {url}`)")
    return login.token


def issue(
    addresses: Addresses,
    name: str,
    roles: Sequence[str],
    groups: Sequence[str] = (),
    *,
    lifetime_s: float = LIFETIME_S,
    is_key: bool = False,
    rights: Sequence[str] | None = None,
) -> str:
    """A token signed with the development key, or (`is_key`) a key that renews a pilot's token.

    Raises WrongUsage naming what is missing or not allowed.
    """
    from shared.auth import (
        AUDIENCE,
        KEY_AUDIENCE,
        RIGHTS,
        ROLES,
        Authority,
    )  # cryptography takes long to load: not where a token is given

    for role in roles:
        if role not in ROLES:
            raise WrongUsage(f"role: value {role!r}: allowed are {', '.join(ROLES)}")
    for right in rights or ():
        if right not in RIGHTS:
            raise WrongUsage(f"right: value {right!r}: allowed are {', '.join(RIGHTS)}")
    path = key_file(addresses)
    if path is None:
        raise WrongUsage(f"no token: set {TOKEN_VARIABLE}, or {KEY_VARIABLE} to the development issuer's key")
    try:
        audience = KEY_AUDIENCE if is_key else AUDIENCE
        authority = Authority.from_file(path)
        return authority.issue(name, roles, groups, lifetime_s=lifetime_s, audience=audience, rights=rights or None)
    except OSError as error:
        raise WrongUsage(f"the issuer's key {path} cannot be read: {error.strerror}") from None
    except (ValueError, PermissionError) as error:
        raise WrongUsage(f"the issuer's key {path}: {error}") from None


def names_of(token: str) -> tuple[str, float | None]:
    """What a revocation names a token by, and when it expires; its signature is nobody's concern here.

    Raises WrongUsage for what is no token.
    """
    import jwt

    from shared.auth.authority import ISSUER
    from shared.auth.caller import digest_of

    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError as error:
        raise WrongUsage(f"token: this is none: {error}") from None
    token_id, issuer, expires_at = claims.get("jti"), claims.get("iss"), claims.get("exp")
    until = float(expires_at) if isinstance(expires_at, int | float) else None
    if not isinstance(token_id, str) or not token_id:
        return digest_of(token), until
    return token_id if issuer == ISSUER else f"{issuer}#{token_id}", until


def key_file(addresses: Addresses) -> Path | None:
    """The development issuer's key.

    The one the record names, else those of the current directory and of the clone.
    """
    if addresses.elsewhere is not None:
        return addresses.token_key_file  # a key of this machine is none of another's
    candidates = [addresses.token_key_file, Path(".local/token_key.pem"), PROJECT / ".local" / "token_key.pem"]
    return next((path for path in candidates if path is not None and path.exists()), None)


def caller_name() -> str:
    """The name of the person at the keyboard."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"
