"""What a time-out rule is: states, condition, limit, next state, code and source. Pure.

`closed` sends the work elsewhere (a retry that costs the user nothing), `failed` ends an attempt that a pilot had
begun; neither is the payload's failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum

from shared.config.parameter import Parameter
from shared.model.analysis import is_analysis
from shared.model.co_jumbo import CO_JUMBO_QUEUE
from shared.states.job import ON_NODE, JobStatus

#: from this priority the stricter limits hold
HIGH_PRIORITY = 800
#: of the event service's jobs that are ended for taking too long
ES_PRIORITY = 900
#: of a queue at which no pilot takes jobs of users
CLOSED_STATUSES = ("offline", "test")
#: jobs that were made together for a queue: their task, their chunk and the queue
Group = tuple[int, int, str]


class Since(StrEnum):
    """Where a limit starts to count."""

    CREATION = "creation"
    STATE_CHANGE = "state change"
    HEARTBEAT = "heartbeat"
    #: of a job that was not activated yet: the change of state
    ACTIVATION = "activation"


class Varies(StrEnum):
    """Limits that are not one number for all queues."""

    HEARTBEAT = "HEARTBEAT_TIMEOUT_<workflow>"
    OWN_HEARTBEAT = "HEARTBEAT_TIMEOUT_<workflow>, where it is set"
    HIGH_DAYS = "transtimehi of the queue"
    LOW_DAYS = "transtimelo of the queue"
    ANALYSIS = "ANALY_TIMEOUT_<workingGroup>"
    AT_ONCE = "at once, unless ANALY_TIMEOUT is 0"


@dataclass(frozen=True)
class WatchedQueue:
    """What rules ask about a queue; an unknown queue has the defaults.

    `absent_since`: when it left the grid. `blacklisted`: the storage that analysis there writes to or reads, if it does
    not work.
    """

    status: str = "online"
    workflow: str = ""
    disable_reassign: bool = False
    last_job_start_at: datetime | None = None
    transfer_time_high_days: float = 2.0
    transfer_time_low_days: float = 7.0
    absent_since: datetime | None = None
    blacklisted: str = ""

    @property
    def closed_to_analysis(self) -> bool:
        """Whether no analysis begins there now."""
        return self.status in CLOSED_STATUSES or bool(self.blacklisted)

    @property
    def off(self) -> str | None:
        """Why all rules are off for its jobs; None where they are not."""
        before = "" if self.absent_since is None else " before it left the grid"
        if self.status == "paused":
            return f"the queue {'is' if self.absent_since is None else 'was'} paused{before}"
        return f"the queue has disableReassign{before}" if self.disable_reassign else None


@dataclass(frozen=True)
class WatchedJob:
    """What rules ask about a job.

    `stays`: its task says disableReassign, so that no rule sends it elsewhere. `own_stage_out`: its pilot named a sub
    status. `producers_gone`: none of the jobs whose outputs it merges waits for it. `report_waits`: a message or
    request of ours about its outputs is not done. `in_job_set`: it merges events, or processes them with a high
    priority. `is_bound`: it merges what was made there, or its task has one queue to go to. `came_back_until`: its work
    was taken from this queue lately and came back, and stays until then. `group_moved_at`: when one of those that were
    made with it for its queue last went on. `activated_at`: of analysis that is
    starting, when it was last activated.
    """

    job_id: int
    status: JobStatus
    created_at: datetime
    state_changed_at: datetime
    heartbeat_at: datetime | None
    priority: int
    label: str
    queue_name: str
    queue: WatchedQueue = field(default_factory=WatchedQueue)
    stays: bool = False
    vo: str = ""
    job_type: str = "normal"
    own_stage_out: bool = False
    producers_gone: bool = False
    report_waits: bool = False
    in_job_set: bool = False
    task_id: int = 0
    chunk_id: int = 0
    working_group: str = ""
    is_bound: bool = False
    came_back_until: datetime | None = None
    group_moved_at: datetime | None = None
    activated_at: datetime | None = None

    @property
    def group(self) -> Group:
        """Which jobs go elsewhere together."""
        return self.task_id, self.chunk_id, self.queue_name

    @property
    def is_analysis(self) -> bool:
        """By the label alone: millions of jobs are searched without their tasks."""
        return is_analysis(None, self.label)

    def begin(self, since: Since) -> datetime:
        """When the time that `since` names began to run."""
        if since is Since.CREATION:
            return self.created_at
        if since is Since.ACTIVATION:
            return self.activated_at or self.state_changed_at
        if since is Since.STATE_CHANGE or self.heartbeat_at is None:
            return self.state_changed_at
        return max(self.heartbeat_at, self.state_changed_at)


@dataclass(frozen=True)
class Condition:
    """Which jobs of its states a rule is about. What is None, empty or False is not asked."""

    vo: str | None = None
    least_priority: int | None = None
    most_priority: int | None = None
    labels: tuple[str, ...] = ()
    analysis: bool | None = None
    job_types: tuple[str, ...] = ()
    workflows: tuple[str, ...] = ()
    queue_statuses: tuple[str, ...] = ()
    no_start_for_h: float | None = None
    not_for_jumbo: bool = False
    own_stage_out: bool = False
    producers_gone: bool = False
    report_is_read: bool = False
    in_job_set: bool = False
    may_move: bool = False
    queue_closed: bool = False
    group_rests_for_h: float | None = None

    def holds(self, job: WatchedJob, now: datetime) -> bool:
        """Whether the rule is about this job."""
        return self.holds_at(job.queue_name, job.queue, now) and self._holds_of(job) and self._may_move(job, now)

    def holds_at(self, name: str, queue: WatchedQueue, now: datetime) -> bool:
        """Whether the rule is about jobs at this queue."""
        last = queue.last_job_start_at
        quiet = self.no_start_for_h is None or last is None or now - last > timedelta(hours=self.no_start_for_h)
        return (
            quiet
            and _among(queue.workflow, self.workflows)
            and _among(queue.status, self.queue_statuses)
            and not (self.not_for_jumbo and name == CO_JUMBO_QUEUE)
            and not (self.queue_closed and not queue.closed_to_analysis)
        )

    def _may_move(self, job: WatchedJob, now: datetime) -> bool:
        """Whether its work may go elsewhere, and its group has rested for long enough, if that is asked."""
        stays = job.is_bound or (job.came_back_until is not None and now < job.came_back_until)
        if self.may_move and stays:
            return False
        rests_h, moved_at = self.group_rests_for_h, job.group_moved_at
        return rests_h is None or moved_at is None or now - moved_at >= timedelta(hours=rests_h)

    def _holds_of(self, job: WatchedJob) -> bool:
        return (
            self.vo in (None, job.vo)
            and (self.least_priority is None or job.priority >= self.least_priority)
            and (self.most_priority is None or job.priority <= self.most_priority)
            and _among(job.label, self.labels)
            and self.analysis in (None, job.is_analysis)
            and _among(job.job_type, self.job_types)
            and not (self.own_stage_out and not job.own_stage_out)
            and not (self.producers_gone and not job.producers_gone)
            and not (self.report_is_read and job.report_waits)
            and not (self.in_job_set and not job.in_job_set)
        )

    @property
    def text(self) -> str:
        """For people: "priority >= 800, queue offline or test"; "" for every job of the states."""
        told = (
            f"VO {self.vo}" if self.vo is not None else "",
            f"priority >= {self.least_priority}" if self.least_priority is not None else "",
            f"priority <= {self.most_priority}" if self.most_priority is not None else "",
            f"label {_or(self.labels)}" if self.labels else "",
            {True: "analysis", False: "production", None: ""}[self.analysis],
            f"{_or(self.job_types)} jobs" if self.job_types else "",
            f"workflow {_or(self.workflows)}" if self.workflows else "",
            f"queue {_or(self.queue_statuses)}" if self.queue_statuses else "",
            f"no job started at the queue for {self.no_start_for_h:g} h" if self.no_start_for_h is not None else "",
            "not those that wait for jumbo jobs" if self.not_for_jumbo else "",
            "its pilot named a sub status (own stage-out)" if self.own_stage_out else "",
            "no job whose outputs it merges waits for it" if self.producers_gone else "",
            "its report does not wait for us" if self.report_is_read else "",
            f"merges events, or processes them with priority >= {ES_PRIORITY}" if self.in_job_set else "",
            f"queue {_or(CLOSED_STATUSES)}, or its storage blacklisted" if self.queue_closed else "",
            f"none of its group went on for {self.group_rests_for_h:g} h" if self.group_rests_for_h is not None else "",
            "its work may go elsewhere" if self.may_move else "",
        )
        return ", ".join(one for one in told if one)

    def within(self, other: Condition) -> bool:
        """Whether `other` holds for every job for which this one does."""
        return all(_narrower(one.name, getattr(self, one.name), getattr(other, one.name)) for one in fields(self))

    def meets(self, other: Condition) -> bool:
        """Whether both may hold for one job."""
        both = [one for one in (self.least_priority, other.least_priority) if one is not None]
        most = [one for one in (self.most_priority, other.most_priority) if one is not None]
        if both and most and max(both) > min(most):
            return False
        if None not in (self.vo, other.vo) and self.vo != other.vo:
            return False
        if None not in (self.analysis, other.analysis) and self.analysis is not other.analysis:
            return False
        sets = ("labels", "job_types", "workflows", "queue_statuses")
        pairs = ((set(getattr(self, name)), set(getattr(other, name))) for name in sets)
        return all(not mine or not theirs or mine & theirs for mine, theirs in pairs)


@dataclass(frozen=True)
class TimeRule:
    """One line of the table; `limit`: its runtime parameter, hours, or what it varies with."""

    name: str
    states: tuple[JobStatus, ...]
    since: Since
    limit: Parameter[float] | float | Varies
    next_state: JobStatus
    error_code: int
    source: str
    when: Condition = Condition()

    @property
    def default_h(self) -> float | None:
        """The limit where nothing is set; None: it is the queue's."""
        if isinstance(self.limit, Varies):
            return 2.0 if self.limit is Varies.HEARTBEAT else None
        return self.limit.default if isinstance(self.limit, Parameter) else self.limit

    @property
    def takes_group(self) -> bool:
        """Whether all jobs that were made together for one queue go with one of them."""
        return self.limit in (Varies.ANALYSIS, Varies.AT_ONCE)

    @property
    def action(self) -> str:
        """What becomes of the work."""
        return "sent elsewhere" if self.next_state == "closed" else "given up; tried again while attempts are left"

    def hears(self, state: JobStatus) -> bool:
        """Whether it is about pilots that are not heard of: then only time counts in which they could be."""
        with_pilot = state in ON_NODE or self.when.own_stage_out
        return (self.since is Since.HEARTBEAT and with_pilot) or self.states == ("sent",)


def priority_limits(rules: Iterable[TimeRule]) -> list[int]:
    """The priorities from which on other rules are about a job.

    Example: one rule for priorities from 900 on and one for those up to 799: 800, 900.
    """
    limits = [(rule.when.least_priority, rule.when.most_priority) for rule in rules]
    least = {one for one, _ in limits if one is not None}
    return sorted(least | {one + 1 for _, one in limits if one is not None})


def _among(value: str, allowed: Iterable[str]) -> bool:
    return not allowed or value in allowed


def _or(words: Iterable[str]) -> str:
    return " or ".join(words)


def _narrower(name: str, mine: object, wanted: object) -> bool:
    """Whether what one condition asks leaves nothing but what another asks, of one field."""
    if wanted is None or wanted == () or (wanted is False and name != "analysis"):
        return True
    if isinstance(wanted, tuple):
        return isinstance(mine, tuple) and bool(mine) and set(mine) <= set(wanted)
    if name in ("least_priority", "no_start_for_h", "group_rests_for_h"):
        return isinstance(mine, int | float) and isinstance(wanted, int | float) and mine >= wanted
    if name == "most_priority":
        return isinstance(mine, int) and isinstance(wanted, int) and mine <= wanted
    return mine == wanted
