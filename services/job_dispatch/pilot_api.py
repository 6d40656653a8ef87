"""/api/v1/pilot/*: what pilots call, thousands of times per second; plain Starlette routes, answers made of bytes.

Every answer is HTTP 200 with `{"success", "message", "data"}`, data with the protocol's `StatusCode`; 401 and 403 for
callers that may not, 503 when PostgreSQL is away (a pilot tries again). An answer is sent only after the commit.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from services.job_dispatch.activity import Activity
from services.job_dispatch.body import (
    ACQUIRE,
    BULK,
    HEARTBEAT,
    IDS,
    OF_LIST,
    OF_LIST_IN_TEXT,
    OF_ONE,
    REPORT,
    BadBody,
    fields_of,
    readable,
    report_fields_of,
)
from services.job_dispatch.claims import Claims
from services.job_dispatch.coalescer import TooLate
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.no_match import NoMatch
from services.job_dispatch.picks import Granted
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.reports import Report, Verdict
from services.job_dispatch.queries_of_jobs import JobQueries
from services.job_dispatch.report_fields import read_report
from services.job_dispatch.reporting import Reporting
from services.job_dispatch.requests import (
    FAILED,
    INVALID,
    LARGEST_ID,
    MOST_IDS,
    MOST_REPORTS,
    NO_JOBS,
    OK,
    ROLE,
    TIMEOUT,
    AcquireJobs,
    BadRequest,
    WorkerUpdate,
    parse,
)
from services.job_dispatch.waiting import Unavailable
from shared.auth import Caller, NotAuthenticated, caller_of
from shared.db.database import is_retryable, is_unstorable, unavailable
from shared.web.departure import WhileConnected
from shared.web.intake import RETRY_AFTER_S, Crowded
from shared.web.json_text import parse_json

log = logging.getLogger(__name__)

LONGEST_KEY = 200
READ_TOGETHER = 16
PREFIX = "/api/v1/pilot"
Endpoint = Callable[[Request], Awaitable[Response]]


def envelope(success: bool, message: str, data: Any, status: int = 200) -> Response:
    """The answer of every method."""
    body = orjson.dumps({"success": success, "message": message, "data": data})
    return Response(body, status, media_type="application/json")


def refused(error: BadRequest) -> Response:
    return envelope(
        False, str(error), {"StatusCode": error.code, "errorDialog": str(error), "problems": error.problems}
    )


def come_again(reason: str) -> Response:
    """Nothing is wrong with the request, but it cannot be answered now."""
    answer = envelope(False, reason, {"StatusCode": TIMEOUT}, 503)
    answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def guarded(*roles: str) -> Callable[[Endpoint], Endpoint]:
    """Check the caller, and turn what went wrong into the protocol's answers."""

    def wrap(endpoint: Endpoint) -> Endpoint:
        async def call(request: Request) -> Response:
            try:
                caller = caller_of(request)
            except NotAuthenticated as error:
                return envelope(False, str(error), {"StatusCode": INVALID}, 401)
            if not caller.may(*roles):
                text = f"{caller.name} needs the role {' or '.join(roles)}"
                return envelope(False, text, {"StatusCode": ROLE}, 403)
            try:
                return await endpoint(request)
            except BadRequest as error:
                return refused(error)
            except BadBody as error:
                return envelope(False, str(error), {"StatusCode": FAILED, "errorDialog": str(error)})
            except ClientDisconnect:
                return Response(status_code=499)
            except (Unavailable, TooLate, Crowded) as error:
                return come_again(str(error))
            except Exception as error:
                if is_unstorable(error):
                    text = f"a value cannot be stored: {error}; nothing was changed"
                    return envelope(False, text, {"StatusCode": FAILED, "errorDialog": text})
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
                problem = f"Idempotency-Key: {len(key)} characters are not allowed; 1 to {LONGEST_KEY} are"
                raise BadRequest(FAILED, [{"field": "Idempotency-Key", "message": problem}])
        except (BadRequest, BadBody):
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
        """One claim per job; the jobs of one request have keys of their own, so a repeat gets the same ones. What was
        granted is returned also when another claim failed or came too late."""
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
        return envelope(True, f"no jobs: {reason}", data)

    async def update_job(self, request: Request) -> Response:
        """One report of a pilot."""
        fields, is_small = await report_fields_of(request, REPORT, OF_ONE)
        report = _from(caller_of(request), await _read(fields, is_small))
        verdict = await self._reporting.report(report)
        if verdict.refusal is not None:
            return envelope(False, verdict.refusal, _refused_report(verdict))
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
            problem = f"job_list: must be a list of at most {MOST_REPORTS} objects"
            raise BadRequest(FAILED, [{"field": "job_list", "message": problem}])
        answers: list[asyncio.Task[dict[str, Any]]] = []
        for number, one in enumerate(wanted):  # reading a report takes a while: others come in between
            answers.append(asyncio.create_task(self._one_of_many(caller_of(request), one, is_small)))
            if number % READ_TOGETHER == 0:
                await asyncio.sleep(0)
        told = [await one for one in answers]
        return envelope(all(one["success"] for one in told), "", told)

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
        return envelope(True, "", data)

    async def update_worker_status(self, request: Request) -> Response:
        """A worker started or finished."""
        wanted = parse(WorkerUpdate, await fields_of(request, HEARTBEAT))
        if not await self._activity.knows(wanted.site_name):
            problem = f"site: value {wanted.site_name!r} is not allowed; the name of a loaded queue is"
            raise BadRequest(FAILED, [{"field": "site", "value": wanted.site_name, "message": problem}])
        await self._activity.worker(wanted.worker())
        return envelope(True, "", {"StatusCode": OK})


