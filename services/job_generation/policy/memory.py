"""More memory for the next attempt of a file whose job ran out of it (JEDI: memory retry)."""

from __future__ import annotations

from shared.model.job_report import JobReport
from shared.model.needs import WorkNeeds

RAM_STEPS_MB = (1000, 2000, 3000, 4000, 6000, 8000)


def next_ram_mb(needs: WorkNeeds, report: JobReport, current_mb: int | None) -> int:
    """The first step above max(maxPSS, present request).

    It is in the task's unit (MB for each core, or for the job).

    Above the last step nothing larger is asked for. Why steps: few different requests make few kinds of jobs. Example:
    a job that asked for 2000 MB and used 2600 MB asks for 3000 MB next. Source: JEDI, memory retry.
    """
    present = max(current_mb or 0, needs.ram_mb)
    used_mb = (report.memory_kb or 0) / 1024
    if needs.ram_per_core:
        used_mb = max(0.0, used_mb - needs.base_ram_mb) / max(1, report.core_count or needs.core_count or 1)
    wanted = max(float(present), used_mb)
    for step in RAM_STEPS_MB:
        if step > wanted:
            return step
    return max(RAM_STEPS_MB[-1], present)
