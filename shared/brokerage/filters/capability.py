"""Checks of a queue's properties: cores, memory, disk, direct access, time, network, events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shared.brokerage import estimates
from shared.brokerage.check import YES_NO, Check, Tier, Verdict, decides
from shared.brokerage.columns import CONNECTIVITIES, IP_STACKS, JOBSEEDS
from shared.brokerage.request import HIGH_PRIORITY, JobRequest
from shared.brokerage.world import World
from shared.model.queue import Connectivity

CORE_COUNT = Check(100, "core_count", Tier.CONFIGURATION, False, "cores of a slot", "cores of a job", "cores")
MAX_CORE_COUNT = Check(101, "max_core_count", Tier.CONFIGURATION, False, "cores of a slot", "at most", "cores")
MEMORY_HIGH = Check(102, "memory_too_large", Tier.CONFIGURATION, False, "memory of a job", "maxrss of the queue", "MB")
MEMORY_LOW = Check(103, "memory_too_small", Tier.CONFIGURATION, False, "memory of a job", "minrss of the queue", "MB")
SCRATCH_DISK = Check(
    104, "scratch_disk", Tier.CONFIGURATION, False, "disk of a job", "less than maxwdir of a slot", "MB"
)
WALLTIME_LONG = Check(105, "walltime_too_long", Tier.CONFIGURATION, False, "walltime of a job", "maxtime", "s")
WALLTIME_SHORT = Check(106, "walltime_too_short", Tier.CONFIGURATION, False, "walltime of a job", "mintime", "s")
WALLTIME_DAY = Check(107, "walltime_of_a_day", Tier.CONFIGURATION, False, "maxtime of the queue", "at least", "s")
CONNECTIVITY = Check(
    108,
    "connectivity",
    Tier.CONFIGURATION,
    False,
    "network of the queue",
    "network needed",
    words=tuple(str(one) for one in CONNECTIVITIES),
)
IP_STACK = Check(
    109, "ip_stack", Tier.CONFIGURATION, False, "IP stack of the queue", "needed", words=("unset", *IP_STACKS[1:])
)
DIRECT_ACCESS = Check(
    114, "direct_access", Tier.CONFIGURATION, False, "direct access to local storage", "must be", words=YES_NO
)
# What queues have, and what work may use.
_SEED_WORDS = (*JOBSEEDS, "std or all", "es or all", "es, eshigh or all")
EVENT_SERVICE = Check(
    115, "event_service", Tier.CONFIGURATION, False, "jobseed of the queue", "must be", words=_SEED_WORDS
)
DYNAMIC_EVENTS = Check(
    116, "dynamic_number_of_events", Tier.CONFIGURATION, False, "mintime of the queue", "more than", "s"
)
JUMBO = Check(117, "jumbo", Tier.CONFIGURATION, False, "useJumboJobs of the queue", "must be", words=YES_NO)
_STD, _ES, _ESHIGH, _ALL, _STD_OR_ALL, _ES_OR_ALL, _ANY_ES_OR_ALL = range(len(_SEED_WORDS))


@decides(JUMBO)
def no_jumbo_queue(world: World, request: JobRequest) -> Verdict | None:
    """Queues with useJumboJobs are for tasks with jumbo jobs only, also where a task names them.

    The document has "Settings for event service" and no rule for jumbo jobs: the field's is taken.
    """
    if request.uses_jumbo:
        return None
    found = world.columns.runs_jumbo_jobs
    return Verdict(~found, found, 0.0)


@decides(CORE_COUNT)
def core_count(world: World, request: JobRequest) -> Verdict | None:
    """Several cores need a queue of several, one core needs one; 0 takes any.

    Exception: urgent work and scouts with 0 need a queue of several.

    Merge jobs have their own number (mergeCoreCount), and 0 takes any queue whatever their priority. A queue with -1
    leaves the number of cores to the task, as far as the resource type of the row allows. The document asks that cores
    match and does not say how: taken is that several cores fit any slot of several, as in the field.
    """
    columns, wanted = world.columns, request.needs.core_count
    found, several = columns.core_count, columns.has_several_cores
    if wanted == 0:
        if request.is_merge or (request.priority < 900 and not request.is_scout):
            return None
        return Verdict(several, found, 2.0)
    passes = several if wanted > 1 else found <= 1
    if columns.open_rows:
        passes = passes.copy()
        for row, part in columns.parts_for(wanted).items():
            passes[row] = part is not None
    return Verdict(passes, found, float(wanted))


@decides(MAX_CORE_COUNT)
def max_core_count(world: World, request: JobRequest) -> Verdict | None:
    """A task may limit the cores that it can use.

    The document names maxCoreCount and no rule: taken as the most cores that a slot may have; a queue that leaves the
    number to the task passes.
    """
    limit = request.needs.max_core_count
    if not limit:
        return None
    found = world.columns.core_count
    return Verdict(found <= limit, found, float(limit))


def cores_of_jobs(world: World, request: JobRequest) -> NDArray[np.int64]:
    """Cores of a job at each row.

    Where the task decides the cores of a slot (corecount -1) and takes any number, they are the fewest of the row's
    resource type, for which job generation makes the job.

    The document multiplies ramCount by coreCount "for each queue" and does not say which that is where neither queue
    nor task has a number ("Set 0 if it can vary"): taken is that of the smallest slot.
    """
    columns = world.columns

    def compute() -> NDArray[np.int64]:
        slots = columns.core_count
        if columns.open_rows:
            slots = slots.copy()
            for row, part in columns.parts_for(request.needs.core_count).items():
                slots[row] = slots[row] if part is None else part.core_count
        return estimates.cores_used(request.needs, slots, is_merge=request.is_merge)

    return request.once("cores_of_jobs", columns, compute)


def _ram_mb(world: World, request: JobRequest) -> NDArray[np.float64]:
    return request.once(
        "ram_mb",
        world.columns,
        lambda: estimates.ram_mb(request.needs, cores_of_jobs(world, request), is_merge=request.is_merge),
    )


def _rss_mb(world: World, request: JobRequest) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """minrss and maxrss of a slot; where the task decides its cores, those of a slot for this task."""
    columns = world.columns
    if not columns.open_rows:
        return columns.min_rss_mb, columns.max_rss_mb

    def compute() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lowest, highest = columns.min_rss_mb.copy(), columns.max_rss_mb.copy()
        for row, part in columns.parts_for(request.needs.core_count).items():
            if part is not None:
                lowest[row], highest[row] = part.min_rss_mb, part.max_rss_mb
        return lowest, highest

    return request.once("rss_mb", columns, compute)


@decides(MEMORY_HIGH)
def memory_at_most(world: World, request: JobRequest) -> Verdict | None:
    """The memory of a job must not be above the queue's maximum; a queue with 0 has none.

    The document has memory "per core" and the memory of a whole job: taken is that minrss and maxrss are a slot's,
    unless the queue says per_core_attr, and that both limits are within the range.
    """
    needed, (_, highest) = _ram_mb(world, request), _rss_mb(world, request)
    return Verdict((highest == 0) | (needed <= highest), needed, highest)


@decides(MEMORY_LOW)
def memory_at_least(world: World, request: JobRequest) -> Verdict | None:
    """Work below a queue's minimum memory is left out: high-memory queues are kept for work that needs it."""
    needed, (lowest, _) = _ram_mb(world, request), _rss_mb(world, request)
    return Verdict(needed >= lowest, needed, lowest)


