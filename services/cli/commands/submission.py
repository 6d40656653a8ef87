"""`orrery submit`: tasks from JSON files, one or many."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.client import Client
from services.cli.commands.options import Json, connect, help_text
from services.cli.failures import CommandFailure, Refused, WrongUsage
from services.cli.identifiers import STANDARD_INPUT
from services.cli.output import print_failure, print_json, print_table

SHOWN_NAME_LENGTH = 140

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Files with one task, a list of tasks or a task per line; - is standard input."
    ),
]


def register(app: typer.Typer) -> None:
    app.command("submit", help=help_text("Submit tasks.", "task_definition", "user"))(submit)


def submit(
    files: Files,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, register nothing.")] = False,
    parent: Annotated[int | None, typer.Option("--parent", min=1, help="Id of the task these tasks continue.")] = None,
    as_json: Json = False,
) -> None:
    """Every task is tried; the exit code is that of the first refusal."""
    tasks = [(name, task) for name in files for task in read_tasks(name)]
    client = connect()
    results: list[dict[str, Any]] = []
    first_failure: CommandFailure | None = None
    for name, task in tasks:
        try:
            results.append(submit_one(client, task, parent=parent, dry_run=dry_run) | {"file": name})
        except Refused as failure:
            first_failure = first_failure or failure
            problems = [{"field": one.field, "value": one.value, "allowed": one.allowed} for one in failure.problems]
            results.append(_named(task) | {"file": name, "refused": failure.message, "problems": problems})
            if not as_json:
                print_failure(Refused(f"{name}: {_label(task)}: {failure.message}", failure.problems))
    if as_json:
        print_json(results)
    elif any("refused" not in result for result in results):
        accepted = [result for result in results if "refused" not in result]
        print_table(accepted, (("task", "task_id"), ("name", "task_name"), ("", "message")))
    if first_failure is not None:
        raise typer.Exit(first_failure.exit_code)


def submit_one(
    client: Client, task: dict[str, Any], *, parent: int | None = None, dry_run: bool = False
) -> dict[str, Any]:
    """Submit one task; its id and name. Raises Refused with every problem."""
    body: dict[str, Any] = {"task_parameters": task}
    if parent is not None:
        body["parent_tid"] = parent
    if dry_run:
        body["dry_run"] = True
    answer = client.envelope("POST", "task_definition", "task/submit", json=body)
    data = answer.get("data")
    task_id = data.get("task_id", data.get("jediTaskID")) if isinstance(data, dict) else data
    return {"task_id": task_id, **_named(task), "message": answer.get("message", "")}


def _named(task: dict[str, Any]) -> dict[str, Any]:
    return {"task_name": task.get("taskName", "")}


def _label(task: dict[str, Any]) -> str:
    """The task's name on one line, whatever was given for it."""
    name = str(task.get("taskName", "(no taskName)")).encode("utf-8", "backslashreplace").decode()
    return name if len(name) <= SHOWN_NAME_LENGTH else f"{name[:SHOWN_NAME_LENGTH]}..."


def read_tasks(name: str) -> list[dict[str, Any]]:
    """The tasks of one file: an object, a list of objects, or one object per line. Raises WrongUsage."""
    try:
        text = sys.stdin.read() if name == STANDARD_INPUT else _text_of(Path(name))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{name}: cannot be read: {error}") from None
    shown = "standard input" if name == STANDARD_INPUT else name
    if not text.strip():
        raise WrongUsage(f"{shown}: is empty; a task or a list of tasks is needed")
    try:
        content = json.loads(text)
    except RecursionError:
        raise WrongUsage(f"{shown}: lists and objects are nested too deeply") from None
    except ValueError as error:
        content = _task_per_line(text, shown, error)
    tasks = content if isinstance(content, list) else [content]
    for index, task in enumerate(tasks):
        if not isinstance(task, dict):
            raise WrongUsage(f"{shown}: task {index + 1}: value {task!r}: must be an object of task parameters")
    if not tasks:
        raise WrongUsage(f"{shown}: no task in it")
    return [
        task.get("task_parameters", task) if set(task) <= {"task_parameters", "parent_tid"} else task for task in tasks
    ]


def _text_of(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def _task_per_line(text: str, shown: str, of_whole: ValueError) -> list[Any]:
    """A task on each line. Raises WrongUsage with the line that is wrong, or what is wrong with the whole."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    tasks: list[Any] = []
    for number, line in lines:
        try:
            tasks.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if not tasks:
                raise WrongUsage(f"{shown}: not JSON: {of_whole}") from None
            raise WrongUsage(f"{shown}: line {number}: not JSON: {error}") from None
    return tasks
