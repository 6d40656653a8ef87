"""Filters of lists of tasks, in the words of PanDA's client."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import Query

from services.task_definition.tasks.policy.client_names import statuses_of
from services.task_definition.tasks.store.reads import TaskFilter
from shared.model.task_spec_problems import problem
from shared.states import TASK
from shared.web.problems import WrongRequest
from shared.web.values import MaybeId, Text, Time

FILTERS = {"jeditaskid", "taskname", "username", "status", "prodsourcelabel", "tasktype", "reqid", "superstatus"}


#: a task that waits longer is not asked for by that
LONGEST_WAIT_S = 10 * 365 * 86_400


def listed(
    status: Annotated[list[str] | None, Query()] = None,
    user_name: Text = None,
    label: Text = None,
    task_type: Text = None,
    name: Text = None,
    vo: Text = None,
    since: Time = None,
    waits_longer_s: Annotated[float | None, Query(ge=0, le=LONGEST_WAIT_S, allow_inf_nan=False)] = None,
    before_id: MaybeId = None,
) -> TaskFilter:
    """Filters in our own words. Raises WrongRequest.

    `before_id` is the last id of the page before; `name`: a part of it, with * for any text; `waits_longer_s`: tasks
    that are in states which should pass, and have waited for so long.
    """
    statuses = words(status)
    if unknown := sorted(set(statuses or ()) - set(TASK.meanings)):
        allowed = f"allowed: {', '.join(sorted(TASK.meanings))}"
        raise WrongRequest([problem("status", one, allowed) for one in unknown])
    return TaskFilter(statuses=statuses, user_name=user_name, label=label, task_type=task_type, name=name, vo=vo,
                      modified_since=since, waits_longer_s=waits_longer_s, before_id=before_id)  # fmt: skip


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
