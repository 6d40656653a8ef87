"""What pilots report of jobs and workers, whatever interface they use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from services.job_dispatch.acquire.activity import PilotActivity
from services.job_dispatch.api.body import HEARTBEAT, OF_ONE, REPORT, fields_of, report_fields_of
from services.job_dispatch.api.call import PilotCall
from services.job_dispatch.api.call_limits import PilotLimits
from services.job_dispatch.api.report_fields import read_report
from services.job_dispatch.api.requests import FAILED, BadRequest, WorkerUpdate, parse
from services.job_dispatch.policy.reports import FINAL_REPORTED, Report
from shared.auth import Caller, TokenExpired, caller_of
from shared.model.problems import FieldProblem


async def report_of(request: PilotCall, limits: PilotLimits) -> Report:
    """The one report of a request. Raises BadRequest, Crowded; TooManyCalls for one that is not final."""
    fields, is_small = await report_fields_of(request, REPORT, OF_ONE)
    report = await reported(caller_of(request), fields, is_small)
    if report.job_status not in FINAL_REPORTED:
        limits.check(request.scope)
    return report


async def reported(caller: Caller, fields: Mapping[str, Any], is_small: bool) -> Report:
    """A report of a caller. Raises BadRequest.

    Raises TokenExpired for one whose token has, unless it tells the end of a job. Thousands of files are looked at in
    Python, which a thread does without stopping the others.
    """
    report = read_report(fields) if is_small else await asyncio.to_thread(read_report, fields)
    if caller.has_expired:
        if report.job_status not in FINAL_REPORTED:
            raise TokenExpired("token refused: Signature has expired; allowed: the end of a job that it acquired")
        return replace(report, subject=caller.name, vos=caller.vos, claimant_only=True)
    return replace(
        report,
        subject=caller.name,
        is_trusted=caller.vos is None and caller.may("production"),
        trusted_for=frozenset(vo for vo in ("", *(caller.vos or ())) if caller.may_for(vo, "production")),
        vos=caller.vos,
        own_only=not serves_others(caller),
    )


def serves_others(caller: Caller) -> bool:
    """Whether a pilot runs jobs of anybody, as those of production do; else those of its own user."""
    return caller.may("pilot", "production")


def vos_of_reporter(caller: Caller) -> frozenset[str] | None:
    """For whom somebody reports workers; an operator for every VO."""
    return None if caller.may("operator") else caller.vos


def is_final(fields: Any) -> bool:
    """Whether one of the reports of a list tells the end of a job."""
    return isinstance(fields, dict) and (fields.get("job_status") or fields.get("state")) in FINAL_REPORTED


async def note_worker(activity: PilotActivity, request: Request) -> str | None:
    """Store that a worker started or finished; why the caller may not say so. Raises BadRequest."""
    wanted = parse(WorkerUpdate, await fields_of(request, HEARTBEAT))
    if not await activity.knows(wanted.site_name):
        value, allowed = repr(wanted.site_name), "the name of a loaded queue is"
        said = f"site: value {value} is not allowed; {allowed}"
        raise BadRequest(FAILED, [FieldProblem("site", wanted.site_name, allowed, said)])
    caller = caller_of(request)
    worker = wanted.worker(caller.name, is_trusted=caller.may("production"), vos=vos_of_reporter(caller))
    if await activity.worker(worker):
        return None
    return f"worker {wanted.worker_id} of {wanted.harvester_id}: {caller.name} may not report what others began"
