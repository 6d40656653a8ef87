from __future__ import annotations

from datetime import timedelta

import pytest

from shared.catalogue import BuiltInCatalogue
from shared.db import Database
from shared.events import OutputsProduced, OutputsRegistered, TransfersCompleted, TransfersRequested
from shared.runtime.service import Context, Service
from tests.handlers.events import deliver
from tests.handlers.grids import load_grid, small_grid
from tests.handlers.task_definition.steps import rows_of, value_of
from tests.rows import ARCHIVE, change, dataset, file, insert, job, task


async def a_holding_job(
    database: Database, job_id: int, report: dict | None, *, queue: str = "Q_GAMMA", state: str = "finished"
) -> int:
    """A job with an output and a log, whose pilot reported its end; the output's file id."""
    async with database.read() as connection:
        task_id = await task(connection, task_id=job_id * 100)
        await job(connection, task_id, job_id=job_id, status="holding", queue=queue)
        output_id = 0
        for kind in ("output", "log"):
            name = f"mc.{kind}"
            dataset_id = await dataset(connection, task_id, type=kind, dataset_name=name, status="running")
            output_id = output_id or dataset_id
            await BuiltInCatalogue().create(connection, name, scope="mc")
            file_id = await file(
                connection, task_id, dataset_id, lfn=f"{kind}.{job_id}", type=kind, status="running", out_job_id=job_id
            )
            await insert(
                connection,
                "job_files",
                {"job_id": job_id, "file_id": file_id, "dataset_id": dataset_id, "task_id": task_id, "type": kind},
            )
        if report is not None:
            row = {"job_id": job_id, "attempt_number": 1, "state": state, "report": report}
            await insert(connection, "job_reports", row)
        return file_id


def reported(job_id: int, **storage: str) -> dict:
    return {
        "job_status": "finished",
        "outputs": {
            f"output.{job_id}": {"guid": f"g{job_id}", "fsize": 1000, "adler32": "0a0b0c0d", **storage},
            f"log.{job_id}": {"guid": f"l{job_id}", "fsize": 10, "adler32": "01020304"},
        },
    }


async def test_outputs_are_registered_where_they_were_written_with_what_the_pilot_measured(
    database: Database, service: Service
) -> None:
    await a_holding_job(database, 1, reported(1))
    event = OutputsProduced(job_ids=(1,))
    assert await deliver(database, service, event) == (OutputsRegistered(job_ids=(1,)),)
    files = await rows_of(
        database,
        "SELECT d.name, f.lfn, f.size_bytes, f.checksum, f.guid, r.storage FROM catalogue.files f"
        " JOIN catalogue.datasets d USING (dataset_id) JOIN catalogue.file_replicas r USING (file_id)"
        " WHERE d.name LIKE 'mc.%t' OR d.name = 'mc.log' ORDER BY d.name",
    )
    assert [tuple(row) for row in files if row["name"] in ("mc.log", "mc.output")] == [
        ("mc.log", "log.1", 10, "ad:01020304", "l1", "GAMMA_DATADISK"),
        ("mc.output", "output.1", 1000, "ad:0a0b0c0d", "g1", "GAMMA_DATADISK"),
    ]
    assert await value_of(database, "SELECT fsize FROM task_files WHERE lfn = 'output.1'") == 1000


async def test_a_job_s_outputs_are_registered_once_however_often_it_is_told(
    database: Database, service: Service
) -> None:
    await a_holding_job(database, 1, reported(1))
    for _ in range(3):
        await deliver(database, service, OutputsProduced(job_ids=(1,)))
    row = (await rows_of(database, "SELECT n_files, n_bytes FROM catalogue.datasets WHERE name = 'mc.output'"))[0]
    assert tuple(row) == (1, 1000)
    replica = await rows_of(
        database,
        "SELECT r.n_files, r.n_bytes, r.complete FROM catalogue.dataset_replicas r JOIN catalogue.datasets d"
        " USING (dataset_id) WHERE d.name = 'mc.output'",
    )
    assert [tuple(one) for one in replica] == [(1, 1000, False)]


