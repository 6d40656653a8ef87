"""What commands change besides statuses: files re-opened, attempts raised, parameters changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import asyncpg

from services.task_definition.tasks.policy.retry_limits import RetryFacts
from services.task_definition.tasks.policy.rule_reach import RuleReach
from shared.brokerage.estimates import DEFAULT_CORE_POWER_HS06
from shared.db.queries import Queries
from shared.model.dataset_types import OUTPUT_TYPES
from shared.states import DATASET, Owner

SQL = Queries.beside(__file__)
_OWNER = Owner.TASK_DEFINITION


class CommandStore:
    """Stateless; every method runs in the caller's transaction, with the task's row locked."""

    async def renew(
        self, connection: asyncpg.Connection, task_id: int, *, keep_priority: bool, gshare: str | None
    ) -> None:
        """Begin a further attempt; the share stays where none is given."""
        await SQL.run(connection, "renew_task", task_id=task_id, keep_priority=keep_priority, gshare=gshare)

    async def reset_memory(
        self, connection: asyncpg.Connection, task_id: int, *, ram_count: int, ram_unit: str
    ) -> None:
        await SQL.run(connection, "reset_memory", task_id=task_id, ram_count=ram_count, ram_unit=ram_unit)

    async def note_hold(
        self, connection: asyncpg.Connection, task_id: int, hold: str | None, held_until: datetime | None
    ) -> None:
        await SQL.run(connection, "note_hold", task_id=task_id, hold=hold, held_until=held_until)

    async def attempts_of_units(self, connection: asyncpg.Connection, task_id: int) -> int:
        """Read the most attempts that a unit of its input has or may have."""
        return int(await SQL.value(connection, "attempts_of_units", task_id=task_id))

    async def retry_facts(self, connection: asyncpg.Connection, task_id: int) -> RetryFacts:
        row = await SQL.one(connection, "retry_facts", task_id=task_id)
        return RetryFacts(row["n_retries"], row["n_jobs_finished"], row["n_jobs_failed"], row["most_attempts"])

    async def with_usage(
        self, connection: asyncpg.Connection, task_id: int, facts: RetryFacts, core_powers_hs06: Mapping[str, float]
    ) -> RetryFacts:
        """Give the facts with what the jobs of the task used; queues without a benchmark have the usual one."""
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

    async def change_needs(
        self, connection: asyncpg.Connection, task_id: int, *, column: str, value: float, unit: str | None
    ) -> None:
        """One column of `tasks` (ram_count, walltime, cpu_time, core_count) and its unit, if it has one."""
        await SQL.run(connection, "change_needs", task_id=task_id, column=column, value=value, unit=unit)

    async def change_event_service(
        self, connection: asyncpg.Connection, task_id: int, *, event_service: int, use_jumbo: str | None
    ) -> None:
        await SQL.run(
            connection, "change_event_service", task_id=task_id, event_service=event_service, use_jumbo=use_jumbo
        )

    async def reach(self, connection: asyncpg.Connection, task_id: int) -> RuleReach:
        """Read what rules that change now still decide about."""
        return RuleReach(**dict(await SQL.one(connection, "reach_of_rules", task_id=task_id)))

    async def permissions(self, connection: asyncpg.Connection, task_id: int) -> tuple[str, str]:
        """Read the letters of the task's owner, and the group that it is made for."""
        row = await SQL.row(connection, "permissions_of_owner", task_id=task_id)
        return ("", "") if row is None else (row["grid_pref"], row["working_group"])

    async def change_priority(self, connection: asyncpg.Connection, task_id: int, priority: int) -> None:
        await SQL.run(connection, "change_priority", task_id=task_id, priority=priority)

    async def change_share(self, connection: asyncpg.Connection, task_id: int, gshare: str) -> None:
        await SQL.run(connection, "change_share", task_id=task_id, gshare=gshare)

    async def switch_jumbo(self, connection: asyncpg.Connection, task_id: int, *, wanted: bool) -> bool:
        """Switch jumbo jobs; tell whether jumbo jobs of the task were not as wanted before."""
        return await SQL.value(connection, "switch_jumbo", task_id=task_id, wanted=wanted) is not None

    async def change_parameters(
        self, connection: asyncpg.Connection, task_id: int, parameters: Mapping[str, Any]
    ) -> None:
        await SQL.run(connection, "change_parameters", task_id=task_id, parameters=dict(parameters))

    async def note_change(self, connection: asyncpg.Connection, task_id: int, by: str) -> bool:
        """Note who changed the parameters; tell whether it was somebody else than the submitter."""
        return await SQL.value(connection, "note_change", task_id=task_id, by=by) is not None

    async def reopen_datasets(self, connection: asyncpg.Connection, task_id: int) -> list[asyncpg.Record]:
        """Datasets that had ended are ready again; the outputs among them in order of name."""
        ended = [one for one in DATASET.sources("ready", _OWNER) if one in ("done", "finished", "failed")]
        rows = await SQL.rows(connection, "reopen_datasets", task_id=task_id, allowed=ended)
        outputs = [row for row in rows if row["type"] in OUTPUT_TYPES]
        return sorted(outputs, key=lambda row: str(row["dataset_name"]))

    async def raise_attempts(self, connection: asyncpg.Connection, task_id: int, more: int) -> None:
        """Units that are added later may be tried as much more often."""
        await SQL.run(connection, "raise_task_attempts", task_id=task_id, more=more)

    async def take_unstaged(self, connection: asyncpg.Connection, task_id: int) -> None:
        """Input on tape is used from now on, what is read later too."""
        await SQL.run(connection, "take_unstaged", task_id=task_id)

    async def note_killer(self, connection: asyncpg.Connection, task_id: int, user_name: str | None) -> None:
        await SQL.run(connection, "note_killer", task_id=task_id, user_name=user_name)

    async def killer(self, connection: asyncpg.Connection, task_id: int) -> str | None:
        """Read who killed a task by the right of its owner alone."""
        found: str | None = await SQL.value(connection, "killer", task_id=task_id)
        return found

    async def closed_input(self, connection: asyncpg.Connection, task_id: int) -> list[str]:
        """Names of input datasets that the VO of the task may not read any more."""
        return [row["dataset_name"] for row in await SQL.rows(connection, "closed_input", task_id=task_id)]

    async def is_half_read(self, connection: asyncpg.Connection, task_id: int) -> bool:
        """Tell whether the task was aborted before its input was all read."""
        return bool(await SQL.value(connection, "is_half_read", task_id=task_id))

    async def files_to_do(self, connection: asyncpg.Connection, task_id: int) -> int:
        return int(await SQL.value(connection, "files_to_do", task_id=task_id) or 0)
