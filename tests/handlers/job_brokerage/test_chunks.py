from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from services.job_brokerage.app import build
from shared.brokerage.explained import explain_row
from shared.db import Database
from shared.events import ChunkBrokered, ChunkOffered, ChunkUnplaceable, ConfigChanged, StatisticsChanged
from shared.messaging.failures import Permanent
from shared.runtime.service import Context, Service
from tests import rows
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid, small_grid

LIGHT = {"core_count": 1, "ram_count": 1000, "ram_unit": "MB", "cpu_time": 10, "cpu_time_unit": "HS06sPerEvent",
         "resource_type": "SCORE"}  # fmt: skip


async def an_offer(database: Database, *, chunk: dict[str, Any] | None = None, **task: Any) -> ChunkOffered:
    """A task with one offered chunk of two files."""
    async with database.read() as connection:
        task_id = await rows.task(connection, **{**LIGHT, **task})
        dataset_id = await rows.dataset(connection, task_id, dataset_name=f"data.{task_id}")
        held = [{"dataset_id": dataset_id, "n_files": 2, "n_bytes": 2000, "n_events": 200}]
        chunk_id = await rows.chunk(
            connection, task_id,
            **{"n_files": 2, "n_events": 200, "input_bytes": 2000, "inputs": held, **(chunk or {})},
        )  # fmt: skip
        for lfn in ("one", "two"):
            await rows.file(connection, task_id, dataset_id, lfn=lfn, fsize=1000, status="picked", chunk_id=chunk_id)
    return ChunkOffered(chunk_id=chunk_id, task_id=task_id)


async def copy_at(database: Database, offer: ChunkOffered, *storages: str) -> None:
    """Register the chunk's dataset with complete copies."""
    async with database.read() as connection:
        name = f"data.{offer.task_id}"
        dataset_id = await connection.fetchval(
            "INSERT INTO catalogue.datasets (scope, name, kind, state, n_files, n_bytes) "
            "VALUES ('test', $1, 'dataset', 'frozen', 2, 2000) RETURNING dataset_id", name,
        )  # fmt: skip
        for storage in storages:
            await connection.execute(
                "INSERT INTO catalogue.dataset_replicas VALUES ($1, $2, 2, 2000, true)", dataset_id, storage
            )


async def stored(database: Database, decision_id: int) -> dict[str, Any]:
    async with database.read() as connection:
        return dict(await connection.fetchrow("SELECT * FROM brokerage_decisions WHERE decision_id = $1", decision_id))


async def test_a_chunk_gets_ranked_queues_and_the_decision_is_stored_with_every_number(database, context) -> None:
    version = await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database, nucleus="ALPHA")
    await copy_at(database, offer, "GAMMA_DATADISK")
    (brokered,) = await deliver(database, service, offer)
    assert isinstance(brokered, ChunkBrokered)
    assert [(one.queue, one.resource_type) for one in brokered.candidates] == [
        ("Q_GAMMA", "SCORE"), ("Q_ALPHA", "SCORE"), ("Q_BETA", "SCORE")
    ]  # fmt: skip
    row = await stored(database, brokered.decision_id)
    assert (row["kind"], row["outcome"], row["plugin"], row["world_version"]) == (
        "job",
        "chosen",
        "production",
        version,
    )
    assert row["chosen"] == ["Q_GAMMA/SCORE", "Q_ALPHA/SCORE", "Q_BETA/SCORE"]
    assert len(row["names"]) == len(row["codes"]) == len(row["weights"]) == 16
    entries = {entry["name"]: entry for entry in explain_row(row)}
    assert entries["Q_GAMMA/SCORE"]["terms"]["data_availability"] == 2
    assert entries["Q_ALPHA/SCORE"]["terms"]["network"] == 2.5
    assert entries["Q_DELTA/SCORE"]["check"] == "status"
    assert entries["Q_ALPHA/MCORE"]["check"] == "core_count"
    assert entries["Q_ALPHA/SCORE_HIMEM"]["check"] == "memory_too_small"
    assert row["summary"]["passed"] == 3


async def test_a_chunk_that_no_queue_can_take_says_why_and_when_it_is_looked_at_again(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database, ram_count=90_000)
    (unplaceable,) = await deliver(database, service, offer)
    assert isinstance(unplaceable, ChunkUnplaceable)
    row = await stored(database, unplaceable.decision_id)
    assert unplaceable.retry_at == row["retry_at"] == row["decided_at"] + timedelta(hours=1)
    assert row["outcome"] == "none" and row["chosen"] == []
    assert "nearest miss: Q_ALPHA/SCORE_HIMEM (memory_too_large: memory of a job" in unplaceable.reason
    assert "configuration" in unplaceable.reason and "memory_too_large" in unplaceable.reason