@pytest.mark.parametrize(
    ("status", "size"), [("running", 1000), ("finished", 7), ("failed", 7), ("cancelled", 7), ("nooutput", 7)]
)
async def test_what_a_pilot_measured_replaces_nothing_of_an_output_that_is_final(
    database: Database, service: Service, status: str, size: int
) -> None:
    await a_holding_job(database, 1, reported(1))
    async with database.read() as connection:
        statement = "UPDATE task_files SET status = $1, fsize = 7, guid = 'old' WHERE lfn = 'output.1'"
        await change(connection, statement, status)
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    (found,) = await rows_of(database, "SELECT fsize, guid FROM task_files WHERE lfn = 'output.1'")
    assert tuple(found) == (size, "g1" if size == 1000 else "old")


async def test_jobs_that_no_longer_hold_are_left_alone(database: Database, service: Service) -> None:
    await a_holding_job(database, 1, reported(1))
    async with database.read() as connection:
        await connection.execute("UPDATE jobs SET status = 'failed'")
    assert await deliver(database, service, OutputsProduced(job_ids=(1, 77))) == ()
    assert await value_of(database, "SELECT n_files FROM catalogue.datasets WHERE name = 'mc.output'") == 0


@pytest.mark.parametrize("statement", [
    "UPDATE catalogue.datasets SET state = 'frozen' WHERE name = 'mc.output'",
    "DELETE FROM catalogue.datasets WHERE name = 'mc.output'",
])  # fmt: skip
async def test_a_dataset_that_takes_no_files_any_more_is_told_and_counted(
    database: Database, service: Service, context: Context, caplog: pytest.LogCaptureFixture, statement: str
) -> None:
    await a_holding_job(database, 1, reported(1))
    async with database.read() as connection:
        await connection.execute(statement)
    told = await deliver(database, service, OutputsProduced(job_ids=(1,)))
    assert told == (OutputsRegistered(job_ids=(), refused_job_ids=(1,)),)
    assert "dataset mc.output does not take output.1: it is closed, or not there any more" in caplog.text
    count = context.metrics.get_sample_value("orrery_output_files_unregistered_total", {"kind": "output"})
    assert count == 1


async def test_what_is_registered_already_is_not_refused_by_its_dataset_that_was_closed_since(
    database: Database, service: Service
) -> None:
    await a_holding_job(database, 1, reported(1))
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    async with database.read() as connection:
        await connection.execute("UPDATE catalogue.datasets SET state = 'frozen'")
    assert await deliver(database, service, OutputsProduced(job_ids=(1,))) == (OutputsRegistered(job_ids=(1,)),)


async def copies(database: Database, *job_ids: int) -> None:
    """These jobs are copies of one job (useJobCloning)."""
    job_set = {"task_id": job_ids[0] * 100, "chunk_id": 1, "status": "open", "kind": "normal", "n_files": 1,
               "n_ranges": 0, "n_consumers": 1, "serials": {}, "queues": []}  # fmt: skip
    async with database.read() as connection:
        set_id = await insert(connection, "job_sets", job_set, "job_set_id")
        for job_id in job_ids:
            member = {"job_id": job_id, "job_set_id": set_id, "task_id": job_id * 100, "role": "clone", "attempt": 1}
            await insert(connection, "job_set_jobs", member)


async def registered_files(database: Database) -> list[str]:
    """Of jobs with numbers of one digit."""
    query = "SELECT lfn FROM catalogue.files WHERE lfn ~ '^(log|output)[.][0-9]$' ORDER BY lfn"
    return [row["lfn"] for row in await rows_of(database, query)]


@pytest.mark.parametrize("at_once", [True, False])
async def test_of_copies_of_a_job_the_outputs_of_the_first_alone_are_registered(
    database: Database, service: Service, at_once: bool
) -> None:
    for job_id in (1, 2, 3):
        await a_holding_job(database, job_id, reported(job_id))
    await copies(database, 1, 2)
    first, said = (1, [(1, 2, 3)]) if at_once else (2, [(2,), (1,), (3, 2, 1)])
    told = [one for job_ids in said for one in await deliver(database, service, OutputsProduced(job_ids=job_ids))]
    assert {job_id for one in told for job_id in one.job_ids} == {first, 3}
    assert await registered_files(database) == [f"log.{first}", "log.3", f"output.{first}", "output.3"]


