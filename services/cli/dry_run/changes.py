"""What if: a world file with some parameters and fields of queues changed."""

from __future__ import annotations

import json
from typing import Any

from shared.model.grid import records_of

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
    """`--set KEY=VALUE` or `--set COMPONENT.KEY=VALUE`; without a component every one that the brokerage reads."""
    rows = content.setdefault("parameters", [])
    for change in changes:
        name, text = _pair(change, "--set", "KEY=VALUE or COMPONENT.KEY=VALUE")
        component, _, key = name.rpartition(".")
        value = value_of(text)
        if isinstance(value, dict | list) or value is None:
            raise WrongChange(f"--set: value {change!r}: allowed are numbers, true, false and texts")
        kind = type(value).__name__
        for one in [component] if component else COMPONENTS[brokerage]:
            rows[:] = [row for row in rows if (row.get("component"), row.get("key")) != (one, key)]
            stored = str(value).lower() if kind == "bool" else str(value)
            app = "pandaserver" if one in ("prio_mgr", "analy_eval") else "jedi"
            rows.append({"app": app, "component": one, "key": key, "value": stored, "type": kind})


def change_queues(content: dict[str, Any], changes: list[str]) -> None:
    """`--queue NAME.FIELD=VALUE`; FIELD as CRIC has it, with points for what is inside (`catchall`, `params.x`)."""
    records = records_of(content, "queues")
    for change in changes:
        name, text = _pair(change, "--queue", "NAME.FIELD=VALUE")
        queue = max((one for one in records if name.startswith(f"{one}.")), key=len, default=None)
        if queue is None:
            raise WrongChange(f"--queue: value {change!r}: names no queue of the world; allowed is NAME.FIELD=VALUE")
        *path, last = name[len(queue) + 1 :].split(".")
        record = records[queue] = dict(records[queue])
        for part in path:
            record[part] = dict(record.get(part) or {})
            record = record[part]
        record[last] = value_of(text)
    content["queues"] = records
