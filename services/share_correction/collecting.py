"""Collects what shares, groups and users use, from events about jobs that begin and end to run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from services.share_correction.policy.buckets import (
    OCCUPIES,
    Difference,
    Suspect,
    UserKey,
    bucket_changes,
    bucket_end,
    confirmed_differences,
    seen_again,
)
from services.share_correction.store import usage as store
from shared.brokerage.estimates import DEFAULT_CORE_POWER_HS06
from shared.db.turns import take_turn
from shared.db.unit_of_work import UnitOfWork
from shared.events import JobsEvent
from shared.snapshot import KnownGrid

log = logging.getLogger(__name__)

BUCKET_S = 300
#: buckets are kept a little longer than the longest slice reads
KEEP_LONGER_S = 86_400.0
#: and at least so long, for people who ask what was used (`orrery shares --hours`)
HISTORY_S = 7 * 86_400.0
COMPARE, COMPARE_EVERY_S, FORGET_EVERY_S = "usage_compared", 300.0, 3600.0
#: running jobs that one look counts
MOST_JOBS = 50_000


class UsageCollection:
    """`longest_span_s` gives what the longest slice of any corrector reads."""

    def __init__(self, grid: KnownGrid, longest_span_s: Callable[[], float]) -> None:
        self._grid = grid
        self._longest_span_s = longest_span_s
        self._different: Mapping[Suspect, Difference] = {}
        self._powers: Mapping[str, float] = {}
        self._powers_of = -1

    async def on_jobs_moved(self, event: JobsEvent, work: UnitOfWork) -> None:
        """Fold one event about jobs, or several in one; the inbox sees to it that each is folded once."""
        if not any(OCCUPIES in (move.from_status, move.to_status) for move in event.moves):
            return
        changes = bucket_changes(
            event.dated_moves,
            work.now,
            width_s=BUCKET_S,
            core_powers_hs06=await self._core_powers(work),
            usual_hs06=DEFAULT_CORE_POWER_HS06,
        )
        if changes:
            await store.fold(work.connection, changes)

    async def compare(self, work: UnitOfWork) -> None:
        """Compare with what runs, and correct what two looks in a row found; periodic, on one replica.

        The statistics say whose jobs are counted. Why: a core's benchmark may change while it runs a job, and jobs may
        change their share.
        """
        if await take_turn(work.connection, COMPARE, COMPARE_EVERY_S) is None:
            return
        powers = await self._core_powers(work)
        now = await store.suspects(work.connection, powers, DEFAULT_CORE_POWER_HS06)
        asked = seen_again(self._different, now, MOST_JOBS)
        wrong: dict[UserKey, Difference] = {}
        if asked:
            counted = await store.differences(work.connection, asked, powers, DEFAULT_CORE_POWER_HS06)
            wrong = confirmed_differences(now, counted)
        if wrong:
            log.warning("usage of %d users differed from their running jobs twice and was corrected", len(wrong))
            await store.correct(work.connection, bucket_end(work.now, BUCKET_S), wrong)
        corrected = {(gshare, vo, user_name) for gshare, vo, _, user_name in wrong}
        work.after_commit(
            partial(self._keep, {key: different for key, (different, _) in now.items() if key not in corrected})
        )

    def _keep(self, different: Mapping[Suspect, Difference]) -> None:
        self._different = different

    async def forget(self, work: UnitOfWork) -> None:
        """Delete buckets that no slice reads any more; periodic, on one replica."""
        await store.forget(work.connection, max(self._longest_span_s(), HISTORY_S) + KEEP_LONGER_S)

    async def _core_powers(self, work: UnitOfWork) -> Mapping[str, float]:
        """Read HS06 of a core at the queues that have a benchmark."""
        queues = (await self._grid.grid(work.connection)).queues.values()
        if self._powers_of != self._grid.version:
            self._powers = {one.name: one.core_power_hs06 for one in queues if one.core_power_hs06 > 0}
            self._powers_of = self._grid.version
        return self._powers