@pytest.mark.parametrize(("was", "counted"), [("failed", 2), ("transferring", 1), ("finished", 1)])
async def test_another_copy_is_registered_where_the_first_ended_badly(
    database: Database, service: Service, was: str, counted: int
) -> None:
    for job_id in (1, 2):
        await a_holding_job(database, job_id, reported(job_id))
    await copies(database, 1, 2)
    async with database.read() as connection:
        await connection.execute("INSERT INTO stored_copies SELECT job_set_id, 1 FROM job_sets")
        for status in ("transferring", was):
            await change(connection, "UPDATE jobs SET status = $1 WHERE job_id = 1", status)
    told = await deliver(database, service, OutputsProduced(job_ids=(2,)))
    assert [one.job_ids for one in told] == ([(2,)] if counted == 2 else [])
    assert ("output.2" in await registered_files(database)) == (counted == 2)


async def test_a_copy_that_failed_registers_its_log_and_leaves_the_output_to_another(
    database: Database, service: Service
) -> None:
    await a_holding_job(database, 1, reported(1), state="failed")
    await a_holding_job(database, 2, reported(2))
    await copies(database, 1, 2)
    await deliver(database, service, OutputsProduced(job_ids=(1, 2)))
    assert await registered_files(database) == ["log.1", "log.2", "output.2"]


async def test_a_file_that_the_pilot_did_not_list_is_not_registered(database: Database, service: Service) -> None:
    report = reported(1)
    del report["outputs"]["output.1"]
    await a_holding_job(database, 1, report)
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    assert await value_of(database, "SELECT n_files FROM catalogue.datasets WHERE name = 'mc.output'") == 0
    assert await value_of(database, "SELECT n_files FROM catalogue.datasets WHERE name = 'mc.log'") == 1


@pytest.mark.parametrize("report", [None, {"job_status": "finished"}, {"job_status": "finished", "outputs": {}}])
async def test_no_list_registers_nothing(database: Database, service: Service, report: dict | None) -> None:
    await a_holding_job(database, 1, report)
    assert await deliver(database, service, OutputsProduced(job_ids=(1,))) == (OutputsRegistered(job_ids=(1,)),)
    assert await value_of(database, "SELECT count(*) FROM catalogue.files WHERE lfn LIKE '%.1'") == 0


async def test_of_a_failed_job_the_log_alone_is_registered(database: Database, service: Service) -> None:
    await a_holding_job(database, 1, reported(1), state="failed")
    assert await deliver(database, service, OutputsProduced(job_ids=(1,))) == (OutputsRegistered(job_ids=(1,)),)
    found = await rows_of(database, "SELECT lfn, size_bytes FROM catalogue.files WHERE lfn LIKE '%.1'")
    assert [tuple(row) for row in found] == [("log.1", 10)]
    assert await value_of(database, "SELECT fsize FROM task_files WHERE lfn = 'output.1'") is None


@pytest.mark.parametrize("where", ["jobs", "archive"])
@pytest.mark.parametrize("dataset_state", ["open", "frozen"])
async def test_of_a_job_that_was_killed_the_log_alone_is_registered(
    database: Database, service: Service, where: str, dataset_state: str
) -> None:
    await a_holding_job(database, 1, reported(1), state="late")
    async with database.read() as connection:
        await change(connection, "UPDATE jobs SET status = 'cancelled'")
        await change(connection, "UPDATE task_files SET status = 'cancelled' WHERE task_id = 100")
        await connection.execute("UPDATE catalogue.datasets SET state = $1 WHERE name LIKE 'mc.%'", dataset_state)
        if where == "archive":
            await connection.execute(ARCHIVE)
            await connection.execute("DELETE FROM jobs")
    for _ in range(2):
        assert await deliver(database, service, OutputsProduced(job_ids=(1,))) == ()
    found = await rows_of(
        database,
        "SELECT f.lfn, f.size_bytes, d.state, d.n_files, r.n_files AS n_copies FROM catalogue.files f"
        " JOIN catalogue.datasets d USING (dataset_id) JOIN catalogue.dataset_replicas r USING (dataset_id)"
        " WHERE f.lfn LIKE '%.1'",
    )
    assert [tuple(row) for row in found] == [("log.1", 10, dataset_state, 1, 1)]
    assert await value_of(database, "SELECT status FROM task_files WHERE lfn = 'log.1'") == "cancelled"


