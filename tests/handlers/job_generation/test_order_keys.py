"""Jobs of a VO with task queues point at what their order depends on."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from services.job_generation.kinds.merge.job import MERGE
from services.job_generation.policy.order_facts import task_queue_of, user_priority_of
from services.job_generation.policy.values import Task
from services.job_generation.specification.kind_of_job import NORMAL
from services.job_generation.store.order_keys import intern
from shared.events import Event, JobsReordered, TaskCommanded
from shared.order.cpu_segments import CPU_SEGMENTS_S
from shared.order.identity import TaskQueueIdentity
from shared.task.in_effect import rules_of
from shared.task.needs import WorkNeeds
from tests.handlers.job_generation.story import Story

GIVEN = {"userPriority": 4, "tags": ["GPU", "SSD"], "includedSite": ["ALPHA", "Q_ALPHA"], "excludedSite": "BETA"}


SECTION = {
    "ShareCorrectorsToStart": "WMSHistory",
    "WMSHistory": {"UsersOfShare": {"Group": "User Analysis", "WeekSlice": {"TimeSpan": 604_800}}},
}


async def configure(story: Story, component: str, key: str, value: Any, *, vo: str = "demo") -> None:
    """Set a parameter of the VO, as every service knows it some seconds later."""
    async with story.database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO parameters (component, key, vo, value, type) VALUES ($1, $2, $3, $4, $5)"
            " ON CONFLICT (app, component, key, vo) DO UPDATE SET value = excluded.value",
            component, key, vo, *(value, "str") if isinstance(value, str) else (orjson.dumps(value).decode(), "json"),
        )  # fmt: skip
        await work.connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    await run(story, "parameters")


async def run(story: Story, name: str) -> tuple[bool | None, list[Event]]:
    """One turn of a periodic work; what it returned and what it announced."""
    [periodic] = [one for one in story.service.periodic if one.name == name]
    async with story.database.begin(reason="test") as work:
        more = await periodic.run(work)
        return more, list(work.emitted)


async def switch_on(story: Story) -> None:
    await configure(story, "order", "TASK_QUEUES", "within")


async def given_keys_again(story: Story) -> list[JobsReordered]:
    """Both passes of what follows a change; what was announced."""
    said: list[JobsReordered] = []
    for _ in range(2):
        for _ in range(50):
            more, events = await run(story, "order-keys")
            said += [one for one in events if isinstance(one, JobsReordered)]
            if not more:
                break
        else:
            raise AssertionError("the sweep does not end")
        await story.fetch("UPDATE order_key_sweeps SET due_at = orrery_now()")
    return said


async def jobs_of(story: Story, given: dict[str, Any], **values: Any) -> list[dict[str, Any]]:
    task_id = await story.task(n_files=3, vo="demo", **{"user_name": "ann", **values})
    async with story.database.begin(reason="test") as work:
        await work.connection.execute(
            "UPDATE tasks SET split_rule = split_rule || $2 WHERE task_id = $1", task_id, given
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


async def keys_of(story: Story) -> list[int]:
    return [row["order_key_id"] for row in await story.fetch("SELECT order_key_id FROM jobs ORDER BY job_id")]


async def test_switching_task_queues_on_and_off_gives_waiting_jobs_their_keys_again_and_tells_dispatchers(
    story: Story,
) -> None:
    found = await jobs_of(story, GIVEN, user_name="ann")
    await given_keys_again(story)
    assert {row["order_key_id"] for row in found} == {0}
    running, *waiting = [row["job_id"] for row in await story.fetch("SELECT job_id FROM jobs ORDER BY job_id")]
    async with story.database.begin(reason="test") as work:
        for status in ("activated", "sent"):
            await work.connection.execute("UPDATE jobs SET status = $2 WHERE job_id = $1", running, status)
        await work.connection.execute("UPDATE jobs SET status = 'activated' WHERE job_id = $1", waiting[0])
    await switch_on(story)
    said = await given_keys_again(story)
    first, *others = await keys_of(story)
    assert first == 0 and len(set(others)) == 1 and others[0] > 0
    assert [job_id for one in said for job_id in one.job_ids] == waiting
    [moved] = [job for one in said for job in one.lane_jobs]
    assert (moved.job_id, moved.from_order_key_id, moved.order_key_id) == (waiting[0], 0, others[0])
    await configure(story, "order", "TASK_QUEUES", "off")
    said = await given_keys_again(story)
    assert await keys_of(story) == [0, 0, 0]
    [moved] = [job for one in said for job in one.lane_jobs]
    assert (moved.job_id, moved.from_order_key_id, moved.order_key_id) == (waiting[0], others[0], 0)
    assert await given_keys_again(story) == []


async def test_a_switch_goes_in_bounded_slices_and_a_held_job_gets_its_key_in_the_second_pass(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("ann", "bob", "cid"):
        await jobs_of(story, GIVEN, user_name=user)
    await given_keys_again(story)
    [periodic] = [one for one in story.service.periodic if one.name == "order-keys"]
    monkeypatch.setattr(periodic.run.__self__, "_size", 2)
    held = (await story.fetch("SELECT max(job_id) AS job_id FROM jobs"))[0]["job_id"]
    await switch_on(story)
    async with story.database.pool.acquire() as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT FROM jobs WHERE job_id = $1 FOR UPDATE", held)
        more, n_jobs = True, []
        while more:
            more, events = await run(story, "order-keys")
            n_jobs.append(sum(len(one.job_ids) for one in events if isinstance(one, JobsReordered)))
        await transaction.rollback()
    assert max(n_jobs) == 2 and sum(n_jobs) == 8
    assert (await run(story, "order-keys"))[1] == []  # the second pass waits
    await story.fetch("UPDATE order_key_sweeps SET due_at = orrery_now()")
    assert [one.job_ids for one in (await run(story, "order-keys"))[1]] == [(held,)]
    assert 0 not in await keys_of(story)


async def test_without_task_queues_a_share_whose_users_are_corrected_has_a_key_for_each_owner(story: Story) -> None:
    await configure(story, "share_correction", "ShareCorrections", SECTION)
    [one, *_] = await jobs_of(story, GIVEN, gshare="User Analysis")
    assert (one["vo"], one["user_name"], one["user_group"], one["cpu_segment_s"]) == ("demo", "ann", "", 0)
    assert (one["sites"], one["tags"], one["job_types"], one["user_priority"]) == ([], [], [], 1)
    assert {row["order_key_id"] for row in await jobs_of(story, GIVEN, gshare="Production")} == {0}


async def test_jobs_of_a_task_that_comes_into_a_share_whose_users_are_corrected_get_a_key(story: Story) -> None:
    await configure(story, "share_correction", "ShareCorrections", SECTION)
    await jobs_of(story, GIVEN, gshare="Production")
    await given_keys_again(story)
    [task] = await story.fetch("SELECT DISTINCT task_id FROM jobs")
    await story.fetch("UPDATE tasks SET gshare = 'User Analysis' WHERE task_id = $1", task["task_id"])
    await story.hear(TaskCommanded(task_id=task["task_id"], command="change_share", status="running"))
    await given_keys_again(story)
    assert 0 not in await keys_of(story)
    assert await story.value("SELECT count(*) FROM order_key_changes") == 0


async def test_without_a_corrector_of_users_waiting_jobs_lose_the_keys_of_their_owners(story: Story) -> None:
    await configure(story, "share_correction", "ShareCorrections", SECTION)
    await jobs_of(story, GIVEN, gshare="User Analysis")
    await given_keys_again(story)
    await configure(story, "share_correction", "EnableSharesCorrection", False)
    await given_keys_again(story)
    assert set(await keys_of(story)) == {0}


def a_task(**values: Any) -> Task:
    fields = {"task_id": 1, "status": "running", "name": "t", "user_name": "ann", "prod_source_label": "user",
              "priority": 1, "gshare": "User", "resource_type": "SCORE", "core_count": 1, "needs": WorkNeeds(),
              "rules": None, "vo": "demo"}  # fmt: skip
    return Task(**{**fields, **values})


@pytest.mark.parametrize(
    ("given", "user_priority"),
    [({}, 1), ({"userPriority": 0}, 0), ({"userPriority": -7}, 0), ({"userPriority": 12}, 10)],
)
def test_the_user_priority_of_a_task_is_one_unless_it_says_otherwise(given: dict[str, Any], user_priority: int) -> None:
    assert user_priority_of(a_task(rules=rules_of(given))) == user_priority


def test_merge_jobs_may_run_wherever_their_files_are() -> None:
    task = a_task(parameters={"site": "ALPHA,BETA"}, rules=rules_of({"excludedSite": ["GAMMA"]}))
    normal = task_queue_of(task, 7200, CPU_SEGMENTS_S, is_bound=NORMAL.goes_where_the_task_says)
    assert (normal.sites, normal.cpu_segment_s) == (("ALPHA", "BETA"), 21_600)
    merge = task_queue_of(task, 7200, CPU_SEGMENTS_S, is_bound=MERGE.goes_where_the_task_says)
    assert (merge.sites, merge.banned_sites) == ((), ())
