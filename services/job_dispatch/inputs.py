"""Jobs that were generated, or whose input arrived: load what decides, decide (`policy.inputs`), commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_dispatch.lifecycle import Lifecycle
from services.job_dispatch.policy.inputs import ANALYSIS_LABELS, InputNeed, JobAtQueue, plan_inputs
from services.job_dispatch.policy.reports import Blame
from services.job_dispatch.store import LockedJob, NewTransfer, QueuePlace, Store, TaskFacts
from shared.db.unit_of_work import UnitOfWork
from shared.events import TransfersRequested
from shared.model.queue import Queue, queue_from_cric

TRANSFER_FAILED = 101


class Inputs:
    """The way from `defined` to `activated`."""

    def __init__(self, store: Store, lifecycle: Lifecycle) -> None:
        self._store = store
        self._lifecycle = lifecycle

    async def settle(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        """Generated jobs: activate those whose input is at their queue, ask for the input of the others."""
        locked = await self._store.lock_jobs(work.connection, job_ids)
        jobs = {job_id: job for job_id, job in locked.items() if job.row.status == "defined"}
        if not jobs:
            return
        places = await self._store.queue_places(work.connection, [job.row.queue for job in jobs.values()])
        tasks = await self._store.task_facts(work.connection, [job.row.task_id for job in jobs.values()])
        needs = await self._needs(work, jobs, places)
        plan = plan_inputs(
            [
                JobAtQueue(
                    job.job_id,
                    job.row.task_id,
                    tasks[job.row.task_id].status if job.row.task_id in tasks else "",
                    job.prod_source_label,
                    _destination(places.get(job.row.queue), job.prod_source_label),
                )
                for job in jobs.values()
            ],
            needs,
        )
        move = self._lifecycle.to
        await move(work, jobs, plan.activate, "activated", reason="input is at the queue or not needed")
        await move(work, jobs, plan.throttle, "throttled", reason="task paused")
        blames = dict.fromkeys(plan.cancel, Blame("user", 100, "task killed"))
        await move(work, jobs, plan.cancel, "cancelled", reason="task killed", blames=blames)
        await move(work, jobs, plan.assign, "assigned", reason="input must be moved")
        new = [
            NewTransfer(
                one.job.task_id,
                one.job.job_id,
                one.activity,
                one.need.source_storage,
                one.job.destination or "",
                one.need.n_files,
                one.need.n_bytes,
            )
            for one in plan.transfers
        ]
        transfer_ids = await self._store.insert_transfers(work.connection, new, "input")
        if transfer_ids:
            work.emit(TransfersRequested(transfer_ids=tuple(transfer_ids)))

    async def _needs(
        self, work: UnitOfWork, jobs: Mapping[int, LockedJob], places: Mapping[str, QueuePlace]
    ) -> list[InputNeed]:
        storages = {queue: _local_storages(place) for queue, place in places.items()}
        rows = await self._store.input_facts(work.connection, sorted(jobs), storages)
        return [
            InputNeed(
                row["job_id"],
                row["dataset_id"],
                row["n_files"],
                row["n_bytes"],
                row["complete_here"] or row["n_files_here"] >= row["n_files"],
                row["source_storage"],
            )
            for row in rows
        ]

    async def arrived(self, work: UnitOfWork, jobs: Mapping[int, LockedJob]) -> None:
        """Assigned jobs whose transfers are all done: activated, or held back while their task is paused."""
        tasks = await self._store.task_facts(work.connection, [job.row.task_id for job in jobs.values()])
        paused = {job_id for job_id, job in jobs.items() if _status(tasks, job) == "paused"}
        ready = sorted(set(jobs) - paused)
        await self._lifecycle.to(work, jobs, ready, "activated", reason="input arrived")
        await self._lifecycle.to(work, jobs, sorted(paused), "throttled", reason="task paused")

    async def lost(self, work: UnitOfWork, jobs: Mapping[int, LockedJob]) -> None:
        """Jobs whose input or output cannot be moved."""
        blames = {job_id: Blame("dispatch", TRANSFER_FAILED, "its data cannot be moved") for job_id in jobs}
        await self._lifecycle.to(work, jobs, sorted(jobs), "failed", reason="its data cannot be moved", blames=blames)


def _status(tasks: Mapping[int, TaskFacts], job: LockedJob) -> str:
    task = tasks.get(job.row.task_id)
    return task.status if task is not None else ""


def cric_queue(place: QueuePlace) -> Queue | None:
    """The queue as loaded; None if its record is not valid any more."""
    queue = queue_from_cric(place.queue, place.data)
    return queue if isinstance(queue, Queue) else None


def _local_storages(place: QueuePlace) -> tuple[str, ...]:
    """Everything on disk at the queue's site, and what the queue is configured to read."""
    queue = cric_queue(place)
    configured = (*queue.read_storages, *queue.analysis_read_storages) if queue is not None else ()
    return tuple(sorted({*place.site_storages, *configured}))


def _destination(place: QueuePlace | None, label: str) -> str | None:
    """Where input goes: the first storage the queue reads; None where a queue without storage reads from afar."""
    if place is None:
        return None
    queue = cric_queue(place)
    if queue is not None and (queue.is_virtual_placement or (queue.direct_access_wan and not queue.read_storages)):
        return None
    configured = queue.storages("read", label in ANALYSIS_LABELS) if queue is not None else ()
    candidates = (*configured, *filter(None, (place.default_storage,)), *place.site_storages)
    return next(iter(candidates), None)
