"""Installing servers that are missing, from Debian packages, without letting the packages start them.

A package's script starts its service on the standard port unless `/usr/sbin/policy-rc.d` forbids it. Ours forbids it
for the time of the installation; one that was there before is put aside and put back, also when the installation
fails or is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence

from deploy.local.errors import LocalError, MissingServer

POSTGRESQL, RABBITMQ, REDIS = "postgresql", "rabbitmq-server", "redis-server"

_SCRIPT = r"""
set -eu
exec 9>/run/lock/orrery-packages.lock
if command -v flock >/dev/null 2>&1; then flock 9; fi
policy=/usr/sbin/policy-rc.d
saved=$policy.put-aside-by-orrery
restore() {
    if [ -e "$policy" ] && grep -q 'written by orrery' "$policy"; then rm -f "$policy"; fi
    if [ -e "$saved" ] || [ -L "$saved" ]; then mv -f "$saved" "$policy"; fi
}
restore   # after an installation that was killed
trap restore EXIT
trap 'exit 1' HUP INT TERM
if [ -e "$policy" ] || [ -L "$policy" ]; then mv "$policy" "$saved"; fi
printf '#!/bin/sh\n# written by orrery for the time of an installation\nexit 101\n' > "$policy"
chmod 755 "$policy"
export DEBIAN_FRONTEND=noninteractive
apt-get -q -o DPkg::Lock::Timeout=300 update || echo 'apt-get update failed: trying with the lists that are here' >&2
apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends install "$@"
"""


def can_install() -> bool:
    """Whether this user may install Debian packages: apt-get exists, and root or sudo needs no password."""
    return shutil.which("apt-get") is not None and privileged_prefix() is not None


def privileged_prefix() -> list[str] | None:
    """What to put before a command that only root may run; None if there is no way."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    trial = subprocess.run(["sudo", "-n", "true"], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return ["sudo", "-n"] if trial.returncode == 0 else None


def install(names: Sequence[str], say: Callable[[str], None]) -> None:
    """Install these packages; their services are neither started nor stopped.

    Raises MissingServer or LocalError.
    """
    prefix = privileged_prefix()
    if prefix is None or shutil.which("apt-get") is None:
        raise MissingServer(
            f"not on this machine: {', '.join(names)}; installing needs apt-get and root (or sudo without a password)"
        )
    say(f"installing Debian packages: {' '.join(names)} (their services are not started)")
    result = subprocess.run(
        [*prefix, "sh", "-c", _SCRIPT, "orrery-packages", *names],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode != 0:
        end = "\n".join(result.stdout.splitlines()[-20:])
        raise LocalError(f"installing {', '.join(names)} failed with {result.returncode}:\n{end}")
