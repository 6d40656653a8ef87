"""`orrery jobs`: jobs of a task, of a queue, in a state."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.commands.options import NARROW, Json, Limit, connect, help_text, rows_of
from services.cli.failures import Refused, WrongUsage
from services.cli.identifiers import read_ids
from services.cli.output import age, print_fitting, print_ids, print_json, print_rows, print_withheld, say_lines, told
from shared.model.batches import batches
from shared.states.job import MEANINGS

#: jobs killed with one request; a refusal names that many
AT_ONCE = 20
COLUMNS = (
    ("job", "job_id"),
    ("task", "task_id"),
    ("type", "job_type"),
    ("status", "status"),
    ("sub-status", lambda job: job.get("job_sub_status") or ""),
    ("attempt", "attempt_number"),
    ("priority", "current_priority"),
    ("queue", lambda job: f"{job.get('queue') or ''}/{job.get('resource_type')}"),
    ("changed", lambda job: age(job.get("state_change_time"))),
    ("heartbeat", lambda job: age(job.get("heartbeat_at"))),
    ("worker", "worker"),
    ("says", lambda job: (job.get("error_dialog") or "")[:60]),
)
#: left out where the terminal is narrow, in this order
MAY_GO = ("worker", "heartbeat", "priority", "says", "sub-status", "type", "attempt")


def register(app: typer.Typer) -> None:
    app.command("jobs", help=help_text(f"List jobs, the newest first. {NARROW}", "job_dispatch", "user"))(jobs)
    text = help_text("Kill jobs; every id is tried.", "job_dispatch", "user (own jobs), production or operator")
    app.command("kill-job", help=text)(kill_job)
    text = (
        "Debug mode: the pilot sends the end of the output, or of what tail, ls, ps or du print. It ends with the job."
    )
    app.command("debug", help=help_text(text, "job_dispatch", "user (own jobs), production or operator"))(debug)


def jobs(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[JOB...]", help="Job ids; - is standard input.")] = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Only jobs of this task (- is standard input).")
    ] = None,
    status: Annotated[str | None, typer.Option("--status", "-s", help="Only jobs in this state.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only jobs at this queue, or QUEUE/TYPE.")] = None,
    like: Annotated[
        int | None, typer.Option("--like", metavar="ID", min=1, help="Only jobs that failed of the same as this one.")
    ] = None,
    limit: Limit = 100,
    only_ids: Annotated[bool, typer.Option("--ids", help="Print ids only, one per line.")] = False,
    stdout: Annotated[
        str | None, typer.Option("--stdout", metavar="ID", help="The output of this job, which debug mode brings.")
    ] = None,
    as_json: Json = False,
) -> None:
    """One line per job; finished jobs come from the archive."""
    if stdout is not None:
        show_stdout(stdout, as_json)
        return
    if status is not None and status not in MEANINGS:
        raise WrongUsage(f"--status: value {status!r}: allowed are {', '.join(MEANINGS)}")
    client = connect()
    job_ids = read_ids(ids) if ids else None
    rows = []
    for task_id in read_ids([task]) if task else [None]:
        query = {"task_id": task_id, "status": status, "queue": queue, "like": like, "limit": limit, "job_ids": job_ids}
        rows += rows_of(client.get("job_dispatch", "job/list", **query), "jobs")
    if as_json:
        print_json(rows)
    elif only_ids:
        print_ids(rows, "job_id")
    else:
        print_fitting(rows, COLUMNS, may_go=MAY_GO, cut="queue")
        print_withheld(rows)
    missing = sorted(set(job_ids or ()) - {row.get("job_id") for row in rows})
    if missing and not (task or status or queue or like) and len(rows) < limit:
        raise Refused(f"there is no job {', '.join(map(str, missing))}")


def show_stdout(job: str, as_json: bool) -> None:
    """The end of a payload's output as the pilot sent it last."""
    (job_id,) = read_ids([job])[:1]
    found = connect().get("job_dispatch", "job/get_stdout", job_id=job_id)
    if as_json:
        print_json(found)
    else:
        say_lines(f"{str(found['stdout']).rstrip()}\n\nsent {age(found['reported_at'])} ago")


def debug(
    job: Annotated[str, typer.Argument(metavar="ID", help="The job.", show_default=False)],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND...]", help="tail FILE, ls [DIR], ps or du; none: the output."),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="End debug mode.")] = False,
    as_json: Json = False,
) -> None:
    """Told with the answer to the next report; `orrery jobs --stdout ID` shows what is sent."""
    if off and command:
        raise WrongUsage("--off: takes no command")
    (job_id,) = read_ids([job])[:1]
    wanted = "debugoff" if off else " ".join(command or ["debug"])
    data = connect().post("job_dispatch", "job/set_command", {"job_id": job_id, "command": wanted})
    told({"message": f"job {job_id}: {wanted}", "data": data}, as_json)


def kill_job(
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="Job ids; - reads them from standard input.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Kill; a pilot that has a job is told at its next report."""
    client, wanted, results = connect(), read_ids(ids), list[dict[str, object]]()
    for some in batches(wanted, AT_ONCE):
        try:
            answer = client.envelope("POST", "job_dispatch", "job/kill", json={"job_ids": some})
            killed, said = answer.get("data") or [], str(answer.get("message") or "")
        except Refused as refusal:
            killed, said = [], refusal.message
        for place, job_id in enumerate(some):
            done = place < len(killed) and bool(killed[place])
            reason = "" if done else next((one for one in said.split("; ") if f"job {job_id}:" in one), said)
            results.append({"job_id": job_id, "outcome": "killed" if done else "refused", "message": reason})
    print_rows(results, (("job", "job_id"), ("kill", "outcome"), ("", "message")), as_json=as_json)
    if any(one["outcome"] == "refused" for one in results):
        raise typer.Exit(Refused.exit_code)
