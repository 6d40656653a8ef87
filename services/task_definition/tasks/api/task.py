"""/api/v1/task: submitting and asking.

Anybody with a token may ask for states; names, parameters, files and texts of a task are for those whom the rule
DETAILS names. Users, production and operators may submit, if their token is not limited to other rights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import asyncpg
from fastapi import APIRouter, Body, Depends, Query
from starlette.responses import Response

from services.task_definition.data.telling import Telling
from services.task_definition.desk.store.audit import audit
from services.task_definition.tasks.api.task_filters import listed, wanted_of, words
from services.task_definition.tasks.policy.client_names import as_the_client_knows_it
from services.task_definition.tasks.store import archived as store_archived
from services.task_definition.tasks.store import periodic as store_periodic
from services.task_definition.tasks.store import reads as store_reads
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.archived import ArchivedTask
from services.task_definition.tasks.store.reads import FILES_PER_DATASET, TaskFilter
from services.task_definition.tasks.submitting.secret_requests import SecretRequests
from services.task_definition.tasks.submitting.submission import Submission, SubmissionRefused
from shared.auth import Caller, access, require
from shared.auth.state_view import WITHHELD
from shared.db.database import Database
from shared.model.common_names import only_newest
from shared.model.job_of_client import short_description
from shared.states.job import JobStatus
from shared.task.rule_text import text_of_rules
from shared.web.envelope import NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id, Number, Offset, Page, Text, Time, Truth

#: as `shared.web.envelope`: the API's number for what the caller may not do
NOT_PERMITTED = 3

Anyone = Annotated[Caller, Depends(require(access.STATES))]
Reader = Annotated[Caller, Depends(require(access.DETAILS))]
#: most jobs that are counted of each state
CountTo = Annotated[int | None, Query(ge=1, le=1_000_000)]
Submitter = Annotated[Caller, Depends(require(access.SUBMITTING, "user", "production", right="submit"))]
UNSUCCESSFUL: tuple[JobStatus, ...] = ("failed", "cancelled", "closed")
MOST_JOBS = 5000


def submission_routes(
    database: Database, submission: Submission, secrets: SecretRequests, telling: Telling
) -> APIRouter:
    """Submitting."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/task", tags=["task"])

    @router.post("/submit")
    async def submit(
        caller: Submitter,
        task_parameters: Annotated[dict[str, Any], Body()],
        parent_tid: Annotated[int | None, Body()] = None,
        dry_run: Annotated[bool, Body()] = False,
    ) -> Response:
        """Register a task (users: analysis tasks of their own; the rest needs production). Data: its id."""
        try:
            async with database.begin(reason=f"submitted by {caller.name}") as work:
                found = await submission.submit(work, task_parameters, caller, parent_id=parent_tid, dry_run=dry_run)
                if not dry_run:
                    if found.has_series:
                        await store_periodic.note_seen(work, caller)
                    target = f"task:{found.task_id}"
                    await audit(work.connection, caller=caller, verb="task.submit", target=target)
        except SubmissionRefused as refusal:
            await secrets.tell(caller, task_parameters, refusal)
            await telling.tell(database, caller, "task", refusal.problems)
            return refused(refusal.code, str(refusal), refusal.problems)
        if dry_run:
            return Envelope(found.facts, "dry run: the task would be accepted")
        if found.is_again:
            changed = ", ".join(found.facts["changed"]) or "nothing"
            said = f"reactivation accepted. jediTaskID={found.task_id} goes on with unused or failed input; changed:"
            return Envelope(found.task_id, f"{said} {changed}")
        warned = "".join(f". Warning: {one}" for one in found.warnings)
        return Envelope(found.task_id, f"succeeded. new jediTaskID={found.task_id}{warned}")

    return router


def task_routes(database: Database) -> APIRouter:
    """Asking."""
    routes, router = TaskRoutes(database), APIRouter(route_class=JsonRoute, prefix="/api/v1/task", tags=["task"])
    for question in (
        routes.get_status,
        routes.get_details,
        routes.get_detailed_info,
        routes.get_parent_detailed_info,
        routes.get_task_parameters,
        routes.get_job_ids,
        routes.get_job_descriptions,
        routes.get_datasets_and_files,
        routes.get_tasks_modified_since,
        routes.get_tasks_detailed_info_since,
    ):
        router.get(f"/{question.__name__}")(question)
    router.get("/list")(routes.list_tasks)
    return router


