"""`orrery work-queues list|load|set|remove`: the queues that tasks are mapped to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from services.cli.commands.accounts import Fields, File, given_fields, list_in
from services.cli.commands.options import NARROW, Json, connect, help_text, rows_of
from services.cli.failures import WrongUsage
from services.cli.output import print_rows, say, told

COLUMNS = (
    ("queue", "name"),
    ("id", "queue_id"),
    ("order", "order"),
    ("label", "label"),
    ("VO", "vo"),
    ("criteria", "criteria"),
    ("variables", "variables"),
    ("tasks", "n_tasks"),
    ("status", "status"),
    ("function", "function"),
    ("partition", lambda row: {None: "", -1: "is one"}.get(row.get("partition_id"), row.get("partition_id"))),
    ("share", "share"),
    ("stretchable", "stretchable"),
    ("throttled", "throttled"),
)
#: left out where the terminal is narrow, in this order
MAY_GO = ("throttled", "stretchable", "share", "partition", "function", "id", "VO", "variables", "status")
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say how many live tasks the criteria match; change nothing.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Work queues: list, load, set, remove.")
    text = help_text(f"List work queues in the order in which they are asked. {NARROW}", "task_definition", "user")
    group.command("list", help=text)(list_all)
    text = help_text("Replace all work queues by those of a file.", "task_definition", "operator")
    group.command("load", help=text)(load)
    group.command("set", help=help_text("Make or change one.", "task_definition", "operator"))(set_one)
    text = help_text("Forget one that no live task has.", "task_definition", "operator")
    group.command("remove", help=text)(remove)
    app.add_typer(group, name="work-queues")


def list_all(as_json: Json = False) -> None:
    """One line per queue."""
    rows = rows_of(connect().get("task_definition", "work_queue/list"))
    print_rows(rows, COLUMNS, may_go=MAY_GO, cut="criteria", as_json=as_json)


def load(file: File, dry_run: DryRun = False, as_json: Json = False) -> None:
    """All work queues."""
    body = {"work_queues": list_in(file, "work_queues"), "dry_run": dry_run}
    _told(connect().envelope("POST", "task_definition", "work_queue/load", json=body), as_json=as_json)


def set_one(name: str, fields: Fields = None, dry_run: DryRun = False, as_json: Json = False) -> None:
    """One work queue: what is not given stays."""
    client = connect()
    rows = rows_of(client.get("task_definition", "work_queue/list"))
    known = [row for row in rows if row.get("name") == name]
    given = given_fields(fields or [])
    if len(known) > 1 and "vo" not in given:
        raise WrongUsage(f"{name}: several VOs have it; name one with vo=VO")
    before = next((row for row in known if given.get("vo", row["vo"]) == row["vo"]), {})
    record = {field: value for field, value in before.items() if field != "n_tasks"}
    record |= {"name": name, **given}
    record.setdefault("queue_id", 1 + max((row["queue_id"] for row in rows), default=0))
    body = {"work_queue": record, "dry_run": dry_run}
    _told(client.envelope("POST", "task_definition", "work_queue/set", json=body), as_json=as_json)


def remove(
    name: str,
    vo: Annotated[str | None, typer.Option("--vo", help="Its VO, where several have the name.")] = None,
    as_json: Json = False,
) -> None:
    """One work queue."""
    client = connect()
    rows = rows_of(client.get("task_definition", "work_queue/list"))
    known = [row for row in rows if row.get("name") == name and vo in (None, row["vo"])]
    if len(known) > 1:
        raise WrongUsage(f"{name}: several VOs have it; name one with --vo")
    if not known:
        raise WrongUsage(
            f"{name}: there is no such work queue; known: {', '.join(row['name'] for row in rows) or 'none'}"
        )
    body = {"queue_id": known[0]["queue_id"]}
    told(client.envelope("POST", "task_definition", "work_queue/remove", json=body), as_json)


def _told(answer: dict[str, Any], *, as_json: bool) -> None:
    told(answer, as_json)
    if as_json:
        return
    for name, n_tasks in ((answer.get("data") or {}).get("matching_tasks") or {}).items():
        say(f"  {name}: label, VO and criteria match {n_tasks} live tasks")
