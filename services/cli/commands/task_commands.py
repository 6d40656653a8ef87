"""`orrery kill|finish|retry|pause|resume ID...`: commands on tasks; every id is tried."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from services.cli.commands.options import Json, TaskIds, connect, help_text
from services.cli.failures import CommandFailure, Refused
from services.cli.identifiers import read_ids
from services.cli.output import print_json, print_table

_HELP = {
    "kill": "Kill tasks and all their jobs.",
    "finish": "Finish tasks with what they have: no new jobs.",
    "retry": "Try again what failed in tasks that ended.",
    "pause": "Stop making and starting jobs until the task is resumed.",
    "resume": "Go on with paused or throttled tasks.",
}


def register(app: typer.Typer) -> None:
    for name, function in (("kill", kill), ("finish", finish), ("retry", retry), ("pause", pause), ("resume", resume)):
        app.command(name, help=help_text(_HELP[name], "task_definition", "user (own tasks), production or operator"))(
            function
        )


def kill(ids: TaskIds, as_json: Json = False) -> None:
    """Kill."""
    _command("kill", ids, {}, as_json=as_json)


def finish(
    ids: TaskIds,
    hard: Annotated[bool, typer.Option("--hard", help="Kill running jobs instead of waiting for them.")] = False,
    as_json: Json = False,
) -> None:
    """Finish."""
    _command("finish", ids, {"soft": not hard}, as_json=as_json)


def retry(ids: TaskIds, as_json: Json = False) -> None:
    """Retry."""
    _command("retry", ids, {}, as_json=as_json)


def pause(ids: TaskIds, as_json: Json = False) -> None:
    """Pause."""
    _command("pause", ids, {}, as_json=as_json)


def resume(ids: TaskIds, as_json: Json = False) -> None:
    """Resume."""
    _command("resume", ids, {}, as_json=as_json)


def _command(verb: str, ids: list[str], body: dict[str, Any], *, as_json: bool) -> None:
    client = connect()
    results: list[dict[str, Any]] = []
    first_failure: CommandFailure | None = None
    for task_id in read_ids(ids):
        try:
            answer = client.envelope("POST", "task_definition", f"task/{verb}", json={"task_id": task_id, **body})
            results.append({"task_id": task_id, "outcome": "accepted", "message": answer.get("message", "")})
        except Refused as failure:
            first_failure = first_failure or failure
            results.append({"task_id": task_id, "outcome": "refused", "message": failure.message})
    if as_json:
        print_json(results)
    else:
        print_table(results, (("task", "task_id"), (verb, "outcome"), ("", "message")))
    if first_failure is not None:
        raise typer.Exit(first_failure.exit_code)
