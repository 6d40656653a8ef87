"""Compares counters of datasets and job sets with their contents, in slices, and corrects them.

A slice reads counters and contents in one statement, so that what differs is wrong. A dataset of too many files is
counted in parts beside the walk: each file once, while others change their state, so that parts only say whom to
suspect. Whoever is suspected is held, counted again in one statement, and corrected by that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter

from services.job_generation.store import audits as store
from services.job_generation.store import progress
from services.job_generation.store.audits import (
    DATASETS,
    ENDED,
    JOB_SETS,
    MOST_CONTENTS,
    MOST_ROWS,
    Compared,
    Difference,
    Large,
    Position,
)
from shared.db.unit_of_work import UnitOfWork
from shared.states.file import FileStatus

log = logging.getLogger(__name__)

AUDIT_EVERY_S = 10.0
#: a round over what is live begins so long after the last began, or later
ROUND_EVERY = timedelta(minutes=2)
#: files of one part of a large dataset: the index alone is read
MOST_OF_A_PART = 100_000
#: one that takes longer to be counted as a whole is given up: who makes jobs of its task waits
WHOLE_COUNT_S = 20.0
#: states of the files of a dataset that count as used, input and outputs alike
USED: frozenset[FileStatus] = frozenset({"picked", "running", "merging", "finished", "failed"})


class AuditMetrics:
    """How many were audited, and how many were wrong; one for each process."""

    _known: WeakKeyDictionary[CollectorRegistry, AuditMetrics] = WeakKeyDictionary()

    def __init__(self, registry: CollectorRegistry) -> None:
        of = "Datasets and job sets whose counters were"
        self.audited = Counter("orrery_counters_audited", f"{of} compared", ["kind"], registry=registry)
        self.corrected = Counter("orrery_counters_corrected", f"{of} wrong", ["kind"], registry=registry)

    @classmethod
    def of(cls, registry: CollectorRegistry) -> AuditMetrics:
        """The one of a registry."""
        found = cls._known.get(registry)
        if found is None:
            found = cls._known[registry] = cls(registry)
        return found


class CounterAudit:
    """One replica at a time goes through live datasets and job sets, and those of tasks that ended, once.

    The position outlives it. Each method does a slice and tells whether the next follows at once.
    """

    def __init__(
        self,
        metrics: CollectorRegistry,
        *,
        most_contents: int = MOST_CONTENTS,
        most_of_a_part: int = MOST_OF_A_PART,
        whole_count_s: float = WHOLE_COUNT_S,
    ) -> None:
        self._most, self._most_of_a_part, self._whole_count_s = most_contents, most_of_a_part, whole_count_s
        #: the large dataset that is counted as a whole next
        self._trying: int | None = None
        found = AuditMetrics.of(metrics)
        self._audited, self._corrected = found.audited, found.corrected

    async def audit_datasets(self, work: UnitOfWork) -> bool:
        """Audit one slice of datasets of live tasks: as many as have so many files together."""
        return await self._audit(DATASETS, work)

    async def audit_ended_datasets(self, work: UnitOfWork) -> bool:
        """Audit one slice of datasets of tasks in the order of their ends."""
        return await self._audit(ENDED, work)

    async def audit_job_sets(self, work: UnitOfWork) -> bool:
        """Audit one slice of job sets: as many as have so many ranges together."""
        return await self._audit(JOB_SETS, work)

    async def _audit(self, kind: str, work: UnitOfWork) -> bool:
        """Compare the next of a kind; a slice with few contents is followed at once."""
        position = await store.position(work, kind)
        if kind != ENDED and not position.task_id:
            if position.began_at is not None and work.now - position.began_at < ROUND_EVERY:
                return False
            position = replace(position, began_at=work.now)
        rows = await store.next_rows(work, kind, position)
        taken = list(_within(rows, self._most, self._is_large))
        is_over = len(taken) == len(rows) < MOST_ROWS
        if taken:
            position = _behind(taken[-1], position)
        if is_over and kind != ENDED:
            position = replace(position, task_id=0, id=0)
        await store.move_on(work, kind, position)
        await store.note_large(work, [one for one in taken if self._is_large(one)])
        compared = [one for one in taken if one.id is not None and not self._is_large(one)]
        await self._correct(work, kind, [one.id for one in compared if one.id is not None])
        work.after_commit(partial(self._audited.labels(_counted_as(kind)).inc, len(compared)))
        return not is_over and 2 * sum(one.n_contents for one in compared) < self._most

    def _is_large(self, one: Compared) -> bool:
        return one.said is not None and one.n_contents > self._most

    async def audit_large_datasets(self, work: UnitOfWork) -> bool:
        """Count the next part of a large dataset; after the last, look at it as a whole if it is suspect."""
        large = await store.next_large(work)
        if large is None:
            return False
        if large.is_suspect:
            return await self._whole(work, large)
        found, upto = await store.count_part(work, large.dataset_id, large.after_file_id, self._most_of_a_part)
        counts = dict(large.counts)
        for status, n_files in found.items():
            counts[status] = counts.get(status, 0) + n_files
        if upto is not None:
            await store.note_part(work, large.dataset_id, counts, upto)
            return False
        now = await store.counters_of(work, large.dataset_id)
        if now is not None and is_suspect(counts, large.said, now):
            await store.suspect(work, large.dataset_id, counts)
            return True
        await self._done(work, large)
        return False

    async def _whole(self, work: UnitOfWork, large: Large) -> bool:
        """Count a large dataset at one moment.

        That this is tried is committed before: one that takes too long is told and given up, and holds up no other.
        """
        if large.tried_at is None:
            await store.try_whole(work, large.dataset_id)
            work.after_commit(partial(setattr, self, "_trying", large.dataset_id))
            return True
        is_first, self._trying = self._trying == large.dataset_id, None
        await self._done(work, large)
        if is_first:
            await self._correct(work, DATASETS, [large.dataset_id], timeout_s=self._whole_count_s)
            return False
        log.error(
            "dataset %d of task %d is too large to be counted at once: its counters said %s, and its files are %s",
            large.dataset_id, large.task_id, list(large.said), dict(large.counts),
        )  # fmt: skip
        return False

    async def _done(self, work: UnitOfWork, large: Large) -> None:
        await store.forget_large(work, large.dataset_id)
        work.after_commit(self._audited.labels(DATASETS).inc)

    async def _correct(
        self, work: UnitOfWork, kind: str, ids: Sequence[int], *, timeout_s: float | None = None
    ) -> None:
        """Hold whom one statement finds wrong, count again, and correct; what follows is settled anew."""
        suspects = await store.differences(work, kind, ids, timeout_s=timeout_s)
        if not suspects:
            return
        await store.hold(work, kind, suspects)
        wrong = await store.differences(work, kind, [one.id for one in suspects], timeout_s=timeout_s)
        if not wrong:
            return
        await work.because("its counters were not those of its contents")
        await store.correct(work, kind, wrong)
        await progress.mark_dirty(work, sorted({one.task_id for one in wrong}))
        work.after_commit(partial(self._tell, _counted_as(kind), wrong))

    def _tell(self, kind: str, wrong: Sequence[Difference]) -> None:
        self._corrected.labels(kind).inc(len(wrong))
        for one in wrong:
            log.error(
                "%s %d of task %d counted %s and has %s: its counters were corrected",
                kind.replace("_", " ").removesuffix("s"), one.id, one.task_id, list(one.counted), list(one.found),
            )  # fmt: skip


def _counted_as(kind: str) -> str:
    return JOB_SETS if kind == JOB_SETS else DATASETS


def _within(rows: Sequence[Compared], most: int, is_large: Callable[[Compared], bool]) -> Iterator[Compared]:
    """The first of these with so many contents together, at least one; what is large is counted apart."""
    n_contents = 0
    for one in rows:
        size = 0 if is_large(one) else one.n_contents
        if n_contents and n_contents + size > most:
            return
        n_contents += size
        yield one


def _behind(last: Compared, position: Position) -> Position:
    """Where to go on after one: behind its task, if that has none."""
    at = last.at or position.at
    if last.id is None:
        return replace(position, at=at, task_id=last.task_id + 1, id=0)
    return replace(position, at=at, task_id=last.task_id, id=last.id)


def is_suspect(counts: Mapping[FileStatus, int], said: Sequence[int], now: Sequence[int]) -> bool:
    """Whether files counted in parts are not between what counters said before and after.

    Prepared outputs are used. Example: 3 finished and 2 failed among 9 used, of 9 that say so: no. 7 finished of 5
    before and 8 after: no.
    """
    used = sum(n_files for status, n_files in counts.items() if status in USED)
    found = [{used, used + counts.get("prepared", 0)}, {counts.get("finished", 0)}, {counts.get("failed", 0)}]
    spans = [(min(pair), max(pair)) for pair in zip(said, now, strict=True)]
    return any(
        not any(low <= number <= high for number in numbers) for numbers, (low, high) in zip(found, spans, strict=True)
    )
