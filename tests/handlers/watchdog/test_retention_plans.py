"""What the rules of retention read is what is due: a test of plans over many rows that are not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import orjson
import pytest

from services.watchdog.policy.retention import RULES
from services.watchdog.store.retention import SQL
from tests.handlers.watchdog.conftest import START, Stage

N = 20_000
#: of a table that no statement may read
WHOLE = N // 10

_FILL = (
    "INSERT INTO tasks (task_name, user_name, status, state_change_time)"
    " SELECT 't' || n, 'u', CASE n % 2 WHEN 0 THEN 'done' ELSE 'running' END, $1::timestamptz + n * interval '1 minute'"
    f" FROM generate_series(1, {N}) n",
    "SELECT ensure_day_partitions('jobs_archive', $1::timestamptz::date, 4)",
    "INSERT INTO jobs_archive (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number,"
    " status, queue, resource_type, gshare, user_name, prod_source_label, job_type, creation_time, state_change_time,"
    " archived_at)"
    " SELECT n, n / 100, 1, 1, 0, 1, 1, 'finished', 'Q', 'SCORE', 's', 'u', 'managed', 'normal', $1, $1,"
    f" $1::timestamptz + n % 4 * interval '1 day' FROM generate_series(1, {N}) n",
    "INSERT INTO audit_log (at, caller, verb, target, outcome)"
    f" SELECT $1::timestamptz + n * interval '1 minute', 'a', 'v', 't', 'o' FROM generate_series(1, {N}) n",
    "INSERT INTO job_files (job_id, file_id, dataset_id, task_id, type)"
    f" SELECT n, n, 1, n / 100, 'input' FROM generate_series(1, {N}) n WHERE $1 <= $1::timestamptz",
    "INSERT INTO chunks (task_id, kind, status, n_files)"
    f" SELECT n / 4, 'normal', 'used', 1 FROM generate_series(1, {N}) n WHERE $1 <= $1::timestamptz",
    "INSERT INTO task_datasets (dataset_id, task_id, dataset_name, type, status)"
    " SELECT n, n, 'd' || n / 3, CASE n % 3 WHEN 0 THEN 'output' ELSE 'input' END, 'done'"
    f" FROM generate_series(1, {N}) n WHERE $1 <= $1::timestamptz",
    "INSERT INTO task_files (dataset_id, task_id, lfn, type, status)"
    f" SELECT 1 + n % 5, 1 + n % 5, 'f' || n, 'input', 'finished' FROM generate_series(1, {N}) n"
    " WHERE $1 <= $1::timestamptz",
    "INSERT INTO tasks_archive (task_id, user_name, status, task, datasets, has_rows_left, archived_at)"
    """ SELECT -n, 'u', 'done', '{}', '[{"dataset_id": 1}, {"dataset_id": 2}]', n = 17,"""
    f" $1::timestamptz + n * interval '1 minute' FROM generate_series(1, {N}) n",
    "INSERT INTO task_files_archive (task_id, first_file_id, dataset_id, n_files, files)"
    f" SELECT -n, n, n, 1, '[]' FROM generate_series(1, {N}) n WHERE $1 <= $1::timestamptz",
    "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores)"
    f" SELECT 'Q' || n, 'S', 's', 'u', 'running', 0, 0 FROM generate_series(1, {N}) n WHERE $1 <= $1::timestamptz",
)  # fmt: skip

_DAY = timedelta(days=1)
_LATER = START + timedelta(hours=2)
CASES: dict[str, dict[str, Any]] = {
    "tasks_to_judge": {"at": START, "id": 0, "before": _LATER, "most": 50},
    "jobs_to_judge": {"day": START, "next_day": START + _DAY, "id": 1000, "most": 50},
    "jobs_of_day": {"task_id": 17, "day": START, "next_day": START + _DAY, "status": "", "job_id": 0, "most": 50},
    "audit_log": {"before": _LATER, "most": 50},
    "job_files": {"job_ids": list(range(50)), "most": 50},
    "chunks": {"task_ids": list(range(50)), "most": 50},
    "tasks": {"task_ids": list(range(50)), "most": 500},
    "tasks_with_rows": {"task_ids": list(range(50))},
    "tasks_under_way": {"task_ids": list(range(50))},
    "tasks_with_children": {"task_ids": list(range(50))},
    "tasks_read_by_others": {"task_ids": list(range(50))},
    "tasks_skipped_by_others": {"task_ids": list(range(50))},
    "task_with_rows_left": {},
    "files_left": {"task_id": -17, "most": 500},
    "tasks_archive": {"before": _LATER, "most": 50},
    "queue_statistics": {**{f"k{number}": "Q5" for number in range(1, 7)}, "most": 50},
}


@pytest.fixture
async def filled(stage: Stage) -> None:
    async with stage.database.read() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        for statement in _FILL:
            await connection.execute(statement, START)
    async with stage.database.read() as connection:
        await connection.execute("ANALYZE")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


#: positions after everything, or after all that is old enough: what lies before is not read again
JUDGED: dict[str, dict[str, Any]] = {
    "tasks_to_judge": {"at": _LATER, "id": N, "before": _LATER, "most": 50},
    "jobs_to_judge": {"day": START, "next_day": START + _DAY, "id": N, "most": 50},
    "jobs_of_day": {"task_id": 17, "day": START, "next_day": START + _DAY, "status": "z", "job_id": 0, "most": 50},
    "tasks_put_off": {"rule": "chunks", "most": 50},
    "jobs_put_off": {"rule": "job_files"},
    "audit_log": {"before": START, "most": 50},
    "parked_messages": {"before": START, "most": 50},
    "tasks_archive": {"before": START, "most": 50},
}


async def rows_read(stage: Stage, cases: dict[str, dict[str, Any]]) -> dict[str, int]:
    """The most rows that one node of each statement's plan reads."""
    read = {}
    for name, arguments in cases.items():
        ordered = [arguments[one] for one in SQL.parameters(name)]
        async with stage.database.read() as connection:
            transaction = connection.transaction()
            await transaction.start()
            text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT json) {SQL.text(name)}", *ordered)
            await transaction.rollback()
        plan = (orjson.loads(text) if isinstance(text, str) else text)[0]["Plan"]
        read[name] = max(
            (one["Actual Rows"] + one.get("Rows Removed by Filter", 0)) * one["Actual Loops"] for one in nodes(plan)
        )
    return read


@pytest.mark.usefixtures("filled")
async def test_what_was_judged_is_not_read_again(stage: Stage) -> None:
    assert {name: n for name, n in (await rows_read(stage, JUDGED)).items() if n > 1} == {}


@pytest.mark.usefixtures("filled")
async def test_a_slice_reads_no_more_than_what_it_judges(stage: Stage) -> None:
    assert {name: n for name, n in (await rows_read(stage, CASES)).items() if n >= WHOLE} == {}


_KEYS_WITHOUT_INDEX = """
SELECT k.conrelid::regclass || '.' || a.attname AS name
  FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
 WHERE k.contype = 'f' AND k.confrelid::regclass::text = ANY($1)
   AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = k.conrelid AND i.indkey[0] = k.conkey[1]
                                            AND i.indpred IS NULL)
 ORDER BY name
"""


async def test_what_refers_to_rows_that_are_dropped_is_found_by_an_index(stage: Stage) -> None:
    """Each row that is dropped is looked for in the tables that refer to it; a plan does not show that."""
    dropped = sorted({table for rule in RULES for table in rule.tables} | {"tasks"})
    async with stage.database.read() as connection:
        assert [row["name"] for row in await connection.fetch(_KEYS_WITHOUT_INDEX, dropped)] == []
