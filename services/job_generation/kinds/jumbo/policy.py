"""Which queues get a jumbo job of a task, and what column USEJUMBO says.

Source: JEDI, Jumbo jobs and co-jumbo jobs.

A jumbo job takes events of all job sets of its task, as many as its queue can process; co-jumbo jobs take those of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.job_generation.policy.values import UseJumbo
from shared.config.parameter import Parameter, set_by

COMPONENT = "jumbo_dog"


@dataclass(frozen=True)
class JumboNumbers:
    """What holds where a task states no number of its own, and when jumbo jobs end."""

    n_per_task: int = set_by(
        Parameter(COMPONENT, "JUMBO_PER_TASK", 1.0, "jobs", "jumbo jobs of a task without nJumboJobs", 1, 1000), int
    )
    n_per_site: int = set_by(
        Parameter(COMPONENT, "JUMBO_PER_SITE", 1.0, "jobs", "jumbo jobs at a site, without maxJumboPerSite", 1, 1000),
        int,
    )
    unset_percent: float = set_by(
        Parameter(COMPONENT, "JUMBO_PROG_TO_DISABLE", 95.0, "%", "of the files finished: no more jumbo jobs", 0, 101),
        float,
    )


@dataclass(frozen=True)
class JumboQueue:
    """A queue with useJumboJobs that the brokerage ranked for the task.

    `n_live`: jumbo jobs of the task there. `n_in_vain`: how many ended there since the last one that processed a range.
    """

    queue: str
    site: str
    min_ranges: int = 0
    n_live: int = 0
    n_in_vain: int = 0


@dataclass(frozen=True)
class JumboWork:
    """What there is for jumbo jobs: ranges that nobody has, and whether the task had a jumbo job before."""

    n_ranges: int
    had_jumbo_job: bool = False


@dataclass(frozen=True)
class JumboPlan:
    """Queues that get a jumbo job now, the new flag of the task, and why."""

    queues: tuple[str, ...]
    use_jumbo: UseJumbo
    reason: str


def plan(
    queues: Sequence[JumboQueue], work: JumboWork, *, per_task: int, per_site: int, most_in_vain: int
) -> JumboPlan:
    """One jumbo job for each queue that has none, in their order, within the limits of task and site.

    A queue where `most_in_vain` jumbo jobs in a row processed nothing gets no more; once all are given up the task is
    disabled. A queue gets none while fewer ranges of events than it asks for (minEventsForJumbo) are without a job.

    Example: two jumbo jobs allowed, queues A and B of site s and C of site t, one for each site: A and C.
    """
    usable = [one for one in queues if one.n_in_vain < most_in_vain]
    n_live = sum(one.n_live for one in queues)
    if queues and not usable and not n_live:
        names = ", ".join(one.queue for one in queues)
        return JumboPlan((), "D", f"the last {most_in_vain} jumbo jobs at each of {names} processed nothing")
    at_site: dict[str, int] = {}
    for one in queues:
        at_site[one.site] = at_site.get(one.site, 0) + one.n_live
    chosen: list[str] = []
    for one in usable:
        has_work = work.n_ranges >= max(1, one.min_ranges)
        if n_live + len(chosen) >= per_task or one.n_live or not has_work or at_site[one.site] >= per_site:
            continue
        chosen.append(one.queue)
        at_site[one.site] += 1
    flag = _flag(n_live + len(chosen), per_task, work)
    reason = f"{n_live} of {per_task} jumbo jobs, {work.n_ranges} ranges free, {len(usable)} of {len(queues)} queues"
    return JumboPlan(tuple(chosen), flag, reason)


def is_close_to_done(n_finished: int, n_files: int, percent: float) -> bool:
    """Whether so much of the input is finished that a jumbo job would have few events.

    Example: 95 of 100 files are close, with 95 %; a task without files is not.
    """
    return n_files > 0 and 100 * n_finished >= percent * n_files


def _flag(n_jobs: int, per_task: int, work: JumboWork) -> UseJumbo:
    """R: as many as wanted; L: fewer; without any P where there is nothing to do, W before the first."""
    if n_jobs >= per_task:
        return "R"
    if n_jobs:
        return "L"
    if not work.had_jumbo_job:
        return "W"
    return "L" if work.n_ranges else "P"
