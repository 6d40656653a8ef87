"""What the first jobs of a task measured, and whether it may go on: scouts, and the jobs after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.job_generation.policy.queue_facts import core_power_hs06
from services.job_generation.policy.values import Dataset, Task
from services.job_generation.scouts import checks as scout_checks
from services.job_generation.scouts import sizes as scout_sizes
from services.job_generation.scouts import verdicts as scouts
from services.job_generation.scouts.parameters import (
    LABEL,
    ExhaustLimits,
    ExhaustParameters,
    exhaust_limits,
)
from services.job_generation.scouts.reports import ScoutReport, scout_report
from services.job_generation.scouts.texts import measured_text
from services.job_generation.store import needs as store_needs
from services.job_generation.store import scouts as store_scouts
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.tasks import LockedTask
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskMeasured
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES, resource_type_of
from shared.model.units import parse_ram
from shared.snapshot import KnownGrid
from shared.task.stored import name_of, with_rules

#: jobs after all input was opened, when the needs are measured for the second time
SECOND_SAMPLE = 100
MEASURED_COLUMNS = (
    "ram_count", "ram_unit", "cpu_time", "cpu_time_unit", "walltime", "walltime_unit", "io_intensity",
    "io_intensity_unit", "disk_io", "disk_io_unit", "out_disk_count", "out_disk_unit", "work_disk_count",
    "work_disk_unit",
)  # fmt: skip


class Scouting:
    """Judges a task whose row is locked by its scouts, and later once more."""

    def __init__(self, parameters: Parameters, grid: KnownGrid) -> None:
        self._parameters, self._grid = parameters, grid

    async def look(self, work: UnitOfWork, held: LockedTask, *, go: bool) -> bool:
        """Judge what there is to judge; whether the task's state or needs changed."""
        if held.task.status == "running":
            return await self._measure_again(work, held)
        return await self._has_scouts_to_judge(work, held.task) and await self._judge_scouts(work, held, go=go)

    async def _has_scouts_to_judge(self, work: UnitOfWork, task: Task) -> bool:
        """Whether the task scouts, or did until it was held or sent elsewhere: its scouts went on meanwhile."""
        if task.status != "ready":
            return task.status == "scouting"
        masters = await _masters(work, task)
        all_opened = all(one.n_files_to_be_used >= one.n_files for one in masters)
        return not all_opened and await store.scouts_were_made(work, task.task_id)

    async def _judge_scouts(self, work: UnitOfWork, held: LockedTask, *, go: bool) -> bool:
        """Open everything, give the task up, or wait; whether its state changed."""
        task = held.task
        masters = await _masters(work, task)
        row = await store_scouts.progress(work, task.task_id)
        broken = await store_scouts.broken_files(work, [one.dataset_id for one in masters])
        n_files = sum(one.n_files for one in masters)
        progress = scouts.ScoutProgress(
            opened=min(
                sum(min(one.n_files_to_be_used, one.n_files) for one in masters), n_files - row["unusable_files"]
            ),
            ok=max(row["ok_files"], sum(one.n_files_finished for one in masters)),
            failed=sum(one.n_files_failed for one in masters) + broken,
            jobs_ok=row["ok_jobs"],
            jobs_failed=row["failed_jobs"],
            live=row["live_files"],
            jobs_live=row["live_jobs"],
            files_per_job=task.rules.files_per_step,
            all_lost=0 < n_files <= row["lost_files"],
        )
        limits = self._limits(task)
        verdict = scouts.judge(progress, task.rules.scout_success_rate, skip=go, min_ok_rate=limits.min_ok_rate)
        if verdict.go:
            await self._avalanche(work, held, masters, verdict.reason, limits, told=go)
        elif verdict.give_up or (verdict.exhaust and task.status != "scouting"):
            await store.record_decision(work, task.task_id, "broken", verdict.reason)
            await store.move_task(work, task, "tobroken", reason=verdict.reason, keep=True)
        elif verdict.exhaust:
            await self._exhaust(work, task, verdict.reason, {})
        return verdict.go or verdict.give_up or verdict.exhaust

    async def _avalanche(
        self,
        work: UnitOfWork,
        held: LockedTask,
        masters: Sequence[Dataset],
        reason: str,
        limits: ExhaustLimits,
        *,
        told: bool,
    ) -> None:
        """scouting -> scouted -> running with what the scouts measured, and all input opened.

        A ready task stays ready and makes normal jobs. One whose scouts measured what its definition does not expect is
        exhausted, unless somebody `told` it to go on.
        """
        task = held.task
        sample = await self._sample(work, await store_scouts.reports(work, task.task_id))
        values = await self._keep(work, held, sample)
        found = await self._found(work, held, masters, sample, values, limits)
        why = f"{reason}; {measured_text(found)}"
        await store.record_decision(work, task.task_id, "scouts", why, numbers=values)
        if task.status == "scouting" and not told and await self._misfits(work, held, found):
            return
        await store_scouts.ask_to_measure_again(work, task.task_id, SECOND_SAMPLE)
        await store_units.open_all_files(work, task.task_id)
        if task.status == "scouting" and await store.move_task(work, task, "scouted", reason=reason):
            await store.move_task(work, task, "running", reason="all input opened")

    async def _measure_again(self, work: UnitOfWork, held: LockedTask) -> bool:
        """The second evaluation: what the first 100 jobs after the scouts measured; it may exhaust the task."""
        task = held.task
        if not await store_scouts.is_measured_again(work, task.task_id):
            return False
        await store_scouts.was_measured_again(work, task.task_id)
        sample = await self._sample(work, await store_scouts.reports_of_ended_jobs(work, task.task_id))
        values = await self._keep(work, held, sample)
        merged = await self._sample(work, await store_scouts.reports_of_ended_jobs(work, task.task_id, merge=True))
        ram_mb, walltime_s = scout_sizes.merge_ram_mb(held.row, merged), scout_sizes.merge_walltime_s(merged)
        if ram_mb is not None or walltime_s is not None:
            await store_scouts.keep_measured_merging(work, task.task_id, ram_mb, walltime_s)
        found = await self._found(work, held, await _masters(work, task), sample, values, self._limits(task))
        reason = f"measured again with {len(sample)} jobs that finished; {measured_text(found)}"
        numbers = {**values, "merge_ram_mb": ram_mb, "merge_walltime_s": walltime_s}
        await store.record_decision(work, task.task_id, "scouts", reason, numbers=numbers)
        await self._misfits(work, held, found)
        return True

    async def _found(
        self,
        work: UnitOfWork,
        held: LockedTask,
        masters: Sequence[Dataset],
        sample: Sequence[ScoutReport],
        values: Mapping[str, int | str],
        limits: ExhaustLimits,
    ) -> scout_checks.Measured:
        """What was measured beside what the task said before, and how many jobs are to come."""
        left = await store_scouts.rest_of_input(work, held.task.task_id, [one.dataset_id for one in masters])
        expected = scout_checks.expected_jobs(*left, sample)
        return scout_checks.Measured(held.row, held.task.rules, sample, values, expected, limits)

    async def _misfits(self, work: UnitOfWork, held: LockedTask, measured: scout_checks.Measured) -> bool:
        """Exhaust a task that is not what it says, or make its jobs longer; whether it is exhausted."""
        task, split_rule, limits = held.task, held.row["split_rule"] or {}, measured.limits
        found = scout_checks.misfits(measured)
        if not found:
            return False
        reason, numbers = "; ".join(one.reason for one in found), {one.check: dict(one.numbers) for one in found}
        longer = scout_checks.longer_jobs(found, split_rule, task.rules) if limits.changes_rules else None
        if longer is None:
            await self._exhaust(work, task, reason, numbers)
            return True
        await store_needs.change_split_rule(work, task.task_id, longer)
        gone = ", ".join(sorted({*split_rule} - {*longer})) or name_of("n_max_files_per_job")
        reason = f"rules changed to make jobs longer ({gone}): {reason}"
        await store.record_decision(work, task.task_id, "scouts", reason, numbers=numbers)
        return False

    async def _exhaust(self, work: UnitOfWork, task: Task, reason: str, numbers: Mapping[str, Any]) -> None:
        await store.record_decision(work, task.task_id, "exhausted", reason[:4000], numbers=numbers)
        await store.move_task(work, task, "exhausted", reason=reason, keep=True)

    async def _keep(self, work: UnitOfWork, held: LockedTask, sample: Sequence[ScoutReport]) -> dict[str, int | str]:
        """Write what was measured into the task: its needs, its resource type, and nGBPerJob where it follows."""
        task, row = held.task, held.row
        values = scouts.measured(row, sample, self._parameters.filled(scouts.ScoutParameters))
        if values:
            kept = {*(row["measured_units"] or ()), *(name for name in values if not name.endswith("_unit"))}
            columns: dict[str, Any] = {name: values.get(name) for name in MEASURED_COLUMNS}
            await store_scouts.keep_measured(work, task.task_id, sorted(kept), columns)
        if "ram_count" in values:
            ram = parse_ram(float(values["ram_count"]), str(values["ram_unit"]))
            grid = await self._grid.grid(work.connection)
            resource_type = resource_type_of(
                row["core_count"], ram.mb, ram.per_core, task.needs.base_ram_mb,
                grid.resource_types or DEFAULT_RESOURCE_TYPES,
            )  # fmt: skip
            await store_scouts.set_resource_type(work, task.task_id, resource_type)
            work.emit(TaskMeasured(task_id=task.task_id))
        n_gb = scout_sizes.n_gb_per_job(task.rules, sample, task.needs.work_dir_bytes)
        if n_gb is not None:
            await store_needs.change_split_rule(
                work, task.task_id, with_rules(row["split_rule"] or {}, n_gb_per_job=n_gb)
            )
            values[name_of("n_gb_per_job")] = n_gb
        return values

    def _limits(self, task: Task) -> ExhaustLimits:
        given = self._parameters.filled(ExhaustParameters, vo=task.vo, names={LABEL: task.prod_source_label})
        return exhaust_limits(given, self._parameters.filled(scouts.ScoutParameters).cpu_time_rank)

    async def _sample(self, work: UnitOfWork, rows: Sequence[Any]) -> list[ScoutReport]:
        grid = await self._grid.grid(work.connection)
        return [scout_report(row, core_power_hs06(grid, row["queue"])) for row in rows]


async def _masters(work: UnitOfWork, task: Task) -> list[Dataset]:
    return [dataset for dataset in await store.datasets(work, task.task_id) if dataset.is_master]
