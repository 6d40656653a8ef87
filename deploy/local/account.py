"""Which user a server runs as, and where that user can keep its files.

PostgreSQL refuses to run as root, so root hands it to another user; that user cannot enter a clone under a private
directory (mode 700), so its data then goes to a short directory of its own under `/var/tmp`, named after the clone.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from deploy.local.errors import LocalError

OUTSIDE = Path("/var/tmp")


@dataclass(frozen=True)
class Account:
    """The user that a server is handed to."""

    name: str
    user_id: int
    group_id: int


def unprivileged_account() -> Account | None:
    """The user for programs that refuse root.

    `postgres` if it exists, else `nobody`; None when we are not root.
    """
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise LocalError("PostgreSQL refuses to run as root, and neither the user postgres nor nobody exists here")


def can_use(path: Path, account: Account) -> bool:
    """Whether that user may execute this path and every directory above it."""
    existing = path.resolve()
    while not existing.exists():
        existing = existing.parent
    return all(_may_execute(part.stat(), account) for part in (existing, *existing.parents))


def _may_execute(status: os.stat_result, account: Account) -> bool:
    if status.st_uid == account.user_id:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.group_id:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def place_for(base: Path, name: str, account: Account | None) -> Path:
    """The directory for a server of this user: under `base`, or outside if the user cannot enter `base`."""
    if account is None:
        return own_directory(base / name, None)
    if can_use(base, account):
        return own_directory(base / name, account)
    digest = hashlib.sha256(str(base.resolve()).encode()).hexdigest()[:12]
    return own_directory(OUTSIDE / f"orrery-{digest}-{name}", account)


def own_directory(path: Path, account: Account | None) -> Path:
    """Make (or take over) a directory that only this user can read.

    Refuse one that somebody else has put there.
    """
    owner = os.geteuid() if account is None else account.user_id
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (owner, os.geteuid()):
        raise LocalError(f"{path} belongs to user id {status.st_uid}, not to {owner}: remove it, or give it back")
    if status.st_uid != owner and account is not None:
        os.chown(path, account.user_id, account.group_id)
    path.chmod(0o700)
    return path


def empty(path: Path) -> None:
    """Remove what is in a directory, and the directory itself."""
    shutil.rmtree(path, ignore_errors=True)
