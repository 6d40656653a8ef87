"""A task that no queue takes goes on as soon as one would, in order, and no more of them than there is room for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from services.job_brokerage.app import build
from services.watchdog.app import build as build_watchdog
from shared.catalogue import BuiltInCatalogue
from shared.catalogue.port import NewFile
from shared.db import Database
from shared.events import ChunkBrokered, ChunkOffered, ChunkUnplaceable, StatisticsChanged, TaskReleased, TasksWoken
from shared.runtime.service import Context, Service
from shared.waits import waker
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid, small_grid
from tests.handlers.job_brokerage.test_chunks import an_offer, copy_at

QUEUES = ("Q_ALPHA", "Q_BETA", "Q_GAMMA")
FULL, FLOOR = 100, 20


async def fill(database: Database, *queues: str, n_jobs: int = FULL) -> None:
    """So many activated jobs at each queue, as the statistics have it, published."""
    async with database.read() as connection:
        version = await connection.fetchval(
            "INSERT INTO versions (name, version) VALUES ('statistics', 1) "
            "ON CONFLICT (name) DO UPDATE SET version = versions.version + 1 RETURNING version"
        )
        for queue in queues:
            await connection.execute(
                "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, vo, status, n_jobs, n_cores)"
                " VALUES ($1, 'SCORE', 'MC', 'u', 'demo', 'activated', $2, $2) ON CONFLICT (queue, resource_type, "
                "gshare, user_name, status, vo) DO UPDATE SET n_jobs = excluded.n_jobs",
                queue, n_jobs,
            )  # fmt: skip
            await connection.execute(
                "INSERT INTO queue_activity (queue, statistics_version) VALUES ($1, $2) "
                "ON CONFLICT (queue) DO UPDATE SET statistics_version = $2",
                queue, version,
            )  # fmt: skip


async def hear(database: Database, service: Service, *queues: str, chunk_ids: tuple[int, ...] = ()) -> list[TasksWoken]:
    """News of changed statistics; who was woken by it."""
    seen = await last_event(database)
    async with database.read() as connection:
        now = await connection.fetchval("SELECT orrery_now()")
    event = StatisticsChanged(queues=queues, chunk_ids=chunk_ids, occurred_at=now)
    await dict(service.news)[StatisticsChanged](event)
    return await woken_since(database, seen)


async def last_event(database: Database) -> int:
    async with database.read() as connection:
        return await connection.fetchval("SELECT coalesce(max(event_id), 0) FROM outbox")


async def woken_since(database: Database, event_id: int) -> list[TasksWoken]:
    async with database.read() as connection:
        rows = await connection.fetch(
            "SELECT body FROM outbox WHERE routing_key = 'tasks.woken.v1' AND event_id > $1 ORDER BY event_id", event_id
        )
    return [TasksWoken.model_validate_json(row["body"]) for row in rows]


async def look(database: Database, service: Service) -> list[TasksWoken]:
    """One periodic look."""
    seen = await last_event(database)
    run = next(one.run for one in service.periodic if one.name == "wake")
    async with database.begin(reason="look") as work:
        await run(work)
    return await woken_since(database, seen)


async def forward(database: Database, seconds: float) -> None:
    """Back-offs and wakes are so much longer ago."""
    async with database.read() as connection:
        await connection.execute(
            "UPDATE waits SET not_before = not_before - make_interval(secs => $1), "
            "woken_at = woken_at - make_interval(secs => $1), changed_by = pg_current_xact_id()::text::bigint", seconds,
        )  # fmt: skip


async def wait_in_vain(database: Database, service: Service, **task: Any) -> ChunkOffered:
    """A task that no queue takes; generation sets it pending."""
    offer = await an_offer(database, **task)
    (event,) = await deliver(database, service, offer)
    assert isinstance(event, ChunkUnplaceable)
    await hold(database, offer, event)
    return offer


async def hold(database: Database, offer: ChunkOffered, event: ChunkUnplaceable) -> None:
    async with database.begin(reason="test") as work:
        await work.connection.execute(
            "UPDATE chunks SET status = 'returned', ended_at = orrery_now() WHERE chunk_id = $1", offer.chunk_id
        )
        await work.connection.execute("SET LOCAL session_replication_role = replica")
        await work.connection.execute(
            "UPDATE tasks SET old_status = 'ready', status = 'pending', retry_at = $2 WHERE task_id = $1",
            offer.task_id, event.retry_at,
        )  # fmt: skip


async def offer_again(database: Database, offer: ChunkOffered) -> ChunkOffered:
    """The task's next chunk, of the same files."""
    async with database.begin(reason="test") as work:
        await work.connection.execute("SET LOCAL session_replication_role = replica")
        await work.connection.execute(
            "UPDATE tasks SET status = 'ready', retry_at = NULL WHERE task_id = $1", offer.task_id
        )
        chunk_id = await work.connection.fetchval(
            "INSERT INTO chunks (chunk_id, task_id, kind, status, dataset_id, n_files, n_events, input_bytes, "
            "priority, inputs) SELECT nextval('chunk_ids'), task_id, kind, 'offered', dataset_id, n_files, n_events, "
            "input_bytes, priority, inputs FROM chunks WHERE chunk_id = $1 RETURNING chunk_id", offer.chunk_id,
        )  # fmt: skip
        await work.connection.execute(
            "UPDATE task_files SET chunk_id = $2 WHERE chunk_id = $1", offer.chunk_id, chunk_id
        )
    return ChunkOffered(chunk_id=chunk_id, task_id=offer.task_id)


