"""Lets nothing end while the watchdog cannot know what happened.

That is after its own absence, and while no dispatcher is there. How much of a pilot's silence counts is known by the
minute (`shared.timeouts.hearing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.timeouts.hearing import OutageTimes

#: so many periods without a run, and so much of a heartbeat interval, are an outage of our own. A shorter one cannot
#: make a pilot look lost, whose limit is several intervals; and a watchdog that is merely slow must not wait for ever.
MISSED_PERIODS = 3
MISSED_INTERVAL = 0.5


@dataclass(frozen=True)
class LastRun:
    """What the watchdog knows about its previous run; no `at`: it never ran on this database.

    `slice_at`: when the last slice of a turn that goes on was; a long turn is no absence.
    """

    at: datetime | None
    grace_until: datetime | None = None
    grace_reason: str | None = None
    slice_at: datetime | None = None


@dataclass(frozen=True)
class Grace:
    """Nothing expires before `until`."""

    until: datetime
    reason: str


def grace(
    last: LastRun,
    now: datetime,
    *,
    period: timedelta,
    heartbeat_interval: timedelta,
    dispatcher_seen_at: datetime | None,
    times: OutageTimes,
) -> Grace | None:
    """Whether time-outs are suspended now, and until when.

    For `times.grace` after a run that comes too late after the previous one (the watchdog or the database was away, or
    the clock jumped) and at the first run ever; while no dispatcher is there, which hears pilots and gives them jobs.
    `dispatcher_seen_at` None: no dispatcher ever said that it lives, which proves nothing.
    """
    if dispatcher_seen_at is not None and now - dispatcher_seen_at > times.outage:
        return Grace(max(now, last.grace_until or now), "no dispatcher is there to receive heartbeats")
    if last.at is None:
        return Grace(now + times.grace, "the watchdog runs for the first time")
    gap = now - max(last.at, last.slice_at or last.at)
    if gap > max(period * MISSED_PERIODS, heartbeat_interval * MISSED_INTERVAL) or gap < timedelta():
        return Grace(now + times.grace, f"the previous run was {gap.total_seconds():.0f} s ago")
    if last.grace_until is not None and now < last.grace_until:
        return Grace(last.grace_until, last.grace_reason or "an outage of our own")
    return None
