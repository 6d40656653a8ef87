"""Every limit and period of the watchdog as a runtime parameter, read once per run; the policy gets values.

Components and keys are the field's: `watcher` HEARTBEAT_TIMEOUT_<workflow> and `job_timeout` TIMEOUT_<state> (hours,
app pandaserver), `rebroker` FAST_REBRO_THRESHOLD_... (app pandaserver), `watchdog` PENDING_TIMEOUT_<label> (hours, app
jedi). The other keys of `watchdog` are our own.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from services.watchdog.policy.jobs import RULES, Limits
from services.watchdog.policy.rebrokerage import Thresholds
from services.watchdog.policy.tasks import PENDING_TIMEOUT_H, PendingLimits
from shared.config.parameters import Parameters

#: kinds of work that have a heartbeat limit of their own besides the workflows of the queues
_KINDS = ("production", "analysis")
#: labels that tasks carry
_LABELS = ("managed", "user", "panda", "prod_test", "ptest", "rc_test", "test")


class WatchLimits:
    """A view of the runtime parameters; every number has its unit in its name."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    def number(self, key: str, default: float) -> float:
        return self._parameters.get("watchdog", key, default=float(default))

    def jobs(self, workflows: Iterable[str]) -> Limits:
        """Limits in hours; a workflow counts only if it has a limit of its own."""
        get = self._parameters.get
        hours = {
            rule.name: get("job_timeout", rule.key, app="pandaserver", default=float(rule.limit_h))
            for rule in RULES
            if rule.key is not None
        }
        # one factor for the days that queues set themselves
        hours["transferring"] = get("job_timeout", "TIMEOUT_transferring_scale", app="pandaserver", default=1.0)
        heartbeats = {}
        for workflow in sorted({*workflows, *_KINDS} - {""}):
            limit = get("watcher", f"HEARTBEAT_TIMEOUT_{workflow}", app="pandaserver", default=0.0)
            if limit > 0:
                heartbeats[workflow] = limit
        return Limits(hours=hours, heartbeat_h=heartbeats)

    def pending(self) -> PendingLimits:
        timeouts = {
            label: self.number(f"PENDING_TIMEOUT_{label}", self.number("PENDING_TIMEOUT", PENDING_TIMEOUT_H))
            for label in ("", *_LABELS)
        }
        return PendingLimits(timeout_h=timeouts, wait_scale=self.number("PENDING_WAIT_SCALE", 1.0))

    def rebrokerage(self, gshares: Iterable[str]) -> Thresholds:
        """Of these shares those that have a threshold of their own."""
        get, default = self._parameters.get, Thresholds()
        limits = {
            gshare: get("rebroker", f"FAST_REBRO_THRESHOLD_NQUEUE_{gshare}", app="pandaserver", default=0.0)
            for gshare in gshares
        }
        return Thresholds(
            ratio=get("rebroker", "FAST_REBRO_THRESHOLD_NQNR_RATIO", app="pandaserver", default=default.ratio),
            fraction=get("rebroker", "FAST_REBRO_THRESHOLD_NQUEUE_FRAC", app="pandaserver", default=default.fraction),
            n_queued={gshare: limit for gshare, limit in limits.items() if limit > 0},
        )

    @property
    def heartbeat_interval(self) -> timedelta:
        """How often a pilot speaks: at least twice within the shortest heartbeat limit."""
        shortest = self.jobs(()).shortest_heartbeat
        return min(timedelta(seconds=self.number("HEARTBEAT_INTERVAL_S", 1800)), shortest / 2)

    @property
    def dispatcher_silence(self) -> timedelta:
        return timedelta(seconds=self.number("DISPATCHER_SILENCE_S", 180))

    @property
    def jobs_period_s(self) -> float:
        return self.number("JOBS_PERIOD_S", 60)

    @property
    def queued_period_s(self) -> float:
        return self.number("QUEUED_PERIOD_S", 300)

    @property
    def rebrokerage_period_s(self) -> float:
        """The field's daemon looks about every 40 min: what was taken away must find its place before the next look."""
        return self.number("FAST_REBRO_PERIOD_S", 2400)

    @property
    def rebrokerage_again_s(self) -> float:
        """Work that came back to the queue it was taken from is left there for so long."""
        return self.number("FAST_REBRO_AGAIN_S", 6 * 3600)

    @property
    def pending_period_s(self) -> float:
        return self.number("PENDING_PERIOD_S", 5)

    @property
    def throttle_period_s(self) -> float:
        return self.number("THROTTLE_PERIOD_S", 300)

    @property
    def throttle_attempts(self) -> int:
        """A multiple of so many attempts throttles a production task; 0: never."""
        return max(0, int(self.number("THROTTLE_EVERY_ATTEMPTS", 5)))

    @property
    def remind_again_s(self) -> float:
        return self.number("REMIND_AGAIN_S", 600)

    @property
    def sweep_period_s(self) -> float:
        return self.number("SWEEP_PERIOD_S", 30)

    @property
    def sweep_age_s(self) -> float:
        """A row that sat for so long without moving is announced again."""
        return self.number("SWEEP_AGE_S", 60)

    @property
    def most_jobs(self) -> int:
        """Jobs ended by one look at overloaded queues, and at most in one transaction."""
        return int(self.number("MAX_JOBS_PER_RUN", 5000))
