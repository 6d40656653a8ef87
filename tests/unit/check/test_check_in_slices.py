"""Everything is checked in slices of tasks: no snapshot lasts, and a check that takes long is told part by part."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from services.cli.commands.invariants import run_check
from services.watchdog.checking import CHECKS, TaskSlices, general_checks
from services.watchdog.checking import run as checking
from shared.db import Database
from tests import rows

ONE = [check for check in CHECKS if check.name == "i3_input_counters"]


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "MOST_TASKS", 2)


async def tasks_with_wrong_counters(connection: asyncpg.Connection, count: int) -> list[int]:
    tasks = [await rows.task(connection) for _ in range(count)]
    for task in tasks:
        await rows.dataset(connection, task, n_files_used=3)
    return tasks


async def test_a_slice_sees_what_was_committed_after_the_slice_before_it(database: Database) -> None:
    async with database.read() as connection, database.read() as other:
        tasks = await tasks_with_wrong_counters(connection, 5)
        slices = TaskSlices(checks=ONE, _n_tasks=2)
        found = [one.task_id for one in await slices.run(connection, most_s=0)]
        assert (found, slices.after, slices.is_over) == (tasks[:2], tasks[1], False)
        await other.execute("UPDATE task_datasets SET n_files_used = 0 WHERE task_id = $1", tasks[3])
        assert [one.task_id for one in await slices.run(connection)] == [tasks[2], tasks[4]] and slices.is_over


async def test_of_each_check_so_many_rows_are_told_of_all_slices_together(database: Database) -> None:
    async with database.read() as connection:
        tasks = await tasks_with_wrong_counters(connection, 6)
        slices = TaskSlices(checks=ONE, rows_per_check=3, _n_tasks=2)
        assert [one.task_id for one in await slices.run(connection)] == tasks[:3]


async def test_a_slice_that_takes_too_long_is_tried_again_with_fewer_tasks(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement ends after a minute, and with it the snapshot."""
    monkeypatch.setattr(checking, "LONGEST_S", 0.2)
    slow = "SELECT task_id, 'task' AS entity, task_id AS entity_id, 'slow' AS sentence"
    slow += " FROM unnest($1::bigint[]) AS t (task_id) WHERE pg_sleep(0.15) IS NOT NULL"
    check = type(ONE[0])("i3_slow", "I3", "slow", slow, True, True)
    async with database.read() as connection:
        tasks = await tasks_with_wrong_counters(connection, 3)
        monkeypatch.setattr(checking, "MOST_TASKS", 1)
        slices = TaskSlices(checks=[check], _n_tasks=3)
        assert [one.task_id for one in await slices.run(connection)] == tasks
        monkeypatch.setattr(checking, "LONGEST_S", 0.05)
        slices = TaskSlices(checks=[check, ONE[0]])
        found = await slices.run(connection)
        assert [(one.check, one.task_id) for one in found] == [
            (name, task) for task in tasks for name in ("i3_slow", ONE[0].name)
        ], "the other checks go on"
        assert found[0].sentence == "was not checked: that took more than 0.05 s"


async def test_a_check_that_takes_too_long_stops_no_other(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "LONGEST_S", 0.05)
    columns = "SELECT NULL::bigint AS task_id, 'x' AS entity, NULL::bigint AS entity_id, 'broken' AS sentence"
    slow, quick = (
        type(ONE[0])(name, "I3", name, f"{columns} FROM pg_sleep({seconds})", False, False)
        for name, seconds in (("i3_slow", 0.3), ("i3_quick", 0))
    )
    async with database.read() as connection:
        found = await general_checks(connection, checks=[slow, quick])
    assert [(one.check, one.sentence) for one in found] == [
        ("i3_slow", "was not checked: that took more than 0.05 s"), ("i3_quick", "broken"),
    ]  # fmt: skip


class Watchdog:
    """Answers in two parts."""

    def __init__(self) -> None:
        self.asked: list[dict[str, int]] = []

    def call(self, method: str, service: str, path: str, *, timeout_s: float, params: Any = None) -> dict[str, Any]:
        self.asked.append(params or {})
        is_first = params is None
        return {
            "invariants": [
                {"invariant": "I3", "ok": is_first, "n_violations": 0 if is_first else 1},
                {"invariant": "I4", "ok": True, "n_violations": 0},
            ],
            "violations": [] if is_first else [{"invariant": "I3", "text": "wrong"}],
            "after_task_id": 17 if is_first else None,
        }


def test_the_command_asks_for_the_parts_one_after_the_other() -> None:
    watchdog = Watchdog()
    report = run_check(watchdog)  # type: ignore[arg-type]
    assert watchdog.asked == [{}, {"after_task_id": 17}]
    assert [(one["invariant"], one["ok"], one["n_violations"]) for one in report["invariants"]] == [
        ("I3", False, 1), ("I4", True, 0),
    ]  # fmt: skip
    assert [one["text"] for one in report["violations"]] == ["wrong"] and report["after_task_id"] is None
