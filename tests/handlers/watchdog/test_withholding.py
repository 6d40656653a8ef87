"""Production is withheld whose input is beside busy queues alone, just before and after each number."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from services.task_definition.tasks.explaining import Explanation
from services.watchdog import withholding
from services.watchdog.withholding import Withholding
from shared.auth import Caller
from shared.cache import NullCache
from shared.snapshot import KnownGrid
from tests import rows
from tests.handlers.watchdog.conftest import Stage
from tests.handlers.watchdog.test_analysis_rebrokerage import queue, storage

OPERATOR = Caller("o", frozenset({"operator"}), frozenset())
LIMITS = {"LIMIT_PRIORITY_managed": 800.0, "LIMIT_IOINTENSITY_managed": 500.0}


@pytest.fixture
async def grid(stage: Stage, connection: asyncpg.Connection) -> None:
    """Q1 reads DISK1, Q2 reads DISK2; low priorities and high ioIntensity may be withheld."""
    for number in (1, 2):
        await storage(connection, f"DISK{number}")
        await queue(connection, f"Q{number}", astorages={"read_lan": [f"DISK{number}"]})
    for key, value in LIMITS.items():
        await stage.set(key, value, component="task_withholder")


async def jobs(connection: asyncpg.Connection, name: str, n_queued: int, n_running: int, gshare: str = "MC") -> None:
    await connection.execute("DELETE FROM queue_statistics WHERE queue = $1 AND gshare = $2", name, gshare)
    key = {"queue": name, "resource_type": "SCORE", "gshare": gshare, "user_name": "u", "vo": "demo"}
    for status, number in (("activated", n_queued), ("running", n_running)):
        await rows.insert(connection, "queue_statistics", {**key, "status": status, "n_jobs": number, "n_cores": 1})


async def task(connection: asyncpg.Connection, *storages: str, **values: Any) -> int:
    """A running task whose input has copies at these storages."""
    facts = {"status": "running", "io_intensity": 500, "current_priority": 799, "gshare": "MC", **values}
    task_id = await rows.task(connection, **facts)
    name = f"mc.input.{task_id}"
    await rows.dataset(connection, task_id, type="input", dataset_name=name)
    number = await connection.fetchval(
        "INSERT INTO catalogue.datasets (scope, name, kind) VALUES ('mc', $1, 'dataset') RETURNING dataset_id", name
    )
    for one in storages:
        values = {"dataset_id": number, "storage": one, "n_files": 1, "n_bytes": 1, "complete": True}
        await rows.insert(connection, "catalogue.dataset_replicas", values)
    return task_id


async def withheld(stage: Stage) -> list[int]:
    """The tasks that are withheld after the next look."""
    await stage.value("DELETE FROM watch_runs WHERE watch = 'withheld'")
    await stage.run(Withholding(stage.parameters, KnownGrid(NullCache())).watch_busy_sites)
    async with stage.database.read() as connection:
        found = await connection.fetch("SELECT task_id FROM tasks WHERE status = 'throttled' ORDER BY task_id")
    return [row["task_id"] for row in found]


@pytest.mark.usefixtures("grid")
@pytest.mark.parametrize(
    ("n_queued", "n_running", "busy"), [(20, 0, False), (21, 0, True), (40, 20, False), (41, 20, True)]
)
async def test_tasks_are_withheld_while_their_only_queue_has_too_many_of_their_share(
    stage: Stage, connection: asyncpg.Connection, n_queued: int, n_running: int, busy: bool
) -> None:
    await jobs(connection, "Q1", n_queued, n_running)
    here = await task(connection, "DISK1")
    await task(connection, "DISK1", "DISK2")
    await task(connection, "DISK1", gshare="Data")
    await task(connection)
    assert await withheld(stage) == ([here] if busy else [])


@pytest.mark.usefixtures("grid")
@pytest.mark.parametrize(
    "values", [{"current_priority": 800}, {"io_intensity": 499}, {"prod_source_label": "user"}, {"status": "paused"}]
)
async def test_others_are_not_withheld(stage: Stage, connection: asyncpg.Connection, values: dict[str, Any]) -> None:
    await jobs(connection, "Q1", 100, 0)
    await task(connection, "DISK1", **values)
    assert await withheld(stage) == []


@pytest.mark.usefixtures("grid")
async def test_a_storage_that_does_not_work_is_none(stage: Stage, connection: asyncpg.Connection) -> None:
    await storage(connection, "DISK3", blacklisted="Y")
    await jobs(connection, "Q1", 1, 1)
    one = await task(connection, "DISK3")
    assert await withheld(stage) == [one]


@pytest.mark.usefixtures("grid")
async def test_without_limits_nobody_is(stage: Stage, connection: asyncpg.Connection) -> None:
    await connection.execute("DELETE FROM parameters WHERE component = 'task_withholder'")
    await stage.parameters.refresh(connection, force=True)
    await jobs(connection, "Q1", 100, 0)
    await task(connection, "DISK1", current_priority=-5)
    assert await withheld(stage) == []


@pytest.mark.usefixtures("grid")
async def test_it_is_withheld_for_longer_while_that_lasts_goes_on_after_and_says_why(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await jobs(connection, "Q1", 100, 0)
    one = await task(connection, "DISK1")
    for _ in range(3):
        assert await withheld(stage) == [one]
        stage.clock.forward(minutes=14)
        await stage.run(stage.watchdog.watch_attempts)
    found = await Explanation(KnownGrid(NullCache())).task(connection, one, OPERATOR)
    assert found is not None
    assert (
        "says: withheld: its input is only where more jobs of its share wait than 2 x those that run and 20"
        in found["text"]
    )
    await jobs(connection, "Q1", 20, 0)
    assert await withheld(stage) == [one], "its time is not over"
    stage.clock.forward(minutes=1)
    await stage.value("DELETE FROM watch_runs")
    await stage.run(stage.watchdog.watch_attempts)
    assert await stage.value("SELECT status FROM tasks WHERE task_id = $1", one) == "running"


@pytest.mark.usefixtures("grid")
async def test_explain_says_why_a_task_of_a_busy_share_goes_on(stage: Stage, connection: asyncpg.Connection) -> None:
    await jobs(connection, "Q1", 100, 0)
    one = await task(connection, "DISK1", "DISK2")
    assert await withheld(stage) == []
    explanation = Explanation(KnownGrid(NullCache()))
    found = await explanation.task(connection, one, OPERATOR)
    where = "some of its input is beside queues that are not busy, or no copy of it is known"
    why = f"not withheld: {where} (at each look since"
    assert found is not None and why in found["text"]
    await connection.execute("DELETE FROM catalogue.dataset_replicas WHERE storage = 'DISK2'")
    assert await withheld(stage) == [one]
    found = await explanation.task(connection, one, OPERATOR)
    assert found is not None and "not withheld" not in found["text"]


@pytest.mark.usefixtures("grid")
async def test_those_that_go_on_are_not_held_and_who_works_on_another_keeps_it(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await jobs(connection, "Q1", 100, 0)
    goes_on = await task(connection, "DISK1", "DISK2")
    worked_on, other = [await task(connection, "DISK1") for _ in range(2)]
    async with stage.database.begin(reason="test") as work:
        await work.connection.execute("SELECT FROM tasks WHERE task_id = $1 FOR UPDATE", worked_on)
        async with stage.database.begin(reason="watch") as watch:
            await Withholding(stage.parameters, KnownGrid(NullCache())).watch_busy_sites(watch)
            free = await connection.fetch("SELECT task_id FROM tasks FOR UPDATE SKIP LOCKED")
            assert [row["task_id"] for row in free] == [goes_on]
    found = await connection.fetch("SELECT task_id FROM tasks WHERE status = 'throttled'")
    assert [row["task_id"] for row in found] == [other]


@pytest.mark.usefixtures("grid")
async def test_a_task_that_names_busy_or_closed_queues_alone_is_withheld_wherever_its_input_is(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await queue(connection, "Q3", status="offline")
    await queue(connection, "R4", status="brokeroff")
    await queue(connection, "S-T0")  # named like its site
    await jobs(connection, "Q1", 21, 0)
    await jobs(connection, "S-T0", 21, 0)
    both = ("DISK1", "DISK2")
    named = [await task(connection, *both, site=site) for site in ("Q1", "Q1,Q3", "Q1/SCORE", "Q1*, Q3")]
    for site in ("Q2", "Q1,Q2", "", "Q*", "R4", "Q2/SCORE", "Q1,R4", "S", "S*", "unknown"):
        await task(connection, *both, site=site)
    assert await withheld(stage) == named
    said = await stage.value("SELECT error_dialog FROM tasks WHERE task_id = $1", named[0])
    assert said.startswith(
        "withheld: it names queues, and at each that is not offline more jobs of its share wait than 2 x"
    )
    await jobs(connection, "Q1", 20, 0)
    stage.clock.forward(minutes=16)
    await stage.run(stage.watchdog.watch_attempts)
    assert await withheld(stage) == []


@pytest.mark.usefixtures("grid")
async def test_in_each_turn_all_tasks_are_looked_at_a_slice_at_a_time_in_all_shares(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(withholding, "SLICE", 3)
    expected = []
    for gshare in ("Data", "MC"):
        await jobs(connection, "Q1", 100, 0, gshare)
        for number in range(4):
            # those that are looked at first are not withheld: they are not looked at for ever
            await task(connection, "DISK2", gshare=gshare, current_priority=number)
            expected.append(await task(connection, "DISK1", gshare=gshare, current_priority=100 + number))
    watch = Withholding(stage.parameters, KnownGrid(NullCache()))
    await rows.insert(connection, "watch_runs", {"watch": "withheld", "last_run_at": stage.clock.now})
    for _ in range(2):
        stage.clock.forward(minutes=6)
        looked = []
        while True:
            async with stage.database.begin(reason="watch") as work:
                looked.append(await watch.watch_busy_sites(work))
            if not looked[-1]:
                break
        assert [one.n_found for one in looked] == [3, 3, 3, 3, 3, 1]
        found = await connection.fetch("SELECT task_id FROM tasks WHERE status = 'throttled' ORDER BY task_id")
        assert [row["task_id"] for row in found] == sorted(expected)
