"""What a task file says of a live task: columns that are not as submitted, and what a used chunk held."""

from __future__ import annotations

from services.job_brokerage.task_files import changed_columns, part_of_inputs
from shared.model.task_file import InputPart, ReplicaPart
from shared.model.task_spec import parse_task
from tests.handlers.task_definition.world import production


def a_row(**changes: object) -> dict:
    parameters = production()
    return parse_task(parameters).columns() | {"task_parameters": parameters, "merge_ram_unit": None} | changes


def test_a_task_that_is_as_submitted_has_no_changed_columns() -> None:
    assert changed_columns(a_row(event_service=0)) == {}


def test_columns_that_scouts_measured_or_a_command_cleared_are_told() -> None:
    row = a_row(event_service=0, ram_count=1700, site="CERN", core_count=None)
    assert changed_columns(row) == {"ram_count": 1700, "site": "CERN", "core_count": None}


def test_every_column_is_told_where_the_parameters_are_valid_no_more() -> None:
    row = a_row(event_service=0, task_parameters={"taskName": 5})
    assert changed_columns(row)["ram_count"] == 1000


def test_a_used_chunk_held_as_large_a_part_of_each_dataset_and_copy_rounded_down() -> None:
    master = InputPart(
        dataset="a", files=1200, bytes=6000, events=9,
        replicas=[ReplicaPart(storage="X", files=1200, bytes=6000), ReplicaPart(storage="Y", files=400, bytes=2000)],
    )  # fmt: skip
    other = InputPart(dataset="b", master=False, files=60, bytes=600)
    pseudo = InputPart(dataset="p", master=False, pseudo=True, files=5, bytes=0)
    first, second = part_of_inputs([master, other, pseudo], 20, 101)
    assert (first.files, first.bytes) == (20, 101)
    assert [(one.files, one.bytes) for one in first.replicas] == [(20, 101), (6, 33)]
    assert (second.files, second.bytes) == (1, 10)


def test_a_chunk_of_all_the_input_and_one_of_input_without_bytes_are_whole() -> None:
    part = InputPart(dataset="a", files=4, bytes=0)
    assert part_of_inputs([part], 9, 0)[0].files == 4
