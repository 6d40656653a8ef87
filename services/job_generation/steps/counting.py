"""Write what the end of jobs means for files, once for each job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from services.job_generation.parameters import generation_parameters
from services.job_generation.policy import outcomes
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.memory import JobMemory
from services.job_generation.policy.outcomes import Ended
from services.job_generation.policy.values import Task
from services.job_generation.retry.remedies import raised_ram_mb
from services.job_generation.retry.retrying import Decisions, Retrying, ended_by_rule
from services.job_generation.steps.doors import Kinds
from services.job_generation.store import results as store_results
from services.job_generation.store.results import EndedJob, InputEnd, JobFile, OutputEnd
from services.job_generation.store.tasks import LockedTask
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsEvent, JobsFailed, JobsFinished, JobsMerging, moves_of
from shared.model.batches import batches
from shared.model.dataset_types import LOG_TYPES, OUTPUT_TYPES
from shared.model.job_report import JobReport
from shared.states.file import FileStatus
from shared.states.job import FINAL, JobStatus

_EVENTS: Mapping[JobStatus, type[JobsEvent]] = {"finished": JobsFinished, "merging": JobsMerging}
GONE_AFTER_END: tuple[FileStatus, ...] = ("running", "defined")


class Counting:
    """Counts ended jobs: plain ones without their tasks' rows, others of tasks whose rows are locked."""

    def __init__(self, parameters: Parameters, retrying: Retrying, kinds: Kinds) -> None:
        self._parameters, self._retrying, self._kinds = parameters, retrying, kinds

    async def count(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges
    ) -> None:
        """Count these jobs of one task; they are locked and none was counted before."""
        await self._kinds.ended(work, held, changes, partial(self._plain, work, held, changes))(jobs)

    async def count_finished(self, work: UnitOfWork, job_ids: Sequence[int], changes: CounterChanges) -> None:
        """Finish the files of jobs that ended well and mean nothing to others, of any number of tasks.

        No task is locked: of each job only its own files change, and their counters.
        """
        counted = await store_results.mark_applied(work, job_ids, changes, status="finished")
        if counted:
            await store_results.finish_files(work, counted, changes, "its job ended")

    async def _plain(
        self, work: UnitOfWork, held: LockedTask, changes: CounterChanges, jobs: Sequence[EndedJob]
    ) -> None:
        """Count jobs that no other job waits for.

        Those that ended well need no decision: their files are finished all at once.
        """
        finished = [job for job in jobs if job.status == "finished"]
        if finished:
            ids = [job.job_id for job in finished]
            await store_results.finish_files(work, ids, changes, "its job ended")
            await store_results.mark_applied(work, ids, changes)
        others = [job for job in jobs if job.status in FINAL and job.status != "finished"]
        ends = {job.job_id: Ended(job.status, job.error_source) for job in others}
        await self.write(work, held, others, ends, changes)

    async def write(
        self,
        work: UnitOfWork,
        held: LockedTask,
        jobs: Sequence[EndedJob],
        ends: Mapping[int, Ended],
        changes: CounterChanges,
    ) -> list[JobFile]:
        """Files of these jobs to their next states; the jobs are marked as counted."""
        if not jobs:
            return []
        task, ids = held.task, [job.job_id for job in jobs]
        files = await store_results.files_of_jobs(work, ids)
        reports = await store_results.reports(work, ids)
        limits = generation_parameters(self._parameters, task.gshare, task.vo)
        decisions = await self._retrying.decide(work, task, jobs, ends, reports)
        memory = await self._retrying.memory_of(work, decisions)
        inputs = list(_inputs(files, ends, reports, task, limits.forgiven_attempts, decisions, memory))
        outputs = list(_outputs(files, ends, reports))
        await store_results.end_inputs(work, task.task_id, inputs, changes, "its job ended")
        await store_results.end_outputs(work, task.task_id, outputs, changes, "its job ended")
        await self._retrying.follow(work, held, jobs, files, inputs, decisions)
        await store_results.mark_applied(work, ids, changes)
        return files

    async def write_input(
        self,
        work: UnitOfWork,
        held: LockedTask,
        files: Sequence[JobFile],
        job_id: int,
        ended: Ended,
        changes: CounterChanges,
    ) -> None:
        """End input that no live job owns as that of this job, which was counted before."""
        limits = generation_parameters(self._parameters, held.task.gshare, held.task.vo)
        inputs = list(_inputs(files, {job_id: ended}, {}, held.task, limits.forgiven_attempts, {}, {}))
        await store_results.end_inputs(work, held.task.task_id, inputs, changes, "its job set was given up")


