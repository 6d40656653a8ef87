"""What becomes of a task whose secondary dataset has no file left for another job."""

from __future__ import annotations

from services.job_generation.policy.counters import CounterChanges
from services.job_generation.specification.job_source import JobSource
from services.job_generation.splitting.placement import Placement
from services.job_generation.store import counters as store_counters
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from shared.db.unit_of_work import UnitOfWork

#: in the numbers of a decision: the dataset that ran out, and units of the master that were given up for that
RAN_OUT, LEFT_OUT = "ran_out", "left_out"


async def is_given_up(work: UnitOfWork, definition: JobSource, placement: Placement) -> bool:
    """Units of which no job can ever be made, as nothing can bring their secondary files, are left out.

    This is so once the task had jobs and none of them is left that could give files back, and the catalogue adds none
    to the dataset: the task then ends with what it has, and says which dataset ran out. A task of which no job was
    ever made waits for its time-out: its definition is wrong, and somebody may mend it.
    """
    task = definition.task
    short = [one for one in definition.datasets.values() if one.name == placement.ran_out and not one.is_master]
    masters = [one for one in definition.datasets.values() if one.is_master]
    if not short or any(one.is_open or one.status == "toupdate" for one in short) or len(placement.reasons) != 1:
        return False
    if task.status not in ("ready", "running") or not any(one.n_files_ended for one in masters):
        return False
    if await store.something_runs(work, task.task_id):
        return False
    if await store_units.has_files_under_way(work, [one.dataset_id for one in short]):
        return False
    changes, ids = CounterChanges(), [unit.file_id for unit in placement.leftover]
    reason = f"{placement.reasons[0]}, and nothing adds files to it: {len(ids)} units of input are left out"
    await store_units.leave_out(work, task.task_id, changes, ids, reason)
    await store_counters.apply(work, changes)
    numbers = {RAN_OUT: placement.ran_out, LEFT_OUT: len(ids)}
    await store.record_decision(work, task.task_id, "unsplittable", reason, numbers=numbers)
    return True
