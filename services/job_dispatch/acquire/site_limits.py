"""Running limits and matching delays of sites, as a process knows them (DIRAC: matching).

What runs is read every ten seconds and soon after news of jobs that were handed out; what this process hands out in
between is counted at once. It is a hint that saves questions: PostgreSQL permits each job that is meant
(`site_permits`), so that all dispatchers together keep a limit.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shared.config.parameter import Parameter
from shared.config.parameters import Parameters
from shared.order.identity import TaskQueueIdentity
from shared.order.parameters import MATCHING_DELAYS, RUNNING_LIMITS
from shared.order.site_limits import InvalidLimits, SiteRule, room, rules_of_vos

log = logging.getLogger(__name__)

#: a rule by its place among all of its kind, and the site that it is asked for
_At = tuple[int, str]


class RulesAt(NamedTuple):
    """The limits and the delays that a job is meant by."""

    limits: Sequence[_At]
    delays: Sequence[_At]


@dataclass
class _Grant:
    """A job that this process picked and that no reading has counted yet."""

    limits: Sequence[_At]
    delays: Sequence[tuple[_At, float]]
    claimed_at: float | None = None


class SiteLimits:
    """One per process; `clock` is its monotonic clock."""

    def __init__(self, parameters: Parameters, clock: Callable[[], float]) -> None:
        self._parameters = parameters
        self._clock = clock
        self._config_version = -1
        self._limits: tuple[SiteRule, ...] = ()
        self._delays: tuple[SiteRule, ...] = ()
        self._rooms: dict[_At, int] = {}
        self._granted: Counter[_At] = Counter()
        self._until: dict[_At, float] = {}
        self._meant: dict[tuple[str, int], tuple[Sequence[_At], Sequence[_At]]] = {}
        self._grants: dict[int, _Grant] = {}
        self._next_end = float("inf")
        self._version = 0

    @property
    def has_rules(self) -> bool:
        """Whether any limit or delay is configured."""
        return bool(self._limits or self._delays)

    def version(self) -> int:
        """What was held back may be let go since another version."""
        if self._until and self._clock() >= self._next_end:
            self._version += 1
            now = self._clock()
            self._next_end = min((end for end in self._until.values() if end > now), default=float("inf"))
        return self._version

    def configure(self) -> None:
        """Read the rules where the configuration changed; if one is wrong they stay as they were."""
        if self._config_version == self._parameters.version:
            return
        self._config_version = self._parameters.version
        try:
            limits, delays = self._rules_set(RUNNING_LIMITS), self._rules_set(MATCHING_DELAYS)
        except InvalidLimits as error:
            log.error("limits of sites are left as they were: %s", error)
            return
        if (limits, delays) != (self._limits, self._delays):
            self._limits, self._delays = limits, delays
            self._meant.clear()
            self._rooms.clear()
            self._granted.clear()
            self._grants.clear()
            self._until.clear()
            self._version += 1

    def _rules_set(self, parameter: Parameter[Any]) -> tuple[SiteRule, ...]:
        """The rules for every VO and those of VOs that have their own. Raises InvalidLimits."""
        read = self._parameters.read
        by_vo = {vo: read(parameter, vo=vo) for vo in self._parameters.vos_of(parameter)}
        return rules_of_vos(read(parameter), by_vo, parameter.key)

    def were_read(self, running: Iterable[tuple[str, TaskQueueIdentity, int]], read_at: float) -> None:
        """Count what runs (site, task queue, how many) by a reading that began at `read_at`."""
        self._meant.clear()  # task queues that have ended are not kept
        counted: Counter[_At] = Counter()
        for site, identity, count in running:
            for number, rule in enumerate(self._limits):
                if rule.means(site, identity):
                    counted[number, site] += count
        for job_id, grant in list(self._grants.items()):
            if grant.claimed_at is not None and grant.claimed_at < read_at:
                self._granted.subtract(grant.limits)
                del self._grants[job_id]
        before = self._rooms
        self._rooms = {at: room(self._limits[at[0]].number, n) for at, n in counted.items()}
        if any(self._left(at) > 0 for at, left in before.items() if left <= 0) or before.keys() - self._rooms.keys():
            self._version += 1

    def sites_changed(self) -> None:
        """Forget which rules mean a task queue at a queue, which may be at another site."""
        self._meant.clear()
        self._version += 1

    def meant(self, job_id: int) -> RulesAt | None:
        """The rules that a job is meant by which this process picked; None: by none."""
        grant = self._grants.get(job_id)
        return None if grant is None else RulesAt(grant.limits, [at for at, _ in grant.delays])

    def rule(self, at: _At) -> SiteRule:
        """The limit at this place."""
        return self._limits[at[0]]

    def delay(self, at: _At) -> tuple[str, float]:
        """The name of a delay at a site, the same in every process, and its seconds."""
        rule = self._delays[at[0]]
        whose = "" if rule.vo is None else f" of VO {rule.vo}"
        return f"{rule.criteria.text}{whose} at {at[1]} by {rule.site}", rule.number

    def refused(self, job_id: int, full: Iterable[_At], delayed: Mapping[_At, float]) -> None:
        """Note that limits are reached by what others handed out, and that delays go on for so many seconds."""
        for at in full:
            self._rooms[at] = min(self._left(at), 0)
        grant = self._grants.get(job_id)
        if grant is not None:
            now = self._clock()
            grant.delays = [(at, now + delayed[at] if at in delayed else until) for at, until in grant.delays]

    def _left(self, at: _At) -> int:
        given = self._rooms.get(at)
        if given is None:
            given = room(self._limits[at[0]].number, 0)
        return given - self._granted[at]

    def _rules(
        self, sites: Mapping[str, str], queue: str, number: int, identity: TaskQueueIdentity
    ) -> tuple[Sequence[_At], Sequence[_At]]:
        """The limits and delays that a task queue is meant by, at a queue."""
        found = self._meant.get((queue, number))
        if found is None:
            site = sites.get(queue, queue)
            found = self._meant[queue, number] = (
                _meant(self._limits, site, identity),
                _meant(self._delays, site, identity),
            )
        return found

    def held(self, sites: Mapping[str, str], queue: str, number: int, identity: TaskQueueIdentity) -> SiteRule | None:
        """The rule that holds jobs of a task queue back at a queue now, or None.

        `sites`: of each queue; `number`: of the task queue.
        """
        limits, delays = self._rules(sites, queue, number, identity)
        for at in limits:
            if self._left(at) <= 0:
                return self._limits[at[0]]
        for at in delays:
            if self._clock() < self._until.get(at, 0.0):
                return self._delays[at[0]]
        return None

    def picked(
        self, sites: Mapping[str, str], queue: str, number: int, identity: TaskQueueIdentity, job_id: int
    ) -> None:
        """Count a job from now on: it is being claimed."""
        limits, delays = self._rules(sites, queue, number, identity)
        if not limits and not delays:
            return
        self._grants[job_id] = _Grant(limits, [(at, self._until.get(at, 0.0)) for at in delays])
        self._granted.update(limits)
        for at in delays:
            self._until[at] = self._clock() + self._delays[at[0]].number
            self._next_end = min(self._next_end, self._until[at])

    def claimed(self, job_ids: Iterable[int]) -> None:
        """Note that these were handed out, by this process or another."""
        for job_id in job_ids if self._grants else ():
            grant = self._grants.get(job_id)
            if grant is not None:
                grant.claimed_at = self._clock()

    def not_claimed(self, job_id: int) -> None:
        """Take back a pick that came to nothing: it does not count, and delays nothing."""
        grant = self._grants.pop(job_id, None)
        if grant is not None:
            self._granted.subtract(grant.limits)
            self._until.update(grant.delays)
            self._version += 1


def _meant(rules: Sequence[SiteRule], site: str, identity: TaskQueueIdentity) -> Sequence[_At]:
    return tuple((number, site) for number, rule in enumerate(rules) if rule.means(site, identity))
