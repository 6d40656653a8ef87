"""The limit of queued jobs holds for a share: over all its tasks and chunks, and before chunks are jobs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.job_generation.store import tasks
from services.job_generation.throttle import gating
from shared.config.parameters import Parameters
from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.job_generation.story import Story, chunks_in
from tests.rows import insert

OF_SHARE = "SELECT count(*) FROM jobs WHERE gshare = 'MC'"
SLOT = {"gshare": "MC"}
#: less urgent than what is queued: as urgent tasks go on while few jobs are activated
LESS = {**SLOT, "current_priority": 1}


async def limited(context: Context, databases: Databases, limit: int, cap: int | None = None) -> Story:
    """A story where so many jobs of a share are always allowed to be queued; a chunk makes a fifth of the cap."""
    async with context.database.read() as connection:
        for key, value in (("NQUEUELIMIT", limit), ("NQUEUECAP", cap)):
            if value is not None:
                await connection.execute(
                    "INSERT INTO parameters (app, component, key, value, type)"
                    " VALUES ('jedi', 'prod_job_throttler', $1, $2, 'int')",
                    key,
                    str(value),
                )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    return await Story.begin(context, databases)


async def test_what_one_task_offered_holds_the_next_task_of_the_share_back(
    context: Context, databases: Databases
) -> None:
    story = await limited(context, databases, 3)
    first, second = await story.task(n_files=4, **SLOT), await story.task(n_files=4, **LESS)
    elsewhere = await story.task(n_files=4, gshare="Data")
    assert len(await story.ready(first)) == 1
    assert await story.ready(second) == []
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", second)
    assert reason == "nothing runs and 4 queued jobs are more than the limit 3"
    assert len(await story.ready(elsewhere)) == 1


async def test_the_chunks_of_one_task_are_counted_one_after_the_other(context: Context, databases: Databases) -> None:
    story = await limited(context, databases, 3, cap=20)  # a chunk of four jobs
    task_id = await story.task(n_files=4, **SLOT)
    async with story.database.begin(reason="a second master") as work:
        await work.connection.execute(
            "INSERT INTO task_datasets (task_id, dataset_name, type, status, stream_name, n_files, n_files_to_be_used,"
            " n_files_used, n_events_used) VALUES ($1, 'mc.more', 'input', 'ready', 'IN', 0, 0, 0, 0)",
            task_id,
        )
        more = await work.connection.fetchval("SELECT max(dataset_id) FROM task_datasets WHERE task_id = $1", task_id)
        await work.connection.execute(
            "INSERT INTO task_files (dataset_id, task_id, lfn, type, status, max_attempt, n_events, fsize)"
            " SELECT $1, $2, 'more' || n, 'input', 'ready', 3, 10, 1000 FROM generate_series(1, 4) n",
            more,
            task_id,
        )
        await work.connection.execute(
            "UPDATE task_datasets SET n_files = 4, n_files_to_be_used = 4 WHERE dataset_id = $1", more
        )
    assert len(await story.ready(task_id)) == 1


async def test_a_chunk_makes_no_more_jobs_than_its_share_was_allowed(context: Context, databases: Databases) -> None:
    story = await limited(context, databases, 1, cap=15)  # a fifth of the cap: three jobs
    task_id = await story.task(n_files=8, rule={"nFilesPerJob": None, "nGBPerJob": 1, "nMaxFilesPerJob": 1}, **SLOT)
    [chunk_id] = await story.ready(task_id)
    assert await story.value("SELECT max_jobs FROM chunks WHERE chunk_id = $1", chunk_id) == 3
    await story.broker(task_id, chunk_id)
    assert await story.value(OF_SHARE) == 3
    assert (await story.files(task_id)).count("ready") + (await story.files(task_id)).count("picked") == 5


async def test_without_a_configured_limit_it_is_four_bunches(story: Story) -> None:
    task_id = await story.task(**SLOT)
    async with story.database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO queue_statistics VALUES ('Q_ALPHA', 'SCORE', 'MC', 'bob', 'activated', 2001, 2001)"
        )
    assert await story.ready(task_id) == []
    numbers = await story.value("SELECT numbers FROM generation_decisions WHERE task_id = $1", task_id)
    assert (numbers["bunch"], numbers["queue_limit"]) == (500, 2000)


async def resource_queue(story: Story, *, function: str = "Resource", throttled: bool = True) -> int:
    """A work queue, as a rule one that is throttled by itself."""
    await story.fetch(
        "INSERT INTO work_queues (queue_id, queue_name, queue_type, vo, queue_function, throttled)"
        " VALUES (7, 'gpu', 'managed', 'demo', $1, $2)",
        function,
        throttled,
    )
    return 7


async def cap_of_queue(context: Context, databases: Databases, n_jobs: int) -> Story:
    """A story in which the work queue gpu has a limit of its own, and shares a high one."""
    story = await limited(context, databases, 1000)
    await story.fetch(
        "INSERT INTO parameters (app, component, key, value, type)"
        " VALUES ('jedi', 'prod_job_throttler', 'NQUEUELIMIT_gpu', $1, 'int')",
        str(n_jobs),
    )
    await story.fetch("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    return await Story.begin(context, databases)


async def test_tasks_of_a_resource_queue_are_throttled_by_it_whatever_their_share(
    context: Context, databases: Databases
) -> None:
    story = await cap_of_queue(context, databases, 3)
    queue = await resource_queue(story)
    first = await story.task(n_files=4, work_queue_id=queue, **SLOT)
    of_share = await story.task(n_files=4, **SLOT)
    of_queue = await story.task(n_files=4, work_queue_id=queue, **{**LESS, "gshare": "Data"})
    assert len(await story.jobs_of(first)) == 4  # made, and counted by the work queue from now on
    carried = await story.fetch("SELECT DISTINCT work_queue_id FROM jobs WHERE task_id = $1", first)
    assert [row["work_queue_id"] for row in carried] == [queue], "jobs carry the work queue of their task"
    assert len(await story.ready(of_share)) == 1
    assert await story.ready(of_queue) == []
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", of_queue)
    assert reason == "nothing runs and 4 queued jobs are more than the limit 3"
    [causes] = await story.fetch("SELECT causes FROM waits WHERE task_id = $1", of_queue)
    assert "SCORE@7" in str(causes)


async def test_a_resource_queue_takes_no_task_out_of_the_gate_of_its_share(
    context: Context, databases: Databases
) -> None:
    story = await limited(context, databases, 3)
    queue = await resource_queue(story)
    assert len(await story.ready(await story.task(n_files=4, work_queue_id=queue, **SLOT))) == 1
    more = await story.task(n_files=4, work_queue_id=queue, **LESS)
    beside = await story.task(n_files=4, **LESS)
    for task_id in (more, beside):
        assert await story.ready(task_id) == [], "what its chunks may become counts for the share"
        [causes] = await story.fetch("SELECT causes FROM waits WHERE task_id = $1", task_id)
        assert "SCORE" in str(causes) and "SCORE@7" not in str(causes), "it waits for its share"
    elsewhere = await story.task(n_files=4, **{**LESS, "gshare": "Data"})
    assert len(await story.ready(elsewhere)) == 1


async def test_who_waits_at_one_gate_holds_nobody_back_at_another(context: Context, databases: Databases) -> None:
    story = await limited(context, databases, 3)
    queue = await resource_queue(story)
    assert len(await story.ready(await story.task(n_files=4, current_priority=600, **SLOT))) == 1
    urgent = await story.task(n_files=4, work_queue_id=queue, current_priority=500, **SLOT)
    assert await story.ready(urgent) == [], "its share has enough"
    low = await story.task(n_files=4, work_queue_id=queue, **{**LESS, "gshare": "Data"})
    assert len(await story.ready(low)) == 1


async def test_what_chunks_of_a_resource_queue_may_become_counts_for_it(context: Context, databases: Databases) -> None:
    story = await cap_of_queue(context, databases, 3)
    queue = await resource_queue(story)
    first, same, other = [
        await story.task(n_files=4, **{"gshare": "MC", **given})
        for given in ({"work_queue_id": queue}, {**LESS, "work_queue_id": queue, "gshare": "Data"}, {})
    ]
    assert len(await story.ready(first)) == 1
    assert await story.ready(same) == [] and len(await story.ready(other)) == 1


@pytest.mark.parametrize(("function", "throttled"), [("Resource", False), ("Other", True)])
async def test_a_queue_that_is_not_throttled_and_one_that_is_not_a_resource_have_no_limit_of_their_own(
    context: Context, databases: Databases, function: str, throttled: bool
) -> None:
    story = await cap_of_queue(context, databases, 3)
    queue = await resource_queue(story, function=function, throttled=throttled)
    first, second = [await story.task(n_files=4, work_queue_id=queue, **slot) for slot in (SLOT, LESS)]
    assert len(await story.ready(first)) == 1 and len(await story.ready(second)) == 1


async def test_the_limit_of_a_resource_queue_is_that_of_its_name(context: Context, databases: Databases) -> None:
    story = await cap_of_queue(context, databases, 3)
    queue = await resource_queue(story)
    first, second = [await story.task(n_files=4, work_queue_id=queue, **slot) for slot in (SLOT, LESS)]
    assert len(await story.ready(first)) == 1 and await story.ready(second) == []


async def test_a_more_urgent_task_goes_on_where_its_share_has_enough_of_less_urgent_work(
    context: Context, databases: Databases
) -> None:
    story = await limited(context, databases, 3)
    first = await story.task(n_files=4, current_priority=500, **SLOT)
    assert len(await story.ready(first)) == 1
    urgent = await story.task(n_files=4, current_priority=900, **SLOT)
    low = await story.task(n_files=4, current_priority=600, **SLOT)
    assert await story.ready(low) == [], "600 is more than what is queued, but 900 waits"
    said = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", low)
    assert "tasks of priority 900 go on, the most urgent that is queued is 500" in said
    assert len(await story.ready(urgent)) == 1


@pytest.mark.parametrize(("activated", "goes_on"), [(499, True), (500, False)])
async def test_as_urgent_a_task_goes_on_while_less_than_500_jobs_of_its_share_do_not_run_yet(
    context: Context, databases: Databases, activated: int, goes_on: bool
) -> None:
    story = await limited(context, databases, 3, cap=50)
    assert len(await story.jobs_of(await story.task(n_files=1, current_priority=500, **SLOT))) == 1
    await story.fetch("INSERT INTO queue_statistics VALUES ('Q_ALPHA', 'SCORE', 'MC', 'bob', 'defined', 40, 40)")
    await story.fetch(
        "INSERT INTO queue_statistics VALUES ('Q_ALPHA', 'SCORE', 'MC', 'bob', 'activated', $1, $1)", activated
    )
    await story.fetch("UPDATE generation_gates SET counted_at = NULL")
    less, equal = [await story.task(n_files=1, current_priority=priority, **SLOT) for priority in (499, 500)]
    assert await story.ready(less) == []
    assert len(await story.ready(equal)) == int(goes_on)


@pytest.mark.parametrize("is_known", [True, False])
async def test_queued_jobs_that_are_known_to_be_short_in_all_do_not_hold_a_share_back(
    story: Story, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gating, "COUNTS_ARE_FRESH_FOR", timedelta(0))
    await story.jobs_of(await story.task(n_files=1, cpu_time=1, cpu_time_unit="HS06sPerEvent", **SLOT))
    second = await story.task(n_files=1, **SLOT)
    async with story.database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO queue_statistics VALUES ('Q_ALPHA', 'SCORE', 'MC', 'bob', 'activated', 2001, 2001)"
        )
        if not is_known:
            await work.connection.execute("UPDATE requirement_shapes SET walltime_s = 0")
    assert len(await story.ready(second)) == int(is_known)


async def test_event_service_is_counted_over_all_resource_types(context: Context, databases: Databases) -> None:
    story = await limited(context, databases, 3)
    queue = await resource_queue(story)
    await story.fetch("UPDATE work_queues SET queue_name = 'eventservice' RETURNING queue_id")
    first = await story.task(n_files=4, work_queue_id=queue, **SLOT)
    other = await story.task(n_files=4, work_queue_id=queue, **LESS)
    await story.fetch("UPDATE tasks SET resource_type = 'MCORE' WHERE task_id = $1 RETURNING task_id", other)
    assert len(await story.ready(first)) == 1
    assert await story.ready(other) == []


async def test_a_more_urgent_task_of_a_resource_queue_goes_on_where_the_queue_has_enough_of_less_urgent_work(
    context: Context, databases: Databases
) -> None:
    story = await limited(context, databases, 3)
    queue = await resource_queue(story)
    first = await story.task(n_files=4, work_queue_id=queue, current_priority=500, **SLOT)
    assert len(await story.ready(first)) == 1
    of_share = await story.task(n_files=4, current_priority=9000, **SLOT)
    urgent, low = [
        await story.task(n_files=4, work_queue_id=queue, current_priority=priority, **{**SLOT, "gshare": "Data"})
        for priority in (900, 600)
    ]
    assert await story.ready(low) == [], "600 is more than what is queued, but 900 waits"
    said = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", low)
    assert "tasks of priority 900 go on, the most urgent that is queued is 500" in said
    assert len(await story.ready(urgent)) == 1 and len(await story.ready(of_share)) == 1


@pytest.mark.parametrize(("name", "is_held"), [("gpu", False), ("eventservice", True)])
async def test_queued_jobs_of_a_resource_queue_that_are_short_in_all_hold_back_event_service_only(
    context: Context, databases: Databases, monkeypatch: pytest.MonkeyPatch, name: str, is_held: bool
) -> None:
    monkeypatch.setattr(gating, "COUNTS_ARE_FRESH_FOR", timedelta(0))
    story = await limited(context, databases, 3)
    queue = await resource_queue(story)
    await story.fetch("UPDATE work_queues SET queue_name = $1 RETURNING queue_id", name)
    short = {"cpu_time": 1, "cpu_time_unit": "HS06sPerEvent", "work_queue_id": queue, **SLOT}
    assert len(await story.jobs_of(await story.task(n_files=2, **short))) == 2
    assert len(await story.ready(await story.task(n_files=2, **short))) == 1
    third = await story.task(n_files=1, **{**short, **LESS})
    assert (await story.ready(third) == []) is is_held


async def test_more_urgent_tasks_of_users_do_not_go_on_where_their_share_has_enough(
    context: Context, databases: Databases
) -> None:
    story = await limited(context, databases, 3)
    first = await story.task(n_files=4, current_priority=500, **SLOT)
    assert len(await story.ready(first)) == 1
    urgent = await story.task(n_files=4, current_priority=900, prod_source_label="user", task_type="prod", **SLOT)
    assert await story.ready(urgent) == []


async def test_merging_goes_on_where_its_share_has_enough(context: Context, databases: Databases) -> None:
    story = await limited(context, databases, 3)
    task_id = await story.task(n_files=2, merge=True, **SLOT)
    jobs = await story.jobs_of(task_id)
    assert len(await story.ready(await story.task(n_files=4, **SLOT))) == 1
    assert await story.ready(await story.task(n_files=1, **LESS)) == [], "the share has enough"
    [chunk_id] = chunks_in(await story.end(jobs, "merging"))
    assert await story.value("SELECT kind FROM chunks WHERE chunk_id = $1", chunk_id) == "merge"


@pytest.mark.parametrize(("processing_type", "expected"), [("simul", 166), ("urgent", 250)])
async def test_urgent_work_gets_the_whole_number_of_a_share_that_runs_too_much(
    story: Story, processing_type: str, expected: int
) -> None:
    async with story.database.read() as connection:
        for position, (gshare, value, running) in enumerate((("MC", 60, 90), ("Data", 40, 10))):
            await connection.execute(
                "INSERT INTO shares (gshare, value, position) VALUES ($1, $2, $3)", gshare, value, position
            )
            await insert(connection, "queue_statistics", statistics_of(gshare, running))
    task_id = await story.task(n_files=4, processing_type=processing_type, **SLOT)
    async with story.database.begin(reason="test") as work:
        held = await tasks.lock_task(work, task_id)
        assert held is not None
        gates = gating.Gating(Parameters())
        [gate] = await gates.hold(work, held.task)
        decision = await gates.decide(work, gate, held.task)
    assert (decision.passes, decision.max_jobs) == (True, expected)


def statistics_of(gshare: str, running: int) -> dict[str, object]:
    place = {"queue": "Q_ALPHA", "gshare": gshare, "resource_type": "SCORE", "user_name": "ada", "status": "running"}
    return {**place, "n_jobs": running, "n_cores": running}
