from __future__ import annotations

import asyncio

import pytest

from services.task_definition.importing.files import import_catalogue
from services.task_definition.importing.import_file import InvalidCatalogue, parse_catalogue
from shared.catalogue import BuiltInCatalogue, FeedRequest, NewFile
from shared.db import Database
from tests.handlers.task_definition.steps import rows_of, value_of
from tests.handlers.task_definition.world import import_world, small_catalogue
from tests.rows import dataset, task

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


async def test_feeding_again_adds_only_what_is_new(database: Database) -> None:
    await import_world(database)
    async with database.begin(reason="test") as work:
        connection = work.connection
        task_id = await task(connection)
        dataset_id = await dataset(connection, task_id)
        request = FeedRequest(task_id, dataset_id, "mc.evnt", "input", 3, max_files=5)
        first = await CATALOGUE.feed(connection, request)
        again = await CATALOGUE.feed(connection, request)
    assert (first.n_units, first.n_files, first.n_events) == (5, 5, 5000)
    assert again.n_units == 5
    lfns = await rows_of(database, "SELECT DISTINCT lfn FROM task_files")
    assert len(lfns) == 10


async def test_files_used_by_another_task_can_be_left_out(database: Database) -> None:
    await import_world(database)
    async with database.begin(reason="test") as work:
        connection = work.connection
        first, second = await task(connection), await task(connection)
        used, fresh = await dataset(connection, first), await dataset(connection, second)
        await CATALOGUE.feed(connection, FeedRequest(first, used, "mc.evnt", "input", 3, max_files=4))
        await connection.execute(
            "UPDATE task_files SET status = 'finished' WHERE file_id IN (SELECT min(file_id) FROM task_files)"
        )
        request = FeedRequest(second, fresh, "mc.evnt", "input", 3, skip_files_used_by=(first,))
        assert (await CATALOGUE.feed(connection, request)).n_units == 19


async def test_a_large_dataset_is_copied_by_one_statement(database: Database) -> None:
    async with database.begin(reason="test") as work:
        connection = work.connection
        await connection.execute(
            "WITH d AS (INSERT INTO catalogue.datasets (scope, name, kind, state, n_files)"
            " VALUES ('mc', 'large', 'dataset', 'frozen', 20000) RETURNING dataset_id)"
            " INSERT INTO catalogue.files (dataset_id, scope, lfn, size_bytes, n_events)"
            " SELECT dataset_id, 'mc', 'f.' || n, 1, 100 FROM d, generate_series(1, 20000) n"
        )
        task_id = await task(connection)
        dataset_id = await dataset(connection, task_id)
        request = FeedRequest(task_id, dataset_id, "large", "input", 3, events_per_unit=50)
        result = await CATALOGUE.feed(connection, request)
        assert (result.n_units, result.n_files, result.n_events) == (40_000, 20_000, 2_000_000)
        last = await connection.fetchval("SELECT max(first_event) FROM task_files")
    assert last == 1_999_951


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
