"""Why each job of a chunk ended where it did: what `place` did is gone through once more."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.policy.values import PlacedJob, Task, Unit
from services.job_generation.splitting.cutting import Cutter
from services.job_generation.splitting.limits import limits_at
from services.job_generation.splitting.master_input import master_input
from services.job_generation.splitting.secondary import Pool


def why_each_ended(
    task: Task, units: Sequence[Unit], pools: Sequence[Pool], jobs: Sequence[PlacedJob], *, scout: bool
) -> list[str]:
    """One reason for each job, in their order; `units` and `pools` as they were before the first."""
    master = master_input(units, task.rules)
    places = {unit.file_id: place for place, unit in enumerate(master.units)}
    cutters: dict[str, Cutter] = {}
    now, reasons = tuple(pools), []
    for one in jobs:
        cutter = cutters.get(one.queue.key)
        if cutter is None:
            limits = limits_at(task.needs, task.rules, one.queue, scout=scout, is_analysis=task.is_analysis)
            cutter = cutters[one.queue.key] = Cutter(master, limits, task.rules, task.needs, one.queue)
        n_units = len(one.job.master)
        reasons.append(cutter.why_ended(places[one.job.master[0].file_id], n_units, now))
        now = tuple(pool.after(len(one.job.secondary[pool.dataset.dataset_id])) for pool in now)
    return reasons
