from __future__ import annotations

import asyncio

import asyncpg
import pytest

from services.task_definition.data.importing.files import import_catalogue
from services.task_definition.data.importing.import_file import InvalidCatalogue, parse_catalogue
from shared.catalogue import BuiltInCatalogue, NewFile
from shared.db import Database
from tests.handlers.task_definition.steps import value_of
from tests.handlers.task_definition.world import import_world, small_catalogue

CATALOGUE = BuiltInCatalogue()


def new(lfn: str, storage: str = "S1", name: str = "out") -> NewFile:
    return NewFile(name, lfn, 100, storage, 10, "ad:00000001", "guid")


async def make(database: Database, *names: str) -> None:
    async with database.begin(reason="test") as work:
        for name in names:
            await CATALOGUE.create(work.connection, name, scope="mc", container="box")


async def replicas_of(database: Database, name: str) -> list[tuple]:
    async with database.read() as connection:
        found = (await CATALOGUE.replicas(connection, [name])).get(name, ())
    return [(one.storage, one.n_files, one.size_bytes, one.complete) for one in found]


async def test_a_new_dataset_is_open_empty_and_in_its_container(database: Database) -> None:
    await make(database, "out", "out2")
    await make(database, "out")
    async with database.read() as connection:
        found = await CATALOGUE.find(connection, ["box"])
    assert found["box"].constituents == ("out", "out2")
    assert (found["out"].kind, found["out"].state, found["out"].n_files) == ("dataset", "open", 0)


async def test_adding_the_same_files_again_changes_nothing(database: Database) -> None:
    await make(database, "out")
    for expected in (2, 0):
        async with database.begin(reason="test") as work:
            assert await CATALOGUE.add_files(work.connection, [new("a"), new("b")]) == expected
    assert await replicas_of(database, "out") == [("S1", 2, 200, False)]
    assert await value_of(database, "SELECT n_events FROM catalogue.datasets WHERE name = 'out'") == 20


async def test_a_frozen_dataset_takes_no_files_and_complete_copies_need_no_rows(database: Database) -> None:
    await make(database, "out")
    async with database.begin(reason="test") as work:
        await CATALOGUE.add_files(work.connection, [new("a"), new("b")])
        await CATALOGUE.add_replicas(work.connection, [("out", "a", "S2"), ("out", "a", "S2")])
        await CATALOGUE.freeze(work.connection, ["out"])
        assert await CATALOGUE.add_files(work.connection, [new("c")]) == 0
    assert await replicas_of(database, "out") == [("S1", 2, 200, True), ("S2", 1, 100, False)]
    assert await value_of(database, "SELECT count(*) FROM catalogue.file_replicas WHERE storage = 'S1'") == 0


async def test_a_file_that_is_taken_out_leaves_with_its_copies_and_counts(database: Database) -> None:
    await make(database, "out")
    async with database.begin(reason="test") as work:
        await CATALOGUE.add_files(work.connection, [new("a"), new("b")])
        await CATALOGUE.add_replicas(work.connection, [("out", "a", "S2"), ("out", "b", "S2")])
        assert await CATALOGUE.remove_files(work.connection, [("out", "a"), ("out", "unknown")]) == 1
        assert await CATALOGUE.remove_files(work.connection, [("out", "a")]) == 0
        await CATALOGUE.freeze(work.connection, ["out"])
        assert await CATALOGUE.remove_files(work.connection, [("out", "b")]) == 0
    assert await replicas_of(database, "out") == [("S1", 1, 100, True), ("S2", 1, 100, True)]
    assert await value_of(database, "SELECT n_events FROM catalogue.datasets WHERE name = 'out'") == 10


async def test_a_reopened_dataset_keeps_its_copies_and_takes_files_again(database: Database) -> None:
    await make(database, "out")
    async with database.begin(reason="test") as work:
        await CATALOGUE.add_files(work.connection, [new("a"), new("b")])
        await CATALOGUE.freeze(work.connection, ["out"])
        await CATALOGUE.reopen(work.connection, ["out"])
        await CATALOGUE.add_files(work.connection, [new("c", "S2")])
    assert await replicas_of(database, "out") == [("S1", 2, 200, False), ("S2", 1, 100, False)]
    async with database.begin(reason="test") as work:
        await CATALOGUE.add_replicas(work.connection, [("out", "a", "S2"), ("out", "b", "S2")])
        await CATALOGUE.freeze(work.connection, ["out"])
    assert await replicas_of(database, "out") == [("S1", 2, 200, False), ("S2", 3, 300, True)]


async def test_many_at_once_add_to_the_same_datasets_without_losing_a_count(database: Database) -> None:
    await make(database, "out", "log")

    async def add(number: int) -> None:
        async with database.begin(reason="test") as work:
            names = ("out", "log") if number % 2 else ("log", "out")
            await CATALOGUE.add_files(work.connection, [new(f"{name}.{number}", name=name) for name in names])

    await asyncio.gather(*(add(number) for number in range(20)))
    assert await replicas_of(database, "out") == [("S1", 20, 2000, False)]
    assert await replicas_of(database, "log") == [("S1", 20, 2000, False)]


