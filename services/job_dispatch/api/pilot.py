"""/api/v1/pilot/*: what pilots call thousands of times per second.

These are plain Starlette routes with answers made of bytes.

Every answer is HTTP 200 with `{"success", "message", "data"}`, data with the protocol's `StatusCode`; 401 and 403 for
callers that may not, 503 when PostgreSQL is away (a pilot tries again). An answer is sent only after the commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from services.job_dispatch.acquire.activity import Activity
from services.job_dispatch.acquire.claims import Claims
from services.job_dispatch.acquire.no_match import NoMatch
from services.job_dispatch.acquire.picks import Granted
from services.job_dispatch.acquire.waiting import Unavailable
from services.job_dispatch.api.body import (
    ACQUIRE,
    BULK,
    HEARTBEAT,
    IDS,
    OF_LIST,
    OF_LIST_IN_TEXT,
    OF_ONE,
    REPORT,
    fields_of,
    readable,
    report_fields_of,
)
from services.job_dispatch.api.departure import WhileConnected
from services.job_dispatch.api.report_fields import read_report
from services.job_dispatch.api.requests import (
    FAILED,
    INVALID,
    MOST_REPORTS,
    NO_JOBS,
    OK,
    ROLE,
    TIMEOUT,
    AcquireJobs,
    BadRequest,
    WorkerUpdate,
    job_ids_of,
    parse,
    request_key,
    shown,
)
from services.job_dispatch.coalescing import TooLate
from services.job_dispatch.lifecycle.reports import Reporting
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.reports import Judgement, Report
from services.job_dispatch.store.job_reads import JobQueries
from shared.auth import Caller, NotAuthenticated, caller_of
from shared.db.database import is_retryable, is_unstorable, unavailable
from shared.model.problems import FieldProblem
from shared.web.envelope import Envelope, refused
from shared.web.intake import Crowded, crowded
from shared.web.json_text import parse_json

log = logging.getLogger(__name__)

LONGEST_KEY = 200
READ_TOGETHER = 16
PREFIX = "/api/v1/pilot"
Endpoint = Callable[[Request], Awaitable[Response]]


def come_again(reason: str) -> Response:
    """Nothing is wrong with the request, but it cannot be answered now."""
    return crowded(reason, {"StatusCode": TIMEOUT})


def guarded(*roles: str) -> Callable[[Endpoint], Endpoint]:
    """Check the caller, and turn what went wrong into the protocol's answers."""

    def wrap(endpoint: Endpoint) -> Endpoint:
        async def call(request: Request) -> Response:
            try:
                caller = caller_of(request)
            except NotAuthenticated as error:
                return Envelope({"StatusCode": INVALID}, str(error), success=False, status_code=401)
            if not caller.may(*roles):
                text = f"{caller.name} needs the role {' or '.join(roles)}"
                return Envelope({"StatusCode": ROLE}, text, success=False, status_code=403)
            try:
                return await endpoint(request)
            except BadRequest as error:
                return refused(error.data, str(error), error.problems)
            except ClientDisconnect:
                return Response(status_code=499)
            except (Unavailable, TooLate, Crowded) as error:
                return come_again(str(error))
            except Exception as error:
                if is_unstorable(error):
                    text = f"a value cannot be stored: {error}; nothing was changed"
                    return refused({"StatusCode": FAILED, "errorDialog": text}, text)
                if not is_retryable(error):
                    raise
                return come_again(unavailable(error))

        return call

    return wrap


