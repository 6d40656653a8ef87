"""Every runtime parameter that a service reads, by the field's name where it has one; a test compares both."""

from __future__ import annotations

from shared.config.known import SERVER, KnownParameter

P = KnownParameter
SHARE, LABEL = ("<gshare>",), ("<label>",)
OF_THROTTLE = ("<gshare>", "<gshare>_<resource type>", "<gshare>_MCORE*", "<gshare>_SCORE*")

TASK_BROKERAGE = (
    P("taskbrokerage", "DISK_THRESHOLD", "float", 5.0, "TB", "space that a nucleus must have left", suffixes=SHARE),
    P("taskbrokerage", "INPUT_SIZE_THRESHOLD", "float", 1.0, "GB", "input above this should be at the nucleus"),
    P("taskbrokerage", "INPUT_SIZE_FRACTION", "float", 10.0, "%", "least part of the bytes there", most=100),
    P("taskbrokerage", "INPUT_NUM_THRESHOLD", "float", 100.0, "files", "input above this should be at the nucleus"),
    P("taskbrokerage", "INPUT_NUM_FRACTION", "float", 10.0, "%", "least part of the files there", most=100),
    P("taskbrokerage", "MIN_IO_INTENSITY_WITH_LOCAL_DATA", "float", 200.0, "kB/s", "above: data must be local"),
    P("taskbrokerage", "MIN_INPUT_SIZE_WITH_LOCAL_DATA", "float", 10_000.0, "GB", "above: data must be local"),
    P("taskbrokerage", "MAX_TASK_PRIO_WITH_LOCAL_DATA", "float", 800.0, "priority", "from here locality is waived"),
    P(
        "taskbrokerage",
        "DATA_LOCATION_CHECK_PERIOD",
        "float",
        7.0,
        "days",
        "assigning for longer: data may be anywhere",
    ),
    P("taskbrokerage", "NQUEUED_NUC_CAP", "float", 2000.0, "files", "more on the way to a nucleus: it is left out"),
    P("taskbrokerage", "RETRY_S", "float", 1800.0, "s", "until a task without a nucleus is looked at again", 1),
)


def _brokerage(component: str) -> tuple[KnownParameter, ...]:
    """What `jobbroker` sets for all jobs, and `anal_jobbroker` for analysis only."""
    return (
        P(component, "NQUEUED_SAT_CAP", "float", 300.0, "files", "more on a link: its queues are left out", 1),
        P(component, "NQUEUED_NUC_CAP_FOR_JOBS", "float", 10_000.0, "files", "the same for all links to a nucleus"),
        P(component, "IO_INTENSITY_CUTOFF", "float", 200.0, "kB/s", "above: moving input is restricted"),
        P(component, "SIZE_CUTOFF_TO_MOVE_INPUT", "float", 10.0, "GB", "most bytes that may then be missing"),
        P(component, "NUM_CUTOFF_TO_MOVE_INPUT", "float", 100.0, "files", "most files that may then be missing"),
        P(component, "MAX_DISKIO_DEFAULT", "float", 1e10, "kB/s per core", "disk IO of queues without maxdiskio"),
        P(component, "NW_THRESHOLD", "float", 1.7, "", "least network weight for urgent work"),
        P(component, "NW_WEIGHT_MULTIPLIER", "float", 1.0, "", "factor of the network weight of urgent work"),
        P(component, "NW_QUEUE_IMPORTANCE", "float", 0.5, "", "part of waiting files in the network weight", most=1),
        P(component, "NQUEUELIMITSITE", "float", 20.0, "jobs", "least cap of queued jobs at a queue", suffixes=SHARE),
        P(component, "CLOUD_WEIGHT", "float", 4.0, "", "t1Weight of a cloud's nuclei", suffixes=("<cloud>",)),
        P(component, "INACTIVE_AFTER_S", "float", 7200.0, "s", "without a start a queue is inactive"),
        P(component, "NO_PILOT_AFTER_S", "float", 10_800.0, "s", "without a pilot a queue is left out"),
        P(component, "MERGE_PREASSIGNMENT_S", "float", 86_400.0, "s", "merge jobs wait for their queue"),
        P(component, "STORAGE_MIN_FREE_SIZE", "float", 200.0, "GB", "space that the output's storage must have"),
        P(component, "IO_INTENSITY_CUTOFF_USER", "float", 0.0, "kB/s", "up to here analysis may ignore locality"),
        P(component, "MAX_CANDIDATES", "float", 10.0, "queues", "best queues of a decision", 1),
        P(component, "RETRY_PRODUCTION_S", "float", 3600.0, "s", "until production without a queue is tried again", 1),
        P(component, "RETRY_ANALYSIS_S", "float", 1200.0, "s", "until analysis without a queue is tried again", 1),
    )


