"""The time-out rules of the field, in the order in which they are asked.

Sources: PanDA brokerage, Timeout Rules; JEDI, Timeout values for production jobs. Where both name a limit the first
holds. A limit of 0 switches its rule off.
"""

from __future__ import annotations

from datetime import timedelta

from shared.config.parameter import SERVER, Parameter
from shared.states.job import QUEUED, JobStatus
from shared.timeouts.rule import HIGH_PRIORITY, Condition, Since, TimeRule, Varies

#: kinds of work that have a heartbeat limit of their own besides the workflows of the queues
KINDS_OF_WORK = ("production", "analysis")

HEARTBEAT_TIMEOUT = Parameter(
    "watcher",
    "HEARTBEAT_TIMEOUT",
    0.0,
    "h",
    "without a heartbeat; 0: as for all others",
    suffixes=(*KINDS_OF_WORK, "<workflow>"),
    only_family=True,
    app=SERVER,
)
#: one factor for the days that queues set themselves
TRANSFERRING_SCALE = Parameter(
    "job_timeout",
    "TIMEOUT_transferring_scale",
    1.0,
    "",
    "factor of the days that queues set; 0: off",
    high=1000,
    app=SERVER,
)
ABSENT_QUEUE_H = Parameter(
    "job_timeout",
    "ABSENT_QUEUE_H",
    7 * 24.0,
    "h",
    "after a queue left the grid, until its jobs lose its limits and exemptions",
    high=60 * 24,
    app=SERVER,
)

ANALYSIS_TIMEOUT = Parameter(
    "rebroker",
    "ANALY_TIMEOUT",
    12.0,
    "h",
    "for which analysis waits at a queue until it is sent elsewhere; 0: it stays",
    suffixes=("<workingGroup>",),
    app=SERVER,
)
CAME_BACK_S = Parameter(
    "watchdog", "FAST_REBRO_AGAIN_S", 21_600.0, "s", "for which work that came back to a queue stays"
)

# Error codes of the field (task buffer).
TRANSFER_TIMEOUT, EXPIRED, REASSIGNED, FAST_REBROKERAGE, WORKER_GONE = 101, 102, 105, 130, 300
#: of jobs whose work is sent elsewhere
REBROKERED = (REASSIGNED, FAST_REBROKERAGE)


def job_timeout(state: str, limit_h: float) -> Parameter[float]:
    """The limit in hours of one rule (PanDA brokerage: Timeout Rules)."""
    means = f"longest time of jobs, 0: any: {state.replace('_', ' ')}"
    return Parameter("job_timeout", f"TIMEOUT_{state}", float(limit_h), "h", means, app=SERVER)


_PANDA, _JEDI = "PanDA brokerage: Timeout Rules", "JEDI: Timeout values for production jobs"
_REBROKERAGE, _SERVER = "JEDI: Job rebrokerage", "PanDA server: job time-outs"
_STATE, _CREATED = Since.STATE_CHANGE, Since.CREATION
_HIGH, _LOW = Condition(least_priority=HIGH_PRIORITY), Condition(most_priority=HIGH_PRIORITY - 1)
_HIGH_WITH_REPORT = Condition(least_priority=HIGH_PRIORITY, report_is_read=True)
_WAITS: tuple[JobStatus, ...] = ("activated", "starting")
#: before a pilot runs a job: rebrokerage may take it away
BEFORE_RUNNING: tuple[JobStatus, ...] = ("defined", "assigned", "activated", "starting")
#: whatever is with a pilot or left behind by one
_ACTIVE: tuple[JobStatus, ...] = ("sent", "starting", "running", "holding", "transferring", "merging")
#: in which a merge job may be taken back
_MERGE: tuple[JobStatus, ...] = ("pending", "defined", "assigned", "activated", "throttled", "starting", "running")

HEARTBEAT = TimeRule(
    "heartbeat", ("running", "starting"), Since.HEARTBEAT, Varies.HEARTBEAT, "failed", WORKER_GONE, _PANDA
)
SENT = TimeRule("sent", ("sent",), _STATE, job_timeout("sent", 0.5), "failed", WORKER_GONE, _PANDA)
#: merge jobs of the event service, and its other jobs of high priority: what they processed is kept, and another job
#: goes on (JEDI: Final status of Event Service jobs)
ES_TOO_LONG = TimeRule(
    "es_toolong", ("starting", "running"), _STATE, job_timeout("es_toolong", 24), "closed", EXPIRED, _JEDI,
    Condition(in_job_set=True),
)  # fmt: skip

