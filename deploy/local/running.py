"""What a supervisor keeps running: copies of services, and servers, and when each starts again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.local import processes
from deploy.local.errors import LocalError
from deploy.local.liveness import Liveness
from deploy.local.private_server import PrivateServer
from deploy.local.processes import ProcessIdentity
from deploy.local.servers import Servers
from deploy.local.services import Copy

_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.5, 5.0
_HEALTHY_AFTER_S = 20.0


@dataclass
class BackOff:
    """When an exited process may start again: after 0.5 s, then twice as long each time, at most 5 s."""

    delay_s: float = _FIRST_DELAY_S
    started_at: float = 0.0
    not_before: float = 0.0
    restarts: int = 0

    def started(self, now: float) -> None:
        """It was started."""
        self.started_at = now

    def ended(self, now: float) -> None:
        """It was seen to have ended: decide how long to wait; a long healthy run forgives earlier failures."""
        if now - self.started_at > _HEALTHY_AFTER_S:
            self.delay_s = _FIRST_DELAY_S
        self.not_before = now + self.delay_s
        self.delay_s = min(2 * self.delay_s, _LONGEST_DELAY_S)
        self.restarts += 1


@dataclass
class RunningCopy:
    """One copy of a service and what is known about its process."""

    copy: Copy
    log: Path
    child: subprocess.Popen[bytes] | None = None
    identity: ProcessIdentity | None = None
    back_off: BackOff = field(default_factory=BackOff)
    ready: bool = False
    waiting: bool = False
    liveness: Liveness = field(init=False)

    def __post_init__(self) -> None:
        self.liveness = Liveness(self.copy.port)

    def is_running(self) -> bool:
        if self.child is not None:
            self.child.poll()
        return processes.is_alive(self.identity)

    def record(self) -> dict[str, Any]:
        return {
            "name": self.copy.name,
            "service": self.copy.service,
            "replica": self.copy.replica,
            "port": self.copy.port,
            "url": self.copy.url,
            "log": str(self.log),
            "process": self.identity.as_dict() if self.identity else None,
            "restarts": self.back_off.restarts,
            "ready": self.ready,
        }


class ServerWatch:
    """Starts private servers again that ended. `say` is told of each."""

    def __init__(self, servers: Servers, say: Callable[[str], None]) -> None:
        self._servers = servers
        self._say = say
        self._back_off: dict[str, BackOff] = {}

    def begin(self, now: float) -> None:
        """Watch the servers that run now."""
        self._back_off = {server.name: BackOff(started_at=now) for server in self._servers.private}

    def look(self, now: float) -> bool:
        """Start servers again that ended and may be started; whether one was."""
        started = [server for server in self._servers.private if self._may_start(server, now)]
        for server in started:
            self._back_off[server.name].started(now)
            try:
                server.launch()
            except (LocalError, OSError) as error:
                self._say(f"{server.name} does not start: {error}")
            self._servers.save()
        return bool(started)

    def _may_start(self, server: PrivateServer, now: float) -> bool:
        back_off = self._back_off[server.name]
        if server.is_running():
            return False
        if back_off.started_at > back_off.not_before:
            back_off.ended(now)
            self._say(f"{server.name} ended; starting it again in {back_off.not_before - now:.1f} s")
        return now >= back_off.not_before