@decides(SCRATCH_DISK)
def scratch_disk(world: World, request: JobRequest) -> Verdict | None:
    """The slot's part of maxwdir must exceed input (unless read directly), output and work directory.

    The document divides maxwdir by the queue's cores: taken is the part of a job's cores in the slot. 0 is no limit.
    """
    columns, job = world.columns, request.job
    reads_directly = columns.direct_access & (not request.copies_to_scratch)
    needed = estimates.disk_mb(
        request.needs, job.n_events, job.input_bytes, reads_directly, is_analysis=request.is_analysis
    )
    return Verdict((columns.work_dir_mb == 0) | (needed < columns.work_dir_mb), needed, columns.work_dir_mb)


def _has_unknown_length(request: JobRequest) -> bool:
    """No CPU time is known, and it matters: with cpuEfficiency 0 the base walltime is all there is."""
    return request.needs.cpu_time_hs06_s_per_event is None and request.needs.cpu_efficiency > 0


@decides(WALLTIME_DAY)
def a_day_for_scouts_and_merging(world: World, request: JobRequest) -> Verdict | None:
    """Scouts, merge jobs and work of unknown length need a queue that allows 24 hours.

    The document asks it of scout and merge jobs: taken for work whose CPU time is not known too, because its walltime
    cannot be estimated. Analysis is not asked: its list of checks does not have this one.
    """
    if request.is_analysis or not (request.is_scout or request.is_merge or _has_unknown_length(request)):
        return None
    limit = world.columns.max_time_s
    return Verdict((limit == 0) | (limit >= estimates.DAY_S), limit, float(estimates.DAY_S))


