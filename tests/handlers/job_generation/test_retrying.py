"""Rules about errors of jobs, carried out: what becomes of files and task, and what people are told."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.job_generation.store import tasks as store
from services.task_definition.tasks.explaining import Explanation
from shared.auth import Authority, Caller
from shared.runtime.service import Context
from shared.snapshot import KnownGrid
from tests.applications import application_of
from tests.handlers.job_generation.story import Story, chunks_in, generated_in

PATH = "/api/v1/retry_rule"
OUT_OF_MEMORY = {"job_status": "failed", "pilot_error_code": 1212, "max_pss": 1_500 * 1024, "core_count": 1}

OPERATOR = Caller("o", frozenset({"operator"}), frozenset())


@pytest.fixture
async def operator(story: Story, authority: Authority) -> httpx.AsyncClient:
    return client(story, authority, "operator")


def client(story: Story, authority: Authority, role: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {authority.issue('somebody', [role])}"}
    transport = httpx.ASGITransport(application_of(story.service, authority))
    return httpx.AsyncClient(transport=transport, base_url="http://one", headers=headers)


async def set_rule(operator: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    rule = {"rule_id": 50, "source": "pilot", "code": 1305, **fields}
    reply = await operator.post(f"{PATH}/set", json={"retry_rule": rule})
    body: dict[str, Any] = reply.json()
    return body


def failed_with(code: int, text: str = "", **values: Any) -> dict[str, Any]:
    return {"job_status": "failed", "pilot_error_code": code, "pilot_error_diag": text, **values}


async def attempts(story: Story) -> list[tuple[int, int, str]]:
    rows = await story.fetch(
        "SELECT attempt_nr, max_attempt, status FROM task_files WHERE type = 'input' ORDER BY 1, 2"
    )
    return [(row["attempt_nr"], row["max_attempt"], row["status"]) for row in rows]


async def test_no_retry_ends_a_file_after_its_first_failure_and_says_which_rule_did(
    story: Story, operator: httpx.AsyncClient, context: Context
) -> None:
    assert (await set_rule(operator, action="no_retry", pattern="bad options"))["success"]
    task_id = await story.task(n_files=2)
    jobs = await story.jobs_of(task_id)
    await story.end(jobs[:1], "failed", source="payload", report=failed_with(1305, "bad options: --x"))
    await story.end(jobs[1:], "failed", source="payload", report=failed_with(1305, "segmentation fault"))
    assert await attempts(story) == [(1, 1, "failed"), (1, 3, "picked")]
    [ruled] = (await operator.get(f"{PATH}/list")).json()["data"][-1:]
    assert (ruled["rule_id"], ruled["n_jobs"]) == (50, 1)
    explanation = Explanation(KnownGrid(context.cache))
    async with story.database.read() as connection:
        task = await explanation.task(connection, task_id, OPERATOR)
        job = await explanation.job(connection, jobs[0], OPERATOR)
    assert task is not None
    assert job is not None
    said = "rule 50, no_retry, for pilot error 1305: bad options: --x (it asks for code 1305, text 'bad options')"
    assert f"retry rule about 1 job: {said}" in task["text"]
    assert said in job["text"]


async def test_a_limit_of_a_rule_counts_for_the_file_and_a_rule_that_is_not_active_changes_nothing(
    story: Story, operator: httpx.AsyncClient
) -> None:
    await set_rule(operator, action="limit_retry", parameters={"maxAttempt": 2})
    await set_rule(operator, rule_id=51, code=1306, action="no_retry", is_active=False)
    task_id = await story.task(n_files=2)
    jobs = await story.jobs_of(task_id)
    await story.end(jobs[:1], "failed", source="payload", report=failed_with(1305))
    await story.end(jobs[1:], "failed", source="payload", report=failed_with(1306))
    assert [row[:2] for row in await attempts(story)] == [(1, 2), (1, 3)]
    told = await story.fetch("SELECT rule_id, is_active FROM retry_decisions ORDER BY rule_id")
    assert told == [{"rule_id": 50, "is_active": True}, {"rule_id": 51, "is_active": False}]


async def test_more_than_30_percent_of_the_input_out_of_memory_raises_the_whole_task_and_its_resource_type(
    story: Story,
) -> None:
    task_id = await story.task(n_files=10)
    jobs = await story.jobs_of(task_id)
    await story.end(jobs[:3], "failed", source="payload", report=OUT_OF_MEMORY | {"max_pss": 3_500 * 1024})
    needs = "SELECT ram_count, resource_type FROM tasks WHERE task_id = $1"
    assert await story.fetch(needs, task_id) == [{"ram_count": 1000, "resource_type": "SCORE"}]
    await story.end(jobs[3:4], "failed", source="payload", report=OUT_OF_MEMORY)
    assert await story.fetch(needs, task_id) == [{"ram_count": 4000, "resource_type": "SCORE_HIMEM"}]
    raised = "SELECT ram_mb, n_files FROM raised_memory WHERE task_id = $1 ORDER BY ram_mb"
    assert await story.fetch(raised, task_id) == [{"ram_mb": 2000, "n_files": 1}, {"ram_mb": 4000, "n_files": 3}]
    reasons = await story.fetch(
        "SELECT reason FROM generation_history WHERE task_id = $1 AND outcome = 'retry'", task_id
    )
    assert "from 1000 to 4000 MB: more than 30 % of 10 units" in reasons[0]["reason"]


async def test_jobs_made_before_the_whole_task_was_raised_raise_their_files_above_their_own_request_only(
    story: Story,
) -> None:
    """All ten jobs were made for 1000 MB: when the task has 2000 MB, the rest of them do not ask for 3000."""
    task_id = await story.task(n_files=10)
    jobs = await story.jobs_of(task_id)
    needs = "SELECT ram_count FROM tasks WHERE task_id = $1"
    await story.end(jobs[:4], "failed", source="payload", report=OUT_OF_MEMORY)
    assert await story.value(needs, task_id) == 2000
    await story.end(jobs[4:], "failed", source="payload", report=OUT_OF_MEMORY)
    assert await story.value(needs, task_id) == 2000
    asked = await story.fetch("SELECT DISTINCT ram_count FROM task_files WHERE type = 'input'")
    assert asked == [{"ram_count": 2000}]
    raised = await story.fetch("SELECT ram_mb, n_files FROM raised_memory WHERE task_id = $1", task_id)
    assert raised == [{"ram_mb": 2000, "n_files": 10}]


async def test_a_job_made_after_the_whole_task_was_raised_asks_for_more_than_that(story: Story) -> None:
    task_id = await story.task(n_files=2)
    jobs = await story.jobs_of(task_id)
    [chunk_id, *_] = chunks_in(await story.end(jobs[:1], "failed", source="payload", report=OUT_OF_MEMORY))
    assert await story.value("SELECT ram_count FROM tasks WHERE task_id = $1", task_id) == 2000
    [again] = generated_in(await story.broker(task_id, chunk_id))
    await story.end([again], "failed", source="payload", report=OUT_OF_MEMORY)
    assert await story.value("SELECT max(ram_count) FROM task_files WHERE type = 'input'") == 3000


async def test_memory_that_the_task_fixed_is_not_raised_for_the_whole_task(story: Story) -> None:
    task_id = await story.task(n_files=2, ram_unit="MBPerCoreFixed")
    await story.end(await story.jobs_of(task_id), "failed", source="payload", report=OUT_OF_MEMORY)
    assert await story.value("SELECT ram_count FROM tasks WHERE task_id = $1", task_id) == 1000
    assert await story.value("SELECT min(ram_count) FROM task_files WHERE type = 'input'") == 2000


async def test_a_task_with_its_own_steps_of_memory_gets_the_next_of_them(story: Story) -> None:
    task_id = await story.task(n_files=4, rule={"retryRamOffset": 1600, "retryRamStep": 400})
    jobs = await story.jobs_of(task_id)
    await story.end(jobs[:1], "failed", source="payload", report=OUT_OF_MEMORY)
    assert await story.value("SELECT max(ram_count) FROM task_files WHERE type = 'input'") == 1600


async def test_input_found_corrupted_at_the_second_attempt_is_broken_and_the_task_goes_on_without_it(
    story: Story,
) -> None:
    task_id = await story.task(n_files=2)
    jobs = await story.jobs_of(task_id)
    report = failed_with(1171, "checksum of mc.input._00000.root is wrong")
    [chunk_id] = chunks_in(await story.end(jobs[:1], "failed", source="pilot", report=report))
    again = generated_in(await story.broker(task_id, chunk_id))
    await story.end(again, "failed", source="pilot", report=report)
    assert await story.files(task_id) == ["broken", "running"]
    await story.end(jobs[1:], "finished")
    assert await story.status(task_id) == "prepared"


async def test_scouts_whose_input_is_all_broken_do_not_keep_the_task_waiting(
    story: Story, operator: httpx.AsyncClient
) -> None:
    await set_rule(operator, rule_id=5, code=1171, action="broken_input")
    task_id = await story.task(n_files=2, opened=1, rule={"skipScout": False})
    jobs = await story.jobs_of(task_id)
    await story.end(jobs, "failed", source="pilot", report=failed_with(1171))
    assert await story.status(task_id) == "tobroken"


async def test_a_rule_may_send_a_file_to_another_site_as_long_as_there_is_one(
    story: Story, operator: httpx.AsyncClient
) -> None:
    await set_rule(operator, action="other_site")
    task_id = await story.task(n_files=1)
    jobs = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end(jobs, "failed", source="pilot", report=failed_with(1305)))
    [second] = generated_in(await story.broker(task_id, chunk_id, "Q_ALPHA", "Q_BETA"))
    assert await story.value("SELECT queue FROM jobs WHERE job_id = $1", second) == "Q_BETA"
    [chunk_id] = chunks_in(await story.end([second], "failed", source="pilot", report=failed_with(1305)))
    [third] = generated_in(await story.broker(task_id, chunk_id, "Q_BETA"))
    assert await story.value("SELECT queue FROM jobs WHERE job_id = $1", third) == "Q_BETA", "there is no other"


async def test_less_input_for_each_job_and_a_cpu_time_from_the_limit_of_the_queue(
    story: Story, operator: httpx.AsyncClient
) -> None:
    await set_rule(operator, action="reduce_input_per_job")
    await set_rule(operator, rule_id=51, code=1213, action="increase_cputime")
    task_id = await story.task(n_files=1, rule={"nFilesPerJob": None, "nGBPerJob": 8}, cpu_time=None)
    jobs = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end(jobs, "failed", source="payload", report=failed_with(1305)))
    again = generated_in(await story.broker(task_id, chunk_id))
    await story.end(again, "failed", source="payload", report=failed_with(1305))
    rule = await story.value("SELECT split_rule FROM tasks WHERE task_id = $1", task_id)
    assert (rule["nGBPerJob"], rule["nMaxFilesPerJob"]) == (4, 100)
    second = await story.task(n_files=1, cpu_time=None)
    jobs = await story.jobs_of(second)
    await story.end(jobs, "failed", source="payload", report=failed_with(1213))
    [row] = await story.fetch("SELECT cpu_time, cpu_time_unit FROM tasks WHERE task_id = $1", second)
    assert row == {"cpu_time": 51_840, "cpu_time_unit": "HS06sPerEvent"}  # 345600 s x 10 / 100 events x 1.5


async def test_operators_write_rules_everybody_reads_them_and_a_bad_one_is_refused_with_its_field(
    story: Story, operator: httpx.AsyncClient, authority: Authority
) -> None:
    refused = await set_rule(operator, action="no_retry", pattern="(bad")
    assert not refused["success"]
    assert [one["field"] for one in refused["problems"]] == ["retry_rules.50.pattern"]
    user = client(story, authority, "user")
    assert (await user.post(f"{PATH}/remove", json={"rule_id": 1})).status_code == 403
    listed = (await user.get(f"{PATH}/list")).json()["data"]
    assert [one["rule_id"] for one in listed] == [1, 2, 3, 4, 5]
    one = {key: value for key, value in listed[0].items() if key != "n_jobs"}
    assert (await operator.post(f"{PATH}/load", json={"retry_rules": [one]})).json()["success"]
    assert not (await operator.post(f"{PATH}/remove", json={"rule_id": 2})).json()["success"]
    assert (await operator.post(f"{PATH}/remove", json={"rule_id": 1})).json()["success"]
    assert (await user.get(f"{PATH}/list")).json()["data"] == []
    verbs = await story.fetch("SELECT verb FROM audit_log WHERE verb LIKE 'retry%' ORDER BY audit_id")
    assert [row["verb"] for row in verbs] == ["retry_rule.load", "retry_rule.remove"]


async def test_the_last_20_decisions_are_kept_and_a_wait_that_goes_on_is_one(story: Story) -> None:
    task_id = await story.task(n_files=1)
    async with story.database.begin(reason="many decisions") as work:
        for number in range(30):
            await store.record_decision(work, task_id, "scouts", f"number {number}")
        for number in range(3):
            await store.record_decision(work, task_id, "throttled", f"{number} queued")
    rows = await story.fetch("SELECT reason, n_times FROM generation_history ORDER BY decision_id DESC")
    assert rows[:2] == [{"reason": "2 queued", "n_times": 3}, {"reason": "number 29", "n_times": 1}]
    assert len(rows) == 20
    assert await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id) == "2 queued"
