"""/api/v1/job/* and /api/v1/statistics/*: what people and their tools ask about jobs, and the kill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import Field

from services.job_dispatch.api.body import IDS, fields_of
from services.job_dispatch.api.requests import INVALID, BadRequest, RequestFields, Text, job_ids_of, parse
from services.job_dispatch.lifecycle.transitions import kill_jobs
from services.job_dispatch.store import job_reads
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.job_reads import (
    MOST_DESCRIBED,
    MOST_DESCRIBED_BYTES,
    Described,
    JobFilter,
    may_read,
)
from shared.auth import Caller, access, require
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.model.whole_numbers import LARGEST_ID
from shared.states.job import MEANINGS
from shared.web.envelope import Envelope
from shared.web.json_route import JsonRoute
from shared.web.values import MaybeId, Page

MOST_ROWS = 10_000
Anyone = Annotated[Caller, Depends(require(access.STATES))]
Reader = Annotated[Caller, Depends(require(access.DETAILS))]
Killer = Annotated[Caller, Depends(require(access.COMMANDS, right="cancel"))]


class ListJobs(RequestFields):
    """Filters of `job/list`."""

    task_id: MaybeId = None
    status: Annotated[str, Field(pattern=f"^({'|'.join(MEANINGS)})$")] | None = None
    queue: Text = None
    user_name: Text = None
    like: MaybeId = None
    before_id: MaybeId = None
    limit: Annotated[int, Page(MOST_ROWS)] = 100


def job_routes(database: Database) -> APIRouter:
    """Make the routes of people and their tools.

    States for any caller; places, specifications and reports for those whom the rule DETAILS names. Kill for the owner,
    production of the VO and operators.
    """
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["jobs"])
    _add_questions(router, database)
    _add_kill(router, database)

    @router.get("/statistics/active_job_stats_by_site")
    async def by_queue(caller: Anyone) -> Response:
        """Jobs per queue, resource type and state: what pilot factories go by."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        async with database.read() as connection:
            rows = await job_reads.jobs_by_queue(connection)
        for row in rows:
            found.setdefault(row["queue"], {}).setdefault(row["resource_type"], {})[row["status"]] = row["n_jobs"]
        return Envelope(found)

    return router


def _add_questions(router: APIRouter, database: Database) -> None:
    @router.get("/job/get_status")
    async def get_status(job_ids: Annotated[list[str], Query()], caller: Anyone) -> Response:
        """Status, attempt and VO of each job in the order of the ids; to its readers owner and command."""
        wanted = job_ids_of(job_ids)
        async with database.read() as connection:
            states = await job_reads.job_states(connection, wanted)
        shown = [one if one["status"] and may_read(caller, one) else {**one, **_UNTOLD} for one in states]
        return Envelope([{**one, "status": one["status"] or "not found"} for one in shown])

    @router.get("/job/list")
    async def list_jobs(
        caller: Reader,
        task_id: str | None = None,
        status: str | None = None,
        queue: str | None = None,
        user_name: str | None = None,
        like: str | None = None,
        before_id: str | None = None,
        limit: str | None = None,
        job_ids: Annotated[list[str] | None, Query()] = None,
    ) -> Response:
        """Jobs, the newest first; `before_id` is the last id of the page before. `queue` may be QUEUE/TYPE.

        `like`: those of its task that failed of the same as this job, of 10,000 that are looked at. Of jobs of others
        the state alone is given, and of a `queue`, a `user_name` or `like` none of them.
        """
        given = {
            "task_id": task_id, "status": status, "queue": queue, "user_name": user_name, "like": like,
            "before_id": before_id, "limit": limit,
        }  # fmt: skip
        wanted = _filter_of(given, job_ids)
        async with database.read() as connection:
            found = await job_reads.list_jobs(connection, wanted, caller)
        return Envelope(found)

    @router.get("/job/get_description_incl_archive")
    @router.get("/job/get_description")
    async def get_description(job_ids: Annotated[list[str], Query()], caller: Reader) -> Response:
        """Specification, state and reports of each job that the caller may read; of others the state.

        At most 1000 jobs, and as many as have room: `message` names those that are left out.
        """
        wanted = described_ids(job_ids)
        async with database.read() as connection:
            found = await job_reads.describe_jobs(connection, wanted, caller)
        return Envelope(found.jobs, left_out(found))


