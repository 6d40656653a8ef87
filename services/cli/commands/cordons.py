"""`orrery cordon`, `orrery uncordon`: close a queue for new work, and open it again."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.commands.options import Json, connect, help_text
from services.cli.output import told

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="A queue of the grid.")]


def register(app: typer.Typer) -> None:
    closes = "Close a queue for new work; jobs that wait or run there go on."
    app.command("cordon", help=help_text(closes, "job_brokerage", "operator"))(cordon)
    app.command("uncordon", help=help_text("Open a queue again.", "job_brokerage", "operator"))(uncordon)


def cordon(
    queue: Queue,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever asks.", prompt=False)],
    as_json: Json = False,
) -> None:
    """Brokerage then sees the queue as brokeroff, also after another grid was loaded."""
    data = connect().post("job_brokerage", "grid/cordon", {"queue": queue, "reason": reason})
    told({"message": f"{queue}: cordoned, it takes no new work", "data": data}, as_json)


def uncordon(queue: Queue, as_json: Json = False) -> None:
    """What the grid says of the queue holds again."""
    data = connect().post("job_brokerage", "grid/uncordon", {"queue": queue})
    told({"message": f"{queue}: uncordoned", "data": data}, as_json)