@pytest.fixture
async def service(database: Database, context: Context) -> Service:
    await load_grid(database)
    await fill(database, *QUEUES)
    return await started(build(context))


@pytest.mark.parametrize("task", [{}, {"task_type": "anal", "prod_source_label": "user", "gshare": "User Analysis"}])
async def test_a_task_that_every_queue_refused_is_placed_as_soon_as_one_drains(
    database: Database, service: Service, task: dict[str, str]
) -> None:
    offer = await wait_in_vain(database, service, **task)
    assert await hear(database, service, *QUEUES) == []
    await fill(database, "Q_BETA", n_jobs=FLOOR)
    (event,) = await hear(database, service, "Q_BETA")
    assert (event.task_ids, event.cause) == ((offer.task_id,), "room at a queue")
    (brokered,) = await deliver(database, service, await offer_again(database, offer))
    assert isinstance(brokered, ChunkBrokered) and [one.queue for one in brokered.candidates] == ["Q_BETA"]


async def test_a_woken_pending_task_goes_back_to_where_it_came_from_and_is_looked_at(
    database: Database, service: Service, context: Context
) -> None:
    offer = await wait_in_vain(database, service)
    await fill(database, "Q_BETA", n_jobs=0)
    (event,) = await hear(database, service, "Q_BETA")
    (released,) = await deliver(database, build_watchdog(context), event)
    assert isinstance(released, TaskReleased) and (released.task_id, released.status) == (offer.task_id, "ready")
    assert released.reason == "woken before its time by room at a queue"
    async with database.read() as connection:
        row = await connection.fetchrow("SELECT status, retry_at FROM tasks WHERE task_id = $1", offer.task_id)
    assert tuple(row) == ("ready", None)


async def test_no_more_tasks_are_woken_than_the_room_could_take_and_the_most_important_first(
    database: Database, service: Service
) -> None:
    tasks = [await wait_in_vain(database, service, current_priority=priority) for priority in (100, 300, 200, 300)]
    async with database.read() as connection:
        await connection.execute("UPDATE waits SET n_jobs = 5, changed_by = pg_current_xact_id()::text::bigint")
    await fill(database, "Q_BETA", n_jobs=FLOOR - 9)  # ten jobs until the cap holds again
    (event,) = await hear(database, service, "Q_BETA")
    assert event.task_ids == (tasks[1].task_id, tasks[3].task_id)
    assert await hear(database, service, "Q_BETA") == []  # the same room wakes nobody twice


