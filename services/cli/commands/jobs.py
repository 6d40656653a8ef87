"""`orrery jobs`: jobs of a task, of a queue, in a state."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.commands.options import Json, Limit, connect, help_text, rows_of
from services.cli.failures import Refused
from services.cli.identifiers import read_ids
from services.cli.output import age, print_json, print_table

COLUMNS = (
    ("job", "job_id"),
    ("task", "task_id"),
    ("type", "job_type"),
    ("status", "status"),
    ("attempt", "attempt_number"),
    ("priority", "current_priority"),
    ("queue", lambda job: f"{job.get('queue')}/{job.get('resource_type')}"),
    ("changed", lambda job: age(job.get("state_change_time"))),
    ("heartbeat", lambda job: age(job.get("heartbeat_at"))),
    ("worker", "worker"),
    ("says", lambda job: (job.get("error_dialog") or "")[:60]),
)


def register(app: typer.Typer) -> None:
    app.command("jobs", help=help_text("List jobs, the newest first.", "job_dispatch", "user"))(jobs)


def jobs(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[JOB...]", help="Job ids; - is standard input.")] = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Only jobs of this task (- is standard input).")
    ] = None,
    status: Annotated[str | None, typer.Option("--status", "-s", help="Only jobs in this state.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only jobs at this queue.")] = None,
    limit: Limit = 100,
    only_ids: Annotated[bool, typer.Option("--ids", help="Print ids only, one per line.")] = False,
    as_json: Json = False,
) -> None:
    """One line per job; finished jobs come from the archive."""
    client = connect()
    job_ids = read_ids(ids) if ids else None
    rows = []
    for task_id in read_ids([task]) if task else [None]:
        query = {"task_id": task_id, "status": status, "queue": queue, "limit": limit, "job_ids": job_ids}
        rows += rows_of(client.get("job_dispatch", "job/list", **query), "jobs")
    if as_json:
        print_json(rows)
    elif only_ids:
        typer.echo("\n".join(str(row.get("job_id")) for row in rows))
    else:
        print_table(rows, COLUMNS)
    missing = sorted(set(job_ids or ()) - {row.get("job_id") for row in rows})
    if missing and not (task or status or queue) and len(rows) < limit:
        raise Refused(f"there is no job {', '.join(map(str, missing))}")
