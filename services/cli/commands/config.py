"""`orrery config get|set|unset|list`: runtime parameters, in effect everywhere within seconds."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.failures import Refused, WrongUsage
from services.cli.output import print_facts, print_json, print_table, say

TYPES = ("str", "int", "float", "bool", "json")
Name = Annotated[str, typer.Argument(metavar="COMPONENT.KEY", help="Such as dbproxy.SCOUT_RAMCOUNT_MARGIN.")]
Vo = Annotated[str | None, typer.Option("--vo", help="Only for this virtual organisation.")]
Application = Annotated[
    str | None, typer.Option("--app", help="The application the parameter belongs to; else the one that reads it.")
]
SET_COLUMNS = ("app", "component", "key", "vo", "value", "type", "changed_by", "description")
KNOWN_COLUMNS = ("name", "value", "default", "allowed", "meaning")


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Runtime parameters: list, get, set, unset.")
    text = help_text("List the parameters that were set, or all with defaults.", "task_definition", "user")
    group.command("list", help=text)(list_all)
    group.command("get", help=help_text("Show one parameter.", "task_definition", "user"))(get)
    negative_numbers = {"ignore_unknown_options": True}  # -1 is a value, as of the caps of the throttle
    text = help_text("Set one parameter.", "task_definition", "operator")
    group.command("set", help=text, context_settings=negative_numbers)(set_value)
    group.command("unset", help=help_text("Give one parameter its default again.", "task_definition", "operator"))(
        unset
    )
    app.add_typer(group, name="config")


def list_all(
    component: Annotated[str | None, typer.Argument()] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Every parameter that is read: default, what is allowed, meaning.")
    ] = False,
    as_json: Json = False,
) -> None:
    """All that differ from their defaults; with --all the others, too."""
    rows = rows_of(connect().get("task_definition", "config/list", component=component), "parameters")
    if everything:
        rows = _with_defaults(rows, component)
    if as_json:
        print_json(rows)
        return
    names = KNOWN_COLUMNS if everything else SET_COLUMNS
    print_table(rows, [(name.replace("_", " "), name) for name in names])


def _with_defaults(rows: list[dict[str, Any]], component: str | None) -> list[dict[str, Any]]:
    """A row for each form of a known parameter's name, then what was set besides: families, VOs, plugins' keys."""
    from shared.config.declared import declared_parameters  # what other verbs need not wait for

    values = {_name_of(row): row for row in rows}
    listed = [
        {
            "name": name,
            "value": values.pop(name, {}).get("value"),
            "default": default,
            "type": one.kind,
            "unit": one.unit,
            "allowed": one.allowed,
            "meaning": one.means,
        }
        for one in declared_parameters()
        for name, default in one.defaults.items()
        if component in (None, name.partition(".")[0])
    ]
    return [*listed, *({"name": name, "value": row["value"], "type": row["type"]} for name, row in values.items())]


def _name_of(row: dict[str, Any]) -> str:
    name = f"{row['component']}.{row['key']}"
    return f"{name} ({row['vo']})" if row.get("vo") else name


def get(name: Name, vo: Vo = None, application: Application = None, as_json: Json = False) -> None:
    """One parameter, set or not: the value that was set, and the value that applies without it."""
    component, key = parts(name)
    found = connect().get("task_definition", "config/get", component=component, key=key, vo=vo, app=application)
    shown = _parameter(component, key, found if isinstance(found, dict) else None)
    if as_json:
        print_json(shown)
    else:
        print_facts((field.replace("_", " "), value) for field, value in shown.items())


def _parameter(component: str, key: str, row: dict[str, Any] | None) -> dict[str, Any]:
    """A parameter's row (None: not set) beside what is known of it. Raises Refused for one neither set nor declared."""
    from shared.config.declared import find_parameter, near_names

    known = find_parameter(component, key)
    if known is None and row is None:
        near = near_names(component, key)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise Refused(f"{component}.{key} is not set, and no service reads it{hint}")
    row = row or {}
    return {
        "name": f"{component}.{key}", "set": bool(row), "value": row.get("value"),
        "default": known.defaults.get(f"{component}.{key}", known.default) if known else None,
        "type": row.get("type") or (known.kind if known else None),
        "allowed": known.allowed if known else None, "meaning": known.means if known else None,
        "app": row.get("app") or (known.app if known else None), "vo": row.get("vo"),
        "changed_at": row.get("changed_at"), "changed_by": row.get("changed_by"),
        "description": row.get("description"),
    }  # fmt: skip


def set_value(
    name: Name,
    value: Annotated[str, typer.Argument(help="The value; a known parameter has a type and a range.")],
    kind: Annotated[str | None, typer.Option("--type", help=f"Of a --new key: {', '.join(TYPES)}.")] = None,
    vo: Vo = None,
    application: Application = None,
    description: Annotated[str, typer.Option("--description", help="Why.")] = "",
    new: Annotated[bool, typer.Option("--new", help="A key that only a plugin reads: take it as it is.")] = False,
    as_json: Json = False,
) -> None:
    """Set a value."""
    component, key = parts(name)
    if kind is not None and kind not in TYPES:
        raise WrongUsage(f"--type: value {kind!r}: allowed are {', '.join(TYPES)}")
    body: dict[str, Any] = {"component": component, "key": key, "value": value, "type": kind or guess_type(value)}
    optional = {"app": application, "vo": vo, "description": description, "new": new}
    body |= {name: given for name, given in optional.items() if given}
    answer = connect().envelope("POST", "task_definition", "config/set", json=body)
    if as_json:
        print_json(answer.get("data"))
    else:
        say(answer.get("message") or f"{name} = {value}")


def unset(name: Name, vo: Vo = None, application: Application = None, as_json: Json = False) -> None:
    """Forget what was set."""
    component, key = parts(name)
    body = {"component": component, "key": key, "app": application, "vo": vo}
    given = {field: value for field, value in body.items() if value}
    answer = connect().envelope("POST", "task_definition", "config/unset", json=given)
    if as_json:
        print_json(answer.get("data"))
    else:
        say(answer.get("message") or f"{name} has its default again")


def parts(name: str) -> tuple[str, str]:
    """component.key, split at the first dot. Raises WrongUsage."""
    component, separator, key = name.partition(".")
    if not (component and separator and key):
        raise WrongUsage(f"name: value {name!r}: must be COMPONENT.KEY")
    return component, key


def guess_type(text: str) -> str:
    """int, float, bool and JSON objects or lists are recognised; everything else is a str."""
    if text.lower() in ("true", "false"):
        return "bool"
    for kind, convert in (("int", int), ("float", float)):
        try:
            convert(text)
        except ValueError:
            continue
        return kind
    if text[:1] in "[{":
        try:
            json.loads(text)
        except ValueError:
            return "str"
        return "json"
    return "str"
