"""Starts and stops the whole system, for the command line, the demonstration and the tests of faults.

with running_system(directory, replicas=2) as system:
    system.urls["job-dispatch"]; system.kill9("job-dispatch"); system.servers().rabbitmq.kill9()
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from deploy.local import processes, servers, services
from deploy.local.errors import LocalError
from deploy.local.processes import ProcessIdentity
from deploy.local.records import read_record
from deploy.local.services import RECORD

_POLL_S = 0.1
START_TIMEOUT_S = 600.0  # a first start may install packages
STOP_TIMEOUT_S = 90.0


class LocalSystem:
    """What runs in one directory, as `run.json` has it. Reading it again is cheap; every property does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()

    @property
    def record(self) -> dict[str, Any]:
        """The whole of `run.json`; empty if nothing was ever started here."""
        return read_record(self.directory / RECORD, self.directory)

    @property
    def state(self) -> str:
        """starting, ready, stopping, stopped, failed; `dead` if its supervisor was killed."""
        record = self.record
        state = str(record.get("state", "stopped"))
        return state if state in ("stopped", "failed") or self.is_running() else "dead"

    @property
    def urls(self) -> dict[str, list[str]]:
        """For each service the addresses of its copies."""
        return dict(self.record.get("urls", {}))

    @property
    def gateway(self) -> str | None:
        """The address that answers every path of every service: the one that pilots and clients need."""
        url: str | None = self.record.get("gateway")
        return url

    @property
    def one_process(self) -> bool:
        """Whether all services share one process, without RabbitMQ and Redis (embedded)."""
        return self.record.get("mode") == "one-process"

    @property
    def supervisor(self) -> ProcessIdentity | None:
        return ProcessIdentity.from_dict(self.record.get("supervisor"))

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a program that talks to this system's servers or issues tokens for it."""
        record = self.record
        return dict(record.get("servers", {})) | {"ORRERY_TOKEN_KEY_FILE": str(record.get("token_key_file", ""))}

    def is_running(self) -> bool:
        """Whether its supervisor lives."""
        return processes.is_alive(self.supervisor)

    def process(self, service: str, replica: int = 0) -> ProcessIdentity | None:
        """The process of one copy of a service; None while it is down."""
        name = services.ONE_PROCESS if self.one_process else service
        for entry in self.record.get("processes", []):
            if entry["service"] == name and entry["replica"] == replica:
                identity = ProcessIdentity.from_dict(entry["process"])
                return identity if processes.is_alive(identity) else None
        raise LocalError(f"no copy {replica} of service {service!r}; there are: {', '.join(self.urls) or 'none'}")

    def kill9(self, service: str, replica: int = 0) -> ProcessIdentity | None:
        """Kill one copy of a service without warning, as a fault; the supervisor starts it again.

        What was killed.
        """
        identity = self.process(service, replica)
        processes.kill(identity)
        return identity

    def servers(self) -> servers.Servers:
        """Its private servers, to kill or restart as a fault."""
        return servers.attach(self.directory)

    def wait_until_ready(self, timeout_s: float = 120.0) -> None:
        """Wait until every copy says that it is ready.

        Raises LocalError with the reason if that cannot happen.
        """
        deadline = time.monotonic() + timeout_s
        while self.state != "ready" or not all(services.is_ready(url) for url in self._all_urls()):
            if self.state in ("failed", "stopped", "dead"):
                raise LocalError(self.record.get("problem") or f"the system is {self.state}; see {self.directory}/logs")
            if time.monotonic() > deadline:
                slow = [
                    f"{service} at {url}: {services.why_not_ready(url)}"
                    for service, copies in self.urls.items()
                    for url in copies
                    if not services.is_ready(url)
                ]
                raise LocalError(
                    f"not ready after {timeout_s:.0f} s: {'; '.join(slow) or 'no service has been started'}"
                )
            time.sleep(_POLL_S)

    def stop(self) -> list[str]:
        """Stop all that was started here, and nothing else; also what a killed supervisor left.

        The names of leftovers.
        """
        supervisor = self.supervisor
        if processes.is_alive(supervisor):
            processes.terminate(supervisor, grace_s=STOP_TIMEOUT_S)
        left = []
        record = self.record
        for entry in (*record.get("processes", []), *record.get("leaving", [])):
            identity = ProcessIdentity.from_dict(entry["process"])
            if processes.is_alive(identity):
                processes.terminate(identity, grace_s=10.0)
                left.append(entry["name"])
        return left + servers.stop_servers(self.directory)

    def _all_urls(self) -> list[str]:
        return [url for copies in self.urls.values() for url in copies]


def start_system(
    directory: Path,
    *,
    replicas: int = 1,
    embedded: bool = False,
    durable: bool = True,
    private_servers: bool = False,
    owner_pid: int | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> LocalSystem:
    """Start servers and services in the background and wait until all are ready; does nothing if they run.

    `private_servers` ignores servers named by the environment. The system ends when the process `owner_pid` ends.
    Raises LocalError with the reason if something does not start, after stopping the rest.
    """
    system = LocalSystem(directory)
    if system.is_running():
        system.wait_until_ready()
        return system
    system.stop()  # what a killed supervisor left
    system.directory.mkdir(parents=True, exist_ok=True)
    log = system.directory / "logs" / "supervisor.log"
    log.parent.mkdir(exist_ok=True)
    shown = log.stat().st_size if log.exists() else 0
    command = [sys.executable, "-m", "deploy.local", "supervise", "--directory", str(system.directory)]
    command += ["--replicas", str(replicas)]
    command += ["--embedded"] * embedded + ["--volatile"] * (not durable)
    command += ["--owner-pid", str(owner_pid)] if owner_pid else []
    environment = services.with_private_servers(os.environ) if private_servers else dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(services.PROJECT), environment.get("PYTHONPATH"))))
    child = processes.spawn(command, environment=environment, log=log, directory=services.PROJECT)
    try:
        _follow_start(system, child, log, shown, say)
    except BaseException:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it ends by itself once an installation under way is done
            child.wait(timeout=STOP_TIMEOUT_S)
        raise
    return system


@contextlib.contextmanager
def running_system(directory: Path, **options: Any) -> Iterator[LocalSystem]:
    """A system for the length of a block (options of `start_system`).

    It also ends if this process is killed.
    """
    system = start_system(directory, owner_pid=os.getpid(), **options)
    try:
        yield system
    finally:
        system.stop()


def _follow_start(
    system: LocalSystem, child: subprocess.Popen[bytes], log: Path, shown: int, say: Callable[[str], None]
) -> None:
    """Pass on what the supervisor says until the system is ready; its end before that is an error."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        ended = child.poll() is not None
        with log.open("rb") as file:
            file.seek(shown)
            new = file.read()
        complete = new[: new.rfind(b"\n") + 1]
        shown += len(complete)
        for line in complete.decode(errors="replace").splitlines():
            say(line)
        own = system.supervisor is not None and system.supervisor.pid == child.pid
        if ended:
            problem = system.record.get("problem") if own else None
            raise LocalError(problem or f"the supervisor ended with {child.returncode}; see {log}")
        if own and system.record.get("state") == "ready":
            return
        if time.monotonic() > deadline:
            raise LocalError(f"not ready after {START_TIMEOUT_S:.0f} s; see {system.directory}/logs")
        time.sleep(_POLL_S)
