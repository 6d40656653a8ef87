"""How many copies of a service there are to be: a file that `scale` writes and the supervisor follows."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.local import processes, services
from deploy.local.errors import LocalError
from deploy.local.ports import free_port
from deploy.local.records import read_record, write_record
from deploy.local.running import RunningCopy
from deploy.local.services import Copy
from deploy.local.system import LocalSystem

WANTED = "scale.json"
SCALE_TIMEOUT_S = 120.0
#: a copy is ended so long after it is taken from the record, which the gateway reads every second
LEAVES_AFTER_S = 2.5
_GRACE_S, _POLL_S = 20.0, 0.2


@dataclass
class _Leaving:
    running: RunningCopy
    ends_at: float
    is_told: bool = False


@dataclass
class Scaling:
    """Adds copies to those of the supervisor and takes them away, as the file says."""

    directory: Path
    _seen_at: int = 0
    _leaving: list[_Leaving] = field(default_factory=list)

    def begin(self) -> None:
        """What was wanted of an earlier run is no more."""
        (self.directory / WANTED).unlink(missing_ok=True)

    def follow(self, copies: list[RunningCopy], taken: set[int], now: float) -> list[str]:
        """Change `copies` to what is wanted; what was changed, in words."""
        self._end_leaving(now)
        try:
            changed_at = (self.directory / WANTED).stat().st_mtime_ns
        except OSError:
            return []
        if changed_at == self._seen_at:
            return []
        self._seen_at, said = changed_at, list[str]()
        for service, n in read_record(self.directory / WANTED, self.directory).get("copies", {}).items():
            there = [one for one in copies if one.copy.service == service]
            if not there or len(there) == n:
                continue
            said.append(f"{service}: {len(there)} -> {n} copies")
            known = {one.copy.replica for one in there}
            for replica in (replica for replica in range(n) if replica not in known):
                copy = Copy(service, replica, free_port(preferred=None, taken=taken))
                taken.add(copy.port)
                copies.append(RunningCopy(copy, self.directory / "logs" / f"{copy.name}.log"))
            for running in (one for one in there if one.copy.replica >= n):
                copies.remove(running)
                self._leaving.append(_Leaving(running, now + LEAVES_AFTER_S))
        return said

    def leaving(self) -> list[RunningCopy]:
        """Copies that are on their way out."""
        return [one.running for one in self._leaving]

    def _end_leaving(self, now: float) -> None:
        for one in list(self._leaving):
            if not one.running.is_running():
                self._leaving.remove(one)
            elif now >= one.ends_at + _GRACE_S:
                processes.kill(one.running.identity)
            elif now >= one.ends_at and not one.is_told and one.running.child is not None:
                one.is_told = True
                one.running.child.terminate()


def scale(system: LocalSystem, wanted: dict[str, int]) -> list[str]:
    """Have so many copies of these services, and wait until they are ready; what changed, in words.

    Raises LocalError.
    """
    if not system.is_running():
        raise LocalError("nothing runs here: `make up` starts the system, with REPLICAS=N copies of each service")
    if system.one_process:
        raise LocalError("the system is embedded: one process has all services, and cannot have copies")
    for service in wanted:
        if service not in services.SERVICES:
            raise LocalError(f"{service!r} is not a service: allowed are {', '.join(services.SERVICES)}")
    before = {service: len(_copies_of(system, service)) for service in wanted}
    known = read_record(system.directory / WANTED, system.directory).get("copies", {})
    write_record(system.directory / WANTED, system.directory, {"copies": known | wanted})
    gone = {
        one["name"]: processes.ProcessIdentity.from_dict(one["process"])
        for service, n in wanted.items()
        for one in _copies_of(system, service)
        if one["replica"] >= n
    }
    deadline = time.monotonic() + SCALE_TIMEOUT_S
    while lacking := [service for service, n in wanted.items() if not _has(system, service, n)] or [
        name for name, identity in gone.items() if processes.is_alive(identity)
    ]:
        if time.monotonic() > deadline:
            raise LocalError(
                f"{', '.join(lacking)}: not ready after {SCALE_TIMEOUT_S:.0f} s; see {system.directory}/logs"
            )
        time.sleep(_POLL_S)
    return [
        f"{service}: {before[service]} -> {n} copies" if before[service] != n else f"{service}: {n} copies, as before"
        for service, n in wanted.items()
    ]


def _copies_of(system: LocalSystem, service: str) -> list[dict[str, Any]]:
    return [one for one in system.record.get("processes", []) if one["service"] == service]


def _has(system: LocalSystem, service: str, n: int) -> bool:
    there = _copies_of(system, service)
    return len(there) == n and all(one["process"] and services.is_ready(one["url"]) for one in there)
