"""`orrery bus parked|replay|drop`: messages that cannot be handled as they are."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.commands.options import Json, Limit, connect, help_text, rows_of
from services.cli.identifiers import read_ids
from services.cli.output import age, print_json, print_table, say

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
        no_args_is_help=True,
        help="Messages that were parked: parked lists them, replay sends them again, drop forgets them.",
    )
    group.command("parked", help=help_text("List parked messages with the reason.", "watchdog", "operator"))(parked)
    group.command("replay", help=help_text("Send parked messages again.", "watchdog", "operator"))(replay)
    does = "Forget parked messages that will never be handled; the audit log keeps what they were."
    group.command("drop", help=help_text(does, "watchdog", "operator"))(drop)
    app.add_typer(group, name="bus")


def parked(limit: Limit = 100, as_json: Json = False) -> None:
    """Those that were not replayed yet."""
    rows = rows_of(connect().get("watchdog", "bus/parked", limit=limit), "parked", "messages")
    if as_json:
        print_json(rows)
    elif rows:
        print_table(rows, COLUMNS)
    else:
        say("nothing is parked")


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
        say(f"replayed: {data if not isinstance(data, dict) else data.get('replayed', data)}")


def drop(
    ids: Annotated[list[str], typer.Argument(metavar="PARKED...", help="Ids of parked messages; - is standard input.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever asks.", prompt=False)],
    as_json: Json = False,
) -> None:
    """What they announced is found again by the watchdog's sweep, if it still is so."""
    data = connect().post("watchdog", "bus/drop", {"parked_ids": read_ids(ids), "reason": reason})
    if as_json:
        print_json(data)
    else:
        say(f"dropped: {', '.join(map(str, data['dropped']))}")