def request_key(caller: str, offer: Offer, key: str) -> str:
    """What identifies a request among all: two pilots that count their requests from 1 must not get one job, also if
    they share a token. The scope of a key is its caller, queue and worker (the node where no worker is named). It is
    a digest, because each of them may be long."""
    scope = orjson.dumps([caller, offer.queue, offer.worker, key])
    return hashlib.blake2b(scope, digest_size=20).hexdigest()


def job_ids_of(value: Any) -> list[int]:
    """Ids as repeated keys, a list, or text separated by commas. Raises BadRequest."""
    if _are_ids(value):
        return list(value)
    parts = value if isinstance(value, list) else [] if value is None else [value]
    flat = [
        piece for part in parts for piece in (str(part).strip("[]").split(",") if not isinstance(part, int) else [part])
    ]
    ids = []
    for piece in flat:
        text = str(piece).strip()
        if not text:
            continue
        if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) < 2**63):
            problem = f"job_ids: value {text[:40]!r} is not allowed; positive whole numbers are"
            raise BadRequest(INVALID, [{"field": "job_ids", "value": text[:40], "message": problem}])
        ids.append(int(text))
    if not ids or len(ids) > MOST_IDS:
        problem = f"job_ids: {len(ids)} ids are not allowed; 1 to {MOST_IDS} are"
        raise BadRequest(INVALID, [{"field": "job_ids", "message": problem}])
    return ids


def _are_ids(value: Any) -> bool:
    """A list of numbers that needs no closer look, as most are: thousands are checked in well under a millisecond."""
    is_short = isinstance(value, list) and len(value) <= MOST_IDS
    return is_short and set(map(type, value)) == {int} and min(value) > 0 and max(value) <= LARGEST_ID


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


def _refused_report(verdict: Verdict) -> dict[str, Any]:
    return {"StatusCode": ROLE, "errorDialog": verdict.refusal, "command": verdict.command}


def _told(verdict: Verdict) -> bytes:
    return b'{"success":true,"message":"","data":{"StatusCode":0,"command":' + orjson.dumps(verdict.command) + b"}}"
