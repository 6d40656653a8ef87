"""Options and arguments that many verbs share, and how they reach the services."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from services.cli.client import Client

#: for the help of verbs whose tables leave columns out
NARROW = "A narrow terminal shows fewer columns."
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
TaskIds = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Task ids; - reads them from standard input.", show_default=False)
]
TaskId = Annotated[str, typer.Argument(metavar="ID", help="A task id; - reads it from standard input.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many rows.")]


def connect() -> Client:
    """A client for this command."""
    return Client()


def rows_of(data: Any, *names: str) -> list[dict[str, Any]]:
    """The rows of an answer: the answer itself, what stands under one of these names, or its only list."""
    if isinstance(data, Mapping):
        found = next((data[name] for name in names if name in data), None)
        if found is None:
            lists = [value for value in data.values() if isinstance(value, list)]
            found = lists[0] if len(lists) == 1 else [data]
        data = found
    if isinstance(data, Mapping):
        return [
            {"name": key, **(value if isinstance(value, Mapping) else {"value": value})} for key, value in data.items()
        ]
    if not isinstance(data, Sequence) or isinstance(data, str):
        return []
    return [dict(row) if isinstance(row, Mapping) else {"id": row, "value": row} for row in data]


def help_text(does: str, service: str, role: str) -> str:
    """What a verb's help says: what it does, whom it asks, what its caller must be."""
    return f"{does}\n\nService: {service}. Role: {role}."


def read_value(text: str, kind: str) -> Any:
    """A value as it is written on the command line, of the type that it looks like (`config.guess_type`)."""
    if text == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind in ("int", "float", "json"):
        return json.loads(text)
    return text
