"""`orrery watchdog list|run`: what the watchdog does every so often, and doing it now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from services.cli.commands.options import NARROW, Json, connect, help_text, rows_of
from services.cli.output import age, duration, print_json, print_rows, say

COLUMNS = (
    ("action", lambda row: "/".join(filter(None, (row["action"], row.get("partition"))))),
    ("every", lambda row: duration(row["period_s"])),
    ("last run", lambda row: age(row["last_run_at"])),
    ("late", lambda row: duration(row["late_s"]) if row["late_s"] else ""),
    ("last did", lambda row: age(row["last_done_at"])),
    ("rows", "n_done"),
    ("does", "does"),
)


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="What the watchdog does every so often.")
    text = help_text(f"List its actions: period, last run, what each did last. {NARROW}", "watchdog", "operator")
    group.command("list", help=text)(list_all)
    does = "Run an action now, and tell what it found and did with ids; --dry-run changes nothing."
    group.command("run", help=help_text(does, "watchdog", "operator"))(run)
    app.add_typer(group, name="watchdog")


def list_all(as_json: Json = False) -> None:
    """One line per action."""
    rows = rows_of(connect().get("watchdog", "watchdog/list"))
    print_rows(rows, COLUMNS, may_go=("last did", "rows"), cut="does", as_json=as_json)


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An action, as `orrery watchdog list` calls it.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Run one action."""
    body = {"action": name, "dry_run": dry_run}
    answer = connect().envelope("POST", "watchdog", "watchdog/run", json=body)
    if as_json:
        print_json(answer["data"])
        return
    say(answer["message"])
    for one in answer["data"]["did"]:
        say(f"  {_told(one)}")


def _told(one: Mapping[str, Any]) -> str:
    """An event with its ids, on one line."""
    about = [f"{name} {_ids(value)}" for name, value in one.items() if name not in ("event", "reason")]
    why = f": {one['reason']}" if one.get("reason") else ""
    return f"{one['event']} {', '.join(about)}{why}"


def _ids(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
