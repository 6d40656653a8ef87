"""Gives ranges of events to the pilots that have jobs, and takes their reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from services.job_dispatch.parameters import REPORTERS
from services.job_dispatch.policy.event_ranges import (
    RangeId,
    RangeRow,
    RangeVerdict,
    ReportedRangeStatus,
    judge_range,
)
from services.job_dispatch.policy.reports import NO_COMMAND, TO_BE_KILLED, Report, ReportedJob, is_known_reporter
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.event_ranges import (
    RangeDetails,
    RangeState,
    TakenRange,
    WrittenFile,
    copy_failed,
    count_ready,
    count_ready_of_task,
    lock_sets_of_jobs,
    lock_sets_of_ranges,
    move_ranges,
    named_ranges,
    note_files,
    note_refused,
    open_points,
    plan_once,
    range_states,
    take_ranges,
    take_ranges_of_task,
    whose_tasks,
)
from services.job_dispatch.store.jobs import LockedJob
from shared.auth import Caller, access
from shared.auth.access import DETAILS, PILOTS, Whose
from shared.auth.named import is_named
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.db.waits import RowHeld
from shared.events import TaskPointsOpened
from shared.states.event_range import EventRangeStatus
from shared.states.job import ON_NODE

GIVEN = "a pilot asked"
#: jobs of this type take ranges of all job sets of their task
JUMBO = "jumbo"
COPIED = "copy of a failed range"


class NotTheJobs(Exception):
    """The caller may take no ranges for the job: it is not live, not theirs, or of another task."""


class RangeReport(NamedTuple):
    """One range in a pilot's report; `range_id` is None where the name of the range is none.

    `status` is None for a state that pilots cannot report, which is then what they said.
    """

    name: str
    range_id: RangeId | None
    status: ReportedRangeStatus | None
    said_status: str = ""
    error_code: int | None = None
    error_diag: str | None = None
    obj_store_id: int | None = None
    file: WrittenFile | None = None


@dataclass(frozen=True)
class RangeAnswers:
    """True, False or None for each range in the order of the report; commands by job; why not."""

    told: list[bool | None]
    commands: dict[int, str]
    reasons: list[str]


class EventRanges:
    """Every call is one transaction that holds the rows of its jobs: after its end a job takes no range."""

    def __init__(self, database: Database, parameters: Parameters) -> None:
        self._database = database
        self._parameters = parameters

    async def acquire(self, caller: Caller, job_id: int, task_id: int | None, n_ranges: int) -> list[TakenRange]:
        """Give the job up to so many ranges that nobody has; none when all are taken. Raises NotTheJobs."""
        async with self._database.begin(reason=GIVEN) as work:
            jobs = await store.lock_jobs(work.connection, [job_id])
            why_not = self._why_not(caller, job_id, task_id, jobs)
            if why_not is not None:
                raise NotTheJobs(why_not)
            task = jobs[job_id].row.task_id
            await plan_once(work.connection)
            if jobs[job_id].job_type == JUMBO:
                taken = await take_ranges_of_task(work.connection, task, job_id, n_ranges)
            else:
                for job_set_id in await lock_sets_of_jobs(work.connection, [job_id]):
                    await self._open_points(work, task, job_set_id)
                taken = await take_ranges(work.connection, task, job_id, n_ranges)
            ids = [one.event_range_id for one in taken]
            await _log(work, task, ids, "ready", "sent", GIVEN)
        return taken

    async def _open_points(self, work: UnitOfWork, task_id: int, job_set_id: int) -> None:
        """Open the next points of a search, where it is their time; other jobs may take some."""
        opened = await open_points(work.connection, job_set_id)
        if opened:
            await _log(work, task_id, opened, None, "ready", "the next generation of points")
            work.emit(TaskPointsOpened(task_id=task_id))

    async def available(self, caller: Caller, job_id: int, task_id: int | None) -> int:
        """Count the ranges that the job could be given now. Raises NotTheJobs."""
        async with self._database.begin(reason=GIVEN) as work:
            jobs = await store.lock_jobs(work.connection, [job_id])
            why_not = self._why_not(caller, job_id, task_id, jobs)
            if why_not is not None:
                raise NotTheJobs(why_not)
            task = jobs[job_id].row.task_id
            if jobs[job_id].job_type == JUMBO:
                return await count_ready_of_task(work.connection, task)
            return await count_ready(work.connection, task, job_id)

    async def states(self, caller: Caller, pairs: Sequence[tuple[int, int]]) -> list[RangeState]:
        """Read ranges of (task, job) of tasks whose pilot the caller may be.

        Errors are told to who may have the details. Ranges of other jobs are not read: they are told like those of jobs
        that do not exist.
        """
        async with self._database.read() as connection:
            whose = await whose_tasks(connection, [task_id for task_id, _ in pairs])
            seen = {task_id for task_id, one in whose.items() if PILOTS.allows(caller, one)}
            found = await range_states(connection, [pair for pair in pairs if pair[0] in seen])
        in_full = {task_id for task_id in seen if DETAILS.allows(caller, whose[task_id])}
        return [one if one.range_id.task_id in in_full else one.without_errors() for one in found]

    async def report(self, caller: Caller, reports: Sequence[RangeReport], version: int) -> RangeAnswers:
        """Judge what pilots say of ranges, one after another, and store it in one transaction.

        Raises RowHeld if a range that was in no job set, so that nobody held it, was changed meanwhile.
        """
        known = [one.range_id for one in reports if one.range_id is not None]
        async with self._database.begin(reason="reported by the pilot") as work:
            jobs = await store.lock_jobs(work.connection, [one.job_id for one in known])
            # a report names many ranges of one job
            pairs = {(one.job_id, one.task_id) for one in known}
            why_not = {pair: self._why_not(caller, *pair, jobs) for pair in pairs}
            heard = [one for one in known if why_not[one.job_id, one.task_id] is None]
            await plan_once(work.connection)
            if any(jobs[one.job_id].job_type == JUMBO for one in heard):
                await lock_sets_of_ranges(work.connection, heard)
            else:
                await lock_sets_of_jobs(work.connection, list({one.job_id for one in heard}))
            rows = await named_ranges(work.connection, heard)
            changes = _Changes()
            verdicts = [self._judge(one, why_not, rows, changes, version) for one in reports]
            await changes.apply(work)
            await note_refused(work.connection, _refused(reports, verdicts))
        return RangeAnswers(
            [one.told for one in verdicts],
            _commands(jobs, why_not),
            [one.reason for one in verdicts if not one.told],
        )

    def _judge(
        self,
        report: RangeReport,
        why_not: Mapping[tuple[int, int], str | None],
        rows: dict[RangeId, RangeRow],
        changes: _Changes,
        version: int,
    ) -> RangeVerdict:
        """Judge a report; what it changes is seen by the reports after it."""
        if report.range_id is None or report.status is None:
            return RangeVerdict((), False, f"{report.name[:120]}: {_wrong_form(report)}")
        found, refused = rows.get(report.range_id), why_not[report.range_id.job_id, report.range_id.task_id]
        verdict = judge_range(report.status, report.range_id, found, refused, version)
        if found is not None and verdict.steps:
            changes.add(report, found, verdict)
            rows[report.range_id] = found._replace(status=verdict.steps[-1], job_id=report.range_id.job_id)
        return verdict

    def _why_not(self, caller: Caller, job_id: int, task_id: int | None, jobs: Mapping[int, LockedJob]) -> str | None:
        """Why the caller may neither take nor report ranges for the job; None where they may."""
        if job_id not in jobs or jobs[job_id].row.status not in ON_NODE:
            return _not_with_a_pilot(job_id)
        row: ReportedJob = jobs[job_id].row
        is_pilot = caller.name == row.claimed_by or access.PILOTS.allows(caller, Whose.of(row.user_name, row.vo))
        if not is_pilot or not (caller.is_of(row.vo) or caller.may("operator")):
            return _not_with_a_pilot(job_id)  # of others nothing is told
        if task_id not in (None, row.task_id):
            return f"job {job_id} is of task {row.task_id}, not {task_id}"
        asker = Report(job_id, "running", subject=caller.name, is_trusted=caller.may_for(row.vo, "production"))
        if not is_known_reporter(
            asker, row, lambda queue, name: is_named(self._parameters.read(REPORTERS), queue, name)
        ):
            had = f"job {job_id} was acquired by somebody else" if row.claimed_by else f"nobody acquired job {job_id}"
            return f"{had}: {caller.name} may not report for it"
        return None


class _Changes:
    """Steps of many ranges, made together: those of the first steps, then those of the second ones."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, EventRangeStatus, EventRangeStatus, RangeReport]] = []
        self._copied: dict[int, int] = {}

    def add(self, report: RangeReport, row: RangeRow, verdict: RangeVerdict) -> None:
        before = row.status
        for step in verdict.steps:
            self._steps.append((row.event_range_id, before, step, report))
            before = step
        if verdict.has_copy and report.range_id is not None:
            self._copied[row.event_range_id] = report.range_id.task_id

    async def apply(self, work: UnitOfWork) -> None:
        files = [one.file for *_, one in self._steps if one.file is not None]
        file_ids = await note_files(work.connection, files) if files else {}
        for (task_id, before, after), details in self._waves(file_ids):
            moved = await move_ranges(work.connection, task_id, after, details)
            if len(moved) < len(details):
                raise RowHeld(f"met another change of ranges of task {task_id}")
            await _log(work, task_id, moved, before, after, "reported by the pilot")
        for task_id, ids in _by_task(sorted(self._copied), self._copied).items():
            await _log(work, task_id, await copy_failed(work.connection, task_id, ids), None, "ready", COPIED)

    def _waves(
        self, file_ids: Mapping[tuple[int, str], int]
    ) -> list[tuple[tuple[int, EventRangeStatus, EventRangeStatus], dict[int, RangeDetails]]]:
        """Steps of a task that may be made together, in an order in which each range's own come one after another."""
        made: defaultdict[int, int] = defaultdict(int)
        waves: dict[tuple[int, int, EventRangeStatus, EventRangeStatus], dict[int, RangeDetails]] = {}
        for event_range_id, before, after, report in self._steps:
            assert report.range_id is not None
            zip_row_id = file_ids[report.file.key] if report.file is not None else None
            details = RangeDetails(
                report.range_id.job_id, report.error_code, report.error_diag, report.obj_store_id, zip_row_id
            )
            key = (made[event_range_id], report.range_id.task_id, before, after)
            waves.setdefault(key, {})[event_range_id] = details
            made[event_range_id] += 1
        return [(key[1:], waves[key]) for key in sorted(waves)]


