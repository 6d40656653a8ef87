"""Whom a change of rules, parameters or queues concerns: rules are asked about them at once.

Digests of what rules ask are compared, of each state and of each queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from shared.states.job import LIVE
from shared.timeouts.limits import TimeLimits
from shared.timeouts.rule import TimeRule, Varies, WatchedQueue


@dataclass(frozen=True)
class Basis:
    """By what jobs are judged: digests of the rules and limits of each state, and of each queue.

    `moved_to`: jobs up to this id were asked about since `moved_states` and `moved_queues` changed; None: all were.
    """

    states: Mapping[str, str]
    queues: Mapping[str, str]
    moved_states: tuple[str, ...] = ()
    moved_queues: tuple[str, ...] = ()
    moved_to: int | None = None

    def differs(self, other: Basis) -> bool:
        """Whether jobs are judged otherwise by the two."""
        return (self.states, self.queues) != (other.states, other.queues)


def basis_of(rules: Sequence[TimeRule], limits: TimeLimits, queues: Mapping[str, WatchedQueue]) -> Basis:
    """What jobs are judged by now. When a job last started at a queue is no change of the queue."""
    states: dict[str, str] = {
        status: _digest([(repr(rule), _limit(rule, limits)) for rule in rules if status in rule.states])
        for status in LIVE
    }
    return Basis(states, {name: _digest(replace(one, last_job_start_at=None)) for name, one in queues.items()})


def changed(before: Basis, now: Basis) -> Basis:
    """The basis of now, with whom the change concerns besides those of earlier changes.

    They are looked for from the first job on.
    """
    states = {name for name, one in now.states.items() if before.states.get(name) != one}
    names = before.queues.keys() | now.queues.keys()
    queues = {name for name in names if before.queues.get(name) != now.queues.get(name)}
    return replace(
        now,
        moved_states=tuple(sorted({*before.moved_states, *states})),
        moved_queues=tuple(sorted({*before.moved_queues, *queues})),
        moved_to=0,
    )


def _limit(rule: TimeRule, limits: TimeLimits) -> object:
    """What is set for a rule, in a form that can be compared."""
    if rule.limit in (Varies.HEARTBEAT, Varies.OWN_HEARTBEAT):
        return sorted(limits.heartbeat_h.items())
    if rule.takes_group:
        return sorted(limits.analysis_h.items()), limits.came_back
    if isinstance(rule.limit, Varies):
        return limits.transferring_scale
    return limits.of(rule, WatchedQueue(), analysis=False)


def _digest(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=8).hexdigest()
