"""Deletes what is used up: input that was brought for one task, and transient datasets.

Input that is used once goes to where its jobs run with a short lifetime and is deleted after use; input that is used
many times (attribute `manytime`) stays there without a lifetime (JEDI: Different treatment of input datasets). The last
copy of a file is never deleted, nor one that a job uses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import asyncpg

from services.task_definition.data.store.expiring import SQL
from services.task_definition.data.wishing import Wishes
from services.task_definition.parameters import ONE_TIME_COPY_DAYS, TRANSIENT_DATASET_DAYS
from shared.catalogue.port import Catalogue
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import OUTPUT_TYPES
from shared.states.task import FINAL

#: copies, and files of a dataset, that are deleted in one transaction
COPIES_AT_MOST, FILES_AT_MOST = 1000, 2000
#: datasets outside that are kept in one transaction
DATASETS_AT_MOST = 100
DAY_S = 86_400.0


class Expiring:
    """`note_end` when a task ends; `delete_due` is done periodically."""

    def __init__(self, catalogue: Catalogue, wishes: Wishes, parameters: Parameters) -> None:
        self._catalogue, self._wishes, self._parameters = catalogue, wishes, parameters

    async def note_end(self, work: UnitOfWork, task_id: int) -> None:
        """Transient datasets that the task wrote or read begin their lifetime, unless they are needed."""
        rows = await SQL.rows(
            work.connection,
            "no_longer_needed",
            task_id=task_id,
            output_types=sorted(OUTPUT_TYPES),
            over=sorted(FINAL),
        )
        lifetime_s = self._parameters.read(TRANSIENT_DATASET_DAYS) * DAY_S
        names = [row["dataset_name"] for row in rows]
        await SQL.run(work.connection, "expire_datasets", names=names, lifetime_s=lifetime_s)
        by_vo = defaultdict(list)
        for row in rows:
            by_vo[row["vo"]].append({"scope": row["scope"], "name": row["dataset_name"]})
        for vo, datasets in sorted(by_vo.items()):
            await self._wishes.expire(work, task_id, vo, datasets, lifetime_s)

    async def delete_due(self, work: UnitOfWork) -> bool:
        """Some copies and some files; whether there may be more."""
        await self._keep_outside(work)
        more_copies = await self._delete_copies(work)
        return await self._delete_of_dataset(work.connection) or more_copies

    async def _keep_outside(self, work: UnitOfWork) -> None:
        """What was to be deleted outside, and is read again, has no lifetime until its last reader has ended."""
        rows = await SQL.rows(work.connection, "needed_outside", over=sorted(FINAL), at_most=DATASETS_AT_MOST)
        by_task = defaultdict(list)
        for row in rows:
            by_task[row["task_id"], row["vo"]].append({"scope": row["scope"], "name": row["name"]})
        for (task_id, vo), datasets in sorted(by_task.items()):
            await self._wishes.expire(work, task_id, vo, datasets, None)

    async def _delete_copies(self, work: UnitOfWork) -> bool:
        """Copies whose task has ended; one that a job of another task uses is that task's from now on.

        Whether there may be more.
        """
        connection = work.connection
        rows = await SQL.rows(connection, "used_copies", over=sorted(FINAL), at_most=COPIES_AT_MOST)
        used = [row for row in rows if row["used_by"] is not None]
        over = [row for row in rows if row["used_by"] is None]
        await SQL.run(
            connection,
            "hand_over_copies",
            file_ids=[row["file_id"] for row in used],
            storages=[row["storage"] for row in used],
            task_ids=[row["used_by"] for row in used],
            lifetime_s=self._parameters.read(ONE_TIME_COPY_DAYS) * DAY_S,
        )
        gone = _one_of_each(over)
        dropped = [(row["dataset"], row["lfn"], row["storage"]) for row in gone if row["is_elsewhere"]]
        await self._catalogue.drop_copies(connection, dropped)
        await SQL.run(
            connection,
            "forget_brought",
            file_ids=[row["file_id"] for row in gone],
            storages=[row["storage"] for row in gone],
        )
        request_ids = sorted({row["request_id"] for row in gone if row["request_id"] is not None})
        if request_ids:
            last = {row["request_id"] for row in gone if row["lfn"] is not None and not row["is_elsewhere"]} - {None}
            await SQL.run(connection, "keep_rules", request_ids=sorted(last))
            await self._wishes.release(
                work, [dict(row) for row in await SQL.rows(connection, "rules_without_use", request_ids=request_ids)]
            )
        return len(rows) == COPIES_AT_MOST or len(gone) < len(over)

    async def _delete_of_dataset(self, connection: asyncpg.Connection) -> bool:
        """Some files of a dataset whose time is over, at the end the dataset; whether there may be more."""
        row = await SQL.row(connection, "expired_dataset", output_types=sorted(OUTPUT_TYPES), over=sorted(FINAL))
        if row is None:
            return False
        if row["is_needed"]:
            lifetime_s = self._parameters.read(TRANSIENT_DATASET_DAYS) * DAY_S
            await SQL.run(connection, "keep_longer", lifetime_s=lifetime_s, dataset_id=row["dataset_id"])
            return True
        await self._catalogue.delete_some(connection, row["dataset_id"], FILES_AT_MOST)
        return True


def _one_of_each(rows: Sequence[asyncpg.Record]) -> list[asyncpg.Record]:
    """One copy of each file: whether the other is the last one is only known when the first is gone."""
    return list({(row["file_id"]): row for row in reversed(rows)}.values())
