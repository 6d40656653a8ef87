"""Later jobs of job sets are matches of their sites too; what a site does not take waits until it is woken."""

from __future__ import annotations

from collections.abc import Sequence

from shared.events import Event, TaskReleased
from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.job_generation import jumbo
from tests.handlers.job_generation.ranges import begun, process
from tests.handlers.job_generation.searches import begun as search_begun
from tests.handlers.job_generation.searches import evaluate
from tests.handlers.job_generation.story import Story, generated_in
from tests.handlers.job_generation.test_site_matches import advertise, matched


async def waiting_parts(story: Story, task_id: int) -> list[tuple[str, str, bool]]:
    """(work, part, whether an advertisement would wake it)."""
    found = await story.fetch(
        "SELECT work, part, causes -> 'lifts' ? 'ADVERTISEMENT' AS by_advert FROM waits WHERE task_id = $1", task_id
    )
    return [(row["work"], row["part"], row["by_advert"]) for row in found]


async def woken_with_room(story: Story, task_id: int) -> Sequence[Event]:
    """The site takes more jobs, and what waits is woken, as brokerage and the watchdog do."""
    async with story.database.begin(reason="the site advertises again") as work:
        await work.connection.execute("UPDATE site_adverts SET max_jobs = 100")
        await work.connection.execute("UPDATE waits SET woken_at = orrery_now(), woken_by = 'an advertisement'")
    return await story.hear(TaskReleased(task_id=task_id, status="running", reason="woken"))


async def time_has_come(story: Story, task_id: int) -> list[int]:
    """The advertisement has expired."""
    async with story.database.begin(reason="time passes") as work:
        await work.connection.execute("UPDATE site_adverts SET expires_at = orrery_now()")
        await work.connection.execute("UPDATE tasks SET co_jumbo_retry_at = orrery_now() WHERE task_id = $1", task_id)
    return generated_in(await story.look_at_idle_tasks())


async def test_a_further_consumer_is_a_match_and_waits_where_its_site_takes_no_more(story: Story) -> None:
    task_id, [first] = await begun(story)
    await advertise(story, max_jobs=2)
    await process(story, first, 3)
    assert generated_in(await story.end([first], "merging")) == []
    assert await matched(story) == 2
    assert await waiting_parts(story, task_id) == [("job sets", "next jobs", True)]
    reason = await story.value(
        "SELECT reason FROM generation_decisions WHERE task_id = $1 AND outcome = 'unplaceable'", task_id
    )
    assert "waits with its normal job: site ALPHA did not take 1 jobs by its advertisement" in reason
    [_] = generated_in(await woken_with_room(story, task_id))
    assert await matched(story) == 3


async def test_a_merge_of_events_is_a_match_and_waits_where_its_site_takes_no_more(story: Story) -> None:
    task_id, [first] = await begun(story)
    await advertise(story, max_jobs=2)
    await process(story, first, 5)
    assert generated_in(await story.end([first], "merging")) == []
    assert await story.status(task_id) == "running"
    [merge_id] = generated_in(await woken_with_room(story, task_id))
    assert await matched(story) == 3
    await story.end([merge_id], "finished")
    assert await story.status(task_id) == "prepared"


async def test_a_refused_merge_of_events_is_tried_again_when_the_advertisement_has_expired(story: Story) -> None:
    task_id, [first] = await begun(story)
    await advertise(story, max_jobs=2)
    await process(story, first, 5)
    await story.end([first], "merging")
    assert generated_in(await story.hear(TaskReleased(task_id=task_id, status="running", reason="idle"))) == []
    [_] = await time_has_come(story, task_id)


async def test_the_next_job_of_a_search_is_a_match_and_waits_where_its_site_takes_no_more(story: Story) -> None:
    task_id, [first] = await search_begun(story)
    await advertise(story, max_jobs=2)
    await evaluate(story, first, 1)
    assert generated_in(await story.end([first], "finished")) == []
    assert await story.status(task_id) == "running"
    [_] = generated_in(await woken_with_room(story, task_id))
    assert await matched(story) == 3


async def test_more_jobs_of_a_set_than_its_site_takes_are_as_many_as_it_takes(story: Story) -> None:
    task_id, jobs = await search_begun(story, nEsConsumers=2)
    await advertise(story, max_jobs=3)
    for one in jobs:
        await evaluate(story, one, 1)
    await story.end([jobs[0]], "finished")
    await story.end([jobs[1]], "finished")
    live = await story.value("SELECT count(*) FROM jobs WHERE task_id = $1 AND status = 'defined'", task_id)
    assert (live, await matched(story)) == (1, 3)


async def test_a_jumbo_job_that_its_site_does_not_take_waits_and_is_woken_by_the_advertisement(
    context: Context, databases: Databases
) -> None:
    story = await jumbo.begin(context, databases)
    await advertise(story, "BETA", max_jobs=2)
    task_id, _, jumbos = await jumbo.begun(story)
    assert jumbos == []
    assert ("job sets", "jumbo jobs", True) in await waiting_parts(story, task_id)
    n_decisions = "SELECT count(*) FROM generation_decisions WHERE task_id = $1 AND reason LIKE 'jumbo jobs wait%'"
    assert await story.value(n_decisions, task_id) == 1
    await story.hear(TaskReleased(task_id=task_id, status="running", reason="another part was woken"))
    async with story.database.begin(reason="the site advertises again") as work:
        await work.connection.execute("UPDATE site_adverts SET max_jobs = 100")
    await woken_with_room(story, task_id)
    assert len(await jumbo.jumbo_of(story, task_id)) == 1
