"""Every limit and period of the watchdog as a runtime parameter, read once per run.

Components and keys are the field's: `rebroker` FAST_REBRO_THRESHOLD_... (app pandaserver), `watchdog`
PENDING_TIMEOUT_<label> (hours, app jedi). The other keys of `watchdog` are our own. Limits of jobs are declared with
their rules, and those of outages beside them (`shared.timeouts`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from services.watchdog.policy.rebrokerage import N_QUEUED, Thresholds
from services.watchdog.policy.tasks import PENDING_TIMEOUT, PendingLimits
from shared.config.parameter import Parameter, set_by
from shared.config.parameters import Parameters
from shared.timeouts.built_in import CAME_BACK_S

COMPONENT = "watchdog"
#: labels that tasks carry
_LABELS = ("managed", "user", "panda", "prod_test", "ptest", "rc_test", "test")

SWEEP_AGE_S = Parameter(COMPONENT, "SWEEP_AGE_S", 30.0, "s", "until work whose state did not change is announced again")
WAIT_FOR_PICKED_S = Parameter(COMPONENT, "WAIT_FOR_PICKED_S", 1800.0, "s", "until a chunk that rests is taken back")
WAIT_FOR_ACHIEVED_S = Parameter(COMPONENT, "WAIT_FOR_ACHIEVED_S", 3600.0, "s", "until a task at its goal is finished")
WAIT_FOR_PAUSED_S = Parameter(
    COMPONENT, "WAIT_FOR_PAUSED_S", 600.0, "s", "until jobs of a paused task that no pilot can take yet are given back"
)
WAIT_FOR_EXHAUSTED_S = Parameter(
    COMPONENT, "WAIT_FOR_EXHAUSTED_S", 864_000.0, "s", "until an exhausted task that is not retried is finished"
)


def _every(key: str, default_s: float, means: str, low: float = 0.0, high: float | None = None) -> Parameter[float]:
    return Parameter(COMPONENT, key, default_s, "s", means, low, high)


@dataclass(frozen=True)
class Periods:
    """How often the watchdog looks, and the numbers that all its looks have in common."""

    jobs_period_s: float = set_by(_every("JOBS_PERIOD_S", 60.0, "between looks at jobs whose deadline has come"), float)
    #: the field's daemon looks about every 40 min: what was taken away must find its place before the next look
    rebrokerage_period_s: float = set_by(
        _every("FAST_REBRO_PERIOD_S", 2400.0, "between looks at overloaded queues"), float
    )
    rebrokerage_again_s: float = set_by(CAME_BACK_S, float)
    pending_period_s: float = set_by(
        _every("PENDING_PERIOD_S", 5.0, "between looks at waiting tasks", 0.0, 60.0), float
    )
    throttle_period_s: float = set_by(_every("THROTTLE_PERIOD_S", 300.0, "between looks at failing tasks"), float)
    #: a multiple of so many attempts throttles a production task
    throttle_attempts: int = set_by(
        Parameter(COMPONENT, "THROTTLE_EVERY_ATTEMPTS", 5.0, "attempts", "that throttle a task; 0: never"), int
    )
    filling_period_s: float = set_by(_every("FILLING_PERIOD_S", 300.0, "between looks at empty queues"), float)
    withhold_period_s: float = set_by(_every("WITHHOLD_PERIOD_S", 300.0, "between looks at busy sites"), float)
    deadlines_period_s: float = set_by(
        _every("DEADLINES_PERIOD_S", 60.0, "between looks at tasks with a deadline"), float
    )
    deadline_again_s: float = set_by(
        _every("DEADLINE_AGAIN_S", 600.0, "until the end of the same task is worked out again", 1), float
    )
    nearly_done_period_s: float = set_by(
        _every("NEARLY_DONE_PERIOD_S", 300.0, "between looks at analysis of class S"), float
    )
    remind_again_s: float = set_by(_every("REMIND_AGAIN_S", 600.0, "between two reminders of the same task", 1), float)
    sweep_period_s: float = set_by(_every("SWEEP_PERIOD_S", 20.0, "between looks for work whose event was lost"), float)
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

    def pending(self) -> PendingLimits:
        timeouts = {label: self._parameters.read(PENDING_TIMEOUT, label) for label in ("", *_LABELS)}
        return replace(self._parameters.filled(PendingLimits), timeout_h=timeouts)

    def rebrokerage(self, gshares: Iterable[str]) -> Thresholds:
        """Of these shares those that have a threshold of their own."""
        limits = {gshare: self._parameters.read(N_QUEUED, gshare) for gshare in gshares}
        n_queued = {gshare: limit for gshare, limit in limits.items() if limit is not None}
        return replace(self._parameters.filled(Thresholds), n_queued=n_queued)
