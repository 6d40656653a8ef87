"""Tables for people, JSON for programs, problems on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from services.cli.failures import CommandFailure

Column = tuple[str, str | Callable[[Mapping[str, Any]], Any]]

#: characters that are left of a text that is cut
SHORTEST_CUT = 12
#: colours of states, so that trouble is seen at a glance
COLOURS = {
    "done": "green",
    "finished": "green",
    "running": "cyan",
    "scouting": "cyan",
    "failed": "red",
    "broken": "red",
    "aborted": "red",
    "exhausted": "magenta",
    "pending": "yellow",
    "throttled": "yellow",
    "paused": "yellow",
    "assigning": "yellow",
    "online": "green",
    "holds": "green",
    "offline": "red",
}


def console(*, error: bool = False) -> Console:
    """A console as wide as the terminal.

    Tables for a program are as wide as COLUMNS says, or 200 columns where that is not set; other lines for a program
    are never wrapped.
    """
    stream = sys.stderr if error else sys.stdout
    if stream.isatty():
        return Console(file=stream, highlight=False)
    columns = "" if error else os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and int(columns) > 0 else 200
    return Console(file=stream, width=width, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Exactly one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=1, default=str) + "\n")


def told(answer: Mapping[str, Any], as_json: bool = False) -> None:
    """What the service says, as a line or as JSON with its data."""
    if as_json:
        print_json({"message": answer.get("message") or "done", "data": answer.get("data")})
    else:
        typer.echo(answer.get("message") or "done")


def print_ids(rows: Iterable[Mapping[str, Any]], key: str) -> None:
    """One id per line, for other verbs to read; nothing where there is none."""
    sys.stdout.writelines(f"{row.get(key)}\n" for row in rows)


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, title: str | None = None) -> None:
    """Rows under headings; a column is a key of the row or a function of it."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for heading, _ in columns:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(cell(row.get(what) if isinstance(what, str) else what(row)) for _, what in columns))
    console().print(table)


def print_fitting(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, may_go: Sequence[str], cut: str
) -> None:
    """The same without wrapped lines.

    While the table is wider than the terminal the columns with the headings `may_go` are left out, the first one first;
    if that is not enough, the texts of the column `cut` end in "...".
    """
    found = {
        heading: [Text.from_markup(cell(row.get(what) if isinstance(what, str) else what(row))) for row in rows]
        for heading, what in columns
    }
    shown, width = console(), console().width
    for heading in may_go:
        if _width(found) > width:
            found.pop(heading, None)
    room = max(SHORTEST_CUT, _longest(cut, found[cut]) - max(0, _width(found) - width))
    found[cut] = [text if len(text) <= room else text[: room - 3].append("...") for text in found[cut]]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in found:
        table.add_column(heading, no_wrap=True)
    for texts in zip(*found.values(), strict=True):
        table.add_row(*texts)
    shown.print(table)


def _longest(heading: str, texts: Sequence[Text]) -> int:
    return max(len(heading), *(len(text) for text in texts), 0)


def _width(columns: Mapping[str, Sequence[Text]]) -> int:
    """Characters of a table: two stand between columns."""
    return sum(_longest(heading, texts) + 2 for heading, texts in columns.items()) - 2


def print_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Two columns: name and value; empty values are left out."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        if value not in (None, "", [], {}):
            table.add_row(name, cell(value))
    console().print(table)


def cell(value: Any) -> str:
    """One value as people read it; states are coloured."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, Mapping | list | tuple):
        return escape(json.dumps(value, default=str))
    text = escape(str(value))
    return f"[{COLOURS[text]}]{text}[/]" if text in COLOURS else text


def age(value: Any, now: datetime | None = None) -> str:
    """How long ago a time was (or how long until it is), in its largest unit."""
    if not value:
        return ""
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return str(value)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    text = duration(abs(seconds))
    return f"in {text}" if seconds < 0 else text


def duration(seconds: float) -> str:
    """90 -> 1.5 min."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def print_failure(failure: CommandFailure, *, as_json: bool = False) -> None:
    """What went wrong, with every problem on a line of its own."""
    if as_json:
        problems = [{"field": one.field, "value": one.value, "allowed": one.allowed} for one in failure.problems]
        print_json({"success": False, "message": failure.message, "problems": problems})
        return
    shown = console(error=True)
    shown.print(f"[bold red]orrery:[/] {escape(failure.message)}")
    for problem in failure.problems:
        shown.print(f"  - {escape(str(problem))}")


def fail(failure: CommandFailure, *, as_json: bool = False) -> typer.Exit:
    """Print it and give the exception that ends the command with the right code."""
    print_failure(failure, as_json=as_json)
    return typer.Exit(failure.exit_code)