def _walltime(world: World, request: JobRequest, n_events: int) -> NDArray[np.float64]:
    columns = world.columns

    def compute() -> NDArray[np.float64]:
        cores = cores_of_jobs(world, request)
        return estimates.walltime_s(request.needs, n_events, cores, columns.core_power_hs06)

    return request.once(f"walltime_s of {n_events}", columns, compute)


@decides(WALLTIME_LONG)
def walltime_at_most(world: World, request: JobRequest) -> Verdict | None:
    """The estimated walltime must not exceed maxtime.

    Merge jobs and jobs of unknown length are judged by `a_day_for_scouts_and_merging`.

    "Between mintime and maxtime" is taken with both ends included; a maxtime of 0 is no limit.
    """
    if request.is_merge or _has_unknown_length(request):
        return None
    needed, limit = _walltime(world, request, request.job.n_events), world.columns.max_time_s
    return Verdict((limit == 0) | (needed <= limit), needed, limit)


@decides(WALLTIME_SHORT)
def walltime_at_least(world: World, request: JobRequest) -> Verdict | None:
    """The estimated walltime must reach mintime; for a dynamic number of events that of the largest job."""
    if request.is_merge or _has_unknown_length(request):
        return None
    needed = _walltime(world, request, max(request.job.n_events, request.most_events))
    limit = world.columns.min_time_s
    return Verdict(needed >= limit, needed, limit)


@decides(CONNECTIVITY)
def connectivity(world: World, request: JobRequest) -> Verdict | None:
    """full takes anything, http takes http and none, none takes none; unstated needs run anywhere."""
    if not request.needs.connectivity:
        return None
    known = tuple(str(one) for one in CONNECTIVITIES)
    # An unknown word is treated as the strictest demand: it is refused at submission, and never a crash here.
    wanted = (
        known.index(request.needs.connectivity)
        if request.needs.connectivity in known
        else known.index(Connectivity.FULL)
    )
    found = world.columns.connectivity
    return Verdict(found <= wanted, found, float(wanted))


@decides(IP_STACK)
def ip_stack(world: World, request: JobRequest) -> Verdict | None:
    """A queue with a stated IP stack takes tasks with the same; unset takes tasks that state none.

    The document does not say where else tasks that state none may run: taken is anywhere.
    """
    if not request.needs.ip_stack:
        return None
    wanted = IP_STACKS.index(request.needs.ip_stack) if request.needs.ip_stack in IP_STACKS else -1
    found = world.columns.ip_stack
    return Verdict(found == wanted, found, float(wanted))


@decides(DIRECT_ACCESS)
def direct_access(world: World, request: JobRequest) -> Verdict | None:
    """A task that only reads directly needs queues that read from the local storage."""
    if not request.direct_access_only:
        return None
    found = world.columns.direct_access
    return Verdict(found, found, 1.0)


@decides(EVENT_SERVICE)
def event_service(world: World, request: JobRequest) -> Verdict | None:
    """Compares event service with jobseed.

    std takes no event service, es nothing else, eshigh only that of priority 800 and more and of scouts.

    The document has "Settings for event service" and no rule: taken is the field's jobseed.
    """
    seed = world.columns.jobseed
    if not request.is_event_service:
        return Verdict(world.columns.takes_plain_jobs, seed, float(_STD_OR_ALL))
    high = request.priority >= HIGH_PRIORITY or request.is_scout
    passes = (seed == _ES) | (seed == _ALL) | ((seed == _ESHIGH) & high)
    return Verdict(passes, seed, float(_ANY_ES_OR_ALL if high else _ES_OR_ALL))


@decides(DYNAMIC_EVENTS)
def dynamic_number_of_events(world: World, request: JobRequest) -> Verdict | None:
    """Work whose number of events is dynamic (`dynamicNumEvents`) goes only to queues with a mintime.

    The document names the setting and no rule. Read here: such a task (minGranularity, or nEventsPerRange) is cut into
    ranges of so many events, and each job takes as many of them as the queue's maxtime and maxEventsPerJob allow. A job
    is thus made to measure for its queue, which a queue without mintime does not ask for. The smallest job, one range,
    must fit below maxtime, and the largest that the task allows must reach mintime.
    """
    if not request.dynamic_number_of_events:
        return None
    found = world.columns.min_time_s
    return Verdict(found > 0, found, 0.0)