@pytest.mark.parametrize(("n_jobs", "n_woken"), [(60, 1), (50, 2), (20, 3)])
async def test_a_woken_task_takes_the_room_of_all_queues_over_which_its_jobs_are_spread(
    database: Database, service: Service, n_jobs: int, n_woken: int
) -> None:
    tasks = [await wait_in_vain(database, service) for _ in range(4)]
    async with database.read() as connection:
        await connection.execute(
            "UPDATE waits SET n_jobs = $1, changed_by = pg_current_xact_id()::text::bigint", n_jobs
        )
    await fill(database, *QUEUES, n_jobs=FLOOR - 19)  # twenty jobs at each of the three until the cap holds again
    (event,) = await hear(database, service, *QUEUES)
    assert event.task_ids == tuple(one.task_id for one in tasks[:n_woken])
    assert await hear(database, service, *QUEUES) == []


async def test_of_ten_thousand_waiting_tasks_room_for_twenty_jobs_wakes_a_handful(
    database: Database, service: Service
) -> None:
    first = await wait_in_vain(database, service)
    async with database.begin(reason="test") as work:
        await work.connection.execute("SET LOCAL session_replication_role = replica")
        await work.connection.execute(
            "INSERT INTO tasks SELECT (t).* FROM (SELECT jsonb_populate_record(t, jsonb_build_object('task_id', "
            "t.task_id + n, 'task_name', t.task_name || n)) AS t FROM tasks t, generate_series(1, 9999) n "
            "WHERE t.task_id = $1) copies", first.task_id,
        )  # fmt: skip
        await work.connection.execute(
            "INSERT INTO waits SELECT (w).* FROM (SELECT jsonb_populate_record(w, jsonb_build_object('task_id', "
            "w.task_id + n, 'n_jobs', 10)) AS w FROM waits w, generate_series(1, 9999) n WHERE w.task_id = $1) copies",
            first.task_id,
        )  # fmt: skip
    await fill(database, "Q_BETA", n_jobs=0)
    assert sum(len(one.task_ids) for one in await hear(database, service, "Q_BETA")) <= 4
    for _ in range(3):
        assert await look(database, service) == []


async def test_two_replicas_wake_a_task_once(database: Database, service: Service, context: Context) -> None:
    await wait_in_vain(database, service)
    other = await started(build(context_of(context)))
    await fill(database, "Q_BETA", n_jobs=0)
    woken = [*await hear(database, service, "Q_BETA"), *await hear(database, other, "Q_BETA")]
    woken += [*await look(database, other), *await look(database, service)]
    assert len(woken) == 1


async def test_a_replica_that_starts_knows_who_waits(database: Database, service: Service, context: Context) -> None:
    offer = await wait_in_vain(database, service)
    await fill(database, "Q_GAMMA", n_jobs=0)
    other = await started(build(context_of(context)))
    (event,) = await look(database, other)
    assert event.task_ids == (offer.task_id,)


async def test_a_wake_that_places_nothing_is_backed_off_from_and_the_next_task_has_its_turn(
    database: Database, service: Service
) -> None:
    first = await wait_in_vain(database, service, current_priority=500)
    second = await wait_in_vain(database, service, current_priority=400)
    async with database.read() as connection:
        await connection.execute("UPDATE waits SET n_jobs = 50, changed_by = pg_current_xact_id()::text::bigint")
        await connection.execute("UPDATE tasks SET ram_count = 90000 WHERE task_id = $1", first.task_id)
    await fill(database, "Q_BETA", n_jobs=0)
    (event,) = await hear(database, service, "Q_BETA")
    assert event.task_ids == (first.task_id,)
    again = await offer_again(database, first)
    (unplaceable,) = await deliver(database, service, again)
    await hold(database, again, unplaceable)
    (event,) = await hear(database, service, "Q_BETA")
    assert event.task_ids == (second.task_id,)
    async with database.read() as connection:
        row = await connection.fetchrow(
            "SELECT n_futile, not_before - decided_at AS rests FROM waits WHERE task_id = $1", first.task_id
        )
    assert row["n_futile"] == 1 and timedelta(seconds=4) < row["rests"] < timedelta(seconds=6)


