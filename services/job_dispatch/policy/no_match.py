"""Why a pilot got no job: one class, one sentence, and when it should ask again. Pure.

A share of the tree orders jobs and never refuses a pick. The class `share` is for pilots that serve a part of the work
only, one user's or one working group's, where what waits belongs to others: they would get a job but for that. Where a
job stands in the order of shares is what `orrery explain job` says of its position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from services.job_dispatch.policy.fitting import Misfit, Offer, Requirement
from shared.model.queue import QueueStatus

Why = (
    Literal["unknown_queue", "queue_status", "nothing_queued", "requirements", "limit", "share", "taken"] | Requirement
)
CLASSES: tuple[str, ...] = tuple(name for part in get_args(Why) for name in (get_args(part) or (part,)))
#: states of a queue in which brokerage sends it nothing that it was not named for
_CLOSED = frozenset({QueueStatus.BROKEROFF, QueueStatus.OFFLINE, QueueStatus.PAUSED, QueueStatus.STANDBY})
#: states of a queue in which its pilots get no job, whatever waits there
SHUT = frozenset({QueueStatus.OFFLINE, QueueStatus.PAUSED})
#: a pilot that was only too late need not wait as long as one for which there is nothing
_SOONER = 10
#: these change when somebody submits or an operator decides: pilots may wait longer and longer for them
_GROWING = frozenset({"nothing_queued", "queue_status", "share"})
#: a limit of a site may have been lifted after so long
LIMITS_ARE_READ_EVERY_S = 10


@dataclass(frozen=True)
class NoJobs:
    """Why there is no job for a pilot, and after how many seconds it should ask again."""

    why: Why
    reason: str
    retry_after_s: int


@dataclass(frozen=True)
class AtQueue:
    """What is known of a queue: its status, how many shapes wait, which do not fit, what its site refused.

    Of task queues: the limit or delay of the site that holds one back, and why one does not match.
    """

    status: QueueStatus | None
    n_waiting: int = 0
    misfits: Sequence[Misfit] = ()
    refused: str | None = None
    held: str | None = None
    unmatched: str | None = None


def grown_wait_s(why: Why, wait_s: int, empty_for_s: float, longest_s: int) -> int:
    """After how many seconds to ask again at a queue whose pilots have got nothing for so long.

    As long again as they have got nothing, so that the time between two questions doubles, from the usual wait up to
    the longest; what may change at any moment keeps the usual one. Example: usual 60 s, longest 300 s, nothing for 200
    s: 200; for 20 s: 60; for an hour: 300.
    """
    return max(wait_s, min(int(empty_for_s), longest_s)) if why in _GROWING else wait_s


def no_match(offer: Offer, found: AtQueue, wait_s: int) -> NoJobs:
    """The class is that of what would have to change first for the pilot to get a job.

    Of several requirements that do not fit it is the one of most kinds of jobs. `wait_s`: the usual wait.
    """
    queue = offer.queue
    if found.status is None:
        return NoJobs("unknown_queue", f"the queue {queue!r} is not known", wait_s)
    if found.status in SHUT:
        return NoJobs("queue_status", f"{queue} is {found.status}: its pilots get no jobs", wait_s)
    if found.refused is not None and len(found.misfits) == found.n_waiting:
        return NoJobs("requirements", found.refused, wait_s)
    if not offer.is_for_all:
        reason = f"{offer.asks_for} has no activated job at {queue} that fits"
        if offer.task_id is None and len(found.misfits) < found.n_waiting:
            return NoJobs("share", f"{reason}; jobs of others that fit wait there", wait_s)
        return NoJobs("nothing_queued", reason, wait_s)
    if not found.n_waiting and found.status in _CLOSED:
        reason = f"no activated jobs at {queue}, which is {found.status}: brokerage sends it nothing"
        return NoJobs("queue_status", reason, wait_s)
    if not found.n_waiting:
        return NoJobs("nothing_queued", f"no activated jobs at {queue}", wait_s)
    if found.held is not None and len(found.misfits) < found.n_waiting:
        retry_s = min(wait_s, LIMITS_ARE_READ_EVERY_S)
        return NoJobs("limit", f"jobs are waiting at {queue} but its site is at a limit: {found.held}", retry_s)
    if found.unmatched is not None and len(found.misfits) < found.n_waiting:
        reason = f"jobs are waiting at {queue} but no task queue matches: {found.unmatched}"
        return NoJobs("requirements", reason, wait_s)
    if found.misfits:
        why, _ = Counter(one.what for one in found.misfits).most_common(1)[0]
        first = next(one for one in found.misfits if one.what == why)
        n_others = len(found.misfits) - 1
        more = f" (and {n_others} other kinds)" if n_others else ""
        return NoJobs(why, f"jobs are waiting at {queue} but none fits: {first}{more}", wait_s)
    sooner_s = max(1, wait_s // _SOONER)
    return NoJobs("taken", f"the jobs at {queue} were taken by others just now", sooner_s)
