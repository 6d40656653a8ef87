"""/server/panda/*: the interface that published pilots use.

Bodies are forms or JSON, gzipped or not; names are those of the older interface. Who may call what is in `methods`.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from services.job_dispatch.acquire.activity import PilotActivity
from services.job_dispatch.api.acquiring import Acquiring
from services.job_dispatch.api.body import HEARTBEAT, IDS, fields_of
from services.job_dispatch.api.call_limits import PilotLimits
from services.job_dispatch.api.debugging import SetDebugMode
from services.job_dispatch.api.failures import UnansweredRequest
from services.job_dispatch.api.legacy_answers import always_json, as_text, flat, sent_again, told
from services.job_dispatch.api.legacy_methods import LegacyMethod
from services.job_dispatch.api.reported import note_worker, report_of
from services.job_dispatch.api.requests import NO_JOBS, OK, PERMISSION, ROLE, job_ids_of, parse
from services.job_dispatch.lifecycle.commanding import CommandNotAllowed, NotLive, leave_command
from services.job_dispatch.lifecycle.reports import Reporting
from services.job_dispatch.policy.no_match import NoJobs
from services.job_dispatch.store import job_reads
from shared.auth import access, caller_of
from shared.db.database import Database
from shared.web.refusals import NOT_PERMITTED, count_refused


class LegacyApi:
    """The methods of the older interface."""

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

    def methods(self) -> list[LegacyMethod]:
        """For pilots and production, for users about their own jobs."""
        pilots, post, both = ("pilot", "production"), ("POST",), ("GET", "POST")
        anybody = ("user", *pilots)
        return [
            LegacyMethod("getJob", both, self.get_job, always_json, access.PILOTS, anybody, right="modify"),
            LegacyMethod(
                "updateJob",
                both,
                self.update_job,
                sent_again,
                access.PILOTS,
                anybody,
                takes_expired=True,
                right="modify",
            ),
            LegacyMethod(
                "updateWorkerPilotStatus",
                both,
                self.update_worker_status,
                sent_again,
                access.PILOTS,
                pilots,
                right="modify",
            ),
            LegacyMethod("getStatus", both, self.get_status, always_json, access.PILOTS, pilots),
            LegacyMethod("setDebugMode", post, self.set_debug_mode, as_text, access.COMMANDS, ("user", *pilots)),
        ]

    async def get_job(self, request: Request) -> Response:
        """One job, its fields beside the StatusCode; with nJobs a list of jobs. Always JSON."""
        wanted, found = await self._acquiring.acquire(request)
        if isinstance(found, NoJobs):
            hint = {"why": found.why, "reason": found.reason, "retry_after_s": found.retry_after_s}
            return flat({"StatusCode": NO_JOBS, "errorDialog": "no jobs in PanDA", **hint})
        specs = [b'{"StatusCode":0,' + (one.spec or "{}").encode().lstrip(b"{ ") for one in found]
        if wanted.says_how_many:
            specs = [b'{"StatusCode":0,"jobs":[' + b",".join(specs) + b"]}"]
        return Response(specs[0], media_type="application/json")

    async def update_job(self, request: Request) -> Response:
        """One report of a pilot; the answer carries the command for it, "NULL" for none."""
        verdict = await self._reporting.report(await report_of(request, self._limits))
        code = OK if verdict.refusal is None else ROLE
        if verdict.refusal is not None:
            count_refused(request.scope, [NOT_PERMITTED])
        return told(request, {"StatusCode": code, "command": verdict.command, "errorDialog": verdict.refusal})

    async def update_worker_status(self, request: Request) -> Response:
        """A worker started or finished."""
        refusal = await note_worker(self._activity, request)
        return told(request, {"StatusCode": OK if refusal is None else ROLE, "errorDialog": refusal})

    async def get_status(self, request: Request) -> Response:
        """States and attempts of the jobs `ids`, each joined by commas."""
        fields = await fields_of(request, IDS) if request.method == "POST" else {}
        job_ids = job_ids_of(request.query_params.getlist("ids") or fields.get("ids"), "ids")
        async with self._database.read() as connection:
            states = await job_reads.job_states(connection, job_ids)
        statuses = ",".join(one["status"] or "notfound" for one in states)
        attempts = ",".join(str(one["attempt_number"] or 0) for one in states)
        return told(request, {"StatusCode": OK, "status": statuses, "attemptNr": attempts})

    async def set_debug_mode(self, request: Request) -> Response:
        """Debug mode on or off: the text "Succeeded", or the reason."""
        wanted = parse(SetDebugMode, await fields_of(request, HEARTBEAT))
        try:
            await leave_command(self._database, caller_of(request), wanted.job_id, wanted.command)
        except (NotLive, CommandNotAllowed) as error:
            count_refused(request.scope, [NOT_PERMITTED])
            return as_text(UnansweredRequest(PERMISSION, str(error)))
        return Response("Succeeded", media_type="text/plain")
