"""What commands change besides statuses: files re-opened, attempts raised, parameters changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import asyncpg

from services.task_definition.policy.retry_limits import RetryFacts
from shared.brokerage.estimates import DEFAULT_CORE_POWER_HS06
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.batches import batches
from shared.model.dataset_types import OUTPUT_TYPES
from shared.states import DATASET, FILE, Owner
from shared.states.file import FileStatus

SQL = Queries.beside(__file__)
_OWNER = Owner.TASK_DEFINITION
FILES_PER_LOG_LINE = 10_000
FILES_AT_ONCE = 50_000


class CommandStore:
    """Stateless; every method runs in the caller's transaction, with the task's row locked."""

    async def renew(
        self, connection: asyncpg.Connection, task_id: int, *, keep_priority: bool, gshare: str | None
    ) -> None:
        """A further attempt; the share stays where none is given."""
        await SQL.run(connection, "renew_task", task_id=task_id, keep_priority=keep_priority, gshare=gshare)

    async def reset_memory(
        self, connection: asyncpg.Connection, task_id: int, *, ram_count: int, ram_unit: str
    ) -> None:
        await SQL.run(connection, "reset_memory", task_id=task_id, ram_count=ram_count, ram_unit=ram_unit)

    async def retry_facts(self, connection: asyncpg.Connection, task_id: int) -> RetryFacts:
        row = await SQL.one(connection, "retry_facts", task_id=task_id)
        return RetryFacts(row["n_retries"], row["n_jobs_finished"], row["n_jobs_failed"], row["most_attempts"])

    async def with_usage(
        self, connection: asyncpg.Connection, task_id: int, facts: RetryFacts, core_powers_hs06: Mapping[str, float]
    ) -> RetryFacts:
        """The facts with what the jobs of the task used; queues without a benchmark have the usual one."""
        row = await SQL.one(
            connection,
            "usage_of_jobs",
            timeout_s=600,
            task_id=task_id,
            queues=list(core_powers_hs06),
            core_powers_hs06=list(core_powers_hs06.values()),
            usual_hs06=DEFAULT_CORE_POWER_HS06,
        )
        return replace(facts, **dict(row))

    async def change(
        self,
        connection: asyncpg.Connection,
        task_id: int,
        *,
        split_rule: Mapping[str, Any],
        site: str | None,
        cloud: str | None,
        nucleus: str | None,
        stated: Collection[str] = (),
    ) -> None:
        """`stated`: names of rules among the changes."""
        await SQL.run(
            connection,
            "change_task",
            task_id=task_id,
            split_rule=dict(split_rule),
            site=site,
            cloud=cloud,
            nucleus=nucleus,
            stated=sorted(stated),
        )

    async def permissions(self, connection: asyncpg.Connection, task_id: int) -> tuple[str, str]:
        """The letters of the task's owner, and the group that it is made for."""
        row = await SQL.row(connection, "permissions_of_owner", task_id=task_id)
        return ("", "") if row is None else (row["grid_pref"], row["working_group"])

    async def change_priority(self, connection: asyncpg.Connection, task_id: int, priority: int) -> None:
        await SQL.run(connection, "change_priority", task_id=task_id, priority=priority)

    async def change_share(self, connection: asyncpg.Connection, task_id: int, gshare: str) -> None:
        await SQL.run(connection, "change_share", task_id=task_id, gshare=gshare)

    async def change_parameters(
        self, connection: asyncpg.Connection, task_id: int, parameters: Mapping[str, Any]
    ) -> None:
        await SQL.run(connection, "change_parameters", task_id=task_id, parameters=dict(parameters))

    async def reopen_files(
        self, work: UnitOfWork, task_id: int, statuses: Sequence[FileStatus], *, more: int, reason: str
    ) -> int:
        """Units in these states become ready with `more` attempts, counters and the log with them; how many.

        Slice by slice, because a task may have ten million of them.
        """
        allowed = sorted(one for one in FILE.sources("ready", _OWNER) if one in statuses)
        n_reopened = 0
        for row in await SQL.rows(work.connection, "inputs_of_task", task_id=task_id):
            for status in allowed:
                n_reopened += await self._reopen(work, task_id, row["dataset_id"], status, more=more, reason=reason)
        return n_reopened

    async def take_as_staged(self, work: UnitOfWork, task_id: int, reason: str) -> int:
        """Units that are being staged become ready, and so do those that are read later; how many."""
        await SQL.run(work.connection, "take_unstaged", task_id=task_id)
        n_units = 0
        for row in await SQL.rows(work.connection, "inputs_of_task", task_id=task_id):
            n_units += await self._reopen(work, task_id, row["dataset_id"], "staging", more=0, reason=reason)
        return n_units

    async def _reopen(
        self, work: UnitOfWork, task_id: int, dataset_id: int, status: FileStatus, *, more: int, reason: str
    ) -> int:
        """Those of one dataset in one state. Failed units were counted as used and failed, lost ones as neither."""
        n_reopened, n_events, after_id = 0, 0, 0
        while True:
            rows = await SQL.rows(
                work.connection,
                "reopen_files",
                timeout_s=600,
                dataset_id=dataset_id,
                status=status,
                after_id=after_id,
                size=FILES_AT_ONCE,
                more=more,
            )
            if not rows:
                break
            ids = sorted(row["file_id"] for row in rows)
            after_id = ids[-1]
            n_reopened += len(rows)
            n_events += sum(row["n_events"] for row in rows)
            for some in batches(ids, FILES_PER_LOG_LINE):
                await work.log_files(
                    entity="file",
                    task_id=task_id,
                    ids=some,
                    from_status=status,
                    to_status="ready",
                    reason=reason,
                )
        if n_reopened and status == "failed":
            await SQL.run(
                work.connection, "count_reopened", dataset_ids=[dataset_id], failed=[n_reopened], events=[n_events]
            )
        return n_reopened

    async def reopen_datasets(self, connection: asyncpg.Connection, task_id: int) -> list[asyncpg.Record]:
        """Datasets that had ended are ready again; the outputs among them in order of name."""
        ended = [one for one in DATASET.sources("ready", _OWNER) if one in ("done", "finished", "failed")]
        rows = await SQL.rows(connection, "reopen_datasets", task_id=task_id, allowed=ended)
        outputs = [row for row in rows if row["type"] in OUTPUT_TYPES]
        return sorted(outputs, key=lambda row: str(row["dataset_name"]))

    async def raise_attempts(self, connection: asyncpg.Connection, task_id: int, more: int) -> None:
        await SQL.run(connection, "raise_task_attempts", task_id=task_id, more=more)
        await SQL.run(connection, "raise_attempts", timeout_s=600, task_id=task_id, more=more)

    async def files_to_do(self, connection: asyncpg.Connection, task_id: int) -> int:
        return int(await SQL.value(connection, "files_to_do", task_id=task_id) or 0)
