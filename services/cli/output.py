"""Tables for people, JSON for programs, problems on standard error.

All that a verb prints goes through here: what others wrote is text, whatever is in it (`visible`), and no markup.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from services.cli.failures import CommandFailure
from shared.model.visible_text import visible

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


class Screen(Console):
    """A console on which texts are texts: no markup, no names of pictures, no character that is not seen."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As every console does it; only its own colours and movements of the cursor are left as they are."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text, lines=True), style, control)


def console(*, error: bool = False) -> Screen:
    """A console as wide as the terminal.

    Tables for a program are as wide as COLUMNS says, or 200 columns where that is not set; other lines for a program
    are never wrapped.
    """
    stream = sys.stderr if error else sys.stdout
    if stream.isatty():
        return Screen(file=stream)
    columns = "" if error else os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and int(columns) > 0 else 200
    return Screen(file=stream, width=width, soft_wrap=True)


def say(text: Any = "") -> None:
    """One line on standard output, whatever the text is."""
    say_lines(visible(str(text)))


def say_lines(text: str) -> None:
    """A text of several lines on standard output, with the tabs in it; a reader of a pipe gets it at once."""
    sys.stdout.write(visible(text, lines=True) + "\n")
    sys.stdout.flush()


def warn(text: str) -> None:
    """A line on standard error that the command goes on after."""
    sys.stderr.write(f"warning: {visible(text)}\n")


def print_json(value: Any) -> None:
    """Exactly one JSON document on standard output, in which all but ASCII is an escape."""
    say_lines(json_text(value, indent=1))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON without a character that is not seen."""
    return json.dumps(value, indent=indent, default=str).replace("\x7f", r"\u007f")


def told(answer: Mapping[str, Any], as_json: bool = False) -> None:
    """What the service says, as a line or as JSON with its data."""
    if as_json:
        print_json({"message": answer.get("message") or "done", "data": answer.get("data")})
    else:
        say(answer.get("message") or "done")


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    as_json: bool,
    may_go: Sequence[str] = (),
    cut: str | None = None,
) -> None:
    """Print rows as JSON or as a table; with `cut` as one without wrapped lines (`print_fitting`)."""
    if as_json:
        print_json(rows)
    elif cut is not None:
        print_fitting(rows, columns, may_go=may_go, cut=cut)
    else:
        print_table(rows, columns)


def print_ids(rows: Iterable[Mapping[str, Any]], key: str) -> None:
    """One id per line, for other verbs to read; nothing where there is none."""
    for row in rows:
        say(row.get(key))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, title: str | None = None) -> None:
    """Rows under headings; a column is a key of the row or a function of it."""
    table = Table(
        title=None if title is None else visible(title),
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    for heading, _ in columns:
        table.add_column(visible(heading), overflow="fold")
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
        heading: [cell(row.get(what) if isinstance(what, str) else what(row)) for row in rows]
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
        table.add_column(visible(heading), no_wrap=True)
    for texts in zip(*found.values(), strict=True):
        table.add_row(*texts)
    shown.print(table)


def print_withheld(rows: Sequence[Mapping[str, Any]]) -> None:
    """How many of the rows show their state alone, and to whom the rest is told: one line for each VO."""
    for text, n_rows in Counter(row["withheld"] for row in rows if row.get("withheld")).items():
        say(f"of {n_rows} the state alone: {text}")


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
            table.add_row(visible(name), cell(value))
    console().print(table)


def cell(value: Any) -> Text:
    """One value as people read it; states are coloured."""
    text = visible(_in_words(value))
    return Text(text, style=COLOURS.get(text, "") if isinstance(value, str) else "")


def _in_words(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, Mapping | list | tuple):
        return json_text(value)
    return str(value)


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
    shown.print(Text.assemble(("orrery:", "bold red"), " ", visible(failure.message)))
    for problem in failure.problems:
        shown.print(f"  - {visible(str(problem))}")


def fail(failure: CommandFailure, *, as_json: bool = False) -> typer.Exit:
    """Print it and give the exception that ends the command with the right code."""
    print_failure(failure, as_json=as_json)
    return typer.Exit(failure.exit_code)
