"""What commands change besides statuses: files re-opened, attempts raised, parameters changed.

Each function runs in the caller's transaction, with the task's row locked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import asyncpg

from services.task_definition.tasks.policy.client_names import name_of
from services.task_definition.tasks.policy.retry_limits import RetryFacts
from services.task_definition.tasks.policy.rule_reach import RuleReach
from services.task_definition.tasks.store import tasks
from shared.brokerage.estimates import DEFAULT_CORE_POWER_HS06
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import OUTPUT_TYPES
from shared.states import DATASET, Owner

SQL = Queries.beside(__file__)
_OWNER = Owner.TASK_DEFINITION


async def renew(work: UnitOfWork, task_id: int, *, keep_priority: bool, gshare: str | None) -> None:
    """Begin a further attempt, wanted by the time of its parameters; the share stays where none is given."""
    await SQL.run(work.connection, "renew_task", task_id=task_id, keep_priority=keep_priority, gshare=gshare)
    stated = (await tasks.parameters(work.connection, task_id)).get(name_of("ttcr_timestamp"))
    await tasks.put_deadline(work, task_id, stated)


async def reset_memory(work: UnitOfWork, task_id: int, *, ram_count: int, ram_unit: str) -> None:
    await SQL.run(work.connection, "reset_memory", task_id=task_id, ram_count=ram_count, ram_unit=ram_unit)


async def note_hold(work: UnitOfWork, task_id: int, hold: str | None, held_until: datetime | None) -> None:
    await SQL.run(work.connection, "note_hold", task_id=task_id, hold=hold, held_until=held_until)


async def attempts_of_units(work: UnitOfWork, task_id: int) -> int:
    """Read the most attempts that a unit of its input has or may have."""
    return int(await SQL.value(work.connection, "attempts_of_units", task_id=task_id))


async def retry_facts(work: UnitOfWork, task_id: int) -> RetryFacts:
    row = await SQL.one(work.connection, "retry_facts", task_id=task_id)
    return RetryFacts(row["n_retries"], row["n_jobs_finished"], row["n_jobs_failed"], row["most_attempts"])


async def with_usage(
    work: UnitOfWork, task_id: int, facts: RetryFacts, core_powers_hs06: Mapping[str, float]
) -> RetryFacts:
    """Give the facts with what the jobs of the task used; queues without a benchmark have the usual one."""
    row = await SQL.one(
        work.connection,
        "usage_of_jobs",
        timeout_s=600,
        task_id=task_id,
        queues=list(core_powers_hs06),
        core_powers_hs06=list(core_powers_hs06.values()),
        usual_hs06=DEFAULT_CORE_POWER_HS06,
    )
    return replace(facts, **dict(row))


async def change(
    work: UnitOfWork,
    task_id: int,
    *,
    split_rule: Mapping[str, Any],
    site: str | None,
    cloud: str | None,
    nucleus: str | None,
    stated: Collection[str] = (),
) -> None:
    """Change rules and places; `stated`: names of rules among the changes."""
    await SQL.run(
        work.connection,
        "change_task",
        task_id=task_id,
        split_rule=dict(split_rule),
        site=site,
        cloud=cloud,
        nucleus=nucleus,
        stated=sorted(stated),
    )


async def change_needs(work: UnitOfWork, task_id: int, *, column: str, value: float, unit: str | None) -> None:
    """Change one of ram_count, walltime, cpu_time and core_count, and its unit if it has one."""
    await SQL.run(work.connection, "change_needs", task_id=task_id, column=column, value=value, unit=unit)


async def change_event_service(work: UnitOfWork, task_id: int, *, event_service: int, use_jumbo: str | None) -> None:
    await SQL.run(
        work.connection, "change_event_service", task_id=task_id, event_service=event_service, use_jumbo=use_jumbo
    )


async def reach(work: UnitOfWork, task_id: int) -> RuleReach:
    """Read what rules that change now still decide about."""
    return RuleReach(**dict(await SQL.one(work.connection, "reach_of_rules", task_id=task_id)))


async def permissions(work: UnitOfWork, task_id: int) -> tuple[str, str]:
    """Read the letters of the task's owner, and the group that it is made for."""
    row = await SQL.row(work.connection, "permissions_of_owner", task_id=task_id)
    return ("", "") if row is None else (row["grid_pref"], row["working_group"])


async def change_priority(work: UnitOfWork, task_id: int, priority: int) -> None:
    await SQL.run(work.connection, "change_priority", task_id=task_id, priority=priority)


async def change_share(work: UnitOfWork, task_id: int, gshare: str) -> None:
    await SQL.run(work.connection, "change_share", task_id=task_id, gshare=gshare)


async def switch_jumbo(work: UnitOfWork, task_id: int, *, wanted: bool) -> bool:
    """Switch jumbo jobs; tell whether jumbo jobs of the task were not as wanted before."""
    return await SQL.value(work.connection, "switch_jumbo", task_id=task_id, wanted=wanted) is not None


async def change_parameters(work: UnitOfWork, task_id: int, parameters: Mapping[str, Any]) -> None:
    await SQL.run(work.connection, "change_parameters", task_id=task_id, parameters=dict(parameters))


async def note_change(work: UnitOfWork, task_id: int, by: str) -> bool:
    """Note who changed the parameters; tell whether it was somebody else than the submitter."""
    return await SQL.value(work.connection, "note_change", task_id=task_id, by=by) is not None


async def reopen_datasets(work: UnitOfWork, task_id: int) -> list[asyncpg.Record]:
    """Make datasets that had ended ready again; give the outputs among them in order of name."""
    ended = [one for one in DATASET.sources("ready", _OWNER) if one in ("done", "finished", "failed")]
    rows = await SQL.rows(work.connection, "reopen_datasets", task_id=task_id, allowed=ended)
    outputs = [row for row in rows if row["type"] in OUTPUT_TYPES]
    return sorted(outputs, key=lambda row: str(row["dataset_name"]))


async def raise_attempts(work: UnitOfWork, task_id: int, more: int) -> None:
    """Let units that are added later be tried as much more often."""
    await SQL.run(work.connection, "raise_task_attempts", task_id=task_id, more=more)


async def take_unstaged(work: UnitOfWork, task_id: int) -> None:
    """Use input on tape from now on, what is read later too."""
    await SQL.run(work.connection, "take_unstaged", task_id=task_id)


async def note_killer(work: UnitOfWork, task_id: int, user_name: str | None) -> None:
    await SQL.run(work.connection, "note_killer", task_id=task_id, user_name=user_name)


async def killer(work: UnitOfWork, task_id: int) -> str | None:
    """Read who killed a task by the right of its owner alone."""
    found: str | None = await SQL.value(work.connection, "killer", task_id=task_id)
    return found


async def closed_input(work: UnitOfWork, task_id: int) -> list[str]:
    """Name input datasets that the VO of the task may not read any more."""
    return [row["dataset_name"] for row in await SQL.rows(work.connection, "closed_input", task_id=task_id)]


async def is_half_read(work: UnitOfWork, task_id: int) -> bool:
    """Tell whether the task was aborted before its input was all read."""
    return bool(await SQL.value(work.connection, "is_half_read", task_id=task_id))


async def files_to_do(work: UnitOfWork, task_id: int) -> int:
    return int(await SQL.value(work.connection, "files_to_do", task_id=task_id) or 0)
