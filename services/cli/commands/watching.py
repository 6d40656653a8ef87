"""`orrery watch ID`: a progress bar until the task has ended."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from services.cli.client import Client
from services.cli.commands.options import Json, TaskId, connect, help_text
from services.cli.failures import Refused, Unreachable
from services.cli.identifiers import read_ids
from services.cli.output import console, print_json, say
from services.cli.progress import TaskCounts, task_progress
from shared.states.task import TaskStatus

ENDED: frozenset[TaskStatus] = frozenset({"done", "finished", "failed", "broken", "aborted", "exhausted"})
GOOD: frozenset[TaskStatus] = frozenset({"done", "finished"})

__all__ = ["ENDED", "GOOD", "register", "watch"]


def register(app: typer.Typer) -> None:
    app.command(
        "watch",
        help=help_text(
            "Follow one task until it ends; exit code 0 if it is done or finished, 1 if not.", "task_definition", "user"
        ),
    )(watch)


def watch(
    task_id: TaskId,
    every_s: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between looks.")] = 1.0,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0.1, help="Give up after so many seconds.")
    ] = None,
    as_json: Json = False,
) -> None:
    """A bar in a terminal, a line for each change elsewhere, one JSON document at the end with --json."""
    wanted = read_ids([task_id])[0]
    client = connect()
    follow = _quietly if as_json else _with_bar if sys.stdout.isatty() else _with_lines
    deadline = time.monotonic() + timeout_s if timeout_s else None
    last = follow(client, wanted, every_s, deadline)
    if as_json:
        print_json(last.as_dict())
    if last.status not in ENDED:
        raise Refused(f"task {wanted} is still {last.status} after {timeout_s or 0:g} s (--timeout)")
    if last.status not in GOOD:
        raise typer.Exit(1)


def _looks(client: Client, task_id: int, every_s: float, deadline: float | None) -> Any:
    """One look after the other until the task has ended; a service that is away for a moment is asked again."""
    missed = 0
    while True:
        try:
            progress = task_progress(client, task_id)
            missed = 0
        except Unreachable:
            missed += 1
            if missed > 10:
                raise
            time.sleep(every_s)
            continue
        yield progress
        if progress.status in ENDED or (deadline is not None and time.monotonic() > deadline):
            return
        time.sleep(every_s)


def _quietly(client: Client, task_id: int, every_s: float, deadline: float | None) -> TaskCounts:
    *_, last = _looks(client, task_id, every_s, deadline)
    return last


def _with_lines(client: Client, task_id: int, every_s: float, deadline: float | None) -> TaskCounts:
    shown = ""
    for last in _looks(client, task_id, every_s, deadline):
        line = last.line()
        if line != shown:
            say(line)
            shown = line
    return last


def _with_bar(client: Client, task_id: int, every_s: float, deadline: float | None) -> TaskCounts:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console()) as bars:
        bar = bars.add_task(f"task {task_id}", total=None)
        for last in _looks(client, task_id, every_s, deadline):
            bars.update(
                bar,
                description=f"task {task_id} {last.status}",
                total=last.files_total or None,
                completed=last.files_finished + last.files_failed,
            )
    return last
