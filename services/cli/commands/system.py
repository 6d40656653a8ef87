"""`orrery run --all`: every service in one process; `orrery token`: issues a token, or revokes some."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from services.cli.addresses import KEY_VARIABLE, find_addresses
from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.failures import WrongUsage
from services.cli.output import print_json, print_table, say, told
from services.cli.tokens import caller_name, issue, key_file, names_of


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
    does = (
        "Give this installation's issuer a new key, which signs from now on; tokens of the older ones go on until they "
        "expire. Services read the file again by themselves."
    )
    group.command("rotate-key", help=f"{does}\n\nService: none. Role: none, but the file must be writable.")(rotate_key)
    app.add_typer(group, name="token")


def run(every: Annotated[bool, typer.Option("--all", help="All nine services; needed.")] = False) -> None:
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
        say(text)


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


def rotate_key(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The issuer's key file (default: as for `orrery token`).")
    ] = None,
    public: Annotated[
        Path | None, typer.Option("--public", metavar="FILE", help="Write the public halves there, for who verifies.")
    ] = None,
    drop_older: Annotated[
        bool, typer.Option("--drop-older", help="Make no new key: tokens of all but the newest end now.")
    ] = False,
    as_json: Json = False,
) -> None:
    """The old private key is not kept."""
    from shared.auth.authority import Authority, drop_older_keys, rotate_file

    path = file or key_file(find_addresses())
    if path is None:
        raise WrongUsage(f"FILE: none given, and {KEY_VARIABLE} names none")
    try:
        if drop_older:
            message = f"{drop_older_keys(path)} older keys dropped; their tokens are refused from now on"
        else:
            rotate_file(path)
            message = "a new key signs; tokens of the older ones go on until they expire"
        if public is not None:
            public.write_bytes(Authority.from_file(path).public_pem())
    except OSError as error:
        raise WrongUsage(f"{error.filename or path}: {error.strerror}") from None
    except ValueError as error:
        raise WrongUsage(f"{path}: {error}") from None
    told({"message": f"{path}: {message}", "data": {"file": str(path)}}, as_json)


def revocations(as_json: Json = False) -> None:
    """The newest first."""
    rows = rows_of(connect().get("task_definition", "token/revocations"), "revocations")
    if as_json:
        print_json(rows)
        return
    columns = ("kind", "name", "revoked_at", "until", "revoked_by", "reason")
    print_table(rows, [(name.replace("_", " "), name) for name in columns])
