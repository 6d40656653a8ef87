"""Where the servers' programs are on this machine.

Debian keeps PostgreSQL's server programs out of PATH, and RabbitMQ's behind a wrapper that insists on its own user;
both are looked for where the packages put them, the newest version first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

OLDEST_POSTGRESQL = 15
_EXTRA_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class PostgresqlPrograms:
    """The directory with `initdb`, `postgres` and `createdb`; `embedded` if it comes from a wheel."""

    directory: Path
    version: int
    embedded: bool = False


@dataclass(frozen=True)
class RabbitmqPrograms:
    """The `sbin` directory inside RabbitMQ's own `lib` directory, and Erlang's port mapper."""

    directory: Path
    epmd: Path


@dataclass(frozen=True)
class RedisProgram:
    """The Redis (or Valkey) server."""

    program: Path


def search_path() -> str:
    """PATH, with the directories of system programs that an ordinary user's PATH may lack."""
    return os.pathsep.join(part for part in (os.environ.get("PATH", ""), _EXTRA_PATH) if part)


def which(name: str) -> Path | None:
    """A program on the search path."""
    found = shutil.which(name, path=search_path())
    return Path(found) if found else None


def find_postgresql() -> PostgresqlPrograms | None:
    """The newest PostgreSQL of at least version 15, from the packages' directories or from PATH."""
    directories = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    directories += [path.parent for path in Path("/usr").glob("pgsql-*/bin/postgres")]
    on_path = which("postgres")
    if on_path:
        directories.append(on_path.resolve().parent)
    found = [programs for programs in map(postgresql_in, directories) if programs is not None]
    return max(found, key=lambda programs: programs.version, default=None)


def postgresql_in(directory: Path, *, embedded: bool = False) -> PostgresqlPrograms | None:
    """The PostgreSQL in this directory, if it is complete and new enough."""
    if not all((directory / name).exists() for name in ("postgres", "initdb", "createdb")):
        return None
    version = _major_version([str(directory / "postgres"), "--version"])
    if version is None or version < OLDEST_POSTGRESQL:
        return None
    return PostgresqlPrograms(directory, version, embedded)


def find_rabbitmq() -> RabbitmqPrograms | None:
    """The newest RabbitMQ whose server script lies in its own `lib` directory, with its Erlang."""
    epmd = _find_epmd()
    if epmd is None or which("erl") is None:
        return None
    scripts = [*Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server")]
    scripts += Path("/opt").glob("rabbitmq_server-*/sbin/rabbitmq-server")
    on_path = which("rabbitmq-server")
    if on_path and (on_path.resolve().parent.parent / "plugins").is_dir():
        scripts.append(on_path.resolve())
    newest = max(scripts, key=lambda path: _numbers(path.parent.parent.name), default=None)
    return None if newest is None else RabbitmqPrograms(newest.parent, epmd)


def find_redis() -> RedisProgram | None:
    """Redis or, where the distribution has only that, Valkey."""
    program = which("redis-server") or which("valkey-server")
    return None if program is None else RedisProgram(program)


def _find_epmd() -> Path | None:
    inside = sorted(Path("/usr/lib/erlang").glob("erts-*/bin/epmd"), key=lambda path: _numbers(path.parent.parent.name))
    return inside[-1] if inside else which("epmd")


def _major_version(command: list[str]) -> int | None:
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"(\d+)(?:\.|devel|beta|rc|\s|$)", text)
    return int(match.group(1)) if match else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
