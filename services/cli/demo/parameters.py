"""Runtime parameters for the length of a demonstration: what applied before applies again at its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from services.cli.client import Client
from services.cli.commands.config import guess_type, parts
from services.cli.failures import CommandFailure

SERVICE = "task_definition"
DESCRIPTION = "set by the demonstration for the length of its run"


@contextmanager
def parameters_set(client: Client, wanted: Mapping[str, Any], say: Callable[[str], None]) -> Iterator[None]:
    """Set parameters (component.key) for a block, and restore each old value or default when it ends.

    What cannot be given back is said, with the command that does it.
    """
    before: dict[str, dict[str, Any] | None] = {}
    try:
        for name, value in wanted.items():
            component, key = parts(name)
            row = client.get(SERVICE, "config/get", component=component, key=key)
            # what a run that was killed left behind is not what an operator wanted
            before[name] = None if row is None or row.get("description") == DESCRIPTION else row
            _set(client, name, value if isinstance(value, str) else json.dumps(value), DESCRIPTION)
        if wanted:
            say(f"for the length of this run: {', '.join(f'{name} = {value}' for name, value in wanted.items())}")
        yield
    finally:
        left = [name for name, row in reversed(before.items()) if not _given_back(client, name, row)]
        if left:
            commands = "; ".join(_command(name, before[name]) for name in left)
            say(f"these parameters stay as they were set: {', '.join(left)}; to undo it: {commands}")


def _set(client: Client, name: str, text: str, description: str) -> None:
    component, key = parts(name)
    body = {"component": component, "key": key, "value": text, "type": guess_type(text), "description": description}
    client.post(SERVICE, "config/set", body)


def _given_back(client: Client, name: str, row: Mapping[str, Any] | None) -> bool:
    component, key = parts(name)
    try:
        client.post(SERVICE, "config/unset", {"component": component, "key": key})
        if row is not None:
            _set(client, name, str(row["value"]), str(row.get("description") or ""))
    except CommandFailure:
        return False
    return True


def _command(name: str, row: Mapping[str, Any] | None) -> str:
    return f"orrery config unset {name}" if row is None else f"orrery config set {name} {row['value']}"
