"""`orrery task-queues` and `orrery dry-run task-queues`: task queues by priority, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from services.cli.commands.options import NARROW, Json, connect, help_text, rows_of
from services.cli.output import Column, duration, print_fitting, print_json, print_withheld


def asked_for(row: Mapping[str, Any]) -> str:
    """What a task queue asks of a pilot and its place, in a line."""
    said = (("sites", "sites"), ("not at", "banned_sites"), ("platforms", "platforms"), ("tags", "tags"),
            ("job types", "job_types"))  # fmt: skip
    return "; ".join(f"{words} {', '.join(row[name])}" for words, name in said if row.get(name))


COLUMNS: Sequence[Column] = (
    ("queue", "task_queue_id"),
    ("priority", "priority"),
    ("vo", "vo"),
    ("group", "user_group"),
    ("user", "user_name"),
    ("jobs", "n_jobs"),
    ("CPU time", lambda row: duration(row["cpu_segment_s"])),
    ("group share", "group_share"),
    ("factor", "group_correction"),
    ("users", "n_users"),
    ("user factor", "user_correction"),
    ("entity share", "entity_share"),
    ("user priority", "user_priority"),
    ("of", "sum_user_priority"),
    ("background", lambda row: "yes" if row["is_background"] else ""),
    ("alone", "alone"),
    ("alike", "n_alike"),
    ("asks for", asked_for),
)
MAY_GO = ("alone", "alike", "background", "factor", "user factor", "users", "CPU time", "asks for", "of", "vo")


def register(app: typer.Typer) -> None:
    text = help_text(f"List task queues with priority and terms, highest first. {NARROW}", "job_dispatch", "user")
    app.command("task-queues", help=text)(task_queues)


def task_queues(
    vo: Annotated[str | None, typer.Option("--vo", help="Only of this VO.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="Only of this group of users.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")] = 100,
    as_json: Json = False,
) -> None:
    """Those in which jobs wait for pilots now."""
    given = {"vo": vo, "group": group, "limit": limit}
    wanted = {name: value for name, value in given.items() if value is not None}
    show(rows_of(connect().get("job_dispatch", "job/task_queues", **wanted), "task_queues"), as_json)


def show(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """As JSON, or as a table of what fits."""
    if as_json:
        print_json(rows)
    else:
        print_fitting(rows, COLUMNS, may_go=MAY_GO, cut="group")
        print_withheld(rows)
