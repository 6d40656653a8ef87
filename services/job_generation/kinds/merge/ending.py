"""Count merge jobs and the jobs whose outputs they merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_generation.kinds.merge.job import MERGE
from services.job_generation.policy import merging as policy
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.merging import MERGE_ATTEMPTS
from services.job_generation.policy.outcomes import Ended
from services.job_generation.policy.values import Task
from services.job_generation.steps.counting import Counting, announce
from services.job_generation.steps.doors import CountJobs
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store.results import EndedJob, JobFile, OutputEnd
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.model import command_line
from shared.model.dataset_types import UNMERGED_TYPES
from shared.states.file import FileStatus
from shared.states.job import FINAL


class EndingMerges:
    """What ends of jobs mean where outputs are merged: a job may wait for the merge job, and ends with it."""

    def __init__(self, counting: Counting) -> None:
        self._counting = counting

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges, rest: CountJobs
    ) -> None:
        """Count these jobs, those that wait to be merged among them."""
        empty = await self._hold(work, held.task, [job for job in jobs if job.status == "merging"], changes)
        final = [*(job for job in jobs if job.status in FINAL), *empty]
        merges = [job for job in final if job.job_type == MERGE.name]
        others = [job for job in final if job.job_type != MERGE.name]
        if held.task.rules.merge_output:
            await self._producers(work, held, others, changes)
        else:
            await rest(others)
        await self._merges(work, held, merges, changes, rest)

    async def _producers(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges
    ) -> None:
        """Jobs that are not merge jobs. One that was killed while its outputs are being merged waits for the merge."""
        if not jobs:
            return
        outputs = await store_results.unmerged_outputs(work, held.task.task_id, [job.job_id for job in jobs])
        waiting = {job_id for job_id, rows in outputs.items() if policy.waits_for_merge(rows)}
        jobs = [job for job in jobs if job.job_id not in waiting or job.status == "finished"]
        ends = {
            job.job_id: policy.ended_by_merge(job.status, job.error_source, outputs.get(job.job_id, ())) for job in jobs
        }
        await self._counting.write(work, held, jobs, ends, changes)

    async def _merges(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges, rest: CountJobs
    ) -> None:
        """Merge jobs; then the jobs whose outputs they merged."""
        if not jobs:
            return
        ends = {job.job_id: Ended(job.status, job.error_source) for job in jobs}
        files = await self._counting.write(work, held, jobs, ends, changes)
        inputs: dict[int, list[JobFile]] = {}
        for file in files:
            if file.dataset_type in UNMERGED_TYPES and file.is_master:
                inputs.setdefault(file.job_id, []).append(file)
        ended = await self._producers_ended(work, held.task, inputs, changes)
        ends = {job.job_id: Ended(job.status, job.error_source) for job in ended}
        await self._counting.write(work, held, ended, ends, changes)
        killed = [file.out_job_id for files in inputs.values() for file in files if file.out_job_id]
        left = [job for job in await store_results.lock_jobs(work, killed) if job.status in FINAL]
        done = {job.job_id for job in ended}
        left = [job for job in left if job.job_id not in done]
        await (self._producers(work, held, left, changes) if held.task.rules.merge_output else rest(left))

    async def _hold(
        self, work: UnitOfWork, task: Task, jobs: Sequence[EndedJob], changes: CounterChanges
    ) -> list[EndedJob]:
        """Jobs came to state merging: their unmerged outputs wait (running -> ready), bound to their producer.

        Jobs that wrote nothing to merge, which was allowed, are finished and returned: their results are applied.
        No merge job is made for a log alone unless merging reads logs.
        """
        producers = [job.job_id for job in jobs]
        if not producers:
            return []
        reports = await store_results.reports(work, producers)
        files = [
            file
            for file in await store_results.files_of_jobs(work, producers)
            if file.out_job_id == file.job_id
            and file.status in ("running", "defined")
            and file.owner_id is None  # else running as the input of a merge job: the event was said again
        ]
        for_nobody = await self._with_nothing_to_merge(work, task, files)
        ends = []
        for file in files:
            reported = policy.reported_file(reports.get(file.job_id), file.lfn)
            waits: FileStatus = "finished" if file.job_id in for_nobody else "ready"
            if not file.is_registered:
                waits = "nooutput"
            ends.append(
                OutputEnd(
                    file.file_id,
                    file.status,
                    waits if file.status == "running" else "cancelled",
                    boundary_id=file.job_id,
                    max_attempt=MERGE_ATTEMPTS,
                    **reported,
                )
            )
        await store_results.end_outputs(work, task.task_id, ends, changes, "produced; waits to be merged")
        outputs = await store_results.unmerged_outputs(work, task.task_id, producers)
        empty = [job for job in producers if policy.all_merged(outputs.get(job, ()))]
        ended = await store_results.end_merging_jobs(work, empty, "finished", "it wrote nothing to be merged")
        announce(work, [(job, "merging") for job in ended])
        return ended

    async def _with_nothing_to_merge(self, work: UnitOfWork, task: Task, files: Sequence[JobFile]) -> set[int]:
        """The jobs that wrote no stream that the command line of merge jobs reads.

        A command line that reads none is a mistake, which the merge job tells.
        """
        doubtful = {file.job_id for file in files if not file.is_registered}
        if not doubtful:
            return set()
        _, lines = await store.texts(work, task.task_id)
        text = str(lines.get("merge") or "")
        datasets = await store.datasets(work, task.task_id)
        merged = {one.dataset_id for one in datasets if command_line.reads(text, policy.merge_stream(one))}
        written = {file.job_id for file in files if file.is_registered and file.dataset_id in merged}
        return doubtful - written if merged else set()

    async def _producers_ended(
        self, work: UnitOfWork, task: Task, merge_files: Mapping[int, Sequence[JobFile]], changes: CounterChanges
    ) -> list[EndedJob]:
        """After merge jobs ended and their inputs were moved: end the jobs that made these inputs.

        All their unmerged outputs merged: finished. One of them given up: cancelled, and what is left of their outputs
        is cancelled too. Otherwise they wait on. The rows that come back must still have their results applied.
        """
        touched = sorted({file.out_job_id for files in merge_files.values() for file in files if file.out_job_id})
        outputs = await store_results.unmerged_outputs(work, task.task_id, touched)
        merged = [job for job in touched if policy.all_merged(outputs.get(job, ()))]
        given_up = [job for job in touched if any(row["status"] == "failed" for row in outputs.get(job, ()))]
        ended = await store_results.end_merging_jobs(work, merged, "finished", "its outputs were merged")
        why = f"its outputs could not be merged in {MERGE_ATTEMPTS} attempts"
        cancelled = await store_results.end_merging_jobs(work, given_up, "cancelled", why, error=why)
        left = [
            OutputEnd(row["file_id"], "ready", "cancelled")
            for job in cancelled
            for row in outputs[job.job_id]
            if row["status"] == "ready"
        ]
        await store_results.end_outputs(work, task.task_id, left, changes, why)
        announce(work, [(job, "merging") for job in ended])
        announce(work, [(job, "merging") for job in cancelled])
        return [*ended, *cancelled]
