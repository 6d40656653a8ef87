"""/api/v1/harvester/update_workers: what Harvester says of the batch jobs that it submits.

For production of all the VOs of a queue, and for pilots that the configuration names for it (`job_dispatch.REPORTERS`).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import BeforeValidator, Field, ValidationError

from services.job_dispatch.acquire.activity import PilotActivity
from services.job_dispatch.api.body import INNER, MIB, fields_of
from services.job_dispatch.api.job import body_of
from services.job_dispatch.api.measured import CORES
from services.job_dispatch.api.reported import vos_of_reporter
from services.job_dispatch.api.requests import FAILED, BadRequest, Name, RequestFields, parse, shown, whole
from services.job_dispatch.policy.workers import WorkerState, WorkerStatus
from shared.auth import Caller, access, require
from shared.model.problems import FieldProblem
from shared.model.whole_numbers import LARGEST_ID
from shared.web.envelope import Envelope
from shared.web.json_route import JsonRoute
from shared.web.json_text import BodyLimits, parse_json_now
from shared.web.values import absent

MOST_WORKERS = 1_000
BODY = BodyLimits(2 * MIB, n_values=100_000, depth=8, exact=False, odd=True)
FACTORIES = require(access.NAMED, "pilot", "production", right="modify")

#: Harvester's words for the states of a worker: it waits, has begun, or has ended
STATES: dict[str, WorkerState] = {
    "pending": "submitted", "submitted": "submitted", "ready": "submitted", "idle": "running", "running": "running",
    "finished": "finished", "failed": "finished", "cancelled": "finished", "missed": "finished",
}  # fmt: skip


class UpdateWorkers(RequestFields):
    """`update_workers`."""

    harvester_id: Name
    workers: Annotated[Any, Field(description="a list of workers, or its JSON text")]


def _cores(value: Any) -> int:
    """The number of cores of a worker; 1 where that cannot be."""
    number = whole(value)
    return number if type(number) is int and 0 < number <= CORES.most else 1


class Worker(RequestFields):
    """One worker: its number, queue, state and cores; the rest of what Harvester knows decides nothing."""

    worker_id: Annotated[int, BeforeValidator(whole), Field(alias="workerID", ge=0, le=LARGEST_ID)]
    queue: Annotated[Name, Field(alias="computingSite")]
    status: Annotated[WorkerState, BeforeValidator(lambda value: STATES.get(str(value)))]
    n_cores: Annotated[int, BeforeValidator(_cores), Field(alias="nCore")] = 1


def factory_routes(activity: PilotActivity) -> APIRouter:
    """Make the route where each worker has its own answer: what is odd in one costs that one."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/harvester", tags=["harvester"])

    @router.post("/update_workers", openapi_extra=_BODY)
    async def update_workers(request: Request, caller: Annotated[Caller, Depends(FACTORIES)]) -> Response:
        """States of many workers; true for each that was noted, in the order they came."""
        wanted = parse(UpdateWorkers, await fields_of(request, BODY))
        sent = _list_of(wanted.workers)
        read = [_read(one) for one in sent]
        workers = [one for one in read if isinstance(one, Worker) and await activity.knows(one.queue)]
        vos = await activity.vos_of({one.queue for one in workers}) if workers else {}
        told = [
            WorkerStatus(
                wanted.harvester_id, one.worker_id, one.queue, one.status, caller.name,
                is_trusted=caller.may("production"), of_factory=True, n_cores=one.n_cores, vos=vos_of_reporter(caller),
                may_begin=access.produces_for_all(caller, vos.get(one.queue, ())),
            )
            for one in workers
        ]  # fmt: skip
        noted = await activity.workers(told)
        answers = [isinstance(one, Worker) and (wanted.harvester_id, one.worker_id) in noted for one in read]
        said = [*_reasons(read, answers, activity.known_queues), *_odd_cores(sent, read)]
        return Envelope(answers, "; ".join(said[:20]))

    return router


def _reasons(read: list[Worker | str], answers: list[bool], known_queues: Container[str]) -> list[str]:
    """Why workers were not noted."""
    found = []
    for one, is_noted in zip(read, answers, strict=True):
        if isinstance(one, str):
            found.append(one)
        elif not is_noted and one.queue not in known_queues:
            found.append(f"worker {one.worker_id}: there is no queue {one.queue!r}")
        elif not is_noted:
            found.append(
                f"worker {one.worker_id}: job_dispatch.REPORTERS does not name the caller for {one.queue}, and it "
                "is not production of all the VOs of that queue, or the worker is of another VO"
            )
    return found


def _odd_cores(sent: list[Any], read: list[Worker | str]) -> list[str]:
    """Of which workers the number of cores was not believed."""
    return [
        f"worker {one.worker_id}: nCore: value {shown(asked['nCore'])} is not allowed; allowed: 1 to "
        f"{CORES.most:.0f}; taken as 1"
        for asked, one in zip(sent, read, strict=True)
        if isinstance(one, Worker) and absent(asked.get("nCore")) is not None and whole(asked["nCore"]) != one.n_cores
    ]


def _list_of(value: Any) -> list[Any]:
    if isinstance(value, str):
        try:
            value = parse_json_now(value.encode(errors="replace"), INNER)
        except ValueError:
            value = None
    if not isinstance(value, list) or len(value) > MOST_WORKERS:
        allowed = f"must be a list of at most {MOST_WORKERS} objects"
        raise BadRequest(FAILED, [FieldProblem("workers", shown(value), allowed, f"workers: {allowed}")])
    return value


def _read(value: Any) -> Worker | str:
    """A worker, or what is wrong with it."""
    try:
        return Worker.model_validate(value)
    except ValidationError as error:
        fields = sorted({".".join(str(part) for part in one["loc"]) or "it" for one in error.errors()})
        return f"{shown(value)[:80]}: {', '.join(fields)} cannot be; states are {', '.join(STATES)}"


_BODY = body_of(
    {"harvester_id": "harvester-1", "workers": [{"workerID": 7, "computingSite": "CERN", "status": "submitted"}]},
    UpdateWorkers.model_json_schema(),
)
