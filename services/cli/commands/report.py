"""`orrery report`: a task on one page that needs no server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from services.cli.commands.options import Json, TaskId, connect, help_text
from services.cli.failures import WrongUsage
from services.cli.identifiers import STANDARD_INPUT, read_ids
from services.cli.output import print_json, say, say_lines


def register(app: typer.Typer) -> None:
    does = (
        "Write a task on one page: what it asked, where it ran and why, its jobs over time, how well they ran, what "
        "failed, how to repeat it. The file needs no server and has no scripts."
    )
    app.command("report", help=help_text(does, "task_definition, job_dispatch", "user"))(report)


def report(
    task_id: TaskId,
    html: Annotated[bool, typer.Option("--html", help="As a page for a browser, the only form for people.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Else task-ID.html; - is standard output.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Everything on it is told to its caller."""
    from services.cli.task_report.asking import asked
    from services.cli.task_report.page import html_of, report_of

    if html == as_json:
        raise WrongUsage("report: one of --html and --json is needed")
    [wanted] = read_ids([task_id])
    found, now = asked(connect(), wanted), datetime.now(UTC)
    if as_json:
        print_json(report_of(found, now))
        return
    text, path = html_of(found, now), output or f"task-{wanted}.html"
    if path == STANDARD_INPUT:
        say_lines(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongUsage(f"--output: value {path!r}: cannot be written: {error}") from None
    say(f"task {wanted} written to {path}")
