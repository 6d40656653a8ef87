"""Outputs by expression (`regex|EXPR`): each file that a payload wrote is registered, under a name of one job."""

from __future__ import annotations

from typing import Any

import pytest

from shared.catalogue import BuiltInCatalogue, NewFile
from shared.db import Database
from shared.events import OutputsProduced, OutputsRegistered
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import rows_of
from tests.rows import dataset, file, insert, job, task

EXPRESSION = r"regex|a.*\.root"
CATALOGUE = (
    "SELECT d.name, f.lfn, f.size_bytes, f.checksum FROM catalogue.files f JOIN catalogue.datasets d USING (dataset_id)"
    " WHERE d.name IN ('user.ada.X', 'user.ada.log') ORDER BY d.name, f.lfn"
)
ROWS = "SELECT f.out_job_id, f.lfn, f.status, f.fsize, f.guid FROM task_files f WHERE f.type = $1 ORDER BY f.file_id"


async def holding(database: Database, wrote: dict[int, dict[str, int]], *, expression: str = EXPRESSION) -> int:
    """Holding jobs of one task, each with an output by expression and a log, and what their pilots say they wrote."""
    async with database.read() as connection:
        task_id = await task(connection, task_id=700, vo="demo")
        of = {}
        for kind, name in (("output", "user.ada.X"), ("log", "user.ada.log")):
            of[kind] = await dataset(
                connection, task_id, type=kind, dataset_name=name, status="running", n_files=len(wrote)
            )
            await BuiltInCatalogue().create(connection, name, scope="user.ada")
        await connection.execute("UPDATE catalogue.datasets SET vo = 'demo' WHERE name LIKE 'user.ada.%'")
        for job_id, sizes in wrote.items():
            await job(connection, task_id, job_id=job_id, status="holding", queue="Q_GAMMA")
            for kind, lfn in (("output", f"{expression}|{job_id:06d}"), ("log", f"log.{job_id}")):
                await file(connection, task_id, of[kind], lfn=lfn, type=kind, status="running", out_job_id=job_id)
            listed = {
                lfn: {"guid": f"g.{lfn}", "fsize": size, "adler32": f"{size:08x}"}
                for lfn, size in (sizes | {f"log.{job_id}": 10}).items()
            }
            report = {"job_status": "finished", "outputs": listed}
            row = {"job_id": job_id, "attempt_number": 1, "state": "finished", "report": report}
            await insert(connection, "job_reports", row)
    return task_id


async def test_each_file_of_two_jobs_is_in_the_dataset_of_the_expression_and_a_repeated_event_adds_none(
    database: Database, service: Service
) -> None:
    await holding(database, {1: {"a3.root": 30, "a1.root": 10, "a2.root": 20, "b.root": 5}, 2: {"xa9.root": 90}})
    for _ in range(2):
        told = await deliver(database, service, OutputsProduced(job_ids=(1, 2)))
        assert told == (OutputsRegistered(job_ids=(1, 2)),)
    assert [tuple(one) for one in await rows_of(database, CATALOGUE)] == [
        ("user.ada.X", "a1.root", 10, "ad:0000000a"), ("user.ada.X", "a2.root", 20, "ad:00000014"),
        ("user.ada.X", "a3.root", 30, "ad:0000001e"), ("user.ada.X", "xa9.root", 90, "ad:0000005a"),
        ("user.ada.log", "log.1", 10, "ad:0000000a"), ("user.ada.log", "log.2", 10, "ad:0000000a"),
    ]  # fmt: skip
    assert [tuple(one) for one in await rows_of(database, ROWS, "output")] == [
        (1, "a1.root", "running", 10, "g.a1.root"), (2, "xa9.root", "running", 90, "g.xa9.root"),
        (1, "a2.root", "defined", 20, "g.a2.root"), (1, "a3.root", "defined", 30, "g.a3.root"),
    ]  # fmt: skip
    counted = await rows_of(database, "SELECT dataset_name, n_files FROM task_datasets ORDER BY dataset_id")
    assert [tuple(one) for one in counted] == [("user.ada.X", 4), ("user.ada.log", 2)]
    kept = await rows_of(database, "SELECT name, n_files FROM catalogue.datasets WHERE name = 'user.ada.X'")
    assert [tuple(one) for one in kept] == [("user.ada.X", 4)]


