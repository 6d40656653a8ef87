"""What a pilot must offer to run a job: cores, memory, scratch space and time, on a coarse grid."""

from __future__ import annotations

import math
from typing import NamedTuple

from services.job_generation.policy.values import QueueFacts, Task
from services.job_generation.specification.kind_of_job import KindOfJob
from services.job_generation.splitting.limits import Totals, ram_mb
from shared.brokerage.estimates import scratch_bytes
from shared.model.units import MB_BYTES
from shared.model.urgency import URGENT_PROCESSING
from shared.model.whole_numbers import LARGEST_INT4

RAM_STEP_MB, DISK_STEP_MB, WALLTIME_STEP_S = 100, 1000, 3600


class Requirement(NamedTuple):
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


def _up(value: float, step: int, most: float) -> int:
    """Rounded up to a step, so that few shapes exist, but not over what the queue has if the value itself fits."""
    rounded = math.ceil(value / step) * step if value > 0 else 0
    return min(rounded if not most or value > most else min(rounded, int(most)), LARGEST_INT4)


def requirement_of(
    task: Task, queue: QueueFacts, kind: KindOfJob, totals: Totals, raised_ram_mb: int | None
) -> Requirement:
    """Memory, scratch space and time of one job, on a grid of 100 MB, 1000 MB and 1 h, and its VO."""
    cores = kind.cores(task, queue)
    ram = ram_mb(kind.needs(task), cores, is_merge=kind.needs_memory_of_merging, raised_mb=raised_ram_mb)
    output = kind.output_bytes(task, totals)
    copied = 0 if queue.reads_directly and not kind.copies_to_scratch(task) else totals.input_bytes
    disk_mb = scratch_bytes(task.needs, output, copied, is_analysis=task.is_analysis) / MB_BYTES
    wall = kind.walltime_s(task, queue, totals, cores)
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
