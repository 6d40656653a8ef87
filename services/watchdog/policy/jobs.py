"""Which jobs waited too long (PanDA brokerage: Timeout Rules; JEDI: Timeout values for production jobs).

A rule names the states it looks at, since when the time counts, the limit and what happens then. `closed` sends the
work elsewhere (a retry that costs the user nothing), `failed` ends an attempt that a pilot had begun; neither is the
payload's failure. The first rule that matches decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from shared.states.job import QUEUED

#: priority from which the stricter limits hold
HIGH_PRIORITY = 800
#: a queue that started nothing for so long does not hold high-priority jobs back
QUIET_QUEUE = timedelta(hours=2)
#: stands for events that jumbo jobs will process; its jobs wait for those, not for a pilot
CO_JUMBO_QUEUE = "WAITING_CO_JUMBO"

# Error codes of the field (task buffer).
TRANSFER_TIMEOUT, EXPIRED, REASSIGNED, WORKER_GONE = 101, 102, 105, 300


class Since(StrEnum):
    """Where a limit starts to count."""

    CREATION = "creation"
    STATE_CHANGE = "state change"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True)
class QueueFacts:
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
class JobFacts:
    """What the rules ask about a job."""

    job_id: int
    status: str
    created_at: datetime
    state_changed_at: datetime
    heartbeat_at: datetime | None
    priority: int
    label: str
    queue_name: str
    queue: QueueFacts = field(default_factory=QueueFacts)

    def begin(self, since: Since) -> datetime:
        """When the time that `since` names began to run."""
        if since is Since.CREATION:
            return self.created_at
        if since is Since.STATE_CHANGE or self.heartbeat_at is None:
            return self.state_changed_at
        return max(self.heartbeat_at, self.state_changed_at)


@dataclass(frozen=True)
class Rule:
    """One line of the table. `key` is the runtime parameter with the limit in hours, if the limit is one number."""

    name: str
    states: tuple[str, ...]
    since: Since
    limit_h: float
    action: str
    error_code: int
    source: str
    key: str | None = None
    applies: Callable[[JobFacts, datetime], bool] = lambda job, now: True
    high_only: bool = False


@dataclass(frozen=True)
class Limits:
    """Limits in hours as the runtime parameters have them: by rule, and for heartbeats by workflow or kind of work."""

    hours: Mapping[str, float] = field(default_factory=dict)
    heartbeat_h: Mapping[str, float] = field(default_factory=dict)

    def of(self, rule: Rule, job: JobFacts) -> timedelta:
        """How long this job may stay in the state that the rule watches."""
        if rule.name == HEARTBEAT.name:
            kind = "analysis" if job.label in ("user", "panda") else "production"
            default = self.heartbeat_h.get(kind, rule.limit_h)
            return timedelta(hours=self.heartbeat_h.get(job.queue.workflow, default))
        if rule.name == TRANSFERRING.name:
            high = job.priority >= HIGH_PRIORITY
            days = job.queue.transfer_time_high_days if high else job.queue.transfer_time_low_days
            return timedelta(days=days) * self.hours.get(rule.name, 1.0)
        return timedelta(hours=self.hours.get(rule.name, rule.limit_h))

    def shortest(self, rule: Rule) -> timedelta:
        """No job is past the rule before this: what a query may leave out. Zero where the queue decides."""
        if rule.name == TRANSFERRING.name:
            return timedelta()
        if rule.name == HEARTBEAT.name:
            return timedelta(hours=min([rule.limit_h, *self.heartbeat_h.values()]))
        return timedelta(hours=self.hours.get(rule.name, rule.limit_h))


@dataclass(frozen=True)
class Verdict:
    """The job goes to `to_status`; `reason` is for its owner."""

    to_status: str
    rule: str
    error_code: int
    reason: str


def _queue_is_quiet(job: JobFacts, now: datetime) -> bool:
    last = job.queue.last_job_start_at
    return last is None or now - last > QUIET_QUEUE


def _not_for_jumbo(job: JobFacts, now: datetime) -> bool:
    return job.queue_name != CO_JUMBO_QUEUE


_PANDA, _JEDI = "PanDA brokerage: Timeout Rules", "JEDI: Timeout values for production jobs"
_STATE, _CREATED = Since.STATE_CHANGE, Since.CREATION

HEARTBEAT = Rule("heartbeat", ("running", "starting"), Since.HEARTBEAT, 2, "failed", WORKER_GONE, _PANDA)
TRANSFERRING = Rule("transferring", ("transferring",), _STATE, 48, "failed", TRANSFER_TIMEOUT, _PANDA)

#: In this order; limits in hours. "days for holding jobs" below priority 800 has no number in the rules: 48 h.
RULES: tuple[Rule, ...] = (
    HEARTBEAT,
    Rule("sent", ("sent",), _STATE, 0.5, "failed", WORKER_GONE, _PANDA, "TIMEOUT_sent"),
    Rule("running", ("running",), _STATE, 21 * 24, "failed", EXPIRED, _PANDA, "TIMEOUT_running"),
    Rule("pending", ("pending",), _CREATED, 1, "closed", EXPIRED, _PANDA, "TIMEOUT_pending"),
    Rule("waiting", ("waiting",), _CREATED, 0.5, "closed", EXPIRED, _JEDI, "TIMEOUT_waiting", _not_for_jumbo),
    Rule("defined", ("defined",), _STATE, 4, "closed", REASSIGNED, _PANDA, "TIMEOUT_defined"),
    Rule("assigned", ("assigned",), _STATE, 12, "closed", REASSIGNED, _PANDA, "TIMEOUT_assigned"),
    Rule("throttled", ("throttled",), _STATE, 7 * 24, "closed", EXPIRED, _PANDA, "TIMEOUT_throttled"),
    Rule("quiet_queue", ("activated", "starting"), _STATE, 4, "closed", REASSIGNED, _PANDA, "TIMEOUT_quiet_queue",
         _queue_is_quiet, high_only=True),
    Rule("activated", ("activated",), _STATE, 48, "closed", REASSIGNED, _PANDA, "TIMEOUT_activated"),
    Rule("starting", ("starting",), _STATE, 48, "closed", REASSIGNED, _PANDA, "TIMEOUT_starting"),
    Rule("holding_high", ("holding",), _STATE, 3, "failed", EXPIRED, _PANDA, "TIMEOUT_holding_high",
         high_only=True),
    Rule("holding", ("holding",), _STATE, 48, "failed", EXPIRED, _PANDA, "TIMEOUT_holding"),
    TRANSFERRING,
    Rule("queued", QUEUED, _CREATED, 7 * 24, "closed", EXPIRED, "JEDI: Job rebrokerage", "TIMEOUT_queued",
         _not_for_jumbo),
)  # fmt: skip


def overdue(job: JobFacts, limits: Limits, now: datetime) -> Verdict | None:
    """The first rule whose limit the job has passed, as a verdict; None while it may go on."""
    if job.queue.exempt:
        return None
    for rule in RULES:
        if job.status not in rule.states or not rule.applies(job, now):
            continue
        if rule.high_only and job.priority < HIGH_PRIORITY:
            continue
        limit = limits.of(rule, job)
        waited = now - job.begin(rule.since)
        if waited > limit:
            return Verdict(rule.action, rule.name, rule.error_code, _sentence(rule, job, limit))
    return None


@dataclass(frozen=True)
class Bounds:
    """Only jobs that changed state before these times can be overdue: by priority, and (on a node) if silent."""

    low_before: datetime
    high_before: datetime
    silent_before: datetime | None

    @property
    def earliest(self) -> datetime:
        """No job that changed state later is a candidate."""
        return max(filter(None, (self.low_before, self.high_before, self.silent_before)))


def bounds(state: str, limits: Limits, now: datetime) -> Bounds:
    """What a query may leave out for one state."""
    rules = [rule for rule in RULES if state in rule.states and rule is not HEARTBEAT]
    return Bounds(
        low_before=now - min(limits.shortest(rule) for rule in rules if not rule.high_only),
        high_before=now - min(limits.shortest(rule) for rule in rules),
        silent_before=now - limits.shortest(HEARTBEAT) if state in HEARTBEAT.states else None,
    )


def _sentence(rule: Rule, job: JobFacts, limit: timedelta) -> str:
    """No times of the single job in it: jobs that end for one reason share one event."""
    hours = f"{limit.total_seconds() / 3600:g} h"
    if rule is HEARTBEAT:
        return f"lost heartbeat: no sign of life from the pilot for more than {hours} while {job.status}"
    if rule.since is Since.CREATION:
        return f"still {job.status} more than {hours} after its creation"
    if rule.name == "quiet_queue":
        return f"{job.status} for more than {hours} at a queue that started no job for 2 h"
    return f"{job.status} for more than {hours}"
