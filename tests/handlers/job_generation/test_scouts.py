"""The first few jobs measure what the rest will need."""

from __future__ import annotations

from typing import Any

import pytest

from shared.events import TaskCommanded
from tests.handlers.job_generation.story import Story, chunks_in, generated_in


async def scouting(story: Story, **values: Any) -> tuple[int, list[int]]:
    rule = {"skipScout": False, **values.pop("rule", {})}
    task_id = await story.task(n_files=20, opened=4, rule=rule, cpu_time=None, **values)
    return task_id, await story.jobs_of(task_id)


REPORT = {"job_status": "finished", "max_pss": 1_500 * 1024, "core_count": 1, "cpu_consumption_time": 3000,
          "pilot_timing": "1|10|4000|10|1|1", "outputs": {"x": {"fsize": 1024 * 1000}}}  # fmt: skip


async def test_the_first_chunk_of_a_task_is_a_scout_chunk_of_the_opened_files(story: Story) -> None:
    task_id, jobs = await scouting(story)
    assert len(jobs) == 4
    assert await story.status(task_id) == "scouting"
    found = await story.fetch("SELECT job_type, current_priority FROM jobs")
    assert found == [{"job_type": "scout", "current_priority": 901}] * 4


async def test_half_of_the_scouts_open_all_input_and_set_what_they_measured(story: Story) -> None:
    task_id, jobs = await scouting(story, out_disk_count=0, out_disk_unit="kBPerEvent")
    assert chunks_in(await story.end(jobs[:1], "finished", report=REPORT)) == []
    said = await story.end(jobs[1:2], "finished", report=REPORT)
    assert await story.status(task_id) == "running"
    [chunk_id] = chunks_in(said)
    assert len(generated_in(await story.broker(task_id, chunk_id))) == 16
    [task] = await story.fetch("SELECT * FROM tasks WHERE task_id = $1", task_id)
    assert (task["ram_count"], task["ram_unit"]) == (1500, "MBPerCore")  # the largest
    # (4000 - 600) s x 10 HS06 x 1 core x 0.9 / 100 events x 1.5
    assert (task["cpu_time"], task["cpu_time_unit"]) == (459, "HS06sPerEvent")
    assert (task["out_disk_count"], task["out_disk_unit"]) == (10, "kBPerEvent")
    assert {"ram_count", "cpu_time", "out_disk_count"} <= set(task["measured_units"])


async def test_a_fixed_value_is_never_overwritten(story: Story) -> None:
    task_id, jobs = await scouting(story, ram_unit="MBPerCoreFixed", fixed_units=["ram_count"])
    await story.end(jobs[:2], "finished", report=REPORT)
    [task] = await story.fetch("SELECT ram_count, ram_unit, cpu_time FROM tasks WHERE task_id = $1", task_id)
    assert (task["ram_count"], task["ram_unit"]) == (1000, "MBPerCoreFixed")
    assert task["cpu_time"] == 459


