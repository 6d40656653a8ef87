"""Large grids, catalogues and tasks are checked a few records at a time, with the problems of a check of the whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from pydantic import BaseModel

from services.task_definition.data.importing import long_records
from services.task_definition.data.importing.files import named_by_containers
from services.task_definition.data.importing.import_file import FORMAT, InvalidCatalogue, catalogue_in_steps
from services.task_definition.data.importing.long_records import CHECKED_TOGETHER
from shared.model.grid import Grid, forget_grid, grid_in_steps, parse_grid
from shared.model.link import Link, shift_to_now
from shared.model.queue import Queue
from shared.model.steps import Steps, at_once
from tests.handlers.grids import small_grid


def most_between_steps(steps: Steps[Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """Records that pydantic checks between two returns, at most."""
    most = n_checked = 0
    validate = BaseModel.model_validate.__func__  # type: ignore[attr-defined]

    def counted(model: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal n_checked
        n_checked += 1
        return validate(model, *arguments, **named)

    monkeypatch.setattr(BaseModel, "model_validate", classmethod(counted))
    for _ in steps:
        most, n_checked = max(most, n_checked), 0
    return max(most, n_checked)


def catalogue(*files: Any, **others: Any) -> dict[str, Any]:
    return {"format": FORMAT, "datasets": [{"scope": "mc", "name": "d", "files": list(files), **others}]}


def a_file(number: int) -> dict[str, Any]:
    return {"lfn": f"file{number}", "size_bytes": number}


def test_a_grid_is_checked_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    assert most_between_steps(grid_in_steps(small_grid()), monkeypatch) == 1
    assert at_once(grid_in_steps(small_grid())) == parse_grid(small_grid())


def test_files_of_a_catalogue_are_checked_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    adapter = long_records.TypeAdapter.validate_python

    def counted(self: Any, members: Any) -> Any:
        sizes.append(len(members))
        return adapter(self, members)

    monkeypatch.setattr(long_records.TypeAdapter, "validate_python", counted)
    content = catalogue(*map(a_file, range(1000)), replicas=[{"storage": "S", "files": ["file7"] * 300}])
    found = at_once(catalogue_in_steps(content, storages=None, known_datasets=()))
    assert [one.lfn for one in found.datasets[0].files] == [f"file{n}" for n in range(1000)]
    assert found.datasets[0].partly_at == {"S": ["file7"] * 300}
    assert max(sizes) == CHECKED_TOGETHER and sum(sizes) == 1300


def test_a_series_of_files_is_made_a_file_in_a_step() -> None:
    series = {"lfn": "f{serial:06d}", "count": 5000, "size_bytes": 1}
    steps = catalogue_in_steps(catalogue(file_series=[series]), storages=None, known_datasets=())
    assert sum(1 for _ in steps) > 5000


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (catalogue(*map(a_file, range(120)), {"lfn": "x"}), ["files.120.size_bytes"]),
        (catalogue(*[3] * 2), ["files.0", "files.1"]),
        (catalogue(a_file(1), colour="red", state="odd", replicas=[{"storage": "S", "files": ["a"] * 70 + [1]}]),
         ["state", "replicas.0.files.70", "colour"]),
        (catalogue(replicas=[{"files": []}, 7]), ["replicas.0.storage", "replicas.1"]),
        (catalogue(file_series="none"), ["file_series"]),
        ({"format": FORMAT, "containers": [{"scope": "s", "name": "c", "datasets": []}]}, ["datasets"]),
        ({"format": FORMAT, "containers": [{"scope": "s", "name": "c", "datasets": [1]}]}, ["datasets.0"]),
        ({"format": FORMAT, "containers": [{"scope": "s", "name": "c"}, []]}, ["datasets", ""]),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_long_list_is_told_with_its_place(content: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(InvalidCatalogue) as refused:
        at_once(catalogue_in_steps(content, storages=None, known_datasets=()))
    assert [one.field for one in refused.value.problems] == fields


def test_queues_of_a_grid_are_told_their_storages_one_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    most = n_told = 0
    told = Grid._with_storages

    def counted(grid: Grid, queue: Queue) -> Queue:
        nonlocal n_told
        n_told += 1
        return told(grid, queue)

    monkeypatch.setattr(Grid, "_with_storages", counted)
    steps = grid_in_steps(small_grid(), now=datetime(2026, 3, 1, tzinfo=UTC))
    for _ in steps:
        most, n_told = max(most, n_told), 0
    assert max(most, n_told) == 1


def test_links_of_a_grid_are_replaced_and_freed_one_in_a_step() -> None:
    files = small_grid()
    files["network_metrics"] = {f"A{n}:B": {"closeness": {"latest": 4, "timestamp": "2026-01-01"}} for n in range(50)}
    now = datetime(2026, 3, 1, tzinfo=UTC)
    grid = at_once(grid_in_steps(files, now=now))
    assert list(grid.links)[:2] == [("A0", "B"), ("A1", "B")] and len(grid.links) == 50
    assert {link.closeness_at for link in grid.links.values()} == {now}
    links = [Link("A", f"B{n}", closeness_at=now - timedelta(days=n)) for n in range(3)]
    left = [[link.closeness_at for link in links] for _ in shift_to_now(links, now + timedelta(days=1))]
    assert all(sum(one != two for one, two in zip(before, after, strict=True)) <= 1 for before, after in pairwise(left))
    assert links[0].closeness_at == now + timedelta(days=1)
    sizes = [len(grid.links) for _ in forget_grid(grid)]
    assert sizes == list(range(50, 0, -1)) and not grid.links


def test_names_in_containers_of_a_catalogue_are_collected_one_in_a_step() -> None:
    content = {"containers": [{"datasets": ["a", "mc:a", 3, "b"]}, {"datasets": "c"}, 7, {"datasets": ["b", "d"]}]}
    assert at_once(named_by_containers(content)) == ["a", "b", "d"]
    assert sum(1 for _ in named_by_containers(content)) == 4 + 6
