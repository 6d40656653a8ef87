"""What rules say about jobs that failed, before their input is tried again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from services.job_generation.policy.memory import JobMemory, ram_of_whole_task
from services.job_generation.policy.outcomes import Ended, FileOutcome
from services.job_generation.policy.queue_facts import core_power_hs06
from services.job_generation.policy.task_row import is_fixed
from services.job_generation.policy.values import Task
from services.job_generation.retry import remedies
from services.job_generation.retry.engine import decide, errors_of
from services.job_generation.retry.store import retry_rules as store_rules
from services.job_generation.retry.types import FailedWork, RetryDecision
from services.job_generation.specification.kind_of_job import KindOfJob
from services.job_generation.store import needs as store_needs
from services.job_generation.store import results as store_results
from services.job_generation.store import scouts as store_scouts
from services.job_generation.store import tasks as store
from services.job_generation.store.results import EndedJob, InputEnd, JobFile
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskMeasured
from shared.model.job_report import JobReport
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES, resource_type_of
from shared.snapshot import KnownGrid

Decisions = Mapping[int, RetryDecision]
DECISIONS_AT_ONCE = 10_000
MORE_MEMORY = frozenset({"increase_memory", "increase_memory_xtimes"})
KEPT_FOR = timedelta(days=7)


class Retrying:
    """Asks the rules, and writes what follows for the task; its row is locked."""

    def __init__(self, grid: KnownGrid, kind_of: Callable[[str], KindOfJob]) -> None:
        self._grid, self._kind_of = grid, kind_of

    async def decide(
        self,
        work: UnitOfWork,
        task: Task,
        jobs: Sequence[EndedJob],
        ends: Mapping[int, Ended],
        reports: Mapping[int, JobReport],
    ) -> Decisions:
        """By job, for those that failed and that a rule fits; merge jobs have no rules."""
        failed = [
            job for job in jobs if not self._kind_of(job.job_type).reads_outputs and ends[job.job_id].status == "failed"
        ]
        if not failed:
            return {}
        rules = await store_rules.retry_rules(work.connection)
        about = FailedWork(task.architecture, task.trans_uses, task.work_queue_id)
        found: dict[int, RetryDecision] = {}
        for job in failed:
            errors = errors_of(reports.get(job.job_id), job.error_source, job.error_code, job.error_dialog)
            decision = decide(rules, errors, about, work.now)
            if decision is not None:
                found[job.job_id] = decision
        return found

    async def memory_of(self, work: UnitOfWork, decisions: Decisions) -> Mapping[int, JobMemory]:
        """What the jobs had that are to get more memory."""
        wanted = [job_id for job_id, one in decisions.items() if one.action in MORE_MEMORY]
        return await store_results.memory_of_jobs(work, wanted) if wanted else {}

    async def follow(
        self,
        work: UnitOfWork,
        held: LockedTask,
        jobs: Sequence[EndedJob],
        files: Sequence[JobFile],
        ends: Sequence[InputEnd],
        decisions: Decisions,
    ) -> None:
        """Keep the decisions, and do to the task and its units what they say besides the units' next state.

        What was taken from a queue before it ran is tried elsewhere, too.
        """
        await self._avoid(work, jobs, ends, decisions)
        if not decisions:
            return
        await store_rules.add_decisions(work, held.task.task_id, decisions)
        if not all(self._kind_of(job.job_type).speaks_for_the_task for job in jobs):
            return
        await self._memory(work, held, files, ends)
        acts = {one.action for one in decisions.values()}
        if "reduce_input_per_job" in acts:
            await self._reduce(work, held, ends, decisions)
        if "increase_cputime" in acts:
            await self._slower(work, held, jobs, files, decisions)

    async def _memory(
        self, work: UnitOfWork, held: LockedTask, files: Sequence[JobFile], ends: Sequence[InputEnd]
    ) -> None:
        """Count units whose memory was raised; with more than 30 % of the input the whole task gets more."""
        task, changes = held.task, raised_by(files, ends)
        if not changes:
            return
        raised = await store_needs.count_raised(work, task.task_id, changes)
        n_files = sum(one.n_files for one in await store.datasets(work, task.task_id) if one.is_master)
        wanted = ram_of_whole_task(task.needs.ram_mb, n_files, raised)
        if wanted is None or is_fixed("ram_count", held.row["ram_unit"], held.row["fixed_units"] or ()):
            return
        grid = await self._grid.grid(work.connection)
        resource_type = resource_type_of(
            held.row["core_count"], wanted, task.needs.ram_per_core, task.needs.base_ram_mb,
            grid.resource_types or DEFAULT_RESOURCE_TYPES,
        )  # fmt: skip
        if await store_needs.raise_task_memory(work, task.task_id, wanted, resource_type):
            reason = (
                f"memory of the whole task raised from {task.needs.ram_mb} to {wanted} MB: more than 30 % of "
                f"{n_files} units of input ran out of it; resource type {resource_type}"
            )
            numbers = {"ram_mb": wanted, "n_files": n_files, "raised": {str(key): raised[key] for key in raised}}
            work.emit(TaskMeasured(task_id=task.task_id))
            await store.record_decision(work, task.task_id, "retry", reason, numbers=numbers)

    async def _avoid(
        self, work: UnitOfWork, jobs: Sequence[EndedJob], ends: Sequence[InputEnd], decisions: Decisions
    ) -> None:
        """Units that another site is to try."""
        wanted = {job_id for job_id, one in decisions.items() if one.action == "other_site"}
        wanted |= {job.job_id for job in jobs if job.was_rebrokered}
        if not wanted:
            return
        queues = (await self._grid.grid(work.connection)).queues
        known = [(job, queues.get(job.queue or "")) for job in jobs]
        site_of_job = {job.job_id: queue.site for job, queue in known if queue is not None}
        sites = {
            end.file_id: site_of_job[end.job_id] for end in ends if end.job_id in wanted and end.job_id in site_of_job
        }
        if sites:
            await store_needs.avoid_sites(work, sites)

    async def _reduce(self, work: UnitOfWork, held: LockedTask, ends: Sequence[InputEnd], decisions: Decisions) -> None:
        """Less input for each job from now on, by the attempts of the units that failed."""
        attempts = [
            end.outcome.attempts.attempt_nr
            for end in ends
            if end.job_id in decisions and decisions[end.job_id].action == "reduce_input_per_job"
        ]
        rules = remedies.reduced_rules(held.row["split_rule"] or {}, held.task.rules, max(attempts, default=0))
        if rules is None:
            return
        await store_needs.change_split_rule(work, held.task.task_id, rules)
        sizes = {name: rules[name] for name in (remedies.N_GB, remedies.N_MAX_FILES) if rules.get(name) is not None}
        told = ", ".join(f"{name} {value}" for name, value in sizes.items())
        reason = f"less input for each job after {max(attempts)} attempts: {told}"
        await store.record_decision(work, held.task.task_id, "retry", reason, numbers=sizes)

    async def _slower(
        self,
        work: UnitOfWork,
        held: LockedTask,
        jobs: Sequence[EndedJob],
        files: Sequence[JobFile],
        decisions: Decisions,
    ) -> None:
        """A CPU time for a task that has none, from a job that ran out of time; else it is measured again."""
        slow = [job for job in jobs if job.job_id in decisions and decisions[job.job_id].action == "increase_cputime"]
        if is_fixed("cpu_time", held.row["cpu_time_unit"], held.row["fixed_units"] or ()):
            return
        grid = await self._grid.grid(work.connection)
        events = Counter[int]()
        for file in files:
            events[file.job_id] += file.n_events if file.is_master else 0
        found = []
        for job in slow:
            queue = grid.queues.get(job.queue or "")
            if queue is not None and job.queue is not None:
                power = core_power_hs06(grid, job.queue)
                at = remedies.SlowQueue(queue.max_time_s, power, job.core_count, events[job.job_id] or None)
                found.append(remedies.cpu_time_from(at))
        wanted = max((one for one in found if one is not None), default=None)
        if wanted is not None and await store_needs.set_cpu_time(work, held.task.task_id, wanted):
            reason = f"CPU time set to {wanted} HS06 s for each event: {len(slow)} jobs ran out of time"
            await store.record_decision(work, held.task.task_id, "retry", reason, numbers={"cpu_time": wanted})
        else:
            await store_scouts.ask_to_measure_again(work, held.task.task_id, 1)


async def forget_retry_decisions(work: UnitOfWork) -> None:
    """Periodic: what was decided long ago."""
    await store_rules.forget_decisions(work, work.now - KEPT_FOR, DECISIONS_AT_ONCE)


def ended_by_rule(outcome: FileOutcome, file: JobFile, decision: RetryDecision | None, n_inputs: int) -> FileOutcome:
    """The outcome of an input after the rule that fits its job: broken, or a master with fewer tries."""
    if decision is None:
        return outcome
    if remedies.is_broken(decision, file.lfn, outcome.attempts.attempt_nr, n_inputs=n_inputs):
        return FileOutcome("broken", outcome.attempts)
    return remedies.limited(outcome, decision) if file.is_master else outcome


def raised_by(files: Iterable[JobFile], ends: Iterable[InputEnd]) -> dict[int, int]:
    """How many units more ask for which memory, and how many fewer for the one they asked for before."""
    before = {file.file_id: file.ram_mb for file in files}
    changes = Counter[int]()
    for end in ends:
        old = before.get(end.file_id)
        if end.ram_mb is not None and end.ram_mb != old:
            changes[end.ram_mb] += 1
            if old is not None:
                changes[old] -= 1
    return {ram_mb: change for ram_mb, change in changes.items() if change}
