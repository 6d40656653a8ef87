"""Tasks in the database: locked, inserted, moved by compare-and-set; and facts for their definition.

Each function runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import asyncpg

from services.task_definition.desk.store.work_queues import work_queues
from services.task_definition.tasks.policy import duplication
from services.task_definition.tasks.policy.classes import Sharing
from services.task_definition.tasks.policy.duplication import Writer
from services.task_definition.tasks.policy.shares import ShareNode
from services.task_definition.tasks.policy.wanted import wanted_by
from shared.auth.access import Whose
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.resource_types import ResourceType
from shared.states import TASK, Owner
from shared.states.task import TaskStatus
from shared.task.in_effect import SplitRules, rules_of

SQL = Queries.beside(__file__)
_EXPRESSIONS = (
    "prod_source_label",
    "working_group",
    "campaign",
    "processing_type",
    "trans_path",
    "resource_type",
    "vo",
)


@dataclass(frozen=True)
class TaskRow:
    """What the handlers here need of a task; its row is locked."""

    task_id: int
    task_name: str
    user_name: str
    submitted_by: str | None
    vo: str
    prod_source_label: str
    task_type: str
    status: TaskStatus
    old_status: TaskStatus | None
    parent_tid: int | None
    nucleus: str | None
    site: str | None
    cloud: str | None
    task_priority: int | None
    current_priority: int
    split_rule: Mapping[str, Any]
    max_attempt: int
    max_failure: int | None
    goal: int | None
    gshare: str | None
    resource_type: str | None
    measured_units: Sequence[str]
    walltime_unit: str | None
    command: str | None
    command_details: Mapping[str, Any] | None
    retry_at: datetime | None
    error_dialog: str | None
    takes_unstaged: bool
    hold: str | None
    held_until: datetime | None

    @cached_property
    def rules(self) -> SplitRules:
        """Its rules that are in effect."""
        return rules_of(self.split_rule)

    @property
    def parent_id(self) -> int | None:
        """A task that names itself has no parent."""
        return None if self.parent_tid == self.task_id else self.parent_tid

    @property
    def has_scout_data(self) -> bool:
        """Whether its needs were measured; a walltime with a unit says so, too (JEDI: Using scout jobs)."""
        return bool(self.measured_units or self.walltime_unit)


@dataclass(frozen=True)
class SameName:
    """A task that has a certain name."""

    task_id: int
    user_name: str
    vo: str
    unique_name: bool


@dataclass(frozen=True)
class AskedBySubmission:
    """What every submission asks first; `same_name`: the task of its VO that has its name."""

    classes_version: int
    is_known_vo: bool
    has_series: bool
    same_name: SameName | None


@dataclass(frozen=True)
class NamedTask:
    """A task that another one refers to."""

    task_id: int
    status: TaskStatus
    user_name: str
    vo: str | None


async def lock(work: UnitOfWork, task_id: int) -> TaskRow | None:
    row = await SQL.row(work.connection, "lock_task", task_id=task_id)
    return None if row is None else TaskRow(**dict(row))


async def parameters(connection: asyncpg.Connection, task_id: int) -> dict[str, Any]:
    return dict(await SQL.value(connection, "parameters_of_task", task_id=task_id) or {})


async def status(connection: asyncpg.Connection, task_id: int) -> TaskStatus | None:
    found: TaskStatus | None = await SQL.value(connection, "status_of_task", task_id=task_id)
    return found


async def named(connection: asyncpg.Connection, task_ids: Sequence[int]) -> list[NamedTask]:
    """Read those of the tasks that exist."""
    return [NamedTask(**dict(row)) for row in await SQL.rows(connection, "named_tasks", task_ids=list(task_ids))]


async def whose(connection: asyncpg.Connection, task_id: int) -> Whose | None:
    """Tell to whom a task belongs, or did when it was archived; None: there is none."""
    row = await SQL.row(connection, "whose_task", task_id=task_id)
    return None if row is None else Whose.of(row["user_name"], row["vo"])


async def insert(
    work: UnitOfWork, columns: Mapping[str, Any], parameters: Mapping[str, Any], *, task_id: int | None = None
) -> int | None:
    """Insert a task, and return its id; None: one of this name exists, and both are to be unique."""
    new: int | None = await SQL.value(
        work.connection, "insert_task", task_id=task_id, columns=dict(columns), parameters=dict(parameters)
    )
    return new


async def put_deadline(work: UnitOfWork, task_id: int, stated: str | None) -> None:
    """Keep by when the task is wanted; None: nobody said."""
    if stated is not None:
        await SQL.run(work.connection, "put_deadline", task_id=task_id, due_at=wanted_by(stated))


async def move(
    work: UnitOfWork,
    task_id: int,
    target: TaskStatus,
    reason: str,
    *,
    sources: Collection[TaskStatus] | None = None,
    old_status: TaskStatus | None = None,
    error_dialog: str | None = None,
    retry_at: datetime | None = None,
) -> bool:
    """Compare-and-set to `target` from the states the graph allows (or those of them in `sources`)."""
    allowed = TASK.sources(target, Owner.TASK_DEFINITION)
    if sources is not None:
        allowed = [one for one in allowed if one in sources]
    await work.because(reason)
    moved = await SQL.value(
        work.connection,
        "move_task",
        task_id=task_id,
        status=target,
        allowed=allowed,
        old_status=old_status,
        error_dialog=error_dialog,
        retry_at=retry_at,
    )
    return moved is not None


async def note_end(work: UnitOfWork, task_id: int) -> None:
    """Note the time of the end, and AMIFLAG of a task that is done or finished (JEDI: JEDI_Tasks table)."""
    await SQL.run(work.connection, "end_task", task_id=task_id)


async def note_command(
    work: UnitOfWork, task_id: int, command: str | None, details: Mapping[str, Any] | None = None
) -> None:
    await SQL.run(work.connection, "note_command", task_id=task_id, command=command, details=details and dict(details))


async def grid_pref(connection: asyncpg.Connection, user_name: str, vo: str) -> str:
    """Read the letters of a user in a VO."""
    return str(await SQL.value(connection, "grid_pref", user_name=user_name, vo=vo) or "")


async def children(work: UnitOfWork, task_id: int) -> list[asyncpg.Record]:
    return await SQL.rows(work.connection, "children_of_task", task_id=task_id)


async def has_food(work: UnitOfWork, parent_id: int, child_id: int) -> bool:
    """Tell whether a parent whose children are to follow it made files that a child has not read."""
    found: bool = await SQL.value(work.connection, "has_food", timeout_s=60, parent_id=parent_id, child_id=child_id)
    return found


async def release_now(work: UnitOfWork, task_id: int) -> None:
    await SQL.run(work.connection, "release_now", task_id=task_id)


async def look_now(work: UnitOfWork, task_id: int) -> None:
    """Let the row itself ask job generation to look, should the message be lost."""
    await SQL.run(work.connection, "look_now", task_id=task_id)


async def look_at_input(work: UnitOfWork, task_id: int) -> None:
    """Have it looked at at once what the input of a task has become."""
    await SQL.run(work.connection, "look_at_input", task_id=task_id)


async def same_name(connection: asyncpg.Connection, task_name: str, vo: str) -> SameName | None:
    """Find the task of a VO that has this name."""
    row = await SQL.row(connection, "same_name", task_name=task_name, vo=vo)
    return None if row is None else SameName(**dict(row))


async def asked_by_submission(
    connection: asyncpg.Connection, task_name: str, vo: str, caller: str
) -> AskedBySubmission:
    """Ask at once what every submission asks."""
    row = await SQL.one(connection, "asked_by_submission", task_name=task_name, vo=vo, caller=caller)
    version, is_known_vo, has_series, *named = row
    return AskedBySubmission(version, is_known_vo, has_series, SameName(*named) if named[0] is not None else None)


async def outputs(work: UnitOfWork, task_id: int) -> set[str]:
    """Name the datasets that a task writes; none before it is defined."""
    return {row["dataset_name"] for row in await SQL.rows(work.connection, "outputs_of_task", task_id=task_id)}


async def lock_names(work: UnitOfWork, names: Sequence[str]) -> None:
    """Let nobody else begin to write datasets of these names until the commit."""
    await SQL.rows(work.connection, "lock_names", names=list(names))


async def writers(connection: asyncpg.Connection, names: Sequence[str], *, besides: int | None = None) -> list[Writer]:
    """Find tasks but `besides` that write these datasets, by dataset: at most MOST_WRITERS of each."""
    rows = await SQL.rows(
        connection, "writers_of_datasets", names=sorted(set(names)), besides=besides, most=duplication.MOST_WRITERS
    )
    return [Writer(**{**dict(row), "templates": frozenset(row["templates"])}) for row in rows]


async def sharing(connection: asyncpg.Connection) -> Sharing:
    nodes = await SQL.rows(connection, "share_nodes")
    types = await SQL.rows(connection, "resource_types")
    return Sharing(
        tuple(ShareNode(row["gshare"], row["parent"], {key: row[key] for key in _EXPRESSIONS}) for row in nodes),
        tuple(ResourceType(*row) for row in types),
        await work_queues(connection),
    )


async def expression_problem(connection: asyncpg.Connection, pattern: str) -> str | None:
    """Tell why PostgreSQL, which selects the files, does not take a regular expression; None if it does."""
    try:
        async with connection.transaction():
            await SQL.value(connection, "try_expression", pattern=pattern)
    except asyncpg.InvalidRegularExpressionError as error:
        return str(error)
    return None
