"""Finds what is older than a rule of retention says and drops a slice of it.

What a rule has judged lies before its position and is not read again; tasks whose rows could not go are put off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import asyncpg

from services.watchdog.policy.retention import RULES, Order, Rule
from shared.db.partitions import DAILY_TABLES, days_of
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)

#: what was put off is judged again so much later
AGAIN_AFTER = timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_DAY = EPOCH.date()
TASKS_AT_ONCE = 50
_FIRST_KEY = ("",) * 6


@dataclass(frozen=True)
class Slice:
    """What one slice of a rule did.

    `more`: another follows at once. `locks`: it has a table, or a day of it, to itself, so that its transaction ends.
    """

    n_rows: int
    more: bool
    locks: bool = False


@dataclass(frozen=True)
class Position:
    """How far a rule is."""

    at: datetime = EPOCH
    id: int = 0
    key: Sequence[str] = _FIRST_KEY


def midnight(day: date) -> datetime:
    """Say when a day begins, in UTC."""
    return datetime.combine(day, time.min, UTC)


async def position_of(connection: asyncpg.Connection, rule: Rule) -> Position:
    row = await SQL.row(connection, "position_of", rule=rule.name)
    return Position() if row is None else Position(row["at"], row["id"], row["key"] or _FIRST_KEY)


async def move(connection: asyncpg.Connection, rule: Rule, to: Position, n_rows: int) -> None:
    """Note how far a rule is, and what it dropped."""
    key = list(to.key) if rule.order is Order.WALK else None
    await SQL.run(connection, "move_position", rule=rule.name, at=to.at, id=to.id, key=key, n_rows=n_rows)


async def slice_by_time(work: UnitOfWork, rule: Rule, before: datetime, most: int) -> Slice:
    """Drop the oldest rows that have a time of their own."""
    n_rows = await SQL.run(work.connection, rule.name, before=before, most=most)
    if n_rows:
        await move(work.connection, rule, await position_of(work.connection, rule), n_rows)
    goes_in_two = len(rule.tables) > 1 and n_rows > 0  # rows of the first table go after theirs of the others
    return Slice(n_rows, goes_in_two or n_rows >= most)


async def slice_by_tasks(work: UnitOfWork, rule: Rule, before: datetime, most: int) -> Slice:
    """Drop rows of the tasks that ended next, after those that were put off and are due."""
    connection = work.connection
    again = await SQL.rows(connection, "tasks_put_off", rule=rule.name, most=TASKS_AT_ONCE)
    position = await position_of(connection, rule)
    found = again or await SQL.rows(
        connection, "tasks_to_judge", at=position.at, id=position.id, before=before, most=TASKS_AT_ONCE
    )
    if not found:
        return Slice(0, more=False)
    ended = [row["task_id"] for row in found if row["is_ended"]]
    waiting = set[int]()
    if rule.order is Order.WHOLE_TASKS:  # held before they are judged: who opens one again waits, or has it
        held = {row["task_id"] for row in await SQL.rows(connection, "hold_tasks", task_ids=ended)}
        waiting = set(ended) - held
    waiting |= await _waiting(connection, rule, ended)
    n_rows = await _drop(connection, rule, {"task_ids": [one for one in ended if one not in waiting]}, most)
    if not n_rows:  # all of these are judged
        if again:
            done = [row["task_id"] for row in found]
            await SQL.run(connection, "judged", rule=rule.name, day=NO_DAY, task_ids=done)
        else:
            position = Position(found[-1]["at"], found[-1]["task_id"])
        await _put_off(work, rule, waiting, NO_DAY)
    await move(connection, rule, position, n_rows)
    return Slice(n_rows, more=True)


#: what is dropped of an archived task, in this order: each names what the next has
LEFT = (
    "ranges_left",
    "range_files_left",
    "points_left",
    "jobs_of_sets_left",
    "searches_left",
    "files_left",
    "days_left",
)


async def slice_of_whole_tasks(work: UnitOfWork, rule: Rule, before: datetime, most: int) -> Slice:
    """Drop rows that archived tasks have left, then archive the tasks that ended next."""
    connection = work.connection
    task_id = await SQL.value(connection, "task_with_rows_left")
    if task_id is None:
        return await slice_by_tasks(work, rule, before, most)
    n_rows = await _drop_left(connection, task_id, most)
    if not n_rows:
        await SQL.run(connection, "nothing_left", task_id=task_id)
    await move(connection, rule, await position_of(connection, rule), n_rows)
    return Slice(n_rows, more=True)


async def _drop_left(connection: asyncpg.Connection, task_id: int, most: int) -> int:
    """Drop some of what an archived task has left; 0: there is nothing more."""
    for statement in LEFT:
        asked = {"task_id": task_id, "most": most}
        if n_rows := await SQL.run(connection, statement, **{name: asked[name] for name in SQL.parameters(statement)}):
            return n_rows
    return 0


async def slice_by_jobs(work: UnitOfWork, rule: Rule, before: date, most: int) -> Slice:
    """Drop rows of the jobs that were archived next, after those of tasks that were put off and are due."""
    connection = work.connection
    again = await SQL.row(connection, "jobs_put_off", rule=rule.name)
    if again is not None:
        return await _slice_put_off(work, rule, again, most)
    position = await position_of(connection, rule)
    day = position.at.date()
    jobs = await SQL.rows(
        connection, "jobs_to_judge", day=midnight(day), next_day=midnight(day + timedelta(days=1)), id=position.id,
        most=most,
    )  # fmt: skip
    if not jobs:
        next_day = await SQL.value(connection, "next_archive_day", day=day, before=before)
        if next_day is not None or day < before:  # what ends from now on is archived on later days
            await move(connection, rule, Position(midnight(next_day or before)), 0)
        return Slice(0, more=next_day is not None)
    tasks = sorted({row["task_id"] for row in jobs})
    waiting = await _waiting(connection, rule, tasks, [row["job_id"] for row in jobs])
    job_ids = [row["job_id"] for row in jobs if row["task_id"] not in waiting]
    n_rows = await _drop(connection, rule, {"job_ids": job_ids}, most)
    if n_rows < most or not _is_bounded(rule):
        position = Position(position.at, jobs[-1]["job_id"])
        await _put_off(work, rule, waiting, day)
    await move(connection, rule, position, n_rows)
    return Slice(n_rows, more=True)


async def _slice_put_off(work: UnitOfWork, rule: Rule, again: asyncpg.Record, most: int) -> Slice:
    """Judge jobs of one task and day again."""
    connection, task_id, day = work.connection, again["task_id"], again["day"]
    jobs = await SQL.rows(
        connection, "jobs_of_day", task_id=task_id, day=midnight(day), next_day=midnight(day + timedelta(days=1)),
        status=again["status"], job_id=again["job_id"], most=most,
    )  # fmt: skip
    if not jobs:
        await SQL.run(connection, "judged", rule=rule.name, day=day, task_ids=[task_id])
        return Slice(0, more=True)
    job_ids = [row["job_id"] for row in jobs]
    if await _waiting(connection, rule, [task_id], job_ids):
        await _put_off(work, rule, {task_id}, day)
        return Slice(0, more=True)
    n_rows = await _drop(connection, rule, {"job_ids": job_ids}, most)
    if n_rows < most or not _is_bounded(rule):
        last = jobs[-1]
        await SQL.run(
            connection, "move_put_off", rule=rule.name, task_id=task_id, day=day, status=last["status"],
            job_id=last["job_id"],
        )  # fmt: skip
    await move(connection, rule, await position_of(connection, rule), n_rows)
    return Slice(n_rows, more=True)


async def slice_of_walk(work: UnitOfWork, rule: Rule, before: datetime, most: int) -> Slice:
    """Drop what is nothing among the next rows.

    A walk that is over begins again after the days of the rule.
    """
    position = await position_of(work.connection, rule)
    if position.at > before:
        return Slice(0, more=False)
    keys: dict[str, Any] = {f"k{number}": value for number, value in enumerate(position.key, 1)}
    row = await SQL.row(work.connection, "queue_statistics", most=most, **keys)
    if row is None:
        await move(work.connection, rule, Position(work.now), 0)
        return Slice(0, more=False)
    await move(work.connection, rule, Position(position.at, 0, row["key"]), row["n_rows"])
    return Slice(row["n_rows"], more=True)


async def _drop(connection: asyncpg.Connection, rule: Rule, of: dict[str, Any], most: int) -> int:
    """Drop rows of these tasks or jobs, as many as a slice may have; how many."""
    if not any(of.values()):
        return 0
    if _is_bounded(rule):
        of["most"] = most
    return await SQL.run(connection, rule.name, **of)


def _is_bounded(rule: Rule) -> bool:
    """Tell whether a rule may have several rows of a job or task, and drops so many at a time."""
    return "most" in SQL.parameters(rule.name)


async def _waiting(
    connection: asyncpg.Connection, rule: Rule, task_ids: list[int], job_ids: Sequence[int] = ()
) -> set[int]:
    """Find those of some tasks whose rows, or those of these jobs, a rule does not drop now."""
    of: dict[str, Any] = {"task_ids": task_ids, "job_ids": job_ids}
    return {
        row["task_id"]
        for statement in (rule.puts_off if task_ids else ())
        for row in await SQL.rows(connection, statement, **{name: of[name] for name in SQL.parameters(statement)})
    }


async def _put_off(work: UnitOfWork, rule: Rule, task_ids: set[int], day: date) -> None:
    if task_ids:
        await SQL.run(
            work.connection, "put_off", rule=rule.name, task_ids=sorted(task_ids), day=day,
            due_at=work.now + AGAIN_AFTER,
        )  # fmt: skip


async def first_day_in_use(connection: asyncpg.Connection, at_most: date) -> date:
    """Find the first day of the archive, up to one, that a task or a rule still needs."""
    judged = [(await position_of(connection, rule)).at.date() for rule in RULES if rule.order is Order.JOBS]
    latest = min([at_most, *judged])
    return await SQL.value(connection, "first_day_in_use", before=latest) or latest


async def measure(connection: asyncpg.Connection) -> dict[str, int]:
    """Measure the tables of each rule, and note it for today; bytes by rule."""
    pairs = [(rule.name, table) for rule in RULES for table in rule.tables]
    rules, tables = [name for name, _ in pairs], [table for _, table in pairs]
    found = {
        row["rule"]: row["n_bytes"] for row in await SQL.rows(connection, "sizes_of_rules", rules=rules, tables=tables)
    }
    await SQL.run(connection, "note_sizes", rules=list(found), sizes=list(found.values()))
    await SQL.run(connection, "forget_sizes")
    return found


@dataclass(frozen=True)
class Told:
    """What operators are told, by rule; `oldest`: the time of the first row that is not judged yet."""

    positions: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, Mapping[str, Any]]
    put_off: Mapping[str, Mapping[str, Any]]
    oldest: Mapping[str, datetime | None]


async def told(connection: asyncpg.Connection) -> Told:
    """Read what operators are told."""
    positions = _by_rule(await SQL.rows(connection, "positions"))
    sizes = _by_rule(await SQL.rows(connection, "latest_sizes"))
    put_off = _by_rule(await SQL.rows(connection, "tasks_waiting"))
    names = {order: [rule.name for rule in RULES if rule.order is order] for order in Order}
    by_tasks = names[Order.TASKS] + names[Order.WHOLE_TASKS]
    oldest = {row["rule"]: row["at"] for row in await SQL.rows(connection, "oldest_by_time")}
    oldest |= {row["rule"]: row["at"] for row in await SQL.rows(connection, "oldest_tasks", rules=by_tasks)}
    for row in await SQL.rows(connection, "oldest_days", rules=names[Order.JOBS]):
        oldest[row["rule"]] = row["day"] and midnight(row["day"])
    for table in DAILY_TABLES:
        days = await days_of(connection, table)
        oldest[table.name] = midnight(days[0]) if days else None
    oldest |= {name: positions[name]["at"] for name in names[Order.WALK] if name in positions}
    return Told(positions, sizes, put_off, oldest)


def _by_rule(rows: Sequence[asyncpg.Record]) -> dict[str, Mapping[str, Any]]:
    return {row["rule"]: dict(row) for row in rows}
