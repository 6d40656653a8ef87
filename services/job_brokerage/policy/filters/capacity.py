"""How busy a queue is, whether jobs start there, and how its links to the nucleus are."""

from __future__ import annotations

import numpy as np

from services.job_brokerage.policy.network import fresh_queued, network_weight
from shared.brokerage.check import Check, Tier, Verdict, decides
from shared.brokerage.request import HIGH_PRIORITY, JobRequest, local_data
from shared.brokerage.room import DEFAULT_TRANSFERRING_LIMIT
from shared.brokerage.weights import running_number
from shared.brokerage.world import World

TRANSFERRING = Check(300, "transferring", Tier.CAPACITY, True, "transferring jobs", "at most", "jobs")
LINK_BACKLOG = Check(301, "link_backlog", Tier.CAPACITY, True, "files queued to the nucleus", "at most", "files")
NUCLEUS_BACKLOG = Check(
    302, "nucleus_backlog", Tier.CAPACITY, True, "files queued to the nucleus from everywhere", "at most", "files"
)
INACTIVE = Check(303, "inactive", Tier.CAPACITY, True, "time since a job started", "at most", "s")
PILOTS = Check(304, "pilots", Tier.CAPACITY, True, "time since a pilot asked", "at most", "s")
DISK_IO = Check(305, "disk_io", Tier.CAPACITY, True, "disk IO of the task for each core", "at most", "kB/s")
NETWORK_WEIGHT = Check(306, "network_weight", Tier.CAPACITY, True, "network weight", "at least")
CAP_WAITING = Check(
    307, "activated_and_starting", Tier.CAPACITY, True, "activated and starting jobs", "at most", "jobs"
)
CAP_QUEUED = Check(308, "queued", Tier.CAPACITY, True, "defined, activated, assigned, starting jobs", "at most", "jobs")


@decides(TRANSFERRING)
def transferring(world: World, request: JobRequest) -> Verdict | None:
    """Transferring jobs must not exceed max(the queue's limit or 2000, 2 x running); 0 is undefined."""
    limit = np.where(world.columns.transferring_limit > 0, world.columns.transferring_limit, DEFAULT_TRANSFERRING_LIMIT)
    wanted = np.maximum(limit, 2 * world.load.running)
    found = world.load["transferring"]
    return Verdict(found <= wanted, found, wanted)


@decides(LINK_BACKLOG)
def link_is_not_saturated(world: World, request: JobRequest) -> Verdict | None:
    """At most NQUEUED_SAT_CAP files queued on the link to the nucleus.

    The document does not say which counts: taken are those of the express activity for urgent work, of production
    output otherwise, and none that is older than an hour.
    """
    if not request.nucleus:
        return None
    links = world.links_to(request.nucleus)
    found = fresh_queued(links, request.now, express=request.is_urgent)
    cap = float(request.limits.queued_files_of_link_cap)
    return Verdict(links.same_site | ~(found > cap), found, cap)


@decides(NUCLEUS_BACKLOG)
def nucleus_is_not_saturated(world: World, request: JobRequest) -> Verdict | None:
    """All queues are left out if more than NQUEUED_NUC_CAP_FOR_JOBS files wait for the nucleus.

    "All queues" is taken literally: those of the nucleus too, as all its output waits in the same line.
    """
    if not request.nucleus:
        return None
    found = world.queued_to(request.nucleus, request.now)
    cap = float(request.limits.queued_files_of_nucleus_cap)
    return Verdict(np.full(len(world.columns), not found > cap), found, cap)


def _silence_s(world: World, request: JobRequest, last_s: np.ndarray) -> np.ndarray:
    """Seconds since recorded activity; where there never was one, since activity is recorded at all (NaN: unknown)."""
    last_known = np.where(np.isnan(last_s), world.load.observing_since_s, last_s)
    return np.asarray(request.now.timestamp() - last_known, np.float64)


