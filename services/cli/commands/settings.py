"""`orrery settings`: every environment variable that something here reads."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

import typer

from services.cli.commands.options import Json
from services.cli.output import print_fitting, print_json

#: values that are not shown, of variables that hold a secret; of the addresses of servers the password alone
SECRET = ("_TOKEN", "_KEY", "_PASSWORD")
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):.*@")
COLUMNS = (
    ("variable", "variable"),
    ("read by", "read_by"),
    ("default", "default"),
    ("here", "value"),
    ("meaning", "meaning"),
)
MAY_GO = ("default", "read by")


def register(app: typer.Typer) -> None:
    does = (
        "List every environment variable: who reads it, its default, its value here, what it is for. Runtime "
        "parameters, which change without a restart, are in `orrery config list --all`."
    )
    app.command("settings", help=f"{does}\n\nService: none. Role: none.")(settings)


def settings(
    only_set: Annotated[bool, typer.Option("--set", help="Only those that are set here.")] = False,
    as_json: Json = False,
) -> None:
    """Those of all services first, then of single ones, of the command line and of the containers."""
    rows = [one for one in variables() if not only_set or one["value"] is not None]
    if as_json:
        print_json(rows)
    else:
        print_fitting(rows, COLUMNS, may_go=MAY_GO, cut="meaning")


def variables() -> list[dict[str, Any]]:
    """A row for each."""
    from services.console.environment import ConsoleSettings
    from services.job_dispatch.environment import DispatchSettings
    from services.task_definition.environment import TaskDefinitionSettings
    from shared.config.settings import PREFIX, ListeningSettings, Settings
    from shared.config.variables import OTHERS

    rows, seen = [], set[str]()
    for settings_class, reader in (
        (ListeningSettings, "every service, gateway"),
        (Settings, "every service"),
        (TaskDefinitionSettings, "task_definition"),
        (DispatchSettings, "job_dispatch"),
        (ConsoleSettings, "console"),
    ):
        for name, field in settings_class.model_fields.items():
            if name not in seen:
                seen.add(name)
                default = "needed" if field.is_required() else _shown(field.default)
                rows.append(_row(PREFIX + name.upper(), reader, default, field.description or ""))
    return rows + [_row(PREFIX + one.name, one.read_by, "", one.meaning) for one in OTHERS]


def _row(variable: str, read_by: str, default: str, meaning: str) -> dict[str, Any]:
    value = os.environ.get(variable)
    if value is not None:
        value = "(not shown)" if variable.endswith(SECRET) else _PASSWORD.sub(r"\1:(not shown)@", value)
    return {"variable": variable, "read_by": read_by, "default": default, "value": value, "meaning": meaning}


def _shown(default: Any) -> str:
    return "" if default is None or default == "" else str(default)
