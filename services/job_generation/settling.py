"""What follows for a task after a change: scouts, more input, merges, preparation, progress.

Scouts are judged, more input or merges are offered, preparation and progress are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from services.job_generation.merging import Merging
from services.job_generation.offering import Offering
from services.job_generation.policy import scouts
from services.job_generation.policy.queue_facts import core_power_hs06
from services.job_generation.policy.values import Dataset, Task
from services.job_generation.store import scouts as store_scouts
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.tasks import LockedTask
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskPrepared, TaskProgressed
from shared.model.dataset_types import OUTPUT_TYPES
from shared.model.job_report import JobReport
from shared.snapshot import KnownGrid

MEASURED_COLUMNS = (
    "ram_count", "ram_unit", "cpu_time", "cpu_time_unit", "walltime", "walltime_unit", "io_intensity",
    "io_intensity_unit", "disk_io", "disk_io_unit", "out_disk_count", "out_disk_unit", "work_disk_count",
    "work_disk_unit",
)  # fmt: skip


class Settling:
    """Runs at the end of every transaction that changed a task."""

    def __init__(self, parameters: Parameters, grid: KnownGrid, offering: Offering, merges: Merging) -> None:
        self._parameters, self._grid = parameters, grid
        self._offering, self._merges = offering, merges

    async def settle(
        self, work: UnitOfWork, held: LockedTask, *, force: bool = False, tell: bool = True, go: bool = False
    ) -> None:
        """Take the task as far as it can go now.

        `force`: offer input although its `retry_at` has not come. `tell`: announce progress. `go`: end the scouting
        whatever the scouts say (the avalanche command).
        """
        if await self._has_scouts_to_judge(work, held.task) and await self._judge_scouts(work, held, go=go):
            held = await self._again(work, held)
        elif held.task.status == "scouted":
            await store_units.open_all_files(work, held.task.task_id)
            await store.move_task(work, held.task, "running", reason="all input opened")
            held = await self._again(work, held)
        n_offered = await self._offering.offer(work, held, force=force)
        n_offered += await self._merges.offer(work, held, force=force)
        datasets = await store.datasets(work, held.task.task_id)
        if not n_offered and await self._is_worked_on(work, held.task, datasets):
            await self._prepare(work, held.task, datasets)
            held = await self._again(work, held)
        if tell or held.task.status == "defined":
            await self.tell(work, held.task, datasets)

    async def _again(self, work: UnitOfWork, held: LockedTask) -> LockedTask:
        """The task as it is now."""
        return (await store.lock_tasks(work, [held.task.task_id]))[0]

    async def tell(self, work: UnitOfWork, task: Task, datasets: Sequence[Dataset]) -> None:
        """Announce progress with the counters of the masters."""
        masters = [dataset for dataset in datasets if dataset.is_master]
        work.emit(
            TaskProgressed(
                task_id=task.task_id,
                status=task.status,
                files_finished=sum(one.n_files_finished for one in masters),
                files_failed=sum(one.n_files_failed for one in masters),
                files_total=sum(one.n_files for one in masters),
                live_jobs=await store.live_jobs(work, task.task_id),
            )
        )

    async def _has_scouts_to_judge(self, work: UnitOfWork, task: Task) -> bool:
        """Whether the task scouts, or did until it was held or sent elsewhere: its scouts went on meanwhile."""
        if task.status != "ready":
            return task.status == "scouting"
        masters = [dataset for dataset in await store.datasets(work, task.task_id) if dataset.is_master]
        all_opened = all(one.n_files_to_be_used >= one.n_files for one in masters)
        return not all_opened and await store.scouts_were_made(work, task.task_id)

    async def _judge_scouts(self, work: UnitOfWork, held: LockedTask, *, go: bool) -> bool:
        """Open everything, give the task up, or wait; whether its state changed."""
        task = held.task
        masters = [dataset for dataset in await store.datasets(work, task.task_id) if dataset.is_master]
        row = await store_scouts.progress(work, task.task_id)
        progress = scouts.ScoutProgress(
            opened=sum(min(one.n_files_to_be_used, one.n_files) for one in masters),
            ok=max(row["ok_files"], sum(one.n_files_finished for one in masters)),
            failed=sum(one.n_files_failed for one in masters),
            jobs_ok=row["ok_jobs"],
            jobs_failed=row["failed_jobs"],
            live=row["live_files"],
            jobs_live=row["live_jobs"],
            files_per_job=task.rules.files_per_step,
        )
        verdict = scouts.judge(progress, task.rules.scout_success_rate, skip=go)
        if verdict.go:
            await self._avalanche(work, held, verdict.reason)
        elif verdict.give_up:
            await store.record_decision(work, task.task_id, "broken", verdict.reason)
            await store.move_task(work, task, "tobroken", reason=verdict.reason, keep=True)
        return verdict.go or verdict.give_up

    async def _avalanche(self, work: UnitOfWork, held: LockedTask, reason: str) -> None:
        """scouting -> scouted -> running with what the scouts measured, and all input opened.

        A ready task stays ready and makes normal jobs.
        """
        task = held.task
        values = scouts.measured(
            held.row, await self._reports(work, task), self._parameters.filled(scouts.ScoutParameters)
        )
        if values:
            kept = {*(held.row["measured_units"] or ()), *(name for name in values if not name.endswith("_unit"))}
            columns: dict[str, Any] = {name: values.get(name) for name in MEASURED_COLUMNS}
            await store_scouts.keep_measured(work, task.task_id, sorted(kept), columns)
        await store.record_decision(work, task.task_id, "scouts", reason, numbers=values)
        await store_units.open_all_files(work, task.task_id)
        if task.status == "scouting" and await store.move_task(work, task, "scouted", reason=reason):
            await store.move_task(work, task, "running", reason="all input opened")

    async def _reports(self, work: UnitOfWork, task: Task) -> list[scouts.ScoutReport]:
        grid = await self._grid.grid(work.connection)
        rows = await store_scouts.reports(work, task.task_id)
        return [_scout_report(row, core_power_hs06(grid, row["queue"])) for row in rows]

    async def _is_worked_on(self, work: UnitOfWork, task: Task, datasets: Sequence[Dataset]) -> bool:
        """Whether every unit of the masters ended and nothing is under way. A ready task may have had nothing to do."""
        if task.status not in ("running", "ready"):
            return False
        masters = [dataset for dataset in datasets if dataset.is_master]
        if any(one.n_files_used > one.n_files_finished + one.n_files_failed for one in masters):
            return False
        if await store_units.has_unfinished_input(work, [one.dataset_id for one in masters]):
            return False
        return await store.live_jobs(work, task.task_id) == 0

    async def _prepare(self, work: UnitOfWork, task: Task, datasets: Sequence[Dataset]) -> None:
        """Nothing is left to do: outputs are complete, the final status can be decided.

        A task that runs until its input is closed does not end before: its definition looks at the open input again.
        """
        if task.rules.runs_until_closed and any(one.is_master and one.is_open for one in datasets):
            await store.move_task(work, task, "defined", reason="all input was worked on, but it is still open")
            return
        await store.move_datasets(work, task.task_id, OUTPUT_TYPES, "prepared", "no more files will be added")
        if await store.move_task(work, task, "prepared", reason="all input was worked on"):
            work.emit(TaskPrepared(task_id=task.task_id))


def _scout_report(row: asyncpg.Record, core_power_hs06: float) -> scouts.ScoutReport:
    """One succeeded scout: what its pilot measured, with what it was given."""
    report = JobReport.from_stored(row["report"])
    wall = _walltime_s(row, report)
    sizes = [one.size_bytes for one in report.outputs]
    moved = (report.read_bytes or 0) + (report.written_bytes or 0)
    return scouts.ScoutReport(
        n_events=None if row["n_unknown"] else row["n_events"],
        input_bytes=row["n_bytes"],
        output_bytes=sum(sizes) if sizes else None,
        walltime_s=wall,
        cores=report.core_count or row["core_count"],
        core_power_hs06=core_power_hs06,
        max_pss_kb=report.memory_kb,
        cpu_time_s=report.cpu_time_s,
        disk_io_bytes=moved or None,
    )


def _walltime_s(row: asyncpg.Record, report: JobReport) -> float | None:
    """The payload's seconds as the pilot timed them; else the time between start and end of the job."""
    if len(report.timing_s) >= 3 and report.timing_s[2] > 0:
        return float(report.timing_s[2])
    if row["start_time"] is None or row["end_time"] is None:
        return None
    return max(0.0, (row["end_time"] - row["start_time"]).total_seconds()) or None
