"""What one job may take at one queue.

Sources: JEDI, nGBPerJob and maxWalltime; PanDA brokerage, disk usage and walltime of a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from services.job_generation.policy.values import JobInput, QueueFacts
from shared.brokerage.estimates import MERGE_MIN_RAM_MB, cores_of_job, scratch_bytes, walltime_of_job_s
from shared.brokerage.smallest_job import counted_events
from shared.model.resource_types import RAM_COMPENSATION
from shared.model.units import GB_BYTES, MB_BYTES
from shared.task.in_effect import SplitRules
from shared.task.needs import WorkNeeds
from shared.task.rules import MAX_FILES_PER_JOB

MAX_FILES_IN_ALL = 1000
OUTPUT_RESERVE_BYTES = 1500 * MB_BYTES
DEFAULT_JOB_BYTES = 20 * GB_BYTES
DIRECT_INPUT_BYTES = 500_000 * MB_BYTES
DIRECT_INPUT_BYTES_OF_SCOUT = 50_000 * MB_BYTES
MAX_OUTPUT_BYTES = 10 * GB_BYTES
HOUR_S = 3600.0


class Totals(NamedTuple):
    """What a job would take: counts, bytes, events (a unit of unknown events counts as one)."""

    n_files: int = 0
    n_secondary: int = 0
    n_events: int = 0
    input_bytes: int = 0
    effective_bytes: float = 0.0


def totals_of(job: JobInput) -> Totals:
    """Counts and bytes of a job's input."""
    master = job.master
    if len(master) == 1 and not job.secondary:
        (unit,) = master
        return Totals(1, 0, counted_events(unit.events), unit.size_bytes, unit.effective_bytes)
    n_secondary = sum([len(units) for units in job.secondary.values()])
    events = sum([counted_events(unit.events) for unit in master])
    effective = sum([unit.effective_bytes for unit in master])
    return Totals(len(master), n_secondary, events, job.input_bytes, effective)


@dataclass(frozen=True)
class JobSizeLimits:
    """None means no limit. Bytes, seconds, counts.

    `job_bytes` bounds input + max(output, 1500 MB) + work directory.

    `max_walltime_s` bounds the size of a job (maxWalltime and maxtime), `queue_time_s` any job (maxtime alone).
    `least_walltime_s` is the queue's mintime for jobs of a dynamic number of events, which are made to measure for it.
    """

    max_files: int = MAX_FILES_PER_JOB
    max_files_in_all: int = MAX_FILES_IN_ALL
    max_events: int | None = None
    job_bytes: float | None = None
    scratch_bytes: float | None = None
    direct_input_bytes: float | None = None
    input_bytes: float | None = None
    output_bytes: float = MAX_OUTPUT_BYTES
    max_walltime_s: float | None = None
    queue_time_s: float | None = None
    least_walltime_s: float | None = None
    reads_directly: bool = False
    is_analysis: bool = False


def limits_at(
    needs: WorkNeeds, rules: SplitRules, queue: QueueFacts, *, scout: bool, is_analysis: bool = False
) -> JobSizeLimits:
    """The limits of a job of this task at this queue.

    nGBPerJob allows itself + 1500 MB + the work directory, otherwise the queue's maxwdir decides, otherwise 20 GB; read
    directly, input takes no scratch space and has a bound of its own.
    """
    direct = queue.reads_directly and not rules.copies_to_scratch
    scratch = float(queue.max_work_dir_mb * MB_BYTES) or None
    job_bytes: float | None = None
    if rules.n_gb_per_job is not None:
        job_bytes = rules.n_gb_per_job * GB_BYTES + OUTPUT_RESERVE_BYTES + needs.work_dir_bytes
    elif scratch is None and not direct:
        job_bytes = float(DEFAULT_JOB_BYTES)
    times = [t for t in ((rules.max_walltime_h or 0) * HOUR_S, float(queue.max_time_s)) if t > 0]
    max_files = 1 if _one_file_scouts(rules, scout) else rules.max_files
    return JobSizeLimits(
        max_files=max_files,
        max_events=rules.n_events_per_job or rules.target_events_per_job or rules.max_events_per_job,
        job_bytes=job_bytes,
        scratch_bytes=scratch,
        direct_input_bytes=(DIRECT_INPUT_BYTES_OF_SCOUT if scout else DIRECT_INPUT_BYTES) if direct else None,
        input_bytes=float(queue.max_input_size_mb * MB_BYTES) or None,
        output_bytes=float(rules.target_output_gb * GB_BYTES) if rules.target_output_gb else MAX_OUTPUT_BYTES,
        max_walltime_s=min(times) if times else None,
        queue_time_s=float(queue.max_time_s) or None,
        least_walltime_s=float(queue.min_time_s) or None if rules.granularity is not None else None,
        reads_directly=direct,
        is_analysis=is_analysis,
    )


