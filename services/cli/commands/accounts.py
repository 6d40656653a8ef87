"""`orrery groups`, `orrery users`: what groups are due; permissions, quotas and caps of users."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.commands.config import guess_type
from services.cli.commands.options import Json, connect, help_text, read_value, rows_of
from services.cli.failures import WrongUsage
from services.cli.output import print_rows, told

FIELDS = "Fields as name=value; null, true, false, numbers and JSON lists are read as such."
GROUP_COLUMNS = (
    ("group", "name"),
    ("VO", "vo"),
    ("share", "job_share"),
    ("shared", "job_sharing"),
    ("background", "allows_background"),
    ("users", "n_users"),
)
USER_COLUMNS = (
    ("user", "user_name"),
    ("VO", lambda row: row.get("vo") or "all"),
    ("groups", lambda row: ", ".join(row.get("groups") or ())),
    ("letters", "grid_pref"),
    ("may", lambda row: "; ".join(row.get("may") or ())),
    ("quota", "quota"),
    ("weight", "priority_weight"),
    ("cap jobs", "cap_running_jobs"),
    ("cap cores", "cap_running_cores"),
    ("disk GB", "disk_quota_gb"),
)
Fields = Annotated[list[str] | None, typer.Argument(metavar="FIELD=VALUE...", help=FIELDS)]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A JSON file with the list; it replaces all others.")]
Vo = Annotated[str, typer.Option("--vo", help="The virtual organisation.")]
VoOrAll = Annotated[str, typer.Option("--vo", help="What is said for this VO, instead of what is said for all.")]


def register(app: typer.Typer) -> None:
    groups = typer.Typer(no_args_is_help=True, help="Groups of users: list, load, set, remove.")
    users = typer.Typer(no_args_is_help=True, help="Users, their letters, quotas and caps: list, load, set, remove.")
    for typed, name, (listed, loaded, changed, removed) in (
        (groups, "groups", (list_groups, load_groups, set_group, remove_group)),
        (users, "users", (list_users, load_users, set_user, remove_user)),
    ):
        typed.command("list", help=help_text(f"List {name}.", "task_definition", "user"))(listed)
        text = help_text(f"Replace all {name} by those of a file.", "task_definition", "operator")
        typed.command("load", help=text)(loaded)
        typed.command("set", help=help_text("Make or change one.", "task_definition", "operator"))(changed)
        typed.command("remove", help=help_text("Forget one.", "task_definition", "operator"))(removed)
        app.add_typer(typed, name=name)


def list_groups(as_json: Json = False) -> None:
    """One line per group."""
    print_rows(rows_of(connect().get("task_definition", "group/list")), GROUP_COLUMNS, as_json=as_json)


def list_users(as_json: Json = False) -> None:
    """One line per user that something is said of."""
    print_rows(rows_of(connect().get("task_definition", "user/list")), USER_COLUMNS, as_json=as_json)


def load_groups(file: File, as_json: Json = False) -> None:
    """All groups."""
    told(connect().envelope("POST", "task_definition", "group/load", json={"groups": list_in(file, "groups")}), as_json)


def load_users(file: File, as_json: Json = False) -> None:
    """All users."""
    told(connect().envelope("POST", "task_definition", "user/load", json={"users": list_in(file, "users")}), as_json)


def set_group(name: str, vo: Vo, fields: Fields = None, as_json: Json = False) -> None:
    """One group."""
    body = {"name": name, "vo": vo, **given_fields(fields or [])}
    told(connect().envelope("POST", "task_definition", "group/set", json=body), as_json)


def set_user(name: str, fields: Fields = None, vo: VoOrAll = "", as_json: Json = False) -> None:
    """One user, in one VO or in all."""
    body = {"user_name": name, **_for(vo), **given_fields(fields or [])}
    told(connect().envelope("POST", "task_definition", "user/set", json=body), as_json)


def remove_group(name: str, vo: Vo, as_json: Json = False) -> None:
    """One group."""
    told(connect().envelope("POST", "task_definition", "group/remove", json={"name": name, "vo": vo}), as_json)


def remove_user(name: str, vo: VoOrAll = "", as_json: Json = False) -> None:
    """One user, in one VO or in all."""
    told(connect().envelope("POST", "task_definition", "user/remove", json={"user_name": name, **_for(vo)}), as_json)


def _for(vo: str) -> dict[str, Any]:
    return {"vo": vo} if vo else {}


def given_fields(fields: list[str]) -> dict[str, Any]:
    """The values of `name=value`, read as what they look like. Raises WrongUsage."""
    found: dict[str, Any] = {}
    for one in fields:
        name, separator, value = one.partition("=")
        if not separator or not name:
            raise WrongUsage(f"field: value {one!r}: must be NAME=VALUE")
        if name in found:
            raise WrongUsage(f"field: {name} is given twice")
        found[name] = read_value(value, guess_type(value))
    return found


def list_in(file: Path, name: str) -> list[Any]:
    """The list of a JSON file: the whole of it, or what stands under `name`. Raises WrongUsage."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WrongUsage(f"{file}: cannot be read: {error}") from None
    found = content.get(name) if isinstance(content, dict) else content
    if not isinstance(found, list):
        raise WrongUsage(f"{file}: must be a JSON list, or an object with one under {name!r}")
    return found
