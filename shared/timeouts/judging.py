"""Which rule ends a job, which is next and when, and the latest times that are too early. Pure.

The first rule in order whose limit has passed decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.model.co_jumbo import CO_JUMBO_QUEUE
from shared.states.job import JobStatus
from shared.timeouts.built_in import HEARTBEAT, RULES
from shared.timeouts.hearing import Hearing
from shared.timeouts.limits import TimeLimits
from shared.timeouts.rule import Since, TimeRule, WatchedJob, WatchedQueue


@dataclass(frozen=True)
class Expiry:
    """An overdue job goes to `to_status`; `reason` is for its owner."""

    to_status: JobStatus
    rule: str
    error_code: int
    reason: str


def rules_for(
    job: WatchedJob, limits: TimeLimits, now: datetime, rules: Sequence[TimeRule] = RULES
) -> Iterator[tuple[TimeRule, timedelta]]:
    """The rules that hold for this job, with its limits; rules that are off are left out."""
    if job.queue.off is not None:
        return
    for rule in rules:
        if job.status not in rule.states or not rule.when.holds(job, now):
            continue
        if job.stays and rule.next_state == "closed":
            continue
        limit = limits.of(rule, job.queue, analysis=job.is_analysis)
        if limit is not None:
            yield rule, limit


def overdue(job: WatchedJob, limits: TimeLimits, now: datetime, rules: Sequence[TimeRule] = RULES) -> Expiry | None:
    """The first rule whose limit the job has passed, as a verdict; None while it may go on.

    Why a table: each state has a cause of its own for taking too long, and its own cure. Example: a running job whose
    last heartbeat was 121 minutes ago fails with a limit of 2 hours; a job that is holding for 4 hours fails with
    priority 800 (limit 3 hours) and goes on with 799 (48 hours). Source: PanDA brokerage, Timeout Rules.
    """
    for rule, limit in rules_for(job, limits, now, rules):
        if now - job.begin(rule.since) > limit:
            return verdict_of(rule, job.status, limit)
    return None


@dataclass(frozen=True)
class NextEnd:
    """The rule that ends a job next if nothing happens, its limit, and the time after which it does."""

    rule: TimeRule
    limit: timedelta
    at: datetime


def next_end(
    job: WatchedJob,
    limits: TimeLimits,
    now: datetime,
    rules: Sequence[TimeRule] = RULES,
    hearing: Hearing | None = None,
) -> NextEnd | None:
    """Which of the rules that hold now comes first; None: none ever does.

    Time that does not count comes on top.
    """
    heard = hearing or Hearing(now)
    found = []
    for rule, limit in rules_for(job, limits, now, rules):
        begin = job.begin(rule.since)
        at = begin + limit
        if rule.hears(job.status) and begin < now:
            at += now - begin - heard.silent_for(begin)
            at = max(at, heard.grace_until or at) if heard.is_in_grace else at
        found.append(NextEnd(rule, limit, at))
    return min(found, key=lambda one: one.at, default=None)


def verdict_of(rule: TimeRule, status: JobStatus, limit: timedelta) -> Expiry:
    """What happens to a job that has passed the limit of a rule."""
    return Expiry(rule.next_state, rule.name, rule.error_code, sentence(rule, status, limit))


def sentence(rule: TimeRule, status: JobStatus, limit: timedelta) -> str:
    """No times of the single job in it: jobs that end for one reason share one event."""
    hours = f"{limit.total_seconds() / 3600:g} h"
    if rule is HEARTBEAT:
        return f"lost heartbeat: no report from the pilot for more than {hours} while {status}"
    told = f" ({rule.when.text})" if rule.when.text else ""
    if rule.since is Since.CREATION:
        return f"still {status} more than {hours} after its creation{told}"
    if rule.since is Since.HEARTBEAT:
        return f"{status} without any sign for more than {hours}{told}"
    return f"{status} for more than {hours}{told}"


@dataclass(frozen=True)
class Search:
    """What finds the jobs of one state that a rule ends, exactly: the latest times that are too early.

    `before` has them by queue, for production and analysis, where they are not those of queues that nobody knows
    (`elsewhere`); None: none of these jobs.
    """

    rule: TimeRule
    state: JobStatus
    elsewhere: tuple[datetime | None, datetime | None]
    before: Mapping[str, tuple[datetime | None, datetime | None]]

    @property
    def latest(self) -> datetime | None:
        """The latest of all; None: no job can be overdue by this rule."""
        times = [time for pair in (self.elsewhere, *self.before.values()) for time in pair if time is not None]
        return max(times, default=None)


def search(
    rule: TimeRule,
    state: JobStatus,
    queues: Mapping[str, WatchedQueue],
    limits: TimeLimits,
    now: datetime,
    hearing: Hearing | None = None,
) -> Search:
    """Compare with the latest times of each queue; queues like the unknown ones are not named.

    For rules about silent pilots `hearing` says how much of the time counts.
    """
    heard = hearing if hearing is not None and rule.hears(state) else Hearing(now)

    def times(name: str, queue: WatchedQueue) -> tuple[datetime | None, datetime | None]:
        """For production and analysis."""
        if queue.off is not None or not rule.when.holds_at(name, queue, now):
            return None, None
        found = [limits.of(rule, queue, analysis=analysis) for analysis in (False, True)]
        asked = [None if rule.when.analysis not in (None, one) else found[one] for one in (False, True)]
        production, analysis = (None if limit is None else heard.before(limit) for limit in asked)
        return production, analysis

    elsewhere = times("", WatchedQueue())
    named = {name: times(name, queue) for name, queue in {CO_JUMBO_QUEUE: WatchedQueue(), **queues}.items()}
    return Search(rule, state, elsewhere, {name: one for name, one in named.items() if one != elsewhere})
