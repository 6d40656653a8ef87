"""Keeps a local system running: servers, schema and services; starts again whatever exits.

A service exits on purpose when RabbitMQ is gone, so exits are ordinary: each is answered with a new start after a
back-off that grows from half a second to five and starts anew once the copy has run for a while. A copy that runs but
does not answer `/livez` any more (it was stopped, its event loop hangs) is ended, and so started again. While a private
server is down, services are not started at all. `run.json` tells everybody else what runs where.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from deploy.local import processes, services
from deploy.local.errors import LocalError
from deploy.local.ports import free_port, is_free
from deploy.local.preparing import prepare
from deploy.local.processes import ProcessIdentity
from deploy.local.records import read_record, write_record
from deploy.local.running import RunningCopy, ServerWatch
from deploy.local.scaling import Scaling
from deploy.local.scraping import TARGETS, write_targets
from deploy.local.servers import Servers
from deploy.local.services import RECORD, Copy

FORMAT = "orrery-run/1"
_TICK_S = 0.2
_STOP_GRACE_S = 20.0
_STARTS_BEFORE_GIVING_UP = 6


class Supervisor:
    """Runs until it is told to stop (SIGTERM, SIGINT), or until its owner is gone."""

    def __init__(
        self,
        directory: Path,
        *,
        replicas: int,
        embedded: bool,
        durable: bool,
        owner: ProcessIdentity | None,
        say: Callable[[str], None],
    ) -> None:
        self.directory = directory.resolve()
        self.replicas = replicas
        self.owner = owner
        self._say = say
        self.servers = Servers(self.directory, durable=durable, embedded=embedded, say=say)
        self._server_watch = ServerWatch(self.servers, say)
        self._scaling = Scaling(self.directory)
        self.copies: list[RunningCopy] = []
        self.state = "starting"
        self.problem: str | None = None
        self._stop_wanted = False
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")

    def run(self) -> int:
        """Start everything, watch it, stop it; the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        try:
            self._start()
            while not self._must_stop():
                self._tick()
                time.sleep(_TICK_S)
        except LocalError as error:
            self.problem = str(error)
            self._say(f"failed: {error}")
        finally:
            self._stop_everything()
        return 0 if self.problem is None else 1

    def _on_stop(self, number: int, frame: object) -> None:
        self._stop_wanted = True

    def _must_stop(self) -> bool:
        if self.owner is not None and not processes.is_alive(self.owner):
            self._say("the process that wanted this system has ended")
            return True
        return self._stop_wanted

    def _start(self) -> None:
        before = read_record(self.directory / RECORD, self.directory)
        self._scaling.begin()
        self._save()
        self.servers.start(with_database=self._prepare)
        if self.servers.embedded:
            self._say("EMBEDDED: all services in one process, over the in-process transport; no RabbitMQ, no Redis")
        self._server_watch.begin(time.monotonic())
        if self._must_stop():
            return
        ports = {entry["name"]: int(entry["port"]) for entry in before.get("processes", [])}
        taken = {server.port for server in self.servers.private}
        for service, replica in services.planned(replicas=self.replicas, embedded=self.servers.embedded):
            port = _port_of_gateway() if service == services.GATEWAY else None
            port = port or free_port(preferred=ports.get(f"{service}-{replica}"), taken=taken)
            copy = Copy(service, replica, port)
            self.copies.append(RunningCopy(copy, self.directory / "logs" / f"{copy.name}.log"))
        self._say(
            f"starting {len(self.copies)} processes: " + ", ".join(dict.fromkeys(c.copy.service for c in self.copies))
        )
        self._save()

    def _prepare(self) -> None:
        if not self._must_stop():
            prepare(self.directory, self.servers.addresses, self._say)

    def _tick(self) -> None:
        """Look at every process once; start again what ended and may be started."""
        now = time.monotonic()
        changed = self._server_watch.look(now) | self._scaled(now)
        may_start = self._servers_answer() if any(not running.is_running() for running in self.copies) else False
        for running in self.copies:
            changed |= self._watch_copy(running, now, may_start)
        if self.state == "starting" and self.copies and all(running.ready for running in self.copies):
            self.state, changed = "ready", True
            self._say("ready")
        if changed:
            self._save()

    def _scaled(self, now: float) -> bool:
        """Have as many copies as `scale` wants; whether that changed some."""
        ports = {server.port for server in self.servers.private} | {one.copy.port for one in self.copies}
        said = self._scaling.follow(self.copies, ports, now)
        for one in said:
            self._say(one)
        return bool(said)

    def _servers_answer(self) -> bool:
        """Whether it makes sense to start a service: asked once for all that wait."""
        return all(server.is_running() and server.answers() for server in self.servers.private)

    def _watch_copy(self, running: RunningCopy, now: float, may_start: bool) -> bool:
        if running.is_running() and not self._end_if_silent(running, now):
            if running.ready or not services.is_ready(running.copy.url):
                return False
            running.ready = True
            return True
        if running.identity is not None and not running.waiting:
            self._note_end(running, now)
        if now < running.back_off.not_before or not may_start:
            return False
        self._launch(running, now)
        return True

    def _end_if_silent(self, running: RunningCopy, now: float) -> bool:
        """Kill a copy that runs but has not answered `/livez` for too long; whether it was killed.

        A process that was stopped holds messages and leases that others wait for: its end gives them back.
        """
        running.liveness.look(now)
        if not running.liveness.is_silent(now):
            return False
        silent_s = running.liveness.silent_s(now)
        self._say(f"{running.copy.name} has not answered /livez for {silent_s:.0f} s: it is ended and started again")
        processes.kill(running.identity)
        return True

    def _note_end(self, running: RunningCopy, now: float) -> None:
        running.waiting, running.ready = True, False
        running.back_off.ended(now)
        code = running.child.returncode if running.child else None
        wait_s = running.back_off.not_before - now
        self._say(f"{running.copy.name} ended with {code}; starting it again in {wait_s:.1f} s")
        if self.state == "starting" and running.back_off.restarts >= _STARTS_BEFORE_GIVING_UP:
            raise LocalError(f"{running.copy.name} does not start; see {running.log}:\n{_end_of(running.log)}")

    def _launch(self, running: RunningCopy, now: float) -> None:
        running.child = processes.spawn(
            running.copy.command(),
            environment=services.environment_of(running.copy, self.servers.addresses, self.directory, self._gateway()),
            log=running.log,
            directory=services.PROJECT,
        )
        running.identity = processes.identify(running.child.pid)
        running.waiting = False
        running.liveness.started()
        running.back_off.started(now)

    def _stop_everything(self) -> None:
        """Services first, all at once and in good order; then the servers under them."""
        self.state = "stopping" if self.problem is None else "failed"
        self._say("stopping")
        self._save()
        every = [*self.copies, *self._scaling.leaving()]
        alive = [running for running in every if running.is_running() and running.child is not None]
        for running in alive:
            running.child.terminate()  # type: ignore[union-attr]
        deadline = time.monotonic() + _STOP_GRACE_S
        while time.monotonic() < deadline and any(running.is_running() for running in alive):
            time.sleep(0.05)
        for running in alive:
            processes.kill(running.identity)
        for running in self.copies:
            running.identity, running.ready = None, False
        self.servers.stop()
        self.state = "stopped" if self.problem is None else "failed"
        self._save()
        self._say("stopped")

    def _gateway(self) -> str | None:
        """The address that answers every path of every service."""
        return next((one.copy.url for one in self.copies if one.copy.answers_every_path), None)

    def _save(self) -> None:
        started = bool(self.copies)
        urls: dict[str, list[str]] = {}
        for running in self.copies if self.state in ("starting", "ready") else ():
            for service in running.copy.serves:
                urls.setdefault(service, []).append(running.copy.url)
        record = {
            "format": FORMAT,
            "state": self.state,
            "problem": self.problem,
            "mode": "one-process" if self.servers.embedded else "services",
            "replicas": self.replicas,
            "started_at": self._started_at,
            "supervisor": _own_identity().as_dict(),
            "servers": self.servers.addresses.environment() if started else {},
            "token_key_file": str(self.directory / services.TOKEN_KEY),
            "secrets_key_file": str(self.directory / services.SECRETS_KEYS),
            "urls": urls,
            "gateway": self._gateway(),
            "processes": [running.record() for running in self.copies],
            "leaving": [running.record() for running in self._scaling.leaving()],
        }
        write_record(self.directory / RECORD, self.directory, record)
        write_targets(self.directory / TARGETS, [one.copy for one in self.copies])


def _port_of_gateway() -> int | None:
    """The one that is asked for, if it is free. Raises LocalError."""
    services.gateway_host()
    port = services.gateway_port()
    if port is not None and not is_free(port):
        raise LocalError(f"{services.GATEWAY_PORT}={port}: another program has this port")
    return port


def _own_identity() -> ProcessIdentity:
    identity = processes.identify(os.getpid())
    if identity is None:
        raise LocalError("this machine has no /proc: processes cannot be told apart")
    return identity


def _end_of(log: Path, lines: int = 15) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"