async def test_a_name_that_another_job_wrote_is_not_registered_again_and_nothing_else_of_the_job(
    database: Database, service: Service
) -> None:
    await holding(database, {1: {"a1.root": 10}, 2: {"a1.root": 11, "a2.root": 12}, 3: {"a3.root": 13}})
    told = await deliver(database, service, OutputsProduced(job_ids=(3, 2, 1)))
    assert told == (
        OutputsRegistered(job_ids=(), names_taken_job_ids=(2,)),
        OutputsRegistered(job_ids=(1, 3)),
    )
    assert [tuple(one)[1:3] for one in await rows_of(database, CATALOGUE)] == [
        ("a1.root", 10), ("a3.root", 13), ("log.1", 10), ("log.3", 10),
    ]  # fmt: skip
    assert [tuple(one)[:3] for one in await rows_of(database, ROWS, "output")] == [
        (1, "a1.root", "running"), (2, rf"{EXPRESSION}|000002", "running"), (3, "a3.root", "running"),
    ]  # fmt: skip


@pytest.mark.parametrize(("known", "is_late"), [("a1.root", True), ("a2.root", True), ("a9.root", False)])
async def test_a_name_that_the_catalogue_has_in_the_dataset_is_taken(
    database: Database, service: Service, known: str, is_late: bool
) -> None:
    await holding(database, {1: {"a1.root": 10, "a2.root": 20}})
    async with database.read() as connection:
        await BuiltInCatalogue().add_files(connection, [NewFile("user.ada.X", known, 7, "ALPHA_DATADISK", None, None)])
    told = await deliver(database, service, OutputsProduced(job_ids=(1,)))
    expected: dict[str, Any] = {"job_ids": (), "names_taken_job_ids": (1,)} if is_late else {"job_ids": (1,)}
    assert told == (OutputsRegistered(**expected),)


async def test_an_expression_of_which_nothing_was_written_keeps_its_row_for_what_becomes_of_the_job(
    database: Database, service: Service
) -> None:
    await holding(database, {1: {}})
    assert await deliver(database, service, OutputsProduced(job_ids=(1,))) == (OutputsRegistered(job_ids=(1,)),)
    assert [tuple(one) for one in await rows_of(database, ROWS, "output")] == [
        (1, rf"{EXPRESSION}|000001", "running", None, None)
    ]
    assert [tuple(one)[1] for one in await rows_of(database, CATALOGUE)] == ["log.1"]


@pytest.mark.parametrize(("status", "is_free"), [("failed", True), ("lost", True), ("finished", False)])
async def test_a_name_of_an_attempt_that_failed_or_of_a_lost_file_is_free_again(
    database: Database, service: Service, status: str, is_free: bool
) -> None:
    await holding(database, {1: {"a1.root": 10}, 2: {"a1.root": 11}})
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    async with database.read() as connection:
        await connection.execute("UPDATE jobs SET status = 'finished' WHERE job_id = 1")
        await connection.execute("UPDATE task_files SET status = $1 WHERE out_job_id = 1 AND type = 'output'", status)
    told = await deliver(database, service, OutputsProduced(job_ids=(2,)))
    late: dict[str, Any] = {"job_ids": (), "names_taken_job_ids": (2,)}
    assert told == (OutputsRegistered(**({"job_ids": (2,)} if is_free else late)),)
    found = [tuple(one)[1:3] for one in await rows_of(database, CATALOGUE)]
    assert found[0] == ("a1.root", 11 if is_free else 10)
    rows = [tuple(one)[:2] for one in await rows_of(database, ROWS, "output")]
    dead, new = ("a1.root|1", "a1.root") if is_free else ("a1.root", rf"{EXPRESSION}|000002")
    assert rows == [(1, dead), (2, new)]


async def test_a_name_that_another_task_wrote_into_the_dataset_is_taken(database: Database, service: Service) -> None:
    await holding(database, {1: {"a1.root": 10}})
    async with database.read() as connection:
        other = await task(connection, task_id=701, vo="demo")
        theirs = await dataset(connection, other, type="output", dataset_name="user.ada.X", status="running")
        await file(connection, other, theirs, lfn="a1.root", type="output", status="running", out_job_id=9)
    told = await deliver(database, service, OutputsProduced(job_ids=(1,)))
    assert told == (OutputsRegistered(job_ids=(), names_taken_job_ids=(1,)),)
