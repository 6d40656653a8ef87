"""The verbs, put together.

Each verb's help says which service it asks and which role its caller needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated

import typer
from typer.main import get_command

from services.cli import pilots
from services.cli.commands import (
    accounts,
    audit,
    bus,
    catalogue,
    config,
    console,
    cordons,
    documents,
    dry_runs,
    explain,
    grid,
    invariants,
    job,
    jobs,
    login,
    migration,
    periodic,
    report,
    retention,
    retry_rules,
    secrets,
    settings,
    shares,
    slots,
    status,
    submission,
    system,
    task_commands,
    task_parameters,
    task_queues,
    tasks,
    timeouts,
    watchdog,
    watching,
    work_queues,
)
from services.cli.demo import verb as demonstration
from services.cli.failures import CommandFailure
from services.cli.output import print_failure, say, warn
from shared.release import RELEASE

INTERRUPTED = 130
PREFIX = "ORRERY_"

app = typer.Typer(
    name="orrery",
    help="Orrery: workload management for science on world-wide computing.\n\n"
    "Exit codes: 0 done, 1 refused or a rule is broken, 2 wrong usage or configuration, 3 a service cannot be reached.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"orrery {RELEASE}")
        raise typer.Exit


@app.callback()
def everything(
    wanted: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """What all verbs have in common."""


for module in (
    submission,
    tasks,
    jobs,
    job,
    explain,
    task_commands,
    watching,
    grid,
    shares,
    task_queues,
    cordons,
    slots,
):
    module.register(app)
for module in (accounts, secrets, work_queues, retry_rules, timeouts, periodic):
    module.register(app)
for module in (
    login,
    console,
    settings,
    status,
    report,
    retention,
    audit,
    watchdog,
    catalogue,
    config,
    bus,
    invariants,
    pilots,
    system,
    demonstration,
    documents,
    dry_runs,
    migration,
    task_parameters,
):
    module.register(app)


@cache
def command_line() -> Callable[..., object]:
    """All verbs with their options. Made once: to read their annotations takes longer than most commands."""
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _warn_of_variables()
    try:
        command_line()(args=given, prog_name="orrery")
    except CommandFailure as failure:
        print_failure(failure, as_json="--json" in given)
        sys.exit(failure.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.exit(0)
    finally:
        _flush()


def _flush() -> None:
    """What is still to be written. It is dropped without a message where the reader has closed the pipe."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _warn_of_variables() -> None:
    """A line for each variable with the prefix of Orrery that no setting reads."""
    if any(name.upper().startswith(PREFIX) for name in os.environ):
        from shared.config.variables import unknown_variables  # what most commands need not wait for

        for line in unknown_variables(os.environ):
            warn(line)
