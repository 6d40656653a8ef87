"""Gives pilots time to report again after an outage of ours, before their jobs count as lost.

So there is no mass expiry on return.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

#: so many periods without a run, and so much of a heartbeat interval, are an outage of our own. A shorter one cannot
#: make a pilot look lost, whose limit is several intervals; and a watchdog that is merely slow must not wait for ever.
MISSED_PERIODS = 3
MISSED_INTERVAL = 0.5


@dataclass(frozen=True)
class LastRun:
    """What the watchdog knows about its previous run; no `at`: it never ran on this database."""

    at: datetime | None
    grace_until: datetime | None = None
    grace_reason: str | None = None


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
    dispatcher_silence: timedelta,
) -> Grace | None:
    """Whether timeouts are suspended now, and until when.

    A full heartbeat interval after: a run that comes too late after the previous one (the watchdog or the database was
    away, or the clock jumped), the first run ever, or the last moment at which no dispatcher was there to hear
    heartbeats. `dispatcher_seen_at` None: no dispatcher ever said that it lives, which proves nothing.
    """
    outage = heartbeat_interval * MISSED_INTERVAL
    if dispatcher_seen_at is not None and now - dispatcher_seen_at > max(dispatcher_silence, outage):
        return Grace(now + heartbeat_interval, "no dispatcher is there to receive heartbeats")
    if last.at is None:
        return Grace(now + heartbeat_interval, "the watchdog runs for the first time")
    gap = now - last.at
    if gap > max(period * MISSED_PERIODS, outage) or gap < timedelta():
        return Grace(now + heartbeat_interval, f"the previous run was {gap.total_seconds():.0f} s ago")
    if last.grace_until is not None and now < last.grace_until:
        return Grace(last.grace_until, last.grace_reason or "an outage of our own")
    return None
