"""`orrery run --all`: every service in one process; `orrery token`: a token of the development issuer."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.addresses import find_addresses
from services.cli.commands.options import Json
from services.cli.failures import WrongUsage
from services.cli.output import print_json
from services.cli.tokens import caller_name, issue


def register(app: typer.Typer) -> None:
    app.command(
        "run",
        help="Run every service in this process (settings as for one service, ORRERY_...).\n\n"
        "Service: none. Role: none.",
    )(run)
    app.command(
        "token",
        help="Issue a token with the development issuer's key.\n\n"
        "Service: none. Role: none, but the key must be readable.",
    )(token)


def run(every: Annotated[bool, typer.Option("--all", help="All eight services; needed.")] = False) -> None:
    """Until SIGTERM or Ctrl-C."""
    if not every:
        raise WrongUsage("run: say --all; a single service is started with `python -m services.<name>`")
    from services.cli.one_process import serve_all

    raise typer.Exit(serve_all())


def token(
    name: Annotated[str | None, typer.Option("--name", help="The subject of the token (default: you).")] = None,
    roles: Annotated[
        list[str] | None, typer.Option("--role", "-r", help="user, pilot, production, operator; may be repeated.")
    ] = None,
    groups: Annotated[list[str] | None, typer.Option("--group", "-g", help="A group; may be repeated.")] = None,
    hours: Annotated[float, typer.Option("--hours", min=0.01, max=24 * 365, help="How long it is valid.")] = 24.0,
    is_key: Annotated[
        bool, typer.Option("--key", help="A key with which a pilot renews its token (get_access_token), no token.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Printed on standard output: export ORRERY_TOKEN=$(orrery token --role production)."""
    chosen = ["pilot"] if is_key else roles or ["user"]
    who, lifetime_s = name or caller_name(), hours * 3600
    text = issue(find_addresses(), who, chosen, groups or [], lifetime_s=lifetime_s, is_key=is_key)
    if as_json:
        print_json({"token": text, "name": who, "roles": chosen, "groups": groups or []})
    else:
        typer.echo(text)
