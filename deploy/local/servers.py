"""PostgreSQL, RabbitMQ and Redis for one clone.

Each is either named by the environment or private.

    with running_servers(directory, durable=False) as servers:      # a test
        servers.addresses.database_url; servers.rabbitmq.kill9(); servers.rabbitmq.start()

`servers.json` in the directory (readable by its owner only) remembers ports, passwords and processes. Started servers
outlive the process that started them until `stop_servers(directory)`, unless a supervisor or a `with` block ends
them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local import packages, processes
from deploy.local.account import empty
from deploy.local.embedded import embedded_postgresql
from deploy.local.errors import LocalError
from deploy.local.postgresql import POSTGRESQL
from deploy.local.private_server import Description, PrivateServer
from deploy.local.processes import ProcessIdentity
from deploy.local.rabbitmq import RABBITMQ
from deploy.local.records import read_record, write_record
from deploy.local.redis_server import REDIS

RECORD = "servers.json"
#: in the order in which they are started; they are stopped in the reverse
KINDS = (POSTGRESQL, RABBITMQ, REDIS)
_VARIABLES = DATABASE_URL, RABBITMQ_URL, REDIS_URL = [kind.variable for kind in KINDS]
#: which variable says where a server is
VARIABLE_OF = {kind.name: kind.variable for kind in KINDS}


def processes_of(directory: Path) -> dict[str, ProcessIdentity]:
    """The running processes of a directory's private servers; none for servers that the environment names."""
    record = read_record(directory.resolve() / RECORD, directory.resolve())
    found = {name: ProcessIdentity.from_dict((record.get(name) or {}).get("process")) for name in VARIABLE_OF}
    return {name: identity for name, identity in found.items() if identity and processes.is_alive(identity)}


def named_servers(directory: Path) -> set[str]:
    """The servers that are not private: the environment named them when they were chosen."""
    named = read_record(directory.resolve() / RECORD, directory.resolve()).get("named") or {}
    return {name for name, variable in VARIABLE_OF.items() if variable in named}


@dataclass(frozen=True)
class ServerAddresses:
    """Addresses of the servers; without RabbitMQ one process runs all, without Redis nothing is cached."""

    database_url: str
    rabbitmq_url: str | None
    redis_url: str | None

    def environment(self) -> dict[str, str]:
        """The variables by which services and tests find them; a missing server is an empty one."""
        return {
            DATABASE_URL: self.database_url,
            RABBITMQ_URL: self.rabbitmq_url or "",
            REDIS_URL: self.redis_url or "",
        }


