"""Processes that we started: which they are, whether they live, and how they end.

A pid alone is not an identity, because the kernel hands it out again; pid, start time and boot together are one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deploy.local.account import Account

_POLL_S = 0.02
_LONGEST_LOG_BYTES = 50_000_000


@dataclass(frozen=True)
class ProcessIdentity:
    """One run of one process; `started_ticks` counts the kernel's clock ticks from boot to its start."""

    pid: int
    started_ticks: int
    boot_id: str

    def as_dict(self) -> dict[str, Any]:
        """The form in which records keep it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any] | None) -> ProcessIdentity | None:
        """Read it back from a record; None when the record has none."""
        if not record:
            return None
        return cls(int(record["pid"]), int(record["started_ticks"]), str(record["boot_id"]))


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the process that has this pid now; None if there is none or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()  # the command's name before it may hold spaces and brackets
    if state in ("Z", "X"):
        return None
    return ProcessIdentity(pid, int(rest[18]), _boot_id())


def is_alive(identity: ProcessIdentity | None) -> bool:
    """Whether exactly this process still runs (not another one that was given its pid)."""
    return identity is not None and identify(identity.pid) == identity


def spawn(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    log: Path,
    directory: Path,
    account: Account | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own and append its output to `log`.

    Its own session lets us handle a Ctrl-C in the terminal.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _LONGEST_LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))
    user = {} if account is None else {"user": account.user_id, "group": account.group_id, "extra_groups": []}
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(part) for part in command],
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **user,  # type: ignore[call-overload]
        )


def terminate(identity: ProcessIdentity | None, *, grace_s: float, first: signal.Signals = signal.SIGTERM) -> None:
    """Ask a process to end, wait for it, and kill its whole group if it does not; returns when it is gone."""
    if identity is None or not is_alive(identity):
        return
    _send(identity, first)
    if not wait_until_gone(identity, timeout_s=grace_s):
        kill(identity)


def kill(identity: ProcessIdentity | None) -> None:
    """Kill a process and its group without warning; returns when the process is gone."""
    if identity is None or not is_alive(identity):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(identity.pid) == identity.pid:
            os.killpg(identity.pid, signal.SIGKILL)
    _send(identity, signal.SIGKILL)
    wait_until_gone(identity, timeout_s=10.0)


def wait_until_gone(identity: ProcessIdentity, *, timeout_s: float) -> bool:
    """Wait for the end of a process that may or may not be our child; False if it outlives `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while is_alive(identity):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _send(identity: ProcessIdentity, number: signal.Signals) -> None:
    if is_alive(identity):
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.pid, number)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
