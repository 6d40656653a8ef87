"""Which jobs waited too long.

Sources: PanDA brokerage, Timeout Rules; JEDI, Timeout values for production jobs.

A rule names the states it looks at, since when the time counts, the limit and what happens then. `closed` sends the
work elsewhere (a retry that costs the user nothing), `failed` ends an attempt that a pilot had begun; neither is the
payload's failure. The first rule that matches decides. A limit of 0 switches its rule off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from shared.config.parameter import Parameter
from shared.config.timeouts import SENT_TIMEOUT, job_timeout
from shared.model.analysis import is_analysis
from shared.model.co_jumbo import CO_JUMBO_QUEUE
from shared.states.job import QUEUED, JobStatus

#: what a queue states beyond this is no limit anybody lives to see
LONGEST_DAYS = 3650.0
#: priority from which the stricter limits hold
HIGH_PRIORITY = 800
#: a queue that started nothing for so long does not hold high-priority jobs back
QUIET_QUEUE = timedelta(hours=2)

# Error codes of the field (task buffer).
TRANSFER_TIMEOUT, EXPIRED, REASSIGNED, WORKER_GONE = 101, 102, 105, 300


class Since(StrEnum):
    """Where a limit starts to count."""

    CREATION = "creation"
    STATE_CHANGE = "state change"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True)
class WatchedQueue:
    """What the rules ask about a queue; an unknown queue has the defaults."""

    status: str = "online"
    workflow: str = ""
    disable_reassign: bool = False
    last_job_start_at: datetime | None = None
    transfer_time_high_days: float = 2.0
    transfer_time_low_days: float = 7.0

    @property
    def exempt(self) -> bool:
        """All timeout rules are off for paused queues and those with disableReassign."""
        return self.status == "paused" or self.disable_reassign


@dataclass(frozen=True)
class WatchedJob:
    """What the rules ask about a job."""

    job_id: int
    status: JobStatus
    created_at: datetime
    state_changed_at: datetime
    heartbeat_at: datetime | None
    priority: int
    label: str
    queue_name: str
    queue: WatchedQueue = field(default_factory=WatchedQueue)
    #: its task says disableReassign: no rule sends it elsewhere
    stays: bool = False

    def begin(self, since: Since) -> datetime:
        """When the time that `since` names began to run."""
        if since is Since.CREATION:
            return self.created_at
        if since is Since.STATE_CHANGE or self.heartbeat_at is None:
            return self.state_changed_at
        return max(self.heartbeat_at, self.state_changed_at)


@dataclass(frozen=True)
class Rule:
    """One line of the table; `limit`: the runtime parameter with the limit, or hours if not one number."""

    name: str
    states: tuple[JobStatus, ...]
    since: Since
    limit: Parameter[float] | float
    action: JobStatus
    error_code: int
    source: str
    applies: Callable[[WatchedJob, datetime], bool] = lambda job, now: True
    high_only: bool = False

    @property
    def limit_h(self) -> float:
        """The limit where nothing is set."""
        return self.limit.default if isinstance(self.limit, Parameter) else self.limit


@dataclass(frozen=True)
class JobTimeLimits:
    """Limits in hours from runtime parameters: by rule, and for heartbeats by workflow or kind of work."""

    hours: Mapping[str, float] = field(default_factory=dict)
    heartbeat_h: Mapping[str, float] = field(default_factory=dict)

    def of(self, rule: Rule, job: WatchedJob) -> timedelta:
        """How long this job may stay in the state that the rule watches."""
        if rule.name == HEARTBEAT.name:
            # by the label of the job alone: millions of jobs are searched without their tasks
            kind = "analysis" if is_analysis(None, job.label) else "production"
            default = self.heartbeat_h.get(kind, rule.limit_h)
            return timedelta(hours=self.heartbeat_h.get(job.queue.workflow, default))
        if rule.name == TRANSFERRING.name:
            high = job.priority >= HIGH_PRIORITY
            days = job.queue.transfer_time_high_days if high else job.queue.transfer_time_low_days
            return timedelta(days=min(days * self.hours.get(rule.name, 1.0), LONGEST_DAYS))
        return timedelta(hours=self.hours.get(rule.name, rule.limit_h))

    @property
    def shortest_heartbeat(self) -> timedelta:
        """No pilot is lost before this."""
        return timedelta(hours=min([HEARTBEAT.limit_h, *self.heartbeat_h.values()]))


@dataclass(frozen=True)
class Expiry:
    """An overdue job goes to `to_status`; `reason` is for its owner."""

    to_status: JobStatus
    rule: str
    error_code: int
    reason: str


def _queue_is_quiet(job: WatchedJob, now: datetime) -> bool:
    last = job.queue.last_job_start_at
    return last is None or now - last > QUIET_QUEUE


def _not_for_jumbo(job: WatchedJob, now: datetime) -> bool:
    """Those without a queue wait for jumbo jobs, not for a pilot."""
    return job.queue_name != CO_JUMBO_QUEUE


_PANDA, _JEDI = "PanDA brokerage: Timeout Rules", "JEDI: Timeout values for production jobs"
_STATE, _CREATED = Since.STATE_CHANGE, Since.CREATION

HEARTBEAT = Rule("heartbeat", ("running", "starting"), Since.HEARTBEAT, 2, "failed", WORKER_GONE, _PANDA)
TRANSFERRING = Rule("transferring", ("transferring",), _STATE, 48, "failed", TRANSFER_TIMEOUT, _PANDA)

#: In this order; limits in hours. "days for holding jobs" below priority 800 has no number in the rules: 48 h.
RULES: tuple[Rule, ...] = (
    HEARTBEAT,
    Rule("sent", ("sent",), _STATE, SENT_TIMEOUT, "failed", WORKER_GONE, _PANDA),
    Rule("running", ("running",), _STATE, job_timeout("running", 21 * 24), "failed", EXPIRED, _PANDA),
    Rule("pending", ("pending",), _CREATED, job_timeout("pending", 1), "closed", EXPIRED, _PANDA),
    Rule("waiting", ("waiting",), _CREATED, job_timeout("waiting", 0.5), "closed", EXPIRED, _JEDI, _not_for_jumbo),
    Rule("defined", ("defined",), _STATE, job_timeout("defined", 4), "closed", REASSIGNED, _PANDA),
    Rule("assigned", ("assigned",), _STATE, job_timeout("assigned", 12), "closed", REASSIGNED, _PANDA),
    Rule("throttled", ("throttled",), _STATE, job_timeout("throttled", 7 * 24), "closed", EXPIRED, _PANDA),
    Rule("quiet_queue", ("activated", "starting"), _STATE, job_timeout("quiet_queue", 4), "closed", REASSIGNED, _PANDA,
         _queue_is_quiet, high_only=True),
    Rule("activated", ("activated",), _STATE, job_timeout("activated", 48), "closed", REASSIGNED, _PANDA),
    Rule("starting", ("starting",), _STATE, job_timeout("starting", 48), "closed", REASSIGNED, _PANDA),
    Rule("holding_high", ("holding",), _STATE, job_timeout("holding_high", 3), "failed", EXPIRED, _PANDA,
         high_only=True),
    Rule("holding", ("holding",), _STATE, job_timeout("holding", 48), "failed", EXPIRED, _PANDA),
    TRANSFERRING,
    Rule("queued", QUEUED, _CREATED, job_timeout("queued", 7 * 24), "closed", EXPIRED, "JEDI: Job rebrokerage",
         _not_for_jumbo),
)  # fmt: skip

#: merge jobs of the event service, and its other jobs with `ES_PRIORITY` or more (JEDI: Final status of Event Service
#: jobs): what they processed is kept, and another job goes on
ES_TOO_LONG = Rule(
    "es_toolong", ("starting", "running"), _STATE, job_timeout("es_toolong", 24), "closed", EXPIRED, _JEDI
)
ES_PRIORITY = 900

#: limits that are one number, for those who list the parameters of this module
TIMEOUTS = tuple(rule.limit for rule in (*RULES, ES_TOO_LONG) if isinstance(rule.limit, Parameter))


def overdue(job: WatchedJob, limits: JobTimeLimits, now: datetime) -> Expiry | None:
    """The first rule whose limit the job has passed, as a verdict; None while it may go on.

    Why a table: each state has a cause of its own for taking too long, and its own cure. Example: a running job whose
    last heartbeat was 121 minutes ago fails with a limit of 2 hours; a job that is holding for 4 hours fails with
    priority 800 (limit 3 hours) and goes on with 799 (48 hours). Source: PanDA brokerage, Timeout Rules.
    """
    for rule, limit in _rules_of(job, limits, now):
        if now - job.begin(rule.since) > limit:
            return Expiry(rule.action, rule.name, rule.error_code, _sentence(rule, job, limit))
    return None


def lasted_too_long(limits: JobTimeLimits) -> Expiry | None:
    """The verdict on jobs of the event service that `ES_TOO_LONG` is about; None: any time is allowed."""
    hours = limits.hours.get(ES_TOO_LONG.name, ES_TOO_LONG.limit_h)
    if hours <= 0:
        return None
    reason = f"a job of the event service with a pilot for more than {hours:g} h"
    return Expiry(ES_TOO_LONG.action, ES_TOO_LONG.name, ES_TOO_LONG.error_code, reason)


def _rules_of(job: WatchedJob, limits: JobTimeLimits, now: datetime) -> Iterator[tuple[Rule, timedelta]]:
    """The rules that hold for this job, with its limits; rules that are off are left out."""
    if job.queue.exempt:
        return
    for rule in RULES:
        if job.status not in rule.states or not rule.applies(job, now):
            continue
        if rule.high_only and job.priority < HIGH_PRIORITY:
            continue
        if job.stays and rule.action == "closed":
            continue
        limit = limits.of(rule, job)
        if limit > timedelta():
            yield rule, limit


def only_moves(state: JobStatus) -> bool:
    """Whether every rule for this state sends the job elsewhere: none for a job that stays where it is."""
    return all(rule.action == "closed" for rule in RULES if state in rule.states)


@dataclass(frozen=True)
class Latest:
    """A job is overdue if one of its times lies before these; None: no rule looks at that time."""

    changed: datetime | None = None
    silent: datetime | None = None
    created: datetime | None = None


def latest_of(job: WatchedJob, limits: JobTimeLimits, now: datetime) -> Latest:
    """The latest times of all jobs that share this one's state, queue, kind of label and priority class.

    Worked example: `activated`, priority 100, at noon on 10 March -> changed before 8 March 12:00 (48 h) or created
    before 3 March 12:00 (7 days).
    """
    found: dict[Since, datetime] = {}
    for rule, limit in _rules_of(job, limits, now):
        found[rule.since] = max(found.get(rule.since, now - limit), now - limit)
    return Latest(found.get(Since.STATE_CHANGE), found.get(Since.HEARTBEAT), found.get(Since.CREATION))


@dataclass(frozen=True)
class Search:
    """What finds the overdue jobs of one state, exactly: the latest times that are too early.

    They stand for each kind of queue (a number; 0: queues not in `kinds`), whether the priority is high, and whether
    the label is one of analysis.
    """

    kinds: Mapping[str, int]
    latest: Mapping[tuple[int, bool, bool], Latest]


def search(state: JobStatus, queues: Mapping[str, WatchedQueue], limits: JobTimeLimits, now: datetime) -> Search:
    """Queues with equal times share a number, so that what is compared does not grow with the grid."""
    sides = [(high, analysis) for high in (False, True) for analysis in (False, True)]

    def times(name: str, queue: WatchedQueue) -> tuple[Latest, ...]:
        """The latest times of a queue, for each of the sides."""
        return tuple(
            latest_of(
                WatchedJob(
                    job_id=0,
                    status=state,
                    created_at=now,
                    state_changed_at=now,
                    heartbeat_at=None,
                    priority=HIGH_PRIORITY if high else 0,
                    label="user" if analysis else "managed",
                    queue_name=name,
                    queue=queue,
                ),
                limits,
                now,
            )
            for high, analysis in sides
        )

    numbers = {times("", WatchedQueue()): 0}
    kinds = {
        name: numbers.setdefault(times(name, queue), len(numbers))
        for name, queue in {CO_JUMBO_QUEUE: WatchedQueue(), **queues}.items()
    }
    return Search(
        kinds,
        {
            (kind, *side): latest
            for found, kind in numbers.items()
            for side, latest in zip(sides, found, strict=True)
            if latest != Latest()
        },
    )


def _sentence(rule: Rule, job: WatchedJob, limit: timedelta) -> str:
    """No times of the single job in it: jobs that end for one reason share one event."""
    hours = f"{limit.total_seconds() / 3600:g} h"
    if rule is HEARTBEAT:
        return f"lost heartbeat: no report from the pilot for more than {hours} while {job.status}"
    if rule.since is Since.CREATION:
        return f"still {job.status} more than {hours} after its creation"
    if rule.name == "quiet_queue":
        return f"{job.status} for more than {hours} at a queue that started no job for 2 h"
    return f"{job.status} for more than {hours}"