class PilotApi:
    """The five methods."""

    def __init__(
        self,
        claims: Claims,
        reporting: Reporting,
        activity: Activity,
        no_match: NoMatch,
        jobs: JobQueries,
        metrics: DispatchMetrics,
    ) -> None:
        self._claims = claims
        self._reporting = reporting
        self._activity = activity
        self._no_match = no_match
        self._jobs = jobs
        self._metrics = metrics
        self._granted = metrics.acquires.labels("job")

    def routes(self) -> list[Route]:
        """All routes of pilots; GET and POST for the reads, as both are used."""
        pilot = guarded("pilot", "production")
        return [
            Route(f"{PREFIX}/acquire_jobs", pilot(self.acquire_jobs), methods=["POST"]),
            Route(f"{PREFIX}/update_job", pilot(self.update_job), methods=["POST"]),
            Route(f"{PREFIX}/update_jobs_bulk", pilot(self.update_jobs_bulk), methods=["POST"]),
            Route(f"{PREFIX}/get_job_status", pilot(self.get_job_status), methods=["GET", "POST"]),
            Route(f"{PREFIX}/update_worker_status", pilot(self.update_worker_status), methods=["POST"]),
        ]

    async def acquire_jobs(self, request: Request) -> Response:
        """The best jobs for the pilot, now `sent`.

        A repeated `Idempotency-Key` (same caller, queue, and worker or node) gets the same job while its pilot has it:
        sent, starting or running. Later the key is free again, and the answer is what a new request would get.
        """
        try:
            wanted = parse(AcquireJobs, await fields_of(request, ACQUIRE))
            key = request.headers.get("idempotency-key")
            if key is not None and not 0 < len(key) <= LONGEST_KEY:
                allowed = f"1 to {LONGEST_KEY} are"
                said = f"Idempotency-Key: {len(key)} characters are not allowed; {allowed}"
                raise BadRequest(FAILED, [FieldProblem("Idempotency-Key", shown(key), allowed, said)])
        except BadRequest:
            self._metrics.acquires.labels("refused").inc()
            raise
        offer = replace(wanted.offer(), subject=caller_of(request).name)
        if key is not None:
            key = request_key(caller_of(request).name, offer, key)
        if not await self._activity.knows(offer.queue):
            self._metrics.acquires.labels("refused").inc()
            return self._nothing(f"the queue {offer.queue!r} is not known", self._no_match.longest_wait_s)
        self._activity.pilot_seen(offer.queue)
        try:
            async with WhileConnected(request.receive):
                granted = await self._acquire(offer, wanted.n_jobs, key)
        except Unavailable:
            self._metrics.acquires.labels("unavailable").inc()
            raise
        if not granted:
            self._metrics.acquires.labels("none").inc()
            return self._nothing(*await self._no_match.explain(offer))
        self._granted.inc()
        return _jobs(granted)

    async def _acquire(self, offer: Offer, n_jobs: int, key: str | None) -> list[Granted]:
        """One claim per job; the jobs of one request have keys of their own, so a repeat gets the same ones.

        What was granted is returned also when another claim failed or came too late.
        """
        if n_jobs == 1:
            one = await self._claims.acquire(offer, key)
            return [one] if one is not None and one.spec is not None else []
        keys = [f"{key}#{number}" if key and number else key for number in range(n_jobs)]
        claims = [asyncio.ensure_future(self._claims.acquire(offer, one)) for one in keys]
        try:
            await asyncio.wait(claims)
        except asyncio.CancelledError:  # the caller has gone
            for claim in claims:
                claim.cancel()
            raise
        failed = [error for one in claims if (error := one.exception()) is not None]
        found = [one.result() for one in claims if one.exception() is None]
        granted = [one for one in found if one is not None and one.spec is not None]
        if failed and not granted:
            raise failed[0]
        return granted

    def _nothing(self, reason: str, retry_after_s: int) -> Response:
        data = {
            "StatusCode": NO_JOBS,
            "errorDialog": "no jobs in PanDA",
            "jobs": [],
            "reason": reason,
            "retry_after_s": retry_after_s,
        }
        return Envelope(data, f"no jobs: {reason}")

    async def update_job(self, request: Request) -> Response:
        """One report of a pilot."""
        fields, is_small = await report_fields_of(request, REPORT, OF_ONE)
        report = _from(caller_of(request), await _read(fields, is_small))
        verdict = await self._reporting.report(report)
        if verdict.refusal is not None:
            return refused(_refused_report(verdict), verdict.refusal)
        return Response(_told(verdict), media_type="application/json")

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
            verdict = await self._reporting.report(_from(caller, await _read(fields, is_small)))
        except BadRequest as error:
            return {"success": False, "message": str(error), "data": {"StatusCode": error.code}}
        if verdict.refusal is not None:
            return {"success": False, "message": verdict.refusal, "data": _refused_report(verdict)}
        return {"success": True, "message": "", "data": {"StatusCode": OK, "command": verdict.command}}

    async def get_job_status(self, request: Request) -> Response:
        """Status and attempt of jobs."""
        fields = await fields_of(request, IDS) if request.method == "POST" else {}
        job_ids = job_ids_of(request.query_params.getlist("job_ids") or fields.get("job_ids"))
        states = await self._jobs.states(job_ids)
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
        wanted = parse(WorkerUpdate, await fields_of(request, HEARTBEAT))
        if not await self._activity.knows(wanted.site_name):
            value, allowed = repr(wanted.site_name), "the name of a loaded queue is"
            said = f"site: value {value} is not allowed; {allowed}"
            raise BadRequest(FAILED, [FieldProblem("site", wanted.site_name, allowed, said)])
        caller = caller_of(request)
        if not await self._activity.worker(wanted.worker(caller.name, is_trusted=caller.may("production"))):
            text = f"worker {wanted.worker_id} of {wanted.harvester_id}: {caller.name} may not report what others began"
            return refused({"StatusCode": ROLE, "errorDialog": text}, text)
        return Envelope({"StatusCode": OK})


def _jobs(granted: Sequence[Granted]) -> Response:
    """The specifications are stored as JSON text and go out as they are."""
    specs = b",".join((one.spec or "{}").encode() for one in granted)
    body = b'{"success":true,"message":"","data":{"StatusCode":0,"jobs":[' + specs + b"]}}"
    return Response(body, media_type="application/json")


async def _read(fields: dict[str, Any], is_small: bool) -> Report:
    """Thousands of files are looked at in Python, which a thread does without stopping the others."""
    return read_report(fields) if is_small else await asyncio.to_thread(read_report, fields)


def _from(caller: Caller, report: Report) -> Report:
    return replace(report, subject=caller.name, is_trusted=caller.may("production"))


def _refused_report(verdict: Judgement) -> dict[str, Any]:
    return {"StatusCode": ROLE, "errorDialog": verdict.refusal, "command": verdict.command}


def _told(verdict: Judgement) -> bytes:
    return b'{"success":true,"message":"","data":{"StatusCode":0,"command":' + orjson.dumps(verdict.command) + b"}}"
