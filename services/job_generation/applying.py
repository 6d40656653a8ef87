"""What the end of jobs means for files, once for each job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from services.job_generation.compiling import Compiling
from services.job_generation.event_serving.cloning import EndingCopies
from services.job_generation.event_serving.evaluating import EndingEvaluations
from services.job_generation.event_serving.jumbo_ending import EndingEventService
from services.job_generation.merging import Merging
from services.job_generation.parameters import generation_parameters
from services.job_generation.policy import merging as merge_policy
from services.job_generation.policy import outcomes
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.kinds import kind_of
from services.job_generation.policy.memory import JobMemory
from services.job_generation.policy.outcomes import Ended
from services.job_generation.policy.values import Task
from services.job_generation.preprocessing import Preprocessing
from services.job_generation.retry.remedies import raised_ram_mb
from services.job_generation.retry.retrying import Decisions, Retrying, ended_by_rule
from services.job_generation.store import job_sets as store_sets
from services.job_generation.store import jumbo as store_jumbo
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store import waiting_sets as store_waiting
from services.job_generation.store.results import EndedJob, InputEnd, JobFile, OutputEnd
from services.job_generation.store.tasks import LockedTask
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import LOG_TYPES, OUTPUT_TYPES, UNMERGED_TYPES
from shared.model.job_report import JobReport
from shared.states.file import FileStatus
from shared.states.job import FINAL

GONE_AFTER_END: tuple[FileStatus, ...] = ("running", "defined")


class Applying:
    """Counts ended jobs of tasks whose rows are locked."""

    def __init__(
        self,
        parameters: Parameters,
        merges: Merging,
        retrying: Retrying,
        compiling: Compiling,
        preprocessing: Preprocessing,
    ) -> None:
        self._parameters, self._merges, self._retrying, self._compiling = parameters, merges, retrying, compiling
        self._job_sets, self._copies = EndingEventService(self._write, self._write_input), EndingCopies(self._write)
        self._searches, self._preprocessing = EndingEvaluations(self._write, self._job_sets), preprocessing

    async def apply(self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob]) -> None:
        """Apply the results of these jobs of one task; they are locked and none was applied before."""
        task, changes = held.task, CounterChanges()
        if task.rules.evaluates_points:
            jobs = await self._searches.ended(work, held, jobs, changes)
        elif task.rules.uses_event_service:
            jobs = await self._job_sets.ended(work, held, jobs, changes)
        if task.rules.cloning is not None:
            jobs = await self._copies.ended(work, held, jobs, changes)
        empty = await self._merges.hold(work, task, [job for job in jobs if job.status == "merging"], changes)
        final = [*(job for job in jobs if job.status in FINAL), *empty]
        merges = [job for job in final if kind_of(job.job_type).reads_outputs]
        await self._apply_plain(work, held, [job for job in final if job not in merges], changes)
        await self._apply_merges(work, held, merges, changes)
        await store.apply_counters(work, changes)
        await self._compiling.ended(work, held, final)
        await self._preprocessing.ended(work, held, final)

    async def copies_go_on(
        self, work: UnitOfWork, held: LockedTask, job_ids: Sequence[int], *, has_stored: bool
    ) -> int:
        """Copies of jobs began to run, or their outputs are registered; how many took others back."""
        if not has_stored and held.task.rules.cloning != "runonce":
            return 0
        changes = CounterChanges()
        n_decided = await self._copies.goes_on(work, held, job_ids, changes)
        await store.apply_counters(work, changes)
        return n_decided

    async def finish_co_jumbo(self, work: UnitOfWork, held: LockedTask, set_ids: Sequence[int]) -> int:
        """Co-jumbo jobs without events left, thanks to jumbo jobs, are merged; how many sets went on."""
        await store_results.lock_jobs(work, await store_jumbo.jobs_of_sets(work, set_ids))
        await store_sets.lock(work, set_ids)
        changes, n_sets = CounterChanges(), 0
        for set_id in sorted(set_ids):
            n_sets += await self._job_sets.look(work, held, set_id, changes)
        await store_waiting.note_waiting(work, set_ids)
        await store.apply_counters(work, changes)
        return n_sets

    async def give_way(self, work: UnitOfWork, held: LockedTask, set_ids: Sequence[int]) -> None:
        """Jobs that waited without a queue end, now that their sets have real co-jumbo jobs; all are locked."""
        changes = CounterChanges()
        for set_id in sorted(set_ids):
            await self._job_sets.give_way(work, held, set_id, changes)
        await store.apply_counters(work, changes)
        await store_waiting.note_waiting(work, set_ids)

    async def give_up(self, work: UnitOfWork, held: LockedTask, set_id: int, reason: str) -> bool:
        """A job set for which no queue is left fails, unless other jobs of it go on; they are locked."""
        changes = CounterChanges()
        is_over = await self._job_sets.give_up(work, held, set_id, reason, changes)
        await store_waiting.note_waiting(work, [set_id])
        await store.apply_counters(work, changes)
        return is_over

    async def end_search(self, work: UnitOfWork, held: LockedTask, set_id: int, ended: Ended) -> None:
        """The input of a search that is over ends so; all its jobs were counted."""
        changes = CounterChanges()
        await self._write_input(work, held, set_id, await store_sets.last_job(work, set_id), ended, changes)
        await store.apply_counters(work, changes)

    async def _apply_plain(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges
    ) -> None:
        """Jobs that are not merge jobs. One that was killed while its outputs are being merged waits for the merge.

        Those that ended well and are merged by nobody need no decision: their files are finished all at once.
        """
        if not jobs:
            return
        task = held.task
        ends = {job.job_id: Ended(job.status, job.error_source) for job in jobs}
        if task.rules.merge_output:
            outputs = await store_results.unmerged_outputs(work, task.task_id, [job.job_id for job in jobs])
            waiting = {job_id for job_id, rows in outputs.items() if merge_policy.waits_for_merge(rows)}
            jobs = [job for job in jobs if job.job_id not in waiting or job.status == "finished"]
            ends = {
                job.job_id: merge_policy.ended_by_merge(job.status, job.error_source, outputs.get(job.job_id, ()))
                for job in jobs
            }
        else:
            await self._finish(work, task, [job for job in jobs if job.status == "finished"], changes)
            jobs = [job for job in jobs if job.status != "finished"]
        await self._write(work, held, jobs, ends, changes)

    async def _finish(self, work: UnitOfWork, task: Task, jobs: Sequence[EndedJob], changes: CounterChanges) -> None:
        """Files of jobs that ended well to their next states; the jobs are marked as counted."""
        if jobs:
            ids = [job.job_id for job in jobs]
            await store_results.finish_files(work, task.task_id, ids, changes, "its job ended")
            await _count(work, task, jobs)

    async def _apply_merges(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges
    ) -> None:
        """Merge jobs; then the jobs whose outputs they merged."""
        if not jobs:
            return
        task = held.task
        ends = {job.job_id: Ended(job.status, job.error_source) for job in jobs}
        files = await self._write(work, held, jobs, ends, changes)
        inputs: dict[int, list[JobFile]] = {}
        for file in files:
            if file.dataset_type in UNMERGED_TYPES and file.is_master:
                inputs.setdefault(file.job_id, []).append(file)
        ended = await self._merges.producers_ended(work, task, inputs, changes)
        await self._write(
            work, held, ended, {job.job_id: Ended(job.status, job.error_source) for job in ended}, changes
        )
        killed = [file.out_job_id for files in inputs.values() for file in files if file.out_job_id]
        rest = [job for job in await store_results.lock_jobs(work, killed) if job.status in FINAL]
        done = {job.job_id for job in ended}
        await self._apply_plain(work, held, [job for job in rest if job.job_id not in done], changes)

    async def _write(
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
        await _count(work, task, jobs)
        return files

    async def _write_input(
        self, work: UnitOfWork, held: LockedTask, set_id: int, job_id: int, ended: Ended, changes: CounterChanges
    ) -> None:
        """The input of a set that none of its live jobs owns ends as that of this job, which was counted before."""
        await store_sets.own_input(work, set_id, job_id)
        files = await store_results.input_of_set(work, set_id)
        limits = generation_parameters(self._parameters, held.task.gshare, held.task.vo)
        inputs = list(_inputs(files, {job_id: ended}, {}, held.task, limits.forgiven_attempts, {}, {}))
        await store_results.end_inputs(work, held.task.task_id, inputs, changes, "its job set was given up")


async def _count(work: UnitOfWork, task: Task, jobs: Sequence[EndedJob]) -> None:
    """The results of these jobs are written."""
    await work.because("results counted")
    await store_results.mark_applied(work, [job.job_id for job in jobs])
    await store_results.count_ended_jobs(work, task.task_id, jobs)


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
