"""`orrery timeouts [load]`: how long jobs may stay where they are, and what a VO adds to that."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.commands.accounts import list_in
from services.cli.commands.options import NARROW, Json, connect, help_text, rows_of
from services.cli.commands.retry_rules import File
from services.cli.output import print_rows, told

COLUMNS = (
    ("rule", "name"),
    ("VO", lambda row: row.get("vo") or ""),
    ("states", lambda row: ", ".join(row.get("states") or ())),
    ("since", "since"),
    ("limit", "limit"),
    ("condition", "condition"),
    ("then", "next_state"),
    ("code", "error_code"),
    ("parameter", "parameter"),
    ("source", "source"),
)
#: left out where the terminal is narrow, in this order
MAY_GO = ("source", "code", "VO", "since", "parameter")


def register(app: typer.Typer) -> None:
    does = f"List the time-out rules of jobs in force, the first that holds decides. {NARROW}"
    text = help_text(does, "watchdog", "user")
    group = typer.Typer(invoke_without_command=True, help=text)
    group.callback(help=text)(timeouts)
    does = "Replace the rules that a VO added by those of a file; wrong ones are refused, and the old ones stay."
    group.command("load", help=help_text(does, "watchdog", "operator"))(load)
    app.add_typer(group, name="timeouts")


def timeouts(ctx: typer.Context, as_json: Json = False) -> None:
    """One line per rule."""
    if ctx.invoked_subcommand is None:
        rows = rows_of(connect().get("watchdog", "timeout/list"))
        print_rows(rows, COLUMNS, may_go=MAY_GO, cut="condition", as_json=as_json)


def load(
    vo: Annotated[str, typer.Argument(metavar="VO", help="The virtual organisation.")],
    file: File,
    as_json: Json = False,
) -> None:
    """Replace all rules of a VO."""
    body = {"vo": vo, "rules": list_in(file, "rules")}
    told(connect().envelope("POST", "watchdog", "timeout/load", json=body), as_json)
