"""Filters of lists of tasks, in the words of PanDA's client."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from services.task_definition.tasks.policy.client_names import statuses_of
from services.task_definition.tasks.store.reads import TaskFilter
from shared.model.task_spec_problems import problem
from shared.web.problems import WrongRequest

FILTERS = {"jeditaskid", "taskname", "username", "status", "prodsourcelabel", "tasktype", "reqid", "superstatus"}


def words(value: str | list[str] | None) -> list[str] | None:
    """A list written with commas or with repeated keys; None for nothing."""
    parts = value.split(",") if isinstance(value, str) else [one for part in value or () for one in part.split(",")]
    found = [part.strip() for part in parts if part.strip() not in ("", "None")]
    return found or None


def wanted_of(filters: str | None, caller_name: str, since: datetime | None, at_most: int) -> TaskFilter:
    """The client's filters, names in any case. Raises WrongRequest."""
    try:
        given = dict(orjson.loads(filters)) if filters else {}
    except (orjson.JSONDecodeError, TypeError, ValueError):
        raise WrongRequest([problem("filters", filters, "allowed: a JSON object")]) from None
    by_name = {str(key).lower().replace("_", ""): value for key, value in given.items()}
    allowed = f"unknown filter; allowed: {', '.join(sorted(FILTERS))}"
    found = [problem(f"filters.{name}", None, allowed) for name in sorted(by_name.keys() - FILTERS)]
    found += [
        problem(f"filters.{name}", value, wrong)
        for name, value in sorted(by_name.items())
        if name in FILTERS and (wrong := _wrong_filter(name, value))
    ]
    if found:
        raise WrongRequest(found)
    task_id, user_name = by_name.get("jeditaskid"), by_name.get("username")
    return TaskFilter(
        statuses=_statuses(words(by_name.get("status")), words(by_name.get("superstatus"))),
        user_name=user_name or (None if task_id else caller_name),
        name=by_name.get("taskname"),
        label=by_name.get("prodsourcelabel"),
        task_type=by_name.get("tasktype"),
        req_id=None if by_name.get("reqid") is None else int(by_name["reqid"]),
        task_ids=[int(task_id)] if task_id else None,
        modified_since=since,
        at_most=at_most,
    )


def _statuses(statuses: list[str] | None, super_statuses: list[str] | None) -> list[str] | None:
    """Those that both filters let through."""
    if super_statuses is None:
        return statuses
    fitting = statuses_of(super_statuses)
    return fitting if statuses is None else [one for one in statuses if one in fitting]


def _wrong_filter(name: str, value: Any) -> str:
    """What is allowed, where a number or a text does not belong."""
    if name in ("jeditaskid", "reqid"):
        text = str(value)
        is_number = value is None or (text.isascii() and text.isdigit() and len(text) < 19)
        return "" if is_number else "allowed: a number"
    if not all(one is None or isinstance(one, str) for one in (value if isinstance(value, list) else [value])):
        return "allowed: a text"
    return "allowed: one text" if isinstance(value, list) and name not in ("status", "superstatus") else ""