ANALYSIS_BROKERAGE = (
    P("anal_jobbroker", "TW_DONE_JOB_STAT", "float", 6.0, "h", "window of failed and closed jobs"),
    P("anal_jobbroker", "MIN_BAD_JOBS_TO_SKIP_PQ", "float", 5.0, "jobs", "failed and closed ones that count"),
    P("anal_jobbroker", "BASE_QUEUE_LENGTH_PER_PQ", "float", 100.0, "jobs", "Analysis Stabilizer: a short queue"),
    P("anal_jobbroker", "BASE_EXPECTED_WAIT_HOUR_ON_PQ", "float", 8.0, "h", "Analysis Stabilizer: a short wait"),
    P(
        "anal_jobbroker",
        "BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER",
        "float",
        5.0,
        "jobs",
        "Analysis Stabilizer: of a user",
    ),
    P("anal_jobbroker", "BASE_QUEUE_RATIO_ON_PQ", "float", 0.05, "", "Analysis Stabilizer: part of a user"),
    P("anal_jobbroker", "STATIC_MAX_QUEUE_RUNNING_RATIO", "float", 2.0, "", "Analysis Stabilizer: queued to running"),
    P("anal_jobbroker", "MAX_EXPECTED_WAIT_HOUR", "float", 12.0, "h", "Analysis Stabilizer: longest wait"),
    P("anal_jobbroker", "OVERLOAD_MIN_QUEUE", "float", 20.0, "jobs", "fewer queued ones are no overload"),
    P("anal_jobbroker", "OVERLOAD_RATIO_OFFSET", "float", 1.2, "", "queued to running from which it is one"),
    P("anal_jobbroker", "MAX_QUEUED_JOBS_PER_PQ_USER", "float", 0.0, "jobs", "of a user at a queue; 0: no cap"),
    P("anal_jobbroker", "MAX_SITES_OF_TASK", "float", 10.0, "sites", "that one task may use; 0: no cap"),
    P("anal_jobbroker", "USE_NEW_BASIC_WEIGHT", "bool", False, "", "the new basic weight instead of the original"),
    P("prio_mgr", "CAP_RUNNING_USER_JOBS", "float", 0.0, "jobs", "running ones of a user; 0: no cap", app=SERVER),
    P("prio_mgr", "CAP_RUNNING_USER_CORES", "float", 0.0, "cores", "running ones of a user; 0: no cap", app=SERVER),
    P("prio_mgr", "CAP_RUNNING_GROUP_JOBS", "float", 0.0, "jobs", "running ones of a group; 0: no cap", app=SERVER),
    P("prio_mgr", "CAP_RUNNING_GROUP_CORES", "float", 0.0, "cores", "running ones of a group; 0: no cap", app=SERVER),
    P("analy_eval", "USER_USAGE_THRESHOLD_A", "float", 1000.0, "slots", "most slots of class A", app=SERVER),
    P("analy_eval", "USER_USAGE_THRESHOLD_B", "float", 8000.0, "slots", "most slots of class B", app=SERVER),
    P("analy_eval", "PROGRESS_TO_BOOST_A", "float", 90.0, "%", "progress from which A becomes S", most=100, app=SERVER),
    P("analy_eval", "PROGRESS_TO_BOOST_B", "float", 95.0, "%", "progress from which B becomes S", most=100, app=SERVER),
    P("analy_eval", "MAX_REM_JOBS_TO_BOOST_A", "float", 500.0, "jobs", "most remaining ones for that", app=SERVER),
    P("analy_eval", "MAX_REM_JOBS_TO_BOOST_B", "float", 200.0, "jobs", "most remaining ones for that", app=SERVER),
)


