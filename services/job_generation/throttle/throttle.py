"""Decides whether enough jobs are queued already, with reason and numbers.

Sources: JEDI, Job throttling; PanDA, job throttler. One gate for each share and resource type; event service is judged
as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from services.job_generation.throttle.gate_order import WaitingTask
from shared.config.parameter import SHARE, Parameter
from shared.states.job import JobStatus

NOT_RUNNING: tuple[JobStatus, ...] = ("assigned", "activated", "starting")
RUNNING: tuple[JobStatus, ...] = ("running", "sent")
#: jobs that chunks on their way through brokerage may become
OFFERED: Literal["offered"] = "offered"
CountedStatus = JobStatus | Literal["offered"]
UNTHROTTLED_LABELS = ("test", "ptest", "install")


#: components: for each kind of work, and for what holds for both
PRODUCTION, ANALYSIS, BASE = "prod_job_throttler", "anal_job_throttler", "base_job_throttler"
THROTTLE_THRESHOLD = Parameter(
    PRODUCTION, "THROTTLE_THRESHOLD", 2.0, "", "queued to running from which jobs are throttled", also_in=(ANALYSIS,)
)


def _cap(key: str, means: str) -> Parameter[int | None]:
    return Parameter(
        PRODUCTION,
        key,
        None,
        "jobs",
        means,
        -1,
        kind="int",
        also_in=(ANALYSIS, BASE),
        suffixes=(SHARE, f"{SHARE}_<resource type>", f"{SHARE}_MCORE*", f"{SHARE}_SCORE*"),
    )


SHORTAGE_THRESHOLD = Parameter(
    PRODUCTION, "THROTTLE_THRESHOLD_FOR_WORK_SHORTAGE", 2.0, "", "the same while work is short", also_in=(ANALYSIS,)
)
WORK_SHORTAGE = Parameter("core", "WORK_SHORTAGE", False, "", "whether work is short: queues may hold more of it")
N_QUEUE_LIMIT = _cap("NQUEUELIMIT", "queued ones always allowed; -1: 4 x bunch")
N_QUEUE_CAP = _cap("NQUEUECAP", "queued ones never exceeded; -1: not set")
N_RUNNING_CAP = _cap("NRUNNINGCAP", "running ones never exceeded; -1: not set")


#: work queues that are judged over all resource types, because their tasks make jobs of several
JUDGED_WHOLE = frozenset({"eventservice"})
ALL_TYPES = "*"


@dataclass(frozen=True)
class ThrottleScope:
    """What is judged together: a share, or a work queue that is throttled by itself, and a resource type.

    `work_queue_id`: of such a work queue, whatever share its tasks have (JEDI: Job throttling); they are judged with
    their share as well. The resource type is
    ALL_TYPES for one that is judged as a whole.
    """

    gshare: str
    resource_type: str
    work_queue_id: int | None = None

    @property
    def cap(self) -> str:
        """How a waiting task names it beside its share: SCORE, or SCORE@7 for the work queue 7."""
        return self.resource_type if self.work_queue_id is None else f"{self.resource_type}@{self.work_queue_id}"

    @classmethod
    def of_cap(cls, gshare: str, cap: str) -> ThrottleScope:
        """The scope that a waiting task names."""
        resource_type, _, queue_id = cap.partition("@")
        return cls(gshare, resource_type, int(queue_id)) if queue_id else cls(gshare, resource_type)


@dataclass(frozen=True)
class ThrottleLimits:
    """None means no such limit, for `n_queue_limit` 4 x bunch."""

    threshold: float = THROTTLE_THRESHOLD.default
    n_queue_limit: int | None = N_QUEUE_LIMIT.default
    n_queue_cap: int | None = N_QUEUE_CAP.default
    n_running_cap: int | None = N_RUNNING_CAP.default


#: shares of few large tasks: as much as their limit leaves is made at a time
GROWING_SHARES = frozenset({"Heavy Ion", "Reprocessing default"})
#: queued work that is shorter than that in all is not enough, however many jobs it is
ENOUGH_WALLTIME_S = 5e7
#: assigned, activated and starting jobs below which tasks as urgent as what is queued still go on
FEW_NOT_RUNNING = 500
SMALLEST_BUNCH, LARGEST_BUNCH = 500, 600
USER_LABEL = "user"


@dataclass(frozen=True)
class ThrottleDecision:
    """`max_jobs`: how many may be made now; zero when throttled.

    `min_priority`: only tasks as urgent as that go on. `rule`: the one that stopped generation; empty for a pass.
    """

    passes: bool
    reason: str
    max_jobs: int
    numbers: Mapping[str, float]
    rule: str = ""
    min_priority: int | None = None

    @property
    def depends_on_walltime(self) -> bool:
        """Whether it may be otherwise once the walltime of what is queued is known."""
        return self.rule in ("nothing runs", "queued to running")

    @property
    def has_room_for_all(self) -> bool:
        """Whether nobody has to wait for others: less than 0.9 x the limit is queued, or than runs."""
        queued = sum(self.numbers[name] for name in ("not_running", "defined", "offered"))
        is_low = queued < 0.9 * self.numbers["queue_limit"] or queued < self.numbers["running"]
        return self.passes and self.min_priority is None and is_low

    @property
    def may_be_jumped(self) -> bool:
        """Whether more urgent tasks go on nevertheless: by any rule but the cap on running jobs."""
        return not self.passes and self.rule != "running cap"


@dataclass(frozen=True)
class Gate:
    """What is known of a share and resource type besides its jobs.

    `queued_walltime_s` None: not known. `is_whole`: event service, over all resource types.
    """

    queued_walltime_s: float | None = None
    is_whole: bool = False
    grows: bool = False


def judge(
    counts: Mapping[CountedStatus, int],
    limits: ThrottleLimits,
    *,
    share_is_throttled: bool = True,
    gate: Gate = Gate(),
) -> ThrottleDecision:
    """Decide for one share or Resource queue, and resource type, from its jobs by state.

    bunch = min(max(500, int(running x T - not running)), 600); queue limit = configured, else 4 x bunch; the number of
    jobs is bunch / 2, or a fifth of the cap on queued jobs; with less than 0.9 x the limit queued, or less than run, it
    is at least a twentieth of the limit. The limit is one for all tasks and chunks of the share: jobs that offered
    chunks may still become (`offered`) count as queued.

    The first rule that matches stops generation: nothing runs and queued > limit; queued / running > T and queued >
    limit; defined > limit; waiting > max(4 x running, 2 x bunch); running > its cap; queued > its cap.

    Work that is queued counts as enough only if its walltime is not known or above 5e7 s; event service is not asked.

    Example: 100 running, 150 activated and 1900 offered jobs have a bunch of 500 and a limit of 2000: with 2050 queued
    nothing is made, unless these are known to take 4e7 s together: then 250 are made. Source: PanDA, job throttler.
    """
    found = _Numbers.of(counts, limits, gate)
    stopped = _stopped_by(found, limits, gate) if share_is_throttled else None
    if stopped is not None:
        rule, reason = stopped
        return ThrottleDecision(False, reason, 0, found.told(limits), rule)
    max_jobs = found.max_jobs(limits)
    if found.queued < 0.9 * found.limit or found.queued < found.running:
        max_jobs = max(max_jobs, found.limit // 20)
    return ThrottleDecision(True, "not enough jobs are queued", max_jobs, found.told(limits))


@dataclass(frozen=True)
class _Numbers:
    """What rules compare."""

    running: int
    not_running: int
    defined: int
    offered: int
    waiting: int
    bunch: int
    limit: int

    @classmethod
    def of(cls, counts: Mapping[CountedStatus, int], limits: ThrottleLimits, gate: Gate) -> _Numbers:
        """Jobs by status as the rules add them up, with bunch and limit (JEDI: Job throttling)."""
        running = sum(counts.get(state, 0) for state in RUNNING)
        not_running = sum(counts.get(state, 0) for state in NOT_RUNNING)
        defined, offered = counts.get("defined", 0), counts.get(OFFERED, 0)
        bunch = min(max(SMALLEST_BUNCH, int(running * limits.threshold - not_running)), LARGEST_BUNCH)
        limit = limits.n_queue_limit if limits.n_queue_limit is not None else 4 * bunch
        if gate.grows:
            bunch = min(max(bunch, limit - not_running - defined - offered), LARGEST_BUNCH)
        return cls(running, not_running, defined, offered, counts.get("waiting", 0), bunch, limit)

    @property
    def queued(self) -> int:
        """Jobs that wait for a queue or at one, and those that offered chunks may become."""
        return self.not_running + self.defined + self.offered

    def max_jobs(self, limits: ThrottleLimits) -> int:
        """The most jobs of a chunk: a fifth of the cap, or half a bunch where none is set."""
        return self.bunch // 2 if limits.n_queue_cap is None else max(1, limits.n_queue_cap // 5)

    def told(self, limits: ThrottleLimits) -> dict[str, float]:
        """The numbers of a decision, for people."""
        return {
            "running": self.running, "not_running": self.not_running, "defined": self.defined,
            "offered": self.offered, "waiting": self.waiting, "threshold": limits.threshold,
            "queue_limit": self.limit, "bunch": self.bunch,
        }  # fmt: skip


def _stopped_by(found: _Numbers, limits: ThrottleLimits, gate: Gate) -> tuple[str, str] | None:
    """The first rule that stops generation, and its reason; in the order of the document."""
    queued, running, limit = found.queued, found.running, found.limit
    walltime = gate.queued_walltime_s
    enough = gate.is_whole or walltime is None or walltime > ENOUGH_WALLTIME_S
    if running == 0 and queued > limit and enough:
        return "nothing runs", f"nothing runs and {queued} queued jobs are more than the limit {limit}"
    if running and queued / running > limits.threshold and queued > limit and enough:
        return (
            "queued to running",
            f"{queued} queued jobs are more than {limits.threshold:g} x {running} running and {limit}",
        )
    if found.defined > limit:
        return "defined", f"{found.defined} defined jobs are more than the limit {limit}"
    most_waiting = max(4 * running, 2 * found.bunch)
    if found.waiting > most_waiting:
        return "waiting", f"{found.waiting} waiting jobs are more than {most_waiting}"
    if limits.n_running_cap is not None and running > limits.n_running_cap:
        return "running cap", f"{running} running jobs are more than the cap {limits.n_running_cap}"
    if limits.n_queue_cap is not None and queued > limits.n_queue_cap:
        return "queued cap", f"{queued} queued jobs are more than the cap {limits.n_queue_cap}"
    return None


def with_priorities(
    decision: ThrottleDecision, limits: ThrottleLimits, waiting: int | None, queued: int | None
) -> ThrottleDecision:
    """A stop becomes a pass for the most urgent tasks alone, if few jobs as urgent are queued already.

    `waiting`: the highest priority of tasks that may make jobs; `queued`: that of tasks with queued jobs, None where no
    such task is known. They go on if theirs is higher, or if it is the same and less than 500 jobs are assigned,
    activated or starting. So for equally urgent tasks limits and caps below 500 have no effect: only the cap on running
    jobs has. Chunks on their way are the same round: together, equally urgent tasks get the number of one.

    Example: with jobs of priority 500 queued, tasks of 900 go on where those of 500 have enough; those of 500 go on,
    too, while 499 jobs are activated, whatever is defined. Source: PanDA, job throttler.
    """
    if not decision.may_be_jumped or waiting is None or queued is None or waiting < queued:
        return decision
    max_jobs = int(decision.numbers["bunch"]) // 2 if limits.n_queue_cap is None else max(1, limits.n_queue_cap // 5)
    if waiting == queued:
        max_jobs -= int(decision.numbers["offered"])
        if decision.numbers["not_running"] >= FEW_NOT_RUNNING or max_jobs <= 0:
            return decision
    reason = f"{decision.reason}; tasks of priority {waiting} go on, the most urgent that is queued is {queued}"
    numbers = {**decision.numbers, "waiting_priority": waiting}
    return replace(decision, passes=True, reason=reason, max_jobs=max_jobs, numbers=numbers, min_priority=waiting)


def for_task(decision: ThrottleDecision, priority: int) -> ThrottleDecision:
    """The decision for a task of this priority."""
    if decision.min_priority is None or priority >= decision.min_priority:
        return decision
    return replace(decision, passes=False, max_jobs=0)


def scaled(decision: ThrottleDecision, factor: float) -> ThrottleDecision:
    """The decision with the part of its number that the share gets while others want the same resources."""
    if not decision.passes or factor >= 1:
        return decision
    numbers = {**decision.numbers, "fair_share": round(factor, 3)}
    return replace(decision, max_jobs=max(1, int(decision.max_jobs * factor)), numbers=numbers)


def held_behind(decision: ThrottleDecision, ahead: Sequence[WaitingTask]) -> ThrottleDecision:
    """A pass becomes a stop for a task while others wait that are served before it."""
    if not ahead or not decision.passes:
        return decision
    first = ahead[0]
    reason = f"{len(ahead)} tasks are served before, the first is {first.task_id} of priority {first.priority}"
    numbers = {**decision.numbers, "tasks_ahead": len(ahead)}
    return replace(decision, passes=False, reason=reason, max_jobs=0, numbers=numbers, rule="turn")
