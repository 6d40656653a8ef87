"""Checks of analysis alone: use by the user, failures of the task, queues of users, sites of a task."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from services.job_brokerage.policy.stabilizer import max_user_queue, may_be_throttled
from shared.brokerage.analysis_facts import AnalysisFacts
from shared.brokerage.check import Check, Filter, Tier, Verdict, decides
from shared.brokerage.classes import CLASS_A, CLASS_B, CLASS_C
from shared.brokerage.filters.analysis import (
    DISK_QUOTA,
    QUEUED_CORES,
    QUEUED_JOBS,
    RUNNING_CORES,
    RUNNING_JOBS,
    SHARE_USAGE,
)
from shared.brokerage.pipeline import Exclusions
from shared.brokerage.request import JobRequest
from shared.brokerage.room import MIN_RUNNING
from shared.brokerage.usage import USER_SHARE
from shared.brokerage.world import World

CLASS_USAGE_PERCENT = {CLASS_C: 90.0, CLASS_B: 95.0}
VP_OVERLOADED = Check(607, "vp_overloaded", Tier.CAPACITY, True, "queued jobs at a VP queue", "at most", "jobs")
BAD_JOBS = Check(608, "bad_jobs", Tier.CAPACITY, True, "failed and closed jobs of the task", "less than", "jobs")
LONG_QUEUE = Check(609, "long_queue", Tier.CAPACITY, True, "queued jobs", "at most", "jobs")
USER_QUEUE = Check(610, "user_queue", Tier.CAPACITY, True, "queued jobs of the user", "at most", "jobs")
STABILIZER = Check(611, "analysis_stabilizer", Tier.CAPACITY, True, "queued jobs of the user", "at most", "jobs")
SITES_OF_TASK = Check(612, "sites_of_task", Tier.POLICY, True, "sites that the task uses", "less than", "sites")

Numbers = Callable[[AnalysisFacts], tuple[float, float]]


def _of_the_task(check: Check, numbers: Numbers, *, merging_goes_on: bool = True) -> Filter:
    """A throttle: it holds for the task, so every queue is left out or none. A limit of 0 is none.

    The document does not except merge jobs: taken is that they go on, since they free what others wait for.
    """

    def decide(world: World, request: JobRequest) -> Verdict | None:
        """All queues or none; None where the throttle does not apply or has no limit."""
        facts = request.analysis_facts(world.columns)
        if facts is None or (request.is_merge and merging_goes_on):
            return None
        found, wanted = numbers(facts)
        if wanted <= 0:
            return None
        return Verdict(np.full(len(world.columns), found <= wanted), found, wanted)

    return Filter(check, decide)


running_jobs = _of_the_task(RUNNING_JOBS, lambda f: (f.usage.running_jobs, f.limits.running_jobs_cap))
queued_jobs = _of_the_task(QUEUED_JOBS, lambda f: (f.usage.queued_jobs, 2 * f.limits.running_jobs_cap))
running_cores = _of_the_task(RUNNING_CORES, lambda f: (f.usage.running_cores, f.limits.running_cores_cap))
queued_cores = _of_the_task(QUEUED_CORES, lambda f: (f.usage.queued_cores, 2 * f.limits.running_cores_cap))
# There is no room for what merging makes either.
disk_quota = _of_the_task(
    DISK_QUOTA, lambda f: (f.disk.disk_used_gb or 0.0, f.disk.disk_quota_gb or 0.0), merging_goes_on=False
)


@decides(SHARE_USAGE)
def share_usage(world: World, request: JobRequest) -> Verdict | None:
    """User Analysis above its target: class C waits above 90 %, B above 95 %, A by its slots in hi sites.

    A user without slots in hi sites is taken to have one; while the usage is not known nobody waits.
    """
    facts = request.analysis_facts(world.columns)
    if facts is None or facts.task.gshare != USER_SHARE or np.isnan(facts.share_usage_percent) or request.is_merge:
        return None
    if facts.task_class == CLASS_A:
        wanted = 100.0 * max(facts.limits.class_a_slots / max(1, facts.slots_in_hi_sites), 1.0)
    elif facts.task_class in CLASS_USAGE_PERCENT:
        wanted = CLASS_USAGE_PERCENT[facts.task_class]
    else:
        return None
    passes = np.full(len(world.columns), facts.share_usage_percent <= wanted)
    return Verdict(passes, facts.share_usage_percent, wanted)


@decides(VP_OVERLOADED)
def virtual_placement_has_room(world: World, request: JobRequest) -> Verdict | None:
    """Leave out overloaded VP queues: too many queued jobs, in number and in ratio to the running ones.

    Overloaded is one with more than OVERLOAD_MIN_QUEUE queued jobs whose ratio of queued to running jobs is above
    OVERLOAD_RATIO_OFFSET times that of all queues together. The document says "overloaded" and gives no numbers: these
    are the field's.
    """
    facts = request.analysis_facts(world.columns)
    if facts is None or not world.columns.is_virtual_placement.any():
        return None
    queued, running = world.load.queued.astype(float), world.load.running.astype(float)
    ratio = queued.sum() / max(1.0, running.sum())
    allowed = np.maximum(
        facts.limits.overload_min_queue, ratio * facts.limits.overload_ratio_offset * np.maximum(running, 1.0)
    )
    return Verdict(~world.columns.is_virtual_placement | (queued <= allowed), queued, allowed)


@decides(BAD_JOBS)
def few_bad_jobs(world: World, request: JobRequest) -> Verdict | None:
    """Leave out queues with too many bad jobs of the task.

    nFailed + nClosed within TW_DONE_JOB_STAT hours must be less than max(2 x nFinished, MIN_BAD_JOBS_TO_SKIP_PQ).
    """
    facts = request.analysis_facts(world.columns)
    if facts is None:
        return None
    wanted = np.maximum(2 * facts.finished_of_task, facts.limits.min_bad_jobs)
    return Verdict(facts.bad_of_task < wanted, facts.bad_of_task, wanted)


@decides(LONG_QUEUE)
def short_queue(world: World, request: JobRequest) -> Verdict | None:
    """defined + activated + assigned + starting: at most 2 x max(20, running)."""
    queued = world.load.queued.astype(float)
    wanted = 2.0 * np.maximum(MIN_RUNNING, world.load.running)
    return Verdict(queued <= wanted, queued, wanted)


@decides(USER_QUEUE)
def user_has_few_queued(world: World, request: JobRequest) -> Verdict | None:
    """At most MAX_QUEUED_JOBS_PER_PQ_USER, if it is set: the document says "too many" and has no number."""
    facts = request.analysis_facts(world.columns)
    if facts is None or facts.limits.user_queued_jobs_cap <= 0:
        return None
    wanted = float(facts.limits.user_queued_jobs_cap)
    return Verdict(facts.queued_of_user <= wanted, facts.queued_of_user, wanted)


@decides(STABILIZER)
def stable(world: World, request: JobRequest) -> Verdict | None:
    """Where the queue may be throttled the user has at most max_q_len queued jobs.

    The numbers are those of the queue in the task's share, as the stabilizer's title has it ("per gshare").
    """
    facts = request.analysis_facts(world.columns)
    if facts is None:
        return None
    wanted = max_user_queue(facts)
    return Verdict(~may_be_throttled(facts) | (facts.queued_of_user <= wanted), facts.queued_of_user, wanted)


@decides(SITES_OF_TASK)
def few_sites(world: World, request: JobRequest) -> Verdict | None:
    """A task that has used MAX_SITES_OF_TASK sites goes to no others.

    "The best 10 candidates" of the document is taken for each decision; this limit for the whole task is the field's.
    """
    facts = request.analysis_facts(world.columns)
    if facts is None or facts.limits.max_sites_of_task <= 0:
        return None
    used = _sites_used(world, facts)
    if len(used) < facts.limits.max_sites_of_task:
        return None
    passes = np.isin(world.columns.site_index, sorted(used))
    return Verdict(passes, float(len(used)), float(facts.limits.max_sites_of_task))


def _sites_used(world: World, facts: AnalysisFacts) -> set[int]:
    return set(world.columns.site_index[world.columns.rows_named(sorted(facts.task.queues_used))].tolist())


def leave_out_surplus_sites(
    world: World, request: JobRequest, exclusions: Exclusions, weights: NDArray[np.float64]
) -> None:
    """Keep at most MAX_SITES_OF_TASK sites, with those the task has used; asked once weights are known.

    Used sites stay; of the others those with the best queues.
    """
    facts = request.analysis_facts(world.columns)
    if facts is None or facts.limits.max_sites_of_task <= 0:
        return
    columns, most, used = world.columns, facts.limits.max_sites_of_task, _sites_used(world, facts)
    rows = sorted(np.flatnonzero(exclusions.alive), key=lambda row: (-weights[row], columns.labels[row]))
    others = [site for site in dict.fromkeys(columns.site_index[rows].tolist()) if site not in used]
    allowed = used | set(others[: max(0, most - len(used))])
    if len(allowed) < len(used) + len(others):
        passes = np.isin(columns.site_index, sorted(allowed))
        exclusions.judge(SITES_OF_TASK, Verdict(passes, float(max(most, len(used))), float(most)))