def announce(work: UnitOfWork, ended: Sequence[tuple[EndedJob, JobStatus]]) -> None:
    """Tell that these jobs, now in one state, ended here or wait to be merged; with their states before."""
    for part in batches(ended, IDS_OF_EVENT):
        status = part[0][0].status
        moves = moves_of(
            (
                (job.task_id, job.queue, job.resource_type, job.gshare, job.user_name, was, job.core_count)
                for job, was in part
            ),
            status,
        )
        work.emit(_EVENTS.get(status, JobsFailed)(job_ids=tuple(job.job_id for job, _ in part), moves=moves))


def _inputs(
    files: Sequence[JobFile],
    ends: Mapping[int, Ended],
    reports: dict[int, JobReport],
    task: Task,
    max_forgiven: int,
    decisions: Decisions,
    memory: Mapping[int, JobMemory],
) -> Iterable[InputEnd]:
    """The outcome of each input that its job still owns."""
    n_inputs = {job_id: len(lfns) for job_id, lfns in _inputs_of_jobs(files).items()}
    for file in files:
        if file.out_job_id == file.job_id or file.owner_id != file.job_id or file.status != "running":
            continue
        ended, decision, ram = ends[file.job_id], decisions.get(file.job_id), file.ram_mb
        if file.dataset_type == "random_seed":
            outcome = outcomes.FileOutcome(outcomes.of_seed(ended), file.attempts)
        elif file.is_master:
            outcome = outcomes.of_input(ended, file.attempts, max_forgiven=max_forgiven)
            outcome = ended_by_rule(outcome, file, decision, n_inputs[file.job_id])
            if decision is not None:
                report, asked = reports.get(file.job_id), memory.get(file.job_id)
                ram = raised_ram_mb(decision, task.needs, task.rules, report, file.ram_mb, asked)
        else:
            outcome = outcomes.FileOutcome("finished" if ended.succeeded else "ready", file.attempts)
            outcome = ended_by_rule(outcome, file, decision, n_inputs[file.job_id])
        yield InputEnd(file.file_id, file.job_id, outcome, ram)


def _inputs_of_jobs(files: Iterable[JobFile]) -> dict[int, set[str]]:
    """The names of the files that each job read."""
    found: dict[int, set[str]] = {}
    for file in files:
        if file.out_job_id != file.job_id and file.dataset_type != "random_seed":
            found.setdefault(file.job_id, set()).add(file.lfn)
    return found


def _outputs(files: Iterable[JobFile], ends: Mapping[int, Ended], reports: dict[int, JobReport]) -> Iterable[OutputEnd]:
    """The outcome of each output that the job made or was to make; those that were merged are left as they are."""
    for file in files:
        if file.out_job_id != file.job_id or file.dataset_type not in OUTPUT_TYPES:
            continue
        ended = ends[file.job_id]
        if file.status in GONE_AFTER_END:
            report = reports.get(file.job_id)
            found = {one.lfn: one for one in report.outputs} if report is not None else {}
            one = found.get(file.lfn)
            is_log = file.dataset_type in LOG_TYPES
            status = outcomes.of_output(ended, is_registered=file.is_registered, is_log=is_log)
            if one is None:
                yield OutputEnd(file.file_id, file.status, status)
            else:
                yield OutputEnd(file.file_id, file.status, status, one.size_bytes, one.guid, one.checksum)
        elif file.status == "ready" and not ended.succeeded:
            yield OutputEnd(file.file_id, "ready", "cancelled")
