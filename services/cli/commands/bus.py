"""`orrery bus parked|replay`: messages that were put aside because they cannot be handled as they are."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.commands.options import Json, Limit, connect, help_text, rows_of
from services.cli.identifiers import read_ids
from services.cli.output import age, print_json, print_table

COLUMNS = (
    ("parked", "parked_id"),
    ("age", lambda row: age(row.get("parked_at"))),
    ("consumer", "consumer"),
    ("event", "routing_key"),
    ("task", "task_id"),
    ("reason", "reason"),
)


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True, help="Messages that were parked: parked lists them, replay sends them again."
    )
    group.command("parked", help=help_text("List parked messages with the reason.", "watchdog", "operator"))(parked)
    group.command("replay", help=help_text("Send parked messages again.", "watchdog", "operator"))(replay)
    app.add_typer(group, name="bus")


def parked(limit: Limit = 100, as_json: Json = False) -> None:
    """Those that were not replayed yet."""
    rows = rows_of(connect().get("watchdog", "bus/parked", limit=limit), "parked", "messages")
    if as_json:
        print_json(rows)
    elif rows:
        print_table(rows, COLUMNS)
    else:
        typer.echo("nothing is parked")


def replay(
    ids: Annotated[list[str], typer.Argument(metavar="PARKED...", help="Ids of parked messages; - is standard input.")],
    as_json: Json = False,
) -> None:
    """Send them again to the consumer that parked them."""
    wanted = read_ids(ids)
    data = connect().post("watchdog", "bus/replay", {"parked_ids": wanted})
    if as_json:
        print_json(data)
    else:
        typer.echo(f"replayed: {data if not isinstance(data, dict) else data.get('replayed', data)}")
