"""Usage in buckets of time, folded from changes of jobs' states.

A job uses its cores from the moment it runs until it no longer does. Each start and each end is one change of the level
of use, d (plus or minus the cores, or the HS06 of the cores), at a time t. In the bucket of t, which ends at e, two
sums are kept:

    level = sum of d                  what the following buckets begin with
    used  = sum of d x (e - t)        what is used inside the bucket because of its changes

Use from S, where a bucket begins, until now is

    sum over earlier buckets of level x (now - S) + sum over later buckets of (used + level x (now - e))

It is exact for jobs of any length and for those that have not ended. Sums do not depend on the order of what is added:
an event that comes late changes what it would have changed in time.

Example: 4 cores run from 60 s to 400 s, in buckets of 300 s. The first gets level 4 and used 4 x 240 = 960, the second,
which ends at 600 s, level -4 and used -4 x 200 = -800. At 600 s, used from 0 s is 960 + 4 x 300 - 800 = 1 360, which is
4 x 340.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.events.jobs import DatedMoves

OCCUPIES: str = "running"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: end of the bucket, task, share, user
BucketKey = tuple[datetime, int, str, str]


@dataclass(frozen=True)
class BucketChange:
    """What is to be added to one bucket, by cores and by their HS06."""

    key: BucketKey
    cores: int
    hs06: float
    core_s: float
    hs06_s: float


def bucket_end(at: datetime, width_s: int) -> datetime:
    """The end of the bucket that holds a time; a bucket begins with its first moment."""
    number = (at - _EPOCH) // timedelta(seconds=width_s)
    return _EPOCH + (number + 1) * timedelta(seconds=width_s)


def bucket_changes(
    dated: Iterable[DatedMoves],
    now: datetime,
    *,
    width_s: int,
    core_powers_hs06: Mapping[str, float],
    usual_hs06: float,
) -> list[BucketChange]:
    """What moves of jobs add to the buckets of their times, in the order of their keys.

    Undated moves are of `now`. Moves to and from `running` count, no others.

    `core_powers_hs06`: of a core, at queues that have a benchmark.
    """
    sums: dict[BucketKey, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0])
    for at, moves in dated:
        end = bucket_end(at or now, width_s)
        rest_s = (end - (at or now)).total_seconds()
        for move in moves:
            sign = (move.to_status == OCCUPIES) - (move.from_status == OCCUPIES)
            if sign:
                cores, power_hs06 = sign * move.n_cores, core_powers_hs06.get(move.queue, usual_hs06)
                row = sums[end, move.task_id, move.gshare, move.user_name]
                for place, added in enumerate((cores, cores * power_hs06, cores * rest_s, cores * power_hs06 * rest_s)):
                    row[place] += added
    return [
        BucketChange(key, int(cores), hs06, core_s, hs06_s)
        for key, (cores, hs06, core_s, hs06_s) in sorted(sums.items())
        if cores or hs06 or core_s or hs06_s
    ]


#: share, VO, working group, user
UserKey = tuple[str, str, str, str]
#: share, VO, user
Suspect = tuple[str, str, str]
#: cores and HS06 by which the level of use differs from what runs
Difference = tuple[int, float]


def seen_again(
    before: Mapping[Suspect, Difference], now: Mapping[Suspect, tuple[Difference, int]], most_jobs: int
) -> list[Suspect]:
    """Whom two looks in a row found to differ alike, those who run least first.

    At most so many jobs of theirs, or one user.

    One that was found once may be an event on its way: correcting it would count that event twice.
    """
    found, n_all = list[Suspect](), 0
    alike = [(n_jobs, key) for key, (difference, n_jobs) in now.items() if before.get(key) == difference]
    for n_jobs, key in sorted(alike):
        n_all += max(0, n_jobs)
        if found and n_all > most_jobs:
            break
        found.append(key)
    return found


def confirmed_differences(
    suspects: Mapping[Suspect, tuple[Difference, int]], counted: Mapping[UserKey, Difference]
) -> dict[UserKey, Difference]:
    """Differences of users of which the jobs themselves say what the statistics do.

    No event is on its way between the two then.
    """
    sums: dict[Suspect, list[float]] = defaultdict(lambda: [0, 0.0])
    for (gshare, vo, _, user_name), (cores, hs06) in counted.items():
        of_user = sums[gshare, vo, user_name]
        of_user[0] += cores
        of_user[1] += hs06
    alike = {
        key for key, (cores, hs06) in sums.items()
        if cores == suspects[key][0][0] and abs(hs06 - suspects[key][0][1]) < 0.5
    }  # fmt: skip
    return {key: value for key, value in sorted(counted.items()) if (key[0], key[1], key[3]) in alike}