#: analysis that waits is sent elsewhere with all that was made with it for the queue (JEDI: Job rebrokerage)
GROUP_RESTS = timedelta(hours=3)
ANALYSIS_WAITS = TimeRule(
    "analysis_waits", BEFORE_RUNNING, Since.ACTIVATION, Varies.ANALYSIS, "closed", REASSIGNED, _REBROKERAGE,
    Condition(analysis=True, may_move=True, group_rests_for_h=GROUP_RESTS / timedelta(hours=1)),
)  # fmt: skip
ANALYSIS_CLOSED = TimeRule(
    "analysis_closed_queue", BEFORE_RUNNING, _STATE, Varies.AT_ONCE, "closed", REASSIGNED, _REBROKERAGE,
    Condition(analysis=True, may_move=True, queue_closed=True),
)  # fmt: skip

#: "days for holding jobs" below priority 800 has no number in the rules: 48 h, the field's own
RULES: tuple[TimeRule, ...] = (
    HEARTBEAT,
    SENT,
    TimeRule("running", ("running",), _STATE, job_timeout("running", 21 * 24), "failed", EXPIRED, _PANDA),
    TimeRule("pending", ("pending",), _CREATED, job_timeout("pending", 1), "closed", EXPIRED, _PANDA),
    TimeRule("waiting", ("waiting",), _CREATED, job_timeout("waiting", 0.5), "closed", EXPIRED, _JEDI,
             Condition(not_for_jumbo=True)),
    ANALYSIS_CLOSED,
    ANALYSIS_WAITS,
    TimeRule("defined", ("defined",), _STATE, job_timeout("defined", 4), "closed", REASSIGNED, _PANDA),
    TimeRule("assigned", ("assigned",), _STATE, job_timeout("assigned", 12), "closed", REASSIGNED, _PANDA),
    TimeRule("throttled", ("throttled",), _CREATED, job_timeout("throttled", 7 * 24), "closed", EXPIRED, _PANDA),
    TimeRule("quiet_queue", _WAITS, _STATE, job_timeout("quiet_queue", 4), "closed", REASSIGNED, _PANDA,
             Condition(least_priority=HIGH_PRIORITY, no_start_for_h=2)),
    TimeRule("closed_queue", _WAITS, _STATE, job_timeout("closed_queue", 4), "closed", REASSIGNED, _SERVER,
             Condition(least_priority=HIGH_PRIORITY, queue_statuses=("offline", "test"))),
    TimeRule("merge_for_nobody", _MERGE, _STATE, job_timeout("merge_for_nobody", 0.5), "closed", EXPIRED, _SERVER,
             Condition(job_types=("merge",), producers_gone=True)),
    TimeRule("activated", ("activated",), _STATE, job_timeout("activated", 48), "closed", REASSIGNED, _PANDA),
    TimeRule("starting", ("starting",), _STATE, job_timeout("starting", 48), "closed", REASSIGNED, _PANDA),
    TimeRule("holding_high", ("holding",), _STATE, job_timeout("holding_high", 3), "failed", EXPIRED, _PANDA,
             _HIGH_WITH_REPORT),
    TimeRule("holding", ("holding",), _STATE, job_timeout("holding", 48), "failed", EXPIRED, _PANDA,
             Condition(report_is_read=True)),
    TimeRule("own_stage_out", ("transferring",), Since.HEARTBEAT, Varies.OWN_HEARTBEAT, "failed", TRANSFER_TIMEOUT,
             _PANDA, Condition(own_stage_out=True)),
    TimeRule("transferring_high", ("transferring",), _STATE, Varies.HIGH_DAYS, "failed", TRANSFER_TIMEOUT, _PANDA,
             _HIGH),
    TimeRule("transferring", ("transferring",), _STATE, Varies.LOW_DAYS, "failed", TRANSFER_TIMEOUT, _PANDA, _LOW),
    TimeRule("queued", QUEUED, _CREATED, job_timeout("queued", 7 * 24), "closed", EXPIRED, _REBROKERAGE,
             Condition(not_for_jumbo=True)),
    TimeRule("active_analysis", _ACTIVE, Since.HEARTBEAT, job_timeout("active_analysis", 7 * 24), "failed", EXPIRED,
             _SERVER, Condition(analysis=True)),
    TimeRule("active", _ACTIVE, _CREATED, job_timeout("active", 21 * 24), "failed", EXPIRED, _SERVER),
    ES_TOO_LONG,
)  # fmt: skip

#: limits that are one number, for those who list the parameters of this module
TIMEOUTS = tuple(rule.limit for rule in RULES if isinstance(rule.limit, Parameter))
