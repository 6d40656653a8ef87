"""The limits in force: runtime parameters, and what queues set, as times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from shared.config.parameter import Parameter
from shared.config.parameters import Parameters
from shared.timeouts.built_in import (
    ANALYSIS_TIMEOUT,
    CAME_BACK_S,
    HEARTBEAT,
    HEARTBEAT_TIMEOUT,
    KINDS_OF_WORK,
    SENT,
    TRANSFERRING_SCALE,
)
from shared.timeouts.rule import TimeRule, Varies, WatchedQueue

#: what a queue states beyond this is no limit anybody lives to see
LONGEST_DAYS = 3650.0


@dataclass(frozen=True)
class TimeLimits:
    """Limits in hours from runtime parameters: by rule, and for heartbeats by workflow or kind of work.

    `added_silence_h`: the longest of rules about silent pilots that VOs added. `analysis_h`: by working group, "" all
    others. `came_back`: for which work that came back to a queue stays.
    """

    hours: Mapping[str, float] = field(default_factory=dict)
    heartbeat_h: Mapping[str, float] = field(default_factory=dict)
    transferring_scale: float = 1.0
    added_silence_h: float = 0.0
    analysis_h: Mapping[str, float] = field(default_factory=dict)
    came_back: timedelta = timedelta(seconds=CAME_BACK_S.default)

    def of(self, rule: TimeRule, queue: WatchedQueue, *, analysis: bool, working_group: str = "") -> timedelta | None:
        """How long a job may stay in the state that the rule watches; None: the rule is off there."""
        if rule.takes_group:
            hours = self.analysis_h.get(working_group, self.analysis_h.get("", ANALYSIS_TIMEOUT.default))
            found = timedelta(hours=hours) if rule.limit is Varies.ANALYSIS else timedelta()
            return found if hours > 0 else None
        hours = self._hours(rule, queue, analysis=analysis)
        return timedelta(hours=hours) if hours > 0 else None

    def _hours(self, rule: TimeRule, queue: WatchedQueue, *, analysis: bool) -> float:
        if rule.limit is Varies.HEARTBEAT:
            default = self.heartbeat_h.get("analysis" if analysis else "production", rule.default_h or 0.0)
            return self.heartbeat_h.get(queue.workflow, default)
        if rule.limit is Varies.OWN_HEARTBEAT:
            return self.heartbeat_h.get(queue.workflow, 0.0)
        if rule.limit in (Varies.HIGH_DAYS, Varies.LOW_DAYS):
            days = queue.transfer_time_high_days if rule.limit is Varies.HIGH_DAYS else queue.transfer_time_low_days
            return min(days * self.transferring_scale, LONGEST_DAYS) * 24
        return self.hours.get(rule.name, rule.default_h or 0.0)

    @property
    def shortest_heartbeat(self) -> timedelta:
        """No pilot is lost before this."""
        return timedelta(hours=min([HEARTBEAT.default_h or 0.0, *self.heartbeat_h.values()]))

    @property
    def longest_silence(self) -> timedelta:
        """By then every pilot that nobody hears is lost."""
        added = (self.hours.get(SENT.name, 0.0), self.added_silence_h)
        return timedelta(hours=max([HEARTBEAT.default_h or 0.0, *added, *self.heartbeat_h.values()]))


DEFAULTS = TimeLimits()


def limits_of(parameters: Parameters, rules: Sequence[TimeRule], workflows: Iterable[str]) -> TimeLimits:
    """Read the limits of these rules; a workflow counts only if it has a heartbeat limit of its own."""
    read = parameters.read
    heartbeats = {name: read(HEARTBEAT_TIMEOUT, name) for name in sorted({*workflows, *KINDS_OF_WORK} - {""})}
    return TimeLimits(
        hours={rule.name: read(rule.limit) for rule in rules if isinstance(rule.limit, Parameter)},
        heartbeat_h={name: hours for name, hours in heartbeats.items() if hours > 0},
        transferring_scale=read(TRANSFERRING_SCALE),
        added_silence_h=max((hours for rule in rules for hours in _added_silence(rule)), default=0.0),
        analysis_h={
            "": read(ANALYSIS_TIMEOUT),
            **{group: read(ANALYSIS_TIMEOUT, group) for group in parameters.names_of(ANALYSIS_TIMEOUT)},
        },
        came_back=timedelta(seconds=read(CAME_BACK_S)),
    )


def _added_silence(rule: TimeRule) -> Iterator[float]:
    if isinstance(rule.limit, float) and any(rule.hears(state) for state in rule.states):
        yield rule.limit
