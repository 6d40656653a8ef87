"""A private PostgreSQL: loopback only, never as root.

It has no Unix sockets, because their paths may not be longer than 107 bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.local import processes
from deploy.local.account import Account, can_use, empty, place_for
from deploy.local.binaries import PostgresqlPrograms
from deploy.local.embedded import copy_programs
from deploy.local.errors import LocalError
from deploy.local.ports import LOOPBACK
from deploy.local.private_server import PrivateServer

USER = "orrery"
DATABASE = "orrery"

_SETTINGS = {
    "listen_addresses": f"'{LOOPBACK}'",
    "unix_socket_directories": "''",
    "max_connections": "400",
    "work_mem": "'8MB'",
    "maintenance_work_mem": "'128MB'",
    "max_wal_size": "'2GB'",
    "checkpoint_timeout": "'15min'",
    "random_page_cost": "1.1",
    "jit": "off",  # the statements are short: compiling them costs more than running them
    "max_parallel_workers_per_gather": "0",
    "autovacuum_naptime": "'10s'",
    "timezone": "'UTC'",
    "log_timezone": "'UTC'",
    "log_min_duration_statement": "'1s'",
    "log_lock_waits": "on",
}
#: of the memory of the machine, at most so much
_BUFFERS_PART, _BUFFERS_MOST_MB, _BUFFERS_LEAST_MB = 16, 1024, 128
# Commits still reach the operating system before they are acknowledged: a killed server loses nothing, a power cut may.
_VOLATILE = {"fsync": "off", "full_page_writes": "off"}
_PROTOCOL_3 = 196_608


class Postgresql(PrivateServer):
    """The database server; its superuser and its database are both called `orrery`."""

    name = "postgresql"

    def __init__(
        self,
        programs: PostgresqlPrograms,
        *,
        base: Path,
        log: Path,
        durable: bool,
        account: Account | None,
        record: Mapping[str, Any] | None = None,
    ) -> None:
        self._place = place_for(base, self.name, account)
        super().__init__(
            directory=self._place / f"data-{programs.version}", log=log, durable=durable, account=account, record=record
        )
        self.programs = self._enterable(programs)

    @property
    def place(self) -> Path:
        return self._place

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{self.password}@{LOOPBACK}:{self.port}/{DATABASE}"

    def answers(self) -> bool:
        """Send the protocol's first message and read the answer.

        A server that starts or stops answers with an error; a ready one asks who we are.
        """
        parameters = f"user\0{USER}\0database\0postgres\0\0".encode()
        message = struct.pack("!ii", 8 + len(parameters), _PROTOCOL_3) + parameters
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2.0) as connection:
                connection.sendall(message)
                return connection.recv(1) == b"R"
        except OSError:
            return False

    def start(self) -> None:
        super().start()
        self._create_database()

    def stop(self) -> None:
        """A fast shutdown: sessions are ended, a checkpoint is written."""
        processes.terminate(self.identity, grace_s=self.stop_grace_s, first=signal.SIGINT)
        self.is_running()

    def _prepare(self) -> None:
        self._end_leftover()
        if (self.directory / "PG_VERSION").exists() and not self._password_fits():
            empty(self.directory)  # the record with its password is gone, so nobody can use this data any more
        if not (self.directory / "PG_VERSION").exists():
            self._initialise()
        settings = _SETTINGS | {"port": str(self.port), "dynamic_shared_memory_type": _shared_memory()}
        settings |= {"shared_buffers": f"'{buffers_mb(_memory_mb())}MB'", **self._compression()}
        settings |= {} if self.durable else _VOLATILE
        text = "".join(f"{key} = {value}\n" for key, value in settings.items())
        self._write(self.directory / "postgresql.conf", text)

    def _compression(self) -> dict[str, str]:
        """Settings of lz4 where the server was built with it.

        The other method, pglz, takes more of the processor than all else that a claim of a job does.
        """
        postgres = self.programs.directory / "postgres"
        try:
            self._run([postgres, "-D", self.directory, "-c", "wal_compression=lz4", "-C", "wal_compression"])
        except LocalError:
            return {"wal_compression": "off"}
        return {"wal_compression": "lz4", "default_toast_compression": "lz4"}

    def _initialise(self) -> None:
        empty(self.directory)
        password = self._place / "password"
        self._write(password, self.password + "\n")
        command = [self.programs.directory / "initdb", "--pgdata", self.directory, "--username", USER]
        command += ["--pwfile", password, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        try:
            self._run(command)
        finally:
            password.unlink(missing_ok=True)
        self._write(self._place / "password.sha256", _digest(self.password))

    def _password_fits(self) -> bool:
        try:
            return (self._place / "password.sha256").read_text() == _digest(self.password)
        except OSError:
            return False

    def _launch(self) -> subprocess.Popen[bytes]:
        return processes.spawn(
            [self.programs.directory / "postgres", "-D", self.directory],
            environment=_environment(),
            log=self.log,
            directory=self._place,
            account=self.account,
        )

    def _create_database(self) -> None:
        """Create our database if it is not there; asked again while the server still recovers."""
        command = [
            self.programs.directory / "createdb",
            "--host",
            LOOPBACK,
            "--port",
            str(self.port),
            "--username",
            USER,
        ]
        deadline = time.monotonic() + self.start_timeout_s
        while True:
            try:
                self._run([*command, "--no-password", "--maintenance-db", "postgres", DATABASE], password=self.password)
                return
            except LocalError as error:
                if "already exists" in str(error):
                    return
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def _end_leftover(self) -> None:
        """A server that still holds our data directory was ours: its record is gone, so it is ended here."""
        pid_file = self.directory / "postmaster.pid"
        try:
            pid_text, directory, *_ = pid_file.read_text().splitlines()
        except (OSError, ValueError):
            return
        identity = processes.identify(int(pid_text))
        if directory != str(self.directory) or identity is None:
            pid_file.unlink(missing_ok=True)  # copied along with the clone, or left by a server that was killed
        elif str(self.directory) in _command_line(identity.pid):
            processes.terminate(identity, grace_s=self.stop_grace_s, first=signal.SIGINT)
        else:
            pid_file.unlink(missing_ok=True)

    def _enterable(self, programs: PostgresqlPrograms) -> PostgresqlPrograms:
        """Copy programs that PostgreSQL's user cannot enter beside the data.

        Programs from a wheel may lie in a private directory.
        """
        if self.account is None or can_use(programs.directory, self.account):
            return programs
        copied = copy_programs(programs, self._place / f"programs-{programs.version}")
        if copied is None:
            raise LocalError(f"the user {self.account.name} cannot enter {programs.directory}, where PostgreSQL is")
        return copied

    def _run(self, command: list[Any], *, password: str | None = None) -> None:
        user = {} if self.account is None else {"user": self.account.user_id, "group": self.account.group_id}
        result = subprocess.run(  # type: ignore[call-overload]
            [str(part) for part in command],
            env=_environment() | ({"PGPASSWORD": password} if password else {}),
            cwd=self._place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **user | ({"extra_groups": []} if user else {}),
        )
        if result.returncode != 0:
            raise LocalError(f"{Path(command[0]).name} failed with {result.returncode}: {result.stderr.strip()}")

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o600)
        if self.account is not None:
            shutil.chown(path, self.account.user_id, self.account.group_id)


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def buffers_mb(memory_mb: int) -> int:
    """Shared buffers for a machine that others use as well.

    A sixteenth of its memory, between 128 MB and 1 GB. Example: 512 MB of 8 GB, 1 GB of 24 GB.
    """
    return max(_BUFFERS_LEAST_MB, min(_BUFFERS_MOST_MB, memory_mb // _BUFFERS_PART))


def _memory_mb() -> int:
    """Memory of the machine, or of the container that we are in if that is less."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no limit, or none that is said here
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return memory // 2**20


def _shared_memory() -> str:
    """A bare container may have no `/dev/shm` that everybody can write to; files in the data directory do as well."""
    try:
        return "posix" if Path("/dev/shm").stat().st_mode & stat.S_IWOTH else "mmap"
    except OSError:
        return "mmap"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
