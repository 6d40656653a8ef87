"""Starts a Rucio server for tests: installed once into a folder of its own, on a database of its own."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
INSTALLED = ROOT / ".local" / "rucio-server"
ACCOUNT, USER, PASSWORD = "root", "tester", "not-a-secret"
INSTALL_LIMIT_S, START_LIMIT_S = 600, 60


class CannotInstall(Exception):
    """There is no Rucio server for these tests; why."""


@dataclass(frozen=True)
class RucioServer:
    """Where it listens, and what its daemons would do."""

    host: str

    def arrive(self, rule_id: str) -> None:
        """End the transfers of a rule."""
        self._get(f"/tests/arrive?{rule_id}")

    def messages(self) -> list[dict]:
        """What its daemon sends: body, destination and headers of each message."""
        return json.loads(self._get("/tests/messages"))

    def token(self) -> str:
        """One that it has just issued."""
        who = {"X-Rucio-Account": ACCOUNT, "X-Rucio-Username": USER, "X-Rucio-Password": PASSWORD}
        request = urllib.request.Request(f"{self.host}/auth/userpass", headers=who)
        with urllib.request.urlopen(request, timeout=30) as reply:
            return str(reply.headers["X-Rucio-Auth-Token"])

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.host}{path}", timeout=30) as reply:
            return reply.read()


def install() -> Path:
    """The Python that has Rucio's server. Raises CannotInstall with what the installer said."""
    python, wanted = INSTALLED / "bin" / "python", (HERE / "requirements.txt").read_text()
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = INSTALLED / "installed.txt"
        if done.exists() and done.read_text() == wanted:
            return python
        for command in (
            [sys.executable, "-m", "venv", str(INSTALLED)],
            [str(python), "-m", "pip", "install", "-q", "-r", str(HERE / "requirements.txt")],
        ):
            run = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
            if run.returncode:
                raise CannotInstall(f"{' '.join(command[1:4])}: {run.stderr.strip()[-500:]}")
        done.write_text(wanted)
    return python


@contextmanager
def running(database_url: str, folder: Path) -> Iterator[RucioServer]:
    """A server with nothing in it; it and its database are gone afterwards."""
    python, name = install(), f"rucio_{uuid.uuid4().hex[:12]}"
    asyncio.run(_make_database(database_url, name))
    try:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (folder / "rucio.cfg").write_text(_configuration(database_url, name, folder))
        with (folder / "server.log").open("w") as log:
            process = subprocess.Popen(
                [str(python), str(HERE / "application.py"), str(port)],
                env={"PATH": os.environ["PATH"], "RUCIO_CONFIG": str(folder / "rucio.cfg"), "HOME": str(folder)},
                stdout=log,
                stderr=log,
            )
        try:
            server = RucioServer(f"http://127.0.0.1:{port}")
            _wait_for(server, process, folder / "server.log")
            yield server
        finally:
            process.kill()
            process.wait()
    finally:
        asyncio.run(_drop_database(database_url, name))


def _configuration(database_url: str, name: str, folder: Path) -> str:
    address = database_url.replace("postgresql://", "postgresql+psycopg://").rpartition("/")[0]
    return f"""
[common]
logdir = {folder}
loglevel = WARNING
[database]
default = {address}/{name}
schema = dev
[bootstrap]
userpass_identity = {USER}
userpass_pwd = {PASSWORD}
userpass_email = tester@example.org
[policy]
permission = generic
schema = generic
support = none
support_rucio = none
[cache]
use_external_cache_for_replicas = false
"""


def _wait_for(server: RucioServer, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            server._get("/ping")
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Rucio does not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.1)


async def _make_database(url: str, name: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    connection = await asyncpg.connect(f"{url.rpartition('/')[0]}/{name}")
    await connection.execute("CREATE SCHEMA dev")
    await connection.close()


async def _drop_database(url: str, name: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    await connection.close()
