"""Series of tasks: taken in, submitted one by one when they are due, held and ended.

Source: JEDI: Periodical task execution.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from services.task_definition.data.telling import Telling
from services.task_definition.desk.store.audit import audit
from services.task_definition.parameters import SERIES_SUBMITTER_SEEN_DAYS
from services.task_definition.tasks.commanding.command import SYSTEM
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.policy.periodic import (
    MOST_OF_A_NAME,
    PERIODIC_COMMANDS,
    next_time,
    occurrence,
    problems_of_series,
    right_lost,
)
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.store import periodic as store
from services.task_definition.tasks.store.periodic import Lapsed, PeriodicTask, described
from services.task_definition.tasks.submitting.rights import owner_of
from services.task_definition.tasks.submitting.secret_requests import SecretRequests
from services.task_definition.tasks.submitting.submission import Submission, SubmissionRefused
from shared.auth import Caller, access
from shared.auth.access import Whose
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.model.task_spec_problems import problem

log = logging.getLogger(__name__)
#: series looked at in one transaction
AT_ONCE = 10
#: what refused writes of series are called where they are told
TOLD_AS = "periodic task"


class PeriodicTasks:
    """Whoever submits a series lends it the rights that they have on the day of each task.

    These are what their newest token said, in any call about series and any submission. A series pauses when they are
    revoked, left the VO, or showed no token for long.
    """

    def __init__(
        self, submission: Submission, parameters: Parameters, secrets: SecretRequests, telling: Telling
    ) -> None:
        self._submission, self._parameters = submission, parameters
        self._secrets, self._telling = secrets, telling

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
        periodic_id = await store.insert(
            work,
            task_name=name,
            user_name=owner_of(spec, caller),
            vo=spec.parameters.vo,
            parameters=dict(parameters),
            caller=described(caller),
            source=caller.source,
            period_s=period_s,
            next_at=starts_at or work.now,
            ends_at=ends_at,
        )
        await self._audit(work, caller, "submit", periodic_id, "accepted")
        return periodic_id

    async def submit_due(self, work: UnitOfWork) -> bool:
        """Periodic: the tasks that are due; whether there may be more."""
        lapsed = await store.lapsed(work, self._seen_within_s, count=AT_ONCE)
        for series in lapsed:
            await self._pause(work, series.periodic_id, _said(series, self._seen_within_s))
        if len(lapsed) == AT_ONCE:
            return True  # nothing is submitted before all of them pause
        due = await store.due(work, AT_ONCE)
        for one in due:
            lost = right_lost(one.as_caller(), one.user_name, one.vo)
            if one.ends_at is not None and one.ends_at <= work.now:
                await store.move(work, one.periodic_id, "ended", ["active"])
            elif lost is not None:
                await self._pause(work, one.periodic_id, lost)
            else:
                await self._submit_next(work, one)
        return len(due) == AT_ONCE

    @property
    def _seen_within_s(self) -> float:
        return self._parameters.read(SERIES_SUBMITTER_SEEN_DAYS) * 86_400

    async def _pause(self, work: UnitOfWork, periodic_id: int, reason: str) -> None:
        if await store.move(work, periodic_id, "paused", ["active"], reason):
            log.warning("periodic task %d is paused: %s", periodic_id, reason)
            await self._audit(work, SYSTEM, "pause", periodic_id, f"paused: {reason}"[:500])

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
            caller = series.as_caller()
            await self._secrets.tell_with(work, caller, parameters, refusal)
            await self._telling.tell_with(work, caller.name, TOLD_AS, refusal.problems)
        then = next_time(series.next_at, series.period_s, work.now)
        await store.note_submitted(work, series.periodic_id, task_id=task_id, error=error, next_at=then)
        if task_id is not None:
            await audit(
                work.connection,
                caller=series.as_caller(),
                verb="task.submit",
                target=f"task:{task_id}",
                details={"periodic_id": series.periodic_id},
            )

    async def command(self, work: UnitOfWork, periodic_id: int, verb: str, caller: Caller) -> rules.Reply:
        """pause, resume or end."""
        await store.note_seen(work, caller)
        series = await store.lock(work, periodic_id)
        reply = self._refusal(series, periodic_id, verb, caller)
        if reply is None and series is not None and verb == "resume":
            reply = await self._lapsed(work, series)
        if reply is None:
            allowed, target = PERIODIC_COMMANDS[verb]
            await store.move(work, periodic_id, target, allowed)
            reply = rules.Reply(rules.OK, f"periodic task {periodic_id} is {target}")
        outcome = "accepted" if reply.accepted else f"refused: {reply.message}"
        await self._audit(work, caller, verb, periodic_id, outcome)
        return reply

    def _refusal(self, series: PeriodicTask | None, periodic_id: int, verb: str, caller: Caller) -> rules.Reply | None:
        if series is None or not access.COMMANDS.allows(caller, Whose(series.user_name, series.vo)):
            return rules.Reply(rules.NOT_FOUND, f"periodic task {periodic_id} not found")
        allowed, _ = PERIODIC_COMMANDS[verb]
        if series.status not in allowed:
            words = ", ".join(sorted(allowed))
            said = f"{verb} is refused for a periodic task that is {series.status}; allowed: {words}"
            return rules.Reply(rules.IRRELEVANT, said)
        return None

    async def _lapsed(self, work: UnitOfWork, series: PeriodicTask) -> rules.Reply | None:
        """A series that nobody stands for is resumed by who submitted it, with a token of today."""
        found = await store.lapsed(work, self._seen_within_s, status="paused", periodic_id=series.periodic_id)
        reasons = [_said(one, self._seen_within_s) for one in found if one.revoked in (None, one.submitter)]
        lost = right_lost(series.as_caller(), series.user_name, series.vo)
        reason = next(iter(reasons), lost)
        if reason is None:
            return None
        name = series.caller["name"]
        said = f"resume is refused: {reason}; allowed: a call of {name} with a new token that has what is missing"
        return rules.Reply(rules.NOT_PERMITTED, said)

    async def _audit(self, work: UnitOfWork, caller: Caller, verb: str, periodic_id: int, outcome: str) -> None:
        await audit(
            work.connection,
            caller=caller,
            verb=f"periodic_task.{verb}",
            target=f"periodic_task:{periodic_id}",
            outcome=outcome,
        )


def _said(lapsed: Lapsed, seen_within_s: float) -> str:
    """Why nobody stands for a series."""
    if lapsed.revoked is not None:
        return f"{lapsed.revoked} was revoked"
    return f"{lapsed.submitter} showed no token for {seen_within_s / 86_400:g} days"
