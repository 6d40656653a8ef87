"""Input that is indexConsistent: files count whose index, second and third field of their names, all of it has."""

from __future__ import annotations

import httpx

from services.task_definition.data.importing.files import import_catalogue
from shared.db import Database
from tests.handlers.task_definition.reading import change, in_small_slices, look, read_all, registered, statuses
from tests.handlers.task_definition.steps import rows_of, submit, task_row
from tests.handlers.task_definition.world import an_input, production

TOLD = "{} files of mc.{} are not used: their index is not in all input that is indexConsistent (second and third "
TOLD += "field of the name)"


async def import_files(database: Database, state: str = "frozen", **datasets: list[str]) -> None:
    found = [
        {
            "scope": "mc",
            "name": f"mc.{name}",
            "state": state,
            "files": [{"lfn": lfn, "size_bytes": 10, "n_events": 100} for lfn in files],
        }
        for name, files in datasets.items()
    ]
    async with database.begin(reason="test") as work:
        await import_catalogue(work.connection, {"format": "orrery-catalogue/1", "datasets": found})


def files(kind: str, *indexes: int) -> list[str]:
    return [f"{kind}.77._{index:04d}.root.1" for index in indexes]


async def read(database: Database, producer: httpx.AsyncClient, *marked: str, **given: bool) -> int:
    definition = in_small_slices()
    items = [
        an_input("mc.hits", "IN", **({"indexConsistent": True} if "hits" in marked else {})),
        an_input("mc.pile", "PILE", **({"attributes": "ic"} if "pile" in marked else {})),
    ]
    task_id = await submit(producer, production("_".join(("index", *marked)), items, nucleus="ALPHA", **given))
    await registered(database, definition, task_id)
    await read_all(database, definition)
    return task_id


async def counted(database: Database, task_id: int) -> dict[str, tuple[int, int, int]]:
    rows = await rows_of(
        database,
        "SELECT dataset_name, n_files, n_files_to_be_used, n_events FROM task_datasets"
        " WHERE task_id = $1 AND type = 'input'",
        task_id,
    )
    return {row["dataset_name"]: (row["n_files"], row["n_files_to_be_used"], row["n_events"]) for row in rows}


async def test_files_whose_index_not_all_marked_datasets_have_are_no_input_and_the_task_says_so(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await import_files(database, hits=files("HITS", 1, 2, 3, 5), pile=files("RDO", 1, 3, 4, 5))
    task_id = await read(database, producer, "hits", "pile")
    expected = dict.fromkeys([*files("HITS", 1, 3, 5), *files("RDO", 1, 3, 5)], "ready")
    assert await statuses(database, task_id) == expected
    assert {name: one[0] for name, one in (await counted(database, task_id)).items()} == {"mc.hits": 3, "mc.pile": 3}
    assert {one[2] for one in (await counted(database, task_id)).values()} == {300}
    row = await task_row(database, task_id)
    assert (row["status"], row["error_dialog"]) == ("ready", f"{TOLD.format(1, 'hits')}; {TOLD.format(1, 'pile')}")
    data = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    assert TOLD.format(1, "hits") in data["text"] and TOLD.format(1, "pile") in data["text"]


async def test_input_that_is_not_marked_is_used_whole(database: Database, producer: httpx.AsyncClient) -> None:
    await import_files(database, hits=files("HITS", 1, 2), pile=files("RDO", 2, 3))
    for marked in ((), ("hits",), ("pile",)):
        task_id = await read(database, producer, *marked)
        assert len(await statuses(database, task_id)) == 4, marked
        assert (await task_row(database, task_id))["error_dialog"] is None


async def test_files_whose_names_have_no_third_field_have_no_index_and_stay(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await import_files(database, hits=[*files("HITS", 1, 2), "HITS.root"], pile=[*files("RDO", 1), "minbias", "a.b"])
    task_id = await read(database, producer, "hits", "pile")
    assert set(await statuses(database, task_id)) == {
        *files("HITS", 1), "HITS.root", *files("RDO", 1), "minbias", "a.b",
    }  # fmt: skip


async def test_a_task_whose_datasets_have_no_index_in_common_is_broken_with_the_reason(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await import_files(database, hits=files("HITS", 1, 2), pile=files("RDO", 3))
    task_id = await read(database, producer, "hits", "pile")
    row = await task_row(database, task_id)
    told = f"no file of mc.hits can be used; {TOLD.format(2, 'hits')}"
    assert (row["status"], row["error_dialog"]) == ("broken", told)


async def test_a_file_is_used_when_its_partner_comes_and_lost_when_it_goes_unless_a_job_has_it(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await import_files(database, "open", hits=files("HITS", 1, 2, 3, 4), pile=files("RDO", 1, 2, 3))
    task_id = await read(database, producer, "hits", "pile", runUntilClosed=True)
    first, second, third = files("HITS", 1, 2, 3)
    await change(database, "UPDATE task_files SET status = 'running', attempt_nr = 1 WHERE lfn = $1", first)
    await change(database, "UPDATE task_files SET attempt_nr = 1 WHERE lfn = $1", second)
    await change(database, "DELETE FROM catalogue.file_replicas")
    for gone in files("RDO", 1, 2, 3):
        await change(database, "DELETE FROM catalogue.files WHERE lfn = $1", gone)
    await import_files(database, "open", pile=files("RDO", 4))
    await look(database)
    assert await statuses(database, task_id) == {
        first: "running", second: "lost", files("HITS", 4)[0]: "ready",
        **dict.fromkeys(files("RDO", 1, 2, 3), "lost"), files("RDO", 4)[0]: "ready",
    }  # fmt: skip
    await import_files(database, "open", pile=files("RDO", 2, 3))
    await look(database)
    found = await statuses(database, task_id)
    assert found[second] == found[third] == found[files("RDO", 2)[0]] == "ready"
    log = await rows_of(database, "SELECT reason FROM transition_log WHERE entity = 'file' AND to_status = 'lost'")
    assert "not all input that is indexConsistent has the index of these files of mc.hits" in {
        row["reason"] for row in log
    }
    wrong = await rows_of(
        database,
        "SELECT d.dataset_name FROM task_datasets d WHERE d.task_id = $1 AND d.type = 'input'"
        " AND d.n_files <> (SELECT count(*) FROM task_files f WHERE f.dataset_id = d.dataset_id)",
        task_id,
    )
    assert not wrong
