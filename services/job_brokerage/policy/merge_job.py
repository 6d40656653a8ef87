"""What one merge job of a chunk takes, before it is built."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shared.brokerage.smallest_job import MAX_FILES_MERGED_ON_SITE, MERGED_GB, SmallestJob
from shared.model.units import GB_BYTES
from shared.task.in_effect import SplitRules


@dataclass(frozen=True)
class Unmerged:
    """Files and bytes of one unmerged output in a chunk: each job that waits for a merge made one file."""

    n_files: int
    n_bytes: int


def merge_job(
    rules: SplitRules, outputs: Sequence[Unmerged], n_files: int, n_events: int, input_bytes: int
) -> SmallestJob:
    """What one merge job of a chunk takes: a merge job is never made smaller than its rules allow.

    It ends before the output that would break nFilesPerMergeJob, nMaxFilesPerMergeJob (50), nGBPerMergeJob (5 GB of the
    largest output) or nEventsPerMergeJob, and has one at least; onSiteMerging asks for nGBPerMergeJob only, and for at
    most 1000 files in all. `n_files`, `n_events` and `input_bytes` are the chunk's; without `outputs` all of its files
    are taken as of one output.
    """
    made = [one for one in outputs if one.n_files] or [Unmerged(max(1, n_files), input_bytes)]
    producers = max(one.n_files for one in made)
    per_job = float(producers)
    merged_bytes = float(rules.n_gb_per_merge_job or MERGED_GB) * GB_BYTES
    largest = max(one.n_bytes for one in made)
    per_job = min(per_job, merged_bytes * producers // largest if largest else per_job)
    if rules.merges_on_site:
        per_job = min(per_job, MAX_FILES_MERGED_ON_SITE * producers // max(1, n_files))
    else:
        most = rules.n_files_per_merge_job or rules.n_max_files_per_merge_job
        per_job = min(per_job, float(most))
        wanted_events = rules.n_events_per_merge_job
        if wanted_events and n_events:
            per_job = min(per_job, float(wanted_events) // max(1.0, n_events / max(1, n_files)))
    per_job = max(1.0, per_job)
    share = per_job / producers
    return SmallestJob(math.ceil(n_files * share), math.ceil(n_events * share), math.ceil(input_bytes * share))
