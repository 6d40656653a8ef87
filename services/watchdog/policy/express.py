"""Which analysis is nearly done and goes on in Express Analysis.

Source: Site and task classification, class S.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared.brokerage.classes import CLASS_S, HI, MID, TaskProgress, classify_task
from shared.brokerage.limits import AnalysisLimits

#: what its jobs are made for then
WALLTIME_H = 1


def slots_by_class(counts: Iterable[tuple[str, int]], classes: Mapping[str, int]) -> tuple[int, int]:
    """Running cores of a user, by queue, at hi and at mid sites; a site that nothing is known of is mid."""
    found = {HI: 0, MID: 0}
    for queue, n_cores in counts:
        site = classes.get(queue, MID)
        if site in found:
            found[site] += n_cores
    return found[HI], found[MID]


def nearly_done(progress: TaskProgress, slots: tuple[int, int], limits: AnalysisLimits) -> str | None:
    """Why the task is of class S, with the numbers; None: it is not.

    Of class A: 90 % of the files finished and at most 500 jobs left; of class B: 95 % and 200; of class C never.
    Example: 900 of 1000 files finished, one file in a job: "class S: 900 of 1000 files finished, 100 jobs left".
    """
    found = classify_task(
        False,
        *slots,
        progress,
        slots=(limits.class_a_slots, limits.class_b_slots),
        boost_a=(limits.progress_to_boost_a, limits.max_jobs_to_boost_a),
        boost_b=(limits.progress_to_boost_b, limits.max_jobs_to_boost_b),
    )
    if found != CLASS_S:
        return None
    return (
        f"class S: {progress.n_finished} of {progress.n_files} files finished, {progress.remaining_jobs} jobs left; "
        f"its user has {slots[0]} slots at hi and {slots[1]} at mid sites"
    )


def walltime_h(files_per_job: int | None, events_per_job: int | None, max_walltime_h: int | None) -> int | None:
    """What maxWalltime becomes; None: it stays.

    So it does where the task says how large its jobs are, or wants them as short.
    """
    is_sized = files_per_job is not None or events_per_job is not None
    return None if is_sized or (max_walltime_h is not None and max_walltime_h <= WALLTIME_H) else WALLTIME_H
