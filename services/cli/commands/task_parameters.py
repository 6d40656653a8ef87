"""`orrery task-parameters`: what the JSON of a task may say, who reads it, and what is refused."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from services.cli.commands.options import NARROW, Json, help_text
from services.cli.failures import WrongUsage
from services.cli.output import print_rows
from services.task_definition.tasks.policy.task_parameters.refused import REFUSED, REFUSED_OF_ITEMS
from services.task_definition.tasks.policy.task_parameters.table import described
from shared.task.rule_text import (
    InvalidRuleText,
    rules_of_text,
)

_COLUMNS = (
    ("parameter", "name"), ("code", "code"), ("type", "type"), ("unit", "unit"), ("allowed", "allowed"),
    ("default", "default"), ("changes", "changes"), ("read by", "reader"),
    ("means", "means"),
)  # fmt: skip


def register(app: typer.Typer) -> None:
    does = f"What the JSON of a task may say: type, unit, range, default, who reads it, when it may change. {NARROW}"
    app.command("task-parameters", help=help_text(does, "none: it is part of the program", "anybody"))(task_parameters)


def task_parameters(
    name: Annotated[str, typer.Argument(help="A name or a part of it.", show_default=False)] = "",
    refused: Annotated[bool, typer.Option("--refused", help="Names that are refused, with the reason.")] = False,
    rules: Annotated[str, typer.Option("--rules", metavar="TEXT", help="Read split rules: NF=5,MO=1.")] = "",
    as_json: Json = False,
) -> None:
    """Print the table."""
    if rules:
        found = _read(rules)
        rows = [{"name": key, "value": value} for key, value in sorted(found.items())]
        columns: tuple[tuple[str, str], ...] = (("parameter", "name"), ("value", "value"))
    elif refused:
        every = {**REFUSED, **{f"jobParameters.N.{key}": why for key, why in REFUSED_OF_ITEMS.items()}}
        rows = [{"name": key, "reason": why} for key, why in sorted(every.items()) if name.lower() in key.lower()]
        columns = (("parameter", "name"), ("refused", "reason"))
    else:
        rows, columns = [one for one in described() if name.lower() in str(one["name"]).lower()], _COLUMNS
    print_rows(rows, columns, as_json=as_json)


def _read(text: str) -> dict[str, Any]:
    try:
        return rules_of_text(text)
    except InvalidRuleText as error:
        raise WrongUsage(str(error)) from None