async def test_the_time_to_look_again_is_a_runtime_parameter(database, context) -> None:
    service = await started(build(context))
    async with database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO parameters (component, key, value, type) "
            "VALUES ('jobbroker', 'RETRY_PRODUCTION_S', '5', 'int')"
        )
        await work.connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    await dict(service.news)[ConfigChanged](ConfigChanged(config_version=2))
    (unplaceable,) = await deliver(database, service, await an_offer(database))
    row = await stored(database, unplaceable.decision_id)
    assert row["retry_at"] == row["decided_at"] + timedelta(seconds=5)


async def test_before_saying_no_the_world_is_read_again(database, context) -> None:
    service = await started(build(context))
    await load_grid(database)
    (brokered,) = await deliver(database, service, await an_offer(database))
    assert isinstance(brokered, ChunkBrokered), "the news of the grid had not come yet"


async def test_a_chunk_that_is_no_longer_offered_is_left_alone(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database, chunk={"status": "used"})
    assert await deliver(database, service, offer) == ()


async def test_a_merge_chunk_stays_at_its_queue(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database, chunk={"kind": "merge", "queue": "Q_BETA"}, core_count=8, nucleus="ALPHA")
    (brokered,) = await deliver(database, service, offer)
    assert [(one.queue, one.resource_type) for one in brokered.candidates] == [("Q_BETA", "SCORE")]


async def test_analysis_goes_to_its_data(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database, task_type="anal", prod_source_label="user")
    await copy_at(database, offer, "BETA_DATADISK", "DELTA_DATADISK")
    (brokered,) = await deliver(database, service, offer)
    assert [one.queue for one in brokered.candidates] == ["Q_BETA"]
    assert (await stored(database, brokered.decision_id))["plugin"] == "analysis"


async def test_an_incomplete_copy_counts_in_proportion(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database, nucleus="ALPHA")
    await copy_at(database, offer, "GAMMA_DATADISK")
    async with database.read() as connection:
        await connection.execute("UPDATE catalogue.dataset_replicas SET n_files = 1, n_bytes = 1000, complete = false")
    (brokered,) = await deliver(database, service, offer)
    entries = {entry["name"]: entry for entry in explain_row(await stored(database, brokered.decision_id))}
    assert entries["Q_GAMMA/SCORE"]["terms"]["data_availability"] == pytest.approx((1000 + 2000) / (2000 * 1.01))


async def test_a_task_of_another_vo_is_placed_by_its_own_plugin(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    (brokered,) = await deliver(database, service, await an_offer(database, vo="example"))
    assert (await stored(database, brokered.decision_id))["plugin"] == "example"


async def test_a_task_whose_numbers_make_no_sense_is_parked_with_the_reason(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database, ram_unit="furlongs")
    with pytest.raises(Permanent, match=r"ramUnit: unit 'furlongs' is unknown; allowed: MB") as parked:
        await deliver(database, service, offer)
    assert parked.value.task_id == offer.task_id


async def test_the_same_seed_gives_the_same_decision(database, context: Context) -> None:
    await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database)
    (first,), (second,) = await deliver(database, service, offer), await deliver(database, service, offer)
    one, two = await stored(database, first.decision_id), await stored(database, second.decision_id)
    assert one["weights"] == two["weights"] and one["seed"] != two["seed"]


async def kept_after_forgetting(database: Database, service: Service) -> list[tuple[int, str]]:
    """Decision ids with their kinds, the last first."""
    forget = next(one for one in service.periodic if one.name == "forget-history")
    async with database.begin(reason="test") as work:
        await forget.run(work)
        kept = await work.connection.fetch("SELECT decision_id, kind FROM brokerage_decisions ORDER BY 1 DESC")
    return [(row["decision_id"], row["kind"]) for row in kept]


async def copy_decision(database: Database, decision_id: int, kind: str, days_ago: int = 0) -> int:
    async with database.read() as connection:
        return await connection.fetchval(
            "INSERT INTO brokerage_decisions (kind, task_id, decided_at, plugin, seed, world_version, outcome, "
            "summary, names, codes, found, wanted, weights, checks) "
            "SELECT $2, task_id, decided_at - make_interval(days => $3), "
            "plugin, seed, world_version, outcome, summary, names, codes, found, wanted, weights, checks "
            "FROM brokerage_decisions WHERE decision_id = $1 RETURNING decision_id", decision_id, kind, days_ago,
        )  # fmt: skip


async def test_only_the_last_twenty_decisions_of_a_task_are_kept(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database)
    decided = [(await deliver(database, service, offer))[0].decision_id for _ in range(23)]
    assert await kept_after_forgetting(database, service) == [(one, "job") for one in reversed(decided[3:])]


async def test_the_decision_about_the_nucleus_is_kept_however_often_chunks_are_decided(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database)
    (first,) = await deliver(database, service, offer)
    about_nucleus = [await copy_decision(database, first.decision_id, "task") for _ in range(22)]
    decided = [(await deliver(database, service, offer))[0].decision_id for _ in range(23)]
    kept = await kept_after_forgetting(database, service)
    assert kept == [(one, "job") for one in reversed(decided[3:])] + [(one, "task") for one in about_nucleus[:1:-1]]


