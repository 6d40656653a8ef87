"""`orrery run --all`: every service in one process; `orrery token`: issues a token, or revokes some."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from services.cli.addresses import find_addresses
from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.failures import WrongUsage
from services.cli.output import print_json, print_table, told
from services.cli.tokens import caller_name, issue, names_of


def register(app: typer.Typer) -> None:
    app.command(
        "run",
        help="Run every service in this process (settings as for one service, ORRERY_...).\n\n"
        "Service: none. Role: none.",
    )(run)
    group = typer.Typer(invoke_without_command=True)
    issues = "Issue a token with the development issuer's key.\n\n"
    group.callback(help=issues + "Service: none. Role: none, but the key must be readable.")(token)
    does = "No longer believe a token, or any that a subject got so far; in force within seconds."
    group.command("revoke", help=help_text(does, "task_definition", "operator, or the subject"))(revoke)
    shows = "What is revoked, by whom, and until when that matters."
    group.command("revocations", help=help_text(shows, "task_definition", "operator"))(revocations)
    app.add_typer(group, name="token")


def run(every: Annotated[bool, typer.Option("--all", help="All eight services; needed.")] = False) -> None:
    """Until SIGTERM or Ctrl-C."""
    if not every:
        raise WrongUsage("run: say --all; a single service is started with `python -m services.<name>`")
    from services.cli.one_process import serve_all

    raise typer.Exit(serve_all())


def token(
    context: typer.Context,
    name: Annotated[str | None, typer.Option("--name", help="The subject of the token (default: you).")] = None,
    roles: Annotated[
        list[str] | None, typer.Option("--role", "-r", help="user, pilot, production, operator; may be repeated.")
    ] = None,
    groups: Annotated[list[str] | None, typer.Option("--group", "-g", help="A group; may be repeated.")] = None,
    hours: Annotated[float, typer.Option("--hours", min=0.01, max=24 * 365, help="How long it is valid.")] = 24.0,
    is_key: Annotated[
        bool, typer.Option("--key", help="A key with which a pilot renews its token (get_access_token), no token.")
    ] = False,
    rights: Annotated[
        list[str] | None,
        typer.Option("--right", help="Limit it to submit, cancel, modify; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Printed on standard output: export ORRERY_TOKEN=$(orrery token --role production)."""
    if context.invoked_subcommand is not None:
        return
    chosen = ["pilot"] if is_key else roles or ["user"]
    who, lifetime_s = name or caller_name(), hours * 3600
    text = issue(find_addresses(), who, chosen, groups or [], lifetime_s=lifetime_s, is_key=is_key, rights=rights)
    if as_json:
        told = {"token": text, "name": who, "roles": chosen, "groups": groups or []}
        print_json({**told, "rights": rights} if rights else told)
    else:
        typer.echo(text)


def revoke(
    which: Annotated[str | None, typer.Argument(metavar="[TOKEN]", help="A token; - reads it from the input.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="All that this subject got so far.")] = None,
    token_id: Annotated[str | None, typer.Option("--id", help="The token with this id (claim jti).")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever asks.")] = "",
    as_json: Json = False,
) -> None:
    """The token itself is not sent, only its id."""
    if [which, subject, token_id].count(None) != 2:
        raise WrongUsage("token revoke: name one of a token, --subject, --id")
    expires_at = None
    if which is not None:
        token_id, expires_at = names_of((sys.stdin.read() if which == "-" else which).strip())
    sent = {"subject": subject, "token_id": token_id, "expires_at": expires_at, "reason": reason}
    body = {name: one for name, one in sent.items() if one is not None}
    data = connect().post("task_definition", "token/revoke", body)
    what = f"all that {subject} got so far" if subject else f"token {token_id}"
    told({"message": f"revoked: {what}", "data": data}, as_json)


def revocations(as_json: Json = False) -> None:
    """The newest first."""
    rows = rows_of(connect().get("task_definition", "token/revocations"), "revocations")
    if as_json:
        print_json(rows)
        return
    columns = ("kind", "name", "revoked_at", "until", "revoked_by", "reason")
    print_table(rows, [(name.replace("_", " "), name) for name in columns])
