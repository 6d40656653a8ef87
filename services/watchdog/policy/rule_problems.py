"""What is wrong with time-out rules that a VO wants to add: each problem names its rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from shared.model.problems import FieldProblem
from shared.model.queue import QueueStatus
from shared.model.task_spec_problems import problem
from shared.states import JOB, Owner
from shared.states.job import LIVE, ON_NODE
from shared.timeouts.added import NEXT_STATES
from shared.timeouts.limits import DEFAULTS, TimeLimits
from shared.timeouts.rule import Since, TimeRule, Varies, WatchedQueue

#: within a minute nothing can be expected; a limit of years is none
SHORTEST_H, LONGEST_H = 1 / 60, 24 * 366.0
#: of a queue whose rules may fire: at a paused one all are off
STATUSES = tuple(status.value for status in QueueStatus if status is not QueueStatus.PAUSED)


def problems_of(
    added: Sequence[TimeRule], others: Sequence[TimeRule], limits: TimeLimits = DEFAULTS
) -> list[FieldProblem]:
    """Everything that is wrong with a set of rules.

    `others` stay, with these limits in force.
    """
    found = [one for rule in added for one in _of_rule(rule)]
    times = Counter(rule.name for rule in (*added, *others))
    for name in sorted({rule.name for rule in added}):
        if times[name] > 1:
            found.append(problem(f"rules.{name}.name", name, f"{times[name]} rules have it; allowed: one of its own"))
    if found:
        return found
    return [one for place, rule in enumerate(added) for one in _beside(rule, added[:place], others, limits)]


def _of_rule(rule: TimeRule) -> Iterator[FieldProblem]:
    """What no rule may say, whatever others say."""
    where, when = f"rules.{rule.name}", rule.when
    unknown = [state for state in rule.states if state not in LIVE]
    if unknown or not rule.states:
        yield problem(f"{where}.states", unknown or None, f"allowed: {', '.join(LIVE)}")
        return
    if not isinstance(rule.limit, float) or not SHORTEST_H <= rule.limit <= LONGEST_H:
        yield problem(f"{where}.limit_h", rule.limit, f"allowed: from {SHORTEST_H:.4f} to {LONGEST_H:g} (h)")
    if rule.next_state not in NEXT_STATES:
        yield problem(f"{where}.next_state", rule.next_state, f"allowed: {', '.join(NEXT_STATES)}")
        return
    stuck = [state for state in rule.states if state not in JOB.sources(rule.next_state, Owner.WATCHDOG)]
    if stuck:
        yield problem(
            f"{where}.next_state", rule.next_state, f"impossible: no job goes there that is {', '.join(stuck)}"
        )
    silent = [state for state in rule.states if state not in ON_NODE]
    if rule.since is Since.HEARTBEAT and silent:
        yield problem(
            f"{where}.since", rule.since.value, f"impossible: nobody reports a job that is {', '.join(silent)}"
        )
    if None not in (when.least_priority, when.most_priority) and (when.least_priority or 0) > (when.most_priority or 0):
        yield problem(f"{where}.when", when.text, "impossible: no priority is as high and as low")
    wrong = [status for status in when.queue_statuses if status not in STATUSES]
    if wrong:
        yield problem(f"{where}.when.queue_statuses", wrong, f"impossible or unknown; allowed: {', '.join(STATUSES)}")
    if when.no_start_for_h is not None and not 0 < when.no_start_for_h <= LONGEST_H:
        yield problem(
            f"{where}.when.no_start_for_h", when.no_start_for_h, f"allowed: more than 0, to {LONGEST_H:g} (h)"
        )


def _beside(
    rule: TimeRule, before: Sequence[TimeRule], others: Sequence[TimeRule], limits: TimeLimits
) -> Iterator[FieldProblem]:
    """What it says that another says already: it overlaps one of its set, or never fires because of one."""
    for other in before:
        if _share_jobs(rule, other) and not _narrows(rule, other) and not _narrows(other, rule):
            yield problem(
                f"rules.{rule.name}.when",
                rule.when.text,
                f"overlaps {other.name}: both are about some jobs, and neither is the special case of the other",
            )
    for other in (*before, *others):
        states = [state for state in rule.states if _ends_first(other, rule, limits)]
        if states and set(rule.states) <= set(other.states) and rule.when.within(other.when):
            yield problem(
                f"rules.{rule.name}.limit_h",
                rule.limit,
                f"unreachable: {other.name} ends these jobs no later; allowed: a shorter limit",
            )


def _share_jobs(one: TimeRule, other: TimeRule) -> bool:
    return one.since is other.since and bool(set(one.states) & set(other.states)) and one.when.meets(other.when)


def _narrows(special: TimeRule, general: TimeRule) -> bool:
    """Whether a rule is about part of the jobs of another, and says so."""
    return (
        set(special.states) <= set(general.states)
        and special.when != general.when
        and special.when.within(general.when)
    )


def _ends_first(other: TimeRule, rule: TimeRule, limits: TimeLimits) -> bool:
    """Whether another ends every job by the time that this one would; with limits of queues nobody knows."""
    if other.since is not rule.since or isinstance(other.limit, Varies):
        return False
    found = limits.of(other, WatchedQueue(), analysis=False)
    return found is not None and found.total_seconds() <= 3600 * float(rule.default_h or 0)
