"""`orrery audit`: who gave which command, and what became of it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from services.cli.commands.options import NARROW, Json, Limit, connect, help_text, rows_of
from services.cli.output import age, print_rows

COLUMNS = (
    ("age", lambda row: age(row.get("at"))),
    ("who", "caller"),
    ("roles", lambda row: ", ".join(row.get("roles") or ())),
    ("verb", "verb"),
    ("target", "target"),
    ("outcome", "outcome"),
    ("details", lambda row: json.dumps(row.get("details"))),
)
#: left out where the terminal is narrow, in this order
MAY_GO = ("roles", "outcome")


def register(app: typer.Typer) -> None:
    does = f"List commands and who gave them, the newest first. {NARROW}"
    app.command("audit", help=help_text(does, "watchdog", "operator"))(audit)


def audit(
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGET]", help="Only of this one, as it is recorded: task:7.")
    ] = None,
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """One line for each command."""
    query = {name: value for name, value in (("target", target), ("limit", limit)) if value is not None}
    rows = rows_of(connect().get("watchdog", "audit", **query), "audit")
    print_rows(rows, COLUMNS, may_go=MAY_GO, cut="details", as_json=as_json)
