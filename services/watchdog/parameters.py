"""Every limit and period of the watchdog as a runtime parameter, read once per run.

Components and keys are the field's: `watcher` HEARTBEAT_TIMEOUT_<workflow> and `job_timeout` TIMEOUT_<state> (hours,
app pandaserver), `rebroker` FAST_REBRO_THRESHOLD_... (app pandaserver), `watchdog` PENDING_TIMEOUT_<label> (hours, app
jedi). The other keys of `watchdog` are our own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from services.watchdog.policy.jobs import ES_TOO_LONG, RULES, TRANSFERRING, JobTimeLimits
from services.watchdog.policy.rebrokerage import N_QUEUED, Thresholds
from services.watchdog.policy.tasks import PENDING_TIMEOUT, PendingLimits
from shared.config.parameter import SERVER, Parameter, set_by
from shared.config.parameters import Parameters

COMPONENT = "watchdog"
#: kinds of work that have a heartbeat limit of their own besides the workflows of the queues
_KINDS = ("production", "analysis")
#: labels that tasks carry
_LABELS = ("managed", "user", "panda", "prod_test", "ptest", "rc_test", "test")

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
HEARTBEAT_TIMEOUT = Parameter(
    "watcher",
    "HEARTBEAT_TIMEOUT",
    0.0,
    "h",
    "without a heartbeat; 0: as for all others",
    suffixes=(*_KINDS, "<workflow>"),
    only_family=True,
    app=SERVER,
)
SWEEP_AGE_S = Parameter(COMPONENT, "SWEEP_AGE_S", 60.0, "s", "until work whose state did not change is announced again")
WAIT_FOR_PICKED_S = Parameter(COMPONENT, "WAIT_FOR_PICKED_S", 1800.0, "s", "until a chunk that rests is taken back")
WAIT_FOR_ACHIEVED_S = Parameter(COMPONENT, "WAIT_FOR_ACHIEVED_S", 3600.0, "s", "until a task at its goal is finished")
WAIT_FOR_PAUSED_S = Parameter(
    COMPONENT, "WAIT_FOR_PAUSED_S", 600.0, "s", "until jobs of a paused task that no pilot can take yet are given back"
)
WAIT_FOR_EXHAUSTED_S = Parameter(
    COMPONENT, "WAIT_FOR_EXHAUSTED_S", 864_000.0, "s", "until an exhausted task that is not retried is finished"
)


def _every(key: str, default_s: float, means: str, low: float = 0.0) -> Parameter[float]:
    return Parameter(COMPONENT, key, default_s, "s", means, low)


@dataclass(frozen=True)
class Periods:
    """How often the watchdog looks, and the numbers that all its looks have in common."""

    heartbeat_interval_s: float = set_by(
        _every("HEARTBEAT_INTERVAL_S", 1800.0, "between two heartbeats of a pilot", 1), float
    )
    dispatcher_silence_s: float = set_by(
        _every("DISPATCHER_SILENCE_S", 180.0, "without any heartbeat: no pilot is taken for lost"), float
    )
    jobs_period_s: float = set_by(_every("JOBS_PERIOD_S", 60.0, "between looks at running jobs"), float)
    queued_period_s: float = set_by(_every("QUEUED_PERIOD_S", 300.0, "between looks at queued jobs"), float)
    #: the field's daemon looks about every 40 min: what was taken away must find its place before the next look
    rebrokerage_period_s: float = set_by(
        _every("FAST_REBRO_PERIOD_S", 2400.0, "between looks at overloaded queues"), float
    )
    rebrokerage_again_s: float = set_by(
        _every("FAST_REBRO_AGAIN_S", 21_600.0, "for which work that came back to a queue stays"), float
    )
    pending_period_s: float = set_by(_every("PENDING_PERIOD_S", 5.0, "between looks at waiting tasks"), float)
    throttle_period_s: float = set_by(_every("THROTTLE_PERIOD_S", 300.0, "between looks at failing tasks"), float)
    #: a multiple of so many attempts throttles a production task
    throttle_attempts: int = set_by(
        Parameter(COMPONENT, "THROTTLE_EVERY_ATTEMPTS", 5.0, "attempts", "that throttle a task; 0: never"), int
    )
    remind_again_s: float = set_by(_every("REMIND_AGAIN_S", 600.0, "between two reminders of the same task", 1), float)
    sweep_period_s: float = set_by(_every("SWEEP_PERIOD_S", 30.0, "between looks for work whose event was lost"), float)
    retention_period_s: float = set_by(
        _every("RETENTION_PERIOD_S", 300.0, "between looks for what is older than it may be"), float
    )
    most_jobs: int = set_by(
        Parameter(COMPONENT, "MAX_JOBS_PER_RUN", 5000.0, "jobs", "closed by one look at overloaded queues", 1), int
    )


class WatchLimits:
    """A view of the runtime parameters; every number has its unit in its name."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    @property
    def periods(self) -> Periods:
        return self._parameters.filled(Periods)

    def age_s(self, of: Parameter[float]) -> float:
        """How long a row of one sweep sits without moving before it is announced again."""
        return self._parameters.read(of)

    def jobs(self, workflows: Iterable[str]) -> JobTimeLimits:
        """Limits in hours; a workflow counts only if it has a limit of its own."""
        read = self._parameters.read
        hours = {rule.name: read(rule.limit) for rule in (*RULES, ES_TOO_LONG) if isinstance(rule.limit, Parameter)}
        hours[TRANSFERRING.name] = read(TRANSFERRING_SCALE)
        heartbeats = {}
        for workflow in sorted({*workflows, *_KINDS} - {""}):
            limit = read(HEARTBEAT_TIMEOUT, workflow)
            if limit > 0:
                heartbeats[workflow] = limit
        return JobTimeLimits(hours=hours, heartbeat_h=heartbeats)

    def pending(self) -> PendingLimits:
        timeouts = {label: self._parameters.read(PENDING_TIMEOUT, label) for label in ("", *_LABELS)}
        return replace(self._parameters.filled(PendingLimits), timeout_h=timeouts)

    def rebrokerage(self, gshares: Iterable[str]) -> Thresholds:
        """Of these shares those that have a threshold of their own."""
        limits = {gshare: self._parameters.read(N_QUEUED, gshare) for gshare in gshares}
        n_queued = {gshare: limit for gshare, limit in limits.items() if limit is not None}
        return replace(self._parameters.filled(Thresholds), n_queued=n_queued)

    @property
    def heartbeat_interval(self) -> timedelta:
        """How often a pilot reports: at least twice within the shortest heartbeat limit."""
        shortest = self.jobs(()).shortest_heartbeat
        return min(timedelta(seconds=self.periods.heartbeat_interval_s), shortest / 2)

    @property
    def dispatcher_silence(self) -> timedelta:
        return timedelta(seconds=self.periods.dispatcher_silence_s)