class TaskRoutes:
    """A method for each question, named as its path."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_status(self, caller: Anyone, task_id: Id) -> Response:
        """Its status as a text."""
        async with self._database.read() as connection:
            status = await store.status(connection, task_id)
        return Envelope(status) if status is not None else _not_found(task_id)

    async def get_details(
        self,
        caller: Reader,
        task_id: Id,
        include_parameters: Truth = None,
        include_status: Truth = None,
        include_kinds: Truth = None,
        count_to: CountTo = None,
    ) -> Response:
        """Every fact of a task, its datasets, and its jobs by state; to others its state and counts.

        `count_to`: so many jobs of each state are counted at the most; `more_jobs` names states with more.
        With `include_kinds` also its jobs by type, its ranges of events, and what rules about errors did: for
        operators, because these are counted one by one.
        """
        if include_kinds and not access.OPERATORS.allows(caller, access.Whose()):
            return refused(NOT_PERMITTED, f"include_kinds: {caller.name} is no operator; allowed: operators")
        async with self._database.read() as connection:
            details = await store_reads.task_details(connection, task_id, caller, count_to)
            if details is None:
                return await _archived_details(connection, caller, task_id, with_parameters=bool(include_parameters))
            if include_parameters and WITHHELD not in details:
                details["task_parameters"] = await store.parameters(connection, task_id)
            if include_kinds:
                details |= await store_reads.kinds(connection, task_id)
        return Envelope({"jediTaskID": task_id, "splitRule": text_of_rules(details["split_rule"] or {}), **details})

    async def get_detailed_info(self, caller: Reader, task_id: Id) -> Response:
        """Details with the parameters."""
        return await self.get_details(caller, task_id, True, True)

    async def get_parent_detailed_info(self, caller: Reader, task_id: Id) -> Response:
        """The same of its parent."""
        async with self._database.read() as connection:
            if not await _is_told(connection, caller, task_id):
                return _not_found(task_id)
            task = await store_reads.task_details(connection, task_id, caller)
        if task is None:
            return _not_found(task_id)
        if task["parent_tid"] in (None, task_id):  # a task without a parent is its own
            return refused(NOT_FOUND, f"task {task_id} has no parent")
        return await self.get_details(caller, task["parent_tid"], True, True)

    async def get_task_parameters(self, caller: Reader, task_id: Id) -> Response:
        """The JSON as submitted."""
        async with self._database.read() as connection:
            if not await _is_told(connection, caller, task_id):
                return _not_found(task_id)
            parameters: Mapping[str, Any] = await store.parameters(connection, task_id)
            archived = None if parameters else await store_archived.archived_task(connection, task_id)
        if archived is not None:
            return Envelope(archived.parameters, _said(archived))
        return Envelope(parameters) if parameters else _not_found(task_id)

    async def get_job_ids(self, caller: Reader, task_id: Id) -> Response:
        """PandaIDs of all its jobs."""
        async with self._database.read() as connection:
            if not await _is_told(connection, caller, task_id):
                return _not_found(task_id)
            return Envelope(await store_reads.job_ids(connection, task_id))

    async def get_job_descriptions(self, caller: Reader, task_id: Id, unsuccessful_only: Truth = None) -> Response:
        """A task's newest jobs, all or the unsuccessful: text for the pilot, state, error.

        The unsuccessful are those that failed, were cancelled or closed.
        """
        statuses = UNSUCCESSFUL if unsuccessful_only else None
        async with self._database.read() as connection:
            if not await _is_told(connection, caller, task_id):
                return _not_found(task_id)
            jobs = await store_reads.job_descriptions(connection, task_id, statuses, MOST_JOBS)
        message = f"only the newest {MOST_JOBS} jobs" if len(jobs) == MOST_JOBS else ""
        return Envelope([short_description(one) for one in jobs], message)

    async def get_datasets_and_files(
        self,
        caller: Reader,
        task_id: Id,
        dataset_types: Annotated[list[str] | None, Query()] = None,
        max_files: Annotated[int, Query(ge=0, le=100_000)] = FILES_PER_DATASET,
    ) -> Response:
        """Its datasets with their first files."""
        async with self._database.read() as connection:
            if not await _is_told(connection, caller, task_id):
                return _not_found(task_id)
            archived = await store_archived.archived_task(connection, task_id)
            if archived is not None:
                told = await store_archived.datasets_and_files(connection, archived, words(dataset_types), max_files)
                return Envelope(told, _said(archived))
            found = await store_reads.datasets_and_files(connection, task_id, words(dataset_types), max_files)
        return Envelope(found)

    async def get_tasks_modified_since(
        self,
        caller: Reader,
        since: Time = None,
        dn: Text = None,
        full: Truth = None,
        min_task_id: Number = None,
        prod_source_label: Text = None,
    ) -> Response:
        """Tasks changed since a time, of `dn` or the caller; with `full` also files and jobs by state."""
        wanted = TaskFilter(
            user_name=dn or caller.name,
            label=prod_source_label,
            modified_since=since,
            min_task_id=min_task_id,
            at_most=1000,
        )
        async with self._database.read() as connection:
            found = await store_reads.list_tasks(connection, wanted, caller, counts=bool(full))
        return Envelope([as_the_client_knows_it(one) for one in found])

    async def get_tasks_detailed_info_since(
        self, caller: Reader, n_tasks: Number = None, since: Time = None, filters: Text = None
    ) -> Response:
        """Tasks changed since a time, with filters and a limit.

        Filters are JSON text with the client's names: jediTaskID, taskName, userName, ...

        Tasks are the caller's own unless the filters name a task or a user.
        """
        wanted = wanted_of(filters, caller.name, since, n_tasks or 100)
        async with self._database.read() as connection:
            found = await store_reads.list_tasks(connection, wanted, caller)
        return Envelope([as_the_client_knows_it(one) for one in found])

    async def list_tasks(
        self,
        caller: Reader,
        wanted: Annotated[TaskFilter, Depends(listed)],
        limit: Annotated[int, Page(1000)] = 100,
        offset: Offset = 0,
        counts: bool = True,
        jobs: bool = True,
        quickly: bool = False,
    ) -> Response:
        """Tasks, the newest first, with files of their inputs and jobs by state; of others the state alone.

        Without `jobs` files are counted alone, without `counts` nothing. `quickly`: a `name` that has all in common
        with many is looked for among the newest 100,000 tasks, and `message` says so, for those who may read all.
        """
        wanted = replace(wanted, at_most=limit, skip=offset)
        async with self._database.read() as connection:
            asked = await store_reads.quick(connection, wanted, caller) if quickly else wanted
            found = await store_reads.list_tasks(connection, asked, caller, counts=counts, jobs=jobs)
        is_cut = asked.common_name is not None and len(found) < limit
        return Envelope(found, only_newest("tasks") if is_cut else "")


async def _archived_details(
    connection: asyncpg.Connection, caller: Caller, task_id: int, *, with_parameters: bool
) -> Response:
    """Tell the details of a task whose rows were dropped: as it was when it was archived."""
    archived = await store_archived.archived_task(connection, task_id)
    if archived is None:
        return _not_found(task_id)
    details = archived.details(caller)
    if with_parameters and archived.is_told_to(caller):
        details["task_parameters"] = archived.parameters
    rules = text_of_rules(details["split_rule"] or {})
    return Envelope({"jediTaskID": task_id, "splitRule": rules, **details}, _said(archived))


async def _is_told(connection: asyncpg.Connection, caller: Caller, task_id: int) -> bool:
    """Whether there is or was such a task and the caller may have its details."""
    whose = await store.whose(connection, task_id)
    return whose is not None and access.DETAILS.allows(caller, whose)


def _said(archived: ArchivedTask) -> str:
    return f"task {archived.task_id} was archived on {archived.archived_at:%Y-%m-%d}: its jobs are not kept any more"


def _not_found(task_id: int) -> Envelope:
    return refused(NOT_FOUND, f"task {task_id} not found")
