"""Reports of ended jobs as what the needs of a task are measured from.

What cannot be is as if the pilot had not said it: a negative number, a time of months, memory that no node has. One
such report would otherwise set the needs of every job of the task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.model.job_report import JobReport

#: beyond it nothing is believed: 100 days, 10 TB of memory, 1 EB moved, 1000 cores where the job was given fewer
MOST_SECONDS = 100 * 86_400.0
MOST_KB = 10 * 1024.0**3
MOST_BYTES = 1024.0**6
MOST_CORES = 1000
#: what the pilot calls the growth of memory (kB/s) and the size of the work directory (bytes)
LEAK, WORK_DIRECTORY = "leak", "workDirSize"


@dataclass(frozen=True)
class ScoutReport:
    """One succeeded job, as its pilot reported it. None where the pilot did not say.

    `output_bytes`: of all outputs, `largest_output_bytes`: of one. `leak_kb_s`: growth of the whole job's memory.
    """

    n_events: int | None
    input_bytes: int
    output_bytes: int | None
    walltime_s: float | None
    cores: int
    core_power_hs06: float
    max_pss_kb: float | None = None
    cpu_time_s: float | None = None
    disk_io_bytes: float | None = None
    work_dir_bytes: float | None = None
    leak_kb_s: float | None = None
    largest_output_bytes: int | None = None
    n_files: int = 1

    @property
    def cpu_efficiency(self) -> float | None:
        """CPU time / (cores x wall), 0..1 and above where the payload used more cores than it had."""
        if self.cpu_time_s is None or not self.walltime_s:
            return None
        return self.cpu_time_s / (max(1, self.cores) * self.walltime_s)


def scout_report(row: Mapping[str, Any], core_power_hs06: float) -> ScoutReport:
    """One succeeded job: what its pilot measured, with what it was given.

    `row`: report, n_events, n_unknown, n_bytes, n_files, core_count, start_time, end_time.
    """
    report = JobReport.from_stored(row["report"])
    sizes = [one.size_bytes for one in report.outputs if believed(one.size_bytes, MOST_BYTES) is not None]
    cores = int(believed(report.core_count, max(MOST_CORES, row["core_count"])) or row["core_count"])
    moved = (believed(report.read_bytes, MOST_BYTES) or 0) + (believed(report.written_bytes, MOST_BYTES) or 0)
    return ScoutReport(
        n_events=None if row["n_unknown"] else row["n_events"],
        input_bytes=row["n_bytes"],
        output_bytes=sum(sizes) if sizes else None,
        walltime_s=_walltime_s(row, report),
        cores=cores,
        core_power_hs06=core_power_hs06,
        max_pss_kb=believed(report.memory_kb, MOST_KB),
        cpu_time_s=believed(report.cpu_time_s, MOST_SECONDS * max(1, cores)),
        disk_io_bytes=moved or None,
        work_dir_bytes=believed(report.metric(WORK_DIRECTORY), MOST_BYTES),
        leak_kb_s=believed(report.metric(LEAK), MOST_KB),
        largest_output_bytes=max(sizes, default=None),
        n_files=row["n_files"],
    )


def believed(value: float | None, most: float) -> float | None:
    """A number above zero that can be; None for any other."""
    if value is None or not math.isfinite(value) or not 0 < value <= most:
        return None
    return value


def _walltime_s(row: Mapping[str, Any], report: JobReport) -> float | None:
    """The payload's seconds as the pilot timed them; else the time between start and end of the job."""
    if len(report.timing_s) >= 3 and report.timing_s[2] > 0:
        return believed(float(report.timing_s[2]), MOST_SECONDS)
    if row["start_time"] is None or row["end_time"] is None:
        return None
    return believed((row["end_time"] - row["start_time"]).total_seconds(), MOST_SECONDS)