async def test_a_new_grid_wakes_those_it_may_help_in_slices(database: Database, service: Service) -> None:
    tasks = [await wait_in_vain(database, service, ram_count=90_000) for _ in range(25)]
    files = small_grid()
    files["queues"]["Q_BIG"] = {**files["queues"]["Q_ALPHA"], "siteid": "Q_BIG", "maxrss": 800_000}
    assert await look(database, service) == []
    await load_grid(database, files)
    async with database.begin(reason="test") as work:
        await next(one.run for one in service.periodic if one.name == "refresh")(work)
    (event,) = await look(database, service)
    assert event.cause == "the grid" and event.task_ids == tuple(one.task_id for one in tasks[:20])
    assert await look(database, service) == []  # not before these are decided about
    for task in tasks[:20]:
        await deliver(database, service, await offer_again(database, task))
    (event,) = await look(database, service)
    assert event.task_ids == tuple(one.task_id for one in tasks[20:])


async def test_a_parameter_wakes_those_whose_checks_it_governs_and_nobody_else(
    database: Database, service: Service
) -> None:
    offer = await wait_in_vain(database, service)
    await look(database, service)
    for component, key, value, n_woken in (
        ("watchdog", "SWEEP_S", "60", 0),
        ("jobbroker", "NQUEUELIMITSITE", "500", 1),
    ):
        async with database.begin(reason="test") as work:
            await work.connection.execute(
                "INSERT INTO parameters (component, key, value, type) VALUES ($1, $2, $3, 'int')", component, key, value
            )
            await work.connection.execute(
                "INSERT INTO versions (name, version) VALUES ('config', 1) "
                "ON CONFLICT (name) DO UPDATE SET version = versions.version + 1"
            )
            await next(one.run for one in service.periodic if one.name == "parameters")(work)
        assert [one.task_ids for one in await look(database, service)] == [(offer.task_id,)] * n_woken


def context_of(context: Context) -> Context:
    """Another replica's."""
    from dataclasses import replace

    from prometheus_client import CollectorRegistry

    return replace(context, metrics=CollectorRegistry())


async def test_a_task_that_a_cap_of_its_user_held_goes_on_when_the_user_has_fewer_jobs(
    database: Database, context: Context
) -> None:
    await load_grid(database)
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO parameters (app, component, key, value, type) "
            "VALUES ('pandaserver', 'prio_mgr', 'CAP_RUNNING_USER_JOBS', '10', 'int')"
        )
        await connection.execute(
            "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, vo, status, n_jobs, n_cores) "
            "VALUES ('Q_ALPHA', 'SCORE', 'User Analysis', 'alice', 'demo', 'running', 12, 12)"
        )
    service = await started(build(context))
    analysis = {"task_type": "anal", "prod_source_label": "user", "gshare": "User Analysis"}
    held = await wait_in_vain(database, service, user_name="alice", **analysis)
    async with database.read() as connection:
        caps = await connection.fetchval("SELECT causes -> 'caps' FROM waits WHERE task_id = $1", held.task_id)
    assert caps == [["user_running_jobs", 10.0]]
    assert await look(database, service) == []
    async with database.read() as connection:
        await connection.execute("UPDATE queue_statistics SET n_jobs = 3 WHERE user_name = 'alice'")
    other = await started(build(context_of(context)))
    (event,) = await look(database, other)
    assert (event.task_ids, event.cause) == ((held.task_id,), "usage of the user or group")