async def test_a_storage_that_a_pilot_names_counts_if_it_exists(database: Database, service: Service) -> None:
    await a_holding_job(database, 1, reported(1, endpoint="BETA_DATADISK"))
    await a_holding_job(database, 2, reported(2, endpoint="MARS_DATADISK"))
    await deliver(database, service, OutputsProduced(job_ids=(1, 2)))
    copies = await rows_of(
        database,
        "SELECT f.lfn, r.storage FROM catalogue.file_replicas r JOIN catalogue.files f USING (file_id)"
        " WHERE f.lfn LIKE 'output%' ORDER BY f.lfn",
    )
    assert [tuple(one) for one in copies] == [("output.1", "BETA_DATADISK"), ("output.2", "GAMMA_DATADISK")]


async def test_outputs_whose_queue_has_no_storage_are_told_and_not_registered(
    database: Database, service: Service
) -> None:
    await a_holding_job(database, 1, reported(1), queue="GONE")
    await a_holding_job(database, 2, reported(2))
    assert await deliver(database, service, OutputsProduced(job_ids=(1, 2))) == (
        OutputsRegistered(job_ids=(2,), without_storage_job_ids=(1,)),
    )
    found = await rows_of(database, "SELECT lfn FROM catalogue.files WHERE lfn LIKE 'output.%'")
    assert [one["lfn"] for one in found] == ["output.2"]
    assert await value_of(database, "SELECT count(*) FROM catalogue.file_replicas WHERE storage = 'GONE'") == 0


async def test_the_log_of_a_failed_job_whose_queue_has_no_storage_keeps_nobody_waiting(
    database: Database, service: Service
) -> None:
    await a_holding_job(database, 1, reported(1), queue="GONE", state="failed")
    assert await deliver(database, service, OutputsProduced(job_ids=(1,))) == (OutputsRegistered(job_ids=(1,)),)


async def test_outputs_of_an_analysis_task_go_to_the_list_for_analysis_whatever_its_label(
    database: Database, service: Service
) -> None:
    files = small_grid()
    files["queues"]["Q_GAMMA"]["astorages"]["write_lan_analysis"] = ["DELTA_DATADISK"]
    await load_grid(database, files)
    await a_holding_job(database, 1, reported(1))
    async with database.read() as connection:
        await connection.execute("UPDATE tasks SET task_type = 'anal', prod_source_label = 'test'")
        await connection.execute("UPDATE jobs SET prod_source_label = 'test'")
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    copies = await rows_of(
        database,
        "SELECT DISTINCT r.storage FROM catalogue.file_replicas r JOIN catalogue.files f USING (file_id)"
        " WHERE f.lfn IN ('output.1', 'log.1')",
    )
    assert [one["storage"] for one in copies] == ["DELTA_DATADISK"]


async def a_transfer(database: Database, job_id: int, **values: object) -> int:
    row = {
        "task_id": job_id * 100, "job_id": job_id, "direction": "output", "activity": "Production Output",
        "source_storage": "GAMMA_DATADISK", "destination_storage": "ALPHA_DATADISK", "n_files": 1,
        "n_bytes": 200 * 1024**2, "status": "requested", **values,
    }  # fmt: skip
    async with database.read() as connection:
        return await insert(connection, "transfers", row, "transfer_id")


async def look_after(database: Database, service: Service) -> list:
    [periodic] = [one for one in service.periodic if one.name == "transfers"]
    async with database.begin(reason="transfers") as work:
        await periodic.run(work)
        return list(work.emitted)


