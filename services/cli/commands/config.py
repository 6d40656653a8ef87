"""`orrery config get|set|list`: the runtime parameters, which take effect in every service within seconds."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.failures import Refused, WrongUsage
from services.cli.output import print_facts, print_json, print_table

TYPES = ("str", "int", "float", "bool", "json")
Name = Annotated[str, typer.Argument(metavar="COMPONENT.KEY", help="Such as dbproxy.SCOUT_RAMCOUNT_MARGIN.")]
Vo = Annotated[str | None, typer.Option("--vo", help="Only for this virtual organisation.")]
Application = Annotated[str, typer.Option("--app", help="The application the parameter belongs to.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Runtime parameters: list, get, set.")
    group.command("list", help=help_text("List the parameters that were set.", "task_definition", "user"))(list_all)
    group.command("get", help=help_text("Show one parameter.", "task_definition", "user"))(get)
    group.command("set", help=help_text("Set one parameter.", "task_definition", "operator"))(set_value)
    app.add_typer(group, name="config")


def list_all(component: Annotated[str | None, typer.Argument()] = None, as_json: Json = False) -> None:
    """All that differ from their defaults."""
    rows = rows_of(connect().get("task_definition", "config/list", component=component), "parameters")
    if as_json:
        print_json(rows)
        return
    names = ("app", "component", "key", "vo", "value", "type", "changed_by", "description")
    print_table(rows, [(name.replace("_", " "), name) for name in names])


def get(name: Name, vo: Vo = None, application: Application = "jedi", as_json: Json = False) -> None:
    """One value with its type."""
    component, key = parts(name)
    found = connect().get("task_definition", "config/get", component=component, key=key, vo=vo, app=application)
    if found is None:
        raise Refused(f"{name} is not set; the default of the service that reads it applies")
    if as_json:
        print_json(found)
    elif isinstance(found, dict):
        print_facts(found.items())
    else:
        typer.echo(found)


def set_value(
    name: Name,
    value: Annotated[str, typer.Argument(help="The value; its type is guessed unless --type is given.")],
    kind: Annotated[str | None, typer.Option("--type", help=", ".join(TYPES))] = None,
    vo: Vo = None,
    application: Application = "jedi",
    description: Annotated[str, typer.Option("--description", help="Why.")] = "",
    as_json: Json = False,
) -> None:
    """Set a value."""
    component, key = parts(name)
    if kind is not None and kind not in TYPES:
        raise WrongUsage(f"--type: value {kind!r}: allowed are {', '.join(TYPES)}")
    body = {"app": application, "component": component, "key": key, "value": value, "type": kind or guess_type(value)}
    if vo:
        body["vo"] = vo
    if description:
        body["description"] = description
    answer = connect().post("task_definition", "config/set", body)
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"{name} = {value} ({body['type']})")


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
