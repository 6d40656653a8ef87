"""A private RabbitMQ, started from its own `lib` directory.

The packaged wrapper insists on the packaged user, and the packaged configuration on the standard port; so every file
and every port it uses is named here, in `RABBITMQ_*` variables. Erlang's port mapper (epmd) is ours too, on a port of
its own, as a child that ends with the server: left to itself, Erlang would start one that outlives everybody.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.local import processes
from deploy.local.account import empty, own_directory
from deploy.local.binaries import RabbitmqPrograms, search_path
from deploy.local.errors import LocalError
from deploy.local.ports import LOOPBACK, free_port, is_free
from deploy.local.private_server import PrivateServer
from deploy.local.processes import ProcessIdentity

USER = "orrery"
_AMQP_HEADER = b"AMQP\x00\x00\x09\x01"
_METHOD_FRAME = b"\x01"
_LOOPBACK_ONLY = "-kernel inet_dist_use_interface {127,0,0,1}"


class Rabbitmq(PrivateServer):
    """One node without plugins; user `orrery`, virtual host `/`."""

    name = "rabbitmq"
    start_timeout_s = 120.0
    stop_grace_s = 30.0

    def __init__(
        self,
        programs: RabbitmqPrograms,
        *,
        base: Path,
        log: Path,
        durable: bool,
        record: Mapping[str, Any] | None = None,
    ) -> None:
        record = record or {}
        super().__init__(
            directory=own_directory(base / self.name, None), log=log, durable=durable, account=None, record=record
        )
        self.programs = programs
        self.distribution_port = int(record.get("distribution_port") or 0)
        self.mapper_port = int(record.get("mapper_port") or 0)
        self.mapper = ProcessIdentity.from_dict(record.get("mapper"))
        self._mapper_child: subprocess.Popen[bytes] | None = None
        self._node = str(record.get("node") or "")

    @property
    def url(self) -> str:
        return f"amqp://{USER}:{self.password}@{LOOPBACK}:{self.port}/"

    def answers(self) -> bool:
        """Send the header of AMQP 0-9-1; a broker that is up replies with `connection.start`."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2.0) as connection:
                connection.sendall(_AMQP_HEADER)
                return connection.recv(1) == _METHOD_FRAME
        except OSError:
            return False

    def stop(self) -> None:
        """Stop the broker in good order, then the port mapper."""
        processes.terminate(self.identity, grace_s=self.stop_grace_s)
        processes.terminate(self.mapper, grace_s=5.0)
        self.is_running()
        if self._mapper_child is not None:
            self._mapper_child.poll()

    def is_running(self) -> bool:
        if self._mapper_child is not None:
            self._mapper_child.poll()
        return super().is_running()

    def control(self, *arguments: str, timeout_s: float = 60.0) -> str:
        """Run `rabbitmqctl` on this node, for operators and for faults; returns what it printed."""
        result = subprocess.run(
            [str(self.programs.directory / "rabbitmqctl"), "--node", self._node, *arguments],
            env=self._environment(),
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if result.returncode != 0:
            raise LocalError(
                f"rabbitmqctl {' '.join(arguments)} failed: {result.stderr.strip() or result.stdout.strip()}"
            )
        return result.stdout

    def record(self) -> dict[str, Any]:
        return super().record() | {
            "distribution_port": self.distribution_port,
            "mapper_port": self.mapper_port,
            "mapper": self.mapper.as_dict() if self.mapper and processes.is_alive(self.mapper) else None,
            "node": self._node,
        }

    def _prepare(self) -> None:
        taken = {self.port}
        self.distribution_port = free_port(preferred=self.distribution_port or None, taken=taken)
        if not processes.is_alive(self.mapper):
            self.mapper_port = free_port(preferred=self.mapper_port or None, taken=taken)
        # The data belongs to a node name; it carries the directory's own token, so a copied clone gets a node of its
        # own.
        self._node = self._node or f"orrery-{self.password[:12]}@localhost"
        if not (self.directory / "data" / self._node).exists():
            empty(self.directory / "data")  # of a node whose record is gone
        for name in ("home", "data", "configuration"):
            (self.directory / name).mkdir(exist_ok=True)
        cookie = self.directory / "home" / ".erlang.cookie"
        if not cookie.exists():
            cookie.touch(mode=0o600)
            cookie.write_text(secrets.token_hex(20))
            cookie.chmod(0o400)
        configuration = {
            "default_user": USER,
            "default_pass": self.password,
            "disk_free_limit.absolute": "50MB",
            "vm_memory_high_watermark.absolute": "1GB",
            "log.file.level": "warning",
            "log.console": "false",
        }
        path = self.directory / "configuration" / "rabbitmq.conf"
        path.write_text("".join(f"{key} = {value}\n" for key, value in configuration.items()))
        path.chmod(0o600)
        (self.directory / "configuration" / "enabled_plugins").write_text("[].\n")
        (self.directory / "configuration" / "environment.conf").write_text("")

    def _launch(self) -> subprocess.Popen[bytes]:
        self._launch_mapper()
        script = self.programs.directory / "rabbitmq-server"
        return processes.spawn([script], environment=self._environment(), log=self.log, directory=self.directory)

    def _launch_mapper(self) -> None:
        if processes.is_alive(self.mapper):
            return
        command: list[str | Path] = [self.programs.epmd, "-address", LOOPBACK, "-port", str(self.mapper_port)]
        self._mapper_child = processes.spawn(
            command, environment=self._environment(), log=self.log, directory=self.directory
        )
        self.mapper = processes.identify(self._mapper_child.pid)
        deadline = time.monotonic() + 10.0
        while is_free(self.mapper_port):
            if self._mapper_child.poll() is not None or time.monotonic() > deadline:
                raise LocalError(f"epmd does not listen on port {self.mapper_port}:\n{self.log_end()}")
            time.sleep(0.02)

    def _environment(self) -> dict[str, str]:
        configuration, data = self.directory / "configuration", self.directory / "data"
        return {
            "PATH": search_path(),
            "HOME": str(self.directory / "home"),
            "LANG": "C.UTF-8",
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            "ERL_EPMD_PORT": str(self.mapper_port),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            # Makes the script become the broker instead of watching it, so that the recorded pid is the broker's.
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_CONF_ENV_FILE": str(configuration / "environment.conf"),
            "RABBITMQ_CONFIG_FILE": str(configuration / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(configuration / "conf.d" / "*.conf"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(data / "generated"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(configuration / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(data),
            "RABBITMQ_MNESIA_DIR": str(data / self._node),
            "RABBITMQ_FEATURE_FLAGS_FILE": str(data / "feature_flags"),
            "RABBITMQ_PLUGINS_EXPAND_DIR": str(data / "plugins"),
            "RABBITMQ_LOG_BASE": str(self.log.parent),
            "RABBITMQ_LOGS": str(self.log.with_name("rabbitmq-node.log")),
            "RABBITMQ_PID_FILE": str(data / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _LOOPBACK_ONLY,
        }