async def test_a_transfer_takes_the_time_its_link_needs(database: Database, service: Service) -> None:
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO network_metrics VALUES ('GAMMA', 'ALPHA', 'dashb_mbps_1h', 20, orrery_now())"
            " ON CONFLICT (source, destination, key) DO UPDATE SET value = 20"
        )
    transfer_id = await a_transfer(database, 1)
    await deliver(database, service, TransfersRequested(transfer_ids=(transfer_id,)))
    row = (await rows_of(database, "SELECT * FROM transfers"))[0]
    assert row["status"] == "active"
    assert timedelta(seconds=19) < row["due_at"] - row["requested_at"] < timedelta(seconds=25)
    assert await deliver(database, service, TransfersRequested(transfer_ids=(transfer_id,))) == ()
    assert await look_after(database, service) == []


async def test_what_arrived_is_a_copy_and_the_dispatcher_is_told(database: Database, service: Service) -> None:
    await a_holding_job(database, 1, reported(1))
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    transfer_id = await a_transfer(database, 1)
    await deliver(database, service, TransfersRequested(transfer_ids=(transfer_id,)))
    async with database.read() as connection:
        await connection.execute("UPDATE transfers SET due_at = orrery_now() - interval '1 s'")
    assert await look_after(database, service) == [TransfersCompleted(transfer_ids=(transfer_id,), job_ids=(1,))]
    assert await look_after(database, service) == []
    copies = await rows_of(database, "SELECT DISTINCT storage FROM catalogue.file_replicas ORDER BY storage")
    assert {"ALPHA_DATADISK", "GAMMA_DATADISK"} <= {one["storage"] for one in copies}
    async with database.begin(reason="freeze") as work:
        await BuiltInCatalogue().freeze(work.connection, ["mc.output"])
    complete = await rows_of(
        database,
        "SELECT r.storage FROM catalogue.dataset_replicas r JOIN catalogue.datasets d USING (dataset_id)"
        " WHERE d.name = 'mc.output' AND r.complete ORDER BY r.storage",
    )
    assert [one["storage"] for one in complete] == ["ALPHA_DATADISK", "GAMMA_DATADISK"]


async def test_a_transfer_copies_the_files_of_its_datasets_alone(database: Database, service: Service) -> None:
    await a_holding_job(database, 1, reported(1))
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    log = "SELECT dataset_id FROM task_datasets WHERE task_id = 100 AND type = 'log'"
    transfer_id = await a_transfer(database, 1, dataset_ids=[await value_of(database, log)])
    await deliver(database, service, TransfersRequested(transfer_ids=(transfer_id,)))
    async with database.read() as connection:
        await connection.execute("UPDATE transfers SET due_at = orrery_now() - interval '1 s'")
    await look_after(database, service)
    copies = await rows_of(
        database,
        "SELECT f.lfn FROM catalogue.file_replicas r JOIN catalogue.files f USING (file_id)"
        " WHERE r.storage = 'ALPHA_DATADISK' AND f.lfn LIKE '%.1'",
    )
    assert [one["lfn"] for one in copies] == ["log.1"]


@pytest.mark.parametrize(("percent", "source"), [(100.0, "GAMMA_DATADISK"), (0.0, None)])
async def test_a_transfer_may_fail(database: Database, service: Service, percent: float, source: str | None) -> None:
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type) VALUES"
            " ('catalogue', 'TRANSFER_FAILURE_PERCENT', $1, 'float'),"
            " ('catalogue', 'TRANSFER_LATENCY_S', '0', 'float'),"
            " ('catalogue', 'TRANSFER_SPEED_UP', '1000000', 'float')",
            str(percent),
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    for start in service.on_start:
        await start()
    transfer_id = await a_transfer(database, 7, source_storage=source)
    await deliver(database, service, TransfersRequested(transfer_ids=(transfer_id,)))
    async with database.read() as connection:
        await connection.execute("UPDATE transfers SET due_at = orrery_now() - interval '1 s'")
    [completed] = await look_after(database, service)
    assert (completed.job_ids, completed.failed_job_ids) == ((), (7,))
    assert await value_of(database, "SELECT error FROM transfers") is not None


async def test_a_request_whose_event_was_lost_is_started_by_itself(database: Database, service: Service) -> None:
    await a_transfer(database, 1)
    async with database.read() as connection:
        await connection.execute("UPDATE transfers SET requested_at = requested_at - interval '2 minutes'")
    await look_after(database, service)
    assert await value_of(database, "SELECT status FROM transfers") == "active"
