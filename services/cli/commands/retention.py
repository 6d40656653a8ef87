"""`orrery retention`: what grows, and what is dropped when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.commands.status import size
from services.cli.output import age, print_json, print_table


def register(app: typer.Typer) -> None:
    does = (
        "Show the rules of retention: size, oldest row, growth a day, and what is dropped next. Exit code 1 if one has "
        "90 % of the size that it may have."
    )
    app.command("retention", help=help_text(does, "watchdog", "operator"))(retention)


def retention(as_json: Json = False) -> None:
    """Show one line for each rule; its days are the parameter maintenance.<RULE>_KEEP_DAYS."""
    rows = rows_of(connect().get("watchdog", "retention"), "retention", "rules")
    if as_json:
        print_json(rows)
    else:
        print_table(rows, COLUMNS)
    if any(row["is_nearly_full"] for row in rows):
        raise typer.Exit(1)


def _size(row: Mapping[str, Any]) -> str:
    most = f" of {row['most_gb']} GB" if row["most_gb"] else ""
    return f"{size(row['n_bytes'])}{most}{': nearly full' if row['is_nearly_full'] else ''}"


def _growth(row: Mapping[str, Any]) -> str:
    change = row["bytes_a_day"]
    if change is None:
        return "not known yet"
    return f"{'-' if change < 0 else ''}{size(abs(change))}"


def _kept(row: Mapping[str, Any]) -> str:
    if row["keep_days"] is None:
        return "for ever"
    return f"{row['keep_days']} d" + (f" (for {row['because_of']})" if row["because_of"] else "")


def _waits(row: Mapping[str, Any]) -> str:
    n_tasks = row["n_waiting_tasks"]
    return f"{n_tasks} tasks, as {row['waiting_task_id']}" if n_tasks else ""


COLUMNS = (
    ("rule", "rule"),
    ("kept", _kept),
    ("size", _size),
    ("grows a day", _growth),
    ("oldest", lambda row: age(row["oldest_at"])),
    ("next drop", lambda row: (row["next_drop_at"] or "")[:16].replace("T", " ")),
    ("dropped", lambda row: f"{row['n_dropped']:,}"),
    ("kept for", _waits),
    ("never", "never"),
    ("then", lambda row: row["then"] or ""),
)
