"""What it costs to ask who goes before a task at its gate does not depend on how many wait there."""

from __future__ import annotations

import pytest

from services.job_generation.throttle.gate_order import Cycle, CycleRule, WaitingTask, places_before
from services.job_generation.throttle.store.gates import ahead_at_gate
from services.job_generation.throttle.throttle import ThrottleScope
from tests.handlers.job_generation.story import Story

WAITING, RULE = 2000, CycleRule(n_tasks=10)
#: a task, its dataset and its file as often as that; copies are made beside the rules about states
COPIES = {
    "tasks": {"task_id": "t.task_id + n * 1000", "task_name": "t.task_name || n", "current_priority": "100 + n % 800",
              "retry_at": "orrery_now() + interval '1 hour'"},
    "task_datasets": {"task_id": "t.task_id + n * 1000", "dataset_id": "t.dataset_id + n * 1000"},
    "task_files": {"task_id": "t.task_id + n * 1000", "dataset_id": "t.dataset_id + n * 1000",
                   "file_id": "t.file_id + n * 1000"},
}  # fmt: skip


async def many_wait(story: Story) -> int:
    """A task, and so many others that its gate holds."""
    task_id = await story.task(n_files=1, current_priority=100, gshare="MC")
    async with story.database.begin(reason="many tasks wait") as work:
        await work.connection.execute("SET LOCAL session_replication_role = replica")
        for table, changed in COPIES.items():
            rows = await work.connection.fetch(
                "SELECT column_name FROM information_schema.columns WHERE table_name = $1 AND is_generated = 'NEVER'",
                table,
            )
            names = [row["column_name"] for row in rows]
            values = ", ".join(changed.get(name, f"t.{name}") for name in names)
            await work.connection.execute(
                f"INSERT INTO {table} ({', '.join(names)}) OVERRIDING SYSTEM VALUE SELECT {values}"
                f" FROM {table} t, generate_series(1, {WAITING}) n WHERE t.task_id = $1",
                task_id,
            )
        await work.connection.execute(
            "INSERT INTO waits (kind, task_id, causes, retry_at) SELECT 'share', task_id, '[]', retry_at FROM tasks"
            " WHERE task_id > $1",
            task_id,
        )
        await work.connection.execute("ANALYZE tasks, task_datasets, task_files, waits")
    return task_id


@pytest.mark.parametrize("priority", [100, 500, 1600])
async def test_who_asks_at_a_gate_reads_no_more_waiting_tasks_than_a_cycle_serves(story: Story, priority: int) -> None:
    task_id = await many_wait(story)
    async with story.database.begin(reason="ask") as work:
        mine = WaitingTask(task_id, priority, "u1", work.now)
        places = places_before(mine, Cycle(), RULE)
        read = "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'waits'"
        before = await work.connection.fetchval(read)
        scans = "SELECT sum(seq_scan) FROM pg_stat_xact_user_tables WHERE relname IN ('tasks', 'waits', 'task_files')"
        scans_before = await work.connection.fetchval(scans)
        for place in places:
            found = await ahead_at_gate(work, ThrottleScope("MC", "SCORE"), mine, place, RULE, is_woken=False)
        assert len(found) == RULE.n_tasks
        assert await work.connection.fetchval(read) - before <= 3 * RULE.n_tasks
        assert await work.connection.fetchval(scans) == scans_before
