"""Judges and stores pilots' reports that arrived together in one transaction, then answers them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from services.job_dispatch.coalescing import HELD, Coalescer, CoalescerLimits, LockedItem
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.parameters import REPORTERS
from services.job_dispatch.policy.reports import (
    FINAL_REPORTED,
    STATUS_AFTER,
    TO_BE_KILLED,
    Blame,
    Effect,
    Judgement,
    Report,
    ReportedJob,
    ending,
    judge,
    late_log,
)
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.jobs import LockedJob
from services.job_dispatch.store.progress import end_progress, note_progress
from shared.auth.named import is_named
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsFailed, JobsStarted, OutputsProduced, moves_of
from shared.model.batches import batches
from shared.states.job import JobStatus

REASON = "reported by the pilot"


class Reporting:
    """`report` is what `update_job` calls; `heard` is told whose pilots reported."""

    def __init__(
        self,
        database: Database,
        metrics: DispatchMetrics,
        parameters: Parameters,
        *,
        limits: CoalescerLimits,
        heard: Callable[[Iterable[str], int], None] = lambda vos, n_calls: None,
    ) -> None:
        self._heard = heard
        self._database = database
        self.metrics = metrics
        self._parameters = parameters
        self._coalescer: Coalescer[Report, Judgement] = Coalescer(
            self.handle, key=lambda one: one.job_id, limits=limits
        )

    async def report(self, report: Report) -> Judgement:
        """Judge a report; the verdict, after its effect was committed. Raises TooLate when PostgreSQL is away."""
        for field in report.lost:
            self.metrics.lost_fields.labels(field).inc()
        verdict = await self._coalescer.submit(report)
        self.metrics.reports.labels(verdict.effect, verdict.command if len(verdict.command) < 16 else "other").inc()
        return verdict

    async def handle(self, batch: Sequence[Report]) -> list[Judgement | LockedItem]:
        """Judge a batch with at most one report per job, in one transaction.

        It waits for no row: a job whose row another transaction holds would hold up the reports of all others.
        """
        self.metrics.report_batch.observe(len(batch))
        async with self._database.begin(reason=REASON) as work:
            jobs, held = await store.lock_free_jobs(work.connection, [one.job_id for one in batch])
            reports = [one for one in batch if one.job_id not in held]
            rows = {job_id: job.row for job_id, job in jobs.items()}
            stored = await self._stored_attempts(work, reports, rows)
            verdicts = [
                judge(one, rows.get(one.job_id), (stored[one.job_id],) if one.job_id in stored else (), self._named)
                for one in reports
            ]
            judged, blames = await self._endings(work, list(zip(reports, verdicts, strict=True)))
            await self._apply(work, jobs, judged, blames)
            judged = await self._keep_late_logs(work, judged)
        believed = Counter(rows[one.job_id].vo for one, verdict in judged if verdict.effect in _OF_PILOTS)
        for vo, n_calls in believed.items():
            self._heard([vo], n_calls)
        verdicts_of = {report.job_id: verdict for report, verdict in judged}
        return [verdicts_of.get(one.job_id, HELD) for one in batch]

    def _named(self, queue: str, subject: str) -> bool:
        return is_named(self._parameters.read(REPORTERS), queue, subject)

    async def _endings(
        self, work: UnitOfWork, judged: Sequence[tuple[Report, Judgement]]
    ) -> tuple[list[tuple[Report, Judgement]], dict[int, Blame]]:
        """Hold final reports of the jobs' owners against the files that the jobs were to write."""
        ends = [report.job_id for report, verdict in judged if verdict.effect in _ENDS]
        expected = await store.expected_outputs(work.connection, sorted(ends))
        settled, blames = [], {}
        for report, verdict in judged:
            if verdict.effect not in _ENDS:
                settled.append((report, verdict))
                continue
            effect, found = ending(report, expected.get(report.job_id, ()))
            settled.append((report, replace(verdict, effect=effect)))
            if found is not None:
                blames[report.job_id] = found
        return settled, blames

    async def _stored_attempts(
        self, work: UnitOfWork, reports: Sequence[Report], rows: Mapping[int, ReportedJob]
    ) -> dict[int, int]:
        """Read which attempts' final report is stored, asked only for jobs that are no longer with a pilot."""
        doubtful = [
            one.job_id for one in reports if one.job_id not in rows or rows[one.job_id].status not in _WITH_PILOT
        ]
        return await store.reported_attempts(work.connection, doubtful) if doubtful else {}

    async def _apply(
        self,
        work: UnitOfWork,
        jobs: Mapping[int, LockedJob],
        judged: Sequence[tuple[Report, Judgement]],
        blames: Mapping[int, Blame],
    ) -> None:
        groups: dict[Effect, list[Report]] = {}
        for report, verdict in judged:
            groups.setdefault(verdict.effect, []).append(report)
        await note_progress(work.connection, [one for one, verdict in judged if verdict.effect is not Effect.NOTHING])
        beats = sorted(one.job_id for one in groups.get(Effect.HEARTBEAT, ()))
        await store.heartbeats(work.connection, beats)
        for effect in (Effect.STARTING, Effect.RUNNING):
            await self._start(work, jobs, groups.get(effect, ()), effect)
        for effect in _ENDS:
            await self._end(work, jobs, groups.get(effect, ()), effect, blames)

    async def _start(
        self, work: UnitOfWork, jobs: Mapping[int, LockedJob], reports: Sequence[Report], effect: Effect
    ) -> None:
        started = await store.start(work.connection, sorted(one.job_id for one in reports), STATUS_AFTER[effect])
        for some in batches(sorted(started), IDS_OF_EVENT):
            moves = moves_of((jobs[job_id].row.as_counted for job_id in some), STATUS_AFTER[effect])
            work.emit(JobsStarted(job_ids=tuple(some), moves=moves))

    async def _end(
        self,
        work: UnitOfWork,
        jobs: Mapping[int, LockedJob],
        reports: Sequence[Report],
        effect: Effect,
        blames: Mapping[int, Blame],
    ) -> None:
        if not reports:
            return
        ordered = sorted(reports, key=lambda one: one.job_id)
        await store.insert_reports(
            work.connection,
            [
                (
                    one.job_id,
                    jobs[one.job_id].row.attempt_number,
                    "failed" if one.job_id in blames else "finished",
                    one.stored,
                )
                for one in ordered
            ],
        )
        ended = await store.end(work.connection, [one.job_id for one in ordered], STATUS_AFTER[effect], blames)
        await end_progress(work.connection, ended)
        event = OutputsProduced if effect is Effect.HOLDING else JobsFailed
        for some in batches(ended, IDS_OF_EVENT):
            moves = moves_of((jobs[job_id].row.as_counted for job_id in some), STATUS_AFTER[effect])
            work.emit(event(job_ids=tuple(some), moves=moves))

    async def _keep_late_logs(
        self, work: UnitOfWork, judged: Sequence[tuple[Report, Judgement]]
    ) -> list[tuple[Report, Judgement]]:
        """Have logs registered that pilots wrote of jobs which had ended before: killed ones most of all.

        Whoever looks for the reason why a job was killed needs its log. No state changes.
        """
        late = [report.job_id for report, verdict in judged if _may_be_late(report, verdict)]
        ended = await store.ended_without_report(work.connection, late)
        settled, new = [], []
        for report, verdict in judged:
            log = late_log(report, ended[report.job_id]) if report.job_id in ended else None
            if log is not None:
                new.append((report.job_id, ended[report.job_id].attempt_number, LATE, log))
            settled.append((report, verdict if log is None else replace(verdict, effect=Effect.LATE_LOG)))
        new.sort(key=lambda one: one[0])
        await store.insert_reports(work.connection, new)
        for some in batches([one[0] for one in new], IDS_OF_EVENT):
            work.emit(OutputsProduced(job_ids=tuple(some)))
        return settled

    async def close(self) -> None:
        await self._coalescer.close()


def _may_be_late(report: Report, verdict: Judgement) -> bool:
    """Whether this is the end of a job that is no longer the pilot's, with files."""
    is_of_ended = verdict.effect is Effect.NOTHING and verdict.refusal is None and verdict.command == TO_BE_KILLED
    return is_of_ended and report.job_status in FINAL_REPORTED and bool(report.stored.get("outputs"))


#: the state under which a report is kept that came after the end of its job
LATE = "late"
#: of reports that are believed: the job is with its pilot
_OF_PILOTS = frozenset(Effect) - {Effect.NOTHING, Effect.LATE_LOG}
_ENDS = (Effect.HOLDING, Effect.FAILED)
_WITH_PILOT: tuple[JobStatus, ...] = ("sent", "starting", "running")
