"""How many files are opened before the scouts are back (PanDA: Scout jobs)."""

from __future__ import annotations

from collections.abc import Sequence

from shared.task.in_effect import SplitRules

N_SCOUT_JOBS = 10


def open_for_scouts(
    rules: SplitRules, units: Sequence[int], *, split_by_events: bool, n_scouts: int = N_SCOUT_JOBS
) -> list[int]:
    """Units to be used now of each master dataset, in order, given how many units each has.

    Ten jobs' worth: nFilesPerJob files each, one unit each where files are split by events; everything with skipScout,
    or where ten jobs take everything.
    """
    if rules.skip_scout:
        return list(units)
    per_job = 1 if split_by_events else rules.n_files_per_job or 1
    left = n_scouts * per_job
    opened = []
    for count in units:
        taken = min(count, left)
        opened.append(taken)
        left -= taken
    return opened
