"""Commands on tasks: one verb for each row of the table of commands, and the table; every id is tried."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from services.cli.commands.options import Json, TaskIds, connect, help_text
from services.cli.failures import CommandFailure, Refused, WrongUsage
from services.cli.identifiers import read_ids
from services.cli.output import Column, print_rows
from services.task_definition.tasks.policy.command_table import COMMANDS, states_in_short
from services.task_definition.tasks.policy.task_command import Given, TaskCommand

Jobs = Annotated[bool, typer.Option("--jobs", help="The ids are those of jobs.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is shown with the task.")]
_RULE = typer.Argument(
    metavar="NAME=VALUE", help="A parameter or its two letters: nFilesPerJob=5, NF=5; nothing after =: without."
)
COLUMNS: Sequence[Column] = (
    ("command", "verb"), ("allowed in", "states"), ("leads to", "leads_to"), ("who", "who"), ("jobs", "jobs"),
    ("files", "files"), ("children", "children"),
)  # fmt: skip


def register(app: typer.Typer) -> None:
    for command in COMMANDS:
        context = {"ignore_unknown_options": True} if command.name == "change_priority" else None
        text = help_text(command.does, "task_definition", command.who)
        app.command(command.cli_verb, help=text, context_settings=context)(verb_of(command))
    text = help_text("What may be asked of tasks: in which states, by whom, and what follows.", "none", "anybody")
    app.command("commands", help=text)(commands)


def commands(as_json: Json = False) -> None:
    """Print the table."""
    rows = described()
    print_rows(rows, COLUMNS, as_json=as_json)


def described() -> list[dict[str, Any]]:
    """The table for people; `path`: of the API."""
    return [
        {
            "verb": one.cli_verb,
            "path": f"task/{one.api_path}",
            "states": states_in_short(one.states),
            "leads_to": one.leads_to,
            "who": one.who,
            "jobs": one.jobs,
            "files": one.files,
            "children": one.children,
            "takes": ", ".join(given.name for given in one.takes),
            "does": one.does,
        }
        for one in COMMANDS
    ]


def command_table() -> str:
    """The table in Markdown."""
    head = "| verb | does | allowed in | leads to | who | jobs | files | children |\n|" + "---|" * 8
    names = ("does", "states", "leads_to", "who", "jobs", "files", "children")
    lines = ["| " + " | ".join([f"`{row['verb']}`", *(row[name] for name in names)]) + " |" for row in described()]
    return "\n".join([head, *lines])


def verb_of(command: TaskCommand) -> Callable[..., None]:
    """The function of a verb: its arguments and options are what the command takes."""

    def run(ids: list[str], as_json: bool, reason: str = "", **given: Any) -> None:
        of_jobs = given.pop("jobs", False)
        where = ("job_dispatch", "job", "job_id") if of_jobs else ("task_definition", "task", "task_id")
        body = body_of(command, given) | ({"reason": reason} if reason else {})
        path = command.api_path if where[1] == "task" else command.name
        give(command.cli_verb, path, ids, body, as_json=as_json, where=where)

    signature = inspect.Signature(_parameters(command))
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    run.__name__ = command.cli_verb.replace("-", "_")
    return run


def _parameters(command: TaskCommand) -> list[inspect.Parameter]:
    """Arguments first, then the ids, then options."""
    arguments: list[tuple[str, Any]] = []
    options: list[tuple[str, Any, Any]] = []
    for given in command.takes:
        if given.kind == "rule" or (given.option == "" and not given.required):
            continue
        if given.option == "":
            is_rule = command.name == "change_split_rule"
            kind = int if given.kind == "number" else str
            arguments.append((given.name, Annotated[kind, _RULE if is_rule else typer.Argument(help=given.means)]))
        else:
            options.append((given.name, *_option(given)))
    if command.name == "change_priority":
        options.append(("jobs", Jobs, False))
    else:
        options.append(("reason", Reason, ""))
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        *(inspect.Parameter(name, keyword, annotation=one) for name, one in arguments),
        inspect.Parameter("ids", keyword, annotation=TaskIds),
        *(inspect.Parameter(name, keyword, annotation=one, default=default) for name, one, default in options),
        inspect.Parameter("as_json", keyword, annotation=Json, default=False),
    ]


def _option(given: Given) -> tuple[Any, Any]:
    name = given.option or f"--{given.name.replace('_', '-')}"
    means = f"{given.means[0].upper()}{given.means[1:]}."
    if given.kind == "flag":
        return Annotated[bool, typer.Option(name, help=means)], False
    if given.kind == "parameters":
        return Annotated[list[str] | None, typer.Option(name, metavar="NAME=VALUE", help=means)], None
    if given.kind == "names":
        return Annotated[list[str] | None, typer.Option(name, help=means)], None
    if given.kind == "number":
        return Annotated[int, typer.Option(name, help=means)], given.default
    words = f"{means} One of {', '.join(given.choices)}." if given.choices else means
    return Annotated[str | None, typer.Option(name, help=words)], None


def body_of(command: TaskCommand, given: Mapping[str, Any]) -> dict[str, Any]:
    """What goes to the API; what was not given is left out. Raises WrongUsage."""
    body: dict[str, Any] = {}
    for one in command.takes:
        value = given.get(one.name)
        if command.name == "change_split_rule":
            name, rule = name_and_value(given["attribute_name"])
            return {"attribute_name": name, "attribute_value": rule}
        if one.kind == "flag" and one.inverted:
            body[one.name] = not value
        elif one.kind == "parameters" and value:
            body[one.name] = dict(name_and_value(text) for text in value)
        elif value not in (None, False, []):
            body[one.name] = value
    return body


def name_and_value(text: str) -> tuple[str, int | bool | str | None]:
    """NAME=VALUE. Raises WrongUsage."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise WrongUsage(f"{text!r}: allowed: NAME=VALUE, such as nFilesPerJob=5")
    return name, _value(value)


def _value(text: str) -> int | bool | str | None:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.removeprefix("-").isdigit() else text or None


def give(
    verb: str,
    path: str,
    ids: list[str],
    body: dict[str, Any],
    *,
    as_json: bool,
    where: tuple[str, str, str] = ("task_definition", "task", "task_id"),
) -> None:
    """Give a command for each id. `where`: the service, what the ids are those of, and their name."""
    client, (service, subject, id_name) = connect(), where
    results: list[dict[str, Any]] = []
    first_failure: CommandFailure | None = None
    for one in read_ids(ids):
        row: dict[str, Any] = {id_name: one}
        try:
            answer = client.envelope("POST", service, f"{subject}/{path}", json={**row, **body})
            results.append({**row, "outcome": "accepted", "message": answer.get("message", "")})
        except Refused as failure:
            first_failure = first_failure or failure
            why = "; ".join(map(str, failure.problems)) or failure.message
            results.append({**row, "outcome": "refused", "message": why})
    columns = ((subject.replace("_", " "), id_name), (verb.replace("-", " "), "outcome"), ("", "message"))
    print_rows(results, columns, as_json=as_json)
    if first_failure is not None:
        raise typer.Exit(first_failure.exit_code)
