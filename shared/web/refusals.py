"""Refusals that were told, counted by route and cause.

What is tried with others' work is seen without reading logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from starlette.applications import Starlette

#: where an application keeps what is told the route and the cause of each refusal
_COUNT = "count_refused"
ROUTE_UNKNOWN = "none"
NOT_PERMITTED = "not permitted"
#: of the API's numbers (PanDA client: task/kill and others)
_OF_CODE = {2: "not found", 3: NOT_PERMITTED, 4: "state", 5: "value"}
#: the protocol of pilots says it in a field of the data; of its numbers the one for roles and what is not the caller's
STATUS_CODE = "StatusCode"
_OF_STATUS_CODE: Mapping[Any, str] = {60: NOT_PERMITTED, 70: NOT_PERMITTED}
_OF_STATUS = {400: "body", 403: NOT_PERMITTED, 404: "not found", 413: "body"}
#: fields by which somebody may reach for what is not theirs, or for more than their part; all others are one cause
FIELDS = frozenset({
    "Requirements", "command", "currentPriority", "file", "gshare", "increase", "jobParameters", "log", "maxAttempt",
    "official", "parent_tid", "prodSourceLabel", "requirements", "skipScout", "taskName", "taskPriority", "taskType",
    "task_parameters", "useSecrets", "userName", "vo", "workQueueName", "workingGroup",
})  # fmt: skip


class _Problem(Protocol):
    @property
    def field(self) -> str: ...


def count_with(web: Starlette, count: Callable[[str, str], None]) -> None:
    """Tell `count` the route and cause of what this application refuses."""
    setattr(web.state, _COUNT, count)


def count_refused(scope: Any, causes: Iterable[str]) -> None:
    """Count a refusal under each of its causes."""
    count = getattr(getattr(scope.get("app"), "state", None), _COUNT, None)
    if count is not None:
        route = _route(scope)
        for one in causes:
            count(route, one)


def causes_of(status: int, code: Any, problems: Iterable[_Problem]) -> list[str]:
    """The causes of a refusal: its fields, else what its number or HTTP status says.

    None of what is passing.

    Example: a problem with jobParameters.0.dataset is jobParameters, one with a field that nobody knows is value.
    """
    if status not in (200, *_OF_STATUS):
        return []
    fields = {one.field.partition(".")[0] for one in problems}
    if fields:
        return sorted({one if one in FIELDS else "value" for one in fields})
    if isinstance(code, dict):
        return [_OF_STATUS.get(status) or _OF_STATUS_CODE.get(code.get(STATUS_CODE), "value")]
    return [_OF_STATUS.get(status) or (_OF_CODE.get(code) if type(code) is int else None) or "value"]


def _route(scope: Any) -> str:
    """The path of the route as it was declared: those that callers make up are one."""
    route = scope.get("route")
    if route is None and (endpoint := scope.get("endpoint")) is not None:
        routes = scope["app"].router.routes
        route = next((one for one in routes if getattr(one, "endpoint", None) is endpoint), None)
    return getattr(route, "path", ROUTE_UNKNOWN)
