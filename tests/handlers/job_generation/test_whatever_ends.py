"""Random tasks, queues and ends of jobs: what holds for each file, job, seed and name when nothing is left to do."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.events import ChunkBrokered, QueueChoice
from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.grids import load_grid, small_grid
from tests.handlers.job_generation.story import Story

#: jobs end badly for so many steps; then all that is left succeeds
BAD_STEPS, MOST_STEPS = 12, 40
LIVE = "('defined', 'activated', 'sent', 'running')"
OFFSET = 500  # of the seeds of a story's tasks
ENDS = (
    ("finished", None),
    ("failed", "payload"),
    ("failed", "watchdog"),
    ("closed", "dispatch"),
    ("memory", "payload"),
)
TASKS = st.fixed_dictionaries(
    {
        "n_files": st.integers(1, 8),
        "rule": st.sampled_from(
            [{"nFilesPerJob": 1}, {"nFilesPerJob": 3}, {"nFilesPerJob": None, "nGBPerJob": 2},
             {"nFilesPerJob": None, "nEventsPerJob": 250}, {"nFilesPerJob": None, "nMaxFilesPerJob": 4}]
        ),
        "ram_count": st.sampled_from([0, 1000, 2000]),
    }
)  # fmt: skip
#: memory of the slots, scratch disk and longest time of a queue beside the one that takes everything
QUEUES = st.tuples(st.sampled_from([8000, 24_000]), st.sampled_from([8 * 5000, 160_000]), st.sampled_from([0, 7200]))


async def a_grid(story: Story, small: tuple[int, int, int]) -> None:
    """Q_ALPHA takes everything, Q_BETA what fits."""
    files = small_grid()
    files["queues"]["Q_ALPHA"] |= {"maxrss": 8 * 16_000, "maxwdir": 8 * 160_000}
    files["queues"]["Q_BETA"] |= dict(zip(("maxrss", "maxwdir", "maxtime"), small, strict=True))
    await load_grid(story.database, files)
    for start in story.service.on_start:
        await start()


async def one_step(story: Story, task_id: int, rng: random.Random, *, bad: bool) -> bool:
    """Each offered chunk is brokered, then some of the live jobs end; whether anything was left to do."""
    chunks = await story.fetch("SELECT chunk_id FROM chunks WHERE task_id = $1 AND status = 'offered'", task_id)
    for chunk in chunks:
        queues = [("Q_ALPHA", "SCORE"), ("Q_ALPHA", "SCORE_HIMEM"), ("Q_BETA", "SCORE")]
        ranked = tuple(QueueChoice(queue=one, resource_type=kind, weight=rng.random() + 0.1) for one, kind in queues)
        await story.hear(ChunkBrokered(chunk_id=chunk["chunk_id"], task_id=task_id, decision_id=1, candidates=ranked))
    jobs = [
        row["job_id"]
        for row in await story.fetch(
            f"SELECT job_id FROM jobs WHERE task_id = $1 AND status IN {LIVE} ORDER BY job_id", task_id
        )
    ]
    if jobs:
        some = rng.sample(jobs, rng.randint(1, len(jobs)))
        to, source = rng.choice(ENDS) if bad else ENDS[0]
        report = None
        if to == "memory":
            to, used_kb = "failed", rng.choice([900, 2500, 7000]) * 1024
            report = {"job_status": "failed", "pilot_error_code": 1212, "max_pss": used_kb, "core_count": 1}
        await story.end(some, to, source=source, report=report)
    return bool(chunks or jobs)


@settings(max_examples=8, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=TASKS, small=QUEUES, seed=st.integers(0, 2**16))
async def test_each_file_is_processed_once_or_failed_with_its_attempts_used_and_no_job_breaks_the_limits_of_its_queue(
    context: Context, databases: Databases, values: dict[str, Any], small: tuple[int, int, int], seed: int
) -> None:
    story, rng = await Story.begin(context, databases), random.Random(seed)
    await a_grid(story, small)
    needs = {"cpu_time": 10, "cpu_time_unit": "HS06sPerEvent", "base_walltime": 600}
    task_id = await story.task(seeds=True, command_line="${IN} ${RNDMSEED} ${OUTPUT0}", **needs, **values)
    await story.ready(task_id)
    for step in range(MOST_STEPS):
        if not await one_step(story, task_id, rng, bad=step < BAD_STEPS):
            break
    assert await story.status(task_id) == "prepared"
    await each_file_ended_once(story, task_id)
    await no_limit_of_a_queue_is_broken(story, task_id)
    await seeds_and_names_obey_their_rules(story, task_id)


async def each_file_ended_once(story: Story, task_id: int) -> None:
    files = await story.fetch(
        "SELECT f.status, f.attempt_nr, f.max_attempt, f.failed_attempt, f.max_failure,"
        " count(j.job_id) FILTER (WHERE j.status = 'finished') AS n_finished"
        " FROM task_files f LEFT JOIN job_files jf ON jf.file_id = f.file_id AND jf.is_master"
        " LEFT JOIN jobs j ON j.job_id = jf.job_id"
        " WHERE f.task_id = $1 AND f.type = 'input' GROUP BY f.file_id",
        task_id,
    )
    for file in files:
        if file["status"] == "finished":
            assert file["n_finished"] == 1
        else:
            assert file["status"] == "failed" and file["n_finished"] == 0
            assert file["attempt_nr"] == file["max_attempt"]


async def no_limit_of_a_queue_is_broken(story: Story, task_id: int) -> None:
    """Slots of one core have that part of what a queue of eight cores has; those for much memory may have all of it."""
    jobs = await story.fetch(
        "SELECT j.resource_type, j.core_count, s.ram_mb, s.disk_mb, s.walltime_s, q.data"
        " FROM jobs j JOIN requirement_shapes s USING (shape_id) JOIN queues q USING (queue) WHERE j.task_id = $1",
        task_id,
    )
    assert jobs
    for job in jobs:
        queue, part = job["data"], job["core_count"] / job["data"]["corecount"]
        assert job["ram_mb"] <= queue["maxrss"] * (part if job["resource_type"] == "SCORE" else 1)
        assert job["disk_mb"] <= queue["maxwdir"] * part
        assert job["walltime_s"] <= queue["maxtime"] or not queue["maxtime"]


async def seeds_and_names_obey_their_rules(story: Story, task_id: int) -> None:
    rows = await story.fetch(
        "SELECT j.status, s.spec ->> 'jobPars' AS text, s.spec ->> 'outFiles' AS outputs"
        " FROM jobs j JOIN job_specs s USING (job_id) WHERE j.task_id = $1 ORDER BY j.job_id",
        task_id,
    )
    seeds = [(row["status"], int(row["text"].split()[-2])) for row in rows]
    used = {seed for _, seed in seeds}
    assert used == set(range(OFFSET + 1, OFFSET + 1 + len(used))), "from 1 upward, and the smallest that is free first"
    finished = Counter(seed for status, seed in seeds if status == "finished")
    assert all(count == 1 for count in finished.values())
    names = [name for row in rows for name in row["outputs"].split(",")]
    assert len(names) == len(set(names))
