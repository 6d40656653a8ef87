"""What one job would need at each row (PanDA brokerage: memory, disk usage and walltime of a job).

Shared by both brokerages, by job generation (what fits a queue) and by the check at submission.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shared.model.resource_types import RAM_COMPENSATION
from shared.model.units import GB_BYTES, MB_BYTES
from shared.task.needs import WorkNeeds

# Output of production is never expected to be smaller than this: logs and the like are always there.
MIN_OUTPUT_BYTES = GB_BYTES // 2
# Merge jobs read whole files into memory whatever their task says.
MERGE_MIN_RAM_MB = 2000
# A queue that does not state its core power counts as this.
DEFAULT_CORE_POWER_HS06 = 10.0
DAY_S = 24 * 3600

Real = NDArray[np.float64]


def cores_used(needs: WorkNeeds, queue_cores: NDArray[np.int64], *, is_merge: bool = False) -> NDArray[np.int64]:
    """Cores of a job at each row: those of the slot; where a queue leaves it open, those of the task.

    A merge job has the number that its task states for merge jobs, the slot's where that is 0. Source: JEDI,
    MERGECORECOUNT: "Set 0 if it can vary".
    """
    if is_merge and needs.core_count:
        return np.full_like(queue_cores, needs.core_count)
    return np.where(queue_cores > 0, queue_cores, max(1, needs.core_count))


def ram_mb(needs: WorkNeeds, cores: NDArray[np.int64], *, is_merge: bool = False) -> Real:
    """(baseRamCount + ramCount x cores) x 0.9, rounded down; without x cores if the unit is not per core.

    MB. Why 0.9: a request that is slightly above a queue's memory still fits. Example: 500 + 2000 x 8 cores give
    16500 x 0.9 = 14850 MB. Source: PanDA brokerage, memory of a job.
    """
    total = needs.base_ram_mb + (needs.ram_mb * cores if needs.ram_per_core else needs.ram_mb + 0 * cores)
    if is_merge:
        total = np.maximum(total, MERGE_MIN_RAM_MB)
    return np.floor(total * RAM_COMPENSATION).astype(np.float64)


def cores_of_job(needs: WorkNeeds, slot_cores: int, *, is_merge: bool = False) -> int:
    """Cores of a job in one slot: see `cores_used`."""
    if is_merge and needs.core_count:
        return needs.core_count
    return slot_cores if slot_cores > 0 else max(1, needs.core_count)


def scratch_bytes(needs: WorkNeeds, output_bytes: float, copied_bytes: float, *, is_analysis: bool = False) -> float:
    """input that is copied + max(0.5 GB, output) + work directory.

    The output of analysis is taken as it is stated: its formula has no least output.
    """
    return copied_bytes + max(0 if is_analysis else MIN_OUTPUT_BYTES, output_bytes) + needs.work_dir_bytes


def disk_mb(
    needs: WorkNeeds, n_events: int, input_bytes: int, reads_directly: NDArray[np.bool_], *, is_analysis: bool = False
) -> Real:
    """`scratch_bytes` at each row, MB; input counts zero where it is read from the local storage."""
    output = needs.output_bytes(n_events, input_bytes)
    copying, reading = (
        scratch_bytes(needs, output, copied, is_analysis=is_analysis) / MB_BYTES for copied in (float(input_bytes), 0.0)
    )
    return np.where(reads_directly, reading, copying)


def work_of(needs: WorkNeeds, n_events: int) -> float | None:
    """cpuTime x nEvents / cpuEfficiency, HS06 seconds; None while the CPU time is not known.

    Efficiency 0 switches the scaling off: there is no work, the base time is all there is. Why divide: a job that uses
    its CPU half the time takes twice as long. Example: 10 HS06 s x 1000 events / 0.5 = 20000 HS06 s.
    Source: PanDA brokerage, walltime of a job.
    """
    if needs.cpu_efficiency == 0:
        return 0.0
    if needs.cpu_time_hs06_s_per_event is None:
        return None
    return needs.cpu_time_hs06_s_per_event * max(1, n_events) / needs.cpu_efficiency


def walltime_s(needs: WorkNeeds, n_events: int, cores: NDArray[np.int64], core_power_hs06: Real) -> Real:
    """Walltime of a job at each row, seconds; NaN while the CPU time is not known.

    It is cpuTime x nEvents / (C x P x cpuEfficiency) + baseTime.

    A queue that does not state its core power has 10 HS06. Why baseTime: set-up and stage-in take their time however
    fast the cores are. Example: 20000 HS06 s on 2 cores of 10 HS06 and a baseTime of 60 s take 1060 s.
    Source: PanDA brokerage, walltime of a job.
    """
    work = work_of(needs, n_events)
    if work is None:
        return np.full(len(cores), np.nan)
    power = np.where(core_power_hs06 > 0, core_power_hs06, DEFAULT_CORE_POWER_HS06)
    return np.asarray(work / (cores * power) + needs.base_walltime_s, np.float64)


def walltime_of_job_s(needs: WorkNeeds, n_events: int, cores: int, core_power_hs06: float) -> float | None:
    """`walltime_s` of one job in one slot; None while the CPU time is not known."""
    work = work_of(needs, n_events)
    if work is None:
        return None
    power = core_power_hs06 if core_power_hs06 > 0 else DEFAULT_CORE_POWER_HS06
    return work / (max(1, cores) * power) + needs.base_walltime_s
