"""`orrery periodic list|submit|pause|resume|end`: tasks that are submitted again every period."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from services.cli.commands.options import NARROW, Json, Limit, connect, help_text, rows_of
from services.cli.commands.submission import read_tasks
from services.cli.commands.task_commands import give
from services.cli.output import age, duration, print_json, print_rows, say

COLUMNS = (
    ("id", "periodic_id"),
    ("status", "status"),
    ("every", lambda row: duration(row["period_s"])),
    ("next", "next_at"),
    ("ends", "ends_at"),
    ("submitted", "n_submitted"),
    ("last task", "last_task_id"),
    ("user", "user_name"),
    ("since", lambda row: age(row.get("creation_time"))),
    ("name", "task_name"),
    ("says", "last_error"),
)
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of periodic tasks; - reads them.")]
_HELP = {
    "pause": "Submit no more tasks until it is resumed; those that were submitted go on.",
    "resume": "Submit tasks again.",
    "end": "Submit no more tasks ever; those that were submitted go on.",
}


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Tasks that are submitted again every period until their end.")
    text = help_text(f"List them with period, state and end. {NARROW}", "task_definition", "user")
    group.command("list", help=text)(list_all)
    text = help_text("Submit a task now and again every period.", "task_definition", "user (own analysis), production")
    group.command("submit", help=text)(submit)
    for name, function in (("pause", pause), ("resume", resume), ("end", end)):
        group.command(name, help=help_text(_HELP[name], "task_definition", "owner, production"))(function)
    app.add_typer(group, name="periodic")


def list_all(
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only of this user.")] = None,
    status: Annotated[str | None, typer.Option("--status", "-s", help="active, paused or ended.")] = None,
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """One line per series."""
    rows = rows_of(connect().get("task_definition", "periodic_task/list", user_name=user, status=status, limit=limit))
    print_rows(rows, COLUMNS, may_go=("since", "user", "ends", "last task"), cut="says", as_json=as_json)


def submit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A task in JSON; - reads it from standard input.")],
    every_s: Annotated[int, typer.Option("--every", min=60, help="The period in seconds.")],
    start: Annotated[str | None, typer.Option("--start", help="When the first one is due; otherwise now.")] = None,
    end_at: Annotated[str | None, typer.Option("--end", help="No task from this time on, such as 2030-01-01.")] = None,
    as_json: Json = False,
) -> None:
    """One series for each task of the file."""
    client, data = connect(), list[Any]()
    for task in read_tasks(file):
        body: dict[str, Any] = {"task_parameters": task, "period_s": every_s, "starts_at": start, "ends_at": end_at}
        answer = client.envelope("POST", "task_definition", "periodic_task/submit", json=body)
        data.append(answer.get("data"))
        if not as_json:
            say(answer.get("message", ""))
    if as_json:
        print_json(data)


def pause(ids: Ids, as_json: Json = False) -> None:
    """Pause."""
    _give("pause", ids, as_json=as_json)


def resume(ids: Ids, as_json: Json = False) -> None:
    """Resume."""
    _give("resume", ids, as_json=as_json)


def end(ids: Ids, as_json: Json = False) -> None:
    """End."""
    _give("end", ids, as_json=as_json)


def _give(verb: str, ids: list[str], *, as_json: bool) -> None:
    where = ("task_definition", "periodic_task", "periodic_id")
    give(verb, verb, ids, {}, as_json=as_json, where=where)
