"""A private PostgreSQL: loopback only, never as root.

It has no Unix sockets, because their paths may not be longer than 107 bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import stat
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

from deploy.local import processes
from deploy.local.account import can_use, empty
from deploy.local.binaries import PostgresqlPrograms, find_postgresql
from deploy.local.embedded import copy_programs
from deploy.local.errors import LocalError
from deploy.local.packages import POSTGRESQL as PACKAGE
from deploy.local.ports import LOOPBACK
from deploy.local.private_server import USER, Description, PrivateServer, write_settings

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
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
_HELLO = f"user\0{USER}\0database\0postgres\0\0"
_PROTOCOL_3 = 196_608


def data_of(server: PrivateServer) -> Path:
    """The data directory: one for each major version."""
    return server.place / f"data-{server.programs.version}"


def _prepare(server: PrivateServer) -> None:
    server.programs = _enterable(server)
    data = data_of(server)
    _end_leftover(server, data)
    if (data / "PG_VERSION").exists() and not _password_fits(server):
        empty(data)  # the record with its password is gone, so nobody can use this data any more
    if not (data / "PG_VERSION").exists():
        _initialise(server, data)
    settings = _SETTINGS | {"port": str(server.port), "dynamic_shared_memory_type": _shared_memory()}
    settings |= {"shared_buffers": f"'{buffers_mb(_memory_mb())}MB'", **_compression(server)}
    settings |= {} if server.durable else _VOLATILE
    write_settings(data / "postgresql.conf", settings)
    _give(server, data / "postgresql.conf")


def _compression(server: PrivateServer) -> dict[str, str]:
    """Settings of lz4 where the server was built with it.

    The other method, pglz, takes more of the processor than all else that a claim of a job does.
    """
    try:
        _run(server, "postgres", "-D", data_of(server), "-c", "wal_compression=lz4", "-C", "wal_compression")
    except LocalError:
        return {"wal_compression": "off"}
    return {"wal_compression": "lz4", "default_toast_compression": "lz4"}


def _initialise(server: PrivateServer, data: Path) -> None:
    empty(data)
    password = server.place / "password"
    _write(server, password, server.password + "\n")
    options = ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
    try:
        _run(server, "initdb", "--pgdata", data, "--username", USER, "--pwfile", password, *options)
    finally:
        password.unlink(missing_ok=True)
    _write(server, server.place / "password.sha256", _digest(server.password))


def _password_fits(server: PrivateServer) -> bool:
    try:
        return (server.place / "password.sha256").read_text() == _digest(server.password)
    except OSError:
        return False


def _create_database(server: PrivateServer) -> None:
    """Create our database if it is not there; asked again while the server still recovers."""
    address = ["--host", LOOPBACK, "--port", str(server.port), "--username", USER]
    deadline = time.monotonic() + POSTGRESQL.start_timeout_s
    while True:
        try:
            _run(server, "createdb", *address, "--no-password", "--maintenance-db", "postgres", DATABASE)
            return
        except LocalError as error:
            if "already exists" in str(error):
                return
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def _end_leftover(server: PrivateServer, data: Path) -> None:
    """End a server that still holds our data directory: it was ours, and its record is gone."""
    pid_file = data / "postmaster.pid"
    try:
        pid_text, directory, *_ = pid_file.read_text().splitlines()
    except (OSError, ValueError):
        return
    identity = processes.identify(int(pid_text))
    if directory != str(data) or identity is None:
        pid_file.unlink(missing_ok=True)  # copied along with the clone, or left by a server that was killed
    elif str(data) in _command_line(identity.pid):
        processes.terminate(identity, grace_s=POSTGRESQL.stop_grace_s, first=POSTGRESQL.stop_signal)
    else:
        pid_file.unlink(missing_ok=True)


def _enterable(server: PrivateServer) -> PostgresqlPrograms:
    """Copy programs that PostgreSQL's user cannot enter beside the data.

    Programs from a wheel may lie in a private directory.
    """
    programs: PostgresqlPrograms = server.programs
    if server.account is None or can_use(programs.directory, server.account):
        return programs
    copied = copy_programs(programs, server.place / f"programs-{programs.version}")
    if copied is None:
        raise LocalError(f"the user {server.account.name} cannot enter {programs.directory}, where PostgreSQL is")
    return copied


def _run(server: PrivateServer, program: str, *arguments: str | Path) -> None:
    """Run a program of PostgreSQL as its user, with the password of ours."""
    account = server.account
    user: dict[str, Any] = {}
    if account is not None:
        user = {"user": account.user_id, "group": account.group_id, "extra_groups": []}
    result = subprocess.run(
        [str(server.programs.directory / program), *map(str, arguments)],
        env=_ENVIRONMENT | {"PGPASSWORD": server.password},
        cwd=server.place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **user,
    )
    if result.returncode != 0:
        raise LocalError(f"{program} failed with {result.returncode}: {result.stderr.strip()}")


def _write(server: PrivateServer, path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)
    _give(server, path)


def _give(server: PrivateServer, path: Path) -> None:
    if server.account is not None:
        shutil.chown(path, server.account.user_id, server.account.group_id)


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


#: its superuser and its database are both called `orrery`; a fast shutdown ends sessions and writes a checkpoint
POSTGRESQL = Description(
    name="postgresql",
    variable="ORRERY_DATABASE_URL",
    package=PACKAGE,
    find=find_postgresql,
    url=f"postgresql://{USER}:{{password}}@{LOOPBACK}:{{port}}/{DATABASE}",
    # a server that starts or stops answers the protocol's first message with an error; a ready one asks who we are
    hello=struct.pack("!ii", 8 + len(_HELLO), _PROTOCOL_3).decode("latin-1") + _HELLO,
    answer=b"R",
    prepare=_prepare,
    command=lambda server: [server.programs.directory / "postgres", "-D", data_of(server)],
    environment=lambda _: _ENVIRONMENT,
    created=_create_database,
    stop_signal=signal.SIGINT,
    refuses_root=True,
)
