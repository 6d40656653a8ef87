"""`orrery pilots`: simulated pilots that act for the queues of the grid as real ones, over HTTP only."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.addresses import find_addresses
from services.cli.failures import Refused, WrongUsage
from services.cli.output import print_json, say
from services.cli.simulated_pilots.profile import Profile, rates_from
from services.cli.tokens import issue, token_for

if TYPE_CHECKING:
    from services.cli.simulated_pilots.connection import Connection
    from services.cli.simulated_pilots.fleet import Fleet, FleetOptions, Tally

PROGRESS_EVERY_S = 10.0
TOKEN_LIFETIME_S = 7 * 86_400.0


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        "pilots",
        help="Run simulated pilots until they are stopped (Ctrl-C or SIGTERM).\n\n"
        "Service: job_dispatch and job_brokerage. Role: pilot.",
    )(pilots)


def pilots(
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=5000, help="Pilots at the same time.")] = 50,
    speed_up: Annotated[float, typer.Option(min=0.1, max=1e6, help="Payloads run so many times faster.")] = 3600.0,
    seed: Annotated[int, typer.Option(help="Everything that is drawn comes from it.")] = 1,
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", "-q", metavar="NAME[=N]", help="Only this queue (N pilots); repeat for more."),
    ] = None,
    failure: Annotated[
        list[str] | None,
        typer.Option(
            "--failure",
            metavar="KIND=RATE",
            help="Rate of a failure: payload, memory, stage_out, vanish, silent, duplicate, bad_report.",
        ),
    ] = None,
    event_s: Annotated[float, typer.Option(min=0.001, help="CPU seconds per event, median over tasks.")] = 1.0,
    walltime_s: Annotated[float, typer.Option(min=1, help="Walltime of jobs that name no events, median.")] = 3600.0,
    memory_mb: Annotated[float, typer.Option(min=1, help="Memory per core in MB, median.")] = 1400.0,
    duration_s: Annotated[float, typer.Option(min=0, help="Stop after so many real seconds; 0: never.")] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Options to a fleet, and its tally at the end."""
    from services.cli.simulated_pilots.connection import NotAllowed  # aiohttp: what other verbs need not wait for
    from services.cli.simulated_pilots.fleet import FleetOptions, NoSuchQueue

    try:
        rates = rates_from(dict(_pair(text) for text in failure or ()))
        profile = Profile(seed=seed, rates=rates, event_s=event_s, walltime_s=walltime_s, memory_mb_per_core=memory_mb)
        fixed = _queues(queue or (), count)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    options = FleetOptions(count, speed_up, profile, f"simulated-{uuid.uuid4().hex[:10]}", fixed)
    try:
        tally = asyncio.run(run(options, duration_s=duration_s, quiet=as_json))
    except NotAllowed as error:
        raise Refused(f"job_dispatch: not allowed: {error}", []) from None
    except NoSuchQueue as error:
        raise Refused(str(error)) from None
    if as_json:
        print_json(_as_dict(tally))


async def run(options: FleetOptions, *, duration_s: float = 0.0, quiet: bool = False) -> Tally:
    """A fleet until SIGTERM, SIGINT or the end of its time."""
    from services.cli.simulated_pilots.connection import Connection
    from services.cli.simulated_pilots.fleet import Fleet

    addresses = find_addresses()
    urls = {service: addresses.urls_of(service) for service in ("job_dispatch", "job_brokerage")}
    try:
        token = issue(addresses, "simulated-pilots", ("pilot",), lifetime_s=TOKEN_LIFETIME_S)
    except WrongUsage:
        token = token_for(addresses)  # no key here: the caller's own token, which must have the role
    async with Connection(urls, token) as connection:
        fleet = Fleet(options, connection)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError, RuntimeError):  # signals reach the main thread alone
                loop.add_signal_handler(number, fleet.stop)
        timer = loop.call_later(duration_s, fleet.stop) if duration_s else None
        progress = asyncio.create_task(_tell(fleet, connection, quiet=quiet))
        try:
            tally = await fleet.run()
        finally:
            progress.cancel()
            if timer is not None:
                timer.cancel()
        if not quiet:
            say(_line(fleet, connection))
    return tally


async def _tell(fleet: Fleet, connection: Connection, *, quiet: bool) -> None:
    started = time.monotonic()
    while not quiet:
        await asyncio.sleep(PROGRESS_EVERY_S)
        say(_line(fleet, connection, time.monotonic() - started))


def _line(fleet: Fleet, connection: Connection, elapsed_s: float = 0.0) -> str:
    told = fleet.tally.line(fleet.options.count, elapsed_s)
    return f"{told}; {connection.n_calls} calls, {connection.n_unanswered} without an answer"


def _as_dict(tally: Tally) -> dict[str, object]:
    return {
        "pilots": tally.pilots,
        "pilots_with_jobs": tally.pilots_with_jobs,
        "jobs": tally.jobs,
        "outcomes": dict(sorted(tally.outcomes.items())),
        "endings": dict(sorted(tally.endings.items())),
    }


def _pair(text: str) -> tuple[str, float]:
    name, separator, value = text.partition("=")
    try:
        if separator:
            return name, float(value)
    except ValueError:
        pass
    raise ValueError(f"failures: {text!r} is not allowed; KIND=RATE with a number is")


def _queues(texts: Sequence[str], count: int) -> dict[str, int]:
    """NAME or NAME=N; names without a number share what is left of the count."""
    fixed: dict[str, int] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or (separator and not (value.isdigit() and int(value) > 0)):
            raise ValueError(f"queue: {text!r} is not allowed; NAME or NAME=N with a positive number is")
        fixed[name] = int(value) if separator else 0
    open_names = [name for name, number in fixed.items() if number == 0]
    left = max(0, count - sum(fixed.values()))
    for place, name in enumerate(open_names):
        fixed[name] = max(1, left // len(open_names) + (place < left % len(open_names)))
    return fixed
