"""What the older interface calls the fields of its methods: for its document and its refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from services.job_dispatch.api.requests import LEGACY_NAMES, BadRequest
from shared.model.problems import FieldProblem

#: most fields have one older name
_USUAL = {name: legacy for legacy, name in LEGACY_NAMES.items()} | {"job_id": "jobId", "site_name": "siteName"}
#: methods that have others
_OF_METHOD: Mapping[str, Mapping[str, str]] = {
    "getJob": {"harvester_id": "harvester_id", "worker_id": "worker_id"},
    "updateWorkerPilotStatus": {"site_name": "site"},
    "setDebugMode": {"job_id": "pandaID"},
    "getEventRanges": {"job_id": "pandaID"},
}


def legacy_name(method: str, field: str) -> str:
    """What callers of a method call a field of its model.

    Example: job_id is jobId, for getEventRanges pandaID.
    """
    return _OF_METHOD.get(method, {}).get(field) or _USUAL.get(field, field)


def as_called(method: str, error: BadRequest) -> BadRequest:
    """The same refusal with the names that callers of the method know."""
    return BadRequest(error.code, [_renamed(method, one) for one in error.problems])


def _renamed(method: str, problem: FieldProblem) -> FieldProblem:
    first, dot, rest = problem.field.partition(".")
    field = f"{legacy_name(method, first)}{dot}{rest}"
    said = problem.said
    if said.startswith(f"{problem.field}:"):
        said = field + said.removeprefix(problem.field)
    return replace(problem, field=field, said=said)
