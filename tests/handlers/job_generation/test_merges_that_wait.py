"""Merges that no queue takes wait by themselves, at their queue, and only as long as what held them holds."""

from __future__ import annotations

from collections.abc import Sequence

from shared.events import Event, TaskReleased
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.handlers.job_generation.test_merging import looked_at

TWO_EACH = {"nFilesPerMergeJob": 2}


async def execute(story: Story, statement: str, *arguments: object) -> None:
    async with story.database.read() as connection:
        await connection.execute(statement, *arguments)


async def queues_of(story: Story, chunks: Sequence[int]) -> list[str]:
    found = await story.fetch("SELECT queue FROM chunks WHERE chunk_id = ANY($1) ORDER BY queue", list(chunks))
    return [row["queue"] for row in found]


async def woken(story: Story, task_id: int, chunk_id: int, *, decided_of: Sequence[int]) -> Sequence[Event]:
    """Brokerage noted what held these chunks, sees that one of them has room, and the watchdog says so."""
    async with story.database.read() as connection:
        for one in decided_of:
            await connection.execute(
                "INSERT INTO waits (task_id, kind, work, part, chunk_id, causes, retry_at, woken_at, woken_by)"
                " SELECT task_id, 'queue', 'merge', queue, chunk_id, '{}', retry_at,"
                " CASE WHEN chunk_id = $2 THEN orrery_now() END, 'room at a queue' FROM chunks WHERE chunk_id = $1",
                one,
                chunk_id,
            )
    return await story.hear(TaskReleased(task_id=task_id, status="running", reason="woken"))


async def at_two_queues(story: Story) -> tuple[int, list[int]]:
    """A task with a full group of two at each of two queues, and a job more at each that runs; the merge chunks."""
    task_id = await story.task(n_files=6, merge=True, rule=TWO_EACH)
    [chunk_id] = await story.ready(task_id)
    jobs = list(generated_in(await story.broker(task_id, chunk_id)))
    await execute(story, "UPDATE jobs SET queue = 'Q_BETA' WHERE job_id = ANY($1)", jobs[3:])
    chunks = chunks_in(await story.end([*jobs[:2], *jobs[3:5]], "merging"))
    assert await queues_of(story, chunks) == ["Q_ALPHA", "Q_BETA"]
    return task_id, sorted(chunks)


async def test_what_comes_to_merging_after_a_wake_that_placed_all_is_merged_at_once(story: Story) -> None:
    task_id = await story.task(n_files=6, merge=True, rule=TWO_EACH)
    jobs = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end(jobs[:2], "merging"))
    await story.unplaceable(task_id, chunk_id)
    assert chunks_in(await story.end(jobs[2:4], "merging")) == [], "the queue takes none now"
    [chunk_id] = chunks_in(await woken(story, task_id, chunk_id, decided_of=[chunk_id]))
    assert len(generated_in(await story.broker(task_id, chunk_id))) == 2
    [chunk_id] = chunks_in(await story.end(jobs[4:], "merging"))
    assert await story.value("SELECT n_files FROM chunks WHERE chunk_id = $1", chunk_id) == 4


async def test_a_wake_of_merges_of_a_queue_offers_those_of_every_chunk_that_waits_there(story: Story) -> None:
    """Two chunks were on their way at once: one row says what held both, with the chunk of the later."""
    task_id = await story.task(n_files=6, merge=True, rule=TWO_EACH)
    jobs = await story.jobs_of(task_id)
    chunks = [*chunks_in(await story.end(jobs[:2], "merging")), *chunks_in(await story.end(jobs[2:4], "merging"))]
    assert len(chunks) == 2
    for chunk_id in chunks:
        await story.unplaceable(task_id, chunk_id)
    offered = chunks_in(await woken(story, task_id, chunks[1], decided_of=chunks[1:]))
    assert await story.value("SELECT sum(n_files)::int FROM chunks WHERE chunk_id = ANY($1)", list(offered)) == 8
    assert await story.value("SELECT count(*) FROM chunks WHERE retry_at > orrery_now()") == 0


