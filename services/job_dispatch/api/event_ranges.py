"""Ranges of events over HTTP: /server/panda/getEventRanges and updateEventRanges, /api/v1/event/*.

For pilots, users as pilots of their own jobs, and production, each for the jobs that they acquired; statuses are for
pilots of the VO of the task, its owner and production, errors for whoever may have the details of the task.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from services.job_dispatch.api.body import ACQUIRE, HEARTBEAT, REPORT, fields_of
from services.job_dispatch.api.job import body_of
from services.job_dispatch.api.legacy_answers import always_json, sent_again, told
from services.job_dispatch.api.legacy_methods import LegacyMethod
from services.job_dispatch.api.range_reports import (
    AcquireEventRanges,
    UpdateEventRanges,
    UpdateSingleEventRange,
    pairs_of,
    reports_of,
)
from services.job_dispatch.api.requests import INVALID, OK, parse
from services.job_dispatch.lifecycle.event_ranges import EventRanges, NotTheJobs, RangeAnswers
from services.job_dispatch.store.event_ranges import TakenRange
from shared.auth import Caller, access, caller_of, require
from shared.web.envelope import Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.refusals import NOT_PERMITTED, count_refused

PILOTS = require(access.PILOTS, "user", "pilot", "production", right="modify")
READER = require(access.PILOTS)


def range_methods(ranges: EventRanges) -> list[LegacyMethod]:
    """Make the methods of published pilots."""

    async def get_event_ranges(request: Request) -> Response:
        """Ranges for a job of the caller; an empty list when all are taken."""
        wanted = parse(AcquireEventRanges, await fields_of(request, ACQUIRE))
        try:
            found = await ranges.acquire(caller_of(request), wanted.job_id, wanted.task_id, wanted.n_ranges)
        except NotTheJobs as error:
            count_refused(request.scope, [NOT_PERMITTED])
            return told(request, {"StatusCode": INVALID, "errorDialog": str(error), "eventRanges": []})
        return told(request, {"StatusCode": OK, "eventRanges": [_as_told(one) for one in found]})

    async def update_ranges(request: Request) -> Response:
        """Reports on ranges: `Returns` for each, `Command` for the pilots of their jobs."""
        answers = await _reported(ranges, request)
        return told(request, {"StatusCode": OK, "Returns": answers.told, "Command": _commands(answers)})

    pilots = ("user", "pilot", "production")
    return [
        LegacyMethod("getEventRanges", ("POST",), get_event_ranges, always_json, access.PILOTS, pilots, right="modify"),
        LegacyMethod("updateEventRanges", ("POST",), update_ranges, sent_again, access.PILOTS, pilots, right="modify"),
    ]


def range_routes(ranges: EventRanges) -> APIRouter:
    """Make the routes below /api/v1/event."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/event", tags=["event ranges"])

    @router.post("/acquire_event_ranges", openapi_extra=_ACQUIRE)
    async def acquire(request: Request, caller: Annotated[Caller, Depends(PILOTS)]) -> Response:
        """Take ranges of a job's input that nobody has; an empty list when all are taken."""
        wanted = parse(AcquireEventRanges, await fields_of(request, ACQUIRE))
        try:
            found = await ranges.acquire(caller, wanted.job_id, wanted.task_id, wanted.n_ranges)
        except NotTheJobs as error:
            return refused(INVALID, str(error))
        return Envelope([_as_told(one) for one in found])

    @router.post("/update_event_ranges", openapi_extra=_UPDATE)
    async def update(request: Request, caller: Annotated[Caller, Depends(PILOTS)]) -> Response:
        """Report ranges: `Returns` true, false or null (skipped) for each, `Commands` by job."""
        answers = await _reported(ranges, request)
        message = "; ".join(answers.reasons[:20])
        return Envelope({"Returns": answers.told, "Commands": _commands(answers)}, message)

    @router.post("/update_single_event_range", openapi_extra=_SINGLE)
    async def update_single(request: Request, caller: Annotated[Caller, Depends(PILOTS)]) -> Response:
        """Report one range; `Command` for the pilot of its job, null where there is none."""
        wanted = parse(UpdateSingleEventRange, await fields_of(request, HEARTBEAT))
        answers = await ranges.report(caller, [wanted.report], 0)
        data = {"Command": next(iter(answers.commands.values()), None)}
        return refused(data, answers.reasons[0]) if answers.told == [False] else Envelope(data)

    _add_questions(router, ranges)
    return router


def _add_questions(router: APIRouter, ranges: EventRanges) -> None:
    @router.get("/get_available_event_range_count")
    async def available(
        caller: Annotated[Caller, Depends(PILOTS)],
        job_id: str,
        task_id: str | None = None,
        jobset_id: str | None = None,
    ) -> Response:
        """How many ranges a job of the caller could be given now."""
        wanted = parse(AcquireEventRanges, {"job_id": job_id, "task_id": task_id, "jobset_id": jobset_id})
        try:
            return Envelope(await ranges.available(caller, wanted.job_id, wanted.task_id))
        except NotTheJobs as error:
            return refused(INVALID, str(error))

    @router.get("/get_event_range_statuses")
    async def statuses(
        job_task_ids: Annotated[list[str], Query()], caller: Annotated[Caller, Depends(READER)]
    ) -> Response:
        """States of the ranges that jobs have or had, by job and range."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for one in await ranges.states(caller, pairs_of(job_task_ids)):
            state = {"status": one.status, "error": one.error_code, "dialog": one.error_diag}
            found.setdefault(str(one.range_id.job_id), {})[str(one.range_id)] = state
        return Envelope(found)


async def _reported(ranges: EventRanges, request: Request) -> RangeAnswers:
    wanted = parse(UpdateEventRanges, await fields_of(request, REPORT))
    reports = await asyncio.to_thread(reports_of, wanted.event_ranges)
    return await ranges.report(caller_of(request), reports, wanted.version)


def _as_told(one: TakenRange) -> dict[str, Any]:
    """A range in the protocol's words, without what is not known: JSON null is not expected there."""
    fields = {
        "eventRangeID": str(one.range_id), "LFN": one.lfn, "GUID": one.guid, "scope": one.scope,
        "startEvent": one.first_event, "lastEvent": one.last_event,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def _commands(answers: RangeAnswers) -> dict[str, str]:
    return {str(job_id): command for job_id, command in answers.commands.items()}


_ACQUIRE = body_of({"job_id": 1001, "task_id": 7, "n_ranges": 10}, AcquireEventRanges.model_json_schema())
_UPDATE = body_of(
    {"event_ranges": [{"eventRangeID": "7-1001-52-3-10", "eventStatus": "finished"}], "version": 0},
    UpdateEventRanges.model_json_schema(),
)
_SINGLE = body_of(
    {"event_range_id": "7-1001-52-3-10", "event_range_status": "finished"}, UpdateSingleEventRange.model_json_schema()
)