@pytest.mark.parametrize(
    ("status", "kept"), [("running", True), ("pending", True), ("done", False), ("aborted", False)]
)
async def test_after_a_week_only_the_last_decision_of_each_kind_is_kept_of_tasks_at_work(
    database, context, status, kept
) -> None:
    await load_grid(database)
    service = await started(build(context))
    offer = await an_offer(database)
    (first,) = await deliver(database, service, offer)
    _, nucleus = [await copy_decision(database, first.decision_id, "task", days_ago=8) for _ in range(2)]
    async with database.read() as connection:
        await rows.change(connection, "UPDATE tasks SET status = $1", status)
    expected = [(nucleus, "task")] if kept else []
    assert await kept_after_forgetting(database, service) == [*expected, (first.decision_id, "job")]


async def test_a_queue_that_left_the_grid_is_no_longer_offered(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    files = small_grid()
    del files["queues"]["Q_GAMMA"]
    await load_grid(database, files)
    refresh = next(one for one in service.periodic if one.name == "refresh")
    async with database.begin(reason="test") as work:
        await refresh.run(work)
    (brokered,) = await deliver(database, service, await an_offer(database))
    assert {one.queue for one in brokered.candidates} == {"Q_ALPHA", "Q_BETA"}


async def test_on_a_grid_where_nothing_ever_ran_chunks_and_scouts_find_queues(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    for kind, queues in (("scout", {"Q_ALPHA"}), ("normal", {"Q_ALPHA", "Q_BETA", "Q_GAMMA"})):
        offer = await an_offer(database, chunk={"kind": kind}, nucleus="ALPHA")
        (brokered,) = await deliver(database, service, offer)
        assert isinstance(brokered, ChunkBrokered)
        assert {one.queue for one in brokered.candidates} == queues


async def test_two_chunks_decided_on_the_same_snapshot_see_each_others_assignments(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    terms = []
    for _ in range(2):
        offer = await an_offer(database, chunk={"n_files": 60, "n_events": 0}, nucleus="ALPHA")
        (brokered,) = await deliver(database, service, offer)
        entries = explain_row(await stored(database, brokered.decision_id))
        terms.append({one["name"]: one.get("terms", {}).get("queued") for one in entries})
    assert terms[0]["Q_GAMMA/SCORE"] == pytest.approx(1 / 10)
    assert terms[1]["Q_GAMMA/SCORE"] < terms[0]["Q_GAMMA/SCORE"], "jobs of the first chunk are on their way there"


async def test_expected_jobs_count_until_the_statistics_have_the_chunks_own_jobs(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))

    async def queued_at_gamma() -> float:
        (brokered,) = await deliver(database, service, await an_offer(database, nucleus="ALPHA"))
        entries = explain_row(await stored(database, brokered.decision_id))
        return next(one["terms"]["queued"] for one in entries if one["name"] == "Q_GAMMA/SCORE")

    offer = await an_offer(database, chunk={"n_files": 60, "n_events": 0}, nucleus="ALPHA")
    await deliver(database, service, offer)
    queues = ("Q_ALPHA", "Q_BETA", "Q_GAMMA")
    hear = dict(service.news)[StatisticsChanged]
    await hear(StatisticsChanged(queues=queues))
    assert await queued_at_gamma() < 1 / 20, "other news of the queues does not make the chunk's jobs vanish"
    await hear(StatisticsChanged(queues=queues, chunk_ids=(offer.chunk_id,)))
    assert await queued_at_gamma() > 1 / 12, "the statistics have them, and say that there are none"


async def test_a_merge_chunk_leaves_its_queue_after_24_hours(database, context) -> None:
    files = small_grid()
    files["queues"]["Q_DELTA"]["maxwdir"] = 8
    await load_grid(database, files)
    service = await started(build(context))
    merge = {"kind": "merge", "queue": "Q_DELTA"}
    offer = await an_offer(database, chunk=merge, nucleus="ALPHA", processing_type="merge", max_attempt=5)
    async with database.read() as connection:
        earlier = await rows.chunk(connection, offer.task_id, **merge, status="returned")
    (unplaceable,) = await deliver(database, service, offer)
    assert isinstance(unplaceable, ChunkUnplaceable)
    async with database.read() as connection:
        await connection.execute(
            "UPDATE chunks SET created_at = orrery_now() - interval '25 hours' WHERE chunk_id = $1", earlier
        )
    (brokered,) = await deliver(database, service, offer)
    assert {one.queue for one in brokered.candidates} == {"Q_ALPHA", "Q_BETA", "Q_GAMMA"}


async def test_exclusions_are_counted_by_reason(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    await deliver(database, service, await an_offer(database, nucleus="ALPHA"))
    value = context.metrics.get_sample_value
    assert value("orrery_brokerage_exclusions_total", {"check": "status", "tier": "configuration"}) == 4
    assert value("orrery_brokerage_decisions_total", {"outcome": "chosen"}) == 1