async def test_room_that_comes_before_the_task_was_told_to_wait_is_not_lost(
    database: Database, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waker, "TOLD_WITHIN", timedelta(0))
    offer = await an_offer(database)
    (unplaceable,) = await deliver(database, service, offer)
    await fill(database, "Q_BETA", n_jobs=0)
    assert await hear(database, service, "Q_BETA") == []  # generation has not heard of it: nobody can be released
    await hold(database, offer, unplaceable)
    (event,) = await look(database, service)
    assert event.task_ids == (offer.task_id,)


async def test_units_whose_memory_was_raised_are_woken_while_the_rest_of_their_task_goes_on(
    database: Database, service: Service
) -> None:
    offer = await an_offer(database)
    (unplaceable,) = await deliver(database, service, offer)
    async with database.begin(reason="test") as work:
        await work.connection.execute(
            "UPDATE chunks SET status = 'returned', ended_at = orrery_now(), retry_at = $2 WHERE chunk_id = $1",
            offer.chunk_id, unplaceable.retry_at,
        )  # fmt: skip
    await fill(database, "Q_BETA", n_jobs=0)
    (event,) = await hear(database, service, "Q_BETA")
    assert event.task_ids == (offer.task_id,)


async def test_a_replica_of_its_input_wakes_a_task_and_one_of_another_dataset_does_not(
    database: Database, service: Service
) -> None:
    waiting = [await wait_in_vain(database, service) for _ in range(2)]
    async with database.read() as connection:
        await connection.execute(
            "UPDATE waits SET causes = jsonb_set(causes, '{lifts}', '[\"GRID\", \"REPLICA\"]'), "
            "changed_by = pg_current_xact_id()::text::bigint"
        )
    other = await an_offer(database)
    assert await look(database, service) == []
    await copy_at(database, other, "BETA_DATADISK")
    assert await look(database, service) == []
    await copy_at(database, waiting[1], "BETA_DATADISK")
    (event,) = await look(database, service)
    assert (event.task_ids, event.cause) == ((waiting[1].task_id,), "a replica")


async def test_outputs_and_moved_files_that_are_registered_are_replicas_that_wake(
    database: Database, service: Service
) -> None:
    (first, second) = [await wait_in_vain(database, service) for _ in range(2)]
    async with database.read() as connection:
        await connection.execute(
            "UPDATE waits SET causes = jsonb_set(causes, '{lifts}', '[\"REPLICA\"]'), "
            "changed_by = pg_current_xact_id()::text::bigint"
        )
    catalogue, names = BuiltInCatalogue(), [f"data.{one.task_id}" for one in (first, second)]
    async with database.begin(reason="test") as work:
        for name in names:
            await catalogue.create(work.connection, name, scope="test")
    assert await look(database, service) == []
    async with database.begin(reason="test") as work:
        await catalogue.add_files(work.connection, [a_file(names[0]), a_file(names[1])])
    (event,) = await look(database, service)
    assert event.task_ids == (first.task_id, second.task_id)
    again = await offer_again(database, second)
    (unplaceable,) = await deliver(database, service, again)
    await hold(database, again, unplaceable)
    async with database.read() as connection:
        await connection.execute(
            "UPDATE waits SET causes = jsonb_set(causes, '{lifts}', '[\"REPLICA\"]'), not_before = NULL, "
            "changed_by = pg_current_xact_id()::text::bigint "
            "WHERE task_id = $1", second.task_id,
        )  # fmt: skip
        await connection.execute("UPDATE catalogue.dataset_replicas SET changed_at = changed_at - interval '1 minute'")
    assert await look(database, service) == []
    async with database.begin(reason="test") as work:
        await catalogue.add_replicas(work.connection, [(names[1], "one", "GAMMA_DATADISK")])
    (event,) = await look(database, service)
    assert (event.task_ids, event.cause) == ((second.task_id,), "a replica")


def a_file(dataset: str) -> NewFile:
    return NewFile(dataset, "one", size_bytes=1000, n_events=100, storage="BETA_DATADISK")
