"""What a task file says of a live task: columns that are not as submitted."""

from __future__ import annotations

from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.store.task_files import changed_columns
from tests.handlers.task_definition.world import production


def a_row(**changes: object) -> dict:
    parameters = production()
    return (
        parse_task(parameters).columns()
        | {"task_parameters": parameters, "merge_ram_unit": None, "use_jumbo": None}
        | changes
    )


def test_a_task_that_is_as_submitted_has_no_changed_columns() -> None:
    assert changed_columns(a_row(event_service=0)) == {}


def test_columns_that_scouts_measured_or_a_command_cleared_are_told() -> None:
    row = a_row(event_service=0, ram_count=1700, site="CERN", core_count=None)
    assert changed_columns(row) == {"ram_count": 1700, "site": "CERN", "core_count": None}


def test_every_column_is_told_where_the_parameters_are_valid_no_more() -> None:
    row = a_row(event_service=0, task_parameters={"taskName": 5})
    assert changed_columns(row)["ram_count"] == 1000
