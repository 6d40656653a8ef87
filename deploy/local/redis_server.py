"""A private Redis (or Valkey).

It is a cache only: nothing is written to disk, and old values make room for new ones.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.local import processes
from deploy.local.account import own_directory
from deploy.local.binaries import RedisProgram, search_path
from deploy.local.ports import LOOPBACK
from deploy.local.private_server import PrivateServer


class Redis(PrivateServer):
    """The cache server."""

    name = "redis"
    stop_grace_s = 10.0

    def __init__(
        self, program: RedisProgram, *, base: Path, log: Path, durable: bool, record: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(
            directory=own_directory(base / self.name, None), log=log, durable=durable, account=None, record=record
        )
        self.program = program

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"

    def answers(self) -> bool:
        """Ask who is there; with the right password the answer is PONG."""
        request = f"AUTH {self.password}\r\nPING\r\n".encode()
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2.0) as connection:
                connection.sendall(request)
                answer = b""
                while answer.count(b"\r\n") < 2:
                    part = connection.recv(256)
                    if not part:
                        return False
                    answer += part
                return answer.endswith(b"+PONG\r\n")
        except OSError:
            return False

    def stop(self) -> None:
        """There is nothing to save."""
        processes.terminate(self.identity, grace_s=self.stop_grace_s)
        self.is_running()

    def _prepare(self) -> None:
        settings = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "requirepass": f'"{self.password}"',
            "dir": f'"{self.directory}"',
            "daemonize": "no",
            "save": '""',
            "appendonly": "no",
            "maxmemory": "256mb",
            "maxmemory-policy": "allkeys-lru",
        }
        path = self.directory / "redis.conf"
        path.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        path.chmod(0o600)

    def _launch(self) -> subprocess.Popen[bytes]:
        command = [self.program.program, self.directory / "redis.conf"]
        environment = {"PATH": search_path(), "LANG": "C.UTF-8"}
        return processes.spawn(command, environment=environment, log=self.log, directory=self.directory)
