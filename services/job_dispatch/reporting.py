"""Pilots' reports: everything that arrived together is judged and stored in one transaction, then answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_dispatch.coalescer import Coalescer, CoalescerLimits
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.policy.moves import moves_of
from services.job_dispatch.policy.reports import Blame, Effect, JobRow, Report, Verdict, blame, judge
from services.job_dispatch.store import LockedJob, Store
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.events import JobsFailed, JobsStarted, OutputsProduced

REASON = "reported by the pilot"


class Reporting:
    """`report` is what `update_job` calls."""

    def __init__(
        self, database: Database, store: Store, metrics: DispatchMetrics, *, limits: CoalescerLimits | None = None
    ) -> None:
        self._database = database
        self._store = store
        self.metrics = metrics
        self._coalescer: Coalescer[Report, Verdict] = Coalescer(self.handle, key=lambda one: one.job_id, limits=limits)

    async def report(self, report: Report) -> Verdict:
        """The verdict, after its effect was committed. Raises TooLate when PostgreSQL is away."""
        for field in report.lost:
            self.metrics.lost_fields.labels(field).inc()
        verdict = await self._coalescer.submit(report)
        self.metrics.reports.labels(verdict.effect, verdict.command if len(verdict.command) < 16 else "other").inc()
        return verdict

    async def handle(self, reports: Sequence[Report]) -> list[Verdict]:
        """One transaction for a batch with at most one report per job."""
        self.metrics.report_batch.observe(len(reports))
        async with self._database.begin(reason=REASON) as work:
            jobs = await self._store.lock_jobs(work.connection, [one.job_id for one in reports])
            rows = {job_id: job.row for job_id, job in jobs.items()}
            stored = await self._stored_attempts(work, reports, rows)
            verdicts = [
                judge(one, rows.get(one.job_id), (stored[one.job_id],) if one.job_id in stored else ())
                for one in reports
            ]
            await self._apply(work, jobs, list(zip(reports, verdicts, strict=True)))
        return verdicts

    async def _stored_attempts(
        self, work: UnitOfWork, reports: Sequence[Report], rows: Mapping[int, JobRow]
    ) -> dict[int, int]:
        """Attempts whose final report is stored, asked only for jobs that are no longer with a pilot."""
        doubtful = [
            one.job_id for one in reports if one.job_id not in rows or rows[one.job_id].status not in _WITH_PILOT
        ]
        return await self._store.reported_attempts(work.connection, doubtful) if doubtful else {}

    async def _apply(
        self, work: UnitOfWork, jobs: Mapping[int, LockedJob], judged: Sequence[tuple[Report, Verdict]]
    ) -> None:
        groups: dict[Effect, list[Report]] = {}
        for report, verdict in judged:
            groups.setdefault(verdict.effect, []).append(report)
        beats = sorted(one.job_id for one in groups.get(Effect.HEARTBEAT, ()))
        await self._store.heartbeats(work.connection, beats)
        for effect in (Effect.STARTING, Effect.RUNNING):
            await self._start(work, jobs, groups.get(effect, ()), effect)
        await self._end(work, jobs, groups.get(Effect.HOLDING, ()), Effect.HOLDING)
        await self._end(work, jobs, groups.get(Effect.FAILED, ()), Effect.FAILED)

    async def _start(
        self, work: UnitOfWork, jobs: Mapping[int, LockedJob], reports: Sequence[Report], effect: Effect
    ) -> None:
        started = await self._store.start(work.connection, sorted(one.job_id for one in reports), effect.value)
        if started:
            moves = moves_of((jobs[job_id].row for job_id in started), effect.value)
            work.emit(JobsStarted(job_ids=tuple(sorted(started)), moves=moves))

    async def _end(
        self, work: UnitOfWork, jobs: Mapping[int, LockedJob], reports: Sequence[Report], effect: Effect
    ) -> None:
        if not reports:
            return
        ordered = sorted(reports, key=lambda one: one.job_id)
        blames: dict[int, Blame] = {one.job_id: blame(one.stored) for one in ordered} if effect is Effect.FAILED else {}
        await self._store.insert_reports(
            work.connection,
            [(one.job_id, jobs[one.job_id].row.attempt_number, one.job_status, one.stored) for one in ordered],
        )
        ended = await self._store.end(work.connection, [one.job_id for one in ordered], effect.value, blames)
        moves = moves_of((jobs[job_id].row for job_id in ended), effect.value)
        event = OutputsProduced if effect is Effect.HOLDING else JobsFailed
        work.emit(event(job_ids=tuple(ended), moves=moves))

    async def close(self) -> None:
        await self._coalescer.close()


_WITH_PILOT = ("sent", "starting", "running")
