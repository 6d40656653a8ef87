"""Jobs of a VO with task queues point at what their order depends on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.job_generation.policy.order_facts import task_queue_of, user_priority_of
from services.job_generation.policy.requirements import Requirement
from services.job_generation.policy.values import Task
from services.job_generation.store.order_keys import intern
from shared.model.needs import WorkNeeds
from shared.order.cpu_segments import CPU_SEGMENTS_S
from shared.order.identity import TaskQueueIdentity
from tests.handlers.job_generation.story import Story

GIVEN = {"userPriority": 4, "tags": ["GPU", "SSD"], "includedSite": ["ALPHA", "Q_ALPHA"], "excludedSite": "BETA"}


async def switch_on(story: Story) -> None:
    async with story.database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO parameters (component, key, vo, value, type) VALUES ('order', 'TASK_QUEUES', 'demo', 'within',"
            " 'str')"
        )
        await work.connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    [refresh] = [one for one in story.service.periodic if one.name == "parameters"]
    async with story.database.begin(reason="test") as work:
        await refresh.run(work)


async def jobs_of(story: Story, given: dict[str, Any], **values: Any) -> list[dict[str, Any]]:
    task_id = await story.task(n_files=3, vo="demo", user_name="ann", **values)
    async with story.database.begin(reason="test") as work:
        await work.connection.execute(
            "UPDATE task_parameters SET task_parameters = $2 WHERE task_id = $1", task_id, given
        )
    await story.jobs_of(task_id)
    return await story.fetch(
        "SELECT j.order_key_id, k.user_priority, q.* FROM jobs j LEFT JOIN order_keys k USING (order_key_id)"
        " LEFT JOIN task_queues q USING (task_queue_id) WHERE j.task_id = $1 ORDER BY j.job_id",
        task_id,
    )


async def test_jobs_of_a_vo_without_task_queues_have_no_order_key(story: Story) -> None:
    found = await jobs_of(story, GIVEN)
    assert {row["order_key_id"] for row in found} == {0} and len(found) == 3
    assert await story.value("SELECT count(*) FROM task_queues") == 0


async def test_jobs_of_a_task_share_one_order_key_with_all_that_their_order_depends_on(story: Story) -> None:
    await switch_on(story)
    found = await jobs_of(story, GIVEN, working_group="physics", processing_type="simul")
    assert len(found) == 3 and len({row["order_key_id"] for row in found}) == 1
    first = found[0]
    assert first["order_key_id"] > 0 and first["user_priority"] == 4
    assert (first["vo"], first["user_name"], first["user_group"]) == ("demo", "ann", "physics")
    assert (first["sites"], first["banned_sites"], first["tags"]) == (["ALPHA", "Q_ALPHA"], ["BETA"], ["GPU", "SSD"])
    assert first["job_types"] == ["simul"] and first["cpu_segment_s"] in CPU_SEGMENTS_S


async def test_tasks_that_agree_share_a_task_queue_and_user_priorities_are_classes_in_it(story: Story) -> None:
    await switch_on(story)
    one, same, urgent = [(await jobs_of(story, {"userPriority": priority}))[0] for priority in (1, 1, 70)]
    assert one["order_key_id"] == same["order_key_id"] != urgent["order_key_id"]
    assert one["task_queue_id"] == urgent["task_queue_id"] and urgent["user_priority"] == 10
    assert await story.value("SELECT count(*) FROM task_queues") == 1


async def test_two_transactions_for_one_task_queue_do_not_wait_for_each_other(story: Story) -> None:
    wanted = [(TaskQueueIdentity("demo", "ann", "physics", 3600), 1)]
    async with story.database.begin(reason="test") as work:
        first = await intern(work, wanted)
    async with story.database.begin(reason="test") as one, story.database.begin(reason="test") as other:
        found = await intern(one, wanted)
        assert found == first == await asyncio.wait_for(intern(other, wanted), 10)


async def test_a_task_queue_that_was_not_used_within_a_minute_is_used_now(story: Story) -> None:
    wanted = [(TaskQueueIdentity("demo", name, "physics", 3600), 1) for name in ("ann", "bob")]
    age = "SELECT count(*) FROM task_queues WHERE used_at < orrery_now() - interval '1 minute'"
    async with story.database.begin(reason="test") as work:
        first = await intern(work, wanted)
        await work.connection.execute("UPDATE task_queues SET used_at = used_at - interval '2 minutes'")
    assert await story.value(age) == 2
    async with story.database.begin(reason="test") as work:
        assert await intern(work, wanted[:1]) == {wanted[0]: first[wanted[0]]}
    assert await story.value(age) == 1


def a_task(**values: Any) -> Task:
    fields = {"task_id": 1, "status": "running", "name": "t", "user_name": "ann", "prod_source_label": "user",
              "priority": 1, "gshare": "User", "resource_type": "SCORE", "core_count": 1, "needs": WorkNeeds(),
              "rules": None, "vo": "demo"}  # fmt: skip
    return Task(**{**fields, **values})


NEEDS = Requirement("user", "SCORE", 1, 2000, 1000, 7200)


@pytest.mark.parametrize(
    ("given", "user_priority"),
    [({}, 1), ({"userPriority": 0}, 0), ({"userPriority": -7}, 0), ({"userPriority": 12}, 10)],
)
def test_the_user_priority_of_a_task_is_one_unless_it_says_otherwise(given: dict[str, Any], user_priority: int) -> None:
    assert user_priority_of(a_task(parameters=given)) == user_priority


def test_merge_jobs_may_run_wherever_their_files_are() -> None:
    task = a_task(parameters={"site": "ALPHA,BETA", "excludedSite": ["GAMMA"]})
    assert task_queue_of(task, NEEDS, "normal", CPU_SEGMENTS_S).sites == ("ALPHA", "BETA")
    assert task_queue_of(task, NEEDS, "normal", CPU_SEGMENTS_S).cpu_segment_s == 21_600
    merge = task_queue_of(task, NEEDS, "merge", CPU_SEGMENTS_S)
    assert (merge.sites, merge.banned_sites) == ((), ())