async def test_importing_again_changes_nothing_but_another_content_is_refused(database: Database) -> None:
    await import_world(database)
    await import_world(database)
    assert await value_of(database, "SELECT n_files FROM catalogue.datasets WHERE name = 'mc.evnt'") == 20
    changed = small_catalogue()
    changed["datasets"][0]["file_series"][0]["count"] = 21
    with pytest.raises(InvalidCatalogue, match="frozen with 20 files, not 21"):
        async with database.begin(reason="test") as work:
            await import_catalogue(work.connection, changed)


def test_series_are_the_same_on_every_machine_and_spread_their_sizes() -> None:
    content = {
        "format": "orrery-catalogue/1",
        "datasets": [
            {
                "scope": "mc",
                "name": "d",
                "file_series": [{"lfn": "f{serial:03d}", "count": 101, "size_bytes": 1000, "size_spread_percent": 10}],
            }
        ],
    }
    first, again = (parse_catalogue(content, storages=None, known_datasets=()) for _ in range(2))
    assert first == again
    sizes = [file.size_bytes for file in first.datasets[0].files]
    assert (min(sizes), max(sizes), round(sum(sizes) / 101)) == (900, 1100, 1000)


@pytest.mark.parametrize(
    "content", [None, [], {}, {"format": "other"}, {"format": "orrery-catalogue/1", "datasets": 3}]
)
def test_what_is_no_catalogue_is_refused(content: object) -> None:
    with pytest.raises(InvalidCatalogue):
        parse_catalogue(content, storages=None, known_datasets=())


@pytest.mark.parametrize(
    ("lie", "refusal"),
    [
        ("INSERT INTO catalogue.files (dataset_id, scope, lfn, size_bytes) SELECT dataset_id, scope, lfn, size_bytes"
         " FROM catalogue.files WHERE lfn = 'B._1.root'", "files_dataset_id_lfn_key"),
        ("UPDATE catalogue.files SET size_bytes = -1 WHERE lfn = 'B._1.root'", "files_size_bytes_check"),
        ("UPDATE catalogue.files SET n_events = -1 WHERE lfn = 'B._1.root'", "files_n_events_check"),
        ("INSERT INTO catalogue.containers (container_id, dataset_id, position) SELECT dataset_id, dataset_id, 2"
         " FROM catalogue.datasets WHERE name = 'data.all'", "containers_hold_others"),
        ("INSERT INTO catalogue.file_replicas (file_id, storage) VALUES (999999999, 'ALPHA_DATADISK')",
         "file_replicas_file_id_fkey"),
        ("INSERT INTO catalogue.dataset_replicas VALUES (999999999, 'ALPHA_DATADISK', 1, 1, true)",
         "dataset_replicas_dataset_id_fkey"),
    ],
    ids=["a file twice", "a negative size", "negative events", "a container in itself", "a copy of no file",
         "a copy of no dataset"],
)  # fmt: skip
async def test_the_built_in_catalogue_cannot_be_made_to_lie(database: Database, lie: str, refusal: str) -> None:
    await import_world(database)
    async with database.read() as connection:
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match=refusal):
            await connection.execute(lie)


def test_an_import_that_lies_is_refused_with_every_lie() -> None:
    content = small_catalogue()
    content["containers"][0]["datasets"].append("data.all")
    first, *_ = content["datasets"]
    first["files"] = [{"lfn": "EVNT._000001.root", "size_bytes": -1}]
    first["replicas"] = [{"storage": "ATLANTIS"}, {"storage": "S1", "files": ["nothing.root"]}]
    with pytest.raises(InvalidCatalogue) as error:
        parse_catalogue(content, storages={"S1"}, known_datasets=())
    told = "; ".join(map(str, error.value.problems))
    assert "size_bytes" in told and "-1" in told
    assert "'data.all' is neither in this file nor known" in told
    first["files"] = [{"lfn": "EVNT._000001.root", "size_bytes": 1}]
    with pytest.raises(InvalidCatalogue) as error:
        parse_catalogue(content, storages={"S1"}, known_datasets=())
    told = "; ".join(map(str, error.value.problems))
    assert "a file name is listed twice" in told
    assert "'ATLANTIS' is not a storage of the grid" in told and "'nothing.root' is not a file of the dataset" in told


async def test_a_name_with_wildcards_and_the_latest_database_release_stand_for_datasets(database: Database) -> None:
    releases = [f"ddo.000001.Atlas.Ideal.DBRelease.v{n}" for n in ("050101", "310101", "220101")]
    await make(database, "mc_1.a.ds", "mc_1.b.ds", "mcx1.c.ds", *releases)
    async with database.read() as connection:
        found = await CATALOGUE.find(connection, ["mc_1.*", "DBR_LATEST", "nothing.*"])
    assert found["mc_1.*"].kind == "container" and found["mc_1.*"].constituents == ("mc_1.a.ds", "mc_1.b.ds")
    assert found["DBR_LATEST"].constituents == (releases[1],)
    assert set(found) == {"mc_1.*", "mc_1.a.ds", "mc_1.b.ds", "DBR_LATEST", releases[1]}
