"""/api/v1/pilot/*: what pilots call thousands of times per second.

These are plain Starlette routes with answers made of bytes.

Every answer is HTTP 200 with `{"success", "message", "data"}`, data with the protocol's `StatusCode`; 401 and 403 for
callers that may not, 503 when PostgreSQL is away (a pilot tries again). An answer is sent only after the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.job_dispatch.acquire.activity import PilotActivity
from services.job_dispatch.acquire.picks import Granted
from services.job_dispatch.api.acquiring import Acquiring
from services.job_dispatch.api.body import BULK, IDS, OF_LIST, OF_LIST_IN_TEXT, fields_of, readable, report_fields_of
from services.job_dispatch.api.call import Direct, PilotCall
from services.job_dispatch.api.call_limits import PilotLimits
from services.job_dispatch.api.failures import enveloped, guarded
from services.job_dispatch.api.reported import is_final, note_worker, report_of, reported
from services.job_dispatch.api.requests import FAILED, MOST_REPORTS, NO_JOBS, OK, ROLE, BadRequest, job_ids_of, shown
from services.job_dispatch.lifecycle.reports import Reporting
from services.job_dispatch.policy.no_match import NoJobs
from services.job_dispatch.policy.reports import NO_COMMAND, Judgement
from services.job_dispatch.store import job_reads
from shared.auth import Caller, access, caller_of
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.web.envelope import Envelope, refused
from shared.web.json_text import parse_json

READ_TOGETHER = 16
_NO_COMMAND = b'{"success":true,"message":"","data":{"StatusCode":0,"command":"NULL"}}'
PREFIX = "/api/v1/pilot"
ANYBODY = ("user", "pilot", "production")


class PilotApi:
    """The methods in their envelopes."""

    def __init__(
        self,
        acquiring: Acquiring,
        reporting: Reporting,
        activity: PilotActivity,
        database: Database,
        limits: PilotLimits,
    ) -> None:
        self._limits = limits
        self._acquiring = acquiring
        self._reporting = reporting
        self._activity = activity
        self._database = database

    def direct(self) -> dict[str, Direct]:
        """The two calls that are most of all."""
        pilot = guarded(enveloped, access.PILOTS, *ANYBODY, right="modify")
        ending = guarded(enveloped, access.PILOTS, *ANYBODY, takes_expired=True, right="modify")
        return {f"{PREFIX}/acquire_jobs": pilot(self._acquired), f"{PREFIX}/update_job": ending(self._reported)}

    def routes(self) -> list[Route]:
        """All routes of pilots; GET and POST for the reads, as both are used."""
        reading = guarded(enveloped, access.PILOTS, *ANYBODY)
        pilot = guarded(enveloped, access.PILOTS, *ANYBODY, right="modify")
        ending = guarded(enveloped, access.PILOTS, *ANYBODY, takes_expired=True, right="modify")
        # pilots that people start for their own jobs are no workers of a factory
        worker = guarded(enveloped, access.PILOTS, "pilot", "production", right="modify")
        return [
            Route(f"{PREFIX}/acquire_jobs", pilot(self.acquire_jobs), methods=["POST"]),
            Route(f"{PREFIX}/update_job", ending(self.update_job), methods=["POST"]),
            Route(f"{PREFIX}/update_jobs_bulk", pilot(self.update_jobs_bulk), methods=["POST"]),
            Route(f"{PREFIX}/get_job_status", reading(self.get_job_status), methods=["GET", "POST"]),
            Route(f"{PREFIX}/update_worker_status", worker(self.update_worker_status), methods=["POST"]),
        ]

    async def acquire_jobs(self, request: Request) -> Response:
        """The best jobs for the pilot, now `sent`."""
        return _response(await self._acquired(request))

    async def update_job(self, request: Request) -> Response:
        """One report of a pilot."""
        return _response(await self._reported(request))

    async def _acquired(self, request: PilotCall) -> bytes | Response:
        _, found = await self._acquiring.acquire(request)
        return _nothing(found) if isinstance(found, NoJobs) else _jobs(found)

    async def _reported(self, request: PilotCall) -> bytes | Response:
        verdict = await self._reporting.report(await report_of(request, self._limits))
        if verdict.refusal is not None:
            return refused(_refused_report(verdict), verdict.refusal)
        return _told(verdict)

    async def update_jobs_bulk(self, request: Request) -> Response:
        """Many reports; each has its own answer, in the order they came."""
        fields, is_small = await report_fields_of(request, BULK, OF_LIST)
        wanted = fields.get("job_list")
        if isinstance(wanted, str):
            try:
                wanted = await parse_json(await readable(wanted.encode(), BULK, OF_LIST_IN_TEXT), BULK)
            except ValueError:
                wanted = None
        if not isinstance(wanted, list) or len(wanted) > MOST_REPORTS:
            allowed = f"must be a list of at most {MOST_REPORTS} objects"
            one = FieldProblem("job_list", shown(fields.get("job_list")), allowed, f"job_list: {allowed}")
            raise BadRequest(FAILED, [one])
        if not any(is_final(one) for one in wanted):
            self._limits.check(request.scope)
        answers: list[asyncio.Task[dict[str, Any]]] = []
        for number, one in enumerate(wanted):  # reading a report takes a while: others come in between
            answers.append(asyncio.create_task(self._one_of_many(caller_of(request), one, is_small)))
            if number % READ_TOGETHER == 0:
                await asyncio.sleep(0)
        told = [await one for one in answers]
        return Envelope(told, success=all(one["success"] for one in told))

    async def _one_of_many(self, caller: Caller, fields: Any, is_small: bool) -> dict[str, Any]:
        if not isinstance(fields, dict):
            return {"success": False, "message": "job_list: must hold objects", "data": {"StatusCode": FAILED}}
        try:
            verdict = await self._reporting.report(await reported(caller, fields, is_small))
        except BadRequest as error:
            return {"success": False, "message": str(error), "data": {"StatusCode": error.code}}
        if verdict.refusal is not None:
            return {"success": False, "message": verdict.refusal, "data": _refused_report(verdict)}
        return {"success": True, "message": "", "data": {"StatusCode": OK, "command": verdict.command}}

    async def get_job_status(self, request: Request) -> Response:
        """Status and attempt of jobs."""
        fields = await fields_of(request, IDS) if request.method == "POST" else {}
        job_ids = job_ids_of(request.query_params.getlist("job_ids") or fields.get("job_ids"))
        async with self._database.read() as connection:
            states = await job_reads.job_states(connection, job_ids)
        data = [
            {
                "job_id": one["job_id"],
                "status": one["status"] or "not found",
                "attempt_number": one["attempt_number"] or 0,
            }
            for one in states
        ]
        return Envelope(data)

    async def update_worker_status(self, request: Request) -> Response:
        """A worker started or finished."""
        refusal = await note_worker(self._activity, request)
        if refusal is not None:
            return refused({"StatusCode": ROLE, "errorDialog": refusal}, refusal)
        return Envelope({"StatusCode": OK})


def _nothing(why: NoJobs) -> Response:
    data = {
        "StatusCode": NO_JOBS,
        "errorDialog": "no jobs in PanDA",
        "jobs": [],
        "why": why.why,
        "reason": why.reason,
        "retry_after_s": why.retry_after_s,
    }
    return Envelope(data, f"no jobs: {why.reason}")


def _response(found: bytes | Response) -> Response:
    return Response(found, media_type="application/json") if isinstance(found, bytes) else found


def _jobs(granted: Sequence[Granted]) -> bytes:
    """The specifications are stored as JSON text and go out as they are."""
    specs = b",".join([(one.spec or "{}").encode() for one in granted])
    return b'{"success":true,"message":"","data":{"StatusCode":0,"jobs":[' + specs + b"]}}"


def _refused_report(verdict: Judgement) -> dict[str, Any]:
    return {"StatusCode": ROLE, "errorDialog": verdict.refusal, "command": verdict.command}


def _told(verdict: Judgement) -> bytes:
    if verdict.command == NO_COMMAND:
        return _NO_COMMAND
    return b'{"success":true,"message":"","data":{"StatusCode":0,"command":' + orjson.dumps(verdict.command) + b"}}"
