"""Commands on tasks: kill, finish, retry, pause, resume, set-priority, set-share; every id is tried."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from services.cli.commands.options import Json, TaskIds, connect, help_text
from services.cli.failures import CommandFailure, Refused, WrongUsage
from services.cli.identifiers import read_ids
from services.cli.output import print_json, print_table

_HELP = {
    "kill": "Kill tasks and all their jobs.",
    "finish": "Finish tasks with what they have: no new jobs.",
    "retry": "Try again what failed in tasks that ended.",
    "pause": "Stop making and starting jobs until the task is resumed.",
    "resume": "Go on with paused or throttled tasks.",
    "set-rule": "Change a split rule of live tasks, from their next jobs on.",
}


def register(app: typer.Typer) -> None:
    app.command("set-rule", help=help_text(_HELP["set-rule"], "task_definition", "user (own tasks), production"))(
        set_rule
    )
    for name, function in (("kill", kill), ("finish", finish), ("retry", retry), ("pause", pause), ("resume", resume)):
        app.command(name, help=help_text(_HELP[name], "task_definition", "user (own tasks), production or operator"))(
            function
        )
    text = help_text(
        "Change the priority of tasks, and of their jobs while they wait; with --jobs of single jobs.",
        "task_definition, job_dispatch",
        "user (own ones, as far as the class of work allows), production or operator",
    )
    app.command("set-priority", help=text, context_settings={"ignore_unknown_options": True})(set_priority)
    text = help_text(
        "Move tasks, with their jobs that wait, to another share.", "task_definition", "production or operator"
    )
    app.command("set-share", help=text)(set_share)


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


def set_priority(
    priority: Annotated[int, typer.Argument(help="The larger, the earlier within a share.")],
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids; - reads them from standard input.")],
    jobs: Annotated[bool, typer.Option("--jobs", help="The ids are those of jobs.")] = False,
    as_json: Json = False,
) -> None:
    """Change priorities."""
    where = ("job_dispatch", "job") if jobs else ("task_definition", "task")
    _command("change_priority", ids, {"priority": priority}, as_json=as_json, where=where)


def set_share(
    share: Annotated[str, typer.Argument(help="A leaf of the shares.")], ids: TaskIds, as_json: Json = False
) -> None:
    """Change shares."""
    _command("change_share", ids, {"share": share}, as_json=as_json)


def set_rule(
    rule: Annotated[
        str,
        typer.Argument(
            metavar="NAME=VALUE", help="A parameter or its two letters: nFilesPerJob=5, NF=5; nothing after =: without."
        ),
    ],
    ids: TaskIds,
    as_json: Json = False,
) -> None:
    """Set a rule."""
    name, equals, value = rule.partition("=")
    if not equals or not name:
        raise WrongUsage(f"{rule!r}: allowed: NAME=VALUE, such as nFilesPerJob=5")
    _command("change_split_rule", ids, {"attribute_name": name, "attribute_value": _value(value)}, as_json=as_json)


def _value(text: str) -> int | bool | str | None:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.removeprefix("-").isdigit() else text or None


def _command(
    verb: str,
    ids: list[str],
    body: dict[str, Any],
    *,
    as_json: bool,
    where: tuple[str, str] = ("task_definition", "task"),
) -> None:
    """`where`: the service, and what the ids are those of."""
    client, (service, subject) = connect(), where
    results: list[dict[str, Any]] = []
    first_failure: CommandFailure | None = None
    for one in read_ids(ids):
        row: dict[str, Any] = {f"{subject}_id": one}
        try:
            answer = client.envelope("POST", service, f"{subject}/{verb}", json={**row, **body})
            results.append({**row, "outcome": "accepted", "message": answer.get("message", "")})
        except Refused as failure:
            first_failure = first_failure or failure
            why = "; ".join(map(str, failure.problems)) or failure.message
            results.append({**row, "outcome": "refused", "message": why})
    if as_json:
        print_json(results)
    else:
        print_table(results, ((subject, f"{subject}_id"), (verb.replace("_", " "), "outcome"), ("", "message")))
    if first_failure is not None:
        raise typer.Exit(first_failure.exit_code)
