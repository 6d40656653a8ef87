"""What measured jobs say about the size of later ones: nGBPerJob, and the needs of merge jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from services.job_generation.scouts.reports import ScoutReport
from shared.brokerage.estimates import MERGE_MIN_RAM_MB
from shared.model.units import GB_BYTES, MB_BYTES
from shared.task.in_effect import SplitRules

DISK_RANK = 75.0
WALLTIME_MARGIN = 1.5
SHORT_MERGE_S = 3600.0
OUTPUT_RESERVE_BYTES = 1500 * MB_BYTES
FEWEST_GB, MOST_GB = 1, 100


def n_gb_per_job(rules: SplitRules, sample: Sequence[ScoutReport], work_dir_bytes: int) -> int | None:
    """nGBPerJob with which the largest output comes near tgtMaxOutputForNG.

    None where that is not asked for. The job at the 75th percentile of output is scaled until its largest output is as
    large as wanted: its output and input then, with the work directory and without the reserve of 1500 MB, in GB from 1
    to 100.

    Example: tgtMaxOutputForNG 10, a job of 2 GB of input whose only output is 1 GB: scaled by ten it has 20 GB of input
    and 10 of output, so nGBPerJob is 28. Source: JEDI, tgtMaxOutputForNG.
    """
    if rules.target_output_gb is None:
        return None
    known = sorted((one for one in sample if one.largest_output_bytes), key=lambda one: one.output_bytes or 0)
    if not known:
        return None
    typical = known[min(len(known) - 1, math.ceil(DISK_RANK / 100 * len(known)) - 1)]
    scale = rules.target_output_gb * GB_BYTES / (typical.largest_output_bytes or 1)
    total = scale * ((typical.output_bytes or 0) + typical.input_bytes) + work_dir_bytes - OUTPUT_RESERVE_BYTES
    return max(FEWEST_GB, min(MOST_GB, int(total / GB_BYTES)))


def merge_ram_mb(task: Mapping[str, Any], sample: Sequence[ScoutReport]) -> int | None:
    """The largest memory of the merge jobs in MB, at least 2000.

    None where none is known, or the task fixed it.

    Example: merge jobs of 1500 and 2600 MB give 2600; of 500 and 900 MB 2000. Source: PanDA, scout jobs.
    """
    if str(task.get("merge_ram_unit") or "").endswith("Fixed"):
        return None
    known = [one.max_pss_kb / 1024 for one in sample if one.max_pss_kb]
    return max(MERGE_MIN_RAM_MB, math.ceil(max(known))) if known else None


def merge_walltime_s(sample: Sequence[ScoutReport]) -> int | None:
    """1.5 x the longest merge job in seconds; None below an hour, because jobs that short fit every queue.

    Example: merge jobs of 1 and 2 hours give 3 hours. Source: PanDA, scout jobs.
    """
    longest = max((one.walltime_s for one in sample if one.walltime_s), default=0.0)
    return math.ceil(longest * WALLTIME_MARGIN) if longest >= SHORT_MERGE_S else None
