"""What people and clients ask about tasks: lists, details, datasets and files, jobs by state.

Of tasks that are not the caller's to read in full they are told the state view.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal

import asyncpg

from services.task_definition.tasks.policy.file_status import FileInTask, shown_status
from shared.auth import Caller
from shared.auth.access import DETAILS, Whose
from shared.auth.reach import Reach
from shared.auth.state_view import TASK_COLUMNS, state_of
from shared.db.queries import Queries
from shared.model import common_names
from shared.model.dataset_types import FINAL_OUTPUT_TYPES
from shared.states.event_range import STATUS_OF_CODE
from shared.states.job import MEANINGS
from shared.states.task import FINAL
from shared.states.task import MEANINGS as MEANINGS_OF_TASKS
from shared.waits.store import STATES

SQL = Queries.beside(__file__)
FILES_PER_DATASET = 1000
MAX_TASKS = 1000
#: names that are gone through for suggestions
MOST_STEPS = 500
#: jobs of a task, and ranges of its events, that are counted by kind
MOST_COUNTED = 100_000
#: types of datasets that a task makes and keeps, and places of each that are told
MADE, MOST_PLACES = frozenset(FINAL_OUTPUT_TYPES), 10
#: states in which nobody is long who is looked after; of others it is not told who is longest in one
PASSING = frozenset(MEANINGS_OF_TASKS) - FINAL - {"ready", "scouting", "running"}
#: states in which a task may wait for room in its share
MAY_BE_HELD = frozenset(STATES["share"])


@dataclass(frozen=True)
class TaskFilter:
    """Filters of a list; None does not filter.

    `name` may have * for any text; a `common_name`, too, which is looked for without the index of names, in tasks
    above `common_after`. `waits_longer_s`: in a state that should pass, and waiting for so long.
    """

    statuses: Sequence[str] | None = None
    user_name: str | None = None
    label: str | None = None
    task_type: str | None = None
    name: str | None = None
    common_name: str | None = None
    common_after: int | None = None
    modified_since: datetime | None = None
    min_task_id: int | None = None
    task_ids: Sequence[int] | None = None
    req_id: int | None = None
    vo: str | None = None
    waits_longer_s: float | None = None
    before_id: int | None = None
    at_most: int = 100
    skip: int = 0

    @property
    def asks_for_details(self) -> bool:
        """Whether it filters by what the state view hides: it finds only what the caller may read in full."""
        hidden = self.user_name, self.name, self.common_name, self.req_id, self.waits_longer_s
        return any(one is not None for one in hidden)


async def list_tasks(
    connection: asyncpg.Connection,
    wanted: TaskFilter,
    caller: Caller,
    *,
    counts: bool = True,
    jobs: bool = True,
    count_to: int | None = None,
) -> list[dict[str, Any]]:
    """List tasks, the newest first, with `files` of their master inputs and `jobs` by state.

    Without `counts` with neither; without `jobs`, which cost most, with files alone. With `count_to` as many jobs of a
    state are counted at the most, and `more_jobs` names the states that have more.

    `held_back`: why no jobs are made of a task just now, as its share has enough; null: it does not wait for that.
    """
    tasks = await _listed(connection, wanted, Reach.of(caller))
    ids = [task["task_id"] for task in tasks]
    may_be_held = [task["task_id"] for task in tasks if task["status"] in MAY_BE_HELD and task["retry_at"]]
    held = await SQL.rows(connection, "held_back", task_ids=may_be_held) if may_be_held else []
    reasons = {row["task_id"]: row["reason"] for row in held}
    for task in tasks:
        task["held_back"] = reasons.get(task["task_id"])
    if counts and tasks:
        files = await _files(connection, ids)
        by_state = await _jobs_by_state(connection, ids, count_to) if jobs else {}
        for task in tasks:
            task["files"] = files.get(task["task_id"], {})
            if jobs:
                task.update(_as_counted(by_state.get(task["task_id"], {}), count_to))
    return [_as_told(task, caller) for task in tasks]


async def list_longest(
    connection: asyncpg.Connection, user_name: str, statuses: Sequence[str], at_most: int, caller: Caller
) -> list[dict[str, Any]]:
    """List the tasks of a user that are longest in passing states, of those that the caller may read."""
    asked = {"user_name": user_name, "statuses": list(statuses), "at_most": at_most, **Reach.of(caller)._asdict()}
    ids = [row["task_id"] for row in await SQL.rows(connection, "longest_in_state", **asked)]
    found = await list_tasks(connection, TaskFilter(task_ids=ids, at_most=at_most), caller, counts=False)
    return sorted(found, key=lambda one: ids.index(one["task_id"]))


async def estimate(connection: asyncpg.Connection, wanted: TaskFilter, caller: Caller) -> int | None:
    """Estimate how many tasks a list has, by the planner's statistics; no task is read.

    None: by what the state view hides nothing is estimated for those who may not read all.
    """
    reach = Reach.of(caller)
    if wanted.asks_for_details and not reach.is_all:
        return None
    plan = await SQL.explained(connection, "list_tasks", **_asked(wanted, reach))
    return int(plan["Plans"][0]["Plan Rows"])


async def _listed(connection: asyncpg.Connection, wanted: TaskFilter, reach: Reach) -> list[dict[str, Any]]:
    return [dict(row) for row in await SQL.rows(connection, "list_tasks", **_asked(wanted, reach))]


def _asked(wanted: TaskFilter, reach: Reach) -> dict[str, Any]:
    """What the statement of the list takes."""
    return dict(
        statuses=None if wanted.statuses is None else list(wanted.statuses),
        user_name=wanted.user_name,
        label=wanted.label,
        task_type=wanted.task_type,
        name=_pattern(wanted.name),
        common_name=_pattern(wanted.common_name),
        common_after=wanted.common_after,
        modified_since=wanted.modified_since,
        min_task_id=wanted.min_task_id,
        req_id=wanted.req_id,
        vo=wanted.vo,
        waits_longer_s=wanted.waits_longer_s,
        before_id=wanted.before_id,
        task_ids=None if wanted.task_ids is None else list(wanted.task_ids),
        at_most=min(wanted.at_most, MAX_TASKS),
        skip=wanted.skip,
        told_only=wanted.asks_for_details and not reach.is_all,
        owner=reach.owner if wanted.asks_for_details else None,
        **reach._asdict(),
    )


def _pattern(name: str | None) -> str | None:
    """A part of a name as SQL has it."""
    if name is None:
        return None
    escaped = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%") if "*" in escaped else f"%{escaped}%"


async def quick(connection: asyncpg.Connection, wanted: TaskFilter, caller: Caller) -> TaskFilter:
    """Give the same filter, or one for the newest tasks alone where the index would find most names.

    The same for those who may not read all names: which way is taken tells of the names of others. And where other
    words of the filter leave few tasks.
    """
    is_narrow = wanted.user_name is not None or wanted.req_id is not None or wanted.task_ids is not None
    if wanted.name is None or is_narrow or not Reach.of(caller).is_all:
        return wanted
    rows = await SQL.rows(connection, "newest_names", before_id=wanted.before_id, at_most=common_names.SAMPLED)
    after = rows[0]["task_id"] - common_names.NEWEST if rows else 0
    if after <= 0 or not common_names.is_common(wanted.name, [row["name"] for row in rows]):
        return wanted
    return replace(wanted, name=None, common_name=wanted.name, common_after=after)


async def names_like(
    connection: asyncpg.Connection, field: Literal["user_name", "vo"], start: str, at_most: int, caller: Caller
) -> list[str]:
    """Find what begins so: people with live tasks that the caller may read, or VOs."""
    asked: dict[str, Any] = {"start": start, "at_most": at_most, "most_steps": MOST_STEPS}
    if field == "vo":
        return [row["name"] for row in await SQL.rows(connection, "vos_of_tasks", **asked)]
    reach = Reach.of(caller)
    rows = await SQL.rows(connection, "users_of_live_tasks", **asked, **reach._asdict())
    names = [row["name"] for row in rows]
    return names if reach.owner is None else [one for one in names if one == reach.owner]


async def task_details(
    connection: asyncpg.Connection, task_id: int, caller: Caller, count_to: int | None = None
) -> dict[str, Any] | None:
    """Read every column of one task, its datasets, and its jobs by state, of each at most `count_to`."""
    task = await SQL.value(connection, "task_details", task_id=task_id)
    if task is None:
        return None
    found: dict[str, Any] = dict(task)
    found["files"] = (await _files(connection, [task_id])).get(task_id, {})
    found |= _as_counted((await _jobs_by_state(connection, [task_id], count_to)).get(task_id, {}), count_to)
    if not may_read(caller, found):
        return {**_as_told(found, caller), "datasets": []}
    return {**found, "datasets": await _with_places(connection, await _datasets(connection, task_id))}


async def _with_places(connection: asyncpg.Connection, datasets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to what is made how large it is, and where: `n_bytes` and `places` of the catalogue."""
    names = [one["dataset_name"] for one in datasets if one["type"] in MADE]
    if not names:
        return datasets
    rows = await SQL.rows(connection, "datasets_in_catalogue", names=names, most_places=MOST_PLACES)
    known = {row["name"]: {"n_files_made": row["n_files_made"], "n_bytes": row["n_bytes"], "places": row["places"]}
             for row in rows}  # fmt: skip
    return [one | known.get(one["dataset_name"], {}) if one["type"] in MADE else one for one in datasets]