def _throttle(component: str) -> tuple[KnownParameter, ...]:
    return (
        P(component, "NQUEUELIMIT", "int", None, "jobs", "queued ones always allowed; -1: 4 x bunch", -1,
          suffixes=OF_THROTTLE),
        P(component, "NQUEUECAP", "int", None, "jobs", "queued ones never exceeded; -1: not set", -1,
          suffixes=OF_THROTTLE),
        P(component, "NRUNNINGCAP", "int", None, "jobs", "running ones never exceeded; -1: not set", -1,
          suffixes=OF_THROTTLE),
    )  # fmt: skip


JOB_GENERATION = (
    P("jobgen", "NFILES", "float", 5000.0, "files", "most input of a chunk", 1, 50_000),
    P("jobgen", "NFILES", "int", None, "files", "the same for one share", 1, 50_000, SHARE, only_family=True),
    P("jobgen", "MAX_JOBS_PER_CHUNK", "float", 1000.0, "jobs", "most jobs of a chunk", 1, 5000),
    P("jobgen", "MAX_OPEN_CHUNKS_PER_TASK", "float", 5.0, "chunks", "that wait for queues at a time", 1),
    P("jobgen", "MAX_MERGE_JOBS_PER_CHUNK", "float", 100.0, "jobs", "most merge jobs of a chunk", 1),
    P("jobgen", "THROTTLED_RETRY_S", "float", 30.0, "s", "until a throttled task is tried again", 1),
    P("jobgen", "UNSPLITTABLE_RETRY_S", "float", 3600.0, "s", "until input that fits no queue is tried again", 1),
    P("jobgen", "MAX_FORGIVEN_ATTEMPTS", "float", 50.0, "attempts", "ended by the system, that do not count"),
    P("jobgen", "ARCHIVE_AFTER_S", "float", 120.0, "s", "until finished jobs leave the live table"),
    P("jobgen", "ARCHIVE_BATCH", "float", 5000.0, "jobs", "archived in one transaction", 1),
    P("jobgen", "KEEP_SPECS_DAYS", "float", 7.0, "days", "for which texts of finished jobs are kept"),
    P("jobgen", "JOB_SUBMISSION", "bool", True, "", "false: no jobs are made"),
    *(
        P(component, "THROTTLE_THRESHOLD", "float", 2.0, "", "queued to running from which jobs are throttled")
        for component in ("prod_job_throttler", "anal_job_throttler")
    ),
    *_throttle("prod_job_throttler"),
    *_throttle("anal_job_throttler"),
    *_throttle("base_job_throttler"),
    P("dbproxy", "SCOUT_RAMCOUNT_RANK", "float", 100.0, "%", "rank of the scouts' memory that is taken", most=100),
    P("dbproxy", "SCOUT_RAMCOUNT_MARGIN", "float", 0.0, "%", "on top of it"),
    P("dbproxy", "SCOUT_RAMCOUNT_MIN", "int", 0, "MB", "least memory set by scouts"),
    P("dbproxy", "SCOUT_CPUTIME_RANK", "float", 95.0, "%", "rank of the scouts' CPU time that is taken", most=100),
    P("dbproxy", "SCOUT_DISK_IO_CAP", "int", 0, "kB/s", "most disk IO set by scouts; 0: no cap"),
)

