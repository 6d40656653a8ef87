"""Files of a dataset whose names differ in their last number only are attempts of one file: the newest is input."""

from __future__ import annotations

import random
import re
from typing import Any

import httpx
import pytest

from services.task_definition.data.importing.files import import_catalogue
from services.task_definition.tasks.store.older_files import know_older_files
from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.reading import change, in_small_slices, look, read_all, registered, statuses
from tests.handlers.task_definition.steps import submit, task_row
from tests.handlers.task_definition.world import an_input, production

TOLD = "{} files of mc.attempts are not used: it has newer attempts of them (usedup takes all)"


async def import_files(database: Database, names: list[str], state: str = "frozen") -> None:
    files = [{"lfn": name, "size_bytes": 10, "n_events": 100} for name in names]
    dataset = {"scope": "mc", "name": "mc.attempts", "state": state, "files": files}
    async with database.begin(reason="test") as work:
        await import_catalogue(work.connection, {"format": "orrery-catalogue/1", "datasets": [dataset]})


async def read(database: Database, producer: httpx.AsyncClient, **item: Any) -> int:
    given = {name: item.pop(name) for name in ("runUntilClosed", "nFiles") if name in item}
    definition = in_small_slices()
    task = production("attempts", [an_input("mc.attempts", **item)], nucleus="ALPHA", **given)
    task_id = await submit(producer, task)
    await registered(database, definition, task_id)
    await read_all(database, definition)
    return task_id


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["A.root.1", "A.root.2", "B.root.1"], {"A.root.2", "B.root.1"}),
        (["A.root", "A.root.1", "A.root.10", "A.root.9"], {"A.root.10"}),
        (["A.root.1", "AA.root.2", "A_root.3", "A.root.1.x"], {"A.root.1", "AA.root.2", "A_root.3", "A.root.1.x"}),
        (["A.root.02", "A.root.1"], {"A.root.02"}),
        (["A.root.1", "B.root.1", "C.root.1", "B.root", "B.root.2", "C"], {"A.root.1", "B.root.2", "C.root.1", "C"}),
        (["A", "A.1", "B", "12", "12.1", "12.2", "7"], {"A.1", "B", "12.2", "7"}),
        (["A.1", "A.1.1", "A.1.2", "A.2"], {"A.1.2", "A.2"}),
        (["A.1", "A.1.1"], {"A.1", "A.1.1"}),
        (["A.root.1", "A.root.1.3"], {"A.root.1", "A.root.1.3"}),
        ([f"A.root.{number}" for number in range(1, 30)], {"A.root.29"}),
    ],
)
async def test_of_files_that_differ_in_their_attempt_only_the_newest_is_input(
    database: Database, producer: httpx.AsyncClient, names: list[str], taken: set[str]
) -> None:
    await import_files(database, names)
    task_id = await read(database, producer)
    assert await statuses(database, task_id) == dict.fromkeys(taken, "ready")
    n_older = len(names) - len(taken)
    assert (await task_row(database, task_id))["error_dialog"] == (TOLD.format(n_older) if n_older else None)


@pytest.mark.parametrize("item", [{"usedup": True}, {"attributes": "ud"}, {"attributes": "usedup"}])
async def test_usedup_takes_all_attempts(database: Database, producer: httpx.AsyncClient, item: dict[str, Any]) -> None:
    await import_files(database, ["A.root.1", "A.root.2", "A.root.2.5"])
    task_id = await read(database, producer, **item)
    assert set(await statuses(database, task_id)) == {"A.root.1", "A.root.2", "A.root.2.5"}
    assert (await task_row(database, task_id))["error_dialog"] is None


async def test_a_limit_of_files_counts_no_older_attempts(database: Database, producer: httpx.AsyncClient) -> None:
    await import_files(database, [f"{name}.root.{attempt}" for name in "ABCD" for attempt in (1, 2)])
    task_id = await read(database, producer, nFiles=2)
    assert set(await statuses(database, task_id)) == {"A.root.2", "B.root.2"}


async def test_an_older_attempt_that_was_named_is_waited_for_with_the_reason(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await import_files(database, ["A.root.1", "A.root.2", "B.root.1"])
    task_id = await read(database, producer, files=["A.root.1", "B.root.1"])
    row = await task_row(database, task_id)
    told = "files that were named are not in mc.attempts, or it has newer attempts of them: A.root.1"
    assert (row["status"], row["error_dialog"]) == ("pending", told)


async def test_a_unit_is_lost_when_a_newer_attempt_of_its_file_comes_unless_a_job_has_it(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await import_files(database, ["A.root.1", "B.root.1", "C.root.1"], state="open")
    task_id = await read(database, producer, runUntilClosed=True)
    await change(database, "UPDATE task_files SET status = 'running' WHERE lfn = 'B.root.1'")
    await import_files(database, ["A.root.2", "B.root.2"], state="open")
    await look(database)
    assert await statuses(database, task_id) == {
        "A.root.1": "lost", "A.root.2": "ready", "B.root.1": "running", "B.root.2": "ready", "C.root.1": "ready",
    }  # fmt: skip


async def test_explain_says_of_which_dataset_older_attempts_were_left_out(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await import_files(database, ["A.root.1", "A.root.2", "B.root.1", "B.root.2"])
    task_id = await read(database, producer)
    data = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    assert TOLD.format(2) in data["text"]


async def test_usedup_is_of_input_alone(service: Service, producer: httpx.AsyncClient) -> None:
    task = production("attempts")
    task["jobParameters"][-1]["usedup"] = True
    with pytest.raises(AssertionError, match="attribute usedup: allowed: with param_type input only"):
        await submit(producer, task)


def newest(names: list[str]) -> set[str]:
    """The rule as its sentence says it: the name without its last number, and the largest of those numbers."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        base, number = re.fullmatch(r"(.+?)(?:\.([0-9]+))?", name).groups()  # type: ignore[union-attr]
        found.setdefault(base, []).append((-1 if number is None else int(number), name))
    return {max(attempts)[1] for attempts in found.values()}


async def test_whatever_files_are_called_the_newest_attempt_of_each_is_left(database: Database) -> None:
    pick = random.Random(1)
    parts = ("A", "B", "root", "1", "2", "3", "10")
    for number in range(150):
        names = sorted({".".join(pick.choices(parts, k=pick.randint(1, 3))) for _ in range(pick.randint(1, 12))})
        async with database.begin(reason="test") as work:
            files = [{"lfn": name, "size_bytes": 1} for name in names]
            dataset = {"scope": "mc", "name": f"mc.{number}", "state": "open", "files": files}
            await import_catalogue(work.connection, {"format": "orrery-catalogue/1", "datasets": [dataset]})
            fetch = work.connection.fetch
            (found,) = await fetch("SELECT dataset_id FROM catalogue.datasets WHERE name = $1", f"mc.{number}")
            assert await know_older_files(work.connection, found["dataset_id"], at_most=None)
            left = await fetch(
                "SELECT lfn FROM catalogue.files f WHERE dataset_id = $1"
                " AND NOT EXISTS (SELECT FROM catalogue.older_files o WHERE o.file_id = f.file_id)",
                found["dataset_id"],
            )
        assert {row["lfn"] for row in left} == newest(names), names
