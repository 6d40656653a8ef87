"""Ten weeks on the virtual clock: each table that has a rule stops growing, and the checks hold."""

from __future__ import annotations

from services.watchdog.checking import run_checks
from services.watchdog.policy.retention import RULES
from tests import rows
from tests.handlers.watchdog.conftest import Stage
from tests.handlers.watchdog.rounds import Rounds, ended_job, ended_task

DAYS, STEADY = 80, 70
#: archived tasks go thirty days after they were archived, and they are archived after thirty-two;
#: as few days as each rule allows; what is read then was as old as it may be on the first of these days
SHORTEST = {rule.name: rule.least_days for rule in RULES}


async def a_day_of_work(stage: Stage) -> None:
    """What ten tasks of a day leave behind."""
    now = stage.clock.now
    for _ in range(10):
        task = await ended_task(stage)
        async with stage.database.read() as connection:
            data = await rows.dataset(connection, task)
            file = await rows.file(connection, task, data, status="finished")
            await rows.chunk(connection, task, status="used", n_jobs=2)
            await rows.insert(connection, "generation_history", {"task_id": task, "outcome": "pass", "reason": "r"})
            await rows.insert(
                connection, "job_retry_history", {"task_id": task, "old_job_id": task, "new_job_id": -task}
            )
            await rows.insert(connection, "task_usage", {"task_id": task, "queue": "Q"})
            await rows.insert(connection, "task_job_counts", {"task_id": task})
            await rows.insert(connection, "raised_memory", {"task_id": task, "ram_mb": 4000, "n_files": 0})
            await rows.insert(
                connection, "audit_log", {"at": now, "caller": "a", "verb": "v", "target": "t", "outcome": "accepted"}
            )
            await rows.insert(
                connection, "parked_messages",
                {"consumer": "c", "routing_key": "k", "body": "b", "reason": "r", "replayed_at": now},
            )  # fmt: skip
            await rows.insert(connection, "inbox", {"event_day": now.date(), "consumer": "c", "event_id": task})
            await rows.log(connection, task, "file", to_status="finished", entity_ids=[file])
            await rows.insert(
                connection, "queue_statistics",
                {"queue": f"Q{task}", "resource_type": "S", "gshare": "s", "user_name": "u", "status": "running",
                 "n_jobs": 0, "n_cores": 0},
            )  # fmt: skip
        await ended_job(stage, task, file)


async def test_what_has_a_rule_is_as_large_after_weeks_as_when_its_first_rows_were_old(
    stage: Stage,
) -> None:
    rounds = Rounds(stage)
    for name, days in SHORTEST.items():
        await rounds.keep(name, days)
    tables = [table for rule in RULES for table in rule.tables] + [
        "archive_days",
        "retention_positions",
        "retention_put_off",
    ]
    sizes = {}
    for day in range(DAYS):
        await a_day_of_work(stage)
        await rounds.after(days=1)
        if day in (STEADY, DAYS - 1):
            sizes[day] = {table: await rounds.count(table) for table in tables}
    assert sizes[DAYS - 1] == sizes[STEADY]
    assert {name: n for name, n in sizes[DAYS - 1].items() if n > 10 * 37} == {}
    async with stage.database.read() as connection:
        broken = {one.check for one in await run_checks(connection)}
    assert not broken & {"i9_attempts_without_jobs", "i5_file_log_has_a_gap", "i4_reopened_without_command"}
