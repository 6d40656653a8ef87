"""Which rule ends a job, which is next and when, and when rules are to be asked about it. Pure.

The first rule in order whose limit has passed decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.states.job import LIVE, JobStatus
from shared.timeouts.built_in import HEARTBEAT, RULES
from shared.timeouts.hearing import Hearing
from shared.timeouts.limits import TimeLimits
from shared.timeouts.rule import Since, TimeRule, WatchedJob, WatchedQueue

#: rules are asked about every job so often, whatever they said before
LONGEST_UNASKED = timedelta(days=1)
#: whether a rule whose limit has passed has come to hold
ASKED_AGAIN = timedelta(minutes=10)
#: jobs at a queue that closes are asked about at once, those that come to a closed one after so long
FOUND_AT_CLOSED = timedelta(minutes=30)


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
        limit = limits.of(rule, job.queue, analysis=job.is_analysis, working_group=job.working_group)
        if limit is not None:
            yield rule, limit


def overdue(
    job: WatchedJob,
    limits: TimeLimits,
    now: datetime,
    rules: Sequence[TimeRule] = RULES,
    hearing: Hearing | None = None,
) -> Expiry | None:
    """The first rule whose limit the job has passed, as a verdict; None while it may go on.

    Why a table: each state has a cause of its own for taking too long, and its own cure. Example: a running job whose
    last heartbeat was 121 minutes ago fails with a limit of 2 hours; a job that is holding for 4 hours fails with
    priority 800 (limit 3 hours) and goes on with 799 (48 hours). Of rules about silent pilots only the time counts in
    which they could be heard. Source: PanDA brokerage, Timeout Rules.
    """
    heard, always = hearing or Hearing(now), Hearing(now)
    for rule, limit in rules_for(job, limits, now, rules):
        if job.begin(rule.since) < (heard if rule.hears(job.status) else always).before(limit):
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
    """Which rule comes first; None: none.

    Of those that hold now, or will when the job's group rested and its work may move. Time that does not count comes on
    top.
    """
    heard = hearing or Hearing(now)
    found = [
        NextEnd(rule, limit, max(_ends_after(rule, limit, job, now, heard), _may_move_from(rule, job)))
        for rule, limit in rules_for(_resting(job), limits, now, rules)
    ]
    return min(found, key=lambda one: one.at, default=None)


def _resting(job: WatchedJob) -> WatchedJob:
    """The job once its group has rested, and its work may be taken from the queue again."""
    return replace(job, came_back_until=None, group_moved_at=None)


def _may_move_from(rule: TimeRule, job: WatchedJob) -> datetime:
    """From when on the work may be taken from the queue by a rule, in the state that the job has."""
    begins = [job.state_changed_at]
    if rule.when.group_rests_for_h is not None and job.group_moved_at is not None:
        begins.append(job.group_moved_at + timedelta(hours=rule.when.group_rests_for_h))
    if rule.when.may_move and job.came_back_until is not None:
        begins.append(job.came_back_until)
    return max(begins)


def _ends_after(rule: TimeRule, limit: timedelta, job: WatchedJob, now: datetime, heard: Hearing) -> datetime:
    """The time after which a rule ends a job if nothing happens."""
    begin = job.begin(rule.since)
    at = begin + limit
    if rule.hears(job.status) and begin < now:
        at += now - begin - heard.silent_for(begin)
        at = max(at, heard.grace_until or at) if heard.is_in_grace else at
    return at


def verdict_of(rule: TimeRule, status: JobStatus, limit: timedelta) -> Expiry:
    """What happens to a job that has passed the limit of a rule."""
    return Expiry(rule.next_state, rule.name, rule.error_code, sentence(rule, status, limit))


def sentence(rule: TimeRule, status: JobStatus, limit: timedelta) -> str:
    """No times of the single job in it: jobs that end for one reason share one event."""
    hours = f"{limit.total_seconds() / 3600:g} h"
    if rule is HEARTBEAT:
        return f"lost heartbeat: no report from the pilot for more than {hours} while {status}"
    told = f" ({rule.when.text})" if rule.when.text else ""
    if rule.when.queue_closed:
        return f"{status}, and analysis does not begin there{told}"
    if rule.since is Since.CREATION:
        return f"still {status} more than {hours} after its creation{told}"
    if rule.since is Since.ACTIVATION and status == "starting":
        return f"still starting more than {hours} after its activation{told}"
    if rule.since is Since.HEARTBEAT:
        return f"{status} without any sign for more than {hours}{told}"
    return f"{status} for more than {hours}{told}"


def asked_again(
    job: WatchedJob,
    limits: TimeLimits,
    now: datetime,
    rules: Sequence[TimeRule] = RULES,
    hearing: Hearing | None = None,
) -> datetime:
    """When rules are to be asked again about a job that goes on: before any of them can end it.

    A rule whose limit has passed and that may come to hold without a change of the job, as one about a report that
    waits, is asked every ten minutes. What changes by other ways than time moves the moment itself: rules, parameters,
    queues. All others are asked once a day, should such a change have been missed. Example: a running job of which
    nothing was heard since noon, with a limit of 2 h: at 14:00.
    """
    heard = hearing or Hearing(now)
    latest = now + LONGEST_UNASKED
    quiet = replace(job.queue, last_job_start_at=None)
    if_worst = replace(_resting(job), producers_gone=job.job_type == "merge", report_waits=False, queue=quiet)
    for rule, limit in rules_for(if_worst, limits, now, rules):
        at = max(_ends_after(rule, limit, job, now, heard), _may_move_from(rule, job))
        if rule.when.no_start_for_h is not None and job.queue.last_job_start_at is not None:
            at = max(at, job.queue.last_job_start_at + timedelta(hours=rule.when.no_start_for_h))
        latest = min(latest, at if at >= now else now + ASKED_AGAIN)
    return latest


#: limits of one state: since the job came into it, and since it was made
FirstAsked = tuple[timedelta, timedelta | None]


def first_asked(
    limits: TimeLimits, queues: Iterable[WatchedQueue], rules: Sequence[TimeRule] = RULES
) -> dict[JobStatus, FirstAsked]:
    """How long jobs may be in each live state before rules are asked: the shortest limits at any queue.

    A pilot is heard when its job starts, so that a limit for heartbeats counts from the change of state; one since the
    activation does, too, and is known exactly when the rules are asked, after the limit of heartbeats.
    """
    places = {WatchedQueue(workflow=one.workflow, transfer_time_high_days=one.transfer_time_high_days,
                           transfer_time_low_days=one.transfer_time_low_days) for one in queues}  # fmt: skip
    places.add(WatchedQueue())
    found: dict[JobStatus, FirstAsked] = dict.fromkeys(LIVE, (LONGEST_UNASKED, None))
    for rule in rules:
        asked = [limits.of(rule, queue, analysis=analysis) for queue in places for analysis in (False, True)]
        asked += [limits.of(rule, WatchedQueue(), analysis=True, working_group=group) for group in limits.analysis_h]
        limit = min((one for one in asked if one is not None), default=None)
        if limit is None:
            continue
        limit = max(limit, FOUND_AT_CLOSED) if rule.when.queue_closed else limit
        for status in rule.states:
            change, creation = found[status]
            if rule.since is Since.CREATION:
                found[status] = change, min(limit, creation or limit)
            else:
                found[status] = min(limit, change), creation
    return found