async def test_merges_that_wait_at_one_queue_hold_neither_those_of_another_nor_the_task(story: Story) -> None:
    task_id, [at_alpha, at_beta] = await at_two_queues(story)
    await story.unplaceable(task_id, at_alpha)
    assert len(generated_in(await story.broker(task_id, at_beta, "Q_BETA"))) == 1
    [task] = await story.fetch("SELECT status, retry_at FROM tasks WHERE task_id = $1", task_id)
    assert task == {"status": "running", "retry_at": None}
    held = await story.fetch("SELECT queue FROM chunks WHERE retry_at > orrery_now()")
    assert [row["queue"] for row in held] == ["Q_ALPHA"]


async def test_a_wake_offers_the_merges_of_its_queue_and_leaves_the_others_where_they_are(story: Story) -> None:
    task_id, chunks = await at_two_queues(story)
    for chunk_id in chunks:
        await story.unplaceable(task_id, chunk_id)
    offered = chunks_in(await woken(story, task_id, chunks[1], decided_of=chunks))
    assert await queues_of(story, offered) == ["Q_BETA"]


async def test_a_release_without_a_wake_offers_the_merges_of_every_queue(story: Story) -> None:
    task_id, chunks = await at_two_queues(story)
    for chunk_id in chunks:
        await story.unplaceable(task_id, chunk_id)
    assert await queues_of(story, chunks_in(await story.released(task_id))) == ["Q_ALPHA", "Q_BETA"]


async def test_a_task_that_waits_for_its_share_merges_all_the_same(story: Story) -> None:
    task_id = await story.task(n_files=4, merge=True, rule=TWO_EACH)
    jobs = await story.jobs_of(task_id)
    await execute(story, "UPDATE tasks SET retry_at = orrery_now() + interval '1 hour' WHERE task_id = $1", task_id)
    assert len(chunks_in(await story.end(jobs[:2], "merging"))) == 1


async def test_merges_whose_longest_wait_is_over_are_offered_whatever_the_task_waits_for(story: Story) -> None:
    task_id = await story.task(n_files=4, merge=True, rule=TWO_EACH)
    jobs = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end(jobs[:2], "merging"))
    await story.unplaceable(task_id, chunk_id)
    later = "UPDATE tasks SET retry_at = orrery_now() + interval '1 hour' WHERE task_id = $1"
    await execute(story, later, task_id)
    assert await looked_at(story) == []
    await execute(story, "UPDATE chunks SET retry_at = orrery_now() WHERE retry_at IS NOT NULL")
    assert len(await looked_at(story)) == 1
    assert await story.value("SELECT retry_at > orrery_now() FROM tasks WHERE task_id = $1", task_id)


async def test_the_last_group_waits_while_input_is_on_its_way_and_no_longer(story: Story) -> None:
    task_id = await story.task(n_files=3, merge=True, rule=TWO_EACH)
    [first] = await story.ready(task_id)
    jobs = list(generated_in(await story.broker(task_id, first)))
    said = await story.end(jobs[:1], "failed", source="payload")
    [again] = chunks_in(said)  # its input is offered again
    assert chunks_in(await story.end(jobs[1:2], "merging")) == []
    [full] = chunks_in(await story.end(jobs[2:], "merging"))
    assert await story.value("SELECT n_files FROM chunks WHERE chunk_id = $1", full) == 4
    [job_id] = generated_in(await story.broker(task_id, again))
    [last] = chunks_in(await story.end([job_id], "merging"))
    assert await story.value("SELECT n_files FROM chunks WHERE chunk_id = $1", last) == 2


async def test_a_small_group_waits_for_input_that_is_still_to_come_to_another_queue(story: Story) -> None:
    task_id = await story.task(n_files=3, merge=True, rule={"nFilesPerMergeJob": 10})
    [first] = await story.ready(task_id)
    jobs = list(generated_in(await story.broker(task_id, first)))
    [again] = chunks_in(await story.end(jobs[:1], "failed", source="payload"))
    assert chunks_in(await story.end(jobs[1:], "merging")) == [], "one file more may come"
    offered = chunks_in(await story.unplaceable(task_id, again))
    assert await story.fetch("SELECT kind, n_files FROM chunks WHERE chunk_id = ANY($1)", offered) == [
        {"kind": "merge", "n_files": 4}
    ], "nobody knows when a queue takes the last file"
