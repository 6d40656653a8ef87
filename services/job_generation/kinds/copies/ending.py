"""End copies of a job: the first that goes on takes the others back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_generation.kinds.copies.policy import CLONING_LOCK, after_copy
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.event_service.store.job_sets import Member, NewSet
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.outcomes import Ended
from services.job_generation.policy.values import PlacedJob
from services.job_generation.specification.job_source import JobSource
from services.job_generation.steps.counting import Counting, announce
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import Chunk, LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.states.job import FINAL, ON_NODE, QUEUED, JobStatus

ROLE = "clone"
#: copies that come too late, whatever they do
LATE: tuple[JobStatus, ...] = (*QUEUED, *ON_NODE, "holding", "transferring")


async def note_copies(
    work: UnitOfWork, definition: JobSource, chunk: Chunk, placed: Sequence[PlacedJob], job_ids: Sequence[int]
) -> None:
    """A job set for the copies of each input; copies of one follow one another."""
    groups: dict[int, list[tuple[PlacedJob, int]]] = {}
    for one, job_id in zip(placed, job_ids, strict=True):
        groups.setdefault(id(one.job), []).append((one, job_id))
    ids = await work.next_ids("job_set_ids", len(groups))
    sets, members = [], []
    for set_id, group in zip(ids, groups.values(), strict=True):
        job = group[0][0].job
        owned = [
            unit
            for dataset_id, units in job.secondary.items()
            if not definition.datasets[dataset_id].is_shared
            for unit in units
        ]
        sets.append(NewSet(set_id, [*job.master, *owned], [], {}))
        members += [(job_id, set_id) for _, job_id in group]
    rules, task_id = definition.task.rules, definition.task.task_id
    await store_sets.insert(
        work, task_id, chunk.chunk_id, sets, kind=chunk.kind, n_consumers=rules.n_consumers, queues=[],
        attempts=rules.range_attempts, keeps_processed=False,
    )  # fmt: skip
    await store_sets.add_members(work, task_id, ROLE, members, {})


class EndingCopies:
    """What starts and ends of copies mean."""

    def __init__(self, counting: Counting) -> None:
        self._counting = counting

    async def goes_on(self, work: UnitOfWork, held: LockedTask, job_ids: Sequence[int], changes: CounterChanges) -> int:
        """The first of these copies takes the others of its set back; how many sets have one now.

        One whose outputs are registered goes before all others.
        """
        members = await store_sets.members_of_jobs(work, job_ids)
        set_ids = sorted({one.job_set_id for one in members.values() if one.role == ROLE})
        await store_sets.lock_jobs_of_sets(work, set_ids)
        n_decided = 0
        found = await store_sets.members_of_sets(work, set_ids)
        stored = await store_sets.stored_copies(work, set_ids)
        for row in await store_sets.lock(work, set_ids):
            live = [one for one in found.get(row.job_set_id, []) if one.status not in FINAL]
            ids = {one.job_id for one in live}
            first = next((job_id for job_id in (*stored, *job_ids) if job_id in ids), None)
            if row.stage == "open" and first is not None and len(live) > 1:
                await store_sets.own_input(work, row.job_set_id, first)
                await self._take_back(work, held, [one for one in live if one.job_id != first], changes)
                n_decided += 1
        return n_decided

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges
    ) -> list[EndedJob]:
        """Apply those that others replace; those that count, and that are no copies, come back."""
        members = await store_sets.members_of_jobs(work, [job.job_id for job in jobs])
        members = {job_id: one for job_id, one in members.items() if one.role == ROLE}
        await store_sets.lock(work, sorted({one.job_set_id for one in members.values()}))
        counted = []
        for job in jobs:
            if job.job_id not in members or await self._one(work, held, job, members, changes):
                counted.append(job)
        return counted

    async def _one(
        self,
        work: UnitOfWork,
        held: LockedTask,
        job: EndedJob,
        members: Mapping[int, Member],
        changes: CounterChanges,
    ) -> bool:
        """Whether the input ends with this copy."""
        set_id = members[job.job_id].job_set_id
        if members[job.job_id].sub_status is not None:
            return False  # it was taken back, and counted with that
        [row] = await store_sets.lock(work, [set_id])
        found = (await store_sets.members_of_sets(work, [set_id])).get(set_id, [])
        others = [one for one in found if one.job_id != job.job_id and one.sub_status is None]
        then = after_copy(job.status, is_decided=row.stage != "open", n_others=len(others))
        if then == "wins":
            await store_sets.own_input(work, set_id, job.job_id)
            await store_sets.change(work, set_id, "finished", f"job {job.job_id} was the first to store its output")
            await self._take_back(work, held, others, changes)
            return True
        if then == "ends":
            await store_sets.own_input(work, set_id, job.job_id)
            await store_sets.change(work, set_id, "failed", f"job {job.job_id}, the last copy, is {job.status}")
            return True
        if then == "leaves":
            await store_sets.own_input(work, set_id, min(one.job_id for one in others))
        else:
            await store_sets.end_members(work, [(job.job_id, "jc_unlock", 0)])
        ended = Ended("closed") if then == "loses" else Ended(job.status, job.error_source)
        await self._counting.write(work, held, [job], {job.job_id: ended}, changes)
        return False

    async def _take_back(
        self, work: UnitOfWork, held: LockedTask, others: Sequence[Member], changes: CounterChanges
    ) -> None:
        """Copies that are not needed any more; one that has ended meanwhile is counted when that is told."""
        closed = await store_sets.end_live(
            work, [one.job_id for one in others], "closed", LATE, "another copy of it was faster",
            error_code=CLONING_LOCK,
        )  # fmt: skip
        jobs = [job for job, _ in closed]
        await store_sets.end_members(work, [(job.job_id, "jc_unlock", 0) for job in jobs])
        announce(work, closed)
        await self._counting.write(work, held, jobs, {job.job_id: Ended("closed") for job in jobs}, changes)


async def tasks_of_copies(work: UnitOfWork, job_ids: Sequence[int]) -> dict[int, list[int]]:
    """Those of the jobs that are copies, by task, in their order."""
    found: dict[int, list[int]] = {}
    for job_id, task_id in await store_sets.copies_among(work, job_ids):
        found.setdefault(task_id, []).append(job_id)
    return found