def _one_file_scouts(rules: SplitRules, scout: bool) -> bool:
    sized = rules.n_files_per_job or rules.n_events_per_job or rules.target_events_per_job
    return scout and (not sized or rules.granularity is not None) and not rules.respects_split_rule


def ram_mb(needs: WorkNeeds, cores: int, *, is_merge: bool = False, raised_mb: int | None = None) -> int:
    """(baseRamCount + ramCount x cores) x 0.9, rounded down.

    `raised_mb` replaces ramCount after a memory failure. Example: 500 + 2000 x 8 cores give 16500 x 0.9 = 14850 MB.
    Source: PanDA brokerage, memory of a job.
    """
    count = max(needs.ram_mb, raised_mb or 0)
    total = needs.base_ram_mb + (count * cores if needs.ram_per_core else count)
    if is_merge:
        total = max(total, MERGE_MIN_RAM_MB)
    return int(total * RAM_COMPENSATION)


def memory_refusal(needs: WorkNeeds, queue: QueueFacts, raised_mb: int | None) -> str | None:
    """Why a job has too little memory in the queue's slot; None if it has enough.

    `raised_mb`: what its units ask for after they ran out of memory. What the task itself asks for may have been raised
    since the queue was ranked.
    """
    needed = ram_mb(needs, cores_of_job(needs, queue.core_count), raised_mb=raised_mb)
    if queue.max_rss_mb <= 0 or needed <= queue.max_rss_mb:
        return None
    return f"needs {needed} MB of memory, {queue.queue} has {queue.max_rss_mb}"


def _size(n_bytes: float) -> str:
    """Bytes in MB for people; in GB from ten of these on."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 10e9 else f"{n_bytes / 1e6:.0f} MB"


def refusal(totals: Totals, limits: JobSizeLimits, needs: WorkNeeds, queue: QueueFacts, *, first: bool) -> str | None:
    """Why these totals are too much for one job at this queue; None if they fit.

    `first`: the smallest possible job. Rules about the size of a job (files, events, nGBPerJob, output, maxWalltime) do
    not apply to it, because it cannot be made smaller; what the queue physically has (scratch space, maxtime) does.
    """
    output = needs.output_bytes(totals.n_events, int(totals.effective_bytes))
    if not first:
        if totals.n_files > limits.max_files:
            return f"more than {limits.max_files} files"
        if totals.n_files + totals.n_secondary > limits.max_files_in_all:
            return f"more than {limits.max_files_in_all} files in all"
        if limits.max_events is not None and totals.n_events > limits.max_events:
            return f"more than {limits.max_events} events"
        if output > limits.output_bytes:
            return f"output above {_size(limits.output_bytes)}"
        job_bytes = totals.input_bytes + max(output, OUTPUT_RESERVE_BYTES) + needs.work_dir_bytes
        if limits.job_bytes is not None and job_bytes > limits.job_bytes:
            reserved = max(output, OUTPUT_RESERVE_BYTES)
            return (
                f"input {_size(totals.input_bytes)}, output (or what is kept free for it) {_size(reserved)} and work "
                f"directory {_size(needs.work_dir_bytes)} would be above {_size(limits.job_bytes)} in all"
            )
        if limits.direct_input_bytes is not None and totals.input_bytes > limits.direct_input_bytes:
            return f"input read directly above {_size(limits.direct_input_bytes)}"
        if limits.input_bytes is not None and not limits.reads_directly and totals.input_bytes > limits.input_bytes:
            return f"input above the queue's {_size(limits.input_bytes)}"
    copied = 0 if limits.reads_directly else totals.input_bytes
    scratch = scratch_bytes(needs, output, copied, is_analysis=limits.is_analysis)
    if limits.scratch_bytes is not None and scratch > limits.scratch_bytes:
        return f"needs {scratch:.0f} bytes of scratch space, {queue.queue} has {limits.scratch_bytes:.0f}"
    allowed_s = limits.queue_time_s if first else limits.max_walltime_s
    if allowed_s is not None:
        cores = cores_of_job(needs, queue.core_count)
        expected = walltime_of_job_s(needs, totals.n_events, cores, queue.core_power_hs06)
        if expected is not None and expected > allowed_s:
            return f"would run {expected:.0f} s, at most {allowed_s:.0f} s are allowed at {queue.queue}"
    return None


def too_short(totals: Totals, limits: JobSizeLimits, needs: WorkNeeds, queue: QueueFacts) -> str | None:
    """Why a job of a dynamic number of events is too short for a queue; None if it is long enough.

    Source: PanDA, splitting: mintime is a lower limit for dynamic events; what is shorter goes to other queues.
    """
    if limits.least_walltime_s is None:
        return None
    cores = cores_of_job(needs, queue.core_count)
    expected = walltime_of_job_s(needs, totals.n_events, cores, queue.core_power_hs06)
    if expected is None or expected >= limits.least_walltime_s:
        return None
    return f"would run {expected:.0f} s, at least {limits.least_walltime_s:.0f} s are asked for at {queue.queue}"
