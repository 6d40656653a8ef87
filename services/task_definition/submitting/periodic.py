"""Series of tasks: taken in, submitted one by one when they are due, held and ended.

Source: JEDI: Periodical task execution.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from services.task_definition.policy import commands as rules
from services.task_definition.policy.periodic import (
    MOST_OF_A_NAME,
    PERIODIC_COMMANDS,
    next_time,
    occurrence,
    problems_of_series,
)
from services.task_definition.policy.task_spec import parse_task
from services.task_definition.store.periodic import PeriodicStore, PeriodicTask, described
from services.task_definition.store.tasks import TaskStore
from services.task_definition.submitting.rights import owner_of
from services.task_definition.submitting.submission import Submission, SubmissionRefused
from shared.auth import Caller
from shared.db.unit_of_work import UnitOfWork
from shared.model.task_spec_problems import problem

log = logging.getLogger(__name__)
#: series looked at in one transaction
AT_ONCE = 10


class PeriodicTasks:
    """Whoever submits a series lends it their rights for each of its tasks."""

    def __init__(self, tasks: TaskStore, submission: Submission) -> None:
        self._tasks, self._submission, self._store = tasks, submission, PeriodicStore()

    async def submit(
        self,
        work: UnitOfWork,
        parameters: Mapping[str, Any],
        caller: Caller,
        *,
        period_s: int,
        starts_at: datetime | None,
        ends_at: datetime | None,
    ) -> int:
        """Take a series in; its id. Raises SubmissionRefused with every problem of it and its first task."""
        name = parameters.get("taskName")
        if isinstance(name, str) and len(name) > MOST_OF_A_NAME:
            told = problem("taskName", name, f"a number follows it; allowed: at most {MOST_OF_A_NAME} characters")
            raise SubmissionRefused([told])
        first = self._submission.completed(occurrence(parameters, 1))
        found = await self._submission.submit(work, first, caller, dry_run=True)
        if "submitted_again" in found.facts:
            raise SubmissionRefused([problem("taskName", name, "its tasks exist; allowed: another name")])
        spec = parse_task(first)
        problems = problems_of_series(spec, period_s, ends_at, work.now)
        if problems:
            raise SubmissionRefused(problems)
        periodic_id = await self._store.insert(
            work.connection,
            task_name=name,
            user_name=owner_of(spec, caller),
            vo=spec.parameters.vo,
            parameters=dict(parameters),
            caller=described(caller),
            period_s=period_s,
            next_at=starts_at or work.now,
            ends_at=ends_at,
        )
        await self._audit(work, caller, "submit", periodic_id, "accepted")
        return periodic_id

    async def submit_due(self, work: UnitOfWork) -> bool:
        """Periodic: the tasks that are due; whether there may be more."""
        due = await self._store.due(work.connection, AT_ONCE)
        for one in due:
            if one.ends_at is not None and one.ends_at <= work.now:
                await self._store.move(work.connection, one.periodic_id, "ended", ["active"])
            else:
                await self._submit_next(work, one)
        return len(due) == AT_ONCE

    async def _submit_next(self, work: UnitOfWork, series: PeriodicTask) -> None:
        """A task that is refused is left out; its series says why and goes on."""
        task_id, error = None, None
        parameters = occurrence(series.task_parameters, series.n_submitted + 1)
        try:
            async with work.connection.transaction():
                found = await self._submission.submit(work, parameters, series.as_caller())
                task_id = found.task_id
        except SubmissionRefused as refusal:
            error = str(refusal)[:2000]
            log.warning("periodic task %d: its task is refused: %s", series.periodic_id, error)
        then = next_time(series.next_at, series.period_s, work.now)
        await self._store.submitted(work.connection, series.periodic_id, task_id=task_id, error=error, next_at=then)
        if task_id is not None:
            await self._tasks.audit(
                work.connection,
                caller=series.as_caller(),
                verb="task.submit",
                target=f"task:{task_id}",
                details={"periodic_id": series.periodic_id},
            )

    async def command(self, work: UnitOfWork, periodic_id: int, verb: str, caller: Caller) -> rules.Reply:
        """pause, resume or end."""
        series = await self._store.lock(work.connection, periodic_id)
        reply = self._refusal(series, periodic_id, verb, caller)
        if reply is None:
            allowed, target = PERIODIC_COMMANDS[verb]
            await self._store.move(work.connection, periodic_id, target, allowed)
            reply = rules.Reply(rules.OK, f"periodic task {periodic_id} is {target}")
        outcome = "accepted" if reply.accepted else f"refused: {reply.message}"
        await self._audit(work, caller, verb, periodic_id, outcome)
        return reply

    def _refusal(self, series: PeriodicTask | None, periodic_id: int, verb: str, caller: Caller) -> rules.Reply | None:
        if series is None:
            return rules.Reply(rules.NOT_FOUND, f"periodic task {periodic_id} not found")
        if not caller.may_for(series.vo, "production") and (
            caller.name != series.user_name or not caller.is_of(series.vo)
        ):
            return rules.Reply(rules.NOT_PERMITTED, f"periodic task {periodic_id} belongs to {series.user_name}")
        allowed, _ = PERIODIC_COMMANDS[verb]
        if series.status not in allowed:
            words = ", ".join(sorted(allowed))
            said = f"{verb} is refused for a periodic task that is {series.status}; allowed: {words}"
            return rules.Reply(rules.IRRELEVANT, said)
        return None

    async def _audit(self, work: UnitOfWork, caller: Caller, verb: str, periodic_id: int, outcome: str) -> None:
        await self._tasks.audit(
            work.connection,
            caller=caller,
            verb=f"periodic_task.{verb}",
            target=f"periodic_task:{periodic_id}",
            outcome=outcome,
        )
