"""What the three private servers share: start, wait until they answer, stop, kill, and be found again."""

from __future__ import annotations

import secrets
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.local import processes
from deploy.local.account import Account
from deploy.local.errors import LocalError
from deploy.local.ports import free_port, is_free
from deploy.local.processes import ProcessIdentity

_POLL_S = 0.05
_PORT_TIMEOUT_S = 10.0


class PrivateServer(ABC):
    """One server on a free loopback port with a password of its own.

    `directory` holds its data and configuration, `log` its output. `durable` means that what it acknowledged survives
    the machine; tests run without. `record` is what an earlier run of the same server wrote: port and password are
    kept.
    """

    name: str
    start_timeout_s = 60.0
    stop_grace_s = 20.0

    def __init__(
        self, *, directory: Path, log: Path, durable: bool, account: Account | None, record: Mapping[str, Any] | None
    ) -> None:
        record = record or {}
        self.directory = directory
        self.log = log
        self.durable = durable
        self.account = account
        self.port = int(record.get("port") or 0)
        self.password = str(record.get("password") or secrets.token_hex(16))
        self.identity = ProcessIdentity.from_dict(record.get("process"))
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def place(self) -> Path:
        """The outermost directory that is this server's alone."""
        return self.directory

    @property
    @abstractmethod
    def url(self) -> str:
        """How a service reaches it."""

    @abstractmethod
    def _prepare(self) -> None:
        """Write the configuration; make the data directory if there is none."""

    @abstractmethod
    def _launch(self) -> subprocess.Popen[bytes]:
        """Start the process."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server takes requests on its port now."""

    @abstractmethod
    def stop(self) -> None:
        """End it in the order that loses nothing, and everything that belongs to it."""

    def start(self) -> None:
        """Start and wait until it answers; does nothing if it runs. Raises LocalError with the end of its log."""
        if not self.is_running():
            self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start it without waiting for it to answer.

        Once started it keeps its port, because others have been told of it.
        """
        if self.identity is None:
            self.port = free_port(preferred=self.port or None)
        else:
            self._wait_for_port()
        self._prepare()
        self._child = self._launch()
        self.identity = processes.identify(self._child.pid)

    def wait_until_ready(self) -> None:
        """Wait until it answers; the end of its process or too long a time is an error."""
        deadline = time.monotonic() + self.start_timeout_s
        while not self.answers():
            if not self.is_running():
                raise LocalError(f"{self.name} ended while starting:\n{self.log_end()}")
            if time.monotonic() > deadline:
                raise LocalError(f"{self.name} does not answer after {self.start_timeout_s:.0f} s:\n{self.log_end()}")
            time.sleep(_POLL_S)

    def is_running(self) -> bool:
        """Whether its process lives; collects the remains of a child that ended."""
        if self._child is not None:
            self._child.poll()
        return processes.is_alive(self.identity)

    def kill9(self) -> None:
        """Kill it without warning, as a fault; nothing restarts it but a supervisor or `start`."""
        processes.kill(self.identity)
        self.is_running()

    def restart(self) -> None:
        """Stop in good order and start again on the same port with the same data."""
        self.stop()
        self.start()

    def forget_process(self) -> None:
        """Forget a process of an earlier run that has ended: the port may then change."""
        if not self.is_running():
            self.identity = None

    def record(self) -> dict[str, Any]:
        """What another process needs to find this server again, or to stop it."""
        return {
            "port": self.port,
            "password": self.password,
            "url": self.url,
            "directory": str(self.directory),
            "log": str(self.log),
            "durable": self.durable,
            "process": self.identity.as_dict() if self.identity and self.is_running() else None,
        }

    def _wait_for_port(self) -> None:
        deadline = time.monotonic() + _PORT_TIMEOUT_S
        while not is_free(self.port):
            if time.monotonic() > deadline:
                raise LocalError(f"{self.name}: another process listens on its port {self.port}")
            time.sleep(_POLL_S)

    def log_end(self, lines: int = 15) -> str:
        """The last lines of its log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:])
