"""Faults for tests: what is killed or restarted once, when a given part of the work is done.

`kill:job-dispatch`, `kill:rabbitmq@0.5`, `restart:postgresql`: an action, what it hits, and the fraction of files done
at which it strikes (0.3 if not said). Whatever ends is started again by the supervisor, not by us.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from services.cli import addresses
from services.cli.failures import WrongUsage

SERVERS = ("postgresql", "rabbitmq", "redis")
SERVICES = tuple(name.replace("_", "-") for name in addresses.SERVICES)
EVERY_SERVICE = "services"
DEFAULT_FRACTION = 0.3


@dataclass(frozen=True)
class InjectedFault:
    """One fault: `kill` gives no warning (SIGKILL), `restart` ends a server in good order."""

    action: str
    target: str
    at_fraction: float = DEFAULT_FRACTION

    def __str__(self) -> str:
        return f"{self.action} {self.target} when {self.at_fraction:.0%} of the files are done"


def parse_fault(text: str) -> InjectedFault:
    """Raises WrongUsage naming what is allowed."""
    match = re.fullmatch(r"(kill|restart):([a-z-]+)(?:@(0?\.\d+|0|1))?", text)
    targets = (*SERVERS, *SERVICES, EVERY_SERVICE)
    if match is None or match[2] not in targets:
        allowed = f"kill or restart, ':', one of {', '.join(targets)}, and perhaps '@' and a fraction"
        raise WrongUsage(f"--fault: value {text!r}: must be {allowed}")
    return InjectedFault(match[1], match[2], float(match[3]) if match[3] else DEFAULT_FRACTION)


class FaultInjector:
    """Strikes with each fault once; `system` is a `deploy.local.system.LocalSystem`."""

    def __init__(self, faults: Sequence[InjectedFault], system: Any, say: Callable[[str], None]) -> None:
        self._waiting = list(faults)
        self._system = system
        self._say = say

    @property
    def all_struck(self) -> bool:
        """Whether every fault has happened: a demonstration that ended before is no proof."""
        return not self._waiting

    def look(self, fraction_done: float) -> None:
        """Strike with whatever is due."""
        due = [fault for fault in self._waiting if fraction_done >= fault.at_fraction]
        for fault in due:
            self._waiting.remove(fault)
            self._say(f"fault: {fault.action} {fault.target} ({fraction_done:.0%} of the files are done)")
            self._strike(fault)

    def _strike(self, fault: InjectedFault) -> None:
        if fault.target in SERVERS:
            server = getattr(self._system.servers(), fault.target)
            if server is None:
                raise WrongUsage(f"--fault: {fault.target} is not a private server of this system")
            # a stop, not a restart: the supervisor sees that it ended and starts it, as it would in earnest
            _ = server.kill9() if fault.action == "kill" else server.stop()
            return
        for service in SERVICES if fault.target == EVERY_SERVICE else (fault.target,):
            self._system.kill9(service)
