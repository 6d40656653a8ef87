"""What if: a world file with some parameters and fields of queues changed."""

from __future__ import annotations

import difflib
import json
from typing import Any

from shared.config.declared import declared_parameters, find_parameter, near_names
from shared.config.parameter import JEDI
from shared.model.grid import records_of
from shared.model.queue import CricQueue

COMPONENTS = {
    "task-brokerage": ("taskbrokerage",),
    "job-brokerage": ("jobbroker",),
    "analysis-brokerage": ("jobbroker", "anal_jobbroker", "prio_mgr", "analy_eval"),
}


class WrongChange(ValueError):
    """A change that cannot be made; says what is allowed."""


def value_of(text: str) -> Any:
    """JSON if it is, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _pair(change: str, option: str, form: str) -> tuple[str, str]:
    name, separator, value = change.partition("=")
    if not (separator and name):
        raise WrongChange(f"{option}: value {change!r}: allowed is {form}")
    return name.strip(), value.strip()


def change_parameters(content: dict[str, Any], changes: list[str], brokerage: str) -> None:
    """Apply `--set KEY=VALUE` or `--set COMPONENT.KEY=VALUE`.

    Without a component every one that the brokerage reads is set.

    Raises WrongChange for a key that nothing reads (components of plugins excepted) or a value that it cannot have.
    """
    rows = content.setdefault("parameters", [])
    for change in changes:
        name, text = _pair(change, "--set", "KEY=VALUE or COMPONENT.KEY=VALUE")
        component, _, key = name.rpartition(".")
        value = value_of(text)
        if isinstance(value, dict | list) or value is None:
            raise WrongChange(f"--set: value {change!r}: allowed are numbers, true, false and texts")
        kind = type(value).__name__
        stored = str(value).lower() if kind == "bool" else str(value)
        for one, app in _readers(change, component, key, stored, brokerage):
            rows[:] = [row for row in rows if (row.get("component"), row.get("key")) != (one, key)]
            rows.append({"app": app, "component": one, "key": key, "value": stored, "type": kind})


def _readers(change: str, component: str, key: str, stored: str, brokerage: str) -> list[tuple[str, str]]:
    """Component and application of each place where the parameter is read. Raises WrongChange."""
    asked = (component,) if component else COMPONENTS[brokerage]
    if component and component not in {name.partition(".")[0] for one in declared_parameters() for name in one.names}:
        return [(component, JEDI)]
    found = [(one, known) for one in asked if (known := find_parameter(one, key)) is not None]
    if not found:
        near = [name for one in asked for name in near_names(one, key)]
        hint = f"; did you mean {' or '.join(dict.fromkeys(near))}?" if near else ""
        raise WrongChange(f"--set: value {change!r}: {brokerage} reads no such parameter{hint}")
    try:
        for _, known in found:
            known.parsed(stored)
    except ValueError as error:
        raise WrongChange(f"--set: value {change!r}: {error}") from None
    return [(one, known.app) for one, known in found]


def change_queues(content: dict[str, Any], changes: list[str]) -> set[str]:
    """Apply `--queue NAME.FIELD=VALUE`, and return the names of the changed queues.

    FIELD is as CRIC has it, with points for what is inside (`catchall`, `params.x`). Raises WrongChange for a queue or
    field that there is not.
    """
    records = records_of(content, "queues")
    changed = set()
    for change in changes:
        name, text = _pair(change, "--queue", "NAME.FIELD=VALUE")
        queue = max((one for one in records if name.startswith(f"{one}.")), key=len, default=None)
        if queue is None:
            raise WrongChange(f"--queue: value {change!r}: names no queue of the world; allowed is NAME.FIELD=VALUE")
        *path, last = name[len(queue) + 1 :].split(".")
        _check_field(change, (*path, last)[0])
        changed.add(queue)
        record = records[queue] = dict(records[queue])
        for part in path:
            record[part] = dict(record.get(part) or {})
            record = record[part]
        record[last] = value_of(text)
    content["queues"] = records
    return changed


def _check_field(change: str, field: str) -> None:
    """Raises WrongChange for a field that is never read: changing it would change nothing."""
    if field not in CricQueue.model_fields:
        near = difflib.get_close_matches(field, CricQueue.model_fields, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise WrongChange(f"--queue: value {change!r}: {field!r} is no field of a queue that is read{hint}")
