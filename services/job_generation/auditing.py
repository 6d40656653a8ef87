"""Compares counters of datasets and job sets with their contents, in slices, and corrects them.

A slice reads counters and contents in one statement, so that what differs is wrong. A dataset of too many files is
counted in parts: that only says whom to suspect, for files change their state between two parts. Whoever is suspected
is held, counted again in one statement, and corrected by that.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from services.job_generation.store import audits as store
from services.job_generation.store import progress
from services.job_generation.store.audits import DATASETS, JOB_SETS, MOST_CONTENTS, Difference
from shared.db.unit_of_work import UnitOfWork
from shared.states.file import FileStatus

log = logging.getLogger(__name__)

AUDIT_EVERY_S = 10.0
#: states of the files of a dataset that count as used, input and outputs alike
USED: frozenset[FileStatus] = frozenset({"picked", "running", "merging", "finished", "failed"})
_COUNTED = ("n_files_used", "n_files_finished", "n_files_failed")


class CounterAudit:
    """One replica at a time goes through all live datasets and job sets, by id; the position outlives it."""

    def __init__(self, metrics: CollectorRegistry, *, most_contents: int = MOST_CONTENTS) -> None:
        self._most = most_contents
        self._audited = Counter(
            "orrery_counters_audited", "Datasets and job sets whose counters were compared", ["kind"], registry=metrics
        )
        self._corrected = Counter(
            "orrery_counters_corrected", "Datasets and job sets whose counters were wrong", ["kind"], registry=metrics
        )

    async def audit_datasets(self, work: UnitOfWork) -> None:
        """Audit one slice of datasets: as many as have so many files together."""
        await self._audit(DATASETS, work)

    async def audit_job_sets(self, work: UnitOfWork) -> None:
        """Audit one slice of job sets: as many as have so many ranges together."""
        await self._audit(JOB_SETS, work)

    async def _audit(self, kind: str, work: UnitOfWork) -> None:
        after, parts = await store.position(work, kind)
        if parts is not None:
            await self._next_part(work, parts)
            return
        rows = await store.next_rows(work, kind, after)
        ids, n_contents, first = list[int](), 0, None
        for row in rows:
            number, *_ = row
            size = row["n_files" if kind == DATASETS else "n_ranges"] if row["is_audited"] else 0
            if n_contents and n_contents + size > self._most:
                break
            if kind == DATASETS and size > self._most:
                first = row
                break
            n_contents, after = n_contents + size, number
            if row["is_audited"]:
                ids.append(number)
        if first is not None and not ids:
            begun = {"dataset_id": first["dataset_id"], "said": _said(first), "counts": {}, "after": ["", 0]}
            await store.move_on(work, kind, first["dataset_id"], begun)
        else:
            await store.move_on(work, kind, after if rows else 0)
        await self._correct(work, kind, await store.differences(work, kind, ids))
        work.after_commit(partial(self._audited.labels(kind).inc, len(ids)))

    async def _next_part(self, work: UnitOfWork, parts: dict[str, Any]) -> None:
        """Count the next files of a large dataset; after the last, look at it as a whole if it is suspect."""
        dataset_id = parts["dataset_id"]
        counts = dict(parts["counts"])
        found = await store.count_part(work, dataset_id, tuple(parts["after"]), self._most)
        for status, n_files, _ in found:
            counts[status] = counts.get(status, 0) + n_files
        if sum(n_files for _, n_files, _ in found) >= self._most:
            status, _, file_id = found[-1]
            later = {**parts, "counts": counts, "after": [status, file_id]}
            await store.move_on(work, DATASETS, dataset_id, later)
            return
        await store.move_on(work, DATASETS, dataset_id)
        rows = await store.next_rows(work, DATASETS, dataset_id - 1)
        now = next((row for row in rows if row["dataset_id"] == dataset_id), None)
        # one that was counted meanwhile is looked at in another round: nothing that is wrong is lost by that
        if now is not None and _said(now) == parts["said"] and is_suspect(counts, parts["said"]):
            await self._correct(work, DATASETS, await store.differences(work, DATASETS, [dataset_id]))
        work.after_commit(partial(self._audited.labels(DATASETS).inc))

    async def _correct(self, work: UnitOfWork, kind: str, suspects: Sequence[Difference]) -> None:
        """Hold whom one statement found wrong, count again, and correct; what follows is settled anew."""
        if not suspects:
            return
        await store.hold(work, kind, suspects)
        wrong = await store.differences(work, kind, [one.id for one in suspects])
        if not wrong:
            return
        await work.because("its counters were not those of its contents")
        await store.correct(work, kind, wrong)
        await progress.mark_dirty(work, sorted({one.task_id for one in wrong}))
        work.after_commit(partial(self._tell, kind, wrong))

    def _tell(self, kind: str, wrong: Sequence[Difference]) -> None:
        self._corrected.labels(kind).inc(len(wrong))
        for one in wrong:
            log.error(
                "%s %d of task %d counted %s and has %s: its counters were corrected",
                kind.replace("_", " ").removesuffix("s"), one.id, one.task_id, list(one.counted), list(one.found),
            )  # fmt: skip


def _said(row: Any) -> list[int]:
    return [row[name] for name in _COUNTED]


def is_suspect(counts: dict[str, int], said: Sequence[int]) -> bool:
    """Whether files counted in parts differ from the counters; outputs that are prepared are used, too.

    Example: 3 finished and 2 failed among 9 used, of 9 that say so: no.
    """
    used = sum(n_files for status, n_files in counts.items() if status in USED)
    found = [counts.get("finished", 0), counts.get("failed", 0)]
    return found != list(said[1:]) or said[0] not in (used, used + counts.get("prepared", 0))
