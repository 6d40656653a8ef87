"""Starting the system for the demonstration, and stopping exactly what was started."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.cli.addresses import PROJECT, Addresses
from services.cli.failures import CommandFailure, WrongUsage


@dataclass(frozen=True)
class StageOptions:
    """`directory`: where the system keeps what runs (`.local` of the clone if not said).

    `keep`: leave it running.
    """

    directory: Path | None = None
    embedded: bool = False
    keep: bool = False
    replicas: int = 1
    durable: bool = True


def project_directory() -> Path:
    """The clone with `deploy/`: the current directory or one above it, else the one this package lies in."""
    for path in (Path.cwd(), *Path.cwd().parents, PROJECT):
        if (path / "deploy" / "local" / "__init__.py").exists() and (path / "services" / "cli").is_dir():
            return path
    raise WrongUsage("no clone of Orrery with deploy/ here: the demonstration starts servers and needs it")


def local_module(name: str) -> Any:
    """A module of `deploy.local`, which is part of the clone but not of the installed package."""
    project = str(project_directory())
    if project not in sys.path:
        sys.path.insert(0, project)
    return importlib.import_module(f"deploy.local.{name}")


@contextmanager
def system_on(options: StageOptions, say: Callable[[str], None]) -> Iterator[Any]:
    """A system (`deploy.local.system.LocalSystem`) for the length of a block.

    One that ran before is used and left alone; one that is started here ends with the block, unless `keep`. It also
    ends when this process is killed.
    """
    system_module, errors = local_module("system"), local_module("errors")
    directory = (options.directory or project_directory() / ".local").resolve()
    system = system_module.LocalSystem(directory)
    started = not system.is_running()
    try:
        system = system_module.start_system(
            directory,
            replicas=options.replicas,
            embedded=options.embedded,
            durable=options.durable,
            owner_pid=None if options.keep else os.getpid(),
            say=say,
        )
    except errors.LocalError as error:
        raise CommandFailure(f"the system does not start: {error}") from None
    if not started:
        say("the system is up already: using it, and leaving it up")
    try:
        yield system
    finally:
        if started and not options.keep:
            say("stopping what was started")
            system.stop()


def addresses_of(system: Any) -> Addresses:
    """Where its services are."""
    urls = {name.replace("-", "_"): tuple(found) for name, found in system.urls.items()}
    key = system.environment.get("ORRERY_TOKEN_KEY_FILE")
    return Addresses(urls, Path(key) if key else None, Path(system.directory) / "run.json", gateway=system.gateway)