async def test_a_task_whose_scouts_all_fail_is_given_up(story: Story) -> None:
    task_id, jobs = await scouting(story)
    for _ in range(3):
        said = await story.end(jobs, "failed", source="payload")
        for chunk_id in chunks_in(said):
            jobs = generated_in(await story.broker(task_id, chunk_id))
    assert await story.status(task_id) == "tobroken"
    [decision] = await story.fetch("SELECT outcome, reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert decision["outcome"] == "broken" and "0 of 12 scout jobs succeeded" in decision["reason"]


async def test_a_failed_scout_is_tried_again_as_a_scout(story: Story) -> None:
    task_id, jobs = await scouting(story)
    [chunk_id] = chunks_in(await story.end(jobs[:1], "failed", source="payload"))
    await story.broker(task_id, chunk_id)
    assert await story.value("SELECT count(*) FROM jobs WHERE job_type = 'scout'") == 5


async def test_avalanche_ends_the_scouting(story: Story) -> None:
    task_id, _ = await scouting(story)
    said = await story.hear(TaskCommanded(task_id=task_id, command="avalanche", status="scouting"))
    assert await story.status(task_id) == "running"
    assert len(chunks_in(said)) == 1


async def test_a_task_sent_elsewhere_goes_on_after_its_scouts_that_ended_meanwhile(story: Story) -> None:
    task_id, jobs = await scouting(story)
    async with story.database.begin(reason="reassign") as work:
        for status in ("toreassign", "reassigning", "assigning"):
            await work.connection.execute("UPDATE tasks SET status = $2 WHERE task_id = $1", task_id, status)
    await story.end(jobs, "finished", report=REPORT)
    async with story.database.begin(reason="nucleus chosen") as work:
        await work.connection.execute("UPDATE tasks SET status = 'ready' WHERE task_id = $1", task_id)
    [chunk_id] = await story.ready(task_id)
    assert await story.value("SELECT kind FROM chunks WHERE chunk_id = $1", chunk_id) == "normal"
    await story.broker(task_id, chunk_id)
    assert await story.status(task_id) == "running"


async def test_a_retried_task_whose_input_was_opened_before_makes_no_scouts_again(story: Story) -> None:
    task_id, jobs = await scouting(story)
    await story.end(jobs, "finished", report=REPORT)
    async with story.database.begin(reason="retry") as work:
        for status in ("pending", "ready"):
            await work.connection.execute("UPDATE tasks SET status = $2 WHERE task_id = $1", task_id, status)
    chunk_ids = [row["chunk_id"] for row in await story.fetch("SELECT chunk_id FROM chunks WHERE status = 'offered'")]
    await story.broker(task_id, chunk_ids[0])
    assert await story.status(task_id) == "running"
    assert await story.value("SELECT count(*) FROM jobs WHERE job_type = 'scout'") == 4


async def test_a_task_that_was_put_back_to_scouted_goes_on_with_all_input(story: Story) -> None:
    task_id = await story.task(n_files=20, opened=4, rule={"skipScout": False}, status="scouted")
    assert len(await story.ready(task_id)) == 1
    assert await story.status(task_id) == "running"
    assert await story.files(task_id) == ["picked"] * 20


async def test_half_of_the_scout_jobs_are_enough_although_they_had_few_of_the_files(story: Story) -> None:
    rule = {"skipScout": False, "nFilesPerJob": None, "nEventsPerJob": 500}
    task_id = await story.task(n_files=20, opened=6, rule=rule)
    large, small = await story.jobs_of(task_id)  # five files and one: 500 events are five files
    held = "SELECT count(*) FROM job_files WHERE job_id = $1 AND is_master"
    assert [await story.value(held, one) for one in (large, small)] == [5, 1]
    await story.end([small], "finished", report=REPORT)
    assert await story.status(task_id) == "running"
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert reason.startswith("1 of 2 scout jobs succeeded; measured: ")


ABUSE = {**REPORT, "cpu_consumption_time": 40_000}


async def test_scouts_that_measure_what_the_task_does_not_expect_exhaust_it_and_a_retry_goes_on_with_what_they_found(
    story: Story,
) -> None:
    task_id = await story.task(n_files=40, opened=4, rule={"skipScout": False}, cpu_time=None)
    jobs = await story.jobs_of(task_id)
    assert chunks_in(await story.end(jobs[:2], "finished", report=ABUSE)) == []
    [task] = await story.fetch("SELECT status, old_status, error_dialog, ram_count FROM tasks")
    assert (task["status"], task["old_status"], task["ram_count"]) == ("exhausted", "scouting", 1500)
    assert "CPU abuse: 40000 s of CPU time in 4000 s on 1 cores; 8000 s are allowed" in task["error_dialog"]
    numbers = await story.value("SELECT numbers FROM generation_decisions WHERE outcome = 'exhausted'")
    assert numbers == {"CPU abuse": {"cpu_time_s": 40_000.0, "allowed_s": 8000.0}}


async def test_the_avalanche_command_ends_the_scouting_whatever_the_scouts_measured(story: Story) -> None:
    task_id = await story.task(n_files=40, opened=4, rule={"skipScout": False}, cpu_time=None)
    jobs = await story.jobs_of(task_id)
    await story.move(jobs[:1], "finished", report=ABUSE)
    await story.hear(TaskCommanded(task_id=task_id, command="avalanche", status="scouting"))
    assert await story.status(task_id) == "running"


async def test_memory_that_scouts_measured_decides_the_resource_type(story: Story) -> None:
    task_id, jobs = await scouting(story)
    await story.end(jobs[:2], "finished", report={**REPORT, "max_pss": 3_000 * 1024})
    [task] = await story.fetch("SELECT ram_count, resource_type FROM tasks WHERE task_id = $1", task_id)
    assert task == {"ram_count": 3000, "resource_type": "SCORE_HIMEM"}


async def test_scouts_reset_n_gb_per_job_so_that_the_largest_output_comes_near_what_is_asked_for(
    story: Story,
) -> None:
    rule = {"nFilesPerJob": None, "tgtMaxOutputForNG": 5}
    task_id, jobs = await scouting(story, rule=rule, out_disk_count=0, out_disk_unit="kBPerEvent")
    files = {"x": {"fsize": 512 * 1024**2}}
    [chunk_id] = chunks_in(await story.end(jobs[:2], "finished", report={**REPORT, "outputs": files}))
    # 0.5 GB of output of one file become 5: with the input, and without the reserve of 1500 MB, these are 3 GB
    kept = await story.value("SELECT split_rule FROM tasks WHERE task_id = $1", task_id)
    assert (kept["nGBPerJob"], kept["tgtMaxOutputForNG"]) == (3, 5)
    made = generated_in(await story.broker(task_id, chunk_id))
    files_of_jobs = "SELECT count(*) FROM job_files WHERE job_id = $1 AND is_master"
    assert [await story.value(files_of_jobs, job_id) for job_id in made] == [8, 8], "3 GB and the reserve hold 4 GB"


async def test_short_scouts_of_a_user_exhaust_the_task_or_make_its_jobs_longer(story: Story) -> None:
    short = {**REPORT, "pilot_timing": "1|10|180|10|1|1", "cpu_consumption_time": 100}
    values = {"prod_source_label": "user", "task_type": "anal"}
    for changes in (False, True):
        if changes:
            async with story.database.begin(reason="an operator sets it") as work:
                await work.connection.execute(
                    "INSERT INTO parameters (app, component, key, value, type)"
                    " VALUES ('jedi', 'dbproxy', 'SCOUT_CHANGE_SR_user', 'true', 'bool')"
                )
                await work.connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
                [refresh] = [one for one in story.service.periodic if one.name == "parameters"]
                await refresh.run(work)
        task_id = await story.task(n_files=1100, opened=4, rule={"skipScout": False}, cpu_time=None, **values)
        jobs = await story.jobs_of(task_id)
        await story.end(jobs[:4], "finished", report=short)
        rule = await story.value("SELECT split_rule FROM tasks WHERE task_id = $1", task_id)
        status = await story.status(task_id)
        assert (status, "nFilesPerJob" in rule) == (("running", False) if changes else ("exhausted", True))


async def test_the_first_100_jobs_after_the_scouts_are_measured_again_and_may_exhaust_the_running_task(
    story: Story,
) -> None:
    task_id = await story.task(n_files=300, opened=4, rule={"skipScout": False}, cpu_time=None)
    jobs = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end(jobs[:2], "finished", report=REPORT))
    more = generated_in(await story.broker(task_id, chunk_id, max_jobs=100))
    await story.end(more[:99], "finished", report=REPORT)
    assert await story.value("SELECT measures_at FROM task_job_counts WHERE task_id = $1", task_id) == 102
    await story.end(more[99:], "finished", report={**ABUSE, "max_pss": 1_800 * 1024})
    [task] = await story.fetch("SELECT status, ram_count FROM tasks WHERE task_id = $1", task_id)
    assert task == {"status": "exhausted", "ram_count": 1800}
    assert await story.value("SELECT measures_at FROM task_job_counts WHERE task_id = $1", task_id) is None
    outcomes = await story.fetch("SELECT outcome FROM generation_history ORDER BY decision_id")
    assert [row["outcome"] for row in outcomes] == ["scouts", "scouts", "exhausted"]
    told = await story.fetch("SELECT reason FROM generation_history WHERE outcome = 'scouts' ORDER BY decision_id")
    assert told[0]["reason"].startswith(
        "2 of 4 scout jobs succeeded; measured: CPU time 459 HS06 s for each event (none"
    )
    assert told[1]["reason"].startswith("measured again with 102 jobs that finished; measured: CPU time 459 HS06 s")
    assert "memory 1800 MBPerCore (1500 stated, the limit between is 4000 MB)" in told[1]["reason"]