@decides(INACTIVE)
def active(world: World, request: JobRequest) -> Verdict | None:
    """Urgent work, scouts, merge jobs and work merged later avoid queues where jobs wait and none starts.

    Inactive: no job started in the last 2 hours although activated jobs are there. "Had been there" is taken as: are
    there now. A queue where no job ever started is silent since activity is recorded at all.
    """
    if not (request.priority >= HIGH_PRIORITY or request.is_scout or request.is_merge or request.is_pre_merged):
        return None
    silence = _silence_s(world, request, world.load.last_job_start_s)
    limit = request.limits.inactive_after_s
    return Verdict(~((silence > limit) & (world.load["activated"] > 0)), silence, limit)


@decides(PILOTS)
def has_pilots(world: World, request: JobRequest) -> Verdict | None:
    """A pilot must have asked in the last 3 hours, unless the queue has allow_no_pilot.

    In a system where no pilot was ever seen nothing is known of any queue, and until 3 hours after the first sign of
    life nothing is known of queues without one: both pass, so that an empty system can begin.
    """
    last = world.load.last_pilot_s
    if np.isnan(last).all():
        return None
    limit = request.limits.no_pilot_after_s
    silence = _silence_s(world, request, last)
    unknown = np.isnan(silence)
    never = np.isnan(last) & unknown
    return Verdict(((silence <= limit) & ~never) | world.columns.needs_no_pilot, silence, limit)


@decides(DISK_IO)
def disk_io(world: World, request: JobRequest) -> Verdict | None:
    """Work above a queue's disk IO per core is left out while its running jobs use more than that.

    The limit is the queue's maxDiskIO, else MAX_DISKIO_DEFAULT. A queue of which no mean is known passes. The document
    compares the task's diskIO as it is: taken is its part for each core of the slot, as the limit is for a core.
    """
    if request.needs.disk_io_kb_s <= 0:
        return None
    columns = world.columns
    limit = np.where(columns.max_disk_io_kb_s > 0, columns.max_disk_io_kb_s, request.limits.max_disk_io_kb_s)
    found = request.needs.disk_io_kb_s / np.maximum(1, columns.core_count)
    return Verdict(~((found > limit) & (world.load.disk_io_kb_s > limit)), found, limit)


@decides(NETWORK_WEIGHT)
def near_enough(world: World, request: JobRequest) -> Verdict | None:
    """Urgent work needs a network weight of at least NW_THRESHOLD x NW_WEIGHT_MULTIPLIER.

    The document does not except merge jobs: taken is that they stay where their files are.
    """
    if not request.is_urgent or request.is_merge:
        return None
    network = network_weight(world, request)
    if network is None:
        return None
    wanted = request.limits.network_threshold * request.limits.network_weight_multiplier
    return Verdict(network.weight >= wanted, network.weight, wanted)


def _cap(world: World, request: JobRequest) -> np.ndarray:
    """2 x running, but at least NQUEUELIMITSITE_<gshare>: otherwise an empty queue could never begin.

    "Running" is taken as in the weight: the largest of running jobs, workers and slots.
    """
    return np.maximum(float(request.limits.queued_jobs_floor), 2 * running_number(world))


@decides(CAP_WAITING)
def not_too_many_waiting(world: World, request: JobRequest) -> Verdict | None:
    """activated + starting must not exceed 2 x running."""
    found = world.load["activated"] + world.load["starting"]
    wanted = _cap(world, request)
    return Verdict(found <= wanted, found, wanted)


@decides(CAP_QUEUED)
def not_too_many_queued(world: World, request: JobRequest) -> Verdict | None:
    """defined + activated + assigned + starting must not exceed 2 x running.

    Assigned jobs are not counted where the input is at hand: they wait for data that this work does not need.
    """
    local = local_data(world.columns, request).missing_files <= 0
    found = world.load.queued - np.where(local, world.load["assigned"], 0)
    wanted = _cap(world, request)
    return Verdict(found <= wanted, found, wanted)
