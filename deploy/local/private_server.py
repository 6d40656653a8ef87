"""A private server: start, wait until it answers, stop, kill, and be found again.

What differs between them is a description.
"""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local import processes
from deploy.local.account import place_for, unprivileged_account
from deploy.local.binaries import search_path
from deploy.local.errors import LocalError
from deploy.local.ports import LOOPBACK, free_port, is_free
from deploy.local.processes import ProcessIdentity

USER = "orrery"
_POLL_S = 0.05
_PORT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Description:
    """What is special about a kind of server.

    `variable` names one to use instead; `package` is what installs its programs and `find` finds them. `url`, and the
    `hello` to which a server that is ready answers with `answer`, have {port} and {password}. `prepare` writes the
    configuration and makes the data directory if there is none; `created` is called each time it has begun to answer.
    `kept` names what else a later run of the same server uses again. `stop_signal` ends it in the order that loses
    nothing. `refuses_root`: root hands it to another user.
    """

    name: str
    variable: str
    package: str
    find: Callable[[], Any]
    url: str
    hello: str
    answer: bytes
    prepare: Callable[[PrivateServer], None]
    command: Callable[[PrivateServer], Sequence[str | Path]]
    environment: Callable[[PrivateServer], Mapping[str, str]] = lambda _: {"PATH": search_path(), "LANG": "C.UTF-8"}
    created: Callable[[PrivateServer], None] = lambda _: None
    kept: tuple[str, ...] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    refuses_root: bool = False
    start_timeout_s: float = 60.0
    stop_grace_s: float = 20.0


class PrivateServer:
    """One server on a free loopback port with a password of its own.

    `place` holds its data and configuration; it lies in `base`, or outside where its user cannot enter that. `durable`
    means that what it acknowledged survives the machine; tests run without. `record` is what an earlier run of the
    same server wrote: its port, its password and what else is `kept`. `mapper`: the process by which others find it,
    for a server that needs one.
    """

    def __init__(
        self, kind: Description, programs: Any, *, base: Path, durable: bool, record: Mapping[str, Any] | None = None
    ) -> None:
        record = record or {}
        self.kind = kind
        self.name = kind.name
        self.programs = programs
        self.account = unprivileged_account() if kind.refuses_root else None
        self.place = place_for(base, kind.name, self.account)
        self.log = base / "logs" / f"{kind.name}.log"
        self.durable = durable
        self.port = int(record.get("port") or 0)
        self.password = str(record.get("password") or secrets.token_hex(16))
        self.kept: dict[str, Any] = {name: record[name] for name in kind.kept if record.get(name)}
        self.identity = ProcessIdentity.from_dict(record.get("process"))
        self.mapper = ProcessIdentity.from_dict(record.get("mapper"))
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """How a service reaches it."""
        return self.kind.url.format(port=self.port, password=self.password)

    def answers(self) -> bool:
        """Whether the server takes requests on its port now."""
        hello = self.kind.hello.format(password=self.password).encode("latin-1")
        answer = b""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2.0) as connection:
                connection.sendall(hello)
                while len(answer) < len(self.kind.answer) and (part := connection.recv(256)):
                    answer += part
        except OSError:
            return False
        return answer.startswith(self.kind.answer)

    def start(self) -> None:
        """Start and wait until it answers; does nothing if it runs. Raises LocalError with the end of its log."""
        if not self.is_running():
            self.launch()
        self.wait_until_ready()
        self.kind.created(self)

    def launch(self) -> None:
        """Start it without waiting for it to answer.

        Once started it keeps its port, because others have been told of it.
        """
        if self.identity is None:
            self.port = free_port(preferred=self.port or None)
        else:
            self._wait_for_port()
        self.kind.prepare(self)
        self.identity = self.spawn(self.kind.command(self))

    def spawn(self, command: Sequence[str | Path]) -> ProcessIdentity | None:
        """Start a process of this server."""
        environment = self.kind.environment(self)
        child = processes.spawn(
            command, environment=environment, log=self.log, directory=self.place, account=self.account
        )
        self._children.append(child)
        return processes.identify(child.pid)

    def wait_until_ready(self) -> None:
        """Wait until it answers; the end of its process or too long a time is an error."""
        deadline = time.monotonic() + self.kind.start_timeout_s
        while not self.answers():
            if not self.is_running():
                raise LocalError(f"{self.name} ended while starting:\n{self.log_end()}")
            if time.monotonic() > deadline:
                seconds = f"{self.kind.start_timeout_s:.0f} s"
                raise LocalError(f"{self.name} does not answer after {seconds}:\n{self.log_end()}")
            time.sleep(_POLL_S)

    def is_running(self) -> bool:
        """Whether its process lives; collects the remains of children that ended."""
        self._children = [child for child in self._children if child.poll() is None]
        return processes.is_alive(self.identity)

    def stop(self) -> None:
        """End it in the order that loses nothing, and everything that belongs to it."""
        processes.terminate(self.identity, grace_s=self.kind.stop_grace_s, first=self.kind.stop_signal)
        processes.terminate(self.mapper, grace_s=5.0)
        self.is_running()

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
            "directory": str(self.place),
            "log": str(self.log),
            "durable": self.durable,
            **self.kept,
            "process": self.identity.as_dict() if self.identity and self.is_running() else None,
            "mapper": self.mapper.as_dict() if self.mapper and processes.is_alive(self.mapper) else None,
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


def write_settings(path: Path, settings: Mapping[str, str], between: str = " = ") -> None:
    """Write a file of settings, one in a line, that only its owner can read."""
    path.write_text("".join(f"{key}{between}{value}\n" for key, value in settings.items()))
    path.chmod(0o600)
