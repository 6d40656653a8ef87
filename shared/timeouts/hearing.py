"""How much of a silence counts: only time in which reports of pilots could be heard, and were.

The dispatcher writes for each minute and VO how many calls of pilots it heard. A minute without any dispatcher counts
for nobody. A VO of which nobody is heard for much longer than usual is cut off although a dispatcher is there: the road
to its pilots is broken. What lasts longer than that can be hoped for counts again.

How long is usual is taken from the hours before a wait alone: its own time would make any wait look usual.

After an outage no pilot is lost before it could report again, unless it was silent for twice its limit. Then jobs that
are lost end little by little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncpg

from shared.db.queries import Queries

SQL = Queries.beside(__file__)

MINUTE = timedelta(minutes=1)
#: nobody of a VO is heard for so many times the mean wait: by chance once in a thousand waits (e^-7)
UNUSUAL = 7.0
#: a job whose pilot is silent for so many limits is lost, however often something was away in between
CERTAIN = 2.0
#: the time before a wait, by which it is told how often a VO is heard
USUAL = timedelta(hours=6)
#: what is looked at: no more than is kept
LONGEST_LOOK = timedelta(days=7)
#: the row that says that a dispatcher was there, whoever called
EVERYBODY = ""
#: before any job
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

Stretch = tuple[datetime, datetime]


@dataclass(frozen=True)
class Wait:
    """Nobody was heard after one minute until another, or now.

    `n_before`: the minutes heard in `USUAL` up to its begin.
    """

    begins: datetime
    ends: datetime
    n_before: int

    @property
    def length(self) -> timedelta:
        return self.ends - self.begins


@dataclass(frozen=True)
class Minutes:
    """The first minute in which a VO was heard, and the long waits since then, that which lasts too."""

    first: datetime
    waits: tuple[Wait, ...] = ()


@dataclass(frozen=True)
class OutageTimes:
    """From when time does not count, is an outage, and is given up; what follows an outage."""

    missed: timedelta = MINUTE
    outage: timedelta = timedelta(minutes=3)
    given_up: timedelta = timedelta(hours=6)
    grace: timedelta = timedelta(minutes=40)
    spread: timedelta = timedelta(minutes=30)


@dataclass(frozen=True)
class Hearing:
    """When reports of a VO were not heard, in order; until when no job is lost after the last outage."""

    now: datetime
    deaf: tuple[Stretch, ...] = ()
    grace_until: datetime | None = None
    spread: timedelta = timedelta()

    def before(self, limit: timedelta) -> datetime:
        """Whoever was heard last before this has been silent for longer than the limit.

        Example: at 12:00, nobody heard from 11:00 to 11:30, a limit of 1 h: 10:30.
        """
        left, at = limit * CERTAIN if self.is_in_grace else limit, self.now
        for begins, ends in reversed(self.deaf):
            if at - ends >= left:
                break
            left -= at - ends
            at = begins
        return at - left

    def silent_for(self, since: datetime) -> timedelta:
        """How much of the time since then counts."""
        lost = (max(timedelta(), ends - max(begins, since)) for begins, ends in self.deaf)
        return self.now - since - sum(lost, timedelta())

    @property
    def is_in_grace(self) -> bool:
        """Whether pilots may not have had the time to report again."""
        return self.grace_until is not None and self.now < self.grace_until

    def turn(self, job_id: int) -> datetime | None:
        """When a job that is lost may end; None: now."""
        return turn_of(job_id, self.grace_until, self.spread, self.now)


def turn_of(job_id: int, grace_until: datetime | None, spread: timedelta, now: datetime) -> datetime | None:
    """When a job that is due after a grace may end, by the last digits of its id; None: now.

    Example: of a spread of 30 minutes, a job whose id ends with 499 may end 15 minutes after the grace.
    """
    if grace_until is None or not grace_until <= now < grace_until + spread:
        return None
    turn = grace_until + spread * ((job_id % 1000 + 1) / 1000)
    return turn if turn > now else None


def look_back(longest_limit: timedelta, times: OutageTimes) -> timedelta:
    """How far the minutes are looked at for these limits.

    A wait is known until it is given up and every job is lost for certain, and so are the hours before it.
    """
    return min(LONGEST_LOOK, USUAL + times.given_up + times.grace + times.spread + longest_limit * CERTAIN)


async def hearings(
    connection: asyncpg.Connection, now: datetime, look: timedelta, times: OutageTimes
) -> dict[str, Hearing]:
    """Read how each VO was heard."""
    rows = await SQL.rows(
        connection,
        "heard_minutes",
        everybody=EVERYBODY,
        look_s=look.total_seconds(),
        usual_s=USUAL.total_seconds(),
        missed_s=times.missed.total_seconds(),
        outage_s=times.outage.total_seconds(),
    )
    minutes = {
        row["vo"]: Minutes(row["first"], tuple(map(Wait, row["begins"], row["ends"], row["n_before"]))) for row in rows
    }
    return heard(minutes, now, look, times)


def heard(found: Mapping[str, Minutes], now: datetime, look: timedelta, times: OutageTimes) -> dict[str, Hearing]:
    """How each VO was heard; `EVERYBODY` stands for those that are not named.

    All time counts where nothing is known.
    """
    if EVERYBODY not in found:
        return {EVERYBODY: Hearing(now)}
    everybody = found[EVERYBODY]
    away = [(one.begins + MINUTE, one.ends) for one in everybody.waits]
    if everybody.first > now - look:
        away.append((LONG_AGO, everybody.first))
    known = {EVERYBODY: _hearing(away, now, times)}
    for vo, minutes in found.items():
        cut_off = _cut_off(minutes.waits, times) if vo != EVERYBODY else ()
        if cut_off:
            known[vo] = _hearing([*away, *cut_off], now, times)
    return known


def _cut_off(waits: Iterable[Wait], times: OutageTimes) -> list[Stretch]:
    """When nobody of a VO was heard for unusually long, until that was given up."""
    return [
        (one.begins + MINUTE, min(one.ends, one.begins + MINUTE + times.given_up))
        for one in waits
        if one.length > max(times.outage, USUAL / one.n_before * UNUSUAL)
    ]


def _hearing(deaf: Iterable[Stretch], now: datetime, times: OutageTimes) -> Hearing:
    merged: list[Stretch] = []
    for begins, ends in sorted(deaf):
        if merged and begins <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(ends, merged[-1][1]))
        else:
            merged.append((begins, ends))
    outages = [ends for begins, ends in merged if ends - begins >= times.outage]
    return Hearing(now, tuple(merged), max(outages) + times.grace if outages else None, times.spread)
