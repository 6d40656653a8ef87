"""Where outputs are to go, datasets of sites, and what the catalogue has of them when a task ends."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from shared.catalogue import BuiltInCatalogue, NewFile
from shared.db import Database
from shared.events import OutputsProduced, TaskPrepared
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, task_row, value_of
from tests.handlers.task_definition.world import analysis, production
from tests.rows import change, dataset, file, insert, job, task

DATASETS = (
    "SELECT d.*, p.dataset_name AS made_of FROM task_datasets d"
    " LEFT JOIN task_datasets p ON p.dataset_id = d.provenance_id WHERE d.task_id = $1 ORDER BY d.dataset_id"
)


async def test_each_output_keeps_its_token_destination_and_the_input_that_it_is_made_of(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    asked = production(destination="BETA")
    asked["jobParameters"][-1] |= {"token": "dst:ALPHA_DATADISK"}
    asked["log"] |= {"destination": "ALPHA", "token": "DATADISK"}
    task_id, _ = await define(database, service, producer, asked)
    found = {row["type"]: row for row in await rows_of(database, DATASETS, task_id)}
    assert {
        kind: (row["storage_token"], row["destination"], row["made_of"]) for kind, row in found.items()
    } == {
        "input": (None, None, None),
        "output": ("dst:ALPHA_DATADISK", None, "mc.evnt"),
        "log": ("DATADISK", "ALPHA", "mc.evnt"),
    }  # fmt: skip
    assert (await task_row(database, task_id))["split_rule"]["destination"] == "BETA"


@pytest.mark.parametrize(
    ("where", "changes", "told"),
    [
        ("jobParameters.1.token", {"token": "dst:NOWHERE"}, "a storage of the grid"),
        ("jobParameters.1.token", {"token": "ddd:NOWHERE"}, "ddd: alone, or with a storage"),
        ("jobParameters.1.token", {"token": "DATATAPE"}, "a kind of storage that the grid has (DATADISK)"),
        ("jobParameters.1.destination", {"destination": "NOWHERE"}, "a storage of the grid"),
    ],
)
async def test_a_token_or_destination_that_names_nothing_of_the_grid_is_refused(
    service: Service, producer: httpx.AsyncClient, where: str, changes: dict[str, Any], told: str
) -> None:
    asked = production()
    asked["jobParameters"][1] |= changes
    body = (await producer.post("/api/v1/task/submit", json={"task_parameters": asked})).json()
    assert [one["field"] for one in body["problems"]] == [where]
    assert told in body["message"]


async def test_outputs_in_containers_of_analysis_are_templates_that_nothing_is_written_to(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    asked = analysis()
    asked["jobParameters"][-1] |= {"dataset": "user.alice.hist/", "container": "user.alice.hist/"}
    task_id, _ = await define(database, service, user, asked)
    found = {row["type"]: row for row in await rows_of(database, DATASETS, task_id)}
    template = found["tmpl_output"]
    assert (template["dataset_name"], template["container_name"]) == (f"user.alice.hist.{task_id}", "user.alice.hist")
    assert await rows_of(database, "SELECT FROM catalogue.datasets WHERE name LIKE 'user.alice.hist.%'") == []
    kind = "SELECT out_type FROM output_templates WHERE dataset_id = $1"
    assert await value_of(database, kind, template["dataset_id"]) == "tmpl_output"
    assert "log" in found  # without a container: one dataset for all sites


async def test_the_dataset_of_a_site_comes_into_its_container_with_its_first_file(
    database: Database, service: Service
) -> None:
    async with database.read() as connection:
        task_id = await task(connection, task_type="anal", prod_source_label="user")
        for job_id, site in ((1, "ALPHA"), (2, "BETA"), (3, "BETA")):
            await job(connection, task_id, job_id=job_id, status="holding", queue=f"Q_{site}")
            dataset_id = await connection.fetchval(
                "SELECT dataset_id FROM task_datasets WHERE site = $1", site
            ) or await dataset(
                connection, task_id, type="output", status="running", site=site, dataset_name=f"user.hist.{site}",
                container_name="user.hist", scope="user",
            )  # fmt: skip
            file_id = await file(
                connection,
                task_id,
                dataset_id,
                lfn=f"hist.{job_id}",
                type="output",
                status="running",
                out_job_id=job_id,
            )
            values = {"job_id": job_id, "file_id": file_id, "dataset_id": dataset_id, "task_id": task_id}
            await insert(connection, "job_files", {**values, "type": "output"})
            report = {"job_status": "finished", "outputs": {f"hist.{job_id}": {"fsize": 5}}}
            values = {"job_id": job_id, "attempt_number": 1, "state": "finished", "report": report}
            await insert(connection, "job_reports", values)
    for job_ids in ((1, 2), (3,)):
        await deliver(database, service, OutputsProduced(job_ids=job_ids))
    held = await rows_of(
        database,
        "SELECT d.name, d.n_files FROM catalogue.containers c JOIN catalogue.datasets d USING (dataset_id)"
        " JOIN catalogue.datasets k ON k.dataset_id = c.container_id WHERE k.name = 'user.hist' ORDER BY d.name",
    )
    assert [tuple(row) for row in held] == [("user.hist.ALPHA", 1), ("user.hist.BETA", 2)]


async def at_its_end(
    database: Database, service: Service, client: httpx.AsyncClient, name: str, lfns: tuple[str, ...] = ("a", "b")
) -> int:
    """A prepared task with all its input processed, whose finished outputs nobody registered."""
    task_id, _ = await define(database, service, client, production(name))
    await end_files(database, task_id, finished=20)
    await put(database, task_id, "prepared")
    async with database.read() as connection:
        await job(connection, task_id, job_id=task_id, status="finished", queue="Q_GAMMA")
        for kind in ("output", "log"):
            dataset_id = await connection.fetchval(
                "SELECT dataset_id FROM task_datasets WHERE task_id = $1 AND type = $2", task_id, kind
            )
            for lfn in lfns:
                await file(
                    connection, task_id, dataset_id, lfn=f"{lfn}.{kind}", type=kind, status="finished",
                    out_job_id=task_id, fsize=7, checksum="ad:00000001",
                )  # fmt: skip
    return task_id


IN_CATALOGUE = (
    "SELECT f.lfn, f.size_bytes, f.checksum, r.storage"
    " FROM catalogue.datasets d JOIN catalogue.files f USING (dataset_id)"
    " LEFT JOIN catalogue.dataset_replicas r ON r.dataset_id = d.dataset_id"
    " WHERE d.name = $1 ORDER BY f.lfn"
)


async def test_finished_outputs_that_the_catalogue_misses_are_registered_again_before_the_task_is_done(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await at_its_end(database, service, producer, "again")
    await deliver(database, service, TaskPrepared(task_id=task_id))
    row = await task_row(database, task_id)
    assert (row["status"], row["error_dialog"]) == ("done", None)
    for kind, name in (("output", "mc.again"), ("log", "mc.again.log")):
        found = [tuple(one) for one in await rows_of(database, IN_CATALOGUE, name)]
        assert found == [(f"{lfn}.{kind}", 7, "ad:00000001", "GAMMA_DATADISK") for lfn in ("a", "b")]


async def test_what_cannot_be_mended_is_said_with_the_final_status(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await at_its_end(database, service, producer, "differs", ("a", "b", "c"))
    async with database.begin(reason="the catalogue lies") as work:
        await BuiltInCatalogue().add_files(
            work.connection,
            [
                NewFile("mc.differs", "a.output", 8, "GAMMA_DATADISK", None, "ad:00000001"),
                NewFile("mc.differs", "strange", 1, "GAMMA_DATADISK"),
            ],
        )
        await change(work.connection, "UPDATE task_files SET fsize = NULL WHERE lfn = 'c.output'")
    await deliver(database, service, TaskPrepared(task_id=task_id))
    row = await task_row(database, task_id)
    assert row["status"] == "done"
    assert row["error_dialog"] == (
        "1 of its outputs are not in the catalogue (c.output); "
        "1 of its outputs have another size or checksum in the catalogue (a.output); "
        "1 files in its datasets were written by no task (strange)"
    )


async def test_logs_that_no_storage_has_are_taken_out_of_their_dataset(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await at_its_end(database, service, producer, "logs")
    files = [NewFile("mc.logs.log", f"{one}.log", 7, "GAMMA_DATADISK", None, "ad:00000001") for one in ("a", "b")]
    async with database.begin(reason="its transfer failed, and the source is gone") as work:
        await BuiltInCatalogue().add_files(work.connection, files)
        await work.connection.execute(
            "DELETE FROM catalogue.file_replicas r USING catalogue.files f"
            " WHERE f.file_id = r.file_id AND f.lfn = 'b.log'"
        )
    await deliver(database, service, TaskPrepared(task_id=task_id))
    assert [one["lfn"] for one in await rows_of(database, IN_CATALOGUE, "mc.logs.log")] == ["a.log"]
    assert (await task_row(database, task_id))["error_dialog"] == (
        "1 logs without any copy were taken out of their datasets"
    )
