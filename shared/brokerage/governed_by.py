"""Which runtime parameters a check is governed by, so that who reads a decision knows what to set.

Parameters are COMPONENT.KEY. A value for the task's share (KEY_<gshare>) wins where there is one, and for analysis one
of `anal_jobbroker` over one of `jobbroker`. What only queues, sites or the task say is governed by none.
"""

from __future__ import annotations

from collections.abc import Mapping

GOVERNED_BY: Mapping[str, tuple[str, ...]] = {
    "link_backlog": ("jobbroker.NQUEUED_SAT_CAP",),
    "nucleus_backlog": ("jobbroker.NQUEUED_NUC_CAP_FOR_JOBS",),
    "inactive": ("jobbroker.INACTIVE_AFTER_S",),
    "missing_input_size": ("jobbroker.SIZE_CUTOFF_TO_MOVE_INPUT", "jobbroker.IO_INTENSITY_CUTOFF"),
    "missing_input_files": ("jobbroker.NUM_CUTOFF_TO_MOVE_INPUT", "jobbroker.IO_INTENSITY_CUTOFF"),
    "disk_io": ("jobbroker.MAX_DISKIO_DEFAULT",),
    "free_space": ("jobbroker.STORAGE_MIN_FREE_SIZE",),
    "pilots": ("jobbroker.NO_PILOT_AFTER_S",),
    "network_weight": ("jobbroker.NW_THRESHOLD", "jobbroker.NW_WEIGHT_MULTIPLIER"),
    "activated_and_starting": ("jobbroker.NQUEUELIMITSITE",),
    "queued": ("jobbroker.NQUEUELIMITSITE",),
    "input_locality": ("anal_jobbroker.IO_INTENSITY_CUTOFF_USER",),
    "user_running_jobs": ("prio_mgr.CAP_RUNNING_USER_JOBS", "prio_mgr.CAP_RUNNING_GROUP_JOBS"),
    "user_queued_jobs": ("prio_mgr.CAP_RUNNING_USER_JOBS", "prio_mgr.CAP_RUNNING_GROUP_JOBS"),
    "user_running_cores": ("prio_mgr.CAP_RUNNING_USER_CORES", "prio_mgr.CAP_RUNNING_GROUP_CORES"),
    "user_queued_cores": ("prio_mgr.CAP_RUNNING_USER_CORES", "prio_mgr.CAP_RUNNING_GROUP_CORES"),
    "share_usage": ("analy_eval.USER_USAGE_THRESHOLD_A", "analy_eval.USER_USAGE_THRESHOLD_B"),
    "vp_overloaded": ("anal_jobbroker.OVERLOAD_MIN_QUEUE", "anal_jobbroker.OVERLOAD_RATIO_OFFSET"),
    "bad_jobs": ("anal_jobbroker.MIN_BAD_JOBS_TO_SKIP_PQ", "anal_jobbroker.TW_DONE_JOB_STAT"),
    "user_queue": ("anal_jobbroker.MAX_QUEUED_JOBS_PER_PQ_USER",),
    "sites_of_task": ("anal_jobbroker.MAX_SITES_OF_TASK",),
    "analysis_stabilizer": (
        "anal_jobbroker.BASE_QUEUE_LENGTH_PER_PQ", "anal_jobbroker.BASE_EXPECTED_WAIT_HOUR_ON_PQ",
        "anal_jobbroker.BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER", "anal_jobbroker.BASE_QUEUE_RATIO_ON_PQ",
        "anal_jobbroker.STATIC_MAX_QUEUE_RUNNING_RATIO", "anal_jobbroker.MAX_EXPECTED_WAIT_HOUR",
    ),
    "transfer_backlog": ("taskbrokerage.NQUEUED_NUC_CAP",),
    "nucleus_space": ("taskbrokerage.DISK_THRESHOLD",),
    "input_size": (
        "taskbrokerage.INPUT_SIZE_FRACTION", "taskbrokerage.INPUT_SIZE_THRESHOLD",
        "taskbrokerage.DATA_LOCATION_CHECK_PERIOD",
    ),
    "input_files": (
        "taskbrokerage.INPUT_NUM_FRACTION", "taskbrokerage.INPUT_NUM_THRESHOLD",
        "taskbrokerage.DATA_LOCATION_CHECK_PERIOD",
    ),
}  # fmt: skip
