"""What is older than its rule says goes, in slices; what somebody still needs stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from services.watchdog.policy.retention import BY_NAME
from services.watchdog.store import retention as store
from tests import rows
from tests.handlers.watchdog.conftest import Stage
from tests.handlers.watchdog.rounds import Rounds, ended_job, ended_task


@pytest.fixture
def rounds(stage: Stage) -> Rounds:
    return Rounds(stage)


async def test_texts_go_a_week_after_their_jobs_also_after_a_long_stop(stage: Stage, rounds: Rounds) -> None:
    task = await ended_task(stage)
    first = await ended_job(stage, task)
    stage.clock.forward(days=1)
    await ended_job(stage, task)
    await rounds.after(days=6)
    assert await rounds.count("job_specs") == 2, "the first day is not a week old"
    await rounds.after(days=1)
    assert await stage.value("SELECT array_agg(job_id) FROM job_specs") != [first]
    assert await rounds.count("job_specs") == 1
    for _ in range(5):  # nobody looks for weeks
        stage.clock.forward(days=10)
        await ended_job(stage, task)
    stage.clock.forward(days=8)
    await rounds.once()
    assert await rounds.count("job_specs") == 0 and await rounds.count("jobs_archive") == 7
    assert await rounds.count("transfers") == 3, "of the last thirty days"


async def test_what_was_judged_is_not_read_again(stage: Stage, rounds: Rounds) -> None:
    task = await ended_task(stage)
    for _ in range(3):
        await ended_job(stage, task)
    await rounds.after(days=8)
    async with stage.database.read() as connection:
        position = await store.position_of(connection, BY_NAME["job_specs"])
        jobs = await store.SQL.rows(
            connection, "jobs_to_judge", day=position.at, next_day=position.at + timedelta(days=1), id=position.id,
            most=500,
        )  # fmt: skip
        assert jobs == []
        position = await store.position_of(connection, BY_NAME["chunks"])
        assert position == store.Position(), "the task has not been old enough"
    await rounds.after(days=23)
    async with stage.database.read() as connection:
        position = await store.position_of(connection, BY_NAME["chunks"])
        assert position.id == task
    n_slices = await rounds.once()
    assert n_slices == 2, "the turn, and a slice in which each rule looks once and finds nothing"


async def test_reports_and_files_of_jobs_stay_until_their_task_has_ended(stage: Stage, rounds: Rounds) -> None:
    await rounds.keep("job_files", 7)
    await rounds.keep("job_reports", 7)
    async with stage.database.read() as connection:
        live = await rows.task(connection, status="running")
        data = await rows.dataset(connection, live)
        files = [await rows.file(connection, live, data) for _ in range(3)]
    for file in files:
        await ended_job(stage, live, file)
    other = await ended_task(stage)
    await ended_job(stage, other, files[0])
    await rounds.after(days=9)
    assert await stage.value("SELECT array_agg(DISTINCT task_id) FROM job_files") == [live]
    assert await rounds.count("job_reports") == 3 and await rounds.count("retention_put_off") == 2
    async with stage.database.read() as connection:
        await rows.change(
            connection,
            "UPDATE tasks SET status = 'done', state_change_time = $2 WHERE task_id = $1",
            live,
            stage.clock.now,
        )
    await rounds.after(hours=1)
    assert await rounds.count("job_files") == 3, "judged again after a day"
    await rounds.after(days=1)
    assert await rounds.count("job_files") == 0 and await rounds.count("job_reports") == 0
    assert await rounds.count("retention_put_off") == 0


async def test_rows_of_a_task_go_a_month_after_its_end_and_that_it_had_scouts_stays(
    stage: Stage, rounds: Rounds
) -> None:
    task = await ended_task(stage)
    async with stage.database.read() as connection:
        live = await rows.task(connection, status="running", state_change_time=stage.clock.now)
        for one in (task, live):
            scout = await rows.chunk(connection, one, kind="scout", status="used", n_jobs=3)
            for _ in range(3):
                await rows.chunk(connection, one, status="used", n_jobs=3)
            await rows.insert(connection, "generation_history", {"task_id": one, "outcome": "pass", "reason": "r"})
            await rows.insert(
                connection, "job_retry_history", {"task_id": one, "old_job_id": scout, "new_job_id": scout + 1000}
            )
            await rows.insert(connection, "refused_range_reports", {"task_id": one, "n_reports": 1, "reason": "r"})
            await rows.insert(connection, "task_usage", {"task_id": one, "queue": "Q"})
            await rows.insert(connection, "task_job_counts", {"task_id": one})
    await rounds.after(days=29)
    assert await rounds.count("chunks") == 8
    await rounds.after(days=1)
    assert await stage.value("SELECT array_agg(kind) FROM chunks WHERE task_id = $1", task) == ["scout"]
    for table in ("generation_history", "job_retry_history", "refused_range_reports"):
        assert await stage.value(f"SELECT array_agg(task_id) FROM {table}") == [live], table
    assert await rounds.count("task_usage") == 2 and await rounds.count("task_job_counts") == 2
    await rounds.after(days=150)
    assert await stage.value("SELECT array_agg(task_id) FROM task_usage") == [live]
    assert await stage.value("SELECT array_agg(task_id) FROM task_job_counts") == [live]


async def test_a_result_that_was_not_applied_keeps_the_rows_of_its_task(stage: Stage, rounds: Rounds) -> None:
    task = await ended_task(stage)
    async with stage.database.read() as connection:
        await rows.chunk(connection, task, status="used")
        job = await rows.job(connection, task, status="failed")
    await rounds.after(days=31)
    assert await rounds.count("chunks") == 1
    assert await stage.value("SELECT count(*) FROM retention_put_off WHERE task_id = $1", task) > 1
    async with stage.database.read() as connection:
        await rows.change(connection, "DELETE FROM jobs WHERE job_id = $1", job)
    await rounds.after(days=1)
    assert await rounds.count("chunks") == 0 and await rounds.count("retention_put_off") == 0


async def test_ranges_whose_file_is_to_be_deleted_stay_with_it(stage: Stage, rounds: Rounds) -> None:
    task = await ended_task(stage)
    async with stage.database.read() as connection:
        for number, deleted in enumerate(("Y", None)):
            file = {"zip_row_id": number + 1, "task_id": task, "job_id": 5, "kind": "zip", "lfn": f"zip{number}"}
            await rows.insert(connection, "event_range_files", file)
            await rows.insert(
                connection, "event_ranges_past",
                {"event_range_id": number, "task_id": task, "dataset_id": 1, "file_id": 1, "status": 6,
                 "job_process_id": number, "def_min_event_id": number, "attempt_nr": 1, "zip_row_id": number + 1,
                 "file_not_deleted": deleted, "is_jumbo": False},
            )  # fmt: skip
    await rounds.after(days=31)
    assert await rounds.count("event_ranges_past") == 2 and await rounds.count("event_range_files") == 2
    async with stage.database.read() as connection:
        await rows.change(
            connection, "UPDATE event_ranges_past SET file_not_deleted = 'N' WHERE file_not_deleted = 'Y'"
        )
    await rounds.after(days=1)
    assert await rounds.count("event_ranges_past") == 0 and await rounds.count("event_range_files") == 0


async def test_job_sets_go_with_their_jobs_and_searches_stay(stage: Stage, rounds: Rounds) -> None:
    task = await ended_task(stage)
    async with stage.database.read() as connection:
        for number in (1, 2):
            await rows.insert(
                connection, "job_sets",
                {"job_set_id": number, "task_id": task, "chunk_id": 1, "status": "finished", "kind": "normal",
                 "n_files": 1, "n_ranges": 1, "n_consumers": 1, "serials": {}, "queues": []},
            )  # fmt: skip
            await rows.insert(
                connection, "job_set_jobs",
                {"job_id": number, "job_set_id": number, "task_id": task, "role": "consumer", "attempt": 1},
            )  # fmt: skip
        await rows.insert(
            connection, "hpo_searches",
            {"file_id": 1, "task_id": task, "dataset_id": 1, "job_set_id": 2, "most_points": 1, "range_attempts": 1},
        )  # fmt: skip
    await rounds.after(days=181)
    assert await stage.value("SELECT array_agg(job_set_id) FROM job_sets") == [2]
    assert await stage.value("SELECT array_agg(job_set_id) FROM job_set_jobs") == [2]


async def test_the_audit_log_stays_as_long_as_the_log_of_transitions(stage: Stage, rounds: Rounds) -> None:
    async with stage.database.read() as connection:
        await connection.execute(
            "INSERT INTO audit_log (at, caller, verb, target, outcome) SELECT orrery_now(), 'a', 'v', 't', 'accepted'"
            " FROM generate_series(1, 1200)"
        )
    await rounds.keep("audit_log", 30)
    await rounds.after(days=60)
    assert await rounds.count("audit_log") == 1200
    await rounds.keep("transition_log", 60)
    await rounds.after(days=1)
    assert await rounds.count("audit_log") == 1200, "a change of the first kept day may be explained by it"
    n_slices = await rounds.after(days=1)
    assert await rounds.count("audit_log") == 0
    assert n_slices >= 1 + 3, "five hundred rows in a transaction at most"
    dropped = rounds.registry.get_sample_value("orrery_retention_dropped_total", {"rule": "audit_log"})
    assert dropped == 1200


async def test_what_jobs_require_never_goes_for_its_id_is_remembered(stage: Stage, rounds: Rounds) -> None:
    async with stage.database.read() as connection:
        shape = {"prod_source_label": "managed", "resource_type": "SCORE", "core_count": 1, "ram_mb": 1, "disk_mb": 1,
                 "walltime_s": 1}  # fmt: skip
        await rows.insert(connection, "requirement_shapes", shape)
    await rounds.after(days=400)
    assert await rounds.count("requirement_shapes") == 1


async def test_messages_that_were_not_sent_again_stay(stage: Stage, rounds: Rounds) -> None:
    async with stage.database.read() as connection:
        await connection.execute(
            "INSERT INTO parked_messages (consumer, routing_key, body, reason, parked_at, replayed_at)"
            " VALUES ('c', 'k', 'sent', 'r', orrery_now(), orrery_now()), ('c', 'k', 'waits', 'r', orrery_now(), NULL)"
        )
    await rounds.after(days=31)
    assert await stage.value("SELECT array_agg(body) FROM parked_messages") == ["waits"]


async def test_statistics_of_nothing_go_and_the_walk_is_made_once_a_day(stage: Stage, rounds: Rounds) -> None:
    async with stage.database.read() as connection:
        await connection.execute(
            "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores)"
            " SELECT 'Q' || n, 'SCORE', 's', 'u', 'running', n % 2, n % 2 FROM generate_series(1, 1300) n"
        )
    await rounds.once()
    assert await rounds.count("queue_statistics") == 650
    async with stage.database.read() as connection:
        await connection.execute("UPDATE queue_statistics SET n_jobs = 0, n_cores = 0 WHERE queue = 'Q7'")
    await rounds.after(hours=20)
    assert await rounds.count("queue_statistics") == 650
    await rounds.after(hours=5)
    assert await rounds.count("queue_statistics") == 649


async def test_a_day_of_the_archive_stays_while_a_live_task_had_jobs_then(stage: Stage, rounds: Rounds) -> None:
    for rule in ("jobs_archive", "job_files", "job_reports"):
        await rounds.keep(rule, 30)
    async with stage.database.read() as connection:
        live = await rows.task(connection, status="running")
        await connection.execute("SELECT ensure_day_partitions('jobs_archive', $1, 3)", stage.clock.now.date())
    ended = await ended_task(stage)
    await ended_job(stage, ended)
    stage.clock.forward(days=1)
    await ended_job(stage, live)
    stage.clock.forward(days=2)
    await ended_job(stage, ended)
    await rounds.after(days=40)
    await rounds.once()  # all that goes by jobs is judged
    assert await stage.value("SELECT array_agg(task_id ORDER BY job_id) FROM jobs_archive") == [live, ended]
    assert await rounds.count("archive_days") == 2
    async with stage.database.read() as connection:
        await rows.change(connection, "UPDATE tasks SET status = 'done' WHERE task_id = $1", live)
    await rounds.after(days=1)
    await rounds.after(days=1)
    assert await rounds.count("jobs_archive") == 0
    assert await stage.value("SELECT to_regclass('jobs_archive_20260302') IS NULL")


async def test_days_of_the_inbox_go_as_a_whole_and_those_outside_in_slices(stage: Stage, rounds: Rounds) -> None:
    day = stage.clock.now.date()
    async with stage.database.read() as connection:
        await connection.execute("SELECT ensure_day_partitions('inbox', $1, 1)", day)
        await connection.execute(
            "INSERT INTO inbox (event_day, consumer, event_id) SELECT $1::date - d, 'c', n"
            " FROM generate_series(1, 700) n, generate_series(0, 1) d",
            day,
        )
    await rounds.after(days=7)
    assert await rounds.count("inbox") == 700, "of the last seven days"
    await rounds.after(days=1)
    assert await rounds.count("inbox") == 0
    assert await stage.value("SELECT to_regclass('inbox_20260301') IS NULL")


async def test_a_rule_that_fails_stops_no_other(stage: Stage, rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await ended_task(stage)
    await ended_job(stage, task)
    stage.clock.forward(days=31)
    real = store.slice_by_jobs

    async def failing(work: Any, rule: Any, before: Any, most: int) -> store.Slice:
        if rule.name == "job_specs":
            raise asyncpg.DataError("planted")
        return await real(work, rule, before, most)

    monkeypatch.setattr(store, "slice_by_jobs", failing)
    with pytest.raises(asyncpg.DataError):
        await rounds.once()
    await rounds.once()
    assert await rounds.count("transfers") == 0 and await rounds.count("job_specs") == 1


async def test_the_last_day_of_the_archive_goes_although_no_later_one_has_jobs(stage: Stage, rounds: Rounds) -> None:
    task = await ended_task(stage)
    for _ in range(3):
        await ended_job(stage, task)
    await rounds.after(days=364)
    assert await rounds.count("jobs_archive") == 3
    await rounds.after(days=3)
    assert await rounds.count("jobs_archive") == 0 and await rounds.count("archive_days") == 0
    await ended_job(stage, task)
    await rounds.after(days=9)
    assert await rounds.count("jobs_archive") == 1 and await rounds.count("job_specs") == 0, "later days are judged"