async def kinds(connection: asyncpg.Connection, task_id: int) -> dict[str, Any]:
    """Count jobs of a task by type and state, its ranges of events by state, actions of retry rules.

    They are counted one by one: MOST_COUNTED jobs and as many ranges at the most. `kinds_are_complete` says whether
    those were all.
    """
    job_types: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for row in await SQL.rows(connection, "job_types_of_task", task_id=task_id, at_most=MOST_COUNTED):
        job_types[row["job_type"]][row["status"]] = row["n_jobs"]
    ranges = await SQL.rows(connection, "event_ranges_of_task", task_id=task_id, at_most=MOST_COUNTED)
    actions = await SQL.rows(connection, "retry_actions_of_task", task_id=task_id)
    n_jobs = sum(sum(by_status.values()) for by_status in job_types.values())
    return {
        "job_types": dict(job_types),
        "event_ranges": {STATUS_OF_CODE[row["status"]]: row["n_ranges"] for row in ranges},
        "event_ranges_of_jumbo_jobs": {STATUS_OF_CODE[row["status"]]: row["n_jumbo"] for row in ranges},
        "retry_actions": {row["action"]: row["n_jobs"] for row in actions},
        "kinds_are_complete": max(n_jobs, sum(row["n_ranges"] for row in ranges)) < MOST_COUNTED,
    }