class Servers:
    """The servers of one directory. `embedded` asks for PostgreSQL from a wheel and nothing else.

    `named` are the variables that name servers to use instead of private ones (the environment by default; an empty
    mapping for none). `say` is told what takes time.
    """

    def __init__(
        self,
        directory: Path,
        *,
        durable: bool = True,
        embedded: bool = False,
        named: Mapping[str, str] | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.directory = directory.resolve()
        self.durable = durable
        self.embedded = embedded
        self._named = os.environ if named is None else named
        self._say = say
        self.postgresql: PrivateServer | None = None
        self.rabbitmq: PrivateServer | None = None
        self.redis: PrivateServer | None = None

    @property
    def private(self) -> list[PrivateServer]:
        """Those that are ours."""
        return [server for server in (self.postgresql, self.rabbitmq, self.redis) if server is not None]

    @property
    def addresses(self) -> ServerAddresses:
        database_url = self.postgresql.url if self.postgresql else self._name(DATABASE_URL)
        if database_url is None:
            raise LocalError("the servers are not started")
        rabbitmq_url, redis_url = (
            server.url if server else None if self.embedded else self._name(variable)
            for server, variable in ((self.rabbitmq, RABBITMQ_URL), (self.redis, REDIS_URL))
        )
        return ServerAddresses(database_url, rabbitmq_url, redis_url)

    def start(self, with_database: Callable[[], None] | None = None) -> Servers:
        """Find or install what is missing, start what does not run, wait until all answer. Raises LocalError.

        `with_database` is called as soon as the database answers: RabbitMQ takes some seconds longer.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        with _locked(self.directory):
            if not self.private:
                self.choose()
            already = [server for server in self.private if server.is_running()]
            try:
                for server in self.private:
                    server.forget_process()
                    if not server.is_running():
                        self._say(f"starting {server.name}")
                        server.launch()
                        self.save()
                if self.postgresql is not None:
                    self.postgresql.start()
                if with_database is not None:
                    with_database()
                for server in self.private:
                    if not server.answers():
                        self._say(f"waiting for {server.name}")
                    server.start()
            except BaseException:
                for server in self.private:
                    if server not in already:
                        server.stop()
                raise
            finally:
                self.save()
        return self

    def stop(self) -> None:
        """Stop those that are ours; those named by the environment are not touched."""
        for server in reversed(self.private):
            server.stop()
        self.save()

    def remove(self) -> None:
        """Stop those that are ours and delete all that they stored, also what lies outside the directory."""
        self.stop()
        for server in self.private:
            empty(server.place)
        (self.directory / RECORD).unlink(missing_ok=True)

    def save(self) -> None:
        """Write the record by which others find, restart or stop these servers."""
        before = read_record(self.directory / RECORD, self.directory)
        # one of ours that is not used this time may be the next: its password is the only key to its data
        record: dict[str, Any] = {name: before[name] for name in VARIABLE_OF if before.get(name)}
        record |= {server.name: server.record() for server in self.private}
        if self.private and all(server.is_running() for server in self.private):
            record |= self.addresses.environment()
        named = {variable: url for variable in _VARIABLES if (url := self._name(variable))}
        record |= {"named": named, "embedded": self.embedded}
        write_record(self.directory / RECORD, self.directory, record)

    def _name(self, variable: str) -> str | None:
        return self._named.get(variable) or None

    def choose(self) -> None:
        """Decide for each server: the one that is named, the programs found here, or an installation."""
        programs, record = self._programs(), read_record(self.directory / RECORD, self.directory)
        self.postgresql, self.rabbitmq, self.redis = (
            PrivateServer(kind, programs[kind], base=self.directory, durable=self.durable, record=record.get(kind.name))
            if programs[kind] is not None
            else None
            for kind in KINDS
        )

    def _programs(self) -> dict[Description, Any]:
        """The programs of each server that is not named; None where there are none."""
        wanted = [kind for kind in KINDS if self._name(kind.variable) is None and not self.embedded]
        found = {kind: kind.find() if kind in wanted else None for kind in KINDS}
        missing = [kind for kind in wanted if found[kind] is None]
        if missing and packages.can_install():
            packages.install([kind.package for kind in missing], self._say)
            found |= {kind: kind.find() for kind in missing}
        if RABBITMQ in wanted and found[RABBITMQ] is None:
            self._say("no RabbitMQ here, and it cannot be installed: embedded mode")
            self.embedded = True
        if self.embedded:
            found[RABBITMQ] = found[REDIS] = None
        elif REDIS in wanted and found[REDIS] is None:
            self._say("no Redis here, and it cannot be installed: running without a cache")
        if found[POSTGRESQL] is None and self._name(DATABASE_URL) is None:
            found[POSTGRESQL] = embedded_postgresql(self._say)
        return found


def ensure_servers(
    directory: Path, *, durable: bool = True, embedded: bool = False, say: Callable[[str], None] = lambda text: None
) -> ServerAddresses:
    """Start the servers of this directory that do not run yet, and leave them running. Raises LocalError."""
    return Servers(directory, durable=durable, embedded=embedded, say=say).start().addresses


def attach(directory: Path) -> Servers:
    """The servers of this directory as their record has them, to look at, kill or restart; starts nothing."""
    resolved = directory.resolve()
    record = read_record(resolved / RECORD, resolved)
    if not record:
        raise LocalError(f"no servers have been started in {resolved}")
    servers = Servers(resolved, embedded=bool(record.get("embedded")), named=record.get("named", {}))
    servers.choose()
    return servers


def stop_servers(directory: Path) -> list[str]:
    """Stop the private servers of this directory, whoever started them; their names."""
    resolved = directory.resolve()
    record = read_record(resolved / RECORD, resolved)
    stopped = []
    for kind in reversed(KINDS):
        entry = record.get(kind.name) or {}
        for part in ("process", "mapper"):
            identity = ProcessIdentity.from_dict(entry.get(part))
            if processes.is_alive(identity):
                processes.terminate(identity, grace_s=30.0, first=kind.stop_signal)
                stopped.append(kind.name)
            entry.pop(part, None)
    if record:
        remaining = {key: value for key, value in record.items() if not key.startswith("ORRERY_")}
        write_record(resolved / RECORD, resolved, remaining)
    return list(dict.fromkeys(stopped))


@contextlib.contextmanager
def running_servers(
    directory: Path,
    *,
    durable: bool = True,
    embedded: bool = False,
    named: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Servers]:
    """Servers for the length of a block; those that ran before it are left running."""
    servers = Servers(directory, durable=durable, embedded=embedded, named=named, say=say)
    before = _running_names(servers.directory)
    try:
        yield servers.start()
    finally:
        for server in reversed(servers.private):
            if server.name not in before:
                server.stop()
        servers.save()


def _running_names(directory: Path) -> set[str]:
    record = read_record(directory / RECORD, directory)
    entries = {name: record.get(name) or {} for name in VARIABLE_OF}
    return {
        name for name, entry in entries.items() if processes.is_alive(ProcessIdentity.from_dict(entry.get("process")))
    }


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One starter at a time: two commands given at once start one set of servers."""
    with (directory / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