TASK_DEFINITION = (
    P("taskrefiner", "OPEN_DATASET_CHECK_S", "float", 300.0, "s", "until an open dataset is looked at again", 1),
    P("taskrefiner", "WAIT_FOR_PENDING_S", "float", None, "s", "until a held task is tried again; else by priority", 1),
    P("postprocessor", "SETTLE_AFTER_S", "float", 60.0, "s", "until a task that nobody moved is taken up again"),
    P("catalogue", "REQUEST_LOST_AFTER_S", "float", 60.0, "s", "until a requested transfer is taken up again"),
    P("catalogue", "TRANSFER_SPEED_UP", "float", 1.0, "", "built-in transfers are so many times faster", 1e-6),
    P("catalogue", "TRANSFER_LATENCY_S", "float", 10.0, "s", "of each built-in transfer"),
    P("catalogue", "TRANSFER_FAILURE_PERCENT", "float", 0.0, "%", "of built-in transfers fail", most=100),
)


def _timeout(state: str, limit_h: float) -> KnownParameter:
    meaning = f"longest time of jobs, 0: any: {state.replace('_', ' ')}"
    return P("job_timeout", f"TIMEOUT_{state}", "float", limit_h, "h", meaning, app=SERVER)


WATCHDOGS = (
    *(
        _timeout(state, limit_h)
        for state, limit_h in (
            ("sent", 0.5), ("running", 504.0), ("pending", 1.0), ("waiting", 0.5), ("defined", 4.0), ("assigned", 12.0),
            ("throttled", 168.0), ("quiet_queue", 4.0), ("activated", 48.0), ("starting", 48.0), ("holding_high", 3.0),
            ("holding", 48.0), ("queued", 168.0),
        )
    ),
    P("job_timeout", "TIMEOUT_transferring_scale", "float", 1.0, "", "factor of the days that queues set; 0: off",
      most=1000, app=SERVER),
    P("watcher", "HEARTBEAT_TIMEOUT", "float", 0.0, "h", "without a heartbeat; 0: as for all others",
      suffixes=("production", "analysis", "<workflow>"), only_family=True, app=SERVER),
    P("rebroker", "FAST_REBRO_THRESHOLD_NQNR_RATIO", "float", 3.0, "", "waiting to running jobs of a share at a queue",
      app=SERVER),
    P("rebroker", "FAST_REBRO_THRESHOLD_NQUEUE_FRAC", "float", 0.3, "", "part of what waits in the share", most=1,
      app=SERVER),
    P("rebroker", "FAST_REBRO_THRESHOLD_NQUEUE", "float", None, "jobs", "waiting at a queue; not set: none closed", 1,
      suffixes=SHARE, only_family=True, app=SERVER),
    P("watchdog", "PENDING_TIMEOUT", "float", 168.0, "h", "until a pending task is exhausted; 0: off", suffixes=LABEL),
    P("watchdog", "PENDING_WAIT_SCALE", "float", 1.0, "", "factor of the waits of pending tasks"),
    P("watchdog", "HEARTBEAT_INTERVAL_S", "float", 1800.0, "s", "between two heartbeats of a pilot", 1),
    P("watchdog", "DISPATCHER_SILENCE_S", "float", 180.0, "s", "without any heartbeat nobody is blamed"),
    P("watchdog", "JOBS_PERIOD_S", "float", 60.0, "s", "between looks at running jobs"),
    P("watchdog", "QUEUED_PERIOD_S", "float", 300.0, "s", "between looks at queued jobs"),
    P("watchdog", "FAST_REBRO_PERIOD_S", "float", 2400.0, "s", "between looks at overloaded queues"),
    P("watchdog", "FAST_REBRO_AGAIN_S", "float", 21_600.0, "s", "for which work that came back to a queue stays"),
    P("watchdog", "PENDING_PERIOD_S", "float", 5.0, "s", "between looks at waiting tasks"),
    P("watchdog", "THROTTLE_PERIOD_S", "float", 300.0, "s", "between looks at failing tasks"),
    P("watchdog", "THROTTLE_EVERY_ATTEMPTS", "float", 5.0, "attempts", "that throttle a task; 0: never"),
    P("watchdog", "REMIND_AGAIN_S", "float", 600.0, "s", "between two reminders of the same task", 1),
    P("watchdog", "SWEEP_PERIOD_S", "float", 30.0, "s", "between looks for work whose event was lost"),
    P("watchdog", "SWEEP_AGE_S", "float", 60.0, "s", "until work that nobody moved is announced again"),
    P("watchdog", "MAX_JOBS_PER_RUN", "float", 5000.0, "jobs", "closed by one look at overloaded queues", 1),
    P("jumbo_dog", "PERIOD_S", "float", 600.0, "s", "between looks at event service tasks"),
    P("jumbo_dog", "JUMBO_MAX_TASKS", "int", 1, "tasks", "with jumbo jobs at a time"),
    P("jumbo_dog", "JUMBO_MIN_EVENTS_DISABLE", "int", 100_000, "events", "fewer remaining: jumbo jobs off"),
    P("jumbo_dog", "JUMBO_MIN_EVENTS_ENABLE", "int", -1, "events", "more remaining: on; -1: DISABLE x 10", -1),
    P("jumbo_dog", "JUMBO_MAX_EVENTS", "int", -1, "events", "at most so many wanted; -1: TASKS x ENABLE / 2", -1),
    P("jumbo_dog", "JUMBO_MAX_CURR_PRIO", "int", 500, "priority", "most of a task that gets jumbo jobs", -1e9),
)  # fmt: skip

