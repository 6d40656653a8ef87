"""Picks that do without the order of shares: urgent work, and a part of all picks by age."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from services.job_dispatch.policy.lane import Lane
from services.job_dispatch.policy.share_lanes import Fits, NeedsRefill, PickedJob, ShareLanes


def pick_urgent(lanes: Iterable[Lane], unwanted: Callable[[int], bool], band: int) -> PickedJob | NeedsRefill | None:
    """The best job of these lanes of urgent work, by priority and age (JEDI: Express transfers).

    NeedsRefill while one of them is empty and not read to its end.
    """
    best: tuple[tuple[int, int, int], Lane] | None = None
    unread = []
    for lane in lanes:
        head = lane.head(band, unwanted)
        if head is None:
            if not lane.complete or lane.refilling:
                unread.append(lane)
        elif best is None or head[:2] < best[0][:2]:
            best = (head, lane)
    if unread:
        return NeedsRefill(tuple(unread))
    return PickedJob(best[1], best[1].pop(best[0][2])) if best is not None else None


def oldest_share(
    shares: Mapping[str, ShareLanes],
    allowed: Collection[str],
    fits: Fits,
    unwanted: Callable[[int], bool],
    band: int,
) -> str | None:
    """The share whose next fitting job is the oldest, of those that are `allowed`; None without any.

    Why not any share: one that has old jobs only would get this part of all picks whatever it is due, and shares would
    miss their targets by it.
    """
    found: tuple[int, str] | None = None
    for name in shares.keys() & allowed:
        job_id = shares[name].next_job(fits, unwanted, band)
        if job_id is not None and (found is None or (job_id, name) < found):
            found = (job_id, name)
    return found[1] if found is not None else None