def _filter_of(given: Mapping[str, str | None], job_ids: list[str] | None) -> JobFilter:
    """Which jobs to list. Raises BadRequest."""
    wanted = parse(ListJobs, {key: value for key, value in given.items() if value not in (None, "None")})
    at, _, resource_type = (wanted.queue or "").partition("/")
    return JobFilter(
        task_id=wanted.task_id,
        status=wanted.status,
        queue=at or None,
        resource_type=resource_type or None,
        user_name=wanted.user_name,
        like=wanted.like,
        job_ids=tuple(job_ids_of(job_ids)) if job_ids else None,
        before_id=wanted.before_id,
        limit=wanted.limit,
    )


def _add_kill(router: APIRouter, database: Database) -> None:
    @router.post("/job/kill", openapi_extra=_KILL_BODY)
    async def kill(request: Request, caller: Killer) -> Response:
        """Kill jobs; true for each that was killed now. A pilot that has one is told at its next report.

        The list comes as a success even if nothing was killed: the client shows no list of an answer that is none.
        """
        fields = await fields_of(request, IDS)
        ids = job_ids_of(fields.get("job_ids"))
        async with database.read() as connection:
            states = {one["job_id"]: one for one in await job_reads.job_states(connection, ids)}
        allowed = [one for one in ids if states[one]["status"] and _may_kill(caller, states[one])]
        async with database.begin(reason=f"killed by {caller.name}") as work:
            killed = set(await kill_jobs(work, allowed, f"killed by {caller.name}"))
            target = "job " + ",".join(map(str, ids[:20]))
            details = {"killed": sorted(killed), "code": fields.get("code")}
            await store.audit(work.connection, caller, "job/kill", target, details)
        refusals = [_refusal(one, states[one], caller) for one in ids if one not in killed]
        message = "; ".join(refusals[:20])
        return Envelope([one in killed for one in ids], message)


def described_ids(value: Any) -> list[int]:
    """Ids of jobs to describe. Raises BadRequest for more than one answer describes."""
    job_ids = job_ids_of(value)
    if len(job_ids) > MOST_DESCRIBED:
        allowed = f"1 to {MOST_DESCRIBED} are"
        said = f"job_ids: {len(job_ids)} ids are not allowed; {allowed}"
        raise BadRequest(INVALID, [FieldProblem("job_ids", str(len(job_ids)), allowed, said)])
    return job_ids


def left_out(found: Described) -> str:
    """Which jobs an answer does not describe; nothing where it describes all."""
    if not found.left_out:
        return ""
    first, more = ", ".join(map(str, found.left_out[:20])), len(found.left_out) - 20
    named = f"{first} and {more} more" if more > 0 else first
    return f"left out: jobs {named}; an answer has {MOST_DESCRIBED_BYTES // 2**20} MB at most: ask for them apart"


def _may_kill(caller: Caller, state: Mapping[str, Any]) -> bool:
    return access.COMMANDS.allows(caller, access.Whose.of(state["owner"], state["vo"]))


def _refusal(job_id: int, state: Mapping[str, Any], caller: Caller) -> str:
    if not state["status"]:
        return f"job {job_id}: not found"
    if not _may_kill(caller, state):
        return f"job {job_id}: is of the VO {state['vo']}: {access.COMMANDS.meaning} may kill it"
    return f"job {job_id}: is {state['status']}"


#: what of a state is for those who may read the job
_UNTOLD = dict.fromkeys(("command", "user_name", "owner"))


def body_of(example: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """How the document describes a body that a route reads by itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema, "example": example}}}}


_ID = {"type": "integer", "minimum": 1, "maximum": LARGEST_ID}
_KILL_BODY = body_of(
    {"job_ids": [1001]},
    {
        "type": "object",
        "required": ["job_ids"],
        "properties": {"job_ids": {"type": "array", "items": _ID}, "code": {"type": "integer"}},
    },
)