DISPATCH_AND_SHARES = (
    P("job_dispatch", "NO_JOB_RETRY_S", "int", 60, "s", "a pilot at an empty queue is told to wait", 1, 3600),
    P("job_dispatch", "OWN_IDS_BAND", "int", 50, "jobs", "of a window that replicas divide among them", 1),
    P("job_dispatch", "CLAIMS_KEPT_S", "int", 86_400, "s", "for which a pilot may ask again for its job", 1),
    P("job_dispatch", "FINISHED_WORKERS_KEPT_S", "int", 86_400, "s", "for which ended workers are shown", 0),
    P(
        "job_dispatch",
        "SILENT_WORKERS_KEPT_S",
        "int",
        345_600,
        "s",
        "after which a silent worker is forgotten",
        60,
    ),
    P("job_dispatch", "REPORTERS", "json", None, "", "{queue or *: [subject]} that may report for others' jobs there"),
    P("job_dispatch", "ADVERTISERS", "json", None, "", "{site or *: [subject]} that may advertise the site"),
    P("job_brokerage", "SLOT_SETTERS", "json", None, "", "{queue or *: [subject]} that may set its slots"),
    P("share_correction", "EnableSharesCorrection", "bool", True, "", "false: all factors are 1"),
    P("share_correction", "ShareCorrectorsToStart", "json", ["WMSHistory"], "", "names of correctors"),
    P("share_correction", "WMSHistory", "json", None, "", "instances with their slices, as DIRAC has them"),
    P("share_correction", "UpdateHistoryPeriod", "float", 900.0, "s", "between two corrections"),
    P("share_correction", "USAGE_PERIOD_S", "float", 60.0, "s", "between two samples of usage"),
)

KNOWN: tuple[KnownParameter, ...] = (
    *TASK_BROKERAGE, *_brokerage("jobbroker"), *_brokerage("anal_jobbroker"), *ANALYSIS_BROKERAGE, *JOB_GENERATION,
    *TASK_DEFINITION, *WATCHDOGS, *DISPATCH_AND_SHARES,
)  # fmt: skip
