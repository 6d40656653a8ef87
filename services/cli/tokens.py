"""As whom the command line calls: `ORRERY_TOKEN`, or a token made with the development issuer's key."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path

from services.cli.addresses import PROJECT, Addresses
from services.cli.failures import WrongUsage

TOKEN_VARIABLE = "ORRERY_TOKEN"  # noqa: S105 - the name of a variable
LIFETIME_S = 3600.0


def token_for(addresses: Addresses) -> str:
    """The caller's token. Raises WrongUsage when there is neither a token nor a key to make one."""
    given = os.environ.get(TOKEN_VARIABLE)
    if given:
        return given.strip()
    return issue(addresses, caller_name(), ("operator",), lifetime_s=LIFETIME_S)


def issue(
    addresses: Addresses,
    name: str,
    roles: Sequence[str],
    groups: Sequence[str] = (),
    *,
    lifetime_s: float = LIFETIME_S,
    is_key: bool = False,
) -> str:
    """A token signed with the development key, or (`is_key`) a key that renews a pilot's token.

    Raises WrongUsage naming what is missing or not allowed.
    """
    from shared.auth import (
        AUDIENCE,
        KEY_AUDIENCE,
        ROLES,
        Authority,
    )  # cryptography takes long to load: not where a token is given

    for role in roles:
        if role not in ROLES:
            raise WrongUsage(f"role: value {role!r}: allowed are {', '.join(ROLES)}")
    path = key_file(addresses)
    if path is None:
        raise WrongUsage(f"no token: set {TOKEN_VARIABLE}, or ORRERY_TOKEN_KEY_FILE to the development issuer's key")
    try:
        audience = KEY_AUDIENCE if is_key else AUDIENCE
        return Authority.from_file(path).issue(name, roles, groups, lifetime_s=lifetime_s, audience=audience)
    except OSError as error:
        raise WrongUsage(f"the issuer's key {path} cannot be read: {error.strerror}") from None
    except (ValueError, PermissionError) as error:
        raise WrongUsage(f"the issuer's key {path}: {error}") from None


def key_file(addresses: Addresses) -> Path | None:
    """The development issuer's key.

    The one the record names, else those of the current directory and of the clone.
    """
    candidates = [addresses.token_key_file, Path(".local/token_key.pem"), PROJECT / ".local" / "token_key.pem"]
    return next((path for path in candidates if path is not None and path.exists()), None)


def caller_name() -> str:
    """The name of the person at the keyboard."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"
