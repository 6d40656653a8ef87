"""`orrery grid load`, `orrery queues`: the world as brokerage and dispatch see it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.commands.options import NARROW, Json, connect, help_text, rows_of
from services.cli.failures import Refused, RejectedField, WrongUsage
from services.cli.output import age, print_facts, print_json, print_rows, say

LOAD_TIMEOUT_S = 300.0
QUEUE_COLUMNS = (
    ("queue", "queue"),
    ("site", "site"),
    ("status", lambda row: f"{row['status']} (cordoned)" if row.get("cordon_reason") else row.get("status")),
    ("type", "type"),
    ("activated", lambda row: counts(row).get("activated", 0)),
    ("running", lambda row: counts(row).get("running", 0)),
    ("waiting", lambda row: sum(counts(row).get(state, 0) for state in ("defined", "assigned", "throttled"))),
    ("pilots", "running_workers"),
    ("slots", "n_slots"),
    ("last pilot", lambda row: age(row.get("last_pilot_at"))),
    ("last start", lambda row: age(row.get("last_job_start_at"))),
)
#: left out where the terminal is narrow, in this order
QUEUE_MAY_GO = ("site", "type", "slots", "last start", "pilots", "last pilot")


def counts(row: dict) -> dict:
    """Jobs by state of one queue."""
    found = row.get("jobs") or row.get("n_jobs") or {}
    return found if isinstance(found, dict) else {}


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="The grid: queues, sites, storages, links, software, shares.")
    group.command("load", help=help_text("Check a grid folder and load it whole.", "job_brokerage", "operator"))(load)
    app.add_typer(group, name="grid")
    app.command("queues", help=help_text(f"List queues with their jobs. {NARROW}", "job_brokerage", "user"))(queues)


def load(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder with queues.json, sites.json, storages.json, ...")
    ],
    keep_times: Annotated[
        bool, typer.Option("--keep-times", help="Keep the times of measurements; else the newest becomes now.")
    ] = False,
    as_json: Json = False,
) -> None:
    """A grid with a single problem is refused whole, with every problem listed."""
    from shared.model.grid import read_grid_folder  # what other verbs need not wait for
    from shared.model.problems import InvalidGrid

    if not folder.is_dir():
        raise WrongUsage(f"DIR: value {str(folder)!r}: must be a folder")
    try:
        files = read_grid_folder(folder)
    except InvalidGrid as error:
        problems = [RejectedField(f"{one.file}: {one.key}".rstrip(": "), "", one.reason) for one in error.problems]
        raise WrongUsage(f"{folder}: cannot be read", problems) from None
    if not files:
        raise WrongUsage(f"DIR: value {str(folder)!r}: has no file of a grid (queues.json, sites.json, storages.json)")
    body = {"files": files, "keep_times": keep_times}
    data = connect().post("job_brokerage", "grid/load", body, timeout_s=LOAD_TIMEOUT_S)
    if as_json:
        print_json(data)
    elif isinstance(data, dict):
        print_facts((name.replace("_", " "), value) for name, value in data.items())
    else:
        say(f"loaded: {data}")


def queues(
    names: Annotated[list[str] | None, typer.Argument(metavar="[QUEUE...]", help="Only these queues.")] = None,
    busy: Annotated[bool, typer.Option("--busy", help="Only queues that have jobs.")] = False,
    as_json: Json = False,
) -> None:
    """One line per queue."""
    rows = rows_of(connect().get("job_brokerage", "grid/queues"), "queues")
    unknown = sorted(set(names or ()) - {str(row.get("queue", row.get("name"))) for row in rows})
    if names:
        rows = [row for row in rows if row.get("queue", row.get("name")) in names]
    if busy:
        rows = [row for row in rows if any(counts(row).values())]
    print_rows(rows, QUEUE_COLUMNS, may_go=QUEUE_MAY_GO, cut="queue", as_json=as_json)
    if unknown:
        raise Refused(f"there is no queue {', '.join(unknown)}")
