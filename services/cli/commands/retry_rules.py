"""`orrery retry-rules list|load|set|remove`: what is done after a job failed with an error."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from services.cli.commands.accounts import Fields, File, given_fields, list_in
from services.cli.commands.options import NARROW, Json, connect, help_text, rows_of
from services.cli.output import print_rows, told

COLUMNS = (
    ("rule", "rule_id"),
    ("source", "source"),
    ("code", "code"),
    ("pattern", "pattern"),
    ("action", "action"),
    ("parameters", lambda row: ", ".join(f"{name}={value}" for name, value in (row.get("parameters") or {}).items())),
    ("architecture", "architecture"),
    ("release", "release"),
    ("work queue", "work_queue_id"),
    ("until", "expires_at"),
    ("active", "is_active"),
    ("jobs", "n_jobs"),
    ("note", "note"),
)
#: left out where the terminal is narrow, in this order
MAY_GO = ("until", "work queue", "release", "architecture", "note", "active", "parameters")
#: of a listed rule, what is no part of it
COUNTED = "n_jobs"
RuleId = Annotated[int, typer.Argument(metavar="RULE", help="The number of a rule.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Rules about errors of jobs: list, load, set, remove.")
    text = help_text(f"List rules, and how many failed jobs each decided about. {NARROW}", "job_generation", "user")
    group.command("list", help=text)(list_all)
    text = help_text("Replace all rules by those of a file.", "job_generation", "operator")
    group.command("load", help=text)(load)
    group.command("set", help=help_text("Make or change one.", "job_generation", "operator"))(set_one)
    group.command("remove", help=help_text("Forget one.", "job_generation", "operator"))(remove)
    app.add_typer(group, name="retry-rules")


def list_all(as_json: Json = False) -> None:
    """One line per rule."""
    rows = rows_of(connect().get("job_generation", "retry_rule/list"))
    print_rows(rows, COLUMNS, may_go=MAY_GO, cut="pattern", as_json=as_json)


def load(file: File, as_json: Json = False) -> None:
    """All rules."""
    body = {"retry_rules": [_rule(one) for one in list_in(file, "retry_rules")]}
    told(connect().envelope("POST", "job_generation", "retry_rule/load", json=body), as_json)


def set_one(rule_id: RuleId, fields: Fields = None, as_json: Json = False) -> None:
    """One rule: what is not given stays."""
    client = connect()
    rows = rows_of(client.get("job_generation", "retry_rule/list"))
    before = next((row for row in rows if row.get("rule_id") == rule_id), {})
    body = {"retry_rule": {**_rule(before), "rule_id": rule_id, **given_fields(fields or [])}}
    told(client.envelope("POST", "job_generation", "retry_rule/set", json=body), as_json)


def remove(rule_id: RuleId, as_json: Json = False) -> None:
    """One rule."""
    told(connect().envelope("POST", "job_generation", "retry_rule/remove", json={"rule_id": rule_id}), as_json)


def _rule(row: Any) -> Any:
    """A rule as it was listed, without what is only counted."""
    return {name: value for name, value in row.items() if name != COUNTED} if isinstance(row, dict) else row