def _wrong_form(report: RangeReport) -> str:
    """What is no id of a range, or no state that pilots report."""
    if report.range_id is None:
        return "there is no such id; allowed: eventRangeID as it was given out, <task>-<job>-<file>-<number>-<attempt>"
    return f"eventStatus {report.said_status!r} is not allowed; allowed: running, transferring, finished, failed, fatal"


def _by_task(ids: Sequence[int], tasks: Mapping[int, int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one in ids:
        found.setdefault(tasks[one], []).append(one)
    return found


def _refused(
    reports: Sequence[RangeReport], verdicts: Sequence[RangeVerdict]
) -> dict[tuple[int, int], tuple[int, str]]:
    """Reports of known form that were refused, by task and job: how many, and why the last one."""
    found: dict[tuple[int, int], tuple[int, str]] = {}
    for report, verdict in zip(reports, verdicts, strict=True):
        if verdict.told is False and report.range_id is not None:
            key = (report.range_id.task_id, report.range_id.job_id)
            found[key] = (found.get(key, (0, ""))[0] + 1, verdict.reason)
    return found


def _not_with_a_pilot(job_id: int) -> str:
    return f"job {job_id} is not with a pilot"


def _commands(jobs: Mapping[int, LockedJob], why_not: Mapping[tuple[int, int], str | None]) -> dict[int, str]:
    """What the pilots of these jobs are told: the job's command, or to kill what is theirs no more.

    Who may not report for a job is told no command of it; of a job that is hidden the same as of one that has ended.
    """
    commands: dict[int, str] = {}
    for (job_id, _), refused in sorted(why_not.items(), key=lambda one: one[0]):
        if refused is None:
            commands[job_id] = jobs[job_id].row.command or NO_COMMAND
        elif refused == _not_with_a_pilot(job_id):
            commands[job_id] = TO_BE_KILLED
    return {job_id: command for job_id, command in commands.items() if command != NO_COMMAND}


async def _log(
    work: UnitOfWork,
    task_id: int,
    ids: Sequence[int],
    before: EventRangeStatus | None,
    after: EventRangeStatus,
    why: str,
) -> None:
    await work.log_files(
        entity="event_range", task_id=task_id, ids=sorted(ids), from_status=before, to_status=after, reason=why
    )