async def _datasets(
    connection: asyncpg.Connection, task_id: int, types: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    rows = await SQL.rows(connection, "datasets_of_task", task_id=task_id, types=None if types is None else list(types))
    return [dict(row) for row in rows]


async def datasets_and_files(
    connection: asyncpg.Connection, task_id: int, types: Sequence[str] | None, at_most: int
) -> list[dict[str, Any]]:
    """Read datasets with at most so many of their files each.

    `shown_status` is what people call a file's state.
    """
    datasets = await _datasets(connection, task_id, types)
    rows = await SQL.rows(
        connection, "files_of_datasets", dataset_ids=[one["dataset_id"] for one in datasets], at_most=at_most
    )
    files: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        files[row["dataset_id"]].append(_shown(row))
    return [{**one, "files": files[one["dataset_id"]]} for one in datasets]


async def job_ids(connection: asyncpg.Connection, task_id: int) -> list[int]:
    return [row["job_id"] for row in await SQL.rows(connection, "job_ids_of_task", task_id=task_id)]


async def job_descriptions(
    connection: asyncpg.Connection, task_id: int, statuses: Sequence[str] | None, at_most: int
) -> list[dict[str, Any]]:
    """Read the newest jobs of a task in these states (None: all), with the text for the pilot as `spec`."""
    wanted = None if statuses is None else list(statuses)
    rows = await SQL.rows(connection, "jobs_of_task", task_id=task_id, statuses=wanted, at_most=at_most)
    return [dict(row) for row in rows]


async def _jobs_by_state(
    connection: asyncpg.Connection, task_ids: Sequence[int], count_to: int | None
) -> Mapping[int, dict[str, int]]:
    """Jobs by state of each task; a number above `count_to` says that there are more."""
    found: dict[int, dict[str, int]] = defaultdict(dict)
    if count_to is None:
        rows = await SQL.rows(connection, "jobs_by_task", task_ids=list(task_ids))
    else:
        states, at_most = list(MEANINGS), count_to + 1
        rows = await SQL.rows(
            connection, "some_jobs_by_task", task_ids=list(task_ids), statuses=states, at_most=at_most
        )
    for row in rows:
        found[row["task_id"]][row["status"]] = row["n_jobs"]
    return found


def _as_counted(jobs: Mapping[str, int], count_to: int | None) -> dict[str, Any]:
    """Jobs by state as they are told: `more_jobs` names the states that have more than were to be counted."""
    if count_to is None:
        return {"jobs": dict(jobs)}
    return {
        "jobs": {status: min(n_jobs, count_to) for status, n_jobs in jobs.items()},
        "more_jobs": [status for status, n_jobs in jobs.items() if n_jobs > count_to],
    }


async def _files(connection: asyncpg.Connection, task_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    rows = await SQL.rows(connection, "files_by_task", task_ids=list(task_ids))
    return {row["task_id"]: {key: value for key, value in row.items() if key != "task_id"} for row in rows}


def may_read(caller: Caller, task: Mapping[str, Any]) -> bool:
    """Whether a caller may have the details of a task, given its row."""
    return DETAILS.allows(caller, Whose.of(task["user_name"], task["vo"]))


def _as_told(task: dict[str, Any], caller: Caller) -> dict[str, Any]:
    return task if may_read(caller, task) else state_of(task, TASK_COLUMNS)


#: facts that only the shown status of a file needs
_FOR_STATUS = {one.name for one in fields(FileInTask)} - {"type", "status"}


def _shown(row: asyncpg.Record) -> dict[str, Any]:
    found = {name: value for name, value in row.items() if name not in _FOR_STATUS}
    return {
        **found,
        "shown_status": shown_status(FileInTask(**{one.name: row[one.name] for one in fields(FileInTask)})),
    }