@pytest.mark.parametrize(
    ("ran_s", "n_files", "label", "ends"),
    [
        (2, 1100, "user", "exhausted"),
        (30, 1100, "user", "running"),  # later jobs take ten times the input, and that is 5 min
        (2, 1000, "user", "running"),  # four are scouts: 996 are to come
        (2, 1100, "managed", "running"),
    ],
)
async def test_short_scouts_exhaust_a_user_task_of_more_than_1000_jobs_with_the_parameters_as_delivered(
    story: Story, ran_s: int, n_files: int, label: str, ends: str
) -> None:
    rule = {"skipScout": False, "nFilesPerJob": None, "nMaxFilesPerJob": 1}
    task_id = await story.task(n_files=n_files, opened=4, rule=rule, cpu_time=None, prod_source_label=label)
    short = {**REPORT, "pilot_timing": f"1|10|{ran_s}|10|1|1", "cpu_consumption_time": 1}
    await story.end((await story.jobs_of(task_id))[:2], "finished", report=short)
    [task] = await story.fetch("SELECT status, error_dialog FROM tasks WHERE task_id = $1", task_id)
    assert task["status"] == ends
    if ends == "exhausted":
        assert "short jobs: 2 of 2 took 4 min or less (5 tenths are too many)" in task["error_dialog"]
