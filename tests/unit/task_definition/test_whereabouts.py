from __future__ import annotations

import pytest

from services.task_definition.tasks.policy.input_read import Whereabouts, whereabouts
from shared.model.storage import Storage


def a_storage(name: str, *, is_tape: bool = False) -> Storage:
    return Storage(name, "S", "TAPE" if is_tape else "DATADISK", is_tape, 1.0, 1.0, 0.0, 0.0, 0.0)


GRID = {"DISK": a_storage("DISK"), "TAPE": a_storage("TAPE", is_tape=True)}


@pytest.mark.parametrize(
    ("copies", "needs_disk", "expected"),
    [
        ({}, False, Whereabouts(True, [])),
        ({"DISK": True}, True, Whereabouts(True, [])),
        ({"DISK": False}, False, Whereabouts(False, [])),
        ({"TAPE": True}, False, Whereabouts(True, [])),
        ({"TAPE": True}, True, Whereabouts(False, ["TAPE"])),
        ({"TAPE": True, "DISK": False}, True, Whereabouts(False, ["TAPE"])),
        ({"ATLANTIS": True}, False, Whereabouts(False, ["ATLANTIS"])),
        ({"ATLANTIS": True, "DISK": True}, False, Whereabouts(True, ["ATLANTIS"])),
    ],
)
def test_copies_count_where_the_grid_can_read_them(
    copies: dict[str, bool], needs_disk: bool, expected: Whereabouts
) -> None:
    assert whereabouts(copies, GRID, needs_disk=needs_disk) == expected


def test_without_a_grid_every_storage_counts() -> None:
    assert whereabouts({"ATLANTIS": True}, {}, needs_disk=True) == Whereabouts(True, [])
