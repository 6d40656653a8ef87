"""What a pilot must offer to run a job: cores, memory, scratch space and time, on a coarse grid."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from services.job_generation.policy.job_fields import copies_to_scratch
from services.job_generation.policy.limits import Totals, ram_mb
from services.job_generation.policy.values import JobInput, QueueFacts, Task
from shared.brokerage.estimates import cores_of_job, scratch_bytes, walltime_of_job_s
from shared.brokerage.smallest_job import counted_events
from shared.model.needs import WorkNeeds, cores_of_merge_job
from shared.model.units import MB_BYTES
from shared.model.urgency import URGENT_PROCESSING
from shared.model.whole_numbers import LARGEST_INT4

RAM_STEP_MB, DISK_STEP_MB, WALLTIME_STEP_S = 100, 1000, 3600


@dataclass(frozen=True)
class Requirement:
    """What a pilot must offer; jobs with the same requirement share one row of `requirement_shapes`.

    `is_urgent`: whoever fits takes it before the order of shares is looked at.
    """

    prod_source_label: str
    resource_type: str
    core_count: int
    ram_mb: int
    disk_mb: int
    walltime_s: int
    is_urgent: bool = False
    vo: str = ""


def cores_of(task: Task, queue: QueueFacts, kind: str) -> int:
    """The cores of the queue's slot; merge jobs have what the task states, the slot's where it states 0."""
    if kind == "merge":
        return cores_of_job(_merging_needs(task), queue.core_count, is_merge=True)
    if task.core_count == 1:
        return 1
    return cores_of_job(task.needs, queue.core_count)


def _up(value: float, step: int, most: float) -> int:
    """Rounded up to a step, so that few shapes exist, but not over what the queue has if the value itself fits."""
    rounded = math.ceil(value / step) * step if value > 0 else 0
    return min(rounded if not most or value > most else min(rounded, int(most)), LARGEST_INT4)


def requirement_of(task: Task, queue: QueueFacts, kind: str, totals: Totals, raised_ram_mb: int | None) -> Requirement:
    """Memory, scratch space and time of one job, on a grid of 100 MB, 1000 MB and 1 h, and its VO."""
    merge = kind == "merge"
    cores = cores_of(task, queue, kind)
    needs = _merging_needs(task) if merge else task.needs
    ram = ram_mb(needs, cores, is_merge=merge, raised_mb=raised_ram_mb)
    output = task.needs.output_bytes(totals.n_events, int(totals.effective_bytes))
    if merge:
        output = float(totals.input_bytes)
    copied = 0 if queue.reads_directly and not copies_to_scratch(task, is_merge=merge) else totals.input_bytes
    disk_mb = scratch_bytes(task.needs, output, copied, is_analysis=task.is_analysis) / MB_BYTES
    if merge:
        wall: float | None = task.merge_walltime_s
    elif kind == "build":  # it processes no events
        wall = None
    else:
        wall = walltime_of_job_s(task.needs, totals.n_events, cores, queue.core_power_hs06)
    return Requirement(
        task.prod_source_label,
        queue.resource_type,
        cores,
        _up(ram, RAM_STEP_MB, queue.max_rss_mb),
        _up(disk_mb, DISK_STEP_MB, queue.max_work_dir_mb),
        0 if not wall else _up(wall, WALLTIME_STEP_S, queue.max_time_s),
        task.processing_type == URGENT_PROCESSING,
        task.vo or "",
    )


def _merging_needs(task: Task) -> WorkNeeds:
    """Cores and memory of a merge job are what the task says for those, whatever its other jobs need."""
    ram = task.merge_ram
    cores = cores_of_merge_job(task.merge_core_count)
    return replace(task.needs, core_count=cores, base_ram_mb=0, ram_mb=ram.mb, ram_per_core=ram.per_core)


def totals_of(job: JobInput) -> Totals:
    """Counts and bytes of a job's input."""
    master = job.master
    n_secondary = sum(len(units) for units in job.secondary.values())
    events = sum(counted_events(unit.events) for unit in master)
    effective = sum(unit.effective_bytes for unit in master)
    return Totals(len(master), n_secondary, events, job.input_bytes, effective)
