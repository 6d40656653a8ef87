"""`main(package, build)`: the five lines of every service's `__main__.py` end here.

Exit codes: 0 after an orderly stop (SIGTERM, SIGINT), 2 for a wrong setting, 3 when PostgreSQL, RabbitMQ or the port
cannot be had at start, 1 for anything unexpected.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import uvloop

from shared.config.settings import ListeningSettings, Settings, SettingsError, load_settings
from shared.config.variables import unknown_variables
from shared.messaging.transport import BusUnavailable, Transport
from shared.runtime import logs
from shared.runtime.collector import tune_collector
from shared.runtime.process import Process, StartError, open_process
from shared.runtime.service import Build
from shared.web.file_limit import raise_file_limit

log = logging.getLogger(__name__)

S = TypeVar("S", bound=ListeningSettings)

EXIT_STOPPED = 0
EXIT_SETTINGS = 2
EXIT_UNAVAILABLE = 3


def main(package_name: str, build: Build, settings_class: type[Settings] = Settings) -> None:
    """Run one service until it is told to stop, then exit with one of the codes above."""
    name = package_name.replace("_", "-")
    serve_with(name, settings_class, lambda settings: run({name: build}, settings))


def serve_with(name: str, settings_class: type[S], start: Callable[[S], Coroutine[Any, Any, None]]) -> None:
    """Read the settings, run what `start` makes of them, and exit with one of the codes above."""
    try:
        settings = load_settings(settings_class)
        logs.configure(name, form=settings.log_format, level=settings.log_level)
        for line in unknown_variables(os.environ):
            log.warning("%s", line)
        raise_file_limit()
        uvloop.run(start(settings))
    except SettingsError as error:
        _die(error, EXIT_SETTINGS)
    except (StartError, BusUnavailable) as error:
        _die(error, EXIT_UNAVAILABLE)
    sys.exit(EXIT_STOPPED)


async def run(
    builds: Mapping[str, Build],
    settings: Settings,
    transport: Transport | None = None,
    *,
    ports: Mapping[str, int] | None = None,
    stop: asyncio.Event | None = None,
    on_started: Callable[[Process], None] | None = None,
) -> None:
    """Run services in this process until SIGTERM, SIGINT or `stop`.

    `builds` maps names ("task-definition") to their composition roots; with several, each has its own port. Raises
    SettingsError, StartError, BusUnavailable.
    """
    stop = stop or asyncio.Event()
    stop_on_signals(stop)
    process = await open_process(builds, settings, transport=transport, ports=ports)
    try:
        await process.start()
    except BaseException:
        await process.stop()
        raise
    tune_collector()
    log.info("started: %s", ", ".join(builds))
    if on_started is not None:
        on_started(process)
    try:
        await stop.wait()
    finally:
        log.info("stopping: running handlers may take %.0f s", settings.graceful_stop_s)
        await process.stop()
        log.info("stopped")


def stop_on_signals(stop: asyncio.Event) -> None:
    """Ask for an orderly stop at the first SIGTERM or SIGINT; the second ends the process at once."""
    loop = asyncio.get_running_loop()

    def ask(number: signal.Signals) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, ask, number)
        except (ValueError, RuntimeError):
            return  # not the main thread (tests): `stop` is the way


def _die(error: BaseException, code: int) -> None:
    sys.stderr.write(f"{error}\n")
    sys.exit(code)
