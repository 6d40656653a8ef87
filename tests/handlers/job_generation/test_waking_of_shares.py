"""A task that its share holds back while a chunk of it is on its way through brokerage."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.job_generation.throttle import gating
from shared.events import TaskReleased
from tests.handlers.job_generation.story import Story, chunks_in
from tests.handlers.job_generation.test_generating import look_for_shares_with_room


async def held_back_with_a_chunk_offered(
    story: Story, monkeypatch: pytest.MonkeyPatch, status: str = "ready"
) -> tuple[int, int]:
    """A task with more input than one chunk takes, whose share became full before the chunk was brokered; the chunk."""
    monkeypatch.setattr(gating, "COUNTS_ARE_FRESH_FOR", timedelta(0))
    task_id = await story.task(n_files=260, status=status)
    [chunk_id] = await story.ready(task_id)
    await story.value(
        "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores) "
        "VALUES ('Q_ALPHA', 'SCORE', 'MC', 'u', 'activated', 30000, 30000) RETURNING 1"
    )
    assert chunks_in(await story.hear(TaskReleased(task_id=task_id, status=status, reason="test"))) == []
    assert await story.value("SELECT kind FROM waits WHERE task_id = $1", task_id) == "share"
    return task_id, chunk_id


async def test_a_task_held_by_its_share_is_woken_although_its_chunk_found_no_queue(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, chunk_id = await held_back_with_a_chunk_offered(story, monkeypatch)
    await story.unplaceable(task_id, chunk_id)
    assert await story.status(task_id) == "pending"
    assert await look_for_shares_with_room(story) == []
    await story.value("UPDATE queue_statistics SET n_jobs = 10 RETURNING 1")
    assert await look_for_shares_with_room(story) == [((task_id,), "room in the share")]


async def test_a_task_that_is_woken_while_its_chunk_is_brokered_offers_the_rest_as_soon_as_that_has_jobs(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, chunk_id = await held_back_with_a_chunk_offered(story, monkeypatch, "running")
    await story.value("UPDATE queue_statistics SET n_jobs = 10 RETURNING 1")
    assert await look_for_shares_with_room(story) == [((task_id,), "room in the share")]
    assert chunks_in(await story.hear(TaskReleased(task_id=task_id, status="running", reason="woken"))) == []
    [rest] = chunks_in(await story.broker(task_id, chunk_id))
    assert await story.value("SELECT n_files FROM chunks WHERE chunk_id = $1", rest) == 10


async def test_units_that_need_little_memory_wait_for_their_share_and_not_for_those_that_need_much(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gating, "COUNTS_ARE_FRESH_FOR", timedelta(0))
    await story.value(
        "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores) "
        "VALUES ('Q_ALPHA', 'SCORE', 'MC', 'u', 'activated', 2000, 2000) RETURNING 1"
    )
    task_id = await story.task(n_files=2)
    await story.value(
        "UPDATE task_files SET ram_count = 8000 WHERE file_id = (SELECT max(file_id) FROM task_files) RETURNING 1"
    )
    [raised] = await story.ready(task_id)  # one job more, and the share has enough
    assert await story.value("SELECT ram_mb FROM chunks WHERE chunk_id = $1", raised) == 8000
    await story.value("UPDATE queue_statistics SET n_jobs = 2001 RETURNING 1")
    await story.unplaceable(task_id, raised)
    [task] = await story.fetch("SELECT status, retry_at - orrery_now() AS wait FROM tasks WHERE task_id = $1", task_id)
    assert task["status"] == "pending" and task["wait"] <= timedelta(seconds=30)


async def test_tasks_woken_for_one_resource_type_take_nothing_from_those_of_another(story: Story) -> None:
    for resource_type in ("MCORE", "SCORE"):
        await story.value(
            "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores) "
            "VALUES ('Q_ALPHA', $1, 'MC', 'u', 'activated', 30000, 30000) RETURNING 1",
            resource_type,
        )
    several, single = await story.task(n_files=260), await story.task(n_files=1)
    await story.value("UPDATE tasks SET resource_type = 'MCORE' WHERE task_id = $1 RETURNING 1", several)
    for task_id in (several, single):
        assert await story.ready(task_id) == []
    for task_id, resource_type in ((several, "MCORE"), (single, "SCORE")):
        await story.value("UPDATE queue_statistics SET n_jobs = 10 WHERE resource_type = $1 RETURNING 1", resource_type)
        assert await look_for_shares_with_room(story) == [((task_id,), "room in the share")]
