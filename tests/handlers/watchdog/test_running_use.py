"""Analysis tasks pause when their account runs nearly as much as it may, and go on when it runs less."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from services.watchdog.policy.running_use import ENDS_BELOW, RunningUse, too_much
from tests import rows
from tests.handlers.watchdog.conftest import START, Stage

CAPPED = {"component": "prio_mgr", "app": "pandaserver"}


async def running(connection: asyncpg.Connection, n_jobs: int, **task: object) -> int:
    """An analysis task of which so many jobs run, as the statistics count them."""
    about = {"task_type": "anal", "prod_source_label": "user", "status": "running", "user_name": "ada", **task}
    task_id = await rows.task(connection, **about)
    for _ in range(n_jobs):
        await rows.job(connection, task_id, status="running", user_name=str(about["user_name"]))
    key = {"queue": f"Q{task_id}", "resource_type": "SCORE", "gshare": "MC", "user_name": about["user_name"]}
    counted = {"status": "running", "n_jobs": n_jobs, "n_cores": n_jobs, "vo": "demo"}
    await rows.insert(connection, "queue_statistics", {**key, **counted})
    return task_id


async def status(stage: Stage, task_id: int) -> str:
    found: str = await stage.value("SELECT status FROM tasks WHERE task_id = $1", task_id)
    return found


async def look(stage: Stage) -> None:
    await stage.value("DELETE FROM watch_runs")
    await stage.run(stage.watchdog.watch_attempts)


@pytest.mark.parametrize(("n_jobs", "pauses"), [(949, None), (950, "950 running jobs of user ada")])
def test_tasks_pause_from_95_percent_of_a_cap(n_jobs: int, pauses: str | None) -> None:
    use = RunningUse("demo", "ada", "", n_jobs, n_jobs, (1,), jobs_cap=1000)
    assert (too_much(use) or "").startswith(pauses or "") and (too_much(use) is None) == (pauses is None)


@pytest.mark.parametrize(("n_cores", "goes_on"), [(850, False), (849, True)])
def test_tasks_go_on_below_85_percent(n_cores: int, goes_on: bool) -> None:
    use = RunningUse("demo", "ada", "", 1, n_cores, (1,), cores_cap=1000)
    assert (too_much(use, ENDS_BELOW) is None) == goes_on


def test_without_a_cap_nothing_is_too_much() -> None:
    assert too_much(RunningUse("demo", "ada", "", 10**6, 10**6, (1,))) is None


async def test_a_users_tasks_pause_for_two_hours_and_go_on_as_soon_as_less_runs(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await stage.set("CAP_RUNNING_USER_JOBS", 20.0, **CAPPED)
    busy = await running(connection, 19)
    other = await running(connection, 0)
    of_bob = await running(connection, 18, user_name="bob")
    production = await rows.task(connection, status="running", user_name="ada")
    await look(stage)
    assert [await status(stage, one) for one in (busy, other)] == ["throttled", "throttled"]
    assert [await status(stage, one) for one in (of_bob, production)] == ["running", "running"]
    row = await connection.fetchrow("SELECT retry_at, error_dialog FROM tasks WHERE task_id = $1", busy)
    assert row["retry_at"] == START + timedelta(minutes=120) and "0.95 of the 20 allowed" in row["error_dialog"]
    await rows.change(connection, "DELETE FROM jobs WHERE job_id = (SELECT min(job_id) FROM jobs)")
    await rows.change(connection, "UPDATE queue_statistics SET n_jobs = 18 WHERE user_name = 'ada' AND n_jobs = 19")
    await look(stage)
    assert await status(stage, busy) == "throttled", "18 of 20 are below 0.95, and not below 0.85"
    await rows.change(connection, "DELETE FROM jobs WHERE job_id IN (SELECT job_id FROM jobs ORDER BY job_id LIMIT 2)")
    await look(stage)
    assert [await status(stage, one) for one in (busy, other)] == ["running", "running"]


async def test_a_working_group_has_its_own_cap(stage: Stage, connection: asyncpg.Connection) -> None:
    await stage.set("CAP_RUNNING_GROUP_JOBS", 2.0, **CAPPED)
    of_group = await running(connection, 2, working_group="phys")
    own = await running(connection, 5)
    await look(stage)
    assert await status(stage, of_group) == "throttled" and await status(stage, own) == "running"
