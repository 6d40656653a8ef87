"""What has to happen before a check that left a queue or nucleus out can decide otherwise.

The idea is that of kube-scheduler's queueing hints: who waits is looked at again when something happened that lifts a
check that held it, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Lift(StrEnum):
    """One kind of thing that happens; the value is what explanations say."""

    QUEUE = "statistics of the queue"
    LINK = "a link"
    STORAGE = "a storage"
    GRID = "the grid"
    PARAMETER = "a runtime parameter"
    ADVERTISEMENT = "an advertisement"
    SHARE = "usage of the share"
    USER = "usage of the user or group"
    REPLICA = "a replica of the input"
    NUCLEUS = "work of the nucleus"
    TIME = "time"
    NOTHING = "nothing"


_GRID, _QUEUE, _NOTHING = (Lift.GRID,), (Lift.QUEUE, Lift.PARAMETER), (Lift.NOTHING,)
_LINK, _STORAGE, _USER = (Lift.LINK, Lift.PARAMETER), (Lift.STORAGE, Lift.GRID), (Lift.USER, Lift.PARAMETER)

# By the name of the check. What the task says cannot change while it waits; after a command it is brokered again.
LIFTED_BY: Mapping[str, tuple[Lift, ...]] = {
    # which queues are asked at all
    "preassigned": _NOTHING,
    "included_sites": _NOTHING,
    "excluded_sites": _NOTHING,
    "test_queue": _NOTHING,
    "queue_type": _GRID,
    "status": (Lift.GRID, Lift.QUEUE),  # standby counts where slots are set
    # what a queue is made of
    "jumbo": _GRID,
    "core_count": _GRID,
    "max_core_count": _GRID,
    "memory_too_large": _GRID,
    "memory_too_small": _GRID,
    "scratch_disk": _GRID,
    "walltime_too_long": _GRID,
    "walltime_too_short": _GRID,
    "walltime_of_a_day": _GRID,
    "connectivity": _GRID,
    "ip_stack": _GRID,
    "cpu_hardware": _GRID,
    "gpu_hardware": _GRID,
    "container": _GRID,
    "release": _GRID,
    "direct_access": _GRID,
    "event_service": _GRID,
    "dynamic_number_of_events": _GRID,
    # data
    "input_locality": (Lift.REPLICA, Lift.GRID, Lift.PARAMETER),
    "free_space": (Lift.STORAGE, Lift.GRID, Lift.PARAMETER),
    "write_storage": _STORAGE,
    "read_storage": _STORAGE,
    "input_storage": _STORAGE,
    "blocked_link": (Lift.LINK,),
    "missing_input_size": (Lift.REPLICA, Lift.GRID, Lift.PARAMETER),  # off where no queue could take the work
    "missing_input_files": (Lift.REPLICA, Lift.GRID, Lift.PARAMETER),
    "output_storage": _GRID,
    # how busy a queue is
    "transferring": _QUEUE,
    "link_backlog": (Lift.LINK, Lift.PARAMETER, Lift.TIME),
    "nucleus_backlog": (Lift.LINK, Lift.PARAMETER, Lift.TIME),
    "inactive": _QUEUE,
    "pilots": _QUEUE,
    "disk_io": _QUEUE,
    "network_weight": _LINK,
    "activated_and_starting": _QUEUE,
    "queued": _QUEUE,
    # rules
    "nucleus_only": _GRID,
    "t1_weight": _GRID,
    "full_chain": _GRID,
    "zero_share": _GRID,
    # nuclei
    "nucleus_active": _GRID,
    "transfer_backlog": (Lift.LINK, Lift.PARAMETER, Lift.TIME),
    "nucleus_storage": _GRID,
    "nucleus_storage_works": _STORAGE,
    "nucleus_space": (Lift.STORAGE, Lift.NUCLEUS, Lift.PARAMETER),
    "able_queue": _GRID,
    "input_size": (Lift.REPLICA, Lift.PARAMETER),
    "input_files": (Lift.REPLICA, Lift.PARAMETER),
    "parent_nucleus": _NOTHING,
    # analysis
    "user_running_jobs": _USER,
    "user_queued_jobs": _USER,
    "user_running_cores": _USER,
    "user_queued_cores": _USER,
    "disk_quota": (Lift.USER,),
    "share_usage": (Lift.SHARE, Lift.PARAMETER),
    "avoid_vp": _GRID,
    "vp_overloaded": _QUEUE,
    "bad_jobs": (Lift.QUEUE, Lift.TIME, Lift.PARAMETER),
    "long_queue": (Lift.QUEUE,),
    "user_queue": _QUEUE,
    "analysis_stabilizer": _QUEUE,
    "sites_of_task": (Lift.PARAMETER,),
    # advertisements of sites
    "station": (Lift.ADVERTISEMENT,),
    "advertisement": (Lift.ADVERTISEMENT, Lift.TIME),
    "station_drawn": (Lift.ADVERTISEMENT,),
    "advertised_submitting": (Lift.ADVERTISEMENT, Lift.TIME),
    "requirements": (Lift.ADVERTISEMENT, Lift.TIME),
    "advertisement_readable": (Lift.ADVERTISEMENT, Lift.TIME),
}
