"""Each check finds its planted violation, and nothing else does."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import orjson
import pytest

from services.watchdog.checking import CHECKS, run_checks
from services.watchdog.checking.invariants import INVARIANTS
from shared.db import Database
from tests import rows
from tests.unit.check.plants_of_dispatch import PLANTS_OF_DISPATCH
from tests.unit.check.story import Story, tell

Plant = Callable[[asyncpg.Connection, Story], Awaitable[None]]


def sql(statement: str, *names: str) -> Plant:
    """A violation planted by one statement; `names` are fields of the story."""

    async def plant(connection: asyncpg.Connection, story: Story) -> None:
        await rows.change(connection, statement, *(getattr(story, name) for name in names))

    return plant


async def second_success(connection: asyncpg.Connection, story: Story) -> None:
    again = await rows.archived_job(connection, story.task, status="finished")
    await rows.job_file(connection, again, story.finished_file, is_master=True)


async def second_live_job(connection: asyncpg.Connection, story: Story) -> None:
    again = await rows.job(connection, story.task, status="waiting", job_type="merge")
    await rows.job_file(connection, again, story.running_file, is_master=True)


async def event_range_in_two_rows(connection: asyncpg.Connection, story: Story) -> None:
    for attempts, status in ((10, 2), (9, 3)):  # an index refuses two rows of one attempt
        await rows.insert(
            connection, "event_ranges",
            {"task_id": story.task, "dataset_id": story.input, "file_id": story.running_file, "status": status,
             "job_id": story.live_job, "def_min_event_id": 1, "def_max_event_id": 10, "attempt_nr": attempts},
        )  # fmt: skip


async def file_taken_from_its_job(connection: asyncpg.Connection, story: Story) -> None:
    other = await rows.job(connection, story.task, status="waiting")
    await rows.change(connection, "UPDATE task_files SET job_id = $2 WHERE file_id = $1", story.running_file, other)


async def too_many_attempts(connection: asyncpg.Connection, story: Story) -> None:
    await connection.execute("ALTER TABLE task_files DROP CONSTRAINT task_files_check")
    for _ in range(4):
        job = await rows.archived_job(connection, story.task, status="closed")
        await rows.job_file(connection, job, story.ready_file, is_master=True)
    await rows.change(connection, "UPDATE task_files SET attempt_nr = 4 WHERE file_id = $1", story.ready_file)


async def watchdogs_failure_counted(connection: asyncpg.Connection, story: Story) -> None:
    job = await rows.archived_job(connection, story.task, status="failed", error_source="watchdog")
    await rows.job_file(connection, job, story.ready_file, is_master=True)
    await rows.change(
        connection, "UPDATE task_files SET attempt_nr = 1, failed_attempt = 1 WHERE file_id = $1", story.ready_file
    )


async def final_job_revived(connection: asyncpg.Connection, story: Story) -> None:
    # the graph has no such arrow either; here it is given one, so that only the finality is broken
    await connection.execute("INSERT INTO allowed_transitions VALUES ('job', 'failed', 'activated')")
    await rows.log(
        connection, story.task, "job", entity_id=story.archived_job, from_status="failed", to_status="activated"
    )


async def job_in_two_homes(connection: asyncpg.Connection, story: Story) -> None:
    await rows.archived_job(connection, story.task, job_id=story.live_job, status="cancelled")


async def task_reopened_quietly(connection: asyncpg.Connection, story: Story) -> None:
    for was, became in (("ready", "prepared"), ("prepared", "failed"), ("failed", "toretry"), ("toretry", "ready")):
        await rows.log(connection, story.task, "task", entity_id=story.task, from_status=was, to_status=became)


async def forbidden_transition(connection: asyncpg.Connection, story: Story) -> None:
    for was, became in (("defined", "merging"), ("merging", "defined")):
        await rows.log(
            connection, story.task, "event_range", entity_ids=[story.ready_file], from_status=was, to_status=became
        )


async def transition_without_reason(connection: asyncpg.Connection, story: Story) -> None:
    values = {"entity_id": story.input, "from_status": "ready", "to_status": "toupdate"}
    await rows.log(connection, story.task, "dataset", **values, reason="unstated")


async def job_given_twice(connection: asyncpg.Connection, story: Story) -> None:
    for was, became in (("sent", "activated"), ("activated", "sent")):
        await rows.change(
            connection, "INSERT INTO allowed_transitions VALUES ('job', $1, $2) ON CONFLICT DO NOTHING", was, became
        )
        await rows.log(connection, story.task, "job", entity_id=story.live_job, from_status=was, to_status=became)


async def job_claimed_twice(connection: asyncpg.Connection, story: Story) -> None:
    await connection.execute("DROP INDEX job_claims_job")
    for key in ("a", "b"):
        await rows.insert(connection, "job_claims", {"request_key": key, "job_id": story.live_job})


async def archived_uncounted(connection: asyncpg.Connection, story: Story) -> None:
    await rows.archived_job(connection, story.task, status="closed", results_applied_at=None)


async def forgotten_end(connection: asyncpg.Connection, story: Story) -> None:
    await rows.job(
        connection,
        story.task,
        status="closed",
        state_change_time=await connection.fetchval("SELECT orrery_now() - interval '31 minutes'"),
    )
    await connection.execute("UPDATE jobs SET worker = 'w'")
    await rows.change(
        connection,
        "INSERT INTO transition_log (at, entity, entity_id, task_id, from_status, to_status, actor, reason)"
        " SELECT orrery_now(), 'job', job_id, task_id, 'defined', 'closed', 'test', 'planted' FROM jobs"
        " WHERE status = 'closed'",
    )


async def event_stuck(connection: asyncpg.Connection, story: Story) -> None:
    await connection.execute(
        "INSERT INTO outbox (routing_key, body, producer, created_at)"
        " VALUES ('task.ready.v1', '{}', 'test', orrery_now() - interval '6 minutes')"
    )


async def event_applied_twice(connection: asyncpg.Connection, story: Story) -> None:
    await connection.execute(
        "INSERT INTO inbox (event_day, consumer, event_id)"
        " SELECT day::date, 'job-generation.task-ready', 7 FROM unnest(ARRAY['2026-01-01', '2026-01-02']) AS day"
    )


async def deferred_forgotten(connection: asyncpg.Connection, story: Story) -> None:
    await connection.execute(
        "INSERT INTO deferred_messages (event_id, consumer, routing_key, body, reason, retry_at)"
        " VALUES (1, 'c', 'task.ready.v1', '{}', 'later', orrery_now() - interval '11 minutes')"
    )


async def second_seed_user(connection: asyncpg.Connection, story: Story) -> None:
    await rows.job_file(connection, story.archived_job, story.seed)


async def same_output_name(connection: asyncpg.Connection, story: Story) -> None:
    log = await rows.dataset(connection, story.task, type="log", n_files=1, n_files_finished=1)
    name = await connection.fetchval("SELECT lfn FROM task_files WHERE file_id = $1", story.finished_output)
    await rows.file(connection, story.task, log, type="log", lfn=name, status="nooutput", out_job_id=story.archived_job)
    await rows.change(connection, "UPDATE task_datasets SET n_files_finished = 0 WHERE dataset_id = $1", log)


async def task_with_nothing_to_do(connection: asyncpg.Connection, story: Story) -> None:
    idle = await rows.task(connection, status="running")
    await rows.dataset(connection, idle, n_files=0)


async def statistics_drifted(connection: asyncpg.Connection, story: Story) -> None:
    await rows.change(
        connection,
        "UPDATE jobs SET creation_time = orrery_now() - interval '2 minutes',"
        " state_change_time = orrery_now() - interval '2 minutes'",
    )
    await connection.execute(
        "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, vo, status, n_jobs, n_cores)"
        " VALUES ('Q1', 'SCORE', 'MC', 'alice', 'demo', 'running', 2, 2)"
    )


async def lost_output_of_ended_task(connection: asyncpg.Connection, story: Story) -> None:
    ended = await rows.task(connection, status="finished")
    dataset = await rows.dataset(connection, ended, type="output", n_files=1, n_files_used=1, n_files_failed=1)
    file = await rows.file(connection, ended, dataset, type="output", status="failed", out_job_id=story.archived_job)
    await rows.log(connection, ended, "file", entity_ids=[file], from_status="running", to_status="failed")
    await rows.register(connection, file)


async def unread_input(connection: asyncpg.Connection, story: Story) -> None:
    """A ready unit of which the catalogue has another size than when it was read."""
    task = await rows.task(connection, status="running")
    dataset = await rows.dataset(connection, task, dataset_name="mc.input", n_files=1, n_files_to_be_used=1)
    await rows.file(connection, task, dataset, lfn="f.1", fsize=5)
    await connection.execute(
        "WITH d AS (INSERT INTO catalogue.datasets (scope, name, kind) VALUES ('mc', 'mc.input', 'dataset')"
        " RETURNING dataset_id)"
        " INSERT INTO catalogue.files (dataset_id, scope, lfn, size_bytes) SELECT dataset_id, 'mc', 'f.1', 6 FROM d"
    )
    await rows.change(
        connection, "UPDATE task_datasets SET contents_version = (SELECT contents_version FROM catalogue.datasets"
                    " WHERE name = 'mc.input') WHERE dataset_id = $1", dataset
    )  # fmt: skip


async def ended_early(connection: asyncpg.Connection, story: Story) -> None:
    task = await rows.task(connection, status="done", split_rule={"runUntilClosed": True})
    await rows.dataset(connection, task, status="done", state="open")


async def told(connection: asyncpg.Connection, story: Story, **spec: Any) -> None:
    """The text of the job whose output is finished; "NAME" in it is the name of the output."""
    name = await connection.fetchval("SELECT lfn FROM task_files WHERE file_id = $1", story.finished_output)
    text = orjson.dumps({"outFiles": name, **spec}).decode().replace("NAME", name)
    text = text.replace("ENCODED", b64encode(f"--out {name}".encode()).decode())
    add = "INSERT INTO job_specs (job_id, task_id, spec) VALUES ($1, $2, $3)"
    await connection.execute(add, story.archived_job, story.task, orjson.loads(text))


async def other_name_in_the_text(connection: asyncpg.Connection, story: Story) -> None:
    await told(connection, story, jobPars="-o other.root", allowNoOutput="NAME")


@pytest.mark.parametrize(
    "spec",
    [
        {"jobPars": "-o \"{'a.root': 'NAME'}\""}, {"jobPars": "ENCODED"}, {"postprocess": {"args": "--out NAME"}},
        {"jobPars": "-i x", "writeToFile": "IN:a^OUT:NAME"}, {"jobPars": "-o %7B%27a%27%3A%20%27NAME%27%7D"},
        {"jobPars": "-r . panda.um.NAME:NAME", "inFiles": "panda.um.NAME"},
    ],
)  # fmt: skip
async def test_an_output_that_the_text_names_anywhere_is_one_it_named(database: Database, spec: dict[str, Any]) -> None:
    async with database.read() as connection:
        story = await tell(connection)
        await told(connection, story, **spec)
        assert await run_checks(connection) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"jobPars": "-r . panda.um.NAME:other", "inFiles": "panda.um.NAME"}, {"jobPars": "-o other", "inFiles": "NAME"},
        {"jobPars": "-o NAME.tgz"},
    ],
)  # fmt: skip
async def test_an_output_whose_name_the_text_has_only_in_another_is_found(
    database: Database, spec: dict[str, Any]
) -> None:
    async with database.read() as connection:
        story = await tell(connection)
        await told(connection, story, **spec)
        assert [one.check for one in await run_checks(connection)] == ["i16_output_not_in_the_text"]


@pytest.mark.parametrize(
    ("listed", "name", "found"),
    [
        ("regex|a.*", "a1.root", []),
        ("a.root", "a1.root", ["i16_output_not_in_the_text"]),
        ("regex|a.*", "regex|a.*|000001", ["i16_output_not_in_the_text"]),  # which file it is was never found
    ],
)
async def test_a_finished_output_of_an_expression_has_the_name_of_a_file(
    database: Database, listed: str, name: str, found: list[str]
) -> None:
    async with database.read() as connection:
        story = await tell(connection)
        await told(connection, story, jobPars="-o x", outFiles=listed)
        renamed = "UPDATE task_files SET lfn = $2 WHERE file_id = $1"
        known = "UPDATE catalogue.files SET lfn = $2 WHERE lfn = (SELECT lfn FROM task_files WHERE file_id = $1)"
        for statement in (known, renamed):
            await rows.change(connection, statement, story.finished_output, name)
        template = "UPDATE output_templates SET file_name_template = 'regex|a.*' WHERE dataset_id = $1"
        await rows.change(connection, template, story.output)
        assert [one.check for one in await run_checks(connection)] == found


async def test_the_log_of_a_killed_job_that_its_pilot_reported_late_breaks_nothing(database: Database) -> None:
    async with database.read() as connection:
        await tell(connection)
        ended = await rows.task(connection, status="aborted")
        killed = await rows.archived_job(
            connection, ended, status="cancelled", end_time=datetime(2026, 1, 1, tzinfo=UTC)
        )
        logs = await rows.dataset(connection, ended, type="log", n_files=1)
        lfn = "log.late.tgz"
        log = await rows.file(connection, ended, logs, type="log", status="cancelled", lfn=lfn, out_job_id=killed)
        await rows.log(connection, ended, "file", entity_ids=[log], from_status="running", to_status="cancelled")
        await rows.register(connection, log)
        report = {"job_id": killed, "attempt_number": 1, "state": "late", "report": {"outputs": {lfn: {}}}}
        await rows.insert(connection, "job_reports", report)
        assert await run_checks(connection) == []
        await connection.execute("UPDATE job_reports SET state = 'failed', report = '{}' WHERE job_id = $1", killed)
        assert {one.check for one in await run_checks(connection)} == {
            "i14_catalogue_has_unfinished_output", "i6_report_after_the_end"
        }  # fmt: skip


async def done_too_early(connection: asyncpg.Connection, story: Story) -> None:
    task = await rows.task(connection, status="done")
    dataset = await rows.dataset(connection, task, status="done", n_files=1, n_files_to_be_used=1)
    await rows.file(connection, task, dataset, lfn="f.1")


async def test_input_that_a_chunk_has_of_a_task_that_ended_is_found(database: Database) -> None:
    async with database.read() as connection:
        story = await tell(connection)
        await rows.change(connection, "UPDATE tasks SET status = 'finished' WHERE task_id = $1", story.task)
        found = await run_checks(connection, [story.task])
    under_way = [one.sentence for one in found if one.check == "i15_ended_with_input_under_way"]
    assert {sentence.rpartition(" ")[2] for sentence in under_way} == {"picked", "running"}


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM catalogue.files",
        "UPDATE catalogue.files SET size_bytes = 1",
        "UPDATE catalogue.files SET checksum = 'x'",
    ],
)
async def test_a_finished_output_that_the_catalogue_has_not_or_has_otherwise_is_found(
    database: Database, damage: str
) -> None:
    async with database.read() as connection:
        story = await tell(connection)
        await connection.execute(damage)
        found = await run_checks(connection, [story.task])
    assert [(one.check, one.entity_id) for one in found] == [
        ("i14_finished_output_not_in_catalogue", story.finished_output)
    ]


PLANTS: dict[str, Plant] = {
    **PLANTS_OF_DISPATCH,
    "i1_file_succeeded_twice": second_success,
    "i1_file_in_two_live_jobs": second_live_job,
    "i1_event_range_twice": event_range_in_two_rows,
    "i2_picked_without_chunk": sql("UPDATE chunks SET status = 'returned' WHERE chunk_id = $1", "chunk"),
    "i2_running_input_without_job": sql("DELETE FROM jobs WHERE job_id = $1", "live_job"),
    "i2_running_output_without_job": sql(
        "UPDATE task_files SET out_job_id = 0 WHERE file_id = $1", "running_output"
    ),
    "i2_live_job_without_its_file": file_taken_from_its_job,
    "i2_input_files_missing": sql("DELETE FROM task_files WHERE file_id = $1", "ready_file"),
    "i3_input_counters": sql("UPDATE task_datasets SET n_files_failed = 1 WHERE dataset_id = $1", "input"),
    "i3_event_counters": sql("UPDATE task_datasets SET n_events_used = 31 WHERE dataset_id = $1", "input"),
    "i3_output_counters": sql("UPDATE task_datasets SET n_files_on_hold = 1 WHERE dataset_id = $1", "output"),
    "i3_counters_out_of_order": sql("UPDATE task_datasets SET n_files_to_be_used = 2 WHERE dataset_id = $1", "input"),
    "i4_final_job_changed": final_job_revived,
    "i4_job_in_two_homes": job_in_two_homes,
    "i4_reopened_without_command": task_reopened_quietly,
    "i5_transition_not_in_graph": forbidden_transition,
    "i5_transition_without_reason": transition_without_reason,
    "i5_task_log_has_a_gap": sql("UPDATE tasks SET status = 'scouting' WHERE task_id = $1", "task"),
    "i5_job_log_has_a_gap": sql("UPDATE jobs SET status = 'starting' WHERE job_id = $1", "live_job"),
    "i5_file_log_has_a_gap": sql(
        "DELETE FROM transition_log WHERE entity = 'file' AND to_status = 'finished' AND task_id = $1", "task"
    ),
    "i7_job_given_twice": job_given_twice,
    "i7_job_claimed_twice": job_claimed_twice,
    "i9_too_many_attempts": too_many_attempts,
    "i9_attempts_without_jobs": watchdogs_failure_counted,
    "i10_archived_before_counted": archived_uncounted,
    "i10_counted_before_final": sql("UPDATE jobs SET results_applied_at = orrery_now() WHERE job_id = $1", "live_job"),
    "i10_end_never_counted": forgotten_end,
    "i10_end_never_settled": sql(
        "INSERT INTO dirty_tasks (task_id, counted_at) VALUES ($1, orrery_now() - interval '31 minutes')", "task"
    ),
    "i10_event_not_published": event_stuck,
    "i10_event_applied_twice": event_applied_twice,
    "i10_deferred_event_overdue": deferred_forgotten,
    "i11_output_name_twice": same_output_name,
    "i11_serial_number_behind": sql("UPDATE output_templates SET serial_nr = 2 WHERE dataset_id = $1", "output"),
    "i11_seed_used_twice": second_seed_user,
    "i14_finished_output_not_in_catalogue": sql(
        "UPDATE task_files SET fsize = 0 WHERE file_id = $1", "finished_output"
    ),
    "i14_catalogue_has_unfinished_output": lost_output_of_ended_task,
    "i14_input_not_in_catalogue": unread_input,
    "i16_output_not_in_the_text": other_name_in_the_text,
    "i15_ended_with_open_input": ended_early,
    "i15_ended_with_input_under_way": done_too_early,
    "i13_task_without_next_step": task_with_nothing_to_do,
    "i13_statistics_differ_at_rest": statistics_drifted,
}  # fmt: skip

#: A job that vanished, or was counted while live, breaks more than one promise.
ALSO = {
    "i2_running_input_without_job": {"i2_running_output_without_job"},
    "i10_counted_before_final": {"i2_running_input_without_job", "i2_running_output_without_job"},
}


def test_every_check_has_a_planted_violation() -> None:
    assert set(PLANTS) == {check.name for check in CHECKS}


def test_every_invariant_that_sql_can_see_has_a_check_with_a_title() -> None:
    assert {check.invariant for check in CHECKS} == set(INVARIANTS)
    assert all(check.title.endswith(".") for check in CHECKS)


async def test_a_healthy_story_breaks_nothing(database: Database) -> None:
    async with database.read() as connection:
        story = await tell(connection)
        assert await run_checks(connection) == []
        assert await run_checks(connection, [story.task]) == []


@pytest.mark.parametrize("name", sorted(PLANTS))
async def test_the_check_finds_its_planted_violation_and_no_other_does(database: Database, name: str) -> None:
    async with database.read() as connection:
        story = await tell(connection)
        await PLANTS[name](connection, story)
        found = await run_checks(connection)
    assert {violation.check for violation in found} == {name} | ALSO.get(name, set())
    assert all(len(violation.sentence) > 20 for violation in found)


@pytest.mark.parametrize("name", sorted(check.name for check in CHECKS if check.at_every_commit))
async def test_the_check_of_some_tasks_finds_the_violation_in_its_task_only(database: Database, name: str) -> None:
    async with database.read() as connection:
        other = await tell(connection)
        story = await tell(connection)
        await PLANTS[name](connection, story)
        elsewhere = await run_checks(connection, [other.task])
        newest = await connection.fetchval("SELECT max(task_id) FROM tasks")
        found = await run_checks(connection, range(story.task, newest + 1))
    assert elsewhere == []
    assert {violation.check for violation in found} == {name} | ALSO.get(name, set())


async def test_all_queries_see_one_snapshot(database: Database) -> None:
    async with database.read() as connection, database.read() as other:
        story = await tell(connection)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            assert await run_checks(connection) == []
            await PLANTS["i3_input_counters"](other, story)
            assert await run_checks(connection) == []
        assert await run_checks(connection) != []
