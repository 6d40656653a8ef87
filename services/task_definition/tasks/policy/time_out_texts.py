"""Which time-out rule ends a job next and when, or why none does; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from services.task_definition.tasks.policy.generation_texts import moment
from shared.config.parameter import Parameter
from shared.model.co_jumbo import CO_JUMBO_QUEUE
from shared.timeouts.hearing import Hearing
from shared.timeouts.judging import next_end
from shared.timeouts.limits import TimeLimits
from shared.timeouts.rule import Since, TimeRule, WatchedJob, WatchedQueue


def watched_job(job: Mapping[str, Any], asked: Mapping[str, Any], queue: WatchedQueue | None) -> WatchedJob:
    """A job as rules are asked about it; `asked` is what they look for beside its row."""
    return WatchedJob(
        job_id=job["job_id"],
        status=job["status"],
        created_at=job["creation_time"],
        state_changed_at=job["state_change_time"],
        heartbeat_at=job["heartbeat_at"],
        priority=job["current_priority"],
        label=job["prod_source_label"],
        queue_name=job["queue"] or CO_JUMBO_QUEUE,
        queue=queue or WatchedQueue(),
        vo=job["vo"] or "",
        job_type=job["job_type"],
        **asked,
    )


def time_out(
    job: WatchedJob,
    limits: TimeLimits,
    rules: Sequence[TimeRule],
    now: datetime,
    hearing: Hearing | None = None,
    grace_until: datetime | None = None,
) -> dict[str, Any]:
    """The rule that fires next, when, and a sentence for people; no rule: why.

    Time in which its pilot could not be heard comes on top (`hearing`), and no rule fires before `grace_until`.
    Example: an activated job since noon of 1 March is sent elsewhere after noon of 3 March by `activated`.
    """
    if job.queue.off is not None:
        return {"rule": None, "at": None, "text": f"time-outs are off: {job.queue.off}"}
    found = next_end(job, limits, now, rules, hearing)
    if found is None:
        return {"rule": None, "at": None, "text": f"no time-out: {_why_none(job, rules, now)}"}
    rule, at = found.rule, max(found.at, grace_until or found.at)
    since = {Since.CREATION: "its creation", Since.ACTIVATION: "its activation"}.get(rule.since)
    if since is None or (rule.since is Since.ACTIVATION and job.status not in ("activated", "starting")):
        since = f"the last {(Since.STATE_CHANGE if rule.since is Since.ACTIVATION else rule.since).value}"
    about = f", {rule.when.text}" if rule.when.text else ""
    waits = "; nothing ends before then, after an outage of ours" if at > found.at else ""
    text = (
        f"unless it goes on, it is {_ENDS[rule.next_state]} after {moment(at)} by the rule {rule.name}: {job.status} "
        f"for {found.limit.total_seconds() / 3600:g} h since {since}{about} ({_set_by(rule)}){waits}"
    )
    return {"rule": rule.name, "at": at, "text": text}


_ENDS = {"closed": "taken back and sent elsewhere", "failed": "given up"}


def _set_by(rule: TimeRule) -> str:
    """What sets its limit."""
    if isinstance(rule.limit, Parameter):
        return rule.limit.name
    return str(rule.limit) if rule.when.vo is None else f"added by {rule.when.vo}"


def _why_none(job: WatchedJob, rules: Sequence[TimeRule], now: datetime) -> str:
    """What keeps every rule from ending a job."""
    if job.queue_name == CO_JUMBO_QUEUE:
        return "it waits for jumbo jobs"
    about = [rule for rule in rules if job.status in rule.states and rule.when.holds(job, now)]
    if job.stays and any(rule.next_state == "closed" for rule in about):
        return "its task has disableReassign, and every other limit is 0"
    return f"the limits of {', '.join(rule.name for rule in about) or 'all rules'} are 0"
