"""`orrery slots`: how many slots of a queue are to be filled, as Harvester sets it."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.commands.options import Json, connect, help_text
from services.cli.failures import WrongUsage
from services.cli.output import print_json, say


def register(app: typer.Typer) -> None:
    does = "Set how many slots of a queue are to be filled: brokerage counts them as running jobs."
    who = "production of all VOs of the queue, operator, or who is named for it"
    app.command("slots", help=help_text(does, "job_brokerage", who))(slots)


def slots(
    queue: Annotated[str, typer.Argument(metavar="QUEUE")],
    number: Annotated[
        int | None, typer.Argument(metavar="NUMBER", min=0, help="0: as many as jobs are starting.", show_default=False)
    ] = None,
    resource_type: Annotated[
        str | None, typer.Option("--resource-type", help="Of this type; else of those without a number of their own.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", help="A date such as 2026-12-01T00:00:00, in UTC; else until it is set again."),
    ] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Take the number back.")] = False,
    as_json: Json = False,
) -> None:
    """Set or take back."""
    if (number is None) is not unset:
        raise WrongUsage("NUMBER: one of a number and --unset is needed")
    if unset and until is not None:
        raise WrongUsage(f"--until: value {until!r}: not allowed with --unset")
    body = {"panda_queue": queue, "slots": number, "resource_type": resource_type, "expiration_date": until}
    connect().post("job_brokerage", "harvester/add_target_slots", body)
    if as_json:
        print_json(body)
        return
    kind, end = f" of {resource_type}" if resource_type else "", f" until {until}" if until else ""
    say(f"{queue}: no slots{kind} are set" if unset else f"{queue}: {number} slots{kind}{end}")
