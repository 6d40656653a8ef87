"""`orrery check`: the invariants, as SQL on the live database; each offending row is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from rich.text import Text

from services.cli.client import Client
from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.output import console, print_json, print_table
from shared.model.visible_text import visible

CHECK_TIMEOUT_S = 120.0


def register(app: typer.Typer) -> None:
    app.command("check", help=help_text("Check the invariants of the live system.", "watchdog", "operator"))(check)


def check(as_json: Json = False) -> None:
    """Exit code 1 if an invariant is broken."""
    report = run_check(connect())
    if as_json:
        print_json(report)
    else:
        show_check(report)
    if violations(report):
        raise typer.Exit(1)


def run_check(client: Client) -> Any:
    """The watchdog's report: it answers part by part, for all tasks together that takes long."""
    report = client.call("GET", "watchdog", "check", timeout_s=CHECK_TIMEOUT_S)
    after = report.get("after_task_id") if isinstance(report, Mapping) else None
    while after is not None:
        part = client.call("GET", "watchdog", "check", params={"after_task_id": after}, timeout_s=CHECK_TIMEOUT_S)
        report, after = _joined(report, part), part.get("after_task_id")
    return report


def _joined(report: Any, part: Any) -> Any:
    """Two parts of a report: an invariant holds where it does in both."""
    of_part = {one["invariant"]: one for one in part["invariants"]}
    return {
        **report,
        "violations": [*report["violations"], *part["violations"]],
        "invariants": [
            {
                **one,
                "ok": one["ok"] and of_part[one["invariant"]]["ok"],
                "n_violations": one["n_violations"] + of_part[one["invariant"]]["n_violations"],
            }
            for one in report["invariants"]
        ],
        "after_task_id": part["after_task_id"],
    }


def invariants_of(report: Any) -> list[dict[str, Any]]:
    """One row per invariant."""
    return rows_of(report, "invariants", "checks", "results")


def violations(report: Any) -> list[dict[str, Any]]:
    """The invariants that are broken, or the offending rows where the report lists only those."""
    if isinstance(report, Mapping) and isinstance(report.get("violations"), list):
        return [dict(one) if isinstance(one, Mapping) else {"row": one} for one in report["violations"]]
    return [row for row in invariants_of(report) if row.get("violations") or row.get("ok") is False or row.get("rows")]


def show_check(report: Any) -> None:
    """A line for each invariant, then every offending row."""
    broken = violations(report)
    rows = invariants_of(report)
    if rows and any("invariant" in row or "name" in row for row in rows):
        print_table(
            rows,
            (
                ("invariant", lambda row: row.get("invariant", row.get("name"))),
                ("says", _meaning),
                ("", lambda row: "holds" if row.get("ok", True) else "broken"),
            ),
        )
    for row in broken:
        console().print(Text.assemble(("broken", "red"), " ", visible(str(row.get("text", row)))))
    if broken:
        console().print("invariants are broken", style="bold red")
    else:
        console().print("all invariants hold", style="bold green")


def _meaning(row: Mapping[str, Any]) -> Any:
    return row.get("meaning", row.get("description", row.get("says")))
